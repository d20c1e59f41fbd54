"""Mechanisms made of another one: with a group size of its own, or run several times in a search of hyperparameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

from groupdp.errors import InvalidArgument, InWords, require_choice, require_integer, require_number
from groupdp.fields import real
from groupdp.groups import Group, empty_like, group_of, in_words, is_empty, total
from groupdp.mechanisms.mechanism import Mechanism, Wrapper
from groupdp.moments import law_of_divergences, log_delta_by
from groupdp.neighbours import EXCHANGE, Change, require_law
from groupdp.pairs import Rounds, compose
from groupdp.printing import given

_SPLITS = ("add-and-remove", EXCHANGE)


@dataclass(frozen=True, slots=True)
class OfGroup(Wrapper):
    """`mechanism` with a group size of its own: a person has up to `group` examples in it.

    `epsilon` turns a pair (mechanism, group size) into it, and run files a phase with a group_size.
    """

    mechanism: Mechanism
    group: Group

    name: ClassVar[str] = "of-group"
    title: ClassVar[str] = "a release with a group size of its own"
    refusals: ClassVar[Mapping[str, str]] = dict.fromkeys(
        _SPLITS, "the run does not say how its group is split into those that leave and those that join"
    )

    @classmethod
    def of(cls, mechanism: Mechanism, group_size: Any) -> OfGroup:
        """An `OfGroup` from a number of examples, or a number for each source."""
        if isinstance(mechanism, OfGroup):
            raise InvalidArgument("group_size", group_size, "be given once for each release")
        return cls(mechanism, group_of("group_size", group_size, mechanism.sources or None))

    @property
    def unit(self) -> str:
        return ""

    def _own(self, change: Change) -> Change:
        removed, added = (
            empty_like(self.group) if is_empty(side) else self.group for side in (change.removed, change.added)
        )
        return replace(change, removed=removed, added=added)

    def rounds(self, change: Change) -> Rounds:
        return self.mechanism.rounds(self._own(change))

    def alternatives(self, change: Change) -> tuple[Rounds, ...]:
        return self.mechanism.alternatives(self._own(change))

    def divergence(self, change: Change, order: float) -> tuple[float, float]:
        return self.mechanism.divergence(self._own(change), order)

    def is_tight(self, change: Change) -> bool:
        return self.mechanism.is_tight(self._own(change))

    def require_adjacency(self, adjacency: str) -> None:
        if adjacency in _SPLITS:
            others = tuple(name for name in self.adjacencies if name not in _SPLITS)
            require_law(adjacency, self.title, others, self.refusals)
        self.mechanism.require_adjacency(adjacency)

    @property
    def _enters(self) -> bool:
        """Whether the number of examples matters: it does not if all examples of a person count as one."""
        return is_empty(self.group) or not getattr(Wrapper.innermost(self), "per_person", False)

    def assumptions(self) -> tuple[str, ...]:
        if not self._enters:
            return self.mechanism.assumptions()
        return (
            f"In this release ({self.mechanism.describe()}) {self._counted('at most ')}.",
            *self.mechanism.assumptions(),
        )

    def _counted(self, most: str = "") -> str:
        unit = self.mechanism.unit
        count = f"one {unit}" if total(self.group) == 1 else in_words(self.group, unit)
        return f"the group is {most}{count}" if unit == "person" else f"a person has {most}{count}"

    @property
    def group_size(self) -> Any:
        """A number, or a number of each source."""
        return self.group if isinstance(self.group, int) else dict(self.group)

    @property
    def added_values(self) -> dict[str, Any]:
        return {"group_size": self.group_size}

    def describe(self) -> str:
        return f"{self.mechanism.describe()}, where {self._counted()}" if self._enters else self.mechanism.describe()


def with_own_groups(run: Any, group_size: Any) -> tuple[Any, Any]:
    """The run with an `OfGroup` in place of every pair (mechanism, group size), and the group size of the others.

    If every release has a group size of its own, no other may be given, and the largest of them is returned.
    """
    if not isinstance(run, list | tuple) or not any(isinstance(release, OfGroup | tuple) for release in run):
        return run, group_size
    releases = [release if not isinstance(release, tuple) else _release(release) for release in run]
    own = [release.group for release in releases if isinstance(release, OfGroup)]
    if len(own) == len(releases):
        if group_size is not None and any(isinstance(release, tuple) for release in run):
            raise InvalidArgument("group_size", group_size, "be left out where every release has one of its own")
        group_size = max(1, *(total(group) for group in own)) if group_size is None else group_size
    return releases, group_size


def _release(pair: tuple[Any, ...]) -> OfGroup:
    if len(pair) != 2 or not isinstance(pair[0], Mechanism):
        raise InvalidArgument("run", pair, "have mechanisms or pairs (mechanism, group size)")
    return OfGroup.of(*pair)


def require_one_group(run: Any) -> None:
    """Refuse a run in which a release has a group size of its own, since varying k would not change it."""
    for release in run if isinstance(run, list | tuple) else (run,):
        if isinstance(release, OfGroup | tuple):
            raise InvalidArgument(
                "run",
                InWords("a phase with a group size of its own"),
                "have no such phase where the group size varies",
            )


#: How the number of runs is chosen.
LAWS = FIXED, GEOMETRIC, POISSON = ("fixed", "geometric", "poisson")
_NAMES = {FIXED: FIXED, GEOMETRIC: GEOMETRIC, POISSON: "Poisson"}
#: Orders that a search is accounted at; any one is valid, so the best may be chosen.
ORDERS = (1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0)
#: Largest number of runs.
MOST_RUNS = 1_000_000
_ROOM = 1e-12

#: The keys of a phase that is searched, by law; a phase has one of them at most.
FIELDS = {
    law: real(
        "runs" if law == FIXED else f"{law}_runs",
        "A search that may release every run: the number of runs."
        if law == FIXED
        else f"A search that releases only its best run: the mean of a {_NAMES[law]} number of runs.",
        (20.0, 1.0, 1000.0),
        unit="runs",
        at_least=1.0,
        at_most=float(MOST_RUNS),
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
        return tuple((round_, times * int(self.runs)) for round_, times in rounds)

    def rounds(self, change: Change) -> Rounds:
        rounds = self.mechanism.rounds(change)
        if self.law == FIXED or not compose(rounds):
            return self._composed(rounds)
        return _best_of(self, change)

    def alternatives(self, change: Change) -> tuple[Rounds, ...]:
        return tuple(map(self._composed, self.mechanism.alternatives(change))) if self.law == FIXED else ()

    def divergence(self, change: Change, order: float) -> tuple[float, float]:
        if self.law == FIXED:
            divergence, lost = self.mechanism.divergence(change, order)
            return divergence * self.runs * (1.0 + _ROOM), lost * self.runs * (1.0 + _ROOM)
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
            f"The number of runs of the search is drawn from a {_NAMES[self.law]} law with mean {count}, independently "
            "of the data. Only the best run is released, not the number of runs, and nothing else depends on the other "
            "runs.",
            *own,
        )

    @property
    def added_values(self) -> dict[str, Any]:
        return {FIELDS[self.law].name: self.runs}

    def describe(self) -> str:
        count = given(self.runs)
        runs = (
            f"{count} runs of"
            if self.law == FIXED
            else f"the best of a {_NAMES[self.law]} number of runs, {count} on average, of"
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
    largest = {}
    for order in {*ORDERS, *more}:
        divergences = [mechanism.divergence(own, order) for own in changes]
        largest[order] = max(math.inf if lost else value for value, lost in divergences)
    return largest


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
    bounds = {order: value + extra[order] + math.log(mean) / (order - 1.0) for order, value in curve.items()}
    return {order: value * (1.0 + _ROOM) + _ROOM for order, value in bounds.items()}
