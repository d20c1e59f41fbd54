"""Poisson sampling with a largest batch: what is above it is cut at random."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from groupdp._validation import LARGEST_DATASET
from groupdp.errors import InvalidArgument, InWords
from groupdp.fields import DATASET_SIZE, SAMPLING_RATE, Field, Slider
from groupdp.groups import is_empty
from groupdp.neighbours import ONE_SIDED, ZERO_OUT, Change
from groupdp.pairs import ZERO, Branch, Round, Side
from groupdp.samplings.poisson import counted, stated_fraction
from groupdp.samplings.sampling import BoolArray, Rounds, Sampling
from groupdp.samplings.worlds import World, cut_batches

_NO_LAW = "which of the others are cut away then depends on both groups, and no bound is proved"


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedPoissonSampling(Sampling):
    """Every round includes each example independently with probability `rate`; of a batch above `largest_batch` that
    many are kept, uniformly at random. Padding a batch up to that size changes nothing.
    """

    rate: float
    largest_batch: int
    dataset_size: int
    """Size of the common part, public and exact: the dataset without the group. Epsilon is not monotone in it."""

    name: ClassVar[str] = "truncated-poisson"
    title: ClassVar[str] = "truncated Poisson sampling"
    meaning: ClassVar[str] = "Poisson sampling; a batch above the largest is cut to it at random."
    meant_by: ClassVar[str] = "largest_batch"
    fields: ClassVar[tuple[Field, ...]] = (
        SAMPLING_RATE,
        Field(
            name="largest_batch",
            unit="examples",
            meaning="A batch with more examples is cut to this many, at random.",
            kind="integer",
            at_least=1,
            at_most=LARGEST_DATASET,
            example="600",
            slider=Slider(start=600, low=1, high=100_000),
        ),
        DATASET_SIZE,
    )
    adjacencies: ClassVar[tuple[str, ...]] = (*ONE_SIDED, ZERO_OUT)
    leaks_most_where_smallest: ClassVar[bool] = False
    refusals: ClassVar[dict[str, str]] = {"substitute": _NO_LAW, "add-and-remove": _NO_LAW, "exchange": _NO_LAW}

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """A public coin over the classes of the common sample's size (P-6): (m + d, 0) for members removed, its mirror
        image for members added; (m + d, d) where they are zeroed and keep their places.
        """
        if microbatches:
            raise InvalidArgument(
                "microbatch_size",
                InWords("more"),
                "be 1 for truncated Poisson sampling",
                "which microbatch an example lands in depends on which others were cut away",
            )
        coin = _coin(self, counted(change.size), noise, change.keeps_places)
        return ((coin if is_empty(change.added) else coin.mirrored, steps),)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        return False

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        return (
            "Every step includes each example independently with the stated probability, and cuts a larger batch to "
            "the stated size uniformly at random.",
            f"The dataset without the group has exactly {self.dataset_size} examples, and its size is public.",
        )

    def share_of_data(self) -> Fraction:
        return stated_fraction(self.rate)

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        while True:
            sampled = generator.random((trials, dataset_size)) < self.rate
            order = np.where(sampled, generator.random((trials, dataset_size)), np.inf)
            rank = order.argsort(axis=1).argsort(axis=1)
            yield sampled & (rank < self.largest_batch)

    def audited_worlds(self, change: Change, *, ordinary_examples: int) -> tuple[World, World]:
        """The group moves by +1; whoever it displaces by -1 where the cap cuts more often than not, else by 0."""
        size, others = counted(change.size), self.dataset_size
        away = -1.0 if self.rate * others >= self.largest_batch else 0.0

        def world(members: int, move: float) -> World:
            shape = {"ordinary_move": away, "group_move": move}
            sums = cut_batches(self.rate, self.largest_batch, others, members, **shape)
            return World(((away, others), (move, members)), sums)

        first, second = world(size, 1.0), world(size, 0.0) if change.keeps_places else world(0, 0.0)
        return (second, first) if is_empty(change.removed) else (first, second)


@lru_cache(maxsize=64)
def _coin(sampling: TruncatedPoissonSampling, size: int, noise: float, keeps_places: bool) -> Round:
    from groupdp.laws.truncated import truncated_classes

    classes = truncated_classes(sampling.rate, sampling.largest_batch, sampling.dataset_size, size)
    branches = []
    for sizes in classes:
        right = Side.from_sensitivities(sizes.sensitivities, sizes.law, noise)
        left = Side.from_sensitivities(sizes.displaced, sizes.displaced_law, noise) if keeps_places else ZERO
        branches.append(Branch(right, left))
    log_weights = [sizes.log_weight for sizes in classes]
    if not classes[-1].is_catch_all:
        return Round(branches, log_weights)
    # Sizes that share one class: k members and k displaced for the upper side, nothing for the lower side (P-6).
    return Round(branches, log_weights, Round([*branches[:-1], Branch(ZERO, ZERO)], log_weights))
