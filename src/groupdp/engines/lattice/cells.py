"""Cells of losses: which lattice points carry mass, and the cells' edges in the coordinate u.

Both measures may use any subset of the lattice and any increasing edges: that decides how narrow the bracket is, never
whether it is valid. A cell of s steps adds (s h)^2 times its importance to the width, so with density w the cheapest
choice for a given width has s proportional to w^(-1/3). Edges come block by block, so that memory stays bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from groupdp.engines.lattice.loss import BranchLoss
from groupdp.engines.lattice.support import LossNodes, LossTable, RoughLaw, invert, one_step
from groupdp.errors import LimitExceeded
from groupdp.floats import FloatArray, IntArray, bisected

#: Panels that one block of cells may be cut into.
MOST_PANELS = 1_000_000
#: Panels are at most this wide, times 1 / max(2, distance to the farthest component that matters).
PANEL_WIDTH = 0.15
#: Widening the cells may add this much to the bracket's width, relatively.
_EXTRA = 0.25
#: Where it matters, cells stay narrower than this, divided by 1 + tilt: the expansion in the step holds only there.
_WIDEST = 0.25


@dataclass(frozen=True, slots=True)
class LatticeCells:
    """Lattice points and the widths, in steps, of the cells around them: odd, so that they adjoin."""

    indices: IntArray
    widths: IntArray


def width_exponents(law: RoughLaw, log_mass: FloatArray, *, rate: float, step: float, share: float) -> IntArray:
    """log3 of the width of cells at every node of the law, whose importance is e^log_mass.

    `share` is above 1 for a part with fewer rounds than others: its cells may be wider.
    """
    with np.errstate(under="ignore"):
        log_density = log_mass - np.log(np.maximum(law.spacing, 1e-300))
        mass = np.exp(log_mass)
    low, high = float(log_density.min()) - 1.0, float(log_density.max()) + 1.0

    def is_cheap(level: float) -> bool:
        width = np.exp(np.clip((level - log_density) / 3.0, 0.0, 200.0))
        return float(mass @ (width * width - 1.0)) <= _EXTRA * share

    low, _ = bisected(is_cheap, low, high, 40)
    deficit = np.maximum(low - log_density, 0.0)
    widest = np.log((_WIDEST + deficit / 6.0) / ((1.0 + rate) * step))
    exponents = np.maximum(np.minimum(deficit / 3.0, widest), 0.0) / math.log(3.0)
    rounded: IntArray = np.floor(exponents).astype(np.int64)
    # The width at a node reaches as far as its neighbours.
    rounded[1:-1] = np.minimum(rounded[1:-1], np.minimum(rounded[:-2], rounded[2:]))
    return rounded


def lattice_cells(loss: FloatArray, exponents: IntArray, step: float) -> LatticeCells:
    """Cells that cover the losses of one interval, with the widths given at its nodes."""
    exponents = _smallest_within_a_step(loss, exponents, step)
    changes = np.flatnonzero(np.diff(exponents)) + 1
    starts = np.concatenate(([0], changes)).tolist()
    ends = np.concatenate((changes, [len(loss) - 1])).tolist()
    # Twice the position, in steps, up to which cells are laid: always odd, as are the widths.
    position = 2 * math.floor(loss[0] / step) - 1
    indices: list[IntArray] = []
    widths: list[IntArray] = []
    for start, end in zip(starts, ends, strict=True):
        width = 3 ** int(exponents[start])
        missing = (2.0 * loss[end] / step - position) / (2.0 * width)
        count = math.ceil(missing) + 1 if end == len(loss) - 1 else math.floor(missing)
        if count > 0:
            indices.append((position + width) // 2 + width * np.arange(count, dtype=np.int64))
            widths.append(np.full(count, width, dtype=np.int64))
            position += 2 * width * count
    return LatticeCells(np.concatenate(indices), np.concatenate(widths))


def _smallest_within_a_step(loss: FloatArray, exponents: IntArray, step: float) -> IntArray:
    """One exponent for all nodes whose losses share a step: where mass piles up, the smallest is the right one."""
    places = np.floor((loss - loss[0]) / step)
    starts = np.flatnonzero(np.concatenate(([True], np.diff(places) != 0.0)))
    counts = np.diff(np.append(starts, len(loss)))
    return np.repeat(np.minimum.reduceat(exponents, starts), counts)


def cell_count(law: RoughLaw, exponents: IntArray, step: float) -> float:
    """About how many cells there are with the widths given at the law's nodes."""
    rise = np.maximum(np.diff(law.loss), 0.0)
    inside = np.ones(len(rise), dtype=bool)
    inside[[end - 1 for _, end in law.breaks[:-1]]] = False
    return float(np.sum(rise[inside] / step / 3.0 ** exponents[:-1][inside])) + 2.0 * len(law.breaks)


