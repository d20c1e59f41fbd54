"""Trainers that do not do what they declare, so that an audit has something to catch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from groupdp.samplings.sized_batches import uniform_subsets


@dataclass(frozen=True)
class ReusedBatchSampler:
    """Draws one batch of `batch_size` examples and uses it in every round."""

    batch_size: int

    def sampled_batches(
        self, generator: np.random.Generator, *, trials: int, dataset_size: int
    ) -> Iterator[npt.NDArray[np.bool_]]:
        batch = uniform_subsets(generator, self.batch_size, trials, dataset_size)
        while True:
            yield batch
