"""The floating-point model that every certified bound rests on (L-21); normal tails and sums of logarithms in it.

IEEE double precision, round to nearest; NumPy's elementary functions within 4 units in the last place,
`scipy.special.erfcx` within 16; an FFT of length 2^a, 3 x 2^a or 5 x 2^a that is a Cooley-Tukey factorisation (NumPy's
is). Logarithms of normal tail probabilities, and of sums of many of them, have certified (lower, upper) at any
magnitude.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Value = TypeVar("Value")

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
#: Unit roundoff: a single operation is off by at most this, relatively.
UNIT = 2.0**-53
#: Relative error of an elementary function: 4 units in the last place, of 2^-52 each.
ELEMENTARY = 8.0 * UNIT
#: Relative error of the Mills ratio, and of erfcx(z / sqrt(2)) for z >= -1: 16 units in the last place of erfcx, then
#: the roundings of argument and factor.
MILLS = 40.0 * UNIT
#: Relative error of a complex product (Brent, Percival and Zimmermann 2007: sqrt(5) units), rounded up.
COMPLEX_PRODUCT = 2.5 * UNIT
#: Absolute room for underflow: far above the smallest normal double, far below anything that matters.
TINY = 1e-290


def fft_error(length: int) -> float:
    """Error of any output of a transform of length 2^a 3^b 5^c, relative to the sum of the inputs' moduli (L-21)."""
    if length < 2 or length // (length & -length) not in (1, 3, 5):
        raise AssertionError("the length must be 2^a, 3 x 2^a or 5 x 2^a")
    return 8.0 * math.log2(length) * UNIT


def fft_error_in_norm(length: int) -> float:
    """Error of a transform of length 2^a 3^b 5^c in the Euclidean norm, relative to its exact output (L-21)."""
    return 1.5 * fft_error(length)


#: Beyond this the square of z is close to the largest double.
_FARTHEST = 1e150
#: Room for underflow in quantities that are otherwise of order 1.
_SMALL_ROOM = 1e-300
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
        error += UNIT * (2.0 * square + 2.0 * np.abs(value)) + MILLS + ELEMENTARY * (np.abs(scaled) + 1.0)
        lower = np.where(z > _FARTHEST, -np.inf, value - error)
        upper = value + error
        # For z < -1 the probability is 1 - s, s = P(N > -z) <= 0.16, off by a factor of at most e where error <= 1.
        s = np.exp(value)
        room = 2.0 * s * (np.expm1(np.minimum(error, 1.0)) + 2.0 * ELEMENTARY) + _SMALL_ROOM
        complement = np.log1p(-s)
        room += ELEMENTARY * np.abs(complement)
        # Where the displacement is too large for that: P(N > w) >= exp(-(w + 1)^2 - 1) for w >= 0.
        lost = np.where(z + z_error < -50.0, -_SMALL_ROOM, -((np.maximum(z + z_error, 0.0) + 1.0) ** 2) - 1.0)
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
        room += ELEMENTARY * (2.0 + math.log(count)) + _SMALL_ROOM * count
        return np.asarray(np.where(np.isfinite(top), value + sign * room, top))


def log_sum_exp(values: FloatArray) -> float:
    """log sum exp(values), within 1e-9 of itself (callers leave room)."""
    top = float(values.max())
    if top == -math.inf:
        return -math.inf
    with np.errstate(under="ignore"):
        return top + math.log(float(np.sum(np.exp(values - top))))


def _sum(values: FloatArray) -> FloatArray:
    """The sum along the last axis in blocks of about sqrt(n): relative error below 2 (sqrt(n) + 2) roundings."""
    count = values.shape[-1]
    if count <= 16:
        return np.asarray(values.sum(axis=-1))
    starts = np.arange(0, count, math.isqrt(count) + 1)
    return np.asarray(np.add.reduceat(values, starts, axis=-1).sum(axis=-1))


def normal_tail(z: float) -> float:
    """P(N(0, 1) > z), about."""
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def bisected(is_low: Callable[[float], bool], low: float, high: float, steps: int) -> tuple[float, float]:
    """The ends of the interval after so many halvings around where `is_low` turns false; not certified."""
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return low, high


def composed(base: Value, times: int, product: Callable[[Value, Value], Value]) -> Value:
    """`times` >= 1 copies of `base`, multiplied by repeated squaring."""
    if times < 1:
        raise AssertionError("a power must be at least 1")
    result: Value | None = None
    while True:
        if times & 1:
            result = base if result is None else product(result, base)
        times >>= 1
        if times == 0 and result is not None:
            return result
        base = product(base, base)


def at_zero_of(log_weights: Sequence[float], masses: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """(log P(0), log Q(0), largest loss at outcome 0) of a coin over branches with these (log P(0), log Q(0))."""
    if len(masses) == 1:
        p, q = masses[0]
        return p, q, p - q if p > -math.inf else 0.0
    p = log_total(log_weights, [a for a, _ in masses])
    q = log_total(log_weights, [b for _, b in masses])
    return p, q, max((a - b for a, b in masses if a > -math.inf), default=0.0)


def log_total(log_weights: Sequence[float], logarithms: Sequence[float]) -> float:
    """log of sum w e^log, the weights w summing to 1, to a few units in its last place.

    Where the sum is above one half it is 1 - sum w (1 - e^log): of what is next to 1, the sum of the terms would have
    lost the distance from 1, which is what is revealed.
    """
    missing = math.fsum(
        math.exp(weight) * -math.expm1(value) for weight, value in zip(log_weights, logarithms, strict=True)
    )
    if missing < 0.5:
        return math.log1p(-missing)
    terms = [weight + value for weight, value in zip(log_weights, logarithms, strict=True)]
    largest = max(terms)
    if largest == -math.inf:
        return largest
    return min(largest + math.log(math.fsum(math.exp(value - largest) for value in terms)), 0.0)


def log_complement(logarithm: float) -> float:
    """log of (1 - e^logarithm)_+, to a few units in the last place."""
    if logarithm >= 0.0:
        return -math.inf
    return math.log(-math.expm1(logarithm)) if logarithm > -1.0 else math.log1p(-math.exp(logarithm))
