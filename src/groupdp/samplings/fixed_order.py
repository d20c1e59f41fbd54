"""A fixed order: every epoch goes through the same batches, which anybody may know."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from groupdp.errors import InvalidArgument
from groupdp.fields import BATCH_SIZE, DATASET_SIZE, Field, flag
from groupdp.groups import is_empty
from groupdp.neighbours import SAME_SIZE, Change
from groupdp.pairs import ZERO, Round, Side
from groupdp.samplings.fixed_batch import require_batch
from groupdp.samplings.sampling import BoolArray, Rounds, Sampling
from groupdp.samplings.shuffled import REFUSALS, dealt, group_in, unit_of
from groupdp.samplings.worlds import KnownSums, World


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedOrderSampling(Sampling):
    """Every epoch goes through the dataset in the same order, in batches of `batch_size`: nothing is amplified."""

    batch_size: int
    dataset_size: int
    """Size of either dataset: both have the same."""
    one_per_batch: bool = False
    """Whether no batch holds two examples of one person."""

    name: ClassVar[str] = "fixed-order"
    title: ClassVar[str] = "epochs in a fixed order"
    meaning: ClassVar[str] = "The order of the data is not random: no amplification by sampling."
    fields: ClassVar[tuple[Field, ...]] = (
        BATCH_SIZE,
        DATASET_SIZE,
        flag("one_per_batch", "No batch holds two examples of the same person."),
    )
    adjacencies: ClassVar[tuple[str, ...]] = SAME_SIZE
    refusals: ClassVar[dict[str, str]] = REFUSALS
    mistaken_for_poisson: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Sampling.__post_init__(self)
        require_batch(self.batch_size, self.dataset_size)

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """An epoch is one Gaussian with shift sqrt(r), r the largest possible sum_t c_t^2 (P-8): exact."""
        size = group_in(change, self.dataset_size)
        length = self.dataset_size // self.batch_size
        if self.one_per_batch:
            batches = -(-self.dataset_size // self.batch_size)
            if size > batches:
                raise InvalidArgument(
                    "group_size", size, f"be at most {batches}, the number of batches, with one_per_batch"
                )
            squares = size
        else:
            squares = size // self.batch_size * self.batch_size**2 + (size % self.batch_size) ** 2
        shift = unit_of(change, microbatches) * math.sqrt(squares)
        side = Side.point((shift / noise if noise > 0.0 else math.inf) if size else 0.0)
        return ((Round.of(side, ZERO), -(-steps // length)),)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        """Whole epochs, or everybody in the first batch: of an epoch cut short some members may not have taken part.

        Nor have those who are left over where batches are full.
        """
        size = group_in(change, self.dataset_size)
        in_one_batch = size <= 1 or (not self.one_per_batch and size <= self.batch_size)
        length = self.dataset_size // self.batch_size
        places = length if self.one_per_batch else length * self.batch_size
        return in_one_batch or (size <= places and steps % length == 0)

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        order = "Every example is in at most one batch of an epoch."
        alone = "No batch holds two examples of one person."
        return (order, alone) if self.one_per_batch else (order,)

    def share_of_data(self) -> Fraction:
        return Fraction(self.batch_size, self.dataset_size)

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        order = np.broadcast_to(np.arange(dataset_size), (trials, dataset_size))
        while True:
            yield from dealt(order, self.batch_size)

    def audited_worlds(self, change: Change, *, ordinary_examples: int) -> tuple[World, World]:
        """The group is first in the order, or first in its batches; it moves by +1, then by 0 or -1: attains P-8."""
        size, other = group_in(change, self.dataset_size), -1.0 if change.is_substitution else 0.0
        places = np.arange(size) * (self.batch_size if self.one_per_batch else 1)
        worlds = []
        for move in (1.0, other):
            moves = np.zeros(self.dataset_size)
            moves[places] = move
            census = tuple((one, 1) for one in moves[: int(places[-1]) + 1].tolist()) if size else ()
            sums = np.add.reduceat(moves, np.arange(0, self.dataset_size, self.batch_size))
            worlds.append(World((*census, (0.0, self.dataset_size - len(census))), KnownSums(sums)))
        first, second = worlds
        return (second, first) if is_empty(change.removed) else (first, second)

    def largest_group(self, adjacency: str) -> int | None:
        return -(-self.dataset_size // self.batch_size) if self.one_per_batch else self.dataset_size
