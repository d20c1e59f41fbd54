"""G(a) = E[R(U)^a], U standard normal, by the trapezoid rule: step, range and the proved error of both.

Sections 3 and 4 of docs/numerics.md. All errors are relative to G(a) and hold for the complex moments
G(a + i s), |s| <= S, as well: |G(a + i s)| is an integral of phi R^a against a unimodular factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from groupdp.engines.spectral.ratio import RatioTable, U, short, tabulate
from groupdp.engines.spectral.rounds import FloatArray, Round
from groupdp.engines.spectral.thinning import HALF_LOG_2PI
from groupdp.errors import LimitExceeded

#: Most nodes of a quadrature, and most entries (nodes x components) of a table of likelihood ratios.
LARGEST_QUADRATURE = 150_000
LARGEST_TABLE = 40_000_000
#: Largest u^2 and m (|u| + m): the rounding of an exponent then stays below 1e-3.
LARGEST_EXPONENT = 1e12
#: Nodes are exact for indices up to this (see `short`), with room for the ends being rounded outward.
EXACT_MULTIPLES = 2.0**32
_ROOT_2PI = math.sqrt(2.0 * math.pi)
#: Strips tried, as fractions of the widest.
_STRIPS = np.linspace(0.02, 1.0, 50)


@dataclass(frozen=True, slots=True)
class Quadrature:
    """A uniform grid of nodes for one round, good for the exponents it was planned for."""

    one_round: Round
    step: float
    strip: float  # half-width d of the strip of analyticity that the error bound uses
    table: RatioTable
    log_weight: FloatArray  # log(step * phi(u) * chi(u)), chi = 1 without thinning

    def log_error(self, exponents: FloatArray, log_moments: FloatArray, frequency: float = 0.0) -> FloatArray:
        """log of bounds on |trapezoid - G(a + i s)| / G(a) for all |s| <= frequency, for each exponent a.

        `log_moments` are the logarithms of the trapezoid sums.
        """
        discretisation = log_discretisation_error(
            self.one_round, step=self.step, strip=self.strip, exponents=exponents, frequency=frequency
        )
        tails = log_tails(self.one_round, self.table, self.step, exponents) - log_moments
        # Relative to the trapezoid sum; the 0.7 > log 2 turns that into relative to G where it is below 1/2.
        return np.asarray(np.logaddexp(discretisation, tails) + 0.7)


def plan(
    one_round: Round, exponents: FloatArray, *, frequency: float, log_tolerance: float, with_identity: bool
) -> Quadrature:
    """A grid on which every exponent (all >= 1, or all <= 0) has relative error about e^log_tolerance.

    `with_identity` also covers the exponents 0 and 1, for sums that use E[R] = 1.
    """
    smallest = float(min(exponents.min(), 0.0))
    strip, step = _strip_and_step(one_round, exponent=smallest, frequency=frequency, log_tolerance=log_tolerance)
    low, high = _range(one_round, exponents, log_tolerance)
    if with_identity:
        for exponent in (0.0, 1.0):
            more = _range(one_round, np.array([exponent]), log_tolerance)
            low, high = min(low, more[0]), max(high, more[1])
    reach, shift = max(-low, high), one_round.largest_shift
    largest = max(reach * reach, shift * (reach + shift))
    if not (low < high and largest <= LARGEST_EXPONENT and reach <= EXACT_MULTIPLES * step):
        raise LimitExceeded(
            f"the quadrature would reach from {low:g} to {high:g} deviations with shifts up to {shift:g}: "
            f"exponents beyond the limit of {LARGEST_EXPONENT:g}, or nodes that are not exact."
        )
    first = math.floor(low / step)
    count = math.ceil(high / step) - first + 1
    if count > LARGEST_QUADRATURE or count * len(one_round.m) > LARGEST_TABLE:
        raise LimitExceeded(
            f"the quadrature would need {count} nodes for {len(one_round.m)} components, more than the limits of "
            f"{LARGEST_QUADRATURE} nodes and {LARGEST_TABLE} entries."
        )
    u = step * np.arange(first, first + count, dtype=np.float64)
    table = tabulate(one_round, u)
    log_weight = math.log(step) - HALF_LOG_2PI - 0.5 * u * u
    if one_round.thinning is not None:
        log_weight += one_round.thinning.log_keep(u)
    return Quadrature(one_round, step, strip, table, log_weight)


def log_discretisation_error(
    one_round: Round, *, step: float, strip: float, exponents: FloatArray, frequency: float
) -> FloatArray:
    """log of (M_+ + M_-) / (e^{2 pi d / h} - 1) / G(a): the trapezoid rule on a strip of half-width d.

    On the lines Im u = +-d, with A = (largest shift - smallest shift) d / 2 < pi / 2:
    cos(A) R(Re u) <= |R(u)| <= R(Re u), and arg R(u) lies between 0 and +-(largest shift) d. Hence
    M_+ <= e^{d^2/2} cos(A)^{min(a,0)} G(a) and M_- is e^{|s| (largest shift) d} times that (section 3). Thinning
    multiplies both by e^{d^2 / (2 w^2)}.
    """
    narrowing = float(_log_cosine(np.asarray(0.5 * one_round.span * strip)))
    growth = 0.5 * _stiffness(one_round) * strip * strip + np.minimum(exponents, 0.0) * narrowing
    lines = float(np.logaddexp(0.0, frequency * one_round.largest_shift * strip))
    decay = 2.0 * math.pi * strip / step
    return growth + (lines - decay - (math.log1p(-math.exp(-decay)) if decay < 40.0 else 0.0))


def _log_cosine(angle: FloatArray) -> FloatArray:
    """log(cos(A)) without the rounding of 1: the exponents that multiply it may be as large as 1e17."""
    return np.asarray(0.5 * np.log1p(-np.square(np.sin(angle))))


def _stiffness(one_round: Round) -> float:
    """1 + 1 / w^2: the curvature of -log(phi chi) beyond the edge of the thinning, 1 without."""
    return 1.0 if one_round.thinning is None else 1.0 + one_round.thinning.width**-2


def _strip_and_step(
    one_round: Round, *, exponent: float, frequency: float, log_tolerance: float
) -> tuple[float, float]:
    """The strip that allows the largest step."""
    stiffness = _stiffness(one_round)
    widest = 12.0 / math.sqrt(stiffness)
    if one_round.span > 0.0:
        widest = min(widest, 0.98 * math.pi / one_round.span)
    strips = widest * _STRIPS
    growth = 0.5 * stiffness * strips * strips + min(exponent, 0.0) * _log_cosine(0.5 * one_round.span * strips)
    needed = growth + frequency * one_round.largest_shift * strips + 1.0 - log_tolerance
    steps = 2.0 * math.pi * strips / needed
    best = int(np.argmax(steps))
    return float(strips[best]), short(float(steps[best]))


def _range(one_round: Round, exponents: FloatArray, log_tolerance: float) -> tuple[float, float]:
    """Where phi chi R^a is not negligible, for every exponent."""
    if exponents[0] <= 0.0:
        # log(phi R^a) is concave with second derivative at most -1.
        width = math.sqrt(2.0 * (2.0 - log_tolerance))
        peaks = [_concave_peak(one_round, float(exponent)) for exponent in (exponents.min(), exponents.max())]
        return min(peaks) - width, max(peaks) + width
    by_slope = _range_by_slope(one_round, exponents, log_tolerance)
    by_power_mean = _range_by_power_mean(one_round, exponents, log_tolerance)
    return max(by_slope[0], by_power_mean[0]), min(by_slope[1], by_power_mean[1])


def _range_by_slope(one_round: Round, exponents: FloatArray, log_tolerance: float) -> tuple[float, float]:
    """For a >= 1: the slope of Psi lies between the smallest and the largest shift."""
    room = 2.0 - log_tolerance
    lowest = float(exponents.min()) * float(one_round.m[0])
    if one_round.thinning is not None:
        lowest = min(lowest, one_round.thinning.edge)  # beyond the edge there is nothing to peak
    low = lowest - math.sqrt(2.0 * room)
    steepest = float(exponents.max()) * one_round.largest_shift
    high = steepest + math.sqrt(2.0 * room)
    if one_round.thinning is not None:
        # From the edge on, log(phi chi R^a) rises at most like (steepest - edge) t - stiffness t^2 / 2.
        stiffness, excess = _stiffness(one_round), steepest - one_round.thinning.edge
        beyond = (excess + math.sqrt(excess * excess + 2.0 * stiffness * room)) / stiffness
        high = min(high, one_round.thinning.edge + beyond)
    return low, high


def _range_by_power_mean(one_round: Round, exponents: FloatArray, log_tolerance: float) -> tuple[float, float]:
    """For a >= 1: sum t_i^a <= (sum t_i)^a <= n^{a-1} sum t_i^a, where t_i^a phi is a Gaussian around a m_i."""
    m, log_p = one_round.m, one_round.log_p
    a = exponents[:, None]
    slope = a * m
    peak, crest, stiffness = slope, 0.5 * slope * slope, np.ones_like(slope)
    if one_round.thinning is not None:
        edge, inverse = one_round.thinning.edge, one_round.thinning.width**-2
        beyond = slope > edge
        peak = np.where(beyond, (slope + edge * inverse) / (1.0 + inverse), peak)
        thinned = np.where(beyond, 0.5 * inverse * np.square(peak - edge), 0.0)
        crest = slope * peak - 0.5 * peak * peak - thinned
        stiffness = np.where(beyond, 1.0 + inverse, stiffness)
    heights = a * log_p - 0.5 * a * m * m + crest
    heights -= heights.max(axis=1, keepdims=True)
    room = heights + (a - 1.0) * math.log(len(m)) + 2.0 - log_tolerance
    matters = room > 0.0
    room = np.maximum(room, 0.0)
    # To the left of the edge the curvature is 1: there the Gaussian around a m_i has fallen by `room` below the crest.
    left = slope - np.sqrt(np.maximum(slope * slope - 2.0 * (crest - room), 0.0))
    right = peak + np.sqrt(2.0 * room / stiffness)
    return float(np.where(matters, left, np.inf).min()), float(np.where(matters, right, -np.inf).max())


def _concave_peak(one_round: Round, exponent: float) -> float:
    """Where a Psi'(u) = u, for a <= 0: bisection with Newton steps on a decreasing function."""
    if exponent == 0.0:
        return 0.0
    low, high = exponent * one_round.largest_shift, 0.0
    u = 0.5 * low
    for _ in range(60):
        weights = np.exp(one_round.log_p + one_round.m * u - 0.5 * one_round.m**2 - _log_sum(one_round, u))
        slope = float(weights @ one_round.m)
        variance = max(float(weights @ one_round.m**2) - slope * slope, 0.0)
        value = exponent * slope - u
        if value > 0.0:
            low = u
        else:
            high = u
        following = u - value / (exponent * variance - 1.0)
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(following - u) < 0.05:
            return following
        u = following
    return u


