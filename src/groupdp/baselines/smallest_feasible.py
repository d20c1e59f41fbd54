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
    left, right = _bracket(problem, guess)
    if right < math.inf:
        left, right = _crossing(problem, left, right)
    upper = right
    for _ in range(8):  # more than one pass is needed only where f meets the target more than once
        top = _provable_below(problem, left, upper)
        stuck = _prove_down_from(problem, top)
        if stuck is None:
            return Bounds(top, upper)
        if problem.excess(stuck).upper <= 0.0:
            upper = stuck
        left = stuck
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
        return max(problem.known), math.inf


def _crossing(problem: Problem, left: float, right: float) -> tuple[float, float]:
    """The bracket (infeasible, feasible), narrowed to the noise of the curve (regula falsi, Illinois)."""
    at_left, at_right = problem.excess(left).upper, problem.excess(right).upper
    moved_left = moved_right = False
    for step in range(120):
        noise = problem.excess(right).width
        if right - left <= 1e-13 * right or -problem.excess(right).upper <= noise:
            break
        if math.isinf(at_right) or step % 10 == 9:  # bisecting now and then bounds the number of steps
            middle = (left + right) / 2
        else:
            # Aim a little to the feasible side of the root: the last step then lands there, within the noise.
            middle = right - (at_right + noise / 2) * (right - left) / (at_right - at_left)
            middle = min(max(middle, left + 1e-3 * (right - left)), right - 1e-3 * (right - left))
        value = problem.excess(middle).upper
        if value <= 0.0:
            right, at_right = middle, value
            at_left = at_left / 2.0 if moved_right else at_left
            moved_left, moved_right = False, True
        else:
            left, at_left = middle, value
            at_right = at_right / 2.0 if moved_left else at_right
            moved_left, moved_right = True, False
    return left, right


def _provable_below(problem: Problem, left: float, right: float) -> float:
    """A point below `right`, close to it if possible, that is certainly infeasible (or 0)."""
    if right < math.inf:
        step = 1e-13
        # Where f falls by `rate` per unit, the curve's noise is worth noise / rate.
        rate = (problem.excess(left).upper - problem.excess(right).upper) / (right - left)
        if 0.0 < rate < math.inf:
            step = max(step, 2.0 * problem.excess(right).width / rate / right)
    else:
        right, step = left, 0.0
    while step < 1.0:
        point = right * (1.0 - step)
        if problem.excess(point).lower > 0.0:
            return point
        step = max(4.0 * step, 1e-13)
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
