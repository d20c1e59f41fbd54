"""Where to cross the real axis: a scan of the cumulant function K(c) = sum_j T_j log G_j on a grid of tilts.

Only `upper` is used in proofs; the rest chooses the contour, and a poor choice costs width, never validity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from groupdp.engines.interface import Direction
from groupdp.engines.spectral.moments import Quadrature, plan
from groupdp.engines.spectral.rounds import FloatArray, Round
from groupdp.engines.spectral.small_loss import excess_moment, identity_error
from groupdp.engines.spectral.tilted import exponents_of
from groupdp.errors import LimitExceeded

#: Number of tilts in a scan; neighbours differ by a factor of about 1.2.
_TILTS = 56
_SMALLEST_TO_LARGEST = 3e-5
#: Tilts beyond this are refused.
LARGEST_TILT = 1e17
#: With more rounds than this, K is summed from second-order terms.
_MANY_ROUNDS = 1e5


@dataclass(frozen=True, slots=True)
class Scan:
    """K and its first two derivatives at increasing tilts; `upper` bounds K from above."""

    tilt: FloatArray
    k: FloatArray
    mean: FloatArray  # K'
    variance: FloatArray  # K''
    upper: FloatArray

    def log_kappa(self) -> FloatArray:
        """log of c^c / (1 + c)^{1 + c}: delta(eps) <= kappa(c) e^{K(c) - c eps}."""
        return log_kappa(self.tilt)

    def log_delta_ceiling(self, epsilon: float) -> float:
        """Chernoff: a rigorous upper bound on log delta(epsilon)."""
        return float(np.min(self.log_kappa() + self.upper - self.tilt * epsilon)) + 1e-9

    def epsilon_ceiling(self, log_delta: float) -> float:
        """Chernoff: delta(epsilon) <= e^log_delta at (and beyond) this epsilon, rigorously."""
        return float(np.min((self.log_kappa() + self.upper - log_delta + 1e-9) / self.tilt)) * (1.0 + 1e-12)

    def log_delta_guess(self) -> tuple[FloatArray, FloatArray]:
        """(epsilon, log delta) by the saddle-point approximation, with the saddle at each tilt."""
        c = self.tilt
        epsilon = self.mean - 1.0 / c - 1.0 / (1.0 + c)
        curvature = self.variance + 1.0 / c**2 + 1.0 / (1.0 + c) ** 2
        level = self.k - c * epsilon - np.log(c) - np.log1p(c) - 0.5 * np.log(2.0 * math.pi * curvature)
        return epsilon, level


def log_kappa(tilt: FloatArray) -> FloatArray:
    """c log c - (1 + c) log(1 + c), written so that large c does not cancel."""
    return np.asarray(-tilt * np.log1p(1.0 / tilt) - np.log1p(tilt))


def scan(rounds: tuple[Round, ...], direction: Direction, largest_tilt: float) -> Scan:
    """K on a geometric grid of tilts up to `largest_tilt`."""
    if largest_tilt > LARGEST_TILT:
        raise LimitExceeded(f"the contour would need a tilt of {largest_tilt:g}, more than {LARGEST_TILT:g}.")
    tilt = largest_tilt * np.geomspace(_SMALLEST_TO_LARGEST, 1.0, _TILTS)
    k, mean, variance, upper = (np.zeros(_TILTS) for _ in range(4))
    for one in rounds:
        exponents = exponents_of(direction, tilt)
        # Relative error of G well below 1 / T: it enters K multiplied by T.
        tolerance = -12.0 - math.log(one.count) - math.log1p(largest_tilt)
        quadrature = plan(one, exponents, frequency=0.0, log_tolerance=tolerance, with_identity=one.count > _MANY_ROUNDS)
        terms = np.multiply.outer(exponents, quadrature.table.psi)
        terms += quadrature.log_weight
        top = terms.max(axis=1)
        np.exp(terms - top[:, None], out=terms)
        total = terms.sum(axis=1)
        terms /= total[:, None]
        log_moment = top + np.log(total)
        loss = quadrature.table.psi if direction == "remove" else -quadrature.table.psi
        first = terms @ loss
        log_error = quadrature.log_error(exponents, log_moment)
        usable = log_error < -1.0
        rounding = np.abs(exponents) * float(np.max(quadrature.table.psi_error)) + 1e-13
        log_upper = np.where(usable, log_moment - np.log1p(-np.exp(np.where(usable, log_error, -1.0))) + rounding, np.inf)
        if one.count > _MANY_ROUNDS:
            log_moment, log_upper = _small_loss(quadrature, exponents, direction, tilt, log_moment, log_upper)
        k += one.count * log_moment
        mean += one.count * first
        variance += one.count * np.maximum(terms @ np.square(loss) - first * first, 1e-30 * first * first)
        upper += one.count * log_upper
    upper += 1e-12 * np.abs(upper)
    return Scan(tilt, k, mean, variance, upper)


def _small_loss(
    quadrature: Quadrature,
    exponents: FloatArray,
    direction: Direction,
    tilt: FloatArray,
    log_moment: FloatArray,
    log_upper: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """log G and its upper bound from second-order terms, where the loss is small."""
    excess, error = excess_moment(quadrature.table, quadrature.log_weight, direction, tilt)
    small = np.isfinite(excess) & np.isfinite(error) & (log_moment < 0.5)
    quadrature_error = np.exp(quadrature.log_error(exponents, log_moment) + log_moment)
    quadrature_error += (1.0 + tilt) * identity_error(quadrature)
    excess, error = (np.where(small, array, 0.0) for array in (excess, error))
    upper = np.log1p(excess + 1.01 * (error + quadrature_error)) * (1.0 + 1e-12)
    return np.where(small, np.log1p(excess), log_moment), np.where(small, upper, log_upper)
