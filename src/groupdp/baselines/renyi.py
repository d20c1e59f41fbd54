"""Vadhan's lemma on a Renyi-DP guarantee for one example, in log space.

A Renyi divergence r at order alpha gives, for every epsilon (Canonne, Kamath and Steinke 2020, Proposition 12),

    log delta <= offset - (alpha - 1) epsilon,   offset = (alpha - 1) (r + log(1 - 1/alpha)) - log alpha

and, since the divergence of order 1 is at most r, delta <= sqrt(1 - e^{-r}) already at epsilon = 0. The lemma asks
for the smallest epsilon with  log growth(epsilon) + offset - (alpha - 1) epsilon <= log target,  a convex function.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from groupdp._validation import require_choice, require_integer, require_number
from groupdp.baselines.growth import FORMS, ROUNDING, Form, Growth
from groupdp.baselines.one_example import Composition, example_composition
from groupdp.baselines.renyi_divergence import ORDERS, renyi_divergences
from groupdp.bounds import Bounds, Provenance
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


def best_example_epsilon(
    composition: Composition,
    growth: Growth,
    log_target: float,
    *,
    near: float | None = None,
    enough: float = 0.0,
) -> tuple[float, float]:
    """An epsilon of one example that certainly meets the target, by the best of all orders; and that order.

    Over all real orders this is the Chernoff bound on the exact curve. Any order is valid, so the search over them
    need not be exact: `near` is how far above the smallest useful order the best one is expected. Where it is not
    between the orders tried around that, all are searched; where it is and gives at most `enough`, no others are.
    """
    low = growth.steepest + 1.0  # the lines of smaller orders never come down
    # Whole orders are a plain sum; next to a large one the fractions make no difference.
    rounded = math.ceil if low > 64.0 else float
    found: dict[float, float] = {}

    def best_among(offsets: Iterable[float]) -> tuple[float, float, float]:
        """The best order so far, with those next to it; all three are the same where it has no neighbour."""
        new = tuple(sorted({float(rounded(low + offset)) for offset in offsets} - found.keys()))
        for order, divergence in zip(new, renyi_divergences(composition, new), strict=True):
            found[order] = _smallest_side(growth, order, divergence.upper, log_target, 1.0)
        orders = sorted(found)
        place = min(range(len(orders)), key=lambda i: found[orders[i]])
        return orders[max(place - 1, 0)], orders[place], orders[min(place + 1, len(orders) - 1)]

    refinements = 2
    if near is None:
        left, best, right = best_among(2.0**j for j in (*range(-6, 7), 8, 10, 13))
    else:
        left, best, right = best_among(_three_bits(near * x) for x in (0.6, 1.0, 1.6))
        for _ in range(6):  # until it lies between two others
            if left < best < right:
                break
            left, best, right = best_among([_three_bits((best - low) * (0.6 if left == best else 1.6))])
        else:
            return best_example_epsilon(composition, growth, log_target)
        refinements = 0 if found[best] <= enough else 1
    for _ in range(refinements):
        left, best, right = best_among(left - low + (right - left) * j / 6 for j in range(7))
    return found[best] * (1.0 + MARGIN), best


def _three_bits(value: float) -> float:
    """Rounded up to three significant bits: neighbouring group sizes then ask for the same orders."""
    fraction, exponent = math.frexp(value)
    return math.ldexp(math.ceil(8.0 * fraction), exponent - 3)


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
