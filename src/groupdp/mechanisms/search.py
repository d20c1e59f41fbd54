"""A search of hyperparameters: a mechanism that is run several times, with only the best run released."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

from groupdp._validation import require_choice, require_integer, require_number
from groupdp.errors import InvalidArgument
from groupdp.fields import Field, Slider
from groupdp.mechanisms.mechanism import Mechanism, Wrapper
from groupdp.moments import law_of_divergences, log_delta_of_divergence
from groupdp.neighbours import Change
from groupdp.pairs import Rounds
from groupdp.printing import given

#: How the number of runs is chosen.
LAWS = FIXED, GEOMETRIC, POISSON = ("fixed", "geometric", "poisson")
#: Orders that a search is accounted at; any one is valid, so the best may be chosen.
ORDERS = (1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0)
#: Largest number of runs.
MOST_RUNS = 1_000_000
_ROOM = 1e-12

#: The keys of a phase that is searched, by law; a phase has one of them at most.
FIELDS = {
    law: Field(
        name="runs" if law == FIXED else f"{law}_runs",
        unit="runs",
        meaning="A search: how many times the phase is run."
        if law == FIXED
        else f"A search that releases its best run: the mean of a {law} number of runs.",
        kind="number",
        at_least=1.0,
        at_most=float(MOST_RUNS),
        example="20",
        slider=Slider(start=20.0, low=1.0, high=1000.0),
    )
    for law in LAWS
}


@dataclass(frozen=True, slots=True)
class Search(Wrapper):
    """`mechanism`, run several times with hyperparameters that do not change its guarantee.

    law "fixed": `runs` runs, all of which may be released: they are composed. "geometric" (on 1, 2, ...) and
    "poisson" (0 runs release nothing): the number of runs is drawn from that law with the mean `runs`, independently
    of the data, it stays secret, and only the best run is released, with its hyperparameters (R-9). What is known of
    the latter two are Renyi divergences, so that they are valid and not tight.
    """

    mechanism: Mechanism
    runs: float
    law: str = FIXED

    name: ClassVar[str] = "search"
    title: ClassVar[str] = "a search of hyperparameters"

    def __post_init__(self) -> None:
        require_choice("law", self.law, LAWS)
        if isinstance(self.mechanism, Wrapper):
            raise InvalidArgument("run", self.mechanism, "be a mechanism for it to be searched")
        if self.law == FIXED:
            whole = self.runs
            if isinstance(whole, float) and whole.is_integer():
                whole = int(whole)
            number = float(require_integer("runs", whole, at_least=1, at_most=MOST_RUNS))
        else:
            number = require_number("runs", self.runs, at_least=1.0, at_most=float(MOST_RUNS))
        object.__setattr__(self, "runs", number)

    @property
    def releases(self) -> int:
        return self.mechanism.releases * math.ceil(self.runs)

    def _composed(self, rounds: Rounds) -> Rounds:
        return tuple((one, times * int(self.runs)) for one, times in rounds)

    def rounds(self, change: Change) -> Rounds:
        if self.law == FIXED:
            return self._composed(self.mechanism.rounds(change))
        if not self.mechanism.rounds(change):
            return ()
        return _best_of(self, change)

    def alternatives(self, change: Change) -> tuple[Rounds, ...]:
        return tuple(map(self._composed, self.mechanism.alternatives(change))) if self.law == FIXED else ()

    def divergence(self, change: Change, order: float) -> tuple[float, float]:
        if self.law == FIXED:
            found, lost = self.mechanism.divergence(change, order)
            return found * self.runs * (1.0 + _ROOM), lost * self.runs * (1.0 + _ROOM)
        curve = _curve(self.mechanism, change, order)
        return search_divergences(curve, self.runs, self.law, log_delta_by(curve))[order], 0.0

    def is_tight(self, change: Change) -> bool:
        return self.law == FIXED and self.mechanism.is_tight(change)

    def assumptions(self) -> tuple[str, ...]:
        own = self.mechanism.assumptions()
        count = given(self.runs)
        if self.law == FIXED:
            return (
                f"The phase is run {count} times in all; every run of it counts, also those that were dropped.",
                *own,
            )
        return (
            f"The number of runs of the search is drawn from a {self.law} law with mean {count}, independently of the "
            "data, and is not released; only the best run is, and nothing else depends on the others.",
            *own,
        )

    def values(self) -> dict[str, Any]:
        return {**self.mechanism.values(), FIELDS[self.law].name: self.runs}

    def stated(self) -> dict[str, Any]:
        return {**self.mechanism.stated(), FIELDS[self.law].name: self.runs}

    def describe(self) -> str:
        count = given(self.runs)
        runs = (
            f"{count} runs of"
            if self.law == FIXED
            else f"the best of a {self.law} number of runs, {count} on average, of"
        )
        return f"{runs} {self.mechanism.describe()}"


@lru_cache(maxsize=256)
def _best_of(search: Search, change: Change) -> Rounds:
    """Known losses that dominate what is released (R-10)."""
    curve = _curve(search.mechanism, change)
    return ((law_of_divergences(search_divergences(curve, search.runs, search.law, log_delta_by(curve))), 1),)


def _curve(mechanism: Mechanism, change: Change, *more: float) -> dict[float, float]:
    """The divergences of one run by order, the larger of both directions; inf where a share of P has none."""
    changes = {change, replace(change, removed=change.added, added=change.removed)}
    found = {}
    for order in {*ORDERS, *more}:
        divergences = [mechanism.divergence(one, order) for one in changes]
        found[order] = max(math.inf if lost else value for value, lost in divergences)
    return found


def log_delta_by(curve: Mapping[float, float]) -> Callable[[float], float]:
    """log of at least delta(epsilon) of one run, from its divergences."""
    return lambda epsilon: min(log_delta_of_divergence(value, order, epsilon) for order, value in curve.items())


def search_divergences(
    curve: Mapping[float, float], mean: float, law: str, log_delta: Callable[[float], float]
) -> dict[float, float]:
    """Divergences of the best of a random number of runs, from those of one run (R-9).

    Papernot and Steinke 2022: Theorem 2 with eta = 1 and gamma = 1 / mean, at the best second order; Theorem 6 with
    e^epsilon' = 1 + 1 / (order - 1), where delta' is the curve of one run.
    """
    if law == GEOMETRIC:
        second = min(2.0 * (1.0 - 1.0 / order) * value + 2.0 * math.log(mean) / order for order, value in curve.items())
        extra = dict.fromkeys(curve, second)
    else:
        extra = {order: mean * math.exp(log_delta(math.log1p(1.0 / (order - 1.0)) * (1.0 - _ROOM))) for order in curve}
    found = {order: value + extra[order] + math.log(mean) / (order - 1.0) for order, value in curve.items()}
    return {order: value * (1.0 + _ROOM) + _ROOM for order, value in found.items()}
