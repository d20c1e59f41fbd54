"""From a run and its neighbours to the compositions of rounds that dominate it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from groupdp._validation import require_integer
from groupdp.errors import InvalidArgument, InWords
from groupdp.mechanisms.mechanism import Mechanism, mechanisms_of
from groupdp.mechanisms.mixture import MixtureOfGaussians
from groupdp.mechanisms.wrappers import with_own_groups
from groupdp.neighbours import ADJACENCIES, Change, Neighbours
from groupdp.pairs import Composition, Round, compose


@dataclass(frozen=True, slots=True)
class Question:
    """Compositions by the name of their ordered change, the one that is worse more often first."""

    compositions: tuple[tuple[str, Composition], ...]
    tight: bool
    """Whether every composition is attained."""
    alternatives: tuple[tuple[Composition, ...], ...] = ()
    """For every composition, others that dominate the same change: the smallest answer of them is valid. Or nothing."""

    def options(self, index: int) -> tuple[Composition, ...]:
        """All compositions that dominate one change."""
        return (self.compositions[index][1], *(self.alternatives[index] if self.alternatives else ()))

    def of_mixtures(self, index: int) -> Composition:
        """A composition that dominates one change: of mixtures of Gaussians alone, if there is one."""
        options = self.options(index)
        return next((option for option in options if all(isinstance(part, Round) for part, _ in option)), options[0])

    @property
    def is_empty(self) -> bool:
        """Whether P and Q are identical: no steps, or nobody in the group."""
        return all(not composition for _, composition in self.compositions)


def question_of(
    run: Any,
    *,
    group_size: Any = None,
    adjacency: Any = ADJACENCIES[0],
    removed: Any = None,
    added: Any = None,
    rounds: Any = None,
) -> Question:
    """The compositions that dominate a run, from the keywords of the library's functions.

    A run is a mechanism or a sequence of mechanisms, composed (Ganesh 2024, Lemma 2.4: adaptive composition), with a
    group size, or with the numbers `removed` and `added`. Where a person has another number of examples in some
    release, the sequence has the pair (mechanism, group size) in its place. A `MixtureOfGaussians` on its own comes
    with a number of `rounds` instead of a group size.
    """
    if isinstance(run, MixtureOfGaussians):
        if not (group_size is None and removed is None and added is None):
            given = next(value for value in (group_size, removed, added) if value is not None)
            raise InvalidArgument("group_size", given, "be left out for a MixtureOfGaussians")
        if rounds is None:
            raise InvalidArgument("rounds", None, "be given for a MixtureOfGaussians")
        times = require_integer("rounds", rounds, at_least=0)
        return _question((run,), (Neighbours.of(group_size=1, adjacency=adjacency),), times)
    if rounds is not None:
        raise InvalidArgument("rounds", rounds, "be left out for a run (it has steps)")
    if isinstance(run, Mechanism) and type(group_size) is int and type(adjacency) is str and removed is added is None:
        return _of_one(run, group_size, adjacency)
    run, group_size = with_own_groups(run, group_size)
    return question_about(
        run, neighbours_of(run, group_size=group_size, adjacency=adjacency, removed=removed, added=added)
    )


def question_about(run: Any, neighbours: Neighbours) -> Question:
    """The compositions that dominate a run whose releases all have these neighbours."""
    mechanisms = mechanisms_of(run)
    return _question(mechanisms, (neighbours,) * len(mechanisms))


def neighbours_of(run: Any, **keywords: Any) -> Neighbours:
    """Which datasets a question about the run compares, from the keywords of the library's functions."""
    if isinstance(run, MixtureOfGaussians):
        return Neighbours.of(group_size=1, adjacency=keywords.get("adjacency", ADJACENCIES[0]))
    mechanisms = mechanisms_of(run)
    return Neighbours.of(sources=sources_of(mechanisms), unit=unit_of(mechanisms), **keywords)


def sources_of(mechanisms: tuple[Mechanism, ...]) -> tuple[str, ...] | None:
    """The sources that all mechanisms draw from, None where a group is a number."""
    if len(mechanisms) == 1:
        return mechanisms[0].sources or None
    different = {mechanism.sources for mechanism in mechanisms} - {()}
    if len(different) > 1:
        raise InvalidArgument("run", InWords("phases with different ones"), "draw from the same sources in every phase")
    return next(iter(different), None)


def unit_of(mechanisms: tuple[Mechanism, ...]) -> str:
    """What a group size counts in all of them: examples or people."""
    different = sorted({mechanism.unit for mechanism in mechanisms} - {""})
    if len(different) > 1:
        raise InvalidArgument(
            "run",
            InWords("releases that count examples and releases that count people"),
            "have a group size for each release, like (run, 8), or count the same unit in all of them",
        )
    return different[0] if different else "example"


@lru_cache(maxsize=64)
def _of_one(run: Mechanism, group_size: int, adjacency: str) -> Question:
    """The question about one mechanism, which is asked most often, cached by its arguments."""
    return question_about(run, neighbours_of(run, group_size=group_size, adjacency=adjacency))


@lru_cache(maxsize=64)
def _question(mechanisms: tuple[Mechanism, ...], neighbours: tuple[Neighbours, ...], times: int = 1) -> Question:
    """All releases composed, for each ordered change; every release has neighbours of the same adjacency."""
    for mechanism, own in zip(mechanisms, neighbours, strict=True):
        mechanism.require_adjacency(own.adjacency)
    changes = list(zip(*(own.changes for own in neighbours), strict=True))
    named: dict[tuple[Composition, ...], str] = {}
    for of_releases in changes:
        # A symmetric pair is its own mirror image.
        named.setdefault(_options(mechanisms, of_releases, times), of_releases[0].name)
    return Question(
        tuple((name, options[0]) for options, name in named.items()),
        tight=all(
            mechanism.is_tight(change)
            for of_releases in changes
            for mechanism, change in zip(mechanisms, of_releases, strict=True)
        ),
        alternatives=tuple(options[1:] for options in named) if any(len(options) > 1 for options in named) else (),
    )


def _options(mechanisms: tuple[Mechanism, ...], changes: tuple[Change, ...], times: int) -> tuple[Composition, ...]:
    """Compositions that dominate all releases: of a mechanism with fewer alternatives, the last one again."""
    each = [
        (mechanism.rounds(change), *mechanism.alternatives(change))
        for mechanism, change in zip(mechanisms, changes, strict=True)
    ]
    composed = []
    for index in range(max(len(options) for options in each)):
        rounds = [part for options in each for part in options[min(index, len(options) - 1)]]
        composed.append(compose((one, count * times) for one, count in rounds))
    return tuple(dict.fromkeys(composed))
