"""Guarantees where parameters were chosen after looking: a Renyi filter, and the cost of hyperparameter search.

Composition needs the parameters of every release to be fixed in advance. `filter_epsilon` is valid where each release's
parameters depend on earlier outcomes (R-8); `tuned_epsilon` is valid for the best of a random number of runs (R-9).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from groupdp._validation import require_choice, require_number
from groupdp.baselines.group_renyi import renyi_divergence
from groupdp.bounds import Bounds, Provenance
from groupdp.errors import InvalidArgument
from groupdp.question import Question, question_of
from groupdp.solve import log_delta_of_question, options_of

#: Orders of a filter. They are fixed when it is made: each further one costs a share of delta.
FILTER_ORDERS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)
#: Orders that a search is accounted at; any one is valid, so the best may be chosen.
TUNING_ORDERS = (1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0)
#: How the number of runs of a search is drawn.
TRIALS = ("geometric", "poisson")
_ROOM = 1e-12


def filter_epsilon(
    run: Any,
    *,
    delta: float,
    group_size: Any = None,
    adjacency: str = "add-or-remove",
    orders: Sequence[float] = FILTER_ORDERS,
) -> Bounds:
    """The smallest budget epsilon of a Renyi filter that lets all these releases pass.

    Formal guarantee. Let a filter with these `orders` and the budget (epsilon, delta) be fixed before the first
    release, and let the parameters of every release be chosen after looking at earlier outcomes. If the filter lets it
    run only while it passes, everything released is (epsilon, delta)-DP for the group. `upper` is certified; it is
    never below the epsilon of the composition, which needs parameters fixed in advance.
    """
    target = math.log(require_number("delta", delta, above=0.0, below=1.0))
    checked = _orders(orders)
    question = question_of(run, group_size=group_size, adjacency=adjacency)
    share = target - math.log(len(checked))
    upper = max(
        min(_epsilon(renyi_divergence(composition, order), order, share) for order in checked)
        for _, composition in question.compositions
    )
    return Bounds(0.0, upper, Provenance(engine="renyi"))


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
    question = question_of(run, group_size=group_size, adjacency=adjacency)
    if question.is_empty:
        return Bounds(0.0, 0.0, Provenance(engine="renyi"))
    curve = {
        order: max(renyi_divergence(composition, order) for _, composition in question.compositions)
        for order in TUNING_ORDERS
    }
    found = _geometric(curve, mean) if trials == "geometric" else _poisson(curve, mean, question)
    upper = min(_epsilon(value * (1.0 + _ROOM) + _ROOM, order, target) for order, value in found.items())
    return Bounds(0.0, upper, Provenance(engine="renyi"))


def _geometric(curve: dict[float, float], mean: float) -> dict[float, float]:
    """Papernot and Steinke 2022, Theorem 2 with eta = 1 and gamma = 1 / mean, at the best second order."""
    second = min(2.0 * (1.0 - 1.0 / order) * value + 2.0 * math.log(mean) / order for order, value in curve.items())
    return {order: value + second + math.log(mean) / (order - 1.0) for order, value in curve.items()}


def _poisson(curve: dict[float, float], mean: float, question: Question) -> dict[float, float]:
    """Papernot and Steinke 2022, Theorem 6: e^epsilon' = 1 + 1 / (order - 1), and delta' is the curve there."""
    found = {}
    for order, value in curve.items():
        nearby = math.log1p(1.0 / (order - 1.0)) * (1.0 - _ROOM)
        log_delta = log_delta_of_question(question, nearby, options_of(engine="auto")).upper
        found[order] = value + mean * math.exp(log_delta) + math.log(mean) / (order - 1.0)
    return found


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
