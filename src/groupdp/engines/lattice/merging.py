"""One branch from below: a measure on the lattice that it dominates, second order in the step (L-6).

Merging all outcomes of a cell of losses into an atom with loss log P(cell)/Q(cell) is post-processing; booking the atom
at a smaller loss keeps the order. The edges are placed such that log P(cell)/Q(cell) is a lattice point up to O(h^4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from groupdp.engines.lattice.cells import LatticeCells, MergingEdges, merging_edges, subdivided
from groupdp.engines.lattice.loss import BranchLoss, Panels, integrate_panels
from groupdp.engines.lattice.measures import TiltedMass
from groupdp.engines.lattice.support import LossTable
from groupdp.floats import ELEMENTARY, TINY, UNIT, FloatArray, IntArray

#: Times a block's edges may be moved.
_MOST_MOVES = 4
#: A cell that misses its lattice point by less than this fraction of its width is worth moving its edges.
_NEAR_MISS = 0.1
#: Cells with less than this part of a block's largest mass are not worth it.
_NEGLIGIBLE = 1e-9


def add_dominated(
    mass: TiltedMass,
    branch_loss: BranchLoss,
    table: LossTable,
    cells: Sequence[LatticeCells],
    advance: Callable[[int], None],
) -> None:
    """Add to `mass` a measure on the lattice that the branch dominates.

    `cells` are those to use, for each interval of the support; `advance` gets the number of cells done.
    """
    for interval, own_cells in enumerate(cells):
        for edges in merging_edges(branch_loss, table, interval, own_cells, step=mass.step):
            _add_merged(mass, branch_loss, table, edges)
            advance(len(edges.nodes))


def _add_merged(mass: TiltedMass, branch_loss: BranchLoss, table: LossTable, edges: MergingEdges) -> None:
    """Book every cell's atom at the largest lattice point that is certainly not above its loss."""
    step = mass.step
    nodes = edges.nodes
    atoms, above = _merged(mass, branch_loss, table, edges, nodes)
    for _ in range(_MOST_MOVES):
        moved = _moved_up(branch_loss, nodes, atoms, above, edges.widths)
        if moved is None:
            break
        nodes = moved
        atoms, above = _merged(mass, branch_loss, table, edges, nodes)
    shift = np.floor(above / step)
    rise = mass.tilt.rate * shift * step
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        atoms = atoms * np.exp(rise) * (1.0 - ELEMENTARY - UNIT * (4.0 * np.abs(rise) + 4.0))
    good = np.isfinite(shift) & np.isfinite(atoms) & (atoms > TINY)
    mass.book((edges.cells + shift)[good], atoms[good], up=False)


def _merged(
    mass: TiltedMass, branch_loss: BranchLoss, table: LossTable, edges: MergingEdges, nodes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """For every cell between consecutive `nodes`: a lower bound on its tilted mass, and on log P/Q - j h."""
    panel_edges, pieces = subdivided(table, nodes)
    index = np.repeat(edges.cells, pieces).astype(np.float64)
    starts = np.cumsum(pieces) - pieces
    panels = integrate_panels(branch_loss, panel_edges, *mass.exponents(index))
    target = index * mass.step
    total, ratio, mass_error, ratio_error = merged_ratio(panels, target, starts)
    with np.errstate(invalid="ignore", divide="ignore"):
        room = (1.0 + ratio) * 1.01 * (mass_error + ratio_error + (8.0 * pieces + 64.0) * UNIT)
        # The sums that `ratio` is made of have roundings of their own, also where it is next to -1.
        room += (4.0 * ELEMENTARY + 2.0 * pieces * UNIT) * np.abs(ratio)
        above = -np.log1p(ratio + room) * (1.0 + np.copysign(4.0 * ELEMENTARY, ratio + room))
    # No loss of a cell is below one evaluated to its left: that decides where Q is too small for its quadrature.
    left = (panels.loss[:, -1] - panels.loss_error)[starts[1:] - 1]
    above = np.fmax(above, np.concatenate(([edges.lowest_loss], left)) - target[starts])
    return total * (1.0 - mass_error - (8.0 * pieces + 16.0) * UNIT), above


def merged_ratio(
    panels: Panels, target: FloatArray, starts: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """For cells that begin at the panels `starts`: (mass P, e^target Q / P - 1, error of P, error of Q), both relative.

    `target` is per panel, and the same all over a cell. Errors are averaged over the cell's mass.
    """
    of_p = panels.masses.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        excess = np.einsum("ij,ij->i", panels.masses, np.expm1(target[:, None] - panels.loss))
        of_q = of_p + excess
        total = np.add.reduceat(of_p, starts)
        mass_error = np.add.reduceat(of_p * panels.mass_error, starts) / total
        # The exponents target - loss are off by a rounding each, and by that of the target.
        away = np.max(np.abs(target[:, None] - panels.loss), axis=1)
        q_error = panels.mass_error + panels.ratio_error + panels.loss_error + UNIT * (2.0 * away + np.abs(target))
        ratio_error = np.add.reduceat(of_q * q_error, starts) / np.add.reduceat(of_q, starts)
        return total, np.add.reduceat(excess, starts) / total, 1.01 * mass_error, 1.01 * ratio_error


def _moved_up(
    branch_loss: BranchLoss, nodes: FloatArray, atoms: FloatArray, above: FloatArray, widths: FloatArray
) -> FloatArray | None:
    """Inner edges moved up where a cell narrowly misses its lattice point; None if there is nothing to do."""
    with np.errstate(invalid="ignore"):
        missed = (above < 0.0) & (above > -_NEAR_MISS * widths) & (atoms > _NEGLIGIBLE * float(np.max(atoms)))
    missing = np.where(missed, -above, 0.0)
    rise = 1.5 * np.maximum(missing[:-1], missing[1:])
    at = np.flatnonzero(rise > 0.0)
    if len(at) == 0:
        return None
    moved = nodes.copy()
    with np.errstate(divide="ignore", over="ignore"):
        step = rise[at] / branch_loss.evaluate(nodes[at + 1]).slope
    # At most a third of the way to the next edge: edges stay in order.
    moved[at + 1] += np.minimum(step, (nodes[at + 2] - nodes[at + 1]) / 3.0)
    return moved if bool(np.all(moved[1:] > moved[:-1])) else None
