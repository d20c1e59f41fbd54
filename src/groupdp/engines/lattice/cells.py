"""Edges of the cells of losses, in the coordinate u, block by block so that memory stays bounded.

Any increasing sequence of edges is valid on either side: the measures built from it use the certified
losses at and between the edges, never the targets. Good edges make the bracket narrow, bad ones only make
it wide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from groupdp.engines.lattice.grid_steps import LatticeCells
from groupdp.engines.lattice.likelihood import FloatArray
from groupdp.engines.lattice.loss import BranchLoss
from groupdp.engines.lattice.loss_inverse import invert, one_step
from groupdp.engines.lattice.quadrature import subdivided
from groupdp.engines.lattice.support import LossTable
from groupdp.engines.lattice.tilted_mass import IntArray

#: Cells of one block.
BLOCK = 1 << 14
#: A merged cell is aimed this fraction of its second-order shift above its lattice point.
_AIM = 1e-3


@dataclass(frozen=True, slots=True)
class GridEdges:
    """Edges of panels, with certified losses."""

    nodes: FloatArray
    loss: FloatArray
    loss_error: FloatArray


@dataclass(frozen=True, slots=True)
class GivenEdges:
    """Edges of cells known beforehand, in one interval, each with the lattice index of the cell to its right."""

    interval: int
    right_indices: IntArray
    nodes: FloatArray


NO_EDGES = GivenEdges(-1, np.zeros(0, dtype=np.int64), np.zeros(0))


@dataclass(frozen=True, slots=True)
class MergingEdges:
    """Edges of cells, with the lattice index that each cell is meant for."""

    nodes: FloatArray
    cells: IntArray
    widths: FloatArray
    """About the cells' widths, in loss."""
    lowest_loss: float
    """Certified: no loss to the right of the first edge is below this."""


def grid_edges(
    branch_loss: BranchLoss, table: LossTable, interval: int, cells: LatticeCells, *, step: float
) -> Iterator[GridEdges]:
    """Edges at which the loss is j h for the lattice points j, a few roundings below rather than above."""
    begin, end = table.breaks[interval]
    t, loss, error = table.nodes[begin:end], table.values.loss[begin:end], table.values.loss_error[begin:end]
    nodes, losses, errors = t[:1], loss[:1], error[:1]
    for index, is_last in _blocks(cells.indices):
        targets = index * step
        targets = targets - 4.0 * np.interp(targets, loss, error)
        inside = (targets > loss[0]) & (targets < loss[-1])
        found = invert(branch_loss, table, interval, targets[inside])
        nodes = np.concatenate((nodes, found.nodes))
        losses = np.concatenate((losses, found.loss))
        errors = np.concatenate((errors, found.loss_error))
        keep = nodes < t[-1]
        keep[1:] &= nodes[1:] > np.maximum.accumulate(nodes)[:-1]
        nodes, losses, errors = nodes[keep], losses[keep], errors[keep]
        if is_last:
            nodes = np.append(nodes, t[-1])
            losses, errors = np.append(losses, loss[-1]), np.append(errors, error[-1])
        if len(nodes) > 1:
            yield _subdivided_grid(branch_loss, table, GridEdges(nodes, losses, errors))
        nodes, losses, errors = nodes[-1:], losses[-1:], errors[-1:]


