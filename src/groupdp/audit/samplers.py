"""Samplers that really sample: which examples of the dataset enter each round's batch.

Nothing here knows about privacy accounting; a sampler draws one inclusion indicator per example, per
round and per trial, exactly as its description says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from groupdp._validation import require_integer, require_number
from groupdp.errors import InvalidArgument
from groupdp.samplings import FixedBatchSampling, Sampling

BoolArray = npt.NDArray[np.bool_]


class Sampler(Protocol):
    """Anything that can say, round after round, who is in the batch."""

    def batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        """An endless iterator: for each round, a (trials, dataset_size) array of inclusion indicators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonSampler:
    """Every round includes every example independently with probability `rate`.

    The rate is exact to 2^-53, the resolution of the uniform variates.
    """

    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", require_number("rate", self.rate, above=0.0, at_most=1.0))

    def batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        while True:
            yield generator.random((trials, dataset_size)) < self.rate


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedBatchSampler:
    """Every round draws a uniformly random subset of exactly `batch_size` examples, without replacement."""

    batch_size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", require_integer("batch_size", self.batch_size, at_least=1))

    def batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        _require_room(self.batch_size, dataset_size)
        while True:
            yield _uniform_subsets(generator, self.batch_size, trials, dataset_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusedBatchSampler:
    """A broken trainer: draws one batch of `batch_size` examples and uses it in every round.

    No theorem covers it; it exists so that an audit has something to catch.
    """

    batch_size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", require_integer("batch_size", self.batch_size, at_least=1))

    def batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        _require_room(self.batch_size, dataset_size)
        batch = _uniform_subsets(generator, self.batch_size, trials, dataset_size)
        while True:
            yield batch


def sampler_of(sampling: Sampling) -> PoissonSampler | FixedBatchSampler:
    """The sampler that does what `sampling` describes."""
    if isinstance(sampling, FixedBatchSampling):
        return FixedBatchSampler(batch_size=sampling.batch_size)
    return PoissonSampler(rate=sampling.values()["sampling_rate"])


def _uniform_subsets(generator: np.random.Generator, batch_size: int, trials: int, dataset_size: int) -> BoolArray:
    """Selection sampling (Knuth, volume 2, algorithm S): exactly uniform, in integer arithmetic.

    With r examples left to see and b places left, the next one enters with probability b / r.
    """
    included = np.empty((dataset_size, trials), dtype=np.bool_)
    places = np.full(trials, batch_size, dtype=np.int64)
    for position in range(dataset_size):
        np.less(generator.integers(0, dataset_size - position, size=trials), places, out=included[position])
        places -= included[position]
    return included.T


def _require_room(batch_size: int, dataset_size: int) -> None:
    if batch_size > dataset_size:
        raise InvalidArgument(f"batch_size must be at most dataset_size={dataset_size}, got {batch_size}.")
