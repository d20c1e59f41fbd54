"""Spread allocation: every epoch puts a person's examples into distinct batches, uniformly at random."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from groupdp._validation import LARGEST_DATASET, require_integer
from groupdp.allocations import Allocation, AllocationRound
from groupdp.errors import InvalidArgument
from groupdp.fields import BATCHES, Field, Slider
from groupdp.groups import LARGEST_GROUP
from groupdp.laws.blocks import spread_blocks
from groupdp.neighbours import ADJACENCIES, Change
from groupdp.pairs import ZERO, AnyRound, Round, Rounds, Side
from groupdp.samplings.audited import AllocatedSums, AuditedDataset
from groupdp.samplings.poisson import FIXED_MICROBATCHES, counted
from groupdp.samplings.sampling import BoolArray, Sampling

#: Members of a part at most; no effect on validity.
PART = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadSampling(Sampling):
    """Every epoch has `batches` steps and puts each person's examples into distinct ones, uniformly at random,
    independently of everybody else; with `evenly`, more than `batches` of them as evenly as possible.

    The group is one person. Without `evenly` a group of more than `batches` examples is refused: how they are spread
    must be said.
    """

    batches: int
    evenly: bool = False

    name: ClassVar[str] = "spread"
    title: ClassVar[str] = "spread allocation"
    meaning: ClassVar[str] = "Every epoch deals a person's examples to distinct batches, independently of other people."
    fields: ClassVar[tuple[Field, ...]] = (
        BATCHES,
        Field(
            name="evenly",
            unit="",
            meaning="Admit people with more examples than batches; theirs are spread as evenly as possible.",
            kind="flag",
            default=False,
            slider=Slider(start=False),
        ),
    )
    adjacencies: ClassVar[tuple[str, ...]] = (*ADJACENCIES, "exchange")
    secret_allocation: ClassVar[bool] = True

    def __post_init__(self) -> None:
        batches = require_integer("batches", self.batches, at_least=1, at_most=LARGEST_DATASET)
        object.__setattr__(self, "batches", batches)
        if not isinstance(self.evenly, bool):
            raise InvalidArgument("evenly", self.evenly, "be True or False")

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """One person leaves: P-14. One leaves and another joins: each with a share of the noise (P-18)."""
        return noise_split(change, noise / unit_of(microbatches), lambda size, own: self._one_sided(size, own, steps))

    def alternatives(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> tuple[Rounds, ...]:
        """The allocation revealed: where noise is small better for members leaving and joining (P-18), and easier to
        compute in all cases (P-14)."""
        size = counted(change.removed) + counted(change.added)
        if size == 0 or noise == 0.0:
            return ()
        return (revealed(_squares(size, self.batches), self.batches, noise / unit_of(microbatches), steps),)

    def _require_places(self, size: int) -> None:
        if size > self.batches and not self.evenly:
            requirement = f"be at most batches={self.batches}, or be given with evenly=True (--evenly) to be larger"
            raise InvalidArgument("group_size", size, requirement)

    def _one_sided(self, size: int, noise: float, steps: int) -> Rounds:
        self._require_places(size)
        if size % self.batches == 0:  # as many in every batch: no randomness is left
            share = size // self.batches
            return ((Round.of(Side.point(share / noise if noise > 0.0 else math.inf), ZERO), steps),)
        if size == 1:
            return one_example(self.batches, noise, steps)
        epochs = -(-steps // self.batches)
        if noise == 0.0 or size > self.batches:  # P-14: the allocation revealed
            shift = math.sqrt(_squares(size, self.batches)) / noise if noise > 0.0 else math.inf
            return ((Round.of(Side.point(shift), ZERO), epochs),)
        return ((spread_blocks(size, self.batches, 1.0 / noise), epochs),)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        sizes = counted(change.removed), counted(change.added)
        return 0 in sizes and (max(sizes) <= 1 or max(sizes) % self.batches == 0)

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        allocated = (
            "Every epoch puts each person's examples into distinct batches, uniformly at random, anew and "
            "independently of all other people; more examples than batches as evenly as possible.",
            "Which examples are in which batch stays secret.",
            "The group is all examples of one person.",
            "The sum of clipped gradients is divided by a number that does not depend on the data.",
        )
        return (*allocated, FIXED_MICROBATCHES) if microbatches else allocated

    def share_of_data(self) -> Fraction:
        return Fraction(1, self.batches)

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        """All examples are one person's."""
        while True:
            whole, rest = divmod(dataset_size, self.batches)
            orders = [generator.random((trials, self.batches)).argsort(axis=1) for _ in range(whole + (rest > 0))]
            bins = np.concatenate((np.empty((trials, 0), dtype=np.int64), *orders), axis=1)[:, :dataset_size]
            for step in range(self.batches):
                yield bins == step

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        """Those who leave move by +1, those who join by -1; there are no others, who would be other people."""
        leave, join = counted(change.removed), counted(change.added)
        self._require_places(max(leave, join))
        return (
            AuditedDataset(((1.0, leave),), spread_members(leave, 1.0, self.batches)),
            AuditedDataset(((-1.0, join),), spread_members(join, -1.0, self.batches)),
        )


