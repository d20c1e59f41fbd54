"""Allocations of an epoch's batches: balls in bins, spread allocation and random allocation.

Every epoch deals examples to its batches at random, anew and in secret. Proofs: docs/internals/laws.md, P-13 to P-18.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np

from groupdp.errors import LARGEST_DATASET, InvalidArgument, InWords, LimitExceeded
from groupdp.fields import BATCHES, Field, count, flag
from groupdp.groups import LARGEST_GROUP
from groupdp.laws.allocation import thrown_squares_law
from groupdp.laws.blocks import (
    JOINING_ORDERS,
    LEAVING_ORDERS,
    PART,
    RARE_ORDERS,
    allocated_blocks,
    as_losses,
    has_seldom_coin,
    hidden_collisions,
    in_parts,
    one_example,
    order_of_rare_collisions,
    spread_blocks,
    thrown_blocks,
)
from groupdp.neighbours import ADJACENCIES, EXCHANGE, Change
from groupdp.pairs import ZERO, Round, Rounds, Side
from groupdp.samplings.audited import AllocatedSums, AuditedDataset, Releases, SubsetSums
from groupdp.samplings.poisson import counted
from groupdp.samplings.sampling import DIVIDED_BY_A_CONSTANT, BoolArray, Sampling
from groupdp.samplings.sized_batches import squares_coin

#: Up to so many members several orders of block sizes are tried, from so many on a group is taken in parts as
#: well if each has noise of 1 or more; no effect on validity.
_FEW = 8
_SECRET = "Which examples are in which batch stays secret."


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationBase(Sampling):
    """What the allocations have in common: every epoch has `batches` steps."""

    batches: int

    fields: ClassVar[tuple[Field, ...]] = (BATCHES,)
    adjacencies: ClassVar[tuple[str, ...]] = (*ADJACENCIES, EXCHANGE)
    secret_allocation: ClassVar[bool] = True
    has_random_sizes: ClassVar[bool] = True

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """The rounds of members who leave; if others join, each of the two groups has a share of the noise (P-18)."""
        return noise_split(change, noise / unit_of(microbatches), partial(self._one_sided, steps))

    @abstractmethod
    def _one_sided(self, steps: int, size: int, noise: float) -> Rounds:
        """The rounds of `size` members who leave."""

    def _revealed(self, squares: float, steps: int, noise: float) -> Rounds:
        """N(sqrt(squares) / noise) against N(0) for every epoch that was begun: the allocation revealed."""
        shift = math.sqrt(squares) / noise if noise > 0.0 else math.inf
        return ((Round.of(Side.point(shift), ZERO), -(-steps // self.batches)),)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        sizes = counted(change.removed), counted(change.added)
        return 0 in sizes and self._is_attained(max(sizes))

    @abstractmethod
    def _is_attained(self, size: int) -> bool:
        """Whether the rounds of so many members who leave are attained."""

    def share_of_data(self) -> Fraction:
        return Fraction(1, self.batches)

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        """Those who leave move by +1, those who join by -1, all others not at all: attains P-13 for one example."""
        leave, join = counted(change.removed), counted(change.added)
        others = (0.0, ordinary_examples)
        return (
            AuditedDataset((others, (1.0, leave), (0.0, join)), self._releases(leave, 1.0)),
            AuditedDataset((others, (0.0, leave), (-1.0, join)), self._releases(join, -1.0)),
        )

    @abstractmethod
    def _releases(self, members: int, move: float) -> Releases:
        """What members who move by `move` release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BallsInBinsSampling(AllocationBase):
    """Every epoch has `batches` steps and puts each example into one of them, independently and uniformly."""

    name: ClassVar[str] = "balls-in-bins"
    title: ClassVar[str] = "balls in bins"
    meaning: ClassVar[str] = "Every epoch deals each example to one of its batches, independently."
    meant_by: ClassVar[str] = "batches"
    mistaken_for_poisson: ClassVar[bool] = True
    needed: ClassVar[tuple[str, ...]] = (
        "Every epoch puts each example into one of its batches anew, uniformly at random and independently of the "
        "others.",
        _SECRET,
    )

    def alternatives(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> tuple[Rounds, ...]:
        """Collisions hidden too (P-17), which is better where noise is small; and the allocation revealed (P-7), which
        is where that is, and blocks are small."""
        leave, join = counted(change.removed), counted(change.added)
        unit, found = unit_of(microbatches), []
        if leave + join == 0 or noise == 0.0 or self.batches == 1:
            return ()
        if leave + join == 1:
            return (self._revealed(1.0, steps, noise / unit),)
        orders = JOINING_ORDERS if leave == 0 else LEAVING_ORDERS if join == 0 else LEAVING_ORDERS[:1]
        if max(leave, join) < self.batches:
            tried = orders if leave + join <= _FEW else orders[:1]
            rare = order_of_rare_collisions(max(leave, join), self.batches, unit / noise)
            hidden = [
                noise_split(change, noise / unit, partial(self._one_sided, steps, order=order))
                for order in (tried if rare is None or leave == 0 else (*orders[:2], rare, *RARE_ORDERS))
            ]
            found += [as_losses(rounds) for rounds in hidden]
            found += [rounds for rounds in hidden[:1] if any(has_seldom_coin(one) for one, _ in rounds)]
        largest = max(leave, join)
        if largest >= _FEW and noise / unit * math.sqrt(PART / largest) >= 1.0:
            found.append(noise_split(change, noise / unit, partial(in_parts, partial(self._one_sided, steps))))
        found.append(((_coin(leave + join, self.batches, unit, noise), -(-steps // self.batches)),))
        return tuple(found)

    def _one_sided(self, steps: int, size: int, noise: float, order: float | None = None) -> Rounds:
        """One example: R(N, 1 / noise) an epoch, exact (P-13). A group: a coin over its counts, with its places hidden
        in blocks (P-15); with an `order`, collisions too (P-17), where there are enough batches for the blocks."""
        if size == 1:
            return one_example(self.batches, noise, steps)
        if noise == 0.0:
            return self._revealed(1.0, steps, noise)
        epochs = -(-steps // self.batches)
        if size >= 2 * self.batches > 2:  # blocks would hold one batch each: the allocation revealed (P-7)
            return ((_coin(size, self.batches, 1.0, noise), epochs),)
        hidden = None if order is None else hidden_collisions(size, self.batches, 1.0 / noise, order)
        return ((hidden or thrown_blocks(size, self.batches, 1.0 / noise), epochs),)

    def _is_attained(self, size: int) -> bool:
        return size <= 1 or self.batches == 1

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        while True:
            bins = generator.integers(0, self.batches, size=(trials, dataset_size))
            for step in range(self.batches):
                yield bins == step

    def _releases(self, members: int, move: float) -> Releases:
        ways = tuple(float(self.batches) ** -c for c in range(members + 1))
        return AllocatedSums(members, move, (ways,) * self.batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadSampling(AllocationBase):
    """Every epoch has `batches` steps and puts each person's examples into distinct ones, uniformly at random,
    independently of everybody else; with `evenly`, more than `batches` of them as evenly as possible.

    The group is one person. Without `evenly` a group of more than `batches` examples is refused: how they are spread
    must be said.
    """

    evenly: bool = False

    name: ClassVar[str] = "spread"
    title: ClassVar[str] = "spread allocation"
    meaning: ClassVar[str] = "Every epoch deals a person's examples to distinct batches, independently of other people."
    fields: ClassVar[tuple[Field, ...]] = (
        BATCHES,
        flag("evenly", "Admit people with more examples than batches; theirs are spread as evenly as possible."),
    )
    needed: ClassVar[tuple[str, ...]] = (
        "Every epoch puts each person's examples into distinct batches anew, uniformly at random and independently of "
        "all other people. A person with more examples than batches has them spread as evenly as possible.",
        _SECRET,
        "The group is all examples of one person.",
        DIVIDED_BY_A_CONSTANT,
    )

    def alternatives(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> tuple[Rounds, ...]:
        """The allocation revealed: where noise is small better for members leaving and joining (P-18), and easier to
        compute in all cases (P-14)."""
        size = counted(change.removed) + counted(change.added)
        if size == 0 or noise == 0.0:
            return ()
        return (self._revealed(self._squares(size), steps, noise / unit_of(microbatches)),)

    def _require_places(self, size: int) -> None:
        if size > self.batches and not self.evenly:
            requirement = f"be at most batches={self.batches}, or be given with evenly=True (--evenly) to be larger"
            raise InvalidArgument("group_size", size, requirement)

    def _squares(self, size: int) -> int:
        """sum_t c_t^2 of as even counts as possible."""
        share, rest = divmod(size, self.batches)
        return (self.batches - rest) * share**2 + rest * (share + 1) ** 2

    def _one_sided(self, steps: int, size: int, noise: float) -> Rounds:
        """Places hidden in blocks, or revealed (P-14)."""
        self._require_places(size)
        if size % self.batches == 0:  # as many in every batch: no randomness is left
            share = size // self.batches
            return ((Round.of(Side.point(share / noise if noise > 0.0 else math.inf), ZERO), steps),)
        if size == 1:
            return one_example(self.batches, noise, steps)
        if noise == 0.0 or size > self.batches:
            return self._revealed(self._squares(size), steps, noise)
        return ((spread_blocks(size, self.batches, 1.0 / noise), -(-steps // self.batches)),)

    def _is_attained(self, size: int) -> bool:
        return size <= 1 or size % self.batches == 0

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        """All examples are one person's."""
        while True:
            whole, rest = divmod(dataset_size, self.batches)
            orders = [generator.random((trials, self.batches)).argsort(axis=1) for _ in range(whole + (rest > 0))]
            bins = np.concatenate((np.empty((trials, 0), dtype=np.int64), *orders), axis=1)[:, :dataset_size]
            for step in range(self.batches):
                yield bins == step

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        """Those who leave move by +1, those who join by -1; there are no others: all examples are one person's."""
        leave, join = counted(change.removed), counted(change.added)
        self._require_places(max(leave, join))
        return (
            AuditedDataset(((1.0, leave),), self._releases(leave, 1.0)),
            AuditedDataset(((-1.0, join),), self._releases(join, -1.0)),
        )

    def _releases(self, members: int, move: float) -> Releases:
        """A uniform subset; every batch holds floor(members / N), and some of them one more."""
        base = members // self.batches
        ways = tuple(float(math.factorial(c)) if c in (base, base + 1) else 0.0 for c in range(base + 2))
        return AllocatedSums(members, move, (ways,) * self.batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationSampling(AllocationBase):
    """Every epoch has `batches` steps and puts each example into `participations` distinct ones, uniformly at random,
    independently of all other examples."""

    participations: int

    name: ClassVar[str] = "allocation"
    title: ClassVar[str] = "random allocation"
    meaning: ClassVar[str] = "Every epoch deals each example to several distinct batches, independently."
    meant_by: ClassVar[str] = "participations"
    fields: ClassVar[tuple[Field, ...]] = (
        BATCHES,
        count(
            "participations",
            "How many batches of an epoch an example is in.",
            (1, 1, 100),
            unit="per epoch",
            at_most=LARGEST_DATASET,
            example="2",
        ),
    )
    needed: ClassVar[tuple[str, ...]] = (
        "Every epoch puts each example into the stated number of distinct batches anew, uniformly at random and "
        "independently of all other examples.",
        _SECRET,
        DIVIDED_BY_A_CONSTANT,
    )

    def __post_init__(self) -> None:
        Sampling.__post_init__(self)
        if self.participations > self.batches:
            raise InvalidArgument("participations", InWords(self.participations), f"be at most batches={self.batches}")

    def alternatives(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> tuple[Rounds, ...]:
        """Every member with its own share of the noise (P-18), better where many would share batches; and all in known,
        common batches (P-61), where shifts are too large for the engines."""
        members = counted(change.removed) + counted(change.added)
        if noise == 0.0 or members == 0 or self.participations == self.batches:
            return ()
        noise /= unit_of(microbatches)
        together = self._revealed(float(members * members * self.participations), steps, noise)
        if max(counted(change.removed), counted(change.added)) < 2:
            return (together,)
        return (noise_split(change, noise, partial(self._alone, steps)), together)

    def _alone(self, steps: int, size: int, noise: float) -> Rounds:
        return in_parts(partial(self._one_sided, steps), size, noise, 1)

    def _one_sided(self, steps: int, size: int, noise: float) -> Rounds:
        """A coin over the counts of the members, with their places hidden in blocks (P-15)."""
        if self.participations == self.batches:  # everybody in every batch
            return ((Round.of(Side.point(size / noise if noise > 0.0 else math.inf), ZERO), steps),)
        if size == self.participations == 1:
            return one_example(self.batches, noise, steps)
        if noise == 0.0:
            return self._revealed(1.0, steps, noise)
        try:
            blocks = allocated_blocks(size, self.participations, self.batches, 1.0 / noise)
        except LimitExceeded:  # too many histograms: one by one
            return self._alone(steps, size, noise)
        return ((blocks, -(-steps // self.batches)),)

    def _is_attained(self, size: int) -> bool:
        return size == 0 or (size == 1 and self.participations == 1) or self.participations == self.batches

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        while True:
            place = generator.random((trials, dataset_size, self.batches)).argsort(axis=2).argsort(axis=2)
            for step in range(self.batches):
                yield place[:, :, step] < self.participations

    def _releases(self, members: int, move: float) -> Releases:
        return SubsetSums(members, move, self.batches, self.participations)


def noise_split(change: Change, noise: float, one_sided: Callable[[int, float], Rounds]) -> Rounds:
    """The rounds of those who leave and, mirrored, of those who join, each with its share of the noise (P-18)."""
    leave, join = counted(change.removed), counted(change.added)
    if leave + join > LARGEST_GROUP:
        raise InvalidArgument("group_size", leave + join, f"be at most {LARGEST_GROUP} in both datasets together")
    shares = [noise * math.sqrt(size / (leave + join)) * (1.0 - 2.0**-50) for size in (leave, join) if leave and join]
    leaving, joining = shares or (noise, noise)
    mirrored = tuple((one.mirrored, times) for one, times in one_sided(join, joining)) if join else ()
    return (*one_sided(leave, leaving), *mirrored) if leave else mirrored


def unit_of(microbatches: bool) -> float:
    """How far one example moves the sum: a clipped average moves by up to 2."""
    return 2.0 if microbatches else 1.0


@lru_cache(maxsize=64)
def _coin(size: int, batches: int, unit: float, noise: float) -> Round:
    return squares_coin(thrown_squares_law(size, batches), unit, noise)
