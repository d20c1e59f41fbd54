"""Epochs: the dataset is dealt to batches, every example in one of them, in a shuffled or in a fixed order.

Shuffled: how many of the group share a batch is public (a coin), and no amplification is claimed beyond it. Poisson
accounting of a shuffled run is not a valid bound. In a fixed order nothing is random, and anybody may know the batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from groupdp.errors import InvalidArgument
from groupdp.fields import BATCH_SIZE, DATASET_SIZE, Field, flag
from groupdp.groups import is_empty
from groupdp.laws.allocation import SquaresLaw, Values, dealt_squares_law
from groupdp.neighbours import ONE_SIDED, SAME_SIZE, Change
from groupdp.pairs import ZERO, Branch, Round, Side
from groupdp.samplings.audited import AuditedDataset, KnownSums, dealt_members
from groupdp.samplings.fixed_batch import SizedBatches
from groupdp.samplings.poisson import counted
from groupdp.samplings.sampling import BoolArray, Rounds

_OTHER_SIZE = "with another number of examples every later batch changes, and no bound is proved"
#: Adjacencies with another number of examples in the two datasets.
REFUSALS = dict.fromkeys((*ONE_SIDED, "add-and-remove", "exchange"), _OTHER_SIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledSampling(SizedBatches):
    """Every epoch permutes the dataset anew and cuts it into batches of `batch_size`.

    `steps` that end inside an epoch count as a whole one; a last batch that is smaller may be used or dropped. Both
    datasets have the same size.
    """

    name: ClassVar[str] = "shuffled"
    title: ClassVar[str] = "shuffled epochs"
    meaning: ClassVar[str] = "Every epoch deals a fresh permutation of the dataset into batches."
    adjacencies: ClassVar[tuple[str, ...]] = SAME_SIZE
    refusals: ClassVar[dict[str, str]] = REFUSALS
    mistaken_for_poisson: ClassVar[bool] = True
    shuffles: ClassVar[bool] = True

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """One epoch is a coin over r = sum_t c_t^2 with branch N(sqrt(r)) against N(0) (P-7); twice that if
        replaced."""
        unit = unit_of(change, microbatches)
        coin = dealt_coin(group_in(change, self.dataset_size), self.batch_size, self.dataset_size, unit, noise)
        return ((coin, self.epochs(steps)),)

    def epochs(self, steps: int) -> int:
        """Epochs begun in `steps` steps; with a last, smaller batch dropped an epoch has floor(n / B) of them."""
        return -(-steps // (self.dataset_size // self.batch_size))

    def is_tight(self, change: Change, *, steps: int) -> bool:
        return False

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        return (
            "Every epoch permutes the whole dataset uniformly at random, anew, and every example is in at most one "
            "batch of it.",
            "The sum of clipped gradients is divided by a number that does not depend on the data.",
        )

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        while True:
            yield from dealt(generator.random((trials, dataset_size)).argsort(axis=1), self.batch_size)

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        """The group moves by +1 in one dataset, by 0 (zeroed) or -1 (replaced) in the other; all others do not move.

        Attains P-7 where the allocation is released too.
        """
        return self._datasets(change, once=False)

    def _datasets(self, change: Change, *, once: bool) -> tuple[AuditedDataset, AuditedDataset]:
        size = group_in(change, self.dataset_size)
        whole, rest = divmod(self.dataset_size, self.batch_size)
        sizes = [self.batch_size] * whole + [rest] * (rest > 0)
        first, second = (
            AuditedDataset(((0.0, self.dataset_size - size), (move, size)), dealt_members(size, move, sizes, once=once))
            for move in (1.0, -1.0 if change.is_substitution else 0.0)
        )
        return (second, first) if is_empty(change.removed) else (first, second)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledOnceSampling(ShuffledSampling):
    """The dataset is permuted once, and every epoch of a phase goes through the same batches again."""

    name: ClassVar[str] = "shuffled-once"
    title: ClassVar[str] = "epochs in one shuffled order"
    meaning: ClassVar[str] = "One permutation, dealt into the same batches in every epoch."

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """E epochs over one allocation: a coin over r, once, with branch N(sqrt(r E)) against N(0) (P-7)."""
        if steps == 0:
            return ()
        unit = unit_of(change, microbatches) * math.sqrt(self.epochs(steps))
        size = group_in(change, self.dataset_size)
        return ((dealt_coin(size, self.batch_size, self.dataset_size, unit, noise), 1),)

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        return (
            "The dataset is permuted uniformly at random, once for each phase, and every example is in at most one "
            "batch of an epoch.",
            "The sum of clipped gradients is divided by a number that does not depend on the data.",
        )

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        order = generator.random((trials, dataset_size)).argsort(axis=1)
        while True:
            yield from dealt(order, self.batch_size)

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        return self._datasets(change, once=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedOrderSampling(SizedBatches):
    """Every epoch goes through the dataset in the same order, in batches of `batch_size`: nothing is amplified.

    Both datasets have the same size.
    """

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

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        order = np.broadcast_to(np.arange(dataset_size), (trials, dataset_size))
        while True:
            yield from dealt(order, self.batch_size)

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        """The group is first in the order, or first in its batches; it moves by +1, then by 0 or -1: attains P-8."""
        size, other = group_in(change, self.dataset_size), -1.0 if change.is_substitution else 0.0
        places = np.arange(size) * (self.batch_size if self.one_per_batch else 1)
        datasets = []
        for move in (1.0, other):
            moves = np.zeros(self.dataset_size)
            moves[places] = move
            census = tuple((own, 1) for own in moves[: int(places[-1]) + 1].tolist()) if size else ()
            sums = np.add.reduceat(moves, np.arange(0, self.dataset_size, self.batch_size))
            datasets.append(AuditedDataset((*census, (0.0, self.dataset_size - len(census))), KnownSums(sums)))
        first, second = datasets
        return (second, first) if is_empty(change.removed) else (first, second)

    def largest_group(self, adjacency: str) -> int | None:
        return -(-self.dataset_size // self.batch_size) if self.one_per_batch else self.dataset_size


def dealt(order: np.ndarray[tuple[int, ...], np.dtype[np.int64]], batch_size: int) -> Iterator[BoolArray]:
    """One epoch's batches: place order[trial, i] of example i, cut into consecutive batches."""
    batch = order // batch_size
    for step in range(-(-order.shape[1] // batch_size)):
        yield batch == step


def unit_of(change: Change, microbatches: bool) -> float:
    """How far one member moves the sum: zeroed by 1, replaced by 2; a clipped average moves by up to 2 in any case."""
    return 2.0 if change.is_substitution or microbatches else 1.0


def group_in(change: Change, dataset_size: int) -> int:
    """The size of the group, which is part of the dataset."""
    size = counted(change.size)
    if size > dataset_size:
        raise InvalidArgument("group_size", size, f"be at most dataset_size={dataset_size}")
    return size


@lru_cache(maxsize=64)
def dealt_coin(size: int, batch_size: int, dataset_size: int, unit: float, noise: float) -> Round:
    """The coin over r for a group dealt to batches, each member moving the sum by `unit`."""
    return squares_coin(dealt_squares_law(size, batch_size, dataset_size), unit, noise)


def squares_coin(squares: SquaresLaw, unit: float, noise: float) -> Round:
    """A public coin over r with branch N(unit sqrt(r) / noise) against N(0)."""
    if squares.lower is squares.upper:
        return _coin_over(squares.upper, unit, noise)
    return _coin_over(squares.upper, unit, noise, _coin_over(squares.lower, unit, noise))


def _coin_over(law: Values, unit: float, noise: float, lower: Round | None = None) -> Round:
    values, (_, log_weights) = law
    if len(values) == 1 and values[0] == 0.0:
        return Round.of(ZERO, ZERO)
    shifts = [unit * math.sqrt(r) / noise if noise > 0.0 else math.inf for r in values.tolist()]
    return Round((Branch(Side.point(shift), ZERO) for shift in shifts), log_weights.tolist(), lower)
