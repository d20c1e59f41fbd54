"""Rounds that are known by a bound on their hockey stick alone: profiles, which no pair of mixtures has.

A profile stands beside `pairs.Round` in a composition; docs/samplings.md has the proof that it bounds the sampling it
is made for. Only the lattice engine composes profiles: from above by connecting the dots, from below by merging, so
that its bounds enclose the composition of the profile.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from groupdp.pairs import Law, Side


class SubstitutionEnvelope:
    """Fixed batches of which up to k members are replaced or zeroed: h_i with the shift mu_i, h = Hypergeom(B, n, k).

    For alpha >= 1, with phi_i(g) = Phi(Phi^-1(g) + mu_i), the hockey stick of a round is at most

        R(alpha) = sup_{0 <= g0 <= 1} { (1 - alpha) h_0 g0 + sum_{i >= 1} h_i max_{g <= g0} [phi_i(g) - alpha g] }

    and R(alpha) = 1 - alpha + alpha R(1 / alpha) below 1: the profile is its own mirror image. At k = 1 it is attained.
    Immutable and hashable.
    """

    __slots__ = ("side",)

    side: Side

    def __init__(self, side: Side) -> None:
        object.__setattr__(self, "side", side)

    @classmethod
    def from_law(cls, law: Law, unit: float) -> SubstitutionEnvelope:
        """From the law of how many of the replaced examples a batch holds, and the shift of each: 2 / noise multiplier.

        An infinite `unit` is a round without noise.
        """
        possible = np.flatnonzero(np.isfinite(law[1]))
        shifts = np.array([count * unit if count else 0.0 for count in possible.tolist()])
        return cls(Side.merged(shifts, (law[0][possible], law[1][possible])))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a SubstitutionEnvelope cannot be changed: make another one to change {name}.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a SubstitutionEnvelope cannot be changed: {name} cannot be deleted.")

    def __reduce__(self) -> tuple[Any, ...]:
        return SubstitutionEnvelope, (self.side,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SubstitutionEnvelope) and self.side == other.side

    def __hash__(self) -> int:
        return hash((SubstitutionEnvelope, self.side))

    def __repr__(self) -> str:
        return f"SubstitutionEnvelope({self.side!r})"

    @property
    def mirrored(self) -> SubstitutionEnvelope:
        """The profile with P and Q exchanged: itself."""
        return self

    @property
    def is_trivial(self) -> bool:
        """Whether nothing can be told from this round."""
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
    def engines(self) -> tuple[str, ...]:
        """Only lattices compose profiles."""
        return ("lattice",)

    @property
    def is_gaussian(self) -> bool:
        """A profile is no pair of Gaussians."""
        return False

    @property
    def at_zero(self) -> tuple[float, float, float]:
        """(log h_0, log h_0, 0): without noise the outcome is 0 where nobody of the group is in the batch."""
        return self.side.log_mass_at_zero, self.side.log_mass_at_zero, 0.0

    @property
    def log_mass_above_zero(self) -> float:
        """log(1 - h_0), a bound on its hockey stick at alpha = 1."""
        return self.side.log_mass_above_zero
