"""Pairs of opposed mixtures with a public coin: all that an engine ever sees.

In units of the noise. A *side* is a finite law of shifts >= 0. A *branch* opposes two sides, right and left:

    P = sum_i a_i N(+x_i, 1),      Q = sum_j b_j N(-y_j, 1).

A *round* is a public coin over branches: which branch it is belongs to what is released, and has the same law under P
and Q. A *composition* is rounds with multiplicities. With densities A(u) phi(u) and B(u) phi(u) the privacy loss Psi =
log A - log B increases with u, so every optimal event is a half-line; mixtures in more dimensions are dominated by
their norms on the line (P-0). Who removes or adds examples is decided before (neighbours.py); engines answer for
compositions and know nothing of directions, samplings or groups.

A round without noise has infinite shifts: noiseless.py treats it in closed form, and no engine sees it.

A *profile* is a round of which only a bound on its hockey stick is known; no pair of mixtures has that hockey stick
(docs/internals/laws.md, P-5). Only the lattice engine composes profiles: from above by connecting the dots, from below
by merging, so that its bounds enclose the composition of the profile.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from groupdp.floats import at_zero_of
from groupdp.sides import ZERO as ZERO
from groupdp.sides import Immutable as Immutable
from groupdp.sides import Law as Law
from groupdp.sides import Side as Side


class Branch(Immutable):
    """P = sum a_i N(+x_i, 1) with (x, a) = `right` against Q = sum b_j N(-y_j, 1) with (y, b) = `left`."""

    __slots__ = ("left", "right")

    right: Side
    left: Side

    def __init__(self, right: Side, left: Side) -> None:
        self._assign((right, left), right=right, left=left)

    def __reduce__(self) -> tuple[Any, ...]:
        return Branch, self._key

    def __repr__(self) -> str:
        return f"Branch({self.right!r}, {self.left!r})"

    @property
    def mirrored(self) -> Branch:
        """The branch with P and Q exchanged (and u -> -u, so that the loss still increases)."""
        return Branch(self.left, self.right)

    @property
    def is_trivial(self) -> bool:
        """Whether P and Q are identical."""
        return self.right.is_zero and self.left.is_zero


class Round(Immutable):
    """A public coin over branches. `log_weights` are the logarithms of its probabilities. Immutable and hashable."""

    __slots__ = ("branches", "largest", "log_weights", "lower")

    branches: tuple[Branch, ...]
    log_weights: tuple[float, ...]
    largest: float
    """The largest shift of any side."""
    lower: Round | None
    """Where this round only dominates the analysed one: a round that the analysed one dominates, for lower sides."""

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
        """The round with P and Q exchanged."""
        lower = None if self.lower is None else self.lower.mirrored
        return Round((branch.mirrored for branch in self.branches), self.log_weights, lower)

    @property
    def is_trivial(self) -> bool:
        """Whether P and Q are identical."""
        return self.largest == 0.0

    @property
    def has_noise(self) -> bool:
        """Whether all shifts are finite."""
        return self.largest < math.inf

    @property
    def is_gaussian(self) -> bool:
        """Whether no side has two shifts."""
        return all(len(branch.right.shifts) == 1 == len(branch.left.shifts) for branch in self.branches)

    @property
    def largest_shift(self) -> float:
        """It is dominated by N(largest_shift, 1) against N(0, 1) (anchor lemma, P-0)."""
        return max(branch.right.largest + branch.left.largest for branch in self.branches)

    @property
    def at_zero(self) -> tuple[float, float, float]:
        """(log P(0), log Q(0), largest loss at outcome 0) where it has no noise."""
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
class SubstitutionEnvelope:
    """Fixed batches of which up to k members are replaced or zeroed: h_i with the shift mu_i, h = Hypergeom(B, n, k).

    For alpha >= 1, with phi_i(g) = Phi(Phi^-1(g) + mu_i), the hockey stick of a round is at most

        R(alpha) = sup_{0 <= g0 <= 1} { (1 - alpha) h_0 g0 + sum_{i >= 1} h_i max_{g <= g0} [phi_i(g) - alpha g] }

    and R(alpha) = 1 - alpha + alpha R(1 / alpha) below 1: the profile is its own mirror image. At k = 1 it is attained.
    """

    side: Side

    @classmethod
    def from_law(cls, law: Law, unit: float) -> SubstitutionEnvelope:
        """From the law of how many of the replaced examples a batch holds, and the shift of each: 2 / noise multiplier.

        An infinite `unit` is a round without noise.
        """
        possible = np.flatnonzero(np.isfinite(law[1]))
        shifts = np.array([count * unit if count else 0.0 for count in possible.tolist()])
        return cls(Side.merged(shifts, (law[0][possible], law[1][possible])))

    @property
    def mirrored(self) -> SubstitutionEnvelope:
        """The profile with P and Q exchanged: itself."""
        return self

    @property
    def is_trivial(self) -> bool:
        """Whether P and Q are identical."""
        return self.side.is_zero

    @property
    def has_noise(self) -> bool:
        """Whether all shifts are finite."""
        return math.isfinite(self.side.largest)

    @property
    def largest_shift(self) -> float:
        """It is dominated by N(largest_shift, 1) against N(0, 1): no component is farther from another."""
        return self.side.largest

    @property
    def at_zero(self) -> tuple[float, float, float]:
        """(log h_0, log h_0, 0): without noise the outcome is 0 where nobody of the group is in the batch."""
        return self.side.log_mass_at_zero, self.side.log_mass_at_zero, 0.0

    @property
    def log_mass_above_zero(self) -> float:
        """log(1 - h_0), a bound on its hockey stick at alpha = 1."""
        return self.side.log_mass_above_zero


class AnyRound(Protocol):
    """What a round says about itself, whatever it is made of. Immutable and hashable.

    `Round` is a pair of mixtures, `SubstitutionEnvelope` is known by a bound on its hockey stick alone; allocations.py
    has rounds in which one allocation decides many steps, losses.py rounds whose losses are known.
    """

    @property
    def mirrored(self) -> AnyRound: ...

    @property
    def is_trivial(self) -> bool: ...

    @property
    def has_noise(self) -> bool: ...

    @property
    def largest_shift(self) -> float:
        """It is dominated by N(largest_shift, 1) against N(0, 1)."""
        ...

    @property
    def at_zero(self) -> tuple[float, float, float]:
        """(log P(0), log Q(0), largest loss at outcome 0) where it has no noise."""
        ...

    @property
    def log_mass_above_zero(self) -> float:
        """log of a bound on its hockey stick at alpha = 1."""
        ...

    def __hash__(self) -> int: ...


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


def lower_composition(composition: Composition) -> Composition | None:
    """The composition for lower sides, if it is another one: every round replaced by its `lower` one."""
    lower = [(round_.lower if isinstance(round_, Round) else None, times) for round_, times in composition]
    if all(round_ is None for round_, _ in lower):
        return None
    return compose((own or part[0], times) for (own, times), part in zip(lower, composition, strict=True))
