"""The smallest epsilon at which an inflated curve meets its target, proved to be the smallest.

Given log delta(eps) of one example, for which eps >= 0 is   f(eps) = log growth(eps) + log delta(eps) <= log target?
growth rises and delta falls, so f may rise and fall: nothing makes the feasible set an interval. An upper bound on
its smallest member is any feasible point; a lower bound needs a proof that nothing to its left is feasible.

That proof covers [0, x] by intervals [a, b], from right to left. delta is a convex decreasing function of e^eps, so
its chord over [b, c], prolonged to the left, stays below it:

    delta(eps) >= delta(b) (1 + slope (1 - e^{eps - b})),   slope = (1 - delta(c) / delta(b)) / (e^{c - b} - 1)

log growth is convex, hence on [a, b] at least  log growth(b) - steepest (b - eps).  The sum of both logarithms is
concave in eps: above the target at a and at b, it is above it everywhere between. One value of delta is needed
for each interval, and the further f is above the target, the longer the interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from groupdp.baselines.growth import ROUNDING, Growth
from groupdp.bounds import Bounds
from groupdp.errors import LimitExceeded

#: log delta of one example: certified bounds at an epsilon.
Curve = Callable[[float], Bounds]

#: Give up looking for a feasible epsilon beyond this (2^40).
LARGEST_EPSILON = 2.0**40
#: Give up proving after this many intervals.
MOST_INTERVALS = 2000


@dataclass(slots=True)
class Problem:
    """f(eps) = log growth(eps) + log delta(eps) against a target, with outward rounding."""

    curve: Curve
    growth: Growth
    log_target: float
    known: dict[float, Bounds] = field(default_factory=dict)

    def log_delta(self, epsilon: float) -> Bounds:
        """The curve, each point evaluated once."""
        if epsilon not in self.known:
            self.known[epsilon] = self.curve(epsilon)
        return self.known[epsilon]

    def excess(self, epsilon: float) -> Bounds:
        """Certified bounds on f(epsilon) - log target."""
        delta = self.log_delta(epsilon)
        growth = self.growth.value(epsilon)
        if delta.upper == -math.inf:
            return Bounds(-math.inf, -math.inf)
        slack = self.growth.rounding(epsilon) + ROUNDING * (abs(delta.upper) + abs(self.log_target))
        lower = growth + delta.lower - self.log_target - slack if delta.lower > -math.inf else -math.inf
        if delta.lower > -math.inf:
            lower -= ROUNDING * abs(delta.lower)
        return Bounds(lower, growth + delta.upper - self.log_target + slack)


def smallest_feasible(problem: Problem, *, guess: float = 1.0) -> Bounds:
    """Certified bounds on the smallest epsilon >= 0 with f(epsilon) <= log target.

    `upper` is feasible, and nothing below `lower` is. `upper` is infinite if no feasible point was found up to
    2^40, or if the curve could not be evaluated that far; that alone does not prove that there is none.
    """
    if problem.excess(0.0).upper <= 0.0:
        return Bounds(0.0, 0.0)
    infeasible, feasible = _bracket(problem, guess)
    upper = _crossing(problem, infeasible, feasible) if feasible < math.inf else math.inf
    start = min(upper, infeasible) if upper == math.inf else upper
    lower = start
    for _ in range(8):  # a second pass is needed only where f touches the target more than once
        top = _provable_below(problem, lower)
        stuck = _prove_down_from(problem, top)
        if stuck is None:
            return Bounds(top, upper)
        if problem.excess(stuck).upper <= 0.0:
            upper = stuck
        lower = stuck
    return Bounds(0.0, upper)


def _bracket(problem: Problem, guess: float) -> tuple[float, float]:
    """(infeasible, feasible) neighbours among guess * 2^j; feasible is infinite where none was found."""
    epsilon = guess
    try:
        if problem.excess(epsilon).upper <= 0.0:
            while problem.excess(epsilon / 2).upper <= 0.0:
                epsilon /= 2
                if epsilon < 1e-300:
                    return 0.0, epsilon
            return epsilon / 2, epsilon
        while problem.excess(2 * epsilon).upper > 0.0:
            epsilon *= 2
            if epsilon > LARGEST_EPSILON:
                return epsilon, math.inf
        return epsilon, 2 * epsilon
    except LimitExceeded:
        return max(point for point in problem.known if point <= epsilon), math.inf


def _crossing(problem: Problem, left: float, right: float) -> float:
    """A feasible point a few units in the last place right of an infeasible one (regula falsi, Illinois)."""
    at_left, at_right = problem.excess(left).upper, problem.excess(right).upper
    for step in range(200):
        if right - left <= 1e-14 * right:
            break
        if math.isinf(at_right) or step % 8 == 7:  # also bisect now and then: bounds the number of steps
            middle = (left + right) / 2
        else:
            middle = right - at_right * (right - left) / (at_right - at_left)
            margin = 1e-15 * right
            middle = min(max(middle, left + margin), right - margin)
        value = problem.excess(middle).upper
        if value <= 0.0:
            right, at_right = middle, value
            at_left /= 2.0
        else:
            left, at_left = middle, value
            at_right /= 2.0
    return right


def _provable_below(problem: Problem, epsilon: float) -> float:
    """A point just below `epsilon` that is certainly infeasible, or 0."""
    step = 1e-14
    while step < 1.0:
        point = epsilon * (1.0 - step)
        if problem.excess(point).lower > 0.0:
            return point
        step *= 4.0
    return 0.0


def _prove_down_from(problem: Problem, top: float) -> float | None:
    """None if [0, top] is proved infeasible, else a point where the proof got stuck."""
    right = top
    beyond = top * (1.0 + 1e-3)
    for _ in range(MOST_INTERVALS):
        if right <= 0.0:
            return None
        excess = problem.excess(right).lower
        if not excess > 0.0:
            return right
        length = _provable_length(problem, right, beyond, excess)
        beyond, right = right, max(right - length, 0.0)
        if beyond - right <= 1e-13 * beyond:
            return right
    return right


def _provable_length(problem: Problem, right: float, beyond: float, excess: float) -> float:
    """The length of an interval [right - length, right] on which f is certainly above the target."""
    at_right, at_beyond = problem.log_delta(right).lower, problem.log_delta(beyond).upper
    gap = beyond - right
    drop = -math.expm1(min(at_beyond - at_right, 0.0))
    # Divided by e^gap: stays finite for a wide gap. Rounded down by more than the few roundings made.
    slope = drop / math.expm1(gap) * (1.0 - 2.0**-40) if gap < 700.0 else 0.0
    steepest = problem.growth.steepest

    def margin(length: float) -> float:
        gained = math.log1p(slope * -math.expm1(-length))
        return excess + gained - steepest * length - ROUNDING * (1.0 + gained + steepest * length)

    low, high = 0.0, (excess + math.log1p(slope)) / steepest
    if margin(high) > 0.0:
        return high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if margin(middle) > 0.0 else (low, middle)
    return low
