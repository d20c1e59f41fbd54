"""Where one round's mass lives: intervals of the coordinate u outside of which P has a stated, tiny mass.

A unit normal is farther than r from its centre with probability at most e^(-r^2 / 2). So the intervals of
radius sqrt(2 (log p_i - log_cut)) around the components' centres leave out at most e^log_cut of each
component (L-4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from groupdp.engines.lattice.likelihood import FloatArray
from groupdp.engines.lattice.loss import BranchLoss, LossValues
from groupdp.engines.lattice.rounding import UNIT
from groupdp.errors import LimitExceeded

#: Most separate intervals: components that many standard deviations apart, each with its own mass.
LARGEST_INTERVALS = 5_000
#: Nodes of the tables of losses, over all branches and intervals, and the least for one interval.
_TABLE_NODES = 6_000
_LEAST_NODES = 17


@dataclass(frozen=True, slots=True)
class Support:
    """Disjoint increasing intervals [start, end] of u, and bounds on what lies outside of them."""

    intervals: tuple[tuple[float, float], ...]
    log_dead_mass: float
    """log of an upper bound on P's mass outside, apart from the left of the first interval."""
    log_left_mass: float
    """log of an upper bound on P's mass to the left of the first interval."""


def support_of(loss: BranchLoss, *, log_cut: float, log_left_cut: float, components: int = 0) -> Support | None:
    """The intervals that leave out about e^log_cut, and about e^log_left_cut on the far left (L-4).

    Both are shared among `components`, those of the branch or of all branches of its round. None if the whole branch
    weighs less than its share.
    """
    centres = loss.right.shifts
    log_weights = loss.right.log_probabilities + loss.log_weight
    components = max(components, len(centres))
    log_cut -= math.log(components)
    log_left_cut -= math.log(components)
    live = log_weights > log_cut
    if not np.any(live):
        return None
    radii = np.sqrt(2.0 * (log_weights[live] - log_cut)) * (1.0 + 1e-9)
    heavy = log_weights > log_left_cut
    left = -math.inf
    if np.any(heavy):
        left = float(np.min(centres[heavy] - np.sqrt(2.0 * (log_weights[heavy] - log_left_cut))))
    left = max(left, float(np.min(centres[live] - radii)))
    starts = np.maximum(centres[live] - radii, left)
    ends = centres[live] + radii
    starts, ends = starts[ends > left], ends[ends > left]
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate(([True], starts[1:] > ends[:-1]))
    last = np.concatenate((first[1:], [True]))
    if np.count_nonzero(first) > LARGEST_INTERVALS:
        raise LimitExceeded(
            f"The mixture has {np.count_nonzero(first)} separate components; the lattice engine takes at most "
            f"{LARGEST_INTERVALS}."
        )
    # A component's mass on the left: at most half of e^(-distance^2 / 2) on the far side of its centre, all before.
    distance = np.maximum(centres - left, 0.0)
    log_left = log_weights - 0.5 * distance * distance
    return Support(
        intervals=tuple(zip(starts[first].tolist(), ends[last].tolist(), strict=True)),
        log_dead_mass=log_cut + math.log(len(centres)) + 1e-6,
        log_left_mass=log_sum_exp(log_left) + 1e-6,
    )


def log_sum_exp(values: FloatArray) -> float:
    """log sum exp(values), within 1e-9 of itself (callers leave room)."""
    top = float(values.max())
    if top == -math.inf:
        return -math.inf
    with np.errstate(under="ignore"):
        return top + math.log(float(np.sum(np.exp(values - top))))


@dataclass(frozen=True, slots=True)
class LossTable:
    """Losses at nodes spread over the support: brackets for the inverse, and a rough quadrature."""

    nodes: FloatArray
    values: LossValues
    weights: FloatArray
    """Trapezoid weights within each interval; not certified, good for planning only."""
    breaks: tuple[tuple[int, int], ...]
    """For each interval, its range of nodes."""

    def shifted(self, offset: float) -> LossTable:
        """The table of losses minus `offset`, made from one without an offset."""
        values = self.values
        error = values.loss_error + 8.0 * UNIT * (np.abs(values.loss) + abs(offset))
        return replace(self, values=replace(values, loss=values.loss - offset, loss_error=error))


def loss_table(loss: BranchLoss, support: Support, share: float = 1.0) -> LossTable:
    """A table of about 6 000 nodes times the branch's `share` of them, at least 17 for each interval."""
    lengths = [end - start for start, end in support.intervals]
    total = math.fsum(lengths)
    nodes: list[FloatArray] = []
    weights: list[FloatArray] = []
    breaks: list[tuple[int, int]] = []
    used = 0
    for (start, end), length in zip(support.intervals, lengths, strict=True):
        count = _LEAST_NODES + int(share * _TABLE_NODES * length / total)
        own = np.linspace(start, end, count)
        own_weights = np.full(count, length / (count - 1))
        own_weights[[0, -1]] *= 0.5
        nodes.append(own)
        weights.append(own_weights)
        breaks.append((used, used + count))
        used += count
    all_nodes = np.concatenate(nodes)
    return LossTable(all_nodes, loss.evaluate(all_nodes), np.concatenate(weights), tuple(breaks))
