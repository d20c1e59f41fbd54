"""Logarithms of normal tail probabilities and of sums of many of them: certified (lower, upper) at any magnitude.

The floating-point model is the package's: IEEE double precision, elementary functions within 4 units in the last place,
`scipy.special.erfcx` within 16 (docs/lattice.md, section 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

#: Unit roundoff.
UNIT = 2.0**-53
#: Relative error of an elementary function: 4 units in the last place, of 2^-52 each.
ELEMENTARY = 8.0 * UNIT
#: Relative error of erfcx(z / sqrt(2)) for z >= -1: 16 units in the last place and the rounding of its argument.
_SCALED = 40.0 * UNIT
#: Beyond this the square of z is close to the largest double.
_FARTHEST = 1e150
#: Room for underflow in quantities that are otherwise of order 1.
_TINY = 1e-300
_LOG_2 = math.log(2.0)


@dataclass(frozen=True, slots=True)
class Sides:
    """(lower, upper) of a number, at many places."""

    lower: FloatArray
    upper: FloatArray

    @property
    def middle(self) -> FloatArray:
        """Some number between them, to steer by."""
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(self.lower), self.upper, 0.5 * (self.lower + self.upper))


def log_normal_tail(z: FloatArray, z_error: FloatArray) -> Sides:
    """log P(N(0, 1) > z) for a z that is itself off by up to z_error; z may be infinite (T-1)."""
    from scipy.special import erfcx  # not before it is needed: a third of a second

    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        far_left = z < -1.0
        y = np.minimum(np.where(far_left, -z, z), _FARTHEST)
        scaled = np.log(erfcx(y * math.sqrt(0.5)))
        square = 0.5 * y * y
        value = scaled - square - _LOG_2
        # The hazard rate at y >= -1 is at most max(y, 0) + 1, and grows by at most the displacement.
        error = (np.maximum(y, 0.0) + 1.0 + z_error) * z_error
        error += UNIT * (2.0 * square + 2.0 * np.abs(value)) + _SCALED + ELEMENTARY * (np.abs(scaled) + 1.0)
        lower = np.where(z > _FARTHEST, -np.inf, value - error)
        upper = value + error
        # For z < -1 the probability is 1 - s, s = P(N > -z) <= 0.16, off by a factor of at most e where error <= 1.
        s = np.exp(value)
        room = 2.0 * s * (np.expm1(np.minimum(error, 1.0)) + 2.0 * ELEMENTARY) + _TINY
        complement = np.log1p(-s)
        room += ELEMENTARY * np.abs(complement)
        # Where the displacement is too large for that: P(N > w) >= exp(-(w + 1)^2 - 1) for w >= 0.
        lost = np.where(z + z_error < -50.0, -_TINY, -((np.maximum(z + z_error, 0.0) + 1.0) ** 2) - 1.0)
        lower = np.where(far_left, np.where(error <= 1.0, complement - room, lost), lower)
        upper = np.where(far_left, np.where(error <= 1.0, complement + room, 0.0), upper)
        infinite = np.isinf(z)
        certain = np.where(z > 0.0, -np.inf, 0.0)
        return Sides(np.where(infinite, certain, lower), np.minimum(np.where(infinite, certain, upper), 0.0))


def log_sum(terms: Sides) -> Sides:
    """log sum_i exp(terms_i) along the last axis (T-2)."""
    return Sides(_log_sum(terms.lower, -1.0), _log_sum(terms.upper, 1.0))


def _log_sum(terms: FloatArray, sign: float) -> FloatArray:
    count = terms.shape[-1]
    top = np.max(terms, axis=-1)
    shown = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(under="ignore", divide="ignore", invalid="ignore", over="ignore"):
        total = _sum(np.exp(terms - shown[..., None]))
        value = shown + np.log(total)
        roundings = 2.0 * math.sqrt(count) + 4.0 + 2.0 * math.log(count)
        room = UNIT * (roundings + 2.0 * np.abs(shown) + 2.0 * np.abs(value))
        room += ELEMENTARY * (2.0 + math.log(count)) + _TINY * count
        return np.asarray(np.where(np.isfinite(top), value + sign * room, top))


def _sum(values: FloatArray) -> FloatArray:
    """The sum along the last axis in blocks of about sqrt(n): relative error below 2 (sqrt(n) + 2) roundings."""
    count = values.shape[-1]
    if count <= 16:
        return np.asarray(values.sum(axis=-1))
    starts = np.arange(0, count, math.isqrt(count) + 1)
    return np.asarray(np.add.reduceat(values, starts, axis=-1).sum(axis=-1))
