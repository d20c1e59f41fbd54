"""One branch from above: the smallest measure on the lattice that dominates it, up to rounding.

"Connect the dots" (Doroshenko et al. 2022): the mass of a cell [j h, (j+1) h] of losses is split between
the cell's ends so that its P-mass and its Q-mass are kept. The hockey-stick curve of the result joins the
branch's values at e^{j h} by straight lines, and the curve is convex. Masses are rounded up; composition
keeps domination for any finite measures, so they need not sum to 1 (L-5, L-7).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from groupdp.engines.lattice.cells import GridEdges, grid_edges
from groupdp.engines.lattice.grid_steps import LatticeCells
from groupdp.engines.lattice.loss import BranchLoss
from groupdp.engines.lattice.quadrature import integrate_panels
from groupdp.engines.lattice.rounding import ELEMENTARY, TINY, UNIT
from groupdp.engines.lattice.support import LossTable, Support
from groupdp.engines.lattice.tilted_mass import TiltedMass

#: Beyond this exponent the atom on the left goes to +infinity instead of overflowing.
_LARGEST_EXPONENT = 600.0


def add_dominating(
    mass: TiltedMass,
    branch_loss: BranchLoss,
    support: Support,
    table: LossTable,
    cells: Sequence[LatticeCells],
    advance: Callable[[int], None],
) -> None:
    """Add to `mass` a measure on the lattice that dominates the branch.

    `cells` are those to use, for each interval of the support; `advance` is told how many are done.
    """
    for interval, own_cells in enumerate(cells):
        for edges in grid_edges(branch_loss, table, interval, own_cells, step=mass.step):
            _add_dots(mass, branch_loss, edges)
            advance(len(edges.nodes))
    _add_outside(mass, support, table)


def _add_dots(mass: TiltedMass, branch_loss: BranchLoss, edges: GridEdges) -> None:
    """Split every panel's mass between the ends j h and J h of its cell.

    With P the panel's mass, q = e^{j h} x its mass under Q once losses below j h are raised to it, and w =
    (J - j) h: (P - q) / (1 - e^-w) goes to the far end and the rest to the near end, with P rounded up and
    q rounded down.
    """
    step = mass.step
    lowest = edges.loss[:-1] - edges.loss_error[:-1]
    highest = edges.loss[1:] + edges.loss_error[1:]
    # A panel that starts a few roundings below a lattice point is raised to it.
    near = np.floor((lowest + 12.0 * edges.loss_error[:-1]) / step)
    far = np.where(highest <= (near + 1.0) * step, near + 1.0, np.ceil(highest / step))
    far = np.where(highest <= far * step, far, far + 1.0)
    raised = np.maximum(near * step - lowest, 0.0)
    panels = integrate_panels(branch_loss, edges.nodes, *mass.exponents(far))
    width = (far - near) * step
    offset = np.maximum(panels.loss - (near * step)[:, None], 0.0)
    fraction = np.minimum(np.expm1(-offset) / np.expm1(-width)[:, None], 1.0)
    uncertain = 2.0 * panels.mass_error + panels.ratio_error + panels.loss_error + raised + 4.0 * ELEMENTARY
    fall = mass.tilt.rate * width
    # Where a mass overflowed all of this is not a number, and nothing is claimed about the composition.
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        total = panels.masses.sum(axis=1)
        moved = np.einsum("ij,ij->i", panels.masses, fraction)
        total_up = total * (1.0 + panels.mass_error + 8.0 * UNIT)
        room = 1.01 * uncertain * total / -np.expm1(-width)
        moved_up = np.minimum(moved * (1.0 + panels.mass_error) + room, total_up)
        kept_up = (total_up - moved_up) + 4.0 * UNIT * total_up
        # Masses are tilted as at the far end; TINY covers what underflowed.
        kept_up = kept_up * np.exp(-fall) * (1.0 + ELEMENTARY + UNIT * (4.0 * fall + 4.0)) + TINY
        moved_up += TINY
    mass.inflation = max(mass.inflation, 4.0 * float(panels.mass_error.max()) + 1e-12)
    mass.book(np.concatenate((near, far)), np.concatenate((kept_up, moved_up)), up=True)


def _add_outside(mass: TiltedMass, support: Support, table: LossTable) -> None:
    """What lies outside of the intervals: the left goes up to their first lattice point, the rest to +infinity."""
    mass.add_infinite(support.log_dead_mass)
    index = math.ceil((float(table.values.loss[0]) + float(table.values.loss_error[0])) / mass.step) + 1
    exponent = support.log_left_mass + mass.tilt.rate * (index * mass.step) - mass.tilt.log_scale
    exponent += 1e-9 + 1e-12 * (abs(support.log_left_mass) + abs(exponent) + abs(mass.tilt.log_scale))
    if exponent > _LARGEST_EXPONENT:
        mass.add_infinite(support.log_left_mass)
    else:
        mass.inflation += 1.01 * math.exp(min(support.log_left_mass, 0.0))
        mass.book(np.array([index]), np.array([math.exp(exponent) + TINY]), up=True)