def _log_sum(one_round: Round, u: float) -> float:
    return float(np.logaddexp.reduce(one_round.log_p + one_round.m * u - 0.5 * one_round.m**2))


def slope_error(one_round: Round, u: float) -> float:
    """Relative error of a slope: that of the terms' exponents, twice, for the terms and for their sum."""
    largest, rarest = one_round.largest_shift, float(np.max(np.abs(one_round.log_p)))
    return 4.0 * U * (24.0 * (largest * (abs(u) + largest) + rarest) + 30.0 * len(one_round.m) + 40.0)


def log_tails(one_round: Round, table: RatioTable, step: float, exponents: FloatArray) -> FloatArray:
    """log of bounds on the part of the (infinite) trapezoid sum of phi R^a outside the nodes (section 4)."""
    a, m = exponents, one_round.m
    positive = a > 0.0
    # a <= 0: Psi is convex and lies above its tangents. a > 0: its slope lies between the extreme shifts. Both are
    # rounded to the safe side.
    doubt = 1e-9 + max(slope_error(one_round, float(table.u[end])) for end in (0, -1))
    left_slope = np.where(positive, m[0] * (1.0 - doubt), table.slope[0] * (1.0 + doubt))
    right_slope = np.where(positive, m[-1] * (1.0 + doubt), table.slope[-1] * (1.0 - doubt))
    sides = []
    for end, slope, side in ((0, left_slope, -1.0), (-1, right_slope, 1.0)):
        u, psi = float(table.u[end]), float(table.psi[end])
        rounding = np.abs(a) * (float(table.psi_error[end]) + U * abs(psi))
        bound = _log_beyond(one_round, a * psi + rounding, a * slope, u, step, side)
        if np.all(a >= 1.0):
            # Power mean: R^a <= n^{a-1} sum_i t_i^a, each t_i^a phi a Gaussian around a m_i.
            column = a[:, None]
            terms = column * (one_round.log_p + m * u - 0.5 * m * m) + (column - 1.0) * math.log(len(m))
            terms += 16.0 * U * column * (np.abs(one_round.log_p) + m * abs(u) + 0.5 * m * m + math.log(len(m)))
            parts = _log_beyond(one_round, terms, column * m, u, step, side)
            bound = np.minimum(bound, np.logaddexp.reduce(parts, axis=1))
        sides.append(bound)
    return np.asarray(np.logaddexp(*sides) + 1e-9)


