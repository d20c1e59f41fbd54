"""The trade-off function at one point, enclosed by duality.

With delta(eps) the curve of a pair (P, Q) and f its trade-off function (Q the null hypothesis), for every x = e^eps

    TPR(alpha) = min_x  delta(x) + x alpha          the largest P(S) among tests with Q(S) <= alpha
    f(alpha)   = 1 - TPR(alpha)                     (Dong, Roth and Su 2022, Proposition 2.12)

and, with delta~ the curve of the reversed pair (Q, P) and gamma = 1 - alpha,

    f(alpha)   = max_x  (gamma - delta~(x)) / x.

The first loses no digits where alpha is small, the second where f is. Any x gives a bound on one side; the other
side follows from convexity (`minorant`). For add-or-remove, delta is the larger of the two directions and f the
symmetric convex envelope of both curves: min{f, f^-1}** (their Proposition E.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from groupdp.bounds import Bounds
from groupdp.tradeoff.delta_curve import DeltaCurve, Local
from groupdp.tradeoff.minorant import Values, extreme_below

_MOST_STEPS = 60
#: Unit roundoff times a few: covers scaling, exponentials and the lines drawn through the values.
_ROUNDING = 16.0 * 2.0**-52

#: From a local delta curve and an epsilon to the logarithm of the rate to be matched there.
Level = Callable[[Local, float], float]


def log_false_positive_level(local: Local, epsilon: float) -> float:
    """log Q(L > eps) = log(-delta') - eps."""
    value, slope = local.log_delta_slope(epsilon)
    if value > -1e-9:
        return math.inf  # delta is nearly 1, its slope drowns in rounding: far below every loss
    return min(value + math.log(-slope) - epsilon, 0.0) if slope < 0.0 and math.isfinite(slope) else -math.inf


def log_true_positive_level(local: Local, epsilon: float) -> float:
    """log P(L > eps) = log(delta - delta')."""
    value, slope = local.log_delta_slope(epsilon)
    if value > -1e-9:
        return math.inf
    return min(value + math.log1p(-slope), 0.0) if slope <= 0.0 and math.isfinite(slope) else -math.inf


def locate(curve: DeltaCurve, level: Level, target: float, start: float) -> tuple[float, float]:
    """The epsilon where `level` (decreasing) meets the target, about, and the epsilon that changes it by 1.

    Secant steps between brackets. A poor answer widens the enclosure and does not invalidate it.
    """
    low, high = -math.inf, math.inf
    epsilon = start
    here = curve.near(epsilon)
    step = unit = 1.0 if here is None or math.isinf(here.deviation) else here.deviation
    before: tuple[float, float] | None = None
    accuracy = 1e-8
    for _ in range(_MOST_STEPS):
        local = curve.near(epsilon)
        excess = -math.inf if local is None else level(local, epsilon) - target
        accuracy = accuracy if local is None else local.accuracy
        if excess > 0.0:
            low = epsilon
        else:
            high = epsilon
        if before is not None and math.isfinite(excess) and before[0] != epsilon:
            fall = (before[1] - excess) / (epsilon - before[0])
            unit = min(max(1.0 / fall, 1e-6), 1e6) if fall > 0.0 else unit
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
    local = curve.near(epsilon)
    if local is not None and not curve.is_costly:
        nearby = 1e-3 / (1.0 + min(abs(local.log_delta_slope(epsilon)[1]), 1e6))
        fall = (level(local, epsilon - nearby) - level(local, epsilon + nearby)) / (2.0 * nearby)
        unit = min(max(1.0 / fall, 1e-6), 1e6) if fall > 0.0 and math.isfinite(fall) else unit
    return epsilon, unit


def log_true_positive_rate(curves: tuple[DeltaCurve, ...], log_alpha: float, start: float) -> tuple[Bounds, float]:
    """Bounds on log TPR(alpha), and the epsilon that attains it (a start for the next one)."""
    epsilon, values, reference = _surroundings(curves, log_false_positive_level, log_alpha, start)
    exponent = epsilon + log_alpha - reference
    weight = math.exp(min(exponent, 700.0))  # a smaller one is good for the lower bound
    heavier = weight if exponent <= 700.0 else math.inf
    upper = min(max(one.upper[i] for one in values) + heavier * x for i, x in enumerate(values[0].x))
    lower = extreme_below(values, lambda x, d: d + weight * x, smallest=True)
    slack = _ROUNDING * (1.0 + abs(epsilon) + abs(log_alpha) + abs(reference))
    log_upper = min(reference + math.log(upper) + slack, 0.0)
    # TPR >= alpha: the test that tosses a coin.
    log_lower = max(reference + math.log(lower) - slack if lower > 0.0 else -math.inf, log_alpha)
    return Bounds(min(log_lower, log_upper), log_upper), epsilon


def log_false_negative_rate(mirrored: tuple[DeltaCurve, ...], gamma: Bounds, start: float) -> tuple[Bounds, float]:
    """Bounds on log f(alpha) for gamma = 1 - alpha, from the curves of the reversed pairs; and where."""
    log_gamma = math.log(gamma.upper)
    epsilon, values, reference = _surroundings(mirrored, log_true_positive_level, log_gamma, start)
    scale = math.exp(min(-reference, 700.0))
    low, high = gamma.lower * scale * (1.0 - _ROUNDING), gamma.upper * scale * (1.0 + _ROUNDING)
    if reference < -700.0:
        high = math.inf

    def ratio(x: float, d: float) -> float:
        if x > 0.0:
            return (high - d) / x
        return math.inf if high > d else -math.inf

    lower = max((low - max(one.upper[i] for one in values)) / x for i, x in enumerate(values[0].x))
    upper = extreme_below(values, ratio, smallest=False)
    slack = _ROUNDING * (1.0 + abs(epsilon) + abs(reference))
    log_scale = reference - epsilon
    log_lower = math.log(lower) + log_scale - slack if lower > 0.0 else -math.inf
    # f <= 1 - alpha.
    log_upper = min(math.log(upper) + log_scale + slack if upper > 0.0 else log_scale - 700.0, log_gamma, 0.0)
    return Bounds(min(log_lower, log_upper), log_upper), epsilon


def _surroundings(
    curves: tuple[DeltaCurve, ...], level: Level, target: float, start: float
) -> tuple[float, list[Values], float]:
    """delta of every curve around the optimum: epsilon*, values in units of e^reference at x / e^epsilon*."""
    epsilon, unit = _optimum(curves, level, target, start)
    unit = min(unit, 100.0)
    # In units of the change that moves the level by 1, on both sides of the optimum.
    ladder = max((curve.ladder(epsilon) for curve in curves), key=len)
    shifts = [-unit * step for step in reversed(ladder)] + [0.0] + [unit * step for step in ladder]
    points = [epsilon + shift for shift in shifts]
    logs = [[_bounds_at(curve, epsilon, point) for point in points] for curve in curves]
    middle = len(ladder)
    reference = max(one[middle][1] for one in logs)
    if reference == -math.inf:
        reference = max(max(sides[1] for sides in one) for one in logs)
    if reference == -math.inf:
        reference = target
    # Values so far above the reference that they would overflow say nothing about the optimum; nor do repeated points.
    kept = [
        i
        for i in range(len(points))
        if all(one[i][1] - reference <= 600.0 for one in logs)
        and (i == 0 or math.exp(points[i] - epsilon) > math.exp(points[i - 1] - epsilon))
    ]
    points = [points[i] for i in kept]
    x = [math.exp(point - epsilon) for point in points]
    values = []
    for one in logs:
        lower = [math.exp(one[i][0] - reference) for i in kept]
        upper = [math.exp(one[i][1] - reference) for i in kept]
        # The rounding of x, of the exponentials and of the lines, as if it were the values'. By convexity
        # |d delta / dx| is at most the first chord's slope from the second point on; 4 covers the first point.
        steepness = 4.0 * (upper[0] - lower[1]) / (points[1] - points[0]) if len(points) > 1 else 0.0
        room = _ROUNDING * (max(upper[0], 1.0) + abs(steepness))
        values.append(Values(x, [max(low - room, 0.0) for low in lower], [high + room for high in upper]))
    return epsilon, values, reference


def _bounds_at(curve: DeltaCurve, centre: float, point: float) -> tuple[float, float]:
    local = curve.near(centre, exactly=True)
    if local is not None:
        return local.log_delta(point)
    # delta is 0 at the centre, so also beyond it; before it, nothing is known.
    return (-math.inf, -math.inf) if point >= centre else (-math.inf, 0.0)


def _optimum(curves: tuple[DeltaCurve, ...], level: Level, target: float, start: float) -> tuple[float, float]:
    """The epsilon for one curve, or for the larger of two: where one of them has it, or where they cross."""
    found = [locate(curve, level, target, start) for curve in curves]
    if len(found) == 1:
        return found[0]
    gaps = [_gap(curves, epsilon) for epsilon, _ in found]
    if gaps[0] >= 0.0:
        return found[0]
    if gaps[1] <= 0.0:
        return found[1]
    # The second curve is the larger at the first one's optimum, and the other way round: they cross in between.
    negative, positive = found[0][0], found[1][0]
    for _ in range(60):
        middle = 0.5 * (negative + positive)
        if middle in (negative, positive):
            break
        if _gap(curves, middle) < 0.0:
            negative = middle
        else:
            positive = middle
    return 0.5 * (negative + positive), found[0][1]


def _gap(curves: tuple[DeltaCurve, ...], epsilon: float) -> float:
    """log delta of the first curve minus that of the second, about."""
    values = []
    for curve in curves:
        local = curve.near(epsilon)
        values.append(-math.inf if local is None else local.log_delta_slope(epsilon)[0])
    if values[0] == values[1]:
        return 0.0
    return values[0] - values[1]
