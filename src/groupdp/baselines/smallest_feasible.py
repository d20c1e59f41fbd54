"""The smallest epsilon at which an inflated curve meets its target, between proved bounds.

Vadhan, "The complexity of differential privacy" (2017), Lemma 2.2: an (epsilon, delta)-DP mechanism is (k epsilon,
growth(epsilon) delta)-DP for groups of k, with

    lemma        growth = k e^{k eps}                                                      as it is stated
    geometric    growth = 1 + e^eps + ... + e^{(k-1) eps} = (e^{k eps} - 1) / (e^eps - 1)  as it is proved

The logarithm of either is increasing and convex. For which eps >= 0 is f(eps) = log growth(eps) + log delta(eps) <= log
target? f may fall, rise and fall again, so a lower bound x needs a proof that nothing in [0, x] is feasible: intervals
between evaluated points, each covered by B-1, or by the chords of B-2 and B-3 (docs/internals/baselines.md), or halved.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from groupdp.bounds import Bounds
from groupdp.errors import LimitExceeded

Form = Literal["lemma", "geometric"]
FORMS: tuple[Form, ...] = ("lemma", "geometric")

#: A sum of a handful of terms is off by at most this much of the sum of their magnitudes.
ROUNDING = 2.0**-49

#: Values of delta that one search may take. It decides how wide the bounds may be, not whether they hold.
MOST_VALUES = 2_000
#: What only covers an interval may be this wide, relative to the excess at its left end.
_ROUGH = 0.05
#: Slopes are taken between points that are this far apart, relatively.
_APART = 1e-3
#: The first feasible point is looked for up to this epsilon.
LARGEST_EPSILON = 2.0**40


@dataclass(frozen=True, slots=True)
class Growth:
    """log growth(epsilon) for one form and one group size of at least 2."""

    form: Form
    group_size: int

    def value(self, epsilon: float) -> float:
        """log growth(epsilon), within `rounding(epsilon)`."""
        k = self.group_size
        if self.form == "lemma":
            return math.log(k) + k * epsilon
        if epsilon == 0.0:
            return math.log(k)
        return (k - 1) * epsilon + math.log(math.expm1(-k * epsilon) / math.expm1(-epsilon))

    def rounding(self, epsilon: float) -> float:
        """A bound on |value - log growth|."""
        return ROUNDING * (1.0 + math.log(self.group_size) + self.group_size * epsilon)

    def least_slope(self, epsilon: float) -> float:
        """A lower bound on the slope at epsilon, and so everywhere to its right."""
        k = self.group_size
        if self.form == "lemma":
            return float(k)
        at_zero = (k - 1) / 2
        if k * epsilon < 1e-5:  # the two fractions below would cancel
            return at_zero
        plus, minus = k / -math.expm1(-k * epsilon), 1.0 / -math.expm1(-epsilon)
        return max(plus - minus - ROUNDING * (plus + minus), at_zero)

    @property
    def steepest(self) -> int:
        """The largest slope of log growth: its limit for large epsilon."""
        return self.group_size if self.form == "lemma" else self.group_size - 1


class Values:
    """log delta of one example at the points asked so far, each computed once.

    Where the engines decline, a value is bounded by its neighbours: delta falls.
    """

    def __init__(self, curve: Callable[[float], Bounds], *, roughly: Callable[[float], Bounds] | None = None) -> None:
        self.curve = curve
        self.roughly = roughly
        self.known: dict[float, Bounds] = {}
        self.points: list[float] = []

    def at(self, epsilon: float) -> Bounds:
        """Certified bounds on log delta(epsilon)."""
        if epsilon not in self.known:
            try:
                found = self.curve(epsilon)
            except LimitExceeded:
                place = bisect_left(self.points, epsilon)
                found = Bounds(
                    max((self.known[point].lower for point in self.points[place:]), default=-math.inf),
                    min((self.known[point].upper for point in self.points[:place]), default=0.0),
                )
            self.known[epsilon] = found
            insort(self.points, epsilon)
        return self.known[epsilon]

    def take_if_within(self, epsilon: float, width: float) -> None:
        """Keep the bounds that are at hand without a computation of their own, if they are not wider than this."""
        if self.roughly is not None and epsilon not in self.known:
            found = self.roughly(epsilon)
            if found.upper - found.lower <= width:
                self.known[epsilon] = found
                insort(self.points, epsilon)

    def before(self, epsilon: float) -> float | None:
        """The largest point below."""
        place = bisect_left(self.points, epsilon)
        return self.points[place - 1] if place > 0 else None

    def after(self, epsilon: float) -> float | None:
        """The smallest point above."""
        place = bisect_right(self.points, epsilon)
        return self.points[place] if place < len(self.points) else None


@dataclass(slots=True)
class Problem:
    """f(eps) = log growth(eps) + log delta(eps) against a target, with outward rounding."""

    values: Values
    growth: Growth
    log_target: float
    most_values: int = MOST_VALUES
    started_with: int = field(init=False)

    def __post_init__(self) -> None:
        self.started_with = len(self.values.known)

    @property
    def exhausted(self) -> bool:
        """Whether no further value may be computed."""
        return len(self.values.known) - self.started_with >= self.most_values

    def excess(self, epsilon: float) -> Bounds:
        """Certified bounds on f(epsilon) - log target."""
        delta = self.values.at(epsilon)
        center = self.growth.value(epsilon) - self.log_target
        slack = self.growth.rounding(epsilon) + ROUNDING * abs(self.log_target)
        lower, upper = (
            center + side + sign * (slack + ROUNDING * abs(side)) if side > -math.inf else -math.inf
            for sign, side in ((-1.0, delta.lower), (1.0, delta.upper))
        )
        return Bounds(lower, upper)


def smallest_feasible(problem: Problem, *, start: float, proved: float = 0.0, tolerance: float = 1e-9) -> Bounds:
    """Certified bounds on the smallest epsilon >= 0 with f(epsilon) <= log target.

    The search begins at `start`; no epsilon up to `proved` is feasible. The bounds are closer than `tolerance`,
    relative to epsilon, unless the curve's own bounds are too wide, the engines decline or the search takes more than
    `problem.most_values` values. `upper` is infinite if no feasible point was found.
    """
    if proved == 0.0 and 0.0 < start < math.inf and _is_above_from_zero(problem, start):
        proved = start
    if proved == 0.0:
        if problem.excess(0.0).upper <= 0.0:
            return Bounds(0.0, 0.0)
        if problem.excess(0.0).lower <= 0.0:
            return Bounds(0.0, _first_feasible(problem, start)[1])
    left, right = _first_feasible(problem, max(start, proved))
    while True:
        if right < math.inf:
            left, right = _crossing(problem, max(left, proved), right, tolerance)
        proved, earlier = _covered(problem, proved, left)
        if earlier is None:
            return Bounds(min(proved, right), right)
        left, right = proved, earlier


def _is_above_from_zero(problem: Problem, b: float) -> bool:
    """Whether B-1 shows that nothing in [0, b] is feasible."""
    at_b, line = problem.values.at(b).lower, problem.growth.value(0.0) - problem.log_target
    if problem.excess(b).lower <= 0.0:
        return False
    return at_b > -math.inf and line + at_b - 8.0 * ROUNDING * (1.0 + abs(problem.log_target) + abs(at_b)) > 0.0


def _first_feasible(problem: Problem, start: float) -> tuple[float, float]:
    """(a point that is not known to be feasible, a feasible one beyond it or infinity), by growing steps."""
    left, right = 0.0, start
    reach = math.inf  # beyond this nothing can be decided
    while left < right < LARGEST_EPSILON and not problem.exhausted:
        found = problem.excess(right)
        if found.upper <= 0.0:
            return left, right
        if found.lower <= 0.0 and found.upper - found.lower < 1.0:  # next to a crossing: a little beyond it
            right *= 1.02
        elif found.lower <= 0.0:
            reach = right
        else:
            left = right
            before = problem.values.before((1.0 - _APART) * left) or 0.0
            slope = (found.lower - problem.excess(before).lower) / (left - before)
            step = -1.05 * found.lower / slope if slope < 0.0 else math.inf  # along the chord
            right = left + min(max(step, 0.02 * left), 3.0 * left)
        if right >= reach:
            right = 0.5 * (left + reach)
            if right - left <= 1e-5 * left:
                break
    return left, math.inf


def _crossing(problem: Problem, left: float, right: float, tolerance: float) -> tuple[float, float]:
    """A point that is not feasible and a feasible one beyond it, as close as the tolerance or the curve's own bounds
    allow."""
    slow = 0
    while right - left > tolerance * right and not problem.exhausted:
        width = right - left
        root = _interpolated_root(problem, left, right)
        aside = 0.3 * tolerance * right
        # On the side of the root where the bracket is longer, and a little beyond it: both ends come close.
        middle = root + aside if right - root > root - left else root - aside
        if slow == 3 or not left < middle < right:
            middle, slow = 0.5 * (left + right), 0
        found = problem.excess(middle)
        if found.upper <= 0.0:
            right = middle
        elif found.lower > 0.0:
            left = middle
        else:
            return _around(problem, left, middle, right)
        slow = slow + 1 if right - left > 0.5 * width else 0
        if not left < 0.5 * (left + right) < right:
            break
    return left, right


def _around(problem: Problem, left: float, middle: float, right: float) -> tuple[float, float]:
    """The closest decided points on both sides of one where the curve's bounds straddle the target."""
    found = problem.excess(middle)
    fall = max(problem.excess(left).lower, 0.0) - max(problem.excess(right).upper, -1e3)
    step = (right - left) * min(max(found.upper - found.lower, 1e-13) / max(fall, 1e-300), 0.25)
    for sign in (-1.0, 1.0):
        length = 2.0 * step
        while not problem.exhausted:
            point = middle + sign * length
            if not left < point < right:
                break
            decided = problem.excess(point)
            if decided.upper <= 0.0:
                right = point
            elif decided.lower > 0.0:
                left = point
            if decided.upper <= 0.0 or decided.lower > 0.0:
                break
            length *= 2.0
    return left, right


