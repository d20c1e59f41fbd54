"""Balls in bins: every epoch throws each example into one of its batches, independently."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np

from groupdp._validation import LARGEST_DATASET, require_integer
from groupdp.allocations import AllocationRound
from groupdp.fields import BATCHES, Field
from groupdp.laws.allocation import thrown_squares_law
from groupdp.laws.blocks import (
    JOINING_ORDERS,
    LEAVING_ORDERS,
    RARE_ORDERS,
    hidden_collisions,
    order_of_rare_collisions,
    thrown_blocks,
)
from groupdp.neighbours import ADJACENCIES, Change
from groupdp.pairs import ZERO, Round, Rounds, Side
from groupdp.samplings.audited import AuditedDataset, thrown_members
from groupdp.samplings.epochs import squares_coin
from groupdp.samplings.poisson import FIXED_MICROBATCHES, counted
from groupdp.samplings.sampling import BoolArray, Sampling
from groupdp.samplings.spread import PART, in_parts, noise_split, one_example, revealed, unit_of

#: Up to so many members several orders of block sizes are tried, from so many on a group is taken in parts as
#: well if each has noise of 1 or more; no effect on validity.
_FEW = 8
#: (members, batches, shift) to the round of an epoch in which they leave.
BlockLaw = Callable[[int, int, float], AllocationRound]


@dataclass(frozen=True, slots=True, kw_only=True)
class BallsInBinsSampling(Sampling):
    """Every epoch has `batches` steps and puts each example into one of them, independently and uniformly."""

    batches: int

    name: ClassVar[str] = "balls-in-bins"
    title: ClassVar[str] = "balls in bins"
    meaning: ClassVar[str] = "Every epoch deals each example to one of its batches, independently."
    meant_by: ClassVar[str] = "batches"
    fields: ClassVar[tuple[Field, ...]] = (BATCHES,)
    adjacencies: ClassVar[tuple[str, ...]] = (*ADJACENCIES, "exchange")
    secret_allocation: ClassVar[bool] = True
    mistaken_for_poisson: ClassVar[bool] = True

    def __post_init__(self) -> None:
        batches = require_integer("batches", self.batches, at_least=1, at_most=LARGEST_DATASET)
        object.__setattr__(self, "batches", batches)

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """One example leaves: R(N, 1 / noise) an epoch, exact (P-13). A group leaves: a coin over its counts, with its
        places hidden in blocks (P-15). Some leave and others join: each with a share of the noise (P-18).
        """
        return noise_split(change, noise / unit_of(microbatches), partial(self._one_sided, thrown_blocks, steps))

    def alternatives(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> tuple[Rounds, ...]:
        """Collisions hidden too (P-17), which is better where noise is small; and the allocation revealed (P-7), which
        is where that is, and blocks are small."""
        leave, join = counted(change.removed), counted(change.added)
        unit, found = unit_of(microbatches), []
        if leave + join == 0 or noise == 0.0 or self.batches == 1:
            return ()
        if leave + join == 1:
            return (revealed(1.0, self.batches, noise / unit, steps),)
        orders = JOINING_ORDERS if leave == 0 else LEAVING_ORDERS if join == 0 else LEAVING_ORDERS[:1]
        if max(leave, join) < self.batches:
            tried = orders if leave + join <= _FEW else orders[:1]
            rare = order_of_rare_collisions(max(leave, join), self.batches, unit / noise)
            for order in tried if rare is None or leave == 0 else (*orders[:2], rare, *RARE_ORDERS):
                one_sided = partial(self._one_sided, partial(_hidden, order), steps)
                found.append(noise_split(change, noise / unit, one_sided))
        largest = max(leave, join)
        if largest >= _FEW and noise / unit * math.sqrt(PART / largest) >= 1.0:
            counted_apart = partial(in_parts, partial(self._one_sided, thrown_blocks, steps))
            found.append(noise_split(change, noise / unit, counted_apart))
        found.append(((_coin(leave + join, self.batches, unit, noise), -(-steps // self.batches)),))
        return tuple(found)

    def _one_sided(self, blocks: BlockLaw, steps: int, size: int, noise: float) -> Rounds:
        if size == 1:
            return one_example(self.batches, noise, steps)
        epochs = -(-steps // self.batches)
        if noise == 0.0:
            return ((Round.of(Side.point(math.inf), ZERO), epochs),)
        if size >= 2 * self.batches > 2:  # blocks would hold one batch each: the allocation revealed (P-7)
            return ((_coin(size, self.batches, 1.0, noise), epochs),)
        return ((blocks(size, self.batches, 1.0 / noise), epochs),)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        sizes = counted(change.removed), counted(change.added)
        return 0 in sizes and (max(sizes) <= 1 or self.batches == 1)

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        thrown = "Every epoch puts each example into one of its batches, independently and uniformly, anew."
        secret = "Which examples are in which batch stays secret."
        return (thrown, secret, FIXED_MICROBATCHES) if microbatches else (thrown, secret)

    def share_of_data(self) -> Fraction:
        return Fraction(1, self.batches)

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        while True:
            bins = generator.integers(0, self.batches, size=(trials, dataset_size))
            for step in range(self.batches):
                yield bins == step

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        """Those who leave move by +1, those who join by -1, all others not at all: attains P-13 for one example."""
        leave, join = counted(change.removed), counted(change.added)
        others = (0.0, ordinary_examples)
        return (
            AuditedDataset((others, (1.0, leave), (0.0, join)), thrown_members(leave, 1.0, self.batches)),
            AuditedDataset((others, (0.0, leave), (-1.0, join)), thrown_members(join, -1.0, self.batches)),
        )


def _hidden(order: float, size: int, batches: int, shift: float) -> AllocationRound:
    """Collisions hidden, or only places where there are too few batches for the blocks."""
    return hidden_collisions(size, batches, shift, order) or thrown_blocks(size, batches, shift)


@lru_cache(maxsize=64)
def _coin(size: int, batches: int, unit: float, noise: float) -> Round:
    return squares_coin(thrown_squares_law(size, batches), unit, noise)
