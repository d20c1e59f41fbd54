"""Rounds in which one random allocation decides many steps: coins over products of the pairs R(M, s).

In units of the noise. R(M, s) is one of M steps, uniformly: P = (1/M) sum_t N(s e_t, I), Q = N(0, I_M), so that the
likelihood ratio under Q is the mean of M independent lognormals e^{s Z_t - s^2 / 2}. An *allocation* is R(M, s) of a
group that takes part with probability p: its likelihood ratio is

    X = 1 - p + p (1/M) sum_t e^{s Z_t - s^2 / 2}.

An *allocation round* is a public coin over products of allocations; forward it is P against Q (remove), reversed Q
against P (add). It stands beside `pairs.Round` in a composition.

R(M, s) is dominated by N(s, 1) against N(0, 1), its M = 1 case: revealing the step only increases every hockey stick.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from groupdp._validation import require_integer, require_number
from groupdp.floats import at_zero_of, log_complement


@dataclass(frozen=True, slots=True)
class Allocation:
    """R(`places`, `shift`) of a group that takes part with probability e^`log_probability`."""

    places: int
    shift: float
    log_probability: float = 0.0

    def __post_init__(self) -> None:
        require_integer("places", self.places, at_least=1)
        require_number("log_probability", self.log_probability, at_most=0.0)
        if not self.shift >= 0.0:
            raise AssertionError("an allocation must have a shift >= 0")


#: Allocations of independent places, each with the number of times it stands in the product.
Product = tuple[tuple[Allocation, int], ...]


@dataclass(frozen=True, slots=True)
class AllocationRound:
    """A public coin over products of allocations; `log_weights` are the logarithms of its probabilities."""

    products: tuple[Product, ...]
    log_weights: tuple[float, ...] = (0.0,)
    reverse: bool = False
    """Whether P and Q are exchanged: the likelihood ratio of the products is then that of Q to P."""

    def __post_init__(self) -> None:
        if not len(self.products) == len(self.log_weights) > 0:
            raise AssertionError("an allocation round must have as many weights as products, at least one")

    @classmethod
    def of(cls, places: int, shift: float, *, reverse: bool = False) -> AllocationRound:
        """R(places, shift) without a coin."""
        return cls((((Allocation(places, shift), 1),),), reverse=reverse)

    @property
    def mirrored(self) -> AllocationRound:
        """The round with P and Q exchanged."""
        return AllocationRound(self.products, self.log_weights, not self.reverse)

    @property
    def is_trivial(self) -> bool:
        """Whether P and Q are identical."""
        return self.largest_shift == 0.0

    @property
    def has_noise(self) -> bool:
        """Whether all shifts are finite."""
        return math.isfinite(self.largest_shift)

    @property
    def largest_shift(self) -> float:
        """It is dominated by N(largest_shift, 1) against N(0, 1): all places revealed, everybody takes part."""
        return max(
            math.hypot(*(math.sqrt(times) * factor.shift for factor, times in product)) for product in self.products
        )

    @property
    def at_zero(self) -> tuple[float, float, float]:
        """(log P(0), log Q(0), largest loss at outcome 0) where it has no noise: Q has the outcome 0 alone."""
        masses = [(_log_absence(product), 0.0) for product in self.products]
        return at_zero_of(self.log_weights, [mass[::-1] for mass in masses] if self.reverse else masses)

    @property
    def log_mass_at_zero(self) -> float:
        """log of a lower bound on the probability that nobody takes part, in which case the loss is 0 (no noise)."""
        return min(map(_log_absence, self.products))

    @property
    def log_mass_above_zero(self) -> float:
        """log of an upper bound on the hockey stick at alpha = 1: the probability that somebody takes part."""
        return log_complement(self.log_mass_at_zero)

    def log_delta_of_one_place(self, epsilon: float) -> float:
        """About the largest part of log delta(epsilon) that one place has alone, P against Q: beyond the Z where its
        density is e^epsilon times larger under P."""
        largest = -math.inf
        for product, log_weight in zip(self.products, self.log_weights, strict=True):
            for factor, _ in product:
                if factor.shift > 0.0 and factor.places > 1 and log_weight + factor.log_probability > largest:
                    odds = epsilon + math.log(factor.places) - factor.log_probability
                    z = odds / factor.shift + 0.5 * factor.shift
                    own = _tail(z - factor.shift) - math.exp(min(odds, 700.0)) * _tail(z)
                    if own > 0.0:
                        largest = max(largest, log_weight + factor.log_probability + math.log(own))
        return largest


def _tail(z: float) -> float:
    """P(N(0, 1) > z), about."""
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def _log_absence(product: Product) -> float:
    """log of the probability that nobody takes part whose shift is above 0."""
    return math.fsum(times * log_complement(factor.log_probability) for factor, times in product if factor.shift > 0.0)