def _interpolated_root(problem: Problem, left: float, right: float) -> float:
    """Where f is 0 by the polynomial in f through up to four known points in and next to the bracket; else NaN."""
    values = problem.values
    around = [values.before(left), left, right, values.after(right)]
    points = [(x, 0.5 * (found.lower + found.upper)) for x in around if x is not None for found in [problem.excess(x)]]
    points = [(x, f) for x, f in points if math.isfinite(f)]
    xs = [x for x, _ in points]
    for width in range(1, len(points)):
        for i in range(len(points) - width):
            first, last = points[i][1], points[i + width][1]
            if not first > last:  # f does not fall: the bracket's ends alone decide
                return math.nan
            xs[i] += (xs[i + 1] - xs[i]) * first / (first - last)
    return xs[0] if len(points) > 1 else math.nan


def _covered(problem: Problem, proved: float, top: float) -> tuple[float, float | None]:
    """How far, up to `top`, nothing is feasible; and a feasible point below `top`, if one was met."""
    at = proved
    while at < top:
        following = problem.values.after(at)
        right = top if following is None else min(following, top)
        found = problem.excess(right)
        if found.upper <= 0.0:
            return at, right
        if _is_covered(problem, at, right):
            at = right
            continue
        middle = at + min(0.5 * (right - at), _provable_length(problem, at, right))
        if found.lower <= 0.0 or problem.exhausted or not at < middle < right:
            break
        problem.values.take_if_within(middle, _ROUGH * problem.excess(at).lower)
        problem.excess(middle)
    return at, None


