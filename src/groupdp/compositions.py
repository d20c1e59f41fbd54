"""From a run, a group and an adjacency to the compositions of pairs that dominate it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from groupdp._validation import require_choice, require_integer, shown
from groupdp.adjacency import ADJACENCIES, ONE_SIDED, SAME_SIZE, Change, Group, changes_of, group_of, is_empty
from groupdp.dpsgd import DPSGD, phases_of
from groupdp.errors import InvalidArgument
from groupdp.mixture import MixtureOfGaussians
from groupdp.pairs import ZERO, Composition, Profile, Round, compose


@dataclass(frozen=True, slots=True)
class Question:
    """Compositions by the name of their ordered change, the one that is worse more often first."""

    compositions: tuple[tuple[str, Composition], ...]
    tight: bool
    """Whether every composition is attained."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be told apart: no steps, or nobody in the group."""
        return all(not composition for _, composition in self.compositions)


def question_of(
    run: Any,
    *,
    group_size: Any = None,
    adjacency: Any = "add-or-remove",
    removed: Any = None,
    added: Any = None,
    rounds: Any = None,
) -> Question:
    """What is to be accounted for, from whatever describes it.

    A run is a `DPSGD` or a sequence of phases, composed (Ganesh 2024, Lemma 2.4: adaptive composition), with a group
    size, or with the numbers `removed` and `added`. A `MixtureOfGaussians` comes with a number of `rounds` instead.
    """
    if isinstance(run, MixtureOfGaussians):
        if not (group_size is None and removed is None and added is None):
            given = next(value for value in (group_size, removed, added) if value is not None)
            raise InvalidArgument(f"group_size must be left out for a MixtureOfGaussians, got {shown(given)}.")
        if rounds is None:
            raise InvalidArgument("rounds must be given for a MixtureOfGaussians, got None.")
        return _of_mixture(run, require_integer("rounds", rounds, at_least=0), adjacency)
    if rounds is not None:
        raise InvalidArgument(f"rounds must be left out for a run (it has steps), got {shown(rounds)}.")
    phases = phases_of(run)
    require_choice("adjacency", adjacency, ADJACENCIES)
    asked, groups = _groups(phases, group_size, adjacency, removed, added)
    return _of_phases(phases, asked, *groups)


def _groups(
    phases: tuple[DPSGD, ...], group_size: Any, adjacency: str, removed: Any, added: Any
) -> tuple[str, tuple[Group | None, Group | None, Group | None]]:
    """The adjacency asked for ("exchange" for removed and added), and the groups as (group, removed, added)."""
    sources = phases[0].sampling.sources
    if any(phase.sampling.sources != sources for phase in phases):
        raise InvalidArgument("run must draw from the same sources in every phase, got phases with different ones.")
    if removed is None and added is None:
        return adjacency, (group_of("group_size", group_size, sources), None, None)
    if group_size is not None:
        raise InvalidArgument(
            f"group_size must be left out where removed and added are given, got {shown(group_size)}."
        )
    if adjacency != ADJACENCIES[0]:
        raise InvalidArgument(f"adjacency must be left out where removed and added are given, got {shown(adjacency)}.")
    nobody: Any = 0 if sources is None else {}
    counts = [
        group_of(name, nobody if value is None else value, sources)
        for name, value in (("removed", removed), ("added", added))
    ]
    return "exchange", (None, counts[0], counts[1])


@lru_cache(maxsize=64)
def _of_phases(
    phases: tuple[DPSGD, ...], asked: str, group: Group | None, removed: Group | None, added: Group | None
) -> Question:
    for phase in phases:
        phase.sampling.require_adjacency(asked)
    adjacency = ADJACENCIES[0] if asked == "exchange" else asked
    changes = changes_of(adjacency, group=group, removed=removed, added=added)
    named: dict[Composition, str] = {}
    for change in changes:
        named.setdefault(_composition(phases, change), change.name)  # a symmetric pair is its own mirror image
    return Question(
        tuple((name, composition) for composition, name in named.items()),
        tight=all(
            phase.sampling.is_tight(change, steps=phase.steps) and not phase.in_microbatches
            for phase in phases
            if phase.steps > 0
            for change in changes
        ),
    )


def _composition(phases: tuple[DPSGD, ...], change: Change) -> Composition:
    rounds: list[tuple[Round | Profile, int]] = []
    for phase in phases:
        noise, steps, microbatches = phase.noise_multiplier, phase.steps, phase.in_microbatches
        rounds += phase.sampling.rounds(change, noise=noise, steps=steps, microbatches=microbatches)
    return compose(rounds)


def _of_mixture(mixture: MixtureOfGaussians, rounds: int, adjacency: Any) -> Question:
    chosen = require_choice("adjacency", adjacency, ADJACENCIES)
    if chosen not in (*ONE_SIDED, *SAME_SIZE):
        raise InvalidArgument(
            f"adjacency must be another one for a MixtureOfGaussians, whose group is fixed, got {chosen!r}."
        )
    found = []
    for change in changes_of(chosen, group=1, removed=None, added=None):  # the mixture's own group is one of them
        first, second = (ZERO if is_empty(group) else mixture.side for group in (change.removed, change.added))
        found.append((change.name, compose([(Round.of(first, second), rounds)])))
    return Question(tuple(found), tight=True)
