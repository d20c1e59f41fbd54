"""The mixtures of one example: what the baselines start from."""

from __future__ import annotations

from typing import Any

import numpy as np

from groupdp.adjacency import FORWARD
from groupdp.compositions import question_of
from groupdp.errors import InvalidArgument
from groupdp.mixture import MixtureOfGaussians
from groupdp.pairs import Round

#: Mixtures with the number of rounds of each.
Composition = tuple[tuple[MixtureOfGaussians, int], ...]


def example_composition(run: Any) -> Composition:
    """The mixtures that dominate a run for one example removed, in units of the noise.

    Refuses samplings whose round for one example is not one mixture against one Gaussian: no baseline is known there.
    """
    ((_, composition),) = question_of(run, group_size=1, adjacency=FORWARD).compositions
    mixtures = []
    for one, times in composition:
        if not isinstance(one, Round) or len(one.branches) > 1 or not one.branches[0].left.is_zero:
            raise InvalidArgument(
                "run must have rounds that are one mixture against one Gaussian for this baseline, got a public coin."
            )
        side = one.branches[0].right
        law = (side.probabilities, side.log_probabilities)
        if one.has_noise:
            mixtures.append((MixtureOfGaussians.from_law(side.shifts, law, 1.0), times))
        else:
            mixtures.append((MixtureOfGaussians.from_law(np.minimum(side.shifts, 1.0), law, 0.0), times))
    return tuple(mixtures)
