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
from groupdp.engines.lattice.quadrature import integrate_panels, subdivided
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
        if not loss[0] < boundary[0] < loss[-1]:
            break
        cut = one_step(round_loss, table, interval, boundary)
        ends = np.concatenate((nodes[:1], cut)) if removing else np.concatenate((cut, nodes[-1:]))
        if not ends[0] < ends[1]:
            break
        edges, _ = subdivided(round_loss, table, ends)
        count = len(edges) - 1
        panels = integrate_panels(round_loss, edges, np.zeros(count), np.zeros(count))
        total = float(panels.masses.sum())
        if total <= 0.0:
            break
        ratio = float(np.sum(panels.masses * np.expm1(offset - panels.loss))) / total
        error = float(np.max(2.0 * panels.mass_error + panels.ratio_error + panels.loss_error))
        offset -= math.log1p(max(ratio, -0.5)) + 4.0 * min(error, 0.01 * step)
    return offset
