"""One branch's privacy loss Psi = log A - log B as an increasing function of the noise's coordinate u.

P has the density A(u) phi(u), Q has B(u) phi(u). Psi' is the mean of x under A's posterior plus that of y under B's, so
Psi increases; it is neither convex nor concave in general. B(u) is the likelihood ratio of its side at v = -u.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from groupdp.engines.lattice.likelihood import FloatArray, Likelihood
from groupdp.engines.lattice.rounding import ELEMENTARY, UNIT
from groupdp.pairs import Branch

#: Elements (components x nodes) of one chunk: what fits the cache.
_CHUNK_ELEMENTS = 1 << 17
#: Widest chunk, in standard deviations of the noise.
_CHUNK_WIDTH = 2.0


@dataclass(frozen=True, slots=True)
class LossValues:
    """What is known at every node u; `*_error` and reaches are certified, the rest is not."""

    loss: FloatArray
    loss_error: FloatArray
    slope: FloatArray
    """d loss / du."""
    right_slope: FloatArray
    """d log A / du, a part of it."""
    curvature: FloatArray
    """d^2 loss / du^2."""
    log_density: FloatArray
    """log of the branch's weight times P's density at u."""
    density_error: FloatArray
    right_reach: FloatArray
    """Largest distance of u from the centre of a component of P that matters near u."""
    left_reach: FloatArray
    """The same for Q."""


class BranchLoss:
    """The privacy loss of one branch minus an `offset`; P and Q are weighted by e^log_weight."""

    def __init__(self, branch: Branch, *, log_weight: float = 0.0, offset: float = 0.0) -> None:
        self.branch = branch
        self.log_weight = log_weight
        self.offset = offset
        self.right = Likelihood(branch.right)
        self.left = Likelihood(branch.left)

    def shifted(self, offset: float) -> BranchLoss:
        """The same loss with another offset."""
        return BranchLoss(self.branch, log_weight=self.log_weight, offset=offset)

    @property
    def largest_shift(self) -> float:
        """The largest shift of either side."""
        return max(self.right.largest, self.left.largest)

    @property
    def largest_loss(self) -> float:
        """An upper bound on the loss, never attained unless it is 0; inf where there is none (L-1)."""
        return largest_loss(self.branch)

    @property
    def log_ratio_at_rest(self) -> float | None:
        """log(a_0 / b_0), the loss around which mass gathers while neither side shifts; None if a side always does."""
        right, left = self.branch.right.log_mass_at_zero, self.branch.left.log_mass_at_zero
        return right - left if math.isfinite(right) and math.isfinite(left) else None

    def evaluate(self, nodes: FloatArray, *, margin: float = 0.0) -> LossValues:
        """Loss and density at increasing `nodes` (L-2).

        With a `margin`, what is said about far components holds within that distance of each node too.
        """
        rows = np.empty((9, len(nodes)))
        for start, end in self._chunks(nodes):
            u = nodes[start:end]
            a, b = self.right.evaluate(u, margin), self.left.evaluate(-u, margin)
            out = rows[:, start:end]
            loss = a.log_ratio - b.log_ratio - self.offset
            out[0] = loss
            # Two subtractions, and as much again for the grid positions that the loss is compared with.
            out[1] = a.ratio_error + b.ratio_error
            out[1] += UNIT * (
                2.0 * (np.abs(a.log_ratio) + np.abs(b.log_ratio)) + 4.0 * (np.abs(loss) + abs(self.offset))
            )
            out[2] = a.mean + b.mean
            out[3] = a.mean
            out[4] = a.variance - b.variance
            out[5] = a.log_density + self.log_weight
            out[6] = a.density_error + UNIT * (9.0 * abs(self.log_weight) + 2.0 * np.abs(out[5]))
            out[7] = a.reach
            out[8] = b.reach
        return LossValues(*rows)

    def _chunks(self, nodes: FloatArray) -> Iterator[tuple[int, int]]:
        components = max(len(self.right.shifts), len(self.left.shifts))
        if components == 1:
            yield 0, len(nodes)
            return
        largest = max(64, _CHUNK_ELEMENTS // min(components, 256))
        start = 0
        while start < len(nodes):
            end = int(np.searchsorted(nodes, nodes[start] + _CHUNK_WIDTH, side="right"))
            end = max(min(end, start + largest), start + 1)
            yield start, end
            start = end


def largest_loss(branch: Branch) -> float:
    """An upper bound on a branch's loss (L-1): -log b_0 if P never shifts, else inf; 0 if Q never does either."""
    if not branch.right.is_zero:
        return math.inf
    log_mass = branch.left.log_mass_at_zero
    return math.inf if log_mass == -math.inf else -log_mass * (1.0 + ELEMENTARY)
