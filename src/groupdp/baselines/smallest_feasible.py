"""The smallest epsilon at which an inflated curve meets its target, between proved bounds.

Given log delta(eps) of one example, for which eps >= 0 is   f(eps) = log growth(eps) + log delta(eps) <= log target?
growth rises and delta falls, so f rises and falls: nothing makes the feasible set an interval. An upper bound on
its smallest member is any feasible point. A lower bound x needs a proof that nothing in [0, x] is feasible, and such
a proof covers [0, x] by intervals [a, b], each by one of two facts.

1. delta falls and growth rises: f > log target on [a, b] if  log growth(a) + log delta(b) > log target.
2. delta is a convex function of e^eps, so its chord over [b, c], prolonged to the left, stays below it:

       delta(eps) >= delta(b) (1 + slope (1 - e^{eps - b})),   slope = (1 - delta(c) / delta(b)) / (e^{c - b} - 1)

   and log growth is convex, hence at least  log growth(b) - steepest (b - eps)  on [a, b]. The sum of the two
   logarithms is concave in eps: above the target at a and at b, it is above it everywhere between.

The further f is above the target, the longer the interval. Going left from the root, the second fact needs a dozen
intervals where f falls steeply through the target. Where it creeps (large groups, little noise) it would need
hundreds; then the first fact, going right from 0 for a limited number of steps, still gives a valid lower bound.
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

#: Give up looking for a feasible epsilon beyond this.
LARGEST_EPSILON = 2.0**40


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
        slack = self.growth.rounding(epsilon) + ROUNDING * abs(self.log_target)
        center = self.growth.value(epsilon) - self.log_target
        if delta.upper == -math.inf:
            return Bounds(-math.inf, -math.inf)
        if delta.lower == -math.inf:
            return Bounds(-math.inf, center + delta.upper + slack + ROUNDING * abs(delta.upper))
        slack += ROUNDING * abs(delta.lower)
        return Bounds(center + delta.lower - slack, center + delta.upper + slack)


def smallest_feasible(
    problem: Problem,
    *,
    feasible: float = math.inf,
    decline: float = 0.0,
    proved: float = 0.0,
    intervals: int = 60,
    tolerance: float = 1e-13,
) -> Bounds:
    """Certified bounds on the smallest epsilon >= 0 with f(epsilon) <= log target.

    `feasible` is a point known to be feasible by other means, if any, where f falls by about `decline` per unit;
    `proved` is one below which nothing is known to be. At most about `intervals` values of delta are spent on the
    lower bound from either end (0: none at all). `upper` is infinite if no feasible point was found; that alone
    does not prove that there is none.
    """
    upper = feasible
    try:
        if proved == 0.0 and problem.excess(0.0).upper <= 0.0:
            return Bounds(0.0, 0.0)
        left, upper = _bracket(problem, feasible, decline, proved)
        if upper < math.inf:
            left, upper = _crossing(problem, left, upper, tolerance)
        if intervals == 0:
            return Bounds(proved, upper)
        if upper < math.inf:
            top = _provable_below(problem, left, upper, proved)
            if _prove_leftward(problem, top, proved, intervals):
                return Bounds(top, upper)
    except LimitExceeded:
        pass  # the bounds found so far stand
    return Bounds(_prove_rightward(problem, proved, upper, intervals), upper)


def _bracket(problem: Problem, feasible: float, decline: float, proved: float) -> tuple[float, float]:
    """(infeasible, feasible) points of moderate distance; infinite where no feasible one was found."""
    left, right = proved, feasible
    if feasible == math.inf:
        right = max(2.0 * proved, 1.0)
        while problem.excess(right).upper > 0.0:
            left, right = right, 2.0 * right
            if right > LARGEST_EPSILON:
                return left, math.inf
        return left, right
    step, excess = 0.02 * right, problem.excess(right).upper
    if decline > 0.0 and -math.inf < excess < 0.0:
        step = min(max(-1.02 * excess / decline, 1e-12 * right), right)  # a little beyond the root
    while right > proved:
        left = right - step
        if left <= proved:
            return proved, right
        at_left = problem.excess(left).upper
        if at_left > 0.0:
            return left, right
        rise = at_left - excess
        beyond = -1.1 * at_left * step / rise if 0.0 < rise < math.inf else math.inf  # along the chord
        right, step, excess = left, min(max(beyond, step / 8.0), 2.0 * step), at_left
    return proved, right


def _crossing(problem: Problem, left: float, right: float, tolerance: float) -> tuple[float, float]:
    """The bracket (infeasible, feasible), its right end moved down to the crossing.

    It ends where the rest of the way is within the tolerance along the chord, or lost in the noise of the curve. Only
    that f is not positive at the right end is certified.
    """
    tried = [(left, problem.excess(left).upper), (right, problem.excess(right).upper)]
    widest, slow = right - left, 0
    for _ in range(120):
        found = problem.excess(right)
        noise, rest = found.width, tolerance * right
        if right - left <= rest or -found.upper <= noise:
            break
        nearest = min((point for point in tried if point[0] != right), key=lambda point: abs(point[0] - right))
        slope = (nearest[1] - found.upper) / (nearest[0] - right)
        if -math.inf < slope < 0.0 and -found.upper <= -slope * rest:
            break
        # A little to the feasible side of the root: the last step then lands there, beyond the noise.
        aside = max(rest / 4.0, noise / (-2.0 * slope)) if -math.inf < slope < 0.0 else rest / 4.0
        middle = _interpolated_root(tried) + aside
        if slow == 3 or not left < middle < right:  # bisecting now and then bounds the number of steps
            middle = (left + right) / 2
        value = problem.excess(middle).upper
        tried.append((middle, value))
        left, right = (left, middle) if value <= 0.0 else (middle, right)
        widest, slow = (right - left, 0) if right - left < widest / 2.0 else (widest, (slow + 1) % 4)
    return left, right


def _interpolated_root(tried: list[tuple[float, float]]) -> float:
    """Where f is 0 by the polynomial in f through the up to four points where it is smallest; NaN if there is none."""
    points = sorted((point for point in tried if math.isfinite(point[1])), key=lambda point: abs(point[1]))[:4]
    xs = [x for x, _ in points]
    for width in range(1, len(points)):
        for i in range(len(points) - width):
            first, last = points[i][1], points[i + width][1]
            if first == last:
                return math.nan
            xs[i] += (xs[i + 1] - xs[i]) * first / (first - last)
    return xs[0] if len(points) > 1 else math.nan


def _provable_below(problem: Problem, left: float, right: float, proved: float) -> float:
    """A point below `right`, close to it if possible, that is certainly infeasible."""
    if not right > left:
        return proved
    step = (right - left) / right
    # Where f falls by `rate` per unit, the curve's noise is worth noise / rate.
    rate = (problem.excess(left).upper - problem.excess(right).upper) / (right - left)
    if 0.0 < rate < math.inf:
        step = max(1e-13, min(step, 2.0 * problem.excess(right).width / rate / right))
    while step < 1.0:
        point = right * (1.0 - step)
        if point <= proved or problem.excess(point).lower > 0.0:
            return max(point, proved)
        step *= 4.0
    return proved


def _prove_leftward(problem: Problem, top: float, proved: float, intervals: int) -> bool:
    """Whether nothing between `proved` and `top` is feasible, by the second fact."""
    right, beyond = top, top * (1.0 + 1e-3)
    for _ in range(intervals):
        if right <= proved:
            return True
        excess = problem.excess(right).lower
        if not excess > 0.0:
            return False
        left = right - _provable_length(problem, right, beyond, excess)
        if not left < right:  # too close to the target to get on
            return False
        beyond, right = right, left
    return right <= proved


def _provable_length(problem: Problem, right: float, beyond: float, excess: float) -> float:
    """The length of an interval [right - length, right] on which f is certainly above the target."""
    at_right, at_beyond = problem.log_delta(right).lower, problem.log_delta(beyond).upper
    drop = -math.expm1(min(at_beyond - at_right, 0.0))
    gap = beyond - right
    slope = drop / math.expm1(gap) * (1.0 - 2.0**-40) if gap < 700.0 else 0.0  # rounded down
    steepest = problem.growth.steepest

    def margin(length: float) -> float:
        gained = math.log1p(slope * -math.expm1(-length))
        return excess + gained - steepest * length - ROUNDING * (1.0 + gained + steepest * length)

    low, high = 0.0, min((excess + math.log1p(slope)) / steepest, right)
    if margin(high) > 0.0:
        return high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if margin(middle) > 0.0 else (low, middle)
    return low


def _prove_rightward(problem: Problem, proved: float, feasible: float, intervals: int) -> float:
    """How far the first fact proves infeasibility, starting at `proved`, in a limited number of steps."""
    left, end = proved, feasible
    decline = 1.0  # the curve's slope, learned on the way
    try:
        problem.log_delta(left)
    except LimitExceeded:
        return left
    for _ in range(intervals):
        excess = problem.excess(left).lower
        right = min(left + 0.9 * excess / decline, end)
        if not left < right:
            break
        at_left = problem.log_delta(left).lower
        try:
            at_right = problem.log_delta(right).lower
        except LimitExceeded:  # cannot be evaluated there
            end = (left + right) / 2
            continue
        decline = max((at_left - at_right) / (right - left), 1e-3) if at_right > -math.inf else 2.0 * decline
        if excess + (at_right - at_left) - ROUNDING * abs(at_right) > 0.0:
            left = right
    return left
