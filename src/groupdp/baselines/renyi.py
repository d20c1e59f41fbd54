"""Vadhan's lemma on a Renyi-DP guarantee: in log space, and as the old tool computes it in doubles.

A Renyi divergence r at order alpha gives, for every epsilon (Canonne, Kamath and Steinke 2020, Proposition 12),

    log delta <= (alpha - 1) (r - epsilon + log(1 - 1/alpha)) - log alpha

and, since the divergence of order 1 is at most r, delta <= sqrt(1 - e^{-r}) at epsilon = 0.
"""

from __future__ import annotations

import math
from typing import Any

from groupdp._validation import require_choice, require_integer, require_number
from groupdp.baselines.growth import FORMS, ROUNDING, Form, Growth
from groupdp.baselines.renyi_divergence import ORDERS, renyi_divergences
from groupdp.bounds import Bounds, Provenance
from groupdp.reductions import LARGEST_GROUP, compose_run


def renyi_vadhan_epsilon(run: Any, *, delta: float, group_size: int, form: Form = "geometric") -> Bounds:
    """The epsilon for groups that Vadhan's lemma draws from a Renyi guarantee for one example.

    The smallest over the customary orders and over the intermediate delta', which is never formed: it is finite
    wherever some order exceeds the group size (1024 is the largest). `upper` is a valid guarantee under
    add-or-remove adjacency; `lower` bounds what this analysis can give, not the true privacy.
    """
    k = require_integer("group_size", group_size, at_least=0, at_most=LARGEST_GROUP)
    log_target = math.log(require_number("delta", delta, above=0.0, at_most=1.0))
    chosen: Form = "lemma" if require_choice("form", form, FORMS) == "lemma" else "geometric"
    composition = compose_run(run, min(k, 1))
    if not composition or log_target == 0.0:
        return Bounds(0.0, 0.0, Provenance(engine="renyi"))
    divergences = renyi_divergences(composition)
    if k == 1:
        sides = [
            min(_epsilon_of_order(order, side, log_target) for order, side in zip(ORDERS, values, strict=True))
            for values in ([r.lower for r in divergences], [r.upper for r in divergences])
        ]
    else:
        growth = Growth(chosen, k)
        sides = [
            min(
                _smallest_of_order(growth, order, side, log_target)
                for order, side in zip(ORDERS, values, strict=True)
            )
            for values in ([r.lower for r in divergences], [r.upper for r in divergences])
        ]
    lower = max(k * sides[0] * (1.0 - _SOLVED), 0.0)
    upper = k * sides[1] * (1.0 + _SOLVED)
    return Bounds(min(lower, upper), upper, Provenance(engine="renyi"))


#: Relative error of the solutions below, generously: they are found to 1e-13.
_SOLVED = 1e-12


def _offset(order: float, divergence: float) -> float:
    """log delta at epsilon = 0 by the order's line, whose slope is -(alpha - 1)."""
    return (order - 1.0) * (divergence + math.log1p(-1.0 / order)) - math.log(order)


def _epsilon_of_order(order: float, divergence: float, log_target: float) -> float:
    """epsilon of one example by one order."""
    if _is_free(divergence, log_target):
        return 0.0
    return max((_offset(order, divergence) - log_target) / (order - 1.0), 0.0)


def _is_free(divergence: float, log_target: float) -> bool:
    """Whether delta <= sqrt(1 - e^{-r}) already holds at epsilon = 0."""
    return divergence == 0.0 or 0.5 * math.log(-math.expm1(-divergence)) <= log_target


def _smallest_of_order(growth: Growth, order: float, divergence: float, log_target: float) -> float:
    """The smallest epsilon of one example with   log growth + offset - (alpha - 1) epsilon <= log target.

    The left side is convex in epsilon. Newton's steps from the left never pass the root; they end where the
    function has none.
    """
    if divergence == math.inf:
        return math.inf
    if _is_free(divergence, log_target - math.log(growth.group_size)):
        return 0.0
    offset = _offset(order, divergence) - log_target
    if math.log(growth.group_size) + offset <= 0.0:
        return 0.0
    if growth.form == "lemma":
        room = order - 1.0 - growth.group_size
        return (math.log(growth.group_size) + offset) / room if room > 0.0 else math.inf
    epsilon = 0.0
    for _ in range(200):
        value = growth.value(epsilon) + offset - (order - 1.0) * epsilon
        slope = growth.slope(epsilon) - (order - 1.0)
        if slope >= 0.0:
            return math.inf
        step = -value / slope
        if step <= ROUNDING * epsilon:
            return epsilon
        epsilon += step
    return math.inf
