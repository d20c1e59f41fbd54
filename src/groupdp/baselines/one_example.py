"""The mixtures of one example: what the baselines start from."""

from __future__ import annotations

from typing import Any

import numpy as np

from groupdp._validation import require_choice
from groupdp.errors import InvalidArgument, InWords
from groupdp.mechanisms.dpsgd import DPSGD, phases_of
from groupdp.mechanisms.mechanism import mechanisms_of
from groupdp.mechanisms.mixture import MixtureOfGaussians
from groupdp.neighbours import ADJACENCIES, FORWARD, ONE_SIDED
from groupdp.pairs import Round
from groupdp.question import question_of

#: Mixtures with the number of rounds of each.
Composition = tuple[tuple[MixtureOfGaussians, int], ...]


class NoBaseline(InvalidArgument):
    """The run is valid, and no such analysis of one example is known for it."""


def example_composition(run: Any) -> Composition:
    """The mixtures that dominate a run for one example removed, in units of the noise.

    Its mirror image is one example added; no other adjacency starts from these.

    Refuses samplings whose round for one example is not one mixture against one Gaussian: no baseline is known there.
    """
    require_walk(run)
    ((_, composition),) = question_of(run, group_size=1, adjacency=FORWARD).compositions
    mixtures = []
    for one, times in composition:
        if not isinstance(one, Round) or len(one.branches) > 1 or not one.branches[0].left.is_zero:
            raise NoBaseline(
                "run",
                InWords("a public coin"),
                "have rounds that are one mixture against one Gaussian for this baseline",
            )
        side = one.branches[0].right
        law = (side.probabilities, side.log_probabilities)
        if one.has_noise:
            mixtures.append((MixtureOfGaussians.from_law(side.shifts, law, 1.0), times))
        else:
            mixtures.append((MixtureOfGaussians.from_law(np.minimum(side.shifts, 1.0), law, 0.0), times))
    return tuple(mixtures)


def require_walk(run: Any) -> None:
    """Refuses samplings where one example's guarantee says nothing of those on the way to a group.

    The datasets of a walk from none of the group to all of it have a larger common part than the first one.
    """
    if any(not isinstance(one, DPSGD) for one in mechanisms_of(run)):
        raise NoBaseline("run", run, "be a DPSGD or a sequence of them for this baseline")
    for phase in phases_of(run):
        if not phase.sampling.leaks_most_where_smallest:
            raise NoBaseline(
                "sampling",
                InWords(phase.sampling.title),
                "be another one for this baseline",
                "datasets on the way to a group are larger, and may leak more than the smallest one",
            )


def require_one_sided(adjacency: Any) -> None:
    """Refuses adjacencies that the mixtures of one example removed say nothing about."""
    if require_choice("adjacency", adjacency, ADJACENCIES) not in ONE_SIDED:
        raise InvalidArgument("adjacency", adjacency, f"be {', '.join(ONE_SIDED)} for this baseline")