def noise_split(change: Change, noise: float, one_sided: Callable[[int, float], Rounds]) -> Rounds:
    """The rounds of those who leave and, mirrored, of those who join, each with its share of the noise (P-18)."""
    leave, join = counted(change.removed), counted(change.added)
    if leave + join > LARGEST_GROUP:
        raise InvalidArgument("group_size", leave + join, f"be at most {LARGEST_GROUP} in both datasets together")
    if leave == 0 == join:
        return ()
    leaving, joining = (noise * math.sqrt(size / (leave + join)) * (1.0 - 2.0**-50) for size in (leave, join))
    if join == 0:
        return one_sided(leave, noise)
    entering = one_sided(join, joining if leave else noise)
    mirrored = tuple((one.mirrored, times) for one, times in entering)
    return (*one_sided(leave, leaving), *mirrored) if leave else mirrored


def in_parts(one_sided: Callable[[int, float], Rounds], size: int, noise: float, most: int = PART) -> Rounds:
    """Independent members in two or more parts of at most `most`, each with its share of the noise (P-18)."""
    parts = max(-(-size // most), min(size, 2))
    fewest, larger = divmod(size, parts)
    rounds: list[tuple[AnyRound, int]] = []
    for members, times in ((fewest + 1, larger), (fewest, parts - larger)):
        if times:
            found = one_sided(members, noise * math.sqrt(members / size) * (1.0 - 2.0**-50))
            rounds.extend((one, times * count) for one, count in found)
    return tuple(rounds)


@lru_cache(maxsize=64)
def one_example(batches: int, noise: float, steps: int) -> Rounds:
    """One example in one of the batches: R(N, 1 / noise) for every whole epoch; of an epoch that ends after t steps,
    R(t, 1 / noise) with probability t / N (P-13, exact).
    """
    whole, rest = divmod(steps, batches)
    rounds: list[tuple[AnyRound, int]] = []
    for places, times in ((batches, whole), (rest, 1)):
        if places == 0 or times == 0:
            continue
        share = math.log1p(-(batches - places) / batches) if 2 * places > batches else math.log(places / batches)
        if noise > 0.0:
            rounds.append((AllocationRound((((Allocation(places, 1.0 / noise, share), 1),),)), times))
        elif places == batches:
            rounds.append((Round.of(Side.point(math.inf), ZERO), times))
        else:
            absent = (batches - places) / batches
            law = np.array([absent, places / batches]), np.array([math.log1p(-places / batches), share])
            rounds.append((Round.of(Side(np.array([0.0, math.inf]), law), ZERO), times))
    return tuple(rounds)


def revealed(squares: float, batches: int, noise: float, steps: int) -> Rounds:
    """N(sqrt(squares) / noise) against N(0) for every epoch that was begun."""
    return ((Round.of(Side.point(math.sqrt(squares) / noise), ZERO), -(-steps // batches)),)


def unit_of(microbatches: bool) -> float:
    """How far one example moves the sum: a clipped average moves by up to 2."""
    return 2.0 if microbatches else 1.0


def spread_members(members: int, move: float, batches: int) -> AllocatedSums:
    """Distinct batches: a uniform subset; every batch holds floor(members / N), and some of them one more."""
    base = members // batches
    ways = tuple(float(math.factorial(c)) if c in (base, base + 1) else 0.0 for c in range(base + 2))
    return AllocatedSums(members, move, (ways,) * batches)


def _squares(size: int, batches: int) -> int:
    """sum_t c_t^2 of as even counts as possible."""
    share, rest = divmod(size, batches)
    return (batches - rest) * share**2 + rest * (share + 1) ** 2
