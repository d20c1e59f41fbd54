"""Poisson sampling: every example on its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from groupdp.fields import SAMPLING_RATE, Field
from groupdp.groups import Group, is_empty
from groupdp.laws import binomial_law
from groupdp.neighbours import ADJACENCIES, Change
from groupdp.pairs import ZERO, Round, Side
from groupdp.samplings.sampling import BoolArray, Rounds, Sampling
from groupdp.samplings.worlds import World, independent_members

#: What clipped averages of microbatches need, in a sentence.
FIXED_MICROBATCHES = (
    "Which microbatch an example lands in does not depend on which others were sampled (positions in a batch of random "
    "size do)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonSampling(Sampling):
    """Every round includes each example independently with probability `rate`."""

    rate: float

    name: ClassVar[str] = "poisson"
    title: ClassVar[str] = "Poisson sampling"
    meaning: ClassVar[str] = (
        "Every example joins every batch with the same probability, independently. A loader that shuffles does not do "
        "this: choose shuffled epochs."
    )
    meant_by: ClassVar[str] = "sampling_rate"
    fields: ClassVar[tuple[Field, ...]] = (SAMPLING_RATE,)
    adjacencies: ClassVar[tuple[str, ...]] = (*ADJACENCIES, "exchange")
    epsilon_grows_with: ClassVar[tuple[str, ...]] = ("rate",)

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """(Binom(a, q), Binom(b, q)) for a removed and b added: tight with gradients +e and -e (P-1, P-2).

        Zeroed examples change the sum as removed ones do. In microbatches each of the group's examples changes one
        clipped average, by at most 2.
        """
        unit = 2.0 if microbatches else 1.0
        right = binomial_side(self.rate, change.removed, unit, noise)
        left = binomial_side(self.rate, change.added, unit, noise)
        return ((Round.of(right, left), steps),)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        return True

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        sampled = "Every step includes each example independently with the stated probability."
        return (sampled, FIXED_MICROBATCHES) if microbatches else (sampled,)

    def share_of_data(self) -> Fraction:
        return stated_fraction(self.rate)

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        while True:  # the rate is exact to 2^-53, the resolution of the uniform variates
            yield generator.random((trials, dataset_size)) < self.rate

    def audited_worlds(self, change: Change, *, ordinary_examples: int) -> tuple[World, World]:
        """Those who leave move by +1, those who join by -1, all others not at all: attains P-1 and P-2."""
        leave, join = counted(change.removed), counted(change.added)
        return (
            World(((0.0, ordinary_examples), (1.0, leave)), independent_members([(leave, self.rate, 1.0)])),
            World(((0.0, ordinary_examples), (-1.0, join)), independent_members([(join, self.rate, -1.0)])),
        )


def counted(group: Group) -> int:
    """A group without sources."""
    if not isinstance(group, int):
        raise AssertionError("a group by sources needs a sampling with sources")
    return group


def stated_fraction(rate: float) -> Fraction:
    """The number that was meant by a double: 1/m if it is the double nearest to that, else the decimal it prints as."""
    inverse = round(1.0 / rate)
    return Fraction(1, inverse) if 1.0 / inverse == rate else Fraction(repr(rate))


@lru_cache(maxsize=256)
def binomial_side(rate: float, group: Group, unit: float, noise: float) -> Side:
    """The side of a group of which each example is there with probability `rate`, moving the sum by `unit`."""
    return ZERO if is_empty(group) else _sensitivities(rate, group, unit).divided(noise)


@lru_cache(maxsize=128)
def _sensitivities(rate: float, group: Group, unit: float) -> Side:
    size = counted(group)
    if rate == 1.0:  # in every other law of counts all outcomes are possible
        return Side.point(unit * size)
    return Side(unit * np.arange(size + 1.0), binomial_law(size, rate))
