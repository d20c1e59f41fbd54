"""The trade-off function of many rounds, enclosed by duality from certified values of delta.

With delta(eps) the curve of a pair (P, Q) and f its trade-off function (Q the null hypothesis), for every x = e^eps

    TPR(alpha) = min_x  delta(x) + x alpha          the largest P(S) among tests with Q(S) <= alpha
    f(alpha)   = 1 - TPR(alpha)                     (Dong, Roth and Su 2022, Proposition 2.12)

and, with delta~ the curve of the reversed pair (Q, P) and gamma = 1 - alpha,

    f(alpha)   = max_x  (gamma - delta~(x)) / x.

The first loses no digits where alpha is small, the second where f is. Any x gives a bound on one side; the other side
follows from convexity (`minorant`). For several pairs, delta is the largest of them and f the convex envelope of all
curves: for add-or-remove min{f, f^-1}** (their Proposition E.1). A `Sketch` bounds many rates from few values of delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from groupdp.bounds import Bounds
from groupdp.floats import ELEMENTARY, UNIT, FloatArray
from groupdp.pairs import largest_loss
from groupdp.tradeoff.delta_curve import DeltaCurve
from groupdp.tradeoff.minorant import Minorant, down, largest_ratio, smallest_sum, up


def complement(rate: Bounds) -> Bounds:
    """1 - rate, rounded outward."""
    lower = max(math.nextafter(1.0 - rate.upper, -math.inf), 0.0) if rate.upper > 0.0 else 1.0
    upper = min(math.nextafter(1.0 - rate.lower, math.inf), 1.0) if rate.lower > 0.0 else 1.0
    return Bounds(lower if rate.upper < 1.0 else 0.0, upper)


def both(one: Bounds, other: Bounds) -> Bounds:
    """The intersection of two intervals that both contain the true value."""
    return Bounds(max(one.lower, other.lower), min(one.upper, other.upper))


_MOST_STEPS = 60
#: Where delta is evaluated around an optimum, in units of the change that moves the level by a factor e.
_FINE_LADDER = (1e-6, 8e-6, 6e-5, 5e-4, 4e-3, 0.03, 0.25)
_COARSE_LADDER = (2e-3, 0.02, 0.2)
#: A value of log delta this wide, relative to its distance from that at the optimum, is of no use.
_WIDE = 1e-3

Curves = Sequence[DeltaCurve]
#: From a curve and an epsilon to the logarithm of the rate to be matched there.
Level = Callable[[DeltaCurve, float], float]


def log_false_positive_level(curve: DeltaCurve, epsilon: float) -> float:
    """log Q(L > eps) = log(-delta') - eps, about."""
    value, slope = curve.log_delta_slope(epsilon)
    if value > -1e-9:
        return math.inf  # delta is nearly 1, its slope drowns in rounding: far below every loss
    return min(value + math.log(-slope) - epsilon, 0.0) if slope < 0.0 and math.isfinite(slope) else -math.inf


def log_true_positive_level(curve: DeltaCurve, epsilon: float) -> float:
    """log P(L > eps) = log(delta - delta'), about."""
    value, slope = curve.log_delta_slope(epsilon)
    if value > -1e-9:
        return math.inf
    return min(value + math.log1p(-slope), 0.0) if slope <= 0.0 and math.isfinite(slope) else -math.inf


def locate(curve: DeltaCurve, level: Level, target: float, start: float) -> tuple[float, float]:
    """The epsilon where `level` (decreasing) meets the target, about, and the epsilon that changes it by 1.

    Secant steps between brackets. A poor answer widens the enclosure and does not invalidate it.
    """
    low, high = -math.inf, math.inf
    epsilon = start
    before: tuple[float, float] | None = None
    for attempt in range(_MOST_STEPS):
        excess = level(curve, epsilon) - target
        if attempt == 0:
            step = unit = 0.25 * (start or curve.scale)
        accuracy = 1e-3 if curve.is_costly else 1e-6
        if excess > 0.0:
            low = epsilon
        else:
            high = epsilon
        if before is not None and math.isfinite(excess) and before[0] != epsilon:
            fall = (before[1] - excess) / (epsilon - before[0])
            unit = min(max(1.0 / fall, 1e-12), 1e6) if fall > 0.0 else unit
        before = (epsilon, excess) if math.isfinite(excess) else None
        if abs(excess) <= accuracy:
            break
        move = excess * unit if math.isfinite(excess) else math.copysign(step, excess)
        if math.isinf(low) or math.isinf(high):
            step *= 2.0
            move = max(min(move, 2.0 * step), -2.0 * step)
        following = epsilon + move
        if not low < following < high:
            following = 0.5 * (low + high)
        if following in (low, high) or abs(following - epsilon) <= accuracy * unit:
            break
        epsilon = following
    return epsilon, unit


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Certified values around an epsilon*: of delta in units of e^reference, at places x in units of e^epsilon*."""

    centre: float
    reference: float
    minorant: Minorant

    @classmethod
    def at(cls, logs: FloatArray, points: Sequence[float], centre: float, fallback: float) -> Surroundings:
        """From log delta of every curve, (lower, upper), at increasing epsilons."""
        tops = logs[:, :, 1].max(axis=0)
        nearest = int(np.argmin(np.abs(np.array(points) - centre)))
        reference = float(tops[nearest])
        if reference == -math.inf:
            finite = tops[np.isfinite(tops)]
            reference = float(finite.min()) if len(finite) else fallback
        # Surroundings so far above the reference that they would overflow say nothing about the optimum.
        kept = np.flatnonzero(tops - reference <= 600.0)
        at = np.array(points)[kept]
        x_low, x_high = _exponential(at - centre)
        apart = np.concatenate(([True], x_low[1:] > x_high[:-1]))
        kept, x_low, x_high = kept[apart], x_low[apart], x_high[apart]
        logs = logs[:, kept]
        lower, _ = _exponential(logs[:, :, 0] - reference)
        _, upper = _exponential(logs[:, :, 1] - reference)
        return cls(centre, reference, Minorant(x_low, x_high, lower, upper))

    @property
    def largest_upper(self) -> FloatArray:
        """Upper bounds on the largest of the curves at every place."""
        return np.asarray(self.minorant.upper.max(axis=0))


def _exponential(exponent: FloatArray, error: npt.ArrayLike = 0.0) -> tuple[FloatArray, FloatArray]:
    """(lower, upper) of e^exponent for an exponent that is off by one rounding, and by `error` (at most 0.1)."""
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        value = np.exp(exponent)
        relative = np.where(
            np.isfinite(exponent), ELEMENTARY + 2.0 * UNIT * np.abs(exponent) + 1.1 * np.asarray(error), 0.0
        )
        lower, upper = down(value * (1.0 - relative)), up(up(value * (1.0 + relative)))
        return np.maximum(down(lower), 0.0), np.where(np.isneginf(exponent), 0.0, upper)


def true_positive_rates(
    values: Surroundings, log_alphas: FloatArray, room: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(lower, upper) of log TPR at many alphas, from the same values of delta; `room`: errors of log alpha (T-7)."""
    exponents = values.centre + log_alphas - values.reference
    error = room + 2.0 * UNIT * (np.abs(log_alphas) + abs(values.centre))
    weight, _ = _exponential(np.minimum(exponents, 700.0), error)
    _, heavier = _exponential(exponents, error)
    heavier = np.where(exponents <= 700.0, heavier, np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        upper = up(values.largest_upper[None] + up(heavier[:, None] * values.minorant.high[None])).min(axis=1)
    lower = smallest_sum(values.minorant, weight)
    log_lower, log_upper = _logarithms(lower, upper, values.reference)
    # TPR >= alpha: the test that tosses a coin.
    return np.maximum(log_lower, log_alphas - room), np.minimum(log_upper, 0.0)


def false_negative_rates(values: Surroundings, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(lower, upper) of log f for gamma = 1 - alpha in [low, high], from values of the reversed pairs (T-7)."""
    scale_low, scale_high = _exponential(np.array([min(-values.reference, 700.0)]))
    with np.errstate(over="ignore", invalid="ignore"):
        low_scaled, high_scaled = down(low * scale_low), up(high * scale_high)
        if values.reference < -700.0:
            high_scaled = np.full_like(high, np.inf)
        surplus = down(low_scaled[:, None] - values.largest_upper[None])
        lower = np.where(surplus > 0.0, down(surplus / values.minorant.high[None]), 0.0).max(axis=1)
        upper = largest_ratio(values.minorant, high_scaled)
    log_lower, log_upper = _logarithms(lower, upper, values.reference - values.centre)
    # f <= 1 - alpha.
    with np.errstate(divide="ignore"):
        ceiling = np.log(high)
    return log_lower, np.minimum(np.minimum(log_upper, ceiling + ELEMENTARY * np.abs(ceiling)), 0.0)


def _logarithms(lower: FloatArray, upper: FloatArray, scale: float) -> tuple[FloatArray, FloatArray]:
    """log of (lower, upper) plus the scale, rounded outward."""
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.log(np.maximum(lower, 0.0)), np.log(np.maximum(upper, 5e-324))
        low_room = ELEMENTARY * np.abs(low) + 4.0 * UNIT * (abs(scale) + np.abs(low))
        high_room = ELEMENTARY * np.abs(high) + 4.0 * UNIT * (abs(scale) + np.abs(high))
        low, high = low + scale - low_room, high + scale + high_room
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def _around_optimum(curves: Curves, level: Level, target: float, start: float) -> Surroundings:
    """delta of every curve around the optimum."""
    epsilon, unit = _optimum(curves, level, target, start)
    unit = min(unit, 100.0)
    ladder = _COARSE_LADDER if any(curve.is_costly for curve in curves) else _FINE_LADDER
    steps = (*(-step for step in reversed(ladder)), 0.0, *ladder)
    points = sorted({epsilon + unit * step for step in steps})
    logs = np.array([curve.log_deltas(points, epsilon) for curve in curves])
    # A chord from a wide value is steep: what one contour does not bound closely beside its distance is left out.
    with np.errstate(invalid="ignore"):
        width, centre = logs[:, :, 1] - logs[:, :, 0], points.index(epsilon)
        apart = np.abs(logs[:, :, 1] - logs[:, centre, None, 1])
        wide = width > np.maximum(4.0 * width[:, centre, None], _WIDE * apart)
    kept = np.flatnonzero(~wide.any(axis=0))
    return Surroundings.at(logs[:, kept], [points[i] for i in kept], epsilon, target)


def _optimum(curves: Curves, level: Level, target: float, start: float) -> tuple[float, float]:
    """The epsilon for one curve, or for the largest of several: where one of them has it, or where two cross."""
    found = [locate(curve, level, target, start) for curve in curves]
    if len(found) == 1:
        return found[0]
    for index, root in enumerate(found):
        if _largest(curves, root[0]) == index:
            return root
    # No curve is the largest at its own optimum. To the left of the best epsilon the largest curve has a level above
    # the target, to the right one below it: bisect on that.
    low, high = min(root[0] for root in found), max(root[0] for root in found)
    for _ in range(16 if any(curve.is_costly for curve in curves) else 50):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if level(curves[_largest(curves, middle)], middle) > target:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high), found[0][1]


def _largest(curves: Curves, epsilon: float) -> int:
    """Which curve has the largest delta, about."""
    values = [curve.log_delta(epsilon)[1] for curve in curves]
    return values.index(max(values))


#: Samples on either side of a tangent that its bounds are made from.
_AROUND = 4
_MOST_SAMPLES = 400


class Duality:
    """One of the two dualities, for curves that are enclosed together: it bounds the logarithm of one error rate by the
    other, and remembers where."""

    def __init__(self, curves: Curves, *, mirrored: bool) -> None:
        self.curves = curves
        self.mirrored = mirrored
        self.level = log_true_positive_level if mirrored else log_false_positive_level
        self.starts = [(0.0, 0.0)]
        """(log of the rate given, epsilon of the tangent found for it)."""
        self.largest_loss = max(largest_loss(curve.composition) for curve in curves)

    def start(self, log_rate: float) -> float:
        """The epsilon of the nearest rate so far; at first 0."""
        return min(self.starts, key=lambda pair: abs(pair[0] - log_rate))[1]

    def bounds(self, log_rate: float, given: tuple[float, float], sketch: Sketch | None = None) -> tuple[Bounds, float]:
        """Bounds on the logarithm of the other rate, and the epsilon of the tangent (0 with samples).

        `given` is what `true_positive_rates` takes: (log alpha, its error); mirrored, what `false_negative_rates`
        takes: (least, largest) 1 - alpha.
        """
        if sketch is None:
            values = _around_optimum(self.curves, self.level, log_rate, self.start(log_rate))
            self.starts.append((log_rate, values.centre))
        else:
            values = sketch.around(log_rate)
        rates = false_negative_rates if self.mirrored else true_positive_rates
        lower, upper = rates(values, *(np.array([number]) for number in given))
        return Bounds(float(lower[0]), float(upper[0])), 0.0 if sketch is not None else values.centre


class Sketch:
    """Samples of delta of the curves of a duality, dense enough for the rates in a range."""

    def __init__(self, duality: Duality, targets: FloatArray, tolerance: float) -> None:
        self.curves, self.mirrored = duality.curves, duality.mirrored
        ends = [
            locate(curve, duality.level, target, 0.0)[0]
            for curve in self.curves
            for target in (float(targets.min()), float(targets.max()))
        ]
        low, high = min(ends), max(ends)
        # Samples whose log level differs by s bound a rate to about s^2 / 8.
        wanted = float(np.ptp(targets)) / min(math.sqrt(8.0 * tolerance), 0.5)
        count = int(min(max(wanted, 16.0), _MOST_SAMPLES))
        apart = max((high - low) / count, 1e-6)
        self.samples: FloatArray = low + apart * np.arange(-_AROUND, count + _AROUND + 1, dtype=np.float64)
        for curve in self.curves:
            curve.sample(self.samples, 1e-4 * tolerance)
        self.logs = np.array([max(curve.log_delta(float(at))[1] for curve in self.curves) for at in self.samples])

    def around(self, log_rate: float) -> Surroundings:
        """delta around the sample that is best for this rate."""
        if self.mirrored:
            with np.errstate(divide="ignore", under="ignore"):
                shares = np.log1p(-np.exp(np.minimum(self.logs - log_rate, 0.0))) - self.samples
            best = int(np.argmax(shares))
        else:
            best = int(np.argmin(np.logaddexp(self.logs, self.samples + log_rate)))
        around = self.samples[max(best - _AROUND, 0) : best + _AROUND + 1]
        points = [float(at) for at in around]
        logs = np.array([[curve.log_delta(at) for at in points] for curve in self.curves])
        return Surroundings.at(logs, points, float(self.samples[best]), log_rate)
