"""Rounds and their compositions: all that an engine ever sees.

A *composition* is rounds with multiplicities. Who removes or adds examples is decided before (neighbours.py); engines
answer for compositions and know nothing of directions, samplings or groups. A round is a public coin over branches
(sides.py): which branch it is belongs to what is released, and has the same law under P and Q; or it is made of known
losses (losses.py), or one of the two kinds below. A round without noise has infinite shifts: compositions.py
treats it in closed form, and no engine sees it.

A *profile* is a round of which only a bound on its hockey stick is known; no pair of mixtures has that hockey stick
(docs/internals/laws.md, P-5). The lattice engine composes profiles from above by connecting the dots, from below by
merging, so that its bounds enclose the composition of the profile; several rounds of one have a contour (S-112).

In an *allocation round* one random allocation decides many steps. R(M, s) is one of M steps, uniformly: P = (1/M) sum_t
N(s e_t, I), Q = N(0, I_M), so that the likelihood ratio under Q is the mean of M independent lognormals. An
*allocation* is R(M, s) of a group that takes part with probability p: its likelihood ratio is

    X = 1 - p + p (1/M) sum_t e^{s Z_t - s^2 / 2}.

R(M, s) is dominated by N(s, 1) against N(0, 1), its M = 1 case: revealing the step only increases every hockey stick.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from groupdp.errors import require_integer, require_number
from groupdp.floats import ELEMENTARY, at_zero_of, log_complement, normal_tail
from groupdp.sides import ZERO as ZERO
from groupdp.sides import Branch as Branch
from groupdp.sides import Immutable as Immutable
from groupdp.sides import Law as Law
from groupdp.sides import Side as Side


class AnyRound(ABC):
    """What a round says about itself, whatever it is made of. Immutable and hashable."""

    __slots__ = ()

    @property
    @abstractmethod
    def mirrored(self) -> AnyRound:
        """The round with P and Q exchanged."""

    @property
    @abstractmethod
    def largest_shift(self) -> float:
        """The largest shift s: N(s, 1) against N(0, 1) dominates the round."""

    @property
    @abstractmethod
    def at_zero(self) -> tuple[float, float, float]:
        """(log P(0), log Q(0), largest loss at outcome 0) where it has no noise."""

    @property
    @abstractmethod
    def log_mass_above_zero(self) -> float:
        """log of a bound on its hockey stick at alpha = 1."""

    @property
    def is_trivial(self) -> bool:
        """Whether P and Q are identical."""
        return self.largest_shift == 0.0

    @property
    def has_noise(self) -> bool:
        """Whether all shifts are finite."""
        return self.largest_shift < math.inf

    @property
    def largest_loss(self) -> float:
        """An upper bound on the loss; inf where none is known."""
        return 0.0 if self.is_trivial else math.inf


class Round(Immutable, AnyRound):
    """A public coin over branches. `log_weights` are the logarithms of its probabilities. Immutable and hashable."""

    __slots__ = ("branches", "largest", "log_weights", "lower")

    branches: tuple[Branch, ...]
    log_weights: tuple[float, ...]
    largest: float
    """The largest shift of any side."""
    lower: Round | None
    """A round that the analysed one dominates, for lower sides, if this round only dominates the analysed one."""

    def __init__(
        self, branches: Iterable[Branch], log_weights: Sequence[float] = (0.0,), lower: Round | None = None
    ) -> None:
        own, weights = tuple(branches), tuple(map(float, log_weights))
        if not len(own) == len(weights) > 0:
            raise AssertionError("a round must have as many weights as branches, at least one")
        largest = max(max(branch.right.largest, branch.left.largest) for branch in own)
        self._assign((own, weights, lower), branches=own, log_weights=weights, lower=lower, largest=largest)

    @classmethod
    def of(cls, right: Side, left: Side) -> Round:
        """A round without a coin."""
        return cls((Branch(right, left),))

    def __reduce__(self) -> tuple[Any, ...]:
        return Round, self._key

    def __repr__(self) -> str:
        if len(self.branches) == 1:
            return f"Round.of({self.branches[0].right!r}, {self.branches[0].left!r})"
        return f"Round(<{len(self.branches)} branches>)"

    @property
    def mirrored(self) -> Round:
        lower = None if self.lower is None else self.lower.mirrored
        return Round((branch.mirrored for branch in self.branches), self.log_weights, lower)

    @property
    def is_trivial(self) -> bool:
        return self.largest == 0.0

    @property
    def has_noise(self) -> bool:
        return self.largest < math.inf

    @property
    def is_gaussian(self) -> bool:
        """Whether every side has a single shift."""
        return all(len(branch.right.shifts) == 1 == len(branch.left.shifts) for branch in self.branches)

    @property
    def largest_shift(self) -> float:
        """The largest shift s: N(s, 1) against N(0, 1) dominates the round (anchor lemma, P-0)."""
        return max(branch.right.largest + branch.left.largest for branch in self.branches)

    @property
    def largest_loss(self) -> float:
        """An upper bound on the loss (L-1)."""
        return max(branch.largest_loss for branch in self.branches)

    @property
    def at_zero(self) -> tuple[float, float, float]:
        masses = [(branch.right.log_mass_at_zero, branch.left.log_mass_at_zero) for branch in self.branches]
        return at_zero_of(self.log_weights, masses)

    @property
    def log_mass_above_zero(self) -> float:
        """log of a bound on delta(0) (P-12): in a branch P and Q agree with probability at least min(a_0, b_0)."""
        terms = [
            weight + max(branch.right.log_mass_above_zero, branch.left.log_mass_above_zero)
            for weight, branch in zip(self.log_weights, self.branches, strict=True)
        ]
        return terms[0] if len(terms) == 1 else float(np.logaddexp.reduce(terms))


@dataclass(frozen=True, slots=True)
class SubstitutionEnvelope(AnyRound):
    """Fixed batches of which up to k members are replaced or zeroed: h_i with the shift mu_i, h = Hypergeom(B, n, k).

    For alpha >= 1, with phi_i(g) = Phi(Phi^-1(g) + mu_i), the hockey stick of a round is at most

        R(alpha) = sup_{0 <= g0 <= 1} { (1 - alpha) h_0 g0 + sum_{i >= 1} h_i max_{g <= g0} [phi_i(g) - alpha g] }

    and R(alpha) = 1 - alpha + alpha R(1 / alpha) below 1: the profile is its own mirror image. At k = 1 it is attained.
    """

    side: Side

    @property
    def mirrored(self) -> SubstitutionEnvelope:
        return self

    @property
    def largest_shift(self) -> float:
        """The largest shift s: N(s, 1) against N(0, 1) dominates the round: no components are farther apart."""
        return self.side.largest

    @property
    def at_zero(self) -> tuple[float, float, float]:
        """(log h_0, log h_0, 0): without noise the outcome is 0 where nobody of the group is in the batch."""
        return self.side.log_mass_at_zero, self.side.log_mass_at_zero, 0.0

    @property
    def log_mass_above_zero(self) -> float:
        """log(1 - h_0), a bound on its hockey stick at alpha = 1."""
        return self.side.log_mass_above_zero


#: Z of a place that is large.
_LARGE_PLACE = 3.0


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

    def delta_of_one_place(self, epsilon: float) -> float:
        """About the part of delta(epsilon), P against Q, that a single large place has, the others at their mean."""
        if not epsilon > 0.0:
            return 0.0
        present = math.exp(self.log_probability)
        excess = math.expm1(min(epsilon, 600.0))
        rest = excess + present / self.places
        z = (math.log(rest * self.places) - self.log_probability) / self.shift + 0.5 * self.shift
        if z < _LARGE_PLACE:
            return 0.0
        far = normal_tail(z)
        return max(present * (normal_tail(z - self.shift) - far) - excess * self.places * far, 0.0)


#: Allocations of independent places, each with the number of times it stands in the product.
Product = tuple[tuple[Allocation, int], ...]


@dataclass(frozen=True, slots=True)
class AllocationRound(AnyRound):
    """A public coin over products of allocations; `log_weights` are the logarithms of its probabilities.

    Forward it is P against Q (remove), reversed Q against P (add).
    """

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
        return AllocationRound(self.products, self.log_weights, not self.reverse)

    @property
    def largest_shift(self) -> float:
        """The largest shift s: N(s, 1) against N(0, 1) dominates the round with all places revealed and all present."""
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
                    own = normal_tail(z - factor.shift) - math.exp(min(odds, 700.0)) * normal_tail(z)
                    if own > 0.0:
                        largest = max(largest, log_weight + factor.log_probability + math.log(own))
        return largest

    def log_delta_beside_one_place(self, epsilon: float, times: float) -> float:
        """About log delta(epsilon), P against Q, of a single large place in so many rounds, beside the losses of all
        others, about Gaussian. It is mostly below log delta."""
        counts: dict[Allocation, float] = {}
        for product, log_weight in zip(self.products, self.log_weights, strict=True):
            for factor, count in product:
                if factor.shift > 0.0 and factor.places > 1:
                    counts[factor] = counts.get(factor, 0.0) + math.exp(log_weight) * count * times
        variance = sum(
            count * math.exp(2.0 * factor.log_probability) * min(factor.shift**2, 1.0) / factor.places
            for factor, count in counts.items()
        )
        total = 0.0
        for step in range(-8, 13):
            left = epsilon - 0.5 * variance - 0.5 * step * math.sqrt(variance)
            density = 0.5 * math.exp(-0.125 * step * step) / math.sqrt(2.0 * math.pi)
            total += density * sum(count * factor.delta_of_one_place(left) for factor, count in counts.items())
        return math.log(total) if total > 0.0 else -math.inf


def _log_absence(product: Product) -> float:
    """log of the probability that nobody takes part whose shift is above 0."""
    return math.fsum(times * log_complement(factor.log_probability) for factor, times in product if factor.shift > 0.0)


#: Rounds with the number of times each is run.
Rounds = tuple[tuple[AnyRound, int], ...]
#: Different rounds, none of them trivial, with the number of times each is run.
Composition = tuple[tuple[AnyRound, int], ...]


def compose(rounds: Iterable[tuple[AnyRound, int]]) -> Composition:
    """Equal rounds counted together; rounds in which P and Q are identical, and rounds run 0 times, left out."""
    counts: dict[AnyRound, int] = {}
    for round_, times in rounds:
        if times > 0 and not round_.is_trivial:
            counts[round_] = counts.get(round_, 0) + times
    return tuple(counts.items())


def mirrored(composition: Composition) -> Composition:
    """The composition with P and Q exchanged in every round."""
    return tuple((round_.mirrored, times) for round_, times in composition)


def largest_loss(composition: Composition) -> float:
    """An upper bound on the composed loss (L-1), never attained unless it is 0; inf where there is none."""
    terms = [rounds * round_.largest_loss for round_, rounds in composition]
    return math.fsum(terms) * (1.0 + 2.0 * ELEMENTARY)


def lower_composition(composition: Composition) -> Composition | None:
    """The composition for lower sides, if it is another one: every round replaced by its `lower` one."""
    lower = [(round_.lower if isinstance(round_, Round) else None, times) for round_, times in composition]
    if all(round_ is None for round_, _ in lower):
        return None
    return compose((own or part[0], times) for (own, times), part in zip(lower, composition, strict=True))
