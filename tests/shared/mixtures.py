"""Runs as mixtures with a direction, and as the pairs that engines see."""

from __future__ import annotations

from typing import Any

from groupdp import MixtureOfGaussians, pairs
from groupdp.question import question_of

#: Mixtures with the number of rounds of each.
Composition = tuple[tuple[MixtureOfGaussians, int], ...]


def compose_run(run: Any, group_size: int) -> Composition:
    """The mixtures of a run whose rounds have one side, in units of the noise."""
    ((_, composition),) = question_of(run, group_size=group_size, adjacency="remove").compositions
    mixtures = []
    for one, times in composition:
        side = one.branches[0].right
        law = (side.probabilities, side.log_probabilities)
        mixtures.append((MixtureOfGaussians.from_law(side.shifts, law, 1.0), times))
    return tuple(mixtures)


def pairs_of(composition: Composition, direction: str) -> pairs.Composition:
    """Remove is (law, {0}) in every round, add is ({0}, law)."""
    sides = [(mixture.side, times) for mixture, times in composition]
    if direction == "remove":
        return pairs.compose((pairs.Round.of(side, pairs.ZERO), times) for side, times in sides)
    return pairs.compose((pairs.Round.of(pairs.ZERO, side), times) for side, times in sides)
