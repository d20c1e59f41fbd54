"""Balls in bins: every epoch throws each example into one of its batches, independently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from groupdp._validation import LARGEST_DATASET, require_integer
from groupdp.errors import InvalidArgument
from groupdp.groups import LARGEST_GROUP
from groupdp.laws.allocation import thrown_squares_law
from groupdp.neighbours import ADJACENCIES, Change
from groupdp.pairs import Round
from groupdp.samplings.poisson import FIXED_MICROBATCHES, counted
from groupdp.samplings.sampling import BoolArray, Rounds, Sampling
from groupdp.samplings.shuffled import squares_coin
from groupdp.samplings.worlds import World, thrown_members


@dataclass(frozen=True, slots=True, kw_only=True)
class BallsInBinsSampling(Sampling):
    """Every epoch has `batches` steps and puts each example into one of them, independently and uniformly."""

    batches: int

    name: ClassVar[str] = "balls-in-bins"
    title: ClassVar[str] = "balls in bins"
    fields: ClassVar[dict[str, str]] = {"batches": "batches"}
    adjacencies: ClassVar[tuple[str, ...]] = (*ADJACENCIES, "exchange")
    mistaken_for_poisson: ClassVar[bool] = True

    def __post_init__(self) -> None:
        batches = require_integer("batches", self.batches, at_least=1, at_most=LARGEST_DATASET)
        object.__setattr__(self, "batches", batches)

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """One epoch is a coin over r = sum_t c_t^2 with branch N(sqrt(r)) against N(0) (P-7).

        c_t counts everybody who is in one dataset only: those who leave and those who join are thrown independently.
        """
        if not (isinstance(change.removed, int) and isinstance(change.added, int)):
            raise AssertionError("a group by sources needs a sampling with sources")
        size = change.removed + change.added
        if size > LARGEST_GROUP:
            raise InvalidArgument(f"group_size must be at most {LARGEST_GROUP} in both datasets together, got {size}.")
        unit = 2.0 if microbatches else 1.0
        return ((_coin(size, self.batches, unit, noise), -(-steps // self.batches)),)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        return False

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        thrown = "Every epoch puts each example into one of its batches, independently and uniformly, anew."
        return (thrown, FIXED_MICROBATCHES) if microbatches else (thrown,)

    def share_of_data(self) -> Fraction:
        return Fraction(1, self.batches)

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        while True:
            bins = generator.integers(0, self.batches, size=(trials, dataset_size))
            for step in range(self.batches):
                yield bins == step

    def audited_worlds(self, change: Change, *, ordinary_examples: int) -> tuple[World, World]:
        """Those who leave move by +1, those who join by -1, all others not at all; who is not there does not move.

        Attains P-7 for pure removals and additions where the allocation is released too.
        """
        leave, join = counted(change.removed), counted(change.added)
        return (
            World(((0.0, ordinary_examples), (1.0, leave), (0.0, join)), thrown_members(leave, 1.0, self.batches)),
            World(((0.0, ordinary_examples), (0.0, leave), (-1.0, join)), thrown_members(join, -1.0, self.batches)),
        )


@lru_cache(maxsize=64)
def _coin(size: int, batches: int, unit: float, noise: float) -> Round:
    return squares_coin(thrown_squares_law(size, batches), unit, noise)
