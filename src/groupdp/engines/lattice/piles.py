"""Where to put the lattice: on the loss at which mass piles up.

Without the group the loss comes close to log p_0 (remove) or -log p_0 (add) and stays there: a good part of
P may lie within far less than a step of it. The two measures may use different lattices. Above, a lattice
point on the pile itself leaves nothing to split. Below, the point is put where the cell that holds the pile
has its log P/Q, so that nothing is lost in booking it. The choice affects how narrow the bracket is, never
whether it is valid.
"""

from __future__ import annotations

import math

import numpy as np

from groupdp.engines.lattice.cells import merging_shift
from groupdp.engines.lattice.loss import RoundLoss
from groupdp.engines.lattice.loss_inverse import one_step
from groupdp.engines.lattice.merge_cells import merged_ratio
from groupdp.engines.lattice.quadrature import integrate_panels, subdivided
from groupdp.engines.lattice.rounding import UNIT
from groupdp.engines.lattice.support import LossTable

_ITERATIONS = 3


def upper_offset(round_loss: RoundLoss, table: LossTable, *, step: float) -> float:
    """The loss at which mass piles up; 0 if there is none."""
    return round_loss.sign * round_loss.log_absence if math.isfinite(round_loss.log_absence) else 0.0


def lower_offset(round_loss: RoundLoss, table: LossTable, *, step: float) -> float:
    """log P/Q of the cell of about one step that holds the pile, a few roundings below."""
    if not math.isfinite(round_loss.log_absence):
        return 0.0
    removing = round_loss.direction == "remove"
    interval = 0 if removing else len(table.breaks) - 1
    begin, end = table.breaks[interval]
    loss, nodes = table.values.loss[begin:end], table.nodes[begin:end]
    offset = upper_offset(round_loss, table, step=step)
    for _ in range(_ITERATIONS):
        boundary = np.array([offset + 0.5 * step if removing else offset - 0.5 * step])
        boundary -= merging_shift(round_loss, table, interval, boundary, np.full(1, step))
        ends = nodes[[0, -1]]
        if loss[0] < boundary[0] < loss[-1]:
            ends[1 if removing else 0] = one_step(round_loss, table, interval, boundary)[0]
        if not ends[0] < ends[1]:
            break
        edges, _ = subdivided(round_loss, table, ends)
        count = len(edges) - 1
        panels = integrate_panels(round_loss, edges, np.zeros(count), np.zeros(count))
        starts = np.zeros(1, dtype=np.int64)
        total, ratio, *errors = (float(x[0]) for x in merged_ratio(panels, np.full(count, offset), starts))
        if not (total > 0.0 and ratio > -0.5):
            break
        offset -= math.log1p(ratio) + min(1.2 * sum(errors) + (10.0 * count + 100.0) * UNIT, 0.01 * step)
    return offset
