"""Random allocation: every epoch puts each example into several distinct batches, independently of all others."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from groupdp._validation import LARGEST_DATASET
from groupdp.errors import InvalidArgument, InWords, LimitExceeded
from groupdp.fields import BATCHES, Field, Slider
from groupdp.laws.blocks import allocated_blocks
from groupdp.neighbours import ADJACENCIES, Change
from groupdp.pairs import ZERO, Round, Rounds, Side
from groupdp.samplings.audited import AuditedDataset, SubsetSums
from groupdp.samplings.poisson import FIXED_MICROBATCHES, counted
from groupdp.samplings.sampling import BoolArray, Sampling
from groupdp.samplings.spread import in_parts, noise_split, one_example, unit_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationSampling(Sampling):
    """Every epoch has `batches` steps and puts each example into `participations` distinct ones, uniformly at random,
    independently of all other examples."""

    batches: int
    participations: int

    name: ClassVar[str] = "allocation"
    title: ClassVar[str] = "random allocation"
    meaning: ClassVar[str] = "Every epoch deals each example to several distinct batches, independently."
    meant_by: ClassVar[str] = "participations"
    fields: ClassVar[tuple[Field, ...]] = (
        BATCHES,
        Field(
            name="participations",
            unit="per epoch",
            meaning="How many batches of an epoch an example is in.",
            kind="integer",
            at_least=1,
            at_most=LARGEST_DATASET,
            example="2",
            slider=Slider(start=1, low=1, high=100),
        ),
    )
    adjacencies: ClassVar[tuple[str, ...]] = (*ADJACENCIES, "exchange")
    secret_allocation: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Sampling.__post_init__(self)
        if self.participations > self.batches:
            raise InvalidArgument("participations", InWords(self.participations), f"be at most batches={self.batches}")

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """A coin over the counts of the group's members, with their places hidden in blocks (P-15); some leave and
        others join: each with a share of the noise (P-18)."""
        return noise_split(change, noise / unit_of(microbatches), lambda size, own: self._one_sided(size, own, steps))

    def alternatives(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> tuple[Rounds, ...]:
        """Every member with its own share of the noise (P-18): better where many would share batches."""
        if noise == 0.0 or max(counted(change.removed), counted(change.added)) < 2:
            return ()
        return (noise_split(change, noise / unit_of(microbatches), lambda size, own: self._alone(size, own, steps)),)

    def _alone(self, size: int, noise: float, steps: int) -> Rounds:
        return in_parts(lambda members, own: self._one_sided(members, own, steps), size, noise, 1)

    def _one_sided(self, size: int, noise: float, steps: int) -> Rounds:
        if self.participations == self.batches:  # everybody in every batch
            return ((Round.of(Side.point(size / noise if noise > 0.0 else math.inf), ZERO), steps),)
        if size == self.participations == 1:
            return one_example(self.batches, noise, steps)
        epochs = -(-steps // self.batches)
        if noise == 0.0:
            return ((Round.of(Side.point(math.inf), ZERO), epochs),)
        try:
            return ((allocated_blocks(size, self.participations, self.batches, 1.0 / noise), epochs),)
        except LimitExceeded:  # too many histograms: one by one
            return self._alone(size, noise, steps)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        sizes = counted(change.removed), counted(change.added)
        alone = max(sizes) <= 1 and self.participations == 1
        return 0 in sizes and (max(sizes) == 0 or alone or self.participations == self.batches)

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        allocated = (
            "Every epoch puts each example into the stated number of distinct batches, uniformly at random, anew and "
            "independently of all other examples.",
            "Which examples are in which batch stays secret.",
            "The sum of clipped gradients is divided by a number that does not depend on the data.",
        )
        return (*allocated, FIXED_MICROBATCHES) if microbatches else allocated

    def share_of_data(self) -> Fraction:
        return Fraction(1, self.batches)

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        while True:
            place = generator.random((trials, dataset_size, self.batches)).argsort(axis=2).argsort(axis=2)
            for step in range(self.batches):
                yield place[:, :, step] < self.participations

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        """Those who leave move by +1, those who join by -1, all others not at all."""
        leave, join = counted(change.removed), counted(change.added)
        return (
            AuditedDataset(
                ((0.0, ordinary_examples), (1.0, leave), (0.0, join)),
                SubsetSums(leave, 1.0, self.batches, self.participations),
            ),
            AuditedDataset(
                ((0.0, ordinary_examples), (0.0, leave), (-1.0, join)),
                SubsetSums(join, -1.0, self.batches, self.participations),
            ),
        )
