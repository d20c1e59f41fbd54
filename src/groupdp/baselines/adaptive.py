"""Guarantees where parameters were chosen after looking: a Renyi filter, and the cost of hyperparameter search.

Composition needs the parameters of every release to be fixed in advance. `filter_epsilon` is valid where each release's
parameters depend on earlier outcomes (R-8); `tuned_epsilon` is valid for the best of a random number of runs (R-9).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from groupdp.bounds import Bounds, Provenance
from groupdp.engines import options_of
from groupdp.errors import InvalidArgument, require_choice, require_number
from groupdp.mechanisms.mechanism import mechanisms_of
from groupdp.mechanisms.wrappers import GEOMETRIC, ORDERS, POISSON, search_divergences, with_own_groups
from groupdp.moments import renyi_divergence
from groupdp.neighbours import ADD_OR_REMOVE, DIRECTIONS
from groupdp.pairs import Composition
from groupdp.question import log_delta_of_question, neighbours_of, question_about, question_of

#: Orders of a filter. They are fixed when it is made: each further one costs a share of delta.
FILTER_ORDERS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)
#: The share of delta that a filter sets aside for what has no divergence (losses without an atom, coins that reveal).
REVEALED = 0.1
#: How the number of runs of a search is drawn.
TRIALS = (GEOMETRIC, POISSON)
_ROOM = 1e-12


def filter_epsilon(
    run: Any,
    *,
    delta: float,
    group_size: Any = None,
    adjacency: str = "add-or-remove",
    orders: Sequence[float] = FILTER_ORDERS,
) -> Bounds:
    """The smallest budget epsilon of a Renyi filter that lets all these releases pass (R-8).

    Formal guarantee. Let a filter with these `orders` and the budget (epsilon, delta) be fixed before the first
    release, and let the parameters of every release be chosen after looking at earlier outcomes. If the filter lets it
    run only while it passes, everything released is (epsilon, delta)-DP for the group. `upper` is certified; it is
    never below the epsilon of the composition, which needs parameters fixed in advance.
    """
    target = math.log(require_number("delta", delta, above=0.0, below=1.0))
    checked = _orders(orders)
    run, group_size = with_own_groups(run, group_size)
    neighbours = neighbours_of(run, group_size=group_size, adjacency=adjacency)
    question_about(run, neighbours)  # refuses what has no law
    share = target + math.log1p(-REVEALED) - math.log(len(checked))
    uppers = []
    for change in neighbours.changes:
        found = math.inf
        for order in checked:
            parts = [one.divergence(change, order) for one in mechanisms_of(run)]
            lost = math.fsum(part[1] for part in parts) * (1.0 + _ROOM)
            if lost == 0.0 or math.log(lost) <= target + math.log(REVEALED):
                found = min(found, _epsilon(math.fsum(part[0] for part in parts) * (1.0 + _ROOM), order, share))
        uppers.append(found)
    return Bounds(0.0, max(uppers), Provenance(engine="renyi"), tight=False)


def tuned_epsilon(
    run: Any,
    *,
    delta: float,
    mean_trials: float,
    trials: str = "geometric",
    group_size: Any = None,
    adjacency: str = "add-or-remove",
) -> Bounds:
    """Epsilon of releasing the best of a random number of runs, with its hyperparameters.

    The number of runs is drawn from a geometric (on 1, 2, ...) or a Poisson law (0 runs release nothing) with the mean
    `mean_trials`, independently of the data; every run is as described, and only the best one is released. `upper` is
    certified (R-9).
    """
    target = math.log(require_number("delta", delta, above=0.0, below=1.0))
    mean = require_number("mean_trials", mean_trials, at_least=1.0, at_most=1e9)
    require_choice("trials", trials, TRIALS)
    both = ADD_OR_REMOVE if adjacency in DIRECTIONS else adjacency  # R-9 needs divergences in both orders
    question = question_of(run, group_size=group_size, adjacency=both)
    if question.is_empty:
        return Bounds(0.0, 0.0, Provenance(engine="renyi"))
    curve = {order: max(map(_divergence(order), question.compositions)) for order in ORDERS}
    found = search_divergences(
        curve, mean, trials, lambda nearby: log_delta_of_question(question, nearby, options_of(engine="auto")).upper
    )
    upper = min(_epsilon(value, order, target) for order, value in found.items())
    return Bounds(0.0, upper, Provenance(engine="renyi"), tight=False)


def _divergence(order: float) -> Callable[[tuple[str, Composition]], float]:
    """The divergence of a composition; inf where a share of P has none."""

    def of(named: tuple[str, Composition]) -> float:
        value, lost = renyi_divergence(named[1], order)
        return math.inf if lost else value

    return of


def _epsilon(divergence: float, order: float, log_delta: float) -> float:
    """The epsilon of a Renyi divergence (Canonne, Kamath and Steinke 2020, Proposition 12), rounded up."""
    if divergence == math.inf:
        return math.inf
    excess = order - 1.0
    value = divergence + math.log1p(-1.0 / order) - (log_delta + math.log(order)) / excess
    return max(value + _ROOM * (1.0 + divergence + abs(log_delta)), 0.0)


def _orders(orders: Sequence[float]) -> tuple[float, ...]:
    if not isinstance(orders, list | tuple) or not orders:
        raise InvalidArgument("orders", orders, "be a non-empty sequence of orders above 1")
    return tuple(sorted({require_number("orders", order, above=1.0, at_most=1e4) for order in orders}))