#: Cells of one block.
BLOCK = 1 << 14
#: A merged cell is aimed this fraction of its second-order shift above its lattice point.
_AIM = 1e-3


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
) -> Iterator[LossNodes]:
    """Edges at which the loss is j h for the lattice points j, a few roundings below rather than above."""
    begin, end = table.breaks[interval]
    t, loss, error = table.nodes[begin:end], table.values.loss[begin:end], table.values.loss_error[begin:end]
    nodes, losses, errors = t[:1], loss[:1], error[:1]
    for index, is_last in _blocks(cells.indices):
        targets = index * step
        targets = targets - 4.0 * np.interp(targets, loss, error)
        inside = (targets > loss[0]) & (targets < loss[-1])
        inverse = invert(branch_loss, table, interval, targets[inside])
        nodes = np.concatenate((nodes, inverse.nodes))
        losses = np.concatenate((losses, inverse.loss))
        errors = np.concatenate((errors, inverse.loss_error))
        keep = nodes < t[-1]
        keep[1:] &= nodes[1:] > np.maximum.accumulate(nodes)[:-1]
        nodes, losses, errors = nodes[keep], losses[keep], errors[keep]
        if is_last:
            nodes = np.append(nodes, t[-1])
            losses, errors = np.append(losses, loss[-1]), np.append(errors, error[-1])
        if len(nodes) > 1:
            yield _subdivided_grid(branch_loss, table, LossNodes(nodes, losses, errors))
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
    """Edges near the cells' ends, such that log P/Q of the cell around j h is j h, or above between different widths.

    Edges `given` are used as they are.
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
        edges = one_step(branch_loss, table, interval, targets[inside])
        nodes = np.concatenate((nodes, _replaced(edges, cells, right[inside], given)))
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


def _replaced(edges: FloatArray, cells: LatticeCells, right: IntArray, given: GivenEdges) -> FloatArray:
    """Edges found, with those given in their place between cells of one step."""
    indices, nodes = given.right_indices, given.nodes
    if len(indices) == 0 or len(edges) == 0:
        return edges
    k = np.clip(np.searchsorted(indices, cells.indices[right]), 0, len(indices) - 1)
    narrow = (cells.widths[right] == 1) & (cells.widths[right - 1] == 1)
    return np.where((indices[k] == cells.indices[right]) & narrow, nodes[k], edges)


def _blocks(indices: IntArray) -> Iterator[tuple[IntArray, bool]]:
    """The indices in blocks, and whether a block is the last; no indices give one empty block."""
    start = 0
    while True:
        stop = start + BLOCK
        yield indices[start:stop], stop >= len(indices)
        if stop >= len(indices):
            return
        start = stop


def _subdivided_grid(branch_loss: BranchLoss, table: LossTable, edges: LossNodes) -> LossNodes:
    fine, pieces = subdivided(table, edges.nodes)
    if len(fine) == len(edges.nodes):
        return edges
    original = np.zeros(len(fine), dtype=bool)
    original[np.concatenate(([0], np.cumsum(pieces)))] = True
    loss, error = np.empty(len(fine)), np.empty(len(fine))
    loss[original], error[original] = edges.loss, edges.loss_error
    between = branch_loss.evaluate(fine[~original])
    loss[~original], error[~original] = between.loss, between.loss_error
    return LossNodes(fine, loss, error)


def merging_shift(table: LossTable, interval: int, boundary: FloatArray, width: FloatArray) -> FloatArray:
    """How much to move boundaries between cells of losses down, so that log P/Q is in the cells' middle up to O(w^4).

    Where sqrt(P Q) grows like e^{r l}, the cell [a, a + w] has log P/Q = a + w/2 + (w/2)(coth x - 1/x), x = r w / 2.
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


def subdivided(table: LossTable, nodes: FloatArray) -> tuple[FloatArray, IntArray]:
    """Edges of panels so narrow that P's quadrature is exact to rounding, and how many each cell was cut into."""
    left, right = nodes[:-1], nodes[1:]
    k = np.clip(np.searchsorted(table.nodes, left), 1, len(table.nodes) - 1)
    distance = np.maximum(table.values.right_reach[k], table.values.right_reach[k - 1])
    allowed = PANEL_WIDTH / np.maximum(distance, 2.0)
    pieces = np.maximum(np.ceil((right - left) / allowed), 1.0).astype(np.int64)
    if int(pieces.max()) == 1:
        return nodes, pieces
    if float(np.sum(pieces, dtype=np.float64)) > MOST_PANELS:
        raise LimitExceeded(
            f"the lattice engine would need {np.sum(pieces, dtype=np.float64):.3g} panels in one block, more than its "
            f"limit of {MOST_PANELS}: epsilon lies too far outside of the losses."
        )
    part = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    fine = np.repeat(left, pieces) + part * np.repeat((right - left) / pieces, pieces)
    return np.append(np.minimum(fine, np.repeat(right, pieces)), nodes[-1]), pieces