def _provable_length(problem: Problem, a: float, b: float) -> float:
    """About how far right of a B-1 reaches, if log delta falls evenly from a to b."""
    fall = (problem.values.at(a).lower - problem.values.at(b).lower) / (b - a)
    excess = problem.excess(a).lower
    return max(0.97 * excess, min(excess, 1.0) ** 0.5) / fall if fall > 0.0 else math.inf


def _is_covered(problem: Problem, a: float, b: float) -> bool:
    """Whether f is above the target on all of [a, b], by B-1, or by B-2 and B-3 together."""
    values, growth = problem.values, problem.growth
    at_b = values.at(b).lower
    line = growth.value(a) - problem.log_target - growth.rounding(a) - ROUNDING * abs(problem.log_target)
    if at_b == -math.inf:
        return False
    slack = 4.0 * ROUNDING * (1.0 + abs(line) + abs(at_b))
    if line + at_b - slack > 0.0:  # B-1
        return True
    slope = growth.least_slope(a)
    if line + slope * (b - a) + at_b - slack - ROUNDING * slope * (b - a) <= 0.0:
        return False
    beyond, before = values.after(b), values.before(a)
    left_of_b = _left_slope(values, b, beyond) if beyond is not None else 0.0
    # B-2 alone, at a.
    if line + at_b + math.log1p(left_of_b * -math.expm1(a - b)) * (1.0 - ROUNDING) - slack > 0.0:
        return True
    at_a = values.at(a).lower
    if before is None or at_a == -math.inf or b - a > 700.0:
        return False
    # B-3 from a to a point between, B-2 from there to b. The two chords meet about there.
    right_of_a = _right_slope(values, before, a)
    fall = math.exp(min(at_b - at_a, 0.0))
    total = math.expm1(b - a)
    rest = left_of_b * fall * math.exp(a - b)  # the slope of B-2's chord where delta(a) and e^a are 1
    if not right_of_a > rest:
        return False
    grown = min((1.0 - fall - rest * total) / (right_of_a - rest), 0.9 / right_of_a, total)
    between = a + math.log1p(max(grown, 0.0))
    climbed = line + slope * (between - a) * (1.0 - 2.0 * ROUNDING) - slack
    chord_of_a = 1.0 - right_of_a * math.expm1(between - a) * (1.0 + 8.0 * ROUNDING)
    if not chord_of_a > 0.0 or problem.excess(a).lower <= 0.0:
        return False
    chord_of_b = math.log1p(left_of_b * -math.expm1(min(between - b, 0.0))) * (1.0 - ROUNDING)
    slack = 4.0 * ROUNDING * (1.0 + abs(at_a))
    return climbed + at_a + math.log(chord_of_a) - slack > 0.0 and climbed + at_b + chord_of_b > 0.0


def _left_slope(values: Values, b: float, c: float) -> float:
    """s with  delta(eps) >= delta(b) (1 + s (1 - e^{eps - b}))  for eps <= b: the chord over [b, c]."""
    drop = -math.expm1(min(values.at(c).upper - values.at(b).lower, 0.0))
    return drop / math.expm1(c - b) * (1.0 - 2.0**-40) if c - b < 700.0 else 0.0


def _right_slope(values: Values, p: float, a: float) -> float:
    """s with  delta(eps) >= delta(a) (1 - s (e^{eps - a} - 1))  for eps >= a: the chord over [p, a]."""
    rise = values.at(p).upper - values.at(a).lower
    return math.expm1(rise) / -math.expm1(p - a) * (1.0 + 2.0**-40) if rise < 700.0 else math.inf
