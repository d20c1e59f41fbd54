"""Batches of one size: drawn without replacement; and epochs, in which the dataset is dealt to such batches, every
example in one of them, in a shuffled or in a fixed order.

Shuffled: the number of the group's examples in each batch is public (a coin), and no amplification is claimed beyond
that. Poisson accounting of a shuffled run is not a valid bound. In a fixed order nothing is random, and anybody may
know the batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from groupdp.errors import InvalidArgument
from groupdp.fields import BATCH_SIZE, DATASET_SIZE, Field, flag
from groupdp.groups import is_empty
from groupdp.laws import hypergeometric_law
from groupdp.laws.allocation import SquaresLaw, Values, dealt_squares_law
from groupdp.neighbours import ADD_AND_REMOVE, EXCHANGE, ONE_SIDED, SAME_SIZE, Change
from groupdp.pairs import ZERO, Branch, Round, Side, SubstitutionEnvelope
from groupdp.samplings.audited import AuditedDataset, KnownSums, dealt_members, fixed_batches
from groupdp.samplings.poisson import counted
from groupdp.samplings.sampling import DIVIDED_BY_A_CONSTANT, BoolArray, Rounds, Sampling

#: An example of the group takes another one's place: gradients +e and -e.
_UNIT = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedBatches(Sampling):
    """A sampling with batches of `batch_size` examples of `dataset_size`."""

    batch_size: int
    dataset_size: int

    fields: ClassVar[tuple[Field, ...]] = (BATCH_SIZE, DATASET_SIZE)

    def __post_init__(self) -> None:
        Sampling.__post_init__(self)
        require_batch(self.batch_size, self.dataset_size)

    def share_of_data(self) -> Fraction:
        return Fraction(self.batch_size, self.dataset_size)

    def largest_group(self, adjacency: str) -> int | None:
        return self.dataset_size

    def epochs(self, steps: int) -> int:
        """Epochs begun in `steps` steps; with a last, smaller batch dropped an epoch has floor(n / B) of them."""
        return -(-steps // (self.dataset_size // self.batch_size))


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedBatchSampling(SizedBatches):
    """Every round draws `batch_size` of the dataset's examples, uniformly, without replacement.

    `dataset_size` is that of the smaller of two neighbouring datasets, the one without the group; where examples are
    substituted or zeroed, the size of both.
    """

    name: ClassVar[str] = "fixed-batch"
    title: ClassVar[str] = "fixed-size batches"
    meaning: ClassVar[str] = "Every batch is a uniform subset of the dataset, drawn anew in every round."
    adjacencies: ClassVar[tuple[str, ...]] = (*ONE_SIDED, *SAME_SIZE)
    refusals: ClassVar[dict[str, str]] = {
        ADD_AND_REMOVE: "no bound is proved where some examples leave and others join",
        EXCHANGE: "no bound is proved where some examples leave and another number of them join",
    }
    epsilon_grows_with: ClassVar[tuple[str, ...]] = ("batch_size",)
    needed: ClassVar[tuple[str, ...]] = (
        "Every step draws a new batch of the stated size, uniformly at random and without replacement.",
        "The dataset size is public.",
    )

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """2 x Hypergeom(B, n + k, k) against 0 for k removed, and its mirror image (P-4, tight).

        k replaced or zeroed: the envelope P-5, valid. ((Hypergeom, Hypergeom) with N(+i) against N(-i) is not a
        bound, nor is 1 x Hypergeom for zeroed examples, which still take a place.) In microbatches an example of the
        group takes a displaced one's place in one average, so the factor 2 is already there.
        """
        size = counted(change.size)
        if change.keeps_places or not (is_empty(change.removed) or is_empty(change.added)):
            return ((_envelope(self.batch_size, self.dataset_size, size, noise), steps),)
        side = _side(self.batch_size, self.dataset_size, size, noise)
        return ((Round.of(side, ZERO) if is_empty(change.added) else Round.of(ZERO, side), steps),)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        return not change.keeps_places and (is_empty(change.removed) or is_empty(change.added))

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        while True:
            yield uniform_subsets(generator, self.batch_size, trials, dataset_size)

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        """Whoever is not in the group moves by -1 and the group by +1: attains P-4. Replaced members move like all
        others afterwards, zeroed ones not at all: near P-5.
        """
        size = counted(change.size)
        kept = change.keeps_places or change.is_substitution
        others = self.dataset_size - size if kept else self.dataset_size
        there = (size, 0.0 if change.keeps_places else -1.0) if kept else (0, 0.0)
        first, second = (
            AuditedDataset(
                ((-1.0, others), (move, members)),
                fixed_batches(self.batch_size, others, members, ordinary_move=-1.0, group_move=move),
            )
            for members, move in ((size, 1.0), there)
        )
        return (second, first) if is_empty(change.removed) else (first, second)

    def largest_group(self, adjacency: str) -> int | None:
        return self.dataset_size - (self.batch_size if adjacency in SAME_SIZE else 0)


def require_batch(batch_size: int, dataset_size: int) -> None:
    """Refuse a batch that is larger than the dataset."""
    if batch_size > dataset_size:
        raise InvalidArgument("batch_size", batch_size, f"be at most dataset_size={dataset_size}")


@lru_cache(maxsize=64)
def _side(batch_size: int, dataset_size: int, size: int, noise: float) -> Side:
    if size > dataset_size:
        raise InvalidArgument("group_size", size, f"be at most dataset_size={dataset_size}")
    return _sensitivities(batch_size, dataset_size, size).divided(noise)


@lru_cache(maxsize=64)
def _sensitivities(batch_size: int, dataset_size: int, size: int) -> Side:
    law = hypergeometric_law(batch_size, dataset_size, size)
    return Side.from_sensitivities(_UNIT * np.arange(len(law[0]), dtype=np.float64), law, 1.0)


@lru_cache(maxsize=64)
def _envelope(batch_size: int, dataset_size: int, size: int, noise: float) -> SubstitutionEnvelope:
    if size > dataset_size - batch_size:
        most = f"be at most dataset_size - batch_size = {dataset_size - batch_size}"
        raise InvalidArgument("group_size", size, f"{most} for {' and '.join(SAME_SIZE)}")
    law = hypergeometric_law(batch_size, dataset_size - size, size)
    return SubstitutionEnvelope(Side.from_sensitivities(_UNIT * np.arange(len(law[0]), dtype=np.float64), law, noise))


def uniform_subsets(generator: np.random.Generator, batch_size: int, trials: int, dataset_size: int) -> BoolArray:
    """Selection sampling (Knuth, volume 2, algorithm S): exactly uniform, in integer arithmetic.

    With r examples left to see and b places left, the next one enters with probability b / r.
    """
    require_batch(batch_size, dataset_size)
    included = np.empty((dataset_size, trials), dtype=np.bool_)
    places = np.full(trials, batch_size, dtype=np.int64)
    for position in range(dataset_size):
        np.less(generator.integers(0, dataset_size - position, size=trials), places, out=included[position])
        places -= included[position]
    return included.T


_OTHER_SIZE = "a change of the dataset's size changes every later batch, and no bound is proved"
#: Adjacencies with another number of examples in the two datasets.
REFUSALS = dict.fromkeys((*ONE_SIDED, ADD_AND_REMOVE, EXCHANGE), _OTHER_SIZE)


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
    #: Whether one permutation serves all epochs.
    in_one_order: ClassVar[bool] = False
    needed: ClassVar[tuple[str, ...]] = (
        "Every epoch permutes the whole dataset anew, uniformly at random, and uses every example in at most one "
        "batch.",
        DIVIDED_BY_A_CONSTANT,
    )

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """One epoch is a coin over r = sum_t c_t^2 with branch N(sqrt(r)) against N(0); twice that if replaced. E
        epochs in one order are one coin, with branch N(sqrt(r E)) (P-7)."""
        size, epochs = group_in(change, self.dataset_size), self.epochs(steps)
        if steps == 0:
            return ()
        unit = unit_of(change, microbatches) * (math.sqrt(epochs) if self.in_one_order else 1.0)
        coin = squares_coin(dealt_squares_law(size, self.batch_size, self.dataset_size), unit, noise)
        return ((coin, 1 if self.in_one_order else epochs),)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        return False

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        while True:
            order = generator.random((trials, dataset_size)).argsort(axis=1)
            yield from dealt(order, self.batch_size)
            while self.in_one_order:
                yield from dealt(order, self.batch_size)

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        """The group moves by +1 in one dataset, by 0 (zeroed) or -1 (replaced) in the other; all others do not move.

        Attains P-7 where the allocation is released too.
        """
        size = group_in(change, self.dataset_size)
        whole, rest = divmod(self.dataset_size, self.batch_size)
        sizes = [self.batch_size] * whole + [rest] * (rest > 0)
        first, second = (
            AuditedDataset(
                ((0.0, self.dataset_size - size), (move, size)),
                dealt_members(size, move, sizes, once=self.in_one_order),
            )
            for move in (1.0, -1.0 if change.is_substitution else 0.0)
        )
        return (second, first) if is_empty(change.removed) else (first, second)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledOnceSampling(ShuffledSampling):
    """The dataset is permuted once, and every epoch of a phase goes through the same batches again."""

    name: ClassVar[str] = "shuffled-once"
    title: ClassVar[str] = "epochs in one shuffled order"
    meaning: ClassVar[str] = "One permutation, dealt into the same batches in every epoch."

    in_one_order: ClassVar[bool] = True
    needed: ClassVar[tuple[str, ...]] = (
        "The dataset is permuted uniformly at random, once for each phase, and every example is in at most one batch "
        "of an epoch.",
        DIVIDED_BY_A_CONSTANT,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedOrderSampling(SizedBatches):
    """Every epoch goes through the dataset in the same order, in batches of `batch_size`, without amplification.

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
        size = squares = group_in(change, self.dataset_size)
        batches = -(-self.dataset_size // self.batch_size)
        if not self.one_per_batch:
            squares = size // self.batch_size * self.batch_size**2 + (size % self.batch_size) ** 2
        elif size > batches:
            raise InvalidArgument(
                "group_size", size, f"be at most {batches}, the number of batches, with one_per_batch"
            )
        shift = unit_of(change, microbatches) * math.sqrt(squares)
        side = Side.point((shift / noise if noise > 0.0 else math.inf) if size else 0.0)
        return ((Round.of(side, ZERO), self.epochs(steps)),)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        """Whole epochs, or everybody in the first batch: an epoch cut short, or full batches, leave some out."""
        size = group_in(change, self.dataset_size)
        in_one_batch = size <= 1 or (not self.one_per_batch and size <= self.batch_size)
        length = self.dataset_size // self.batch_size
        places = length if self.one_per_batch else length * self.batch_size
        return in_one_batch or (size <= places and steps % length == 0)

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        alone = ("No batch holds two examples of one person.",) if self.one_per_batch else ()
        return ("Every example is in at most one batch of an epoch.", *alone)

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


def squares_coin(squares: SquaresLaw, unit: float, noise: float) -> Round:
    """A public coin over r with branch N(unit sqrt(r) / noise) against N(0)."""
    lower = None if squares.lower is squares.upper else _coin_over(squares.lower, unit, noise)
    return _coin_over(squares.upper, unit, noise, lower)


def _coin_over(law: Values, unit: float, noise: float, lower: Round | None = None) -> Round:
    values, (_, log_weights) = law
    if len(values) == 1 and values[0] == 0.0:
        return Round.of(ZERO, ZERO)
    shifts = [unit * math.sqrt(r) / noise if noise > 0.0 else math.inf for r in values.tolist()]
    return Round((Branch(Side.point(shift), ZERO) for shift in shifts), log_weights.tolist(), lower)
