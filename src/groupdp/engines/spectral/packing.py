"""A composition as the kernel reads it: buffers of doubles, and branches N(mu, 1) against N(0, 1) apart from the rest.

A branch of two points, N(x, 1) against N(-y, 1), is N(x + y, 1) against N(0, 1) moved by y, and has closed forms.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from groupdp.errors import LimitExceeded
from groupdp.pairs import Branch, Composition, FloatArray, Round

if TYPE_CHECKING:
    from groupdp.engines.spectral._kernel import PackedBranch, PackedRound


_NONE = np.empty(0)


def packed(composition: Composition) -> list[PackedRound]:
    """The rounds with their numbers of repetitions, for the functions of `_kernel`; LimitExceeded for profiles."""
    rounds = [(one, times) for one, times in composition if isinstance(one, Round)]
    if len(rounds) < len(composition):
        raise LimitExceeded(
            "the spectral engine composes pairs of mixtures, and members replaced or zeroed in fixed-size batches have "
            "none: the lattice engine answers for them."
        )
    return [(float(times), *_packed_round(one)) for one, times in rounds]


@lru_cache(maxsize=256)
def _packed_round(one: Round) -> tuple[tuple[PackedBranch, ...], FloatArray, FloatArray]:
    branches, shifts, log_weights = [], [], []
    for branch, log_weight in zip(one.branches, one.log_weights, strict=True):
        if len(branch.right.shifts) == len(branch.left.shifts) == 1:
            shifts.append(float(branch.right.shifts[0] + branch.left.shifts[0]))
            log_weights.append(log_weight)
        else:
            branches.append(_packed_branch(branch, log_weight))
    if not shifts:
        return tuple(branches), _NONE, _NONE
    return tuple(branches), np.array(shifts, dtype=np.float64), np.array(log_weights, dtype=np.float64)


def _packed_branch(branch: Branch, log_weight: float) -> PackedBranch:
    right, left = branch.right, branch.left
    return (
        log_weight,
        right.shifts,
        right.probabilities,
        right.log_probabilities,
        left.shifts,
        left.probabilities,
        left.log_probabilities,
    )
