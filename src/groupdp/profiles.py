"""Rounds that are known by a bound on their hockey stick alone: profiles, which no pair of mixtures has.

A profile stands beside `pairs.Round` in a composition; docs/samplings.md has the proof that it bounds the sampling it
is made for. Only the lattice engine composes profiles: from above by connecting the dots, from below by merging, so
that its bounds enclose the composition of the profile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from groupdp.pairs import Law, Side


@dataclass(frozen=True, slots=True)
class SubstitutionEnvelope:
    """Fixed batches of which up to k members are replaced or zeroed: h_i with the shift mu_i, h = Hypergeom(B, n, k).

    For alpha >= 1, with phi_i(g) = Phi(Phi^-1(g) + mu_i), the hockey stick of a round is at most

        R(alpha) = sup_{0 <= g0 <= 1} { (1 - alpha) h_0 g0 + sum_{i >= 1} h_i max_{g <= g0} [phi_i(g) - alpha g] }

    and R(alpha) = 1 - alpha + alpha R(1 / alpha) below 1: the profile is its own mirror image. At k = 1 it is attained.
    """

    side: Side
    #: Only lattices compose profiles, and none is a pair of Gaussians.
    engines: ClassVar[tuple[str, ...]] = ("lattice",)
    is_gaussian: ClassVar[bool] = False

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
