"""Choices that decide how narrow the bracket gets, and never whether it is valid: tilt, window, support.

Everything here works on a rough quadrature of the cumulant generating function K of the composed loss,
taken from the tables of losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from groupdp.engines.interface import Direction
from groupdp.engines.lattice.importance import Survival, log_importance
from groupdp.engines.lattice.loss import FloatArray, RoundLoss
from groupdp.engines.lattice.support import LossTable, Support, loss_table, support_of
from groupdp.engines.lattice.window import Window, window_of
from groupdp.errors import LimitExceeded
from groupdp.reductions import Composition

#: The mass left out of the support is this far (in logarithm) below the tolerance; planning assumes at least 1e-4.
_ROOM = 7.0
_COARSEST = 1e-4
#: Largest shift (sensitivity / noise) the engine's arithmetic is good for.
LARGEST_SHIFT = 1e8
_SMALLEST_RATE, _LARGEST_RATE = 1e-15, 1e15


@dataclass(frozen=True, slots=True)
class Part:
    """One mechanism of the composition."""

    round_loss: RoundLoss
    rounds: int
    support: Support
    table: LossTable
    log_weights: FloatArray
    """log of (quadrature weight x density of P) at the table's nodes."""

    def log_importance(self, rate: float, epsilon: float, survival: Survival | None) -> FloatArray:
        """How much the losses at the table's nodes matter for delta(epsilon)."""
        loss = self.table.values.loss
        return log_importance(loss, self.log_weights, rate=rate, epsilon=epsilon, survival=survival)

    def cumulant(self, rate: float) -> tuple[float, float, float]:
        """(K, K', K'') of one round at `rate`, roughly."""
        loss = self.table.values.loss
        exponents = self.log_weights + rate * loss
        top = float(exponents.max())
        with np.errstate(under="ignore"):
            weights = np.exp(exponents - top)
        total = float(weights.sum())
        mean = float(weights @ loss) / total
        variance = float(weights @ (loss - mean) ** 2) / total
        return top + math.log(total), mean, variance


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
    direction: Direction

    @property
    def log_dead_mass(self) -> float:
        """log of about what the supports leave out."""
        terms = [math.log(part.rounds) + part.support.log_dead_mass for part in self.parts]
        return float(np.logaddexp.reduce(terms))

    @property
    def rounds(self) -> int:
        return sum(part.rounds for part in self.parts)

    def share(self, part: Part) -> float:
        """How much wider than on average the bracket of one round of a part may be."""
        return self.rounds / (part.rounds * len(self.parts))

    def cumulant(self, rate: float) -> tuple[float, float, float]:
        """(K, K', K'') of the whole composition, roughly."""
        each = [part.cumulant(rate) for part in self.parts]
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
            math.fsum(part.rounds * float(part.table.values.loss[end]) for part in self.parts) for end in (0, -1)
        )
        return window_of(self.cumulant, rate, log_outside, resolution=resolution, extremes=(first, last))


def require_moderate_shift(round_loss: RoundLoss) -> None:
    """Refuse shifts that the engine's arithmetic is not good for."""
    if not round_loss.largest_shift <= LARGEST_SHIFT:
        raise LimitExceeded(
            f"the largest sensitivity is {round_loss.largest_shift:.3g} times the noise; the lattice engine takes at "
            f"most {LARGEST_SHIFT:g} times."
        )


def prepare(composition: Composition, direction: Direction, *, log_delta: float, tolerance: float) -> Plan:
    """A plan for values of delta around e^log_delta (or larger), and a relative width of about `tolerance`."""
    rounds = sum(count for _, count in composition)
    log_share = math.log(min(tolerance, _COARSEST)) - _ROOM - math.log(rounds)
    log_cut = min(log_delta, 0.0) + log_share
    log_left_cut = log_share - _ROOM
    parts = []
    for mixture, count in composition:
        round_loss = RoundLoss(mixture, direction)
        require_moderate_shift(round_loss)
        support = support_of(round_loss, log_cut=log_cut, log_left_cut=log_left_cut)
        table = loss_table(round_loss, support)
        log_weights = np.log(table.weights) + table.values.log_density
        log_weights[0] = np.logaddexp(log_weights[0], support.log_left_mass)
        parts.append(Part(round_loss, count, support, table, log_weights))
    return Plan(tuple(parts), direction)


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
