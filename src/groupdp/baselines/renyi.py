"""Vadhan's lemma on a Renyi-DP guarantee for one example, in log space; and TensorFlow Privacy's arithmetic.

A Renyi divergence r at order alpha gives, for every epsilon (Canonne, Kamath and Steinke 2020, Proposition 12),

    log delta <= offset - (alpha - 1) epsilon,   offset = (alpha - 1) (r + log(1 - 1/alpha)) - log alpha

and, since the divergence of order 1 is at most r, delta <= sqrt(1 - e^{-r}) already at epsilon = 0. The lemma asks for
the smallest epsilon with log growth(epsilon) + offset - (alpha - 1) epsilon <= log target, a convex function.

TensorFlow Privacy's `compute_dp_sgd_privacy_lib` solves for an example-level delta' whose group-level delta, by the
geometric form, is the target. It forms the double delta', and reports infinity where that is 0, below about e^-745.1.
`renyi_vadhan_epsilon` never forms delta'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from groupdp.baselines.one_example import ORDERS, Composition, example_composition, renyi_divergences
from groupdp.baselines.smallest_feasible import FORMS, ROUNDING, Form, Growth
from groupdp.bounds import Bounds, Provenance
from groupdp.errors import require_choice, require_integer, require_number
from groupdp.floats import FloatArray
from groupdp.groups import LARGEST_GROUP
from groupdp.neighbours import FORWARD


def renyi_vadhan_epsilon(run: Any, *, delta: float, group_size: int, form: Form = "geometric") -> Bounds:
    """The epsilon for groups that Vadhan's lemma draws from a Renyi guarantee for one example.

    The smallest over the customary orders and over the intermediate delta', which is never formed: finite
    wherever a large enough order is among them (beyond the group size; the largest is 1024). `upper` is a valid
    guarantee under add-or-remove adjacency; `lower` bounds what this analysis can give, not the true privacy.
    """
    size = require_integer("group_size", group_size, at_least=0, at_most=LARGEST_GROUP)
    target = require_number("delta", delta, above=0.0, at_most=1.0)
    require_choice("form", form, FORMS)
    composition = example_composition(run) if size > 0 else ()
    provenance = Provenance(engine="renyi", adjacency=FORWARD)
    if not composition or target == 1.0:
        return Bounds(0.0, 0.0, provenance)
    # A group of one needs no lemma: its growth is 1, which is the geometric sum's.
    growth = Growth("geometric" if size == 1 else form, size)
    solutions = example_epsilons(composition, growth, math.log(target), ORDERS)
    lower = min(solution.lower for solution in solutions)
    upper = min(solution.upper for solution in solutions)
    return Bounds(size * lower * (1.0 - MARGIN), size * upper * (1.0 + MARGIN), provenance)


def best_example_epsilon(composition: Composition, growth: Growth, log_target: float) -> float:
    """An epsilon of one example that certainly meets the target, by about the best of all orders; any order is valid.

    Over all real orders this is the Chernoff bound on the exact curve.
    """
    low = growth.steepest + 1.0  # the lines of smaller orders never come down
    # Whole orders are a plain sum; next to a large one the fractions make no difference.
    rounded = math.ceil if low > 64.0 else float
    epsilons: dict[float, float] = {}
    offsets = [2.0**j for j in (*range(-6, 7), 8, 10, 13)]
    for _ in range(3):
        orders = tuple(sorted({float(rounded(low + offset)) for offset in offsets} - epsilons.keys()))
        for order, divergence in zip(orders, renyi_divergences(composition, orders), strict=True):
            epsilons[order] = _smallest_side(growth, order, divergence.upper, log_target, 1.0)
        tried = sorted(epsilons)
        place = min(range(len(tried)), key=lambda i: epsilons[tried[i]])
        left, right = tried[max(place - 1, 0)], tried[min(place + 1, len(tried) - 1)]
        offsets = [left - low + (right - left) * j / 6 for j in range(7)]
    return epsilons[tried[place]] * (1.0 + MARGIN)


def example_epsilons(
    composition: Composition, growth: Growth, log_target: float, orders: tuple[float, ...]
) -> list[Bounds]:
    """For every order, certified bounds on the smallest epsilon of one example that it allows."""
    divergences = renyi_divergences(composition, orders)
    return [
        _smallest(growth, order, divergence, log_target) for order, divergence in zip(orders, divergences, strict=True)
    ]


#: Inputs are moved outward by this much of their magnitude: far more than the rounding of what they are made of.
MARGIN = 2.0**-42


def _smallest(growth: Growth, order: float, divergence: Bounds, log_target: float) -> Bounds:
    """Certified bounds on the smallest epsilon of one example that one order allows."""
    upper = _smallest_side(growth, order, divergence.upper, log_target, 1.0)
    return Bounds(min(_smallest_side(growth, order, divergence.lower, log_target, -1.0), upper), upper)


def _smallest_side(growth: Growth, order: float, divergence: float, log_target: float, sign: float) -> float:
    """An upper bound on the smallest epsilon that this divergence allows (sign 1), or a lower bound (sign -1)."""
    if divergence == math.inf:
        return math.inf
    log_size = math.log(growth.group_size)
    margin = sign * MARGIN * (order * (1.0 + divergence) + abs(log_target) + log_size)
    offset = (order - 1.0) * (divergence + math.log1p(-1.0 / order)) - math.log(order) - log_target + margin
    free = divergence == 0.0 or 0.5 * math.log(-math.expm1(-divergence)) + log_size - log_target <= -margin
    if free or log_size + offset <= 0.0:
        return 0.0
    if sign < 0.0:
        return _infeasible_up_to(growth, order - 1.0, offset)
    return _feasible_at(growth, order - 1.0, offset)


def _excess(growth: Growth, decline: float, offset: float, epsilon: float) -> tuple[float, float]:
    """log growth + offset - decline epsilon, and a bound on its rounding."""
    value = growth.value(epsilon) + offset - decline * epsilon
    return value, growth.rounding(epsilon) + ROUNDING * (abs(offset) + decline * epsilon)


def _infeasible_up_to(growth: Growth, decline: float, offset: float) -> float:
    """A point up to which the function is certainly positive; infinite if it certainly is everywhere.

    Newton's steps from the left: where the function is at least v > 0 at a point, and its slope from there on at
    least s, it stays positive for another v / -s.
    """
    epsilon = 0.0
    for _ in range(200):
        value, rounding = _excess(growth, decline, offset, epsilon)
        fall = decline - growth.least_slope(epsilon)
        if value - rounding <= 0.0:
            break
        if fall <= 0.0:
            return math.inf
        step = (value - rounding) / fall * (1.0 - ROUNDING)
        if step <= ROUNDING * epsilon:
            break
        epsilon += step
    return epsilon * (1.0 - ROUNDING)


def _feasible_at(growth: Growth, decline: float, offset: float) -> float:
    """A point next to the root at which the function is certainly not positive; infinite if none was found."""
    root = _infeasible_up_to(growth, decline, offset)
    step = ROUNDING
    while step < 0.01 and root < math.inf:
        point = root * (1.0 + step)
        value, rounding = _excess(growth, decline, offset, point)
        if value + rounding <= 0.0:
            return point
        step *= 2.0
    return math.inf


#: How far below its best estimate the walk looks: one decade.
DECADE = math.log(10.0)
_ORDERS: FloatArray = np.array(ORDERS)
_OFFSETS: FloatArray = np.log1p(-1.0 / _ORDERS)


def old_tool_epsilon(run: Any, *, delta: float, group_size: int) -> float:
    """The number that TensorFlow Privacy's arithmetic ends with, possibly infinite. Not a certified bound.

    For fixed batches the tool has no analysis of its own (it assumes Poisson sampling); here its arithmetic is
    given the divergences of the fixed-batch pair.
    """
    return old_tool_epsilons(run, delta=delta, group_sizes=(group_size,))[0]


def old_tool_epsilons(run: Any, *, delta: float, group_sizes: Sequence[int]) -> list[float]:
    """`old_tool_epsilon` for several group sizes, all walks side by side."""
    sizes = [require_integer("group_size", size, at_least=0, at_most=LARGEST_GROUP) for size in group_sizes]
    log_target = math.log(require_number("delta", delta, above=0.0, at_most=1.0))
    composition = example_composition(run) if any(sizes) else ()
    if not composition:
        return [0.0] * len(sizes)
    divergences = np.array([bounds.upper for bounds in renyi_divergences(composition)])

    def example_epsilons(log_deltas: Sequence[float]) -> list[float]:
        return _epsilons_in_doubles(divergences, [math.exp(value) for value in log_deltas])

    solved = dict.fromkeys(sizes, 0.0)
    if 1 in solved:
        solved[1] = example_epsilons([log_target])[0]
    larger = [size for size in solved if size > 1]
    growths = [Growth("geometric", size) for size in larger]
    solved.update(zip(larger, _solve(growths, example_epsilons, log_target), strict=True))
    return [size * solved[size] for size in sizes]


def _epsilons_in_doubles(divergences: FloatArray, deltas: Sequence[float]) -> list[float]:
    """The example's epsilon at each double delta, the best over all orders; a delta of 0 is the infinity's origin."""
    column = np.array(deltas)[:, np.newaxis]
    with np.errstate(divide="ignore"):
        smallest = np.min(divergences + _OFFSETS - np.log(column * _ORDERS) / (_ORDERS - 1.0), axis=1)
    free = (column**2 + np.expm1(-divergences) > 0.0).any(axis=1)
    found = np.where(free, 0.0, np.maximum(smallest, 0.0))
    return [math.inf if delta == 0.0 else value for delta, value in zip(deltas, found.tolist(), strict=True)]


def _solve(
    growths: Sequence[Growth], example_epsilons: Callable[[Sequence[float]], list[float]], log_target: float
) -> list[float]:
    """The example's epsilon at the delta' whose group-level delta is the target; infinite where there is none."""
    above, below = [log_target] * len(growths), [log_target - DECADE] * len(growths)

    def excesses(places: Sequence[int], log_deltas: Sequence[float]) -> list[float]:
        found = zip(places, log_deltas, example_epsilons(log_deltas), strict=True)
        return [at + growths[i].value(value) - log_target if value < math.inf else math.inf for i, at, value in found]

    # Lowering log delta' raises epsilon, so it must fall at least by the excess: a safe step, then a decade more.
    walking, alive = list(range(len(growths))), []
    while walking:
        gaps = dict(zip(walking, excesses(walking, [below[i] for i in walking]), strict=True))
        alive += [i for i in walking if not gaps[i] > 0.0]
        walking = [i for i in walking if 0.0 < gaps[i] < math.inf]
        for i in walking:
            above[i] = below[i] - gaps[i]
            below[i] = above[i] - DECADE
    middles = {i: (above[i] + below[i]) / 2.0 for i in alive}
    for _ in range(200):
        open_ones = [i for i in alive if below[i] < middles[i] < above[i]]
        if not open_ones:
            break
        for i, gap in zip(open_ones, excesses(open_ones, [middles[i] for i in open_ones]), strict=True):
            above[i], below[i] = (middles[i], below[i]) if gap > 0.0 else (above[i], middles[i])
            middles[i] = (above[i] + below[i]) / 2.0
    found = dict(zip(alive, example_epsilons([below[i] for i in alive]), strict=True)) if alive else {}
    return [found.get(i, math.inf) for i in range(len(growths))]
