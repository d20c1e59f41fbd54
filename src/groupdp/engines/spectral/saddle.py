"""Where to cross the real axis: a scan of the cumulant function K(c) = sum_j T_j log G_j on a grid of tilts.

Only `upper` is used in proofs; the rest chooses the contour, and a poor choice costs width, never validity.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from groupdp.engines.interface import Direction
from groupdp.engines.spectral.moments import Quadrature, plan
from groupdp.engines.spectral.ratio import U
from groupdp.engines.spectral.rounds import FloatArray, Round
from groupdp.engines.spectral.small_loss import excess_moment, identity_error
from groupdp.engines.spectral.tilted import exponents_of
from groupdp.errors import LimitExceeded

#: Tilts of a first scan: from largest * 3e-5 to largest, neighbours differing by a factor of about 1.4.
_FIRST_TILTS = np.geomspace(3e-5, 1.0, 30)
#: Tilts strictly between two neighbours in a refinement.
_BETWEEN = np.linspace(0.0, 1.0, 13)[1:-1]
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


class Scanner:
    """Quadratures good for every tilt up to `largest`."""

    def __init__(self, rounds: tuple[Round, ...], direction: Direction, largest: float) -> None:
        if largest > LARGEST_TILT:
            raise LimitExceeded(f"the contour would need a tilt of {largest:g}, more than {LARGEST_TILT:g}.")
        self.direction = direction
        self.first_tilts = largest * _FIRST_TILTS
        extremes = exponents_of(direction, self.first_tilts[[0, -1]])
        self.quadratures = tuple(
            plan(
                one,
                extremes,
                frequency=0.0,
                # Relative error of G well below 1 / T: it enters K multiplied by T.
                log_tolerance=-12.0 - math.log(one.count) - math.log1p(largest),
                with_identity=one.count > _MANY_ROUNDS,
            )
            for one in rounds
        )

    def scan(self, tilt: FloatArray) -> Scan:
        """K at the given increasing tilts."""
        size = len(tilt)
        k, mean, variance, upper = (np.zeros(size) for _ in range(4))
        exponents = exponents_of(self.direction, tilt)
        for quadrature in self.quadratures:
            count, psi = quadrature.one_round.count, quadrature.table.psi
            terms = np.multiply.outer(exponents, psi)
            terms += quadrature.log_weight
            top = terms.max(axis=1)
            terms -= top[:, None]
            np.exp(terms, out=terms)
            moments = terms @ np.column_stack((np.ones_like(psi), psi, psi * psi))
            log_moment = top + np.log(moments[:, 0])
            first, second = moments[:, 1] / moments[:, 0], moments[:, 2] / moments[:, 0]
            log_error = quadrature.log_error(exponents, log_moment)
            usable = log_error < -1.0
            # Rounding: that of Psi times the exponent, of the weight (its normal tail included), and of the sum.
            slack = np.abs(exponents) * float((quadrature.table.psi_error + 4.0 * U * np.abs(psi)).max())
            slack += 32.0 * U * float(np.abs(quadrature.log_weight).max()) + (len(psi) + 10.0) * U + 1e-12
            slack -= np.log1p(-np.exp(np.where(usable, log_error, -1.0)))
            log_upper = np.where(usable, log_moment + slack, np.inf)
            if count > _MANY_ROUNDS:
                log_moment, log_upper = _small_loss(quadrature, exponents, self.direction, tilt, log_moment, log_upper)
            k += count * log_moment
            mean += count * (first if self.direction == "remove" else -first)
            variance += count * np.maximum(second - first * first, 1e-30 * second)
            upper += count * log_upper
        upper += 1e-12 * np.abs(upper)
        return Scan(tilt, k, mean, variance, upper)

    def refine(self, scan: Scan, low: int, high: int) -> Scan:
        """The scan with more tilts between the positions `low` and `high`."""
        edges = np.log(scan.tilt[low : high + 1])
        tilts = np.exp(np.concatenate([x + (y - x) * _BETWEEN for x, y in itertools.pairwise(edges)]))
        return self.extend(scan, tilts)

    def extend(self, scan: Scan, tilts: FloatArray) -> Scan:
        """The scan with more tilts; none beyond what the quadratures were planned for."""
        return _merge(scan, self.scan(tilts[tilts <= self.first_tilts[-1]]))


def _merge(one: Scan, other: Scan) -> Scan:
    order = np.argsort(np.concatenate((one.tilt, other.tilt)))
    return Scan(
        *(
            np.concatenate((getattr(one, name), getattr(other, name)))[order]
            for name in ("tilt", "k", "mean", "variance", "upper")
        )
    )


@dataclass(frozen=True, slots=True)
class Saddle:
    """Where the contour should cross: the tilt, with what is expected there."""

    tilt: float
    epsilon: float
    log_delta: float
    scan: Scan
    scanner: Scanner


def saddle_for_epsilon(
    rounds: tuple[Round, ...], direction: Direction, epsilon: float, mean: float, deviation: float
) -> Saddle:
    """The tilt that minimises K(c) - c epsilon - log c - log(1 + c); mean and deviation of the loss only guide."""
    largest = 2.0 * max(epsilon - mean, 0.0) / deviation**2 + 24.0 / deviation
    while True:
        scanner = Scanner(rounds, direction, largest)
        found = scanner.scan(scanner.first_tilts)
        best = int(np.argmin(_height(found, epsilon)))
        if best < len(found.tilt) - 1 and _leaves_room(found, best):
            break
        largest *= 4.0
    for _ in range(4):
        low, high = max(best - 1, 0), min(best + 1, len(found.tilt) - 1)
        found = scanner.refine(found, low, high)
        height = _height(found, epsilon)
        best = int(np.argmin(height))
        if max(height[max(best - 1, 0)], height[min(best + 1, len(height) - 1)]) - height[best] < 0.1:
            break
    c = float(found.tilt[best])
    curvature = float(found.variance[best]) + 1.0 / c**2 + 1.0 / (1.0 + c) ** 2
    log_delta = float(height[best]) - 0.5 * math.log(2.0 * math.pi * curvature)
    return Saddle(c, epsilon, min(log_delta, 0.0), found, scanner)


def first_scan_for_delta(
    rounds: tuple[Round, ...], direction: Direction, log_delta: float, deviation: float
) -> tuple[Scanner, Scan]:
    """A scan that reaches beyond the tilt at which delta falls below e^log_delta."""
    largest = (2.0 * math.sqrt(2.0 * max(-log_delta, 0.0)) + 24.0) / deviation
    while True:
        scanner = Scanner(rounds, direction, largest)
        found = scanner.scan(scanner.first_tilts)
        beyond = np.flatnonzero(found.log_delta_guess()[1] <= log_delta)
        if len(beyond) and _leaves_room(found, int(beyond[0])):
            return scanner, found
        largest *= 4.0


def saddle_for_delta(scanner: Scanner, found: Scan, log_delta: float) -> Saddle:
    """The tilt whose saddle-point approximation gives e^log_delta; epsilon <= 0 if that is reached at 0."""
    # Along increasing tilts epsilon rises and log delta falls.
    epsilons, levels = found.log_delta_guess()
    for _ in range(4):
        after = int(np.flatnonzero(levels <= log_delta)[0])
        if after == 0:
            return Saddle(float(found.tilt[0]), 0.0, log_delta, found, scanner)
        if levels[after - 1] - levels[after] < 1.5:
            break
        found = scanner.refine(found, after - 1, after)
        epsilons, levels = found.log_delta_guess()
    after = max(int(np.flatnonzero(levels <= log_delta)[0]), 1)
    drop = levels[after - 1] - levels[after]
    share = float(np.clip((levels[after - 1] - log_delta) / drop, 0.0, 1.0)) if drop > 0.0 else 1.0
    tilt = (1.0 - share) * float(found.tilt[after - 1]) + share * float(found.tilt[after])
    guess = (1.0 - share) * float(epsilons[after - 1]) + share * float(epsilons[after])
    return Saddle(tilt, guess, log_delta, found, scanner)


def _height(scan: Scan, epsilon: float) -> FloatArray:
    """log |integrand| on the real axis."""
    return scan.k - scan.tilt * epsilon - np.log(scan.tilt) - np.log1p(scan.tilt)


def _leaves_room(scan: Scan, index: int) -> bool:
    """Whether the scan reaches far enough beyond a tilt to bound the aliases on the right."""
    return bool(scan.tilt[index] + 14.0 / math.sqrt(float(scan.variance[index])) <= scan.tilt[-1])


def loss_scale(rounds: tuple[Round, ...], direction: Direction) -> tuple[float, float]:
    """Mean and standard deviation of the composed loss under P, roughly."""
    mean = variance = 0.0
    exponents = exponents_of(direction, np.zeros(1))
    for one in rounds:
        quadrature = plan(one, exponents, frequency=0.0, log_tolerance=-12.0, with_identity=False)
        weight = np.exp(quadrature.log_weight + exponents[0] * quadrature.table.psi)
        weight /= weight.sum()
        loss = quadrature.table.psi if direction == "remove" else -quadrature.table.psi
        first = float(weight @ loss)
        mean += one.count * first
        variance += one.count * float(weight @ np.square(loss - first))
    deviation = math.sqrt(variance)
    if not deviation > 1e-140:
        raise LimitExceeded(f"the standard deviation of the loss, {deviation:g}, is too small for the spectral engine.")
    return mean, deviation


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
    relative_error = quadrature.log_error(exponents, log_moment)
    small &= relative_error < -1.0
    quadrature_error = np.exp(np.where(small, relative_error + log_moment, 0.0))
    quadrature_error += (1.0 + tilt) * identity_error(quadrature)
    if quadrature.one_round.thinning is not None:
        quadrature_error += 2.0 * (1.0 + tilt) * math.exp(quadrature.one_round.thinning.log_discarded)
    excess, error = (np.where(small, array, 0.0) for array in (excess, error))
    upper = np.log1p(excess + 1.01 * (error + quadrature_error)) * (1.0 + 1e-12)
    return np.where(small, np.log1p(excess), log_moment), np.where(small, upper, log_upper)