def _log_beyond(
    one_round: Round, log_factor: FloatArray, slope: FloatArray, end: float, step: float, side: float
) -> FloatArray:
    """log of a bound on h sum phi chi e^{log_factor + slope (u - end)} over the nodes beyond `end`, on one side of it.

    The summand is Gaussian: at most its integral plus h times its maximum. With x the distance in deviations from
    its peak to `end`, the integral is at most sqrt(2 pi) / 2 times the value at `end` for x >= 0, since
    Phi(-x) <= e^{-x^2 / 2} / 2, and at most sqrt(2 pi) times the peak otherwise. Beyond the edge b of the thinning,
    chi <= e^{-(u - b)^2 / (2 w^2)} / 2 makes it a narrower Gaussian.
    """
    value = log_factor - 0.5 * end * end * (1.0 - 8.0 * U) - HALF_LOG_2PI
    distance = side * (end - slope)
    plain = value + _log_gaussian_sum(distance, slope, 1.0, step)
    thinning = one_round.thinning
    if thinning is None or side < 0.0 or end < thinning.edge:
        return np.asarray(plain)
    inverse = thinning.width**-2
    root = math.sqrt(1.0 + inverse)
    beyond = end - thinning.edge
    distance = (end - slope + inverse * beyond) / root
    thinned = value - 0.5 * inverse * beyond * beyond * (1.0 - 8.0 * U) - math.log(2.0)
    return np.asarray(np.minimum(plain, thinned + _log_gaussian_sum(distance, slope, root, step)))


def _log_gaussian_sum(distance: FloatArray, slope: FloatArray, root: float, step: float) -> FloatArray:
    """log of (integral + h maximum) over the value at the end, for a Gaussian of deviation 1 / root; rounded up."""
    integral = np.where(distance > 0.0, 0.5, 1.0) * _ROOT_2PI / root
    inside = np.minimum(distance, 0.0)
    return np.asarray(np.log(integral + step) + 0.5 * inside * inside + 8.0 * U * np.abs(inside * slope))
