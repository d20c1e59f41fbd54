"""Choices that decide how narrow the bracket gets, and never whether it is valid: tilt, window, support.

Everything here works on a rough quadrature of the cumulant generating function K of the composed loss,
taken from the tables of losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from groupdp.allocations import AllocationRound
from groupdp.engines.lattice.allocation_part import AllocationPart
from groupdp.engines.lattice.curves import MANY_BRANCHES, envelope_of
from groupdp.engines.lattice.envelope import gaussian_coin
from groupdp.engines.lattice.envelope_part import EnvelopePart
from groupdp.engines.lattice.loss_part import AtomsPart, LaplacePart
from groupdp.engines.lattice.parts import Part, RoundPart
from groupdp.engines.lattice.window import Window, window_of
from groupdp.losses import AtomsRound, LaplaceRound
from groupdp.pairs import Composition, Profile, Round

#: The mass left out of the support is this far (in logarithm) below the tolerance; planning assumes at least 1e-4.
_ROOM = 7.0
_COARSEST = 1e-4
#: Lattice points on either side of 0, at most: indices and their neighbours must be exact as doubles.
_MOST_STEPS = 2.0**48
_SMALLEST_RATE, _LARGEST_RATE = 1e-15, 1e15


@dataclass(frozen=True, slots=True)
class Saddle:
    """A tilt rate with the epsilon and log delta it is best for, roughly."""

    rate: float
    epsilon: float
    log_delta: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The composition prepared for answers near a given size of delta."""

    parts: tuple[Part, ...]

    @property
    def log_dead_mass(self) -> float:
        """log of about what the supports leave out."""
        terms = [math.log(part.rounds) + part.log_dead_mass for part in self.parts]
        return float(np.logaddexp.reduce(terms))

    @property
    def rounds(self) -> int:
        return sum(part.rounds for part in self.parts)

    @property
    def finest_step(self) -> float:
        """Lattice points of steps from this one on have indices that are exact as doubles, and so have those next to
        them."""
        return max(part.farthest for part in self.parts) / _MOST_STEPS

    @property
    def spacing(self) -> float:
        """What the step should divide, if anything: the shift of the Laplace mechanism that runs most often."""
        laplace = [part for part in self.parts if isinstance(part, LaplacePart)]
        return max(laplace, key=lambda part: part.rounds).shift if laplace else 0.0

    def share(self, part: Part) -> float:
        """How much wider than on average the bracket of one round of a part may be."""
        return self.rounds / (part.rounds * len(self.parts))

    def cumulant(self, rate: float) -> tuple[float, float, float]:
        """(K, K', K'') of the whole composition, roughly."""
        each = [part.law.cumulant(rate) for part in self.parts]
        k, mean, variance = (
            math.fsum(part.rounds * values[i] for part, values in zip(self.parts, each, strict=True)) for i in range(3)
        )
        return k, mean, variance

    def saddle(self, rate: float) -> Saddle:
        """The epsilon at which `rate` minimises K(c) - c eps - log c - log(1 + c), and delta there (Laplace)."""
        k, mean, variance = self.cumulant(rate)
        epsilon = mean - 1.0 / rate - 1.0 / (1.0 + rate)
        spread = variance + rate**-2 + (1.0 + rate) ** -2
        exponent = k - rate * epsilon - math.log(rate) - math.log1p(rate)
        return Saddle(rate, epsilon, min(exponent - 0.5 * math.log(2.0 * math.pi * spread), 0.0))

    def saddle_for_epsilon(self, epsilon: float) -> Saddle:
        return self.saddle(_bisect(lambda rate: self.saddle(rate).epsilon < epsilon))

    def saddle_for_delta(self, log_delta: float) -> Saddle:
        return self.saddle(_bisect(lambda rate: self.saddle(rate).log_delta > log_delta))

    def window(self, rate: float, log_outside: float, *, resolution: float) -> Window:
        """Losses outside of which the tilted law has about e^log_outside on either side."""
        first, last = (
            math.fsum(part.rounds * float(extreme(part.law.loss)) for part in self.parts)
            for extreme in (np.min, np.max)
        )
        return window_of(self.cumulant, rate, log_outside, resolution=resolution, extremes=(first, last))


def prepare(composition: Composition, *, log_delta: float, tolerance: float) -> Plan:
    """A plan for values of delta around e^log_delta (or larger), and a relative width of about `tolerance`."""
    rounds = sum(count for _, count in composition)
    log_share = math.log(min(tolerance, _COARSEST)) - _ROOM - math.log(rounds)
    cuts = {"log_cut": min(log_delta, 0.0) + log_share, "log_left_cut": log_share - _ROOM}
    return Plan(tuple(_part_of(one, count, **cuts) for one, count in _simple(composition)))


def _simple(composition: Composition) -> Composition:
    """Products of allocations without a coin as separate rounds: their composition is the same."""
    found: list[tuple[Round | Profile, int]] = []
    for one, count in composition:
        if isinstance(one, AllocationRound) and len(one.products) == 1:
            for factor, times in one.products[0]:
                found.append((AllocationRound((((factor, 1),),), reverse=one.reverse), count * times))
        else:
            found.append((one, count))
    return tuple(found)


def _part_of(one: Round | Profile, rounds: int, *, log_cut: float, log_left_cut: float) -> Part:
    if isinstance(one, AllocationRound):
        return AllocationPart(one, rounds)
    if isinstance(one, AtomsRound):
        return AtomsPart(one, rounds)
    if isinstance(one, LaplaceRound):
        return LaplacePart(one, rounds)
    if not isinstance(one, Round):
        return EnvelopePart(envelope_of(one).side, rounds, log_cut=log_cut)
    gaussian = gaussian_coin(one) if len(one.branches) >= MANY_BRANCHES else None
    if gaussian is not None:
        return EnvelopePart(gaussian, rounds, log_cut=log_cut, balanced=False)
    return RoundPart(one, rounds, log_cut=log_cut, log_left_cut=log_left_cut)


def _bisect(too_small: Callable[[float], bool]) -> float:
    """The rate, on a logarithmic scale, where `too_small` turns false."""
    low, high = math.log(_SMALLEST_RATE), math.log(_LARGEST_RATE)
    for _ in range(45):
        middle = 0.5 * (low + high)
        if too_small(math.exp(middle)):
            low = middle
        else:
            high = middle
    return math.exp(0.5 * (low + high))
