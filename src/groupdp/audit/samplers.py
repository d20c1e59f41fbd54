"""Samplers that really sample: which examples of the dataset enter each round's batch.

What a run describes is sampled by its sampling (samplings/); nothing here knows about privacy accounting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from groupdp._validation import require_integer
from groupdp.samplings import Sampling
from groupdp.samplings.fixed_batch import uniform_subsets

BoolArray = npt.NDArray[np.bool_]


class Sampler(Protocol):
    """Anything that can say, round after round, who is in the batch."""

    def batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        """An endless iterator: for each round, a (trials, dataset_size) array of inclusion indicators."""


@dataclass(frozen=True, slots=True)
class DescribedSampler:
    """Does what a sampling describes."""

    sampling: Sampling

    def batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        return self.sampling.sampled_batches(generator, trials=trials, dataset_size=dataset_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusedBatchSampler:
    """A broken trainer: draws one batch of `batch_size` examples and uses it in every round.

    No theorem covers it; it exists so that an audit has something to catch.
    """

    batch_size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", require_integer("batch_size", self.batch_size, at_least=1))

    def batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        batch = uniform_subsets(generator, self.batch_size, trials, dataset_size)
        while True:
            yield batch


def sampler_of(sampling: Sampling) -> DescribedSampler:
    """The sampler that does what `sampling` describes."""
    return DescribedSampler(sampling)
