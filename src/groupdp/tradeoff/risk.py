"""What a guarantee means for a person: numbers a reviewer can read, each from the trade-off function.

Every number is about the best attacker on the worst loss and datasets; `upper` sides of advantages, true positive
rates and posteriors are guarantees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from groupdp._validation import require_number
from groupdp.bounds import Bounds
from groupdp.engines.interface import Progress
from groupdp.guarantees import delta as delta_of_run
from groupdp.guarantees import exp_down, exp_up
from groupdp.tradeoff import TradeOff, trade_off
from groupdp.tradeoff.gaussian import GaussianFit, best_gaussian
from groupdp.tradeoff.rates import rates_asked


@dataclass(frozen=True, kw_only=True)
class Risk:
    """How well an attacker could tell whether the group took part."""

    group_size: Any
    adjacency: str

    advantage: Bounds
    """Largest TPR - FPR of any attack: the total variation distance, delta(0)."""

    true_positive_rate: dict[float, Bounds]
    """Largest true positive rate at each false positive rate."""

    posterior: dict[float, Bounds]
    """Largest probability that somebody accused by such an attack did take part, at each false positive rate,
    for `prior`."""

    prior: float
    """Probability of taking part before seeing anything."""

    success: Bounds
    """Largest probability of a right guess about somebody who took part with probability `prior`."""

    function: TradeOff
    """The trade-off function that all of this is read from."""

    @cached_property
    def gaussian(self) -> GaussianFit:
        """The Gaussian mechanism closest to the run, and how close: computed when first asked for."""
        return best_gaussian(self.function)


def risk(
    run: Any,
    *,
    group_size: Any = None,
    adjacency: str = "add-or-remove",
    removed: Any = None,
    added: Any = None,
    rounds: int | None = None,
    false_positive_rates: Sequence[float] = (1e-3, 1e-6),
    prior: float = 0.5,
    engine: str = "auto",
    function: TradeOff | None = None,
    progress: Progress | None = None,
) -> Risk:
    """Advantage, true positive rates and posteriors, each certified.

    `function` is the run's trade-off function for the same question, where that is at hand: it keeps what it computed.
    """
    before = require_number("prior", prior, above=0.0, below=1.0)
    question: dict[str, Any] = {
        "group_size": group_size,
        "adjacency": adjacency,
        "removed": removed,
        "added": added,
        "rounds": rounds,
        "engine": engine,
    }
    report = progress if progress is not None else (lambda _: None)
    asked = rates_asked(false_positive_rates)
    function = trade_off(run, **question) if function is None else function
    advantage = delta_of_run(run, epsilon=0.0, **question)
    guess = success(function, before)
    rates = {}
    for done, rate in enumerate(asked.tolist()):
        report(done / len(asked))
        rates[rate] = function.true_positive_rate(rate)
    return Risk(
        group_size=group_size,
        adjacency=adjacency,
        advantage=advantage,
        true_positive_rate=rates,
        posterior={rate: posterior(bounds, rate, prior=before) for rate, bounds in rates.items()},
        prior=before,
        success=guess,
        function=function,
    )


def posterior(true_positive_rate: Bounds, false_positive_rate: float, *, prior: float) -> Bounds:
    """Probability of having taken part, given a positive answer: prior TPR / (prior TPR + (1 - prior) FPR).

    Where both rates are equal that is the prior, exactly; so it is said to be where no answer is ever positive.
    """
    odds = (1.0 - prior) / prior

    def of(rate: float, room: float) -> float:
        if rate == false_positive_rate:
            return prior
        # As 1 / (1 + odds FPR / TPR): the quotient of two rates does not underflow where their products do.
        if rate > 0.0 and math.isfinite(odds):
            return (1.0 + room) / (1.0 + odds * (false_positive_rate / rate))
        return 0.0 if room < 0.0 or math.isfinite(odds) else 1.0

    lower, upper = of(true_positive_rate.lower, -1e-15), of(true_positive_rate.upper, 1e-15)
    return Bounds(max(lower, 0.0), min(upper, 1.0), tight=true_positive_rate.tight)


def success(function: TradeOff, prior: float) -> Bounds:
    """Largest probability of a right guess: (1 - prior) + prior delta(log((1 - prior) / prior)).

    Maximising prior TPR + (1 - prior) (1 - FPR) over tests is the definition of the hockey-stick divergence. Where the
    logarithm is off by r, delta is off by at most r (T-9).
    """
    # The larger of a coin's weights, by always giving the same answer.
    known = max(prior, 1.0 - prior)
    if not function.composition:
        return Bounds(known, known)
    level = math.log1p(-prior) - math.log(prior)
    room = prior * 2.0**-48 * (1.0 + abs(math.log1p(-prior)) + abs(math.log(prior)))
    at = function.log_delta(level)
    lower = (1.0 - prior) + prior * exp_down(at.lower) - room
    upper = (1.0 - prior) + prior * exp_up(at.upper) + room
    sides = max(lower * (1.0 - 1e-14), known * (1.0 - 1e-15)), min(upper * (1.0 + 1e-14), 1.0)
    return Bounds(*sides, tight=function.tight)
