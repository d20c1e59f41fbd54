"""The paper's two theorems: from a run and a group size to mixtures of Gaussians.

Ganesh, "Tight group-level DP guarantees for DP-SGD with sampling via mixture of Gaussians mechanisms"
(2024). Both reductions are tight: some loss and some pair of datasets attain them exactly (section 3.3).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from groupdp import pairs
from groupdp._validation import require_integer
from groupdp.dpsgd import DPSGD, FixedBatchSampling, Sampling, phases_of
from groupdp.errors import InvalidArgument
from groupdp.laws import binomial_law, hypergeometric_law
from groupdp.mixture import MixtureOfGaussians

#: Largest group accepted.
LARGEST_GROUP = 100_000

#: A composition: mixtures with the number of rounds of each.
Composition = tuple[tuple[MixtureOfGaussians, int], ...]


def mixture_of_one_round(phase: DPSGD, group_size: int) -> MixtureOfGaussians:
    """The mixture that dominates one round of `phase` for groups of up to `group_size` examples.

    Poisson sampling (Theorem 3.1): sensitivity Binom(k, q), in units of the clipping norm.
    Fixed batches (Theorem 3.3): 2 x Hypergeom(B, n + k, k), since an example of the group displaces another.

    Microbatching: each example of the group changes one clipped average, by at most 2. Under Poisson
    sampling this doubles the sensitivity; under fixed batches the factor 2 is already there (an example of
    the group takes a displaced example's place in one average).
    """
    return _mixture(phase.sampling, phase.noise_multiplier, phase.microbatch_size > 1, group_size)


@lru_cache(maxsize=32)
def _mixture(sampling: Sampling, noise_multiplier: float, in_microbatches: bool, group_size: int) -> MixtureOfGaussians:
    if isinstance(sampling, FixedBatchSampling):
        batch_size, dataset_size = sampling.batch_size, sampling.dataset_size
        if group_size > dataset_size:
            raise InvalidArgument(f"group_size must be at most dataset_size={dataset_size}, got {group_size}.")
        law = hypergeometric_law(batch_size, dataset_size, group_size)
        unit = 2.0
    else:
        law = binomial_law(group_size, sampling.rate)
        unit = 2.0 if in_microbatches else 1.0
    sensitivities = unit * np.arange(len(law[0]), dtype=np.float64)
    return MixtureOfGaussians.from_law(sensitivities, law, noise_multiplier)


def compose_run(run: Any, group_size: Any) -> Composition:
    """The composition of mixtures that dominates a run, phase by phase (Lemma 2.4: adaptive composition).

    Phases without steps, and groups of size 0, leave nothing to distinguish: the empty composition.
    """
    phases = phases_of(run)
    size = require_integer("group_size", group_size, at_least=0, at_most=LARGEST_GROUP)
    rounds: dict[MixtureOfGaussians, int] = {}
    for phase in phases:
        mixture = mixture_of_one_round(phase, size)
        if phase.steps > 0 and not mixture.is_trivial:
            rounds[mixture] = rounds.get(mixture, 0) + phase.steps
    return tuple(rounds.items())


def pairs_of(composition: Composition, direction: str) -> pairs.Composition:
    """The composition as pairs: remove is (law, {0}) in every round, add is ({0}, law)."""
    rounds = ((mixture.side, times) for mixture, times in composition)
    if direction == "remove":
        return pairs.compose((pairs.Round.of(side, pairs.ZERO), times) for side, times in rounds)
    return pairs.compose((pairs.Round.of(pairs.ZERO, side), times) for side, times in rounds)