def merging_edges(
    branch_loss: BranchLoss,
    table: LossTable,
    interval: int,
    cells: LatticeCells,
    given: GivenEdges,
    *,
    step: float,
) -> Iterator[MergingEdges]:
    """Edges near the cells' ends, such that log P/Q of the cell around j h is j h.

    Between cells of different widths the smaller correction is taken, so that neither falls below its
    lattice point. Edges `given` are used as they are.
    """
    begin, end = table.breaks[interval]
    t, loss, error = table.nodes[begin:end], table.values.loss[begin:end], table.values.loss_error[begin:end]
    nodes, right_cell = t[:1], np.zeros(1, dtype=np.int64)
    for right, is_last in _blocks(np.arange(1, len(cells.indices), dtype=np.int64)):
        width: FloatArray = step * cells.widths[right].astype(np.float64)
        width_before: FloatArray = step * cells.widths[right - 1].astype(np.float64)
        boundary = step * cells.indices[right] - 0.5 * width
        shift = np.minimum(
            merging_shift(table, interval, boundary, width),
            merging_shift(table, interval, boundary, width_before),
        )
        targets = boundary - shift + _AIM * np.abs(shift) + 8.0 * np.interp(boundary, loss, error)
        inside = (targets > loss[0]) & (targets < loss[-1])
        if len(nodes) == 1 and np.any(targets <= loss[0]):  # the first edge has this cell to its right
            right_cell = right[targets <= loss[0]][-1:]
        found = one_step(branch_loss, table, interval, targets[inside])
        nodes = np.concatenate((nodes, _replaced(found, cells, right[inside], given)))
        right_cell = np.concatenate((right_cell, right[inside]))
        keep = nodes < t[-1]
        keep[1:] &= nodes[1:] > np.maximum.accumulate(nodes)[:-1]
        nodes, right_cell = nodes[keep], right_cell[keep]
        if is_last:
            nodes, right_cell = np.append(nodes, t[-1]), np.append(right_cell, right_cell[-1])
        if len(nodes) > 1:
            at_start = branch_loss.evaluate(nodes[:1])
            lowest = float(at_start.loss[0] - at_start.loss_error[0])
            own = right_cell[:-1]
            yield MergingEdges(nodes, cells.indices[own], step * cells.widths[own].astype(np.float64), lowest)
        nodes, right_cell = nodes[-1:], right_cell[-1:]


def _replaced(found: FloatArray, cells: LatticeCells, right: IntArray, given: GivenEdges) -> FloatArray:
    """Edges found, with those given in their place between cells of one step."""
    indices, nodes = given.right_indices, given.nodes
    if len(indices) == 0 or len(found) == 0:
        return found
    k = np.clip(np.searchsorted(indices, cells.indices[right]), 0, len(indices) - 1)
    narrow = (cells.widths[right] == 1) & (cells.widths[right - 1] == 1)
    return np.where((indices[k] == cells.indices[right]) & narrow, nodes[k], found)


def _blocks(indices: IntArray) -> Iterator[tuple[IntArray, bool]]:
    """The indices in blocks, and whether a block is the last; at least one block, be it empty."""
    start = 0
    while True:
        stop = start + BLOCK
        yield indices[start:stop], stop >= len(indices)
        if stop >= len(indices):
            return
        start = stop


def _subdivided_grid(branch_loss: BranchLoss, table: LossTable, edges: GridEdges) -> GridEdges:
    fine, pieces = subdivided(table, edges.nodes)
    if len(fine) == len(edges.nodes):
        return edges
    original = np.zeros(len(fine), dtype=bool)
    original[np.concatenate(([0], np.cumsum(pieces)))] = True
    loss, error = np.empty(len(fine)), np.empty(len(fine))
    loss[original], error[original] = edges.loss, edges.loss_error
    between = branch_loss.evaluate(fine[~original])
    loss[~original], error[~original] = between.loss, between.loss_error
    return GridEdges(fine, loss, error)


def merging_shift(table: LossTable, interval: int, boundary: FloatArray, width: FloatArray) -> FloatArray:
    """How much to move boundaries between cells of losses down, so that log P/Q is in the cells' middle.

    Where sqrt(P Q) grows like e^{r l}, the cell [a, a + w] has log P/Q = a + w/2 + (w/2)(coth x - 1/x) with
    x = r w / 2, up to higher order: the last term is the shift. Where the density is smooth on the scale of w,
    what is left is O(w^4).
    """
    begin, end = table.breaks[interval]
    rate = np.interp(boundary, table.values.loss[begin:end], growth(table)[begin:end])
    return 0.5 * width * langevin(0.5 * width * rate)


def growth(table: LossTable) -> FloatArray:
    """d log sqrt(P Q) / d loss, as densities of the loss, at the table's nodes.

    log sqrt(P Q) in u has the slope (Psi_A' - Psi_B') / 2 - u, where Psi' = Psi_A' + Psi_B'; as a density of the
    loss it is divided by Psi'.
    """
    values = table.values
    slope = np.maximum(values.slope, 1e-150)
    with np.errstate(over="ignore"):
        rate = (values.right_slope - 0.5 * values.slope - table.nodes - values.curvature / slope) / slope
    return np.asarray(np.clip(rate, -1e150, 1e150))


def langevin(x: FloatArray) -> FloatArray:
    """coth x - 1/x."""
    big = np.abs(x) > 0.03
    large, small = np.where(big, x, 1.0), np.where(big, 0.0, x)
    return np.where(big, 1.0 / np.tanh(large) - 1.0 / large, small / 3.0 - small**3 / 45.0)
