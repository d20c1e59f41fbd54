"""Quadrature of P and Q over narrow panels of u, and the smallest measure on the lattice that dominates a branch.

The n-point Gauss-Legendre rule over a panel of width D, for mixtures of unit normals at distance at most X all over it,
is off by at most C_n D^(2n) E[(X^2 + Z^2)^n] e^(D X) of the integral, C_n = (n!)^4 / ((2n+1) (2n)!^3) (L-3).

"Connect the dots" (Doroshenko et al. 2022): the mass of a cell [j h, (j+1) h] of losses is split between the cell's
ends so that its P-mass and its Q-mass are kept. Masses are rounded up; composition keeps domination for any finite
measures, so they need not sum to 1 (L-5, L-7).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from groupdp.engines.lattice.cells import LatticeCells, grid_edges
from groupdp.engines.lattice.loss import DROPPED, BranchLoss
from groupdp.engines.lattice.measures import TiltedMass
from groupdp.engines.lattice.support import LossNodes, LossTable, Support
from groupdp.floats import ELEMENTARY, TINY, UNIT, FloatArray

#: A rule is good enough at this relative error.
_GOOD_ENOUGH = 4.0 * UNIT
#: Nodes and weights on [-1, 1], from their closed forms: off by at most 4 roundings.
_FAR, _NEAR = (math.sqrt((3.0 + sign * 2.0 * math.sqrt(1.2)) / 7.0) for sign in (1.0, -1.0))
_LIGHT, _HEAVY = ((18.0 + sign * math.sqrt(30.0)) / 36.0 for sign in (-1.0, 1.0))
_RULES = {
    2: (np.array([-1.0, 1.0]) / math.sqrt(3.0), np.array([1.0, 1.0])),
    3: (np.array([-1.0, 0.0, 1.0]) * math.sqrt(0.6), np.array([5.0, 8.0, 5.0]) / 9.0),
    4: (np.array([-_FAR, -_NEAR, _NEAR, _FAR]), np.array([_LIGHT, _HEAVY, _HEAVY, _LIGHT])),
}


FOUR_POINTS = _RULES[4]


@dataclass(frozen=True, slots=True)
class Panels:
    """Masses under P at the nodes of every panel (rows), times e^exponent of the panel, and certified errors."""

    masses: FloatArray
    loss: FloatArray
    loss_error: FloatArray
    """Per panel: largest absolute error of its losses."""
    mass_error: FloatArray
    """Per panel: relative error of the nodes' masses, common to P and Q, together with P's quadrature error."""
    ratio_error: FloatArray
    """Per panel: relative error of Q's quadrature."""


def rule_error(points: int, width: FloatArray, distance: FloatArray) -> FloatArray:
    """The relative error above; inf where it is beyond any use."""
    constant = math.factorial(points) ** 4 / ((2 * points + 1) * math.factorial(2 * points) ** 3)
    x2 = distance * distance
    moments = [1.0, 1.0, 3.0, 15.0, 105.0]  # E[Z^(2k)]
    with np.errstate(over="ignore", under="ignore"):
        expectation = sum(math.comb(points, k) * moments[k] * x2 ** (points - k) for k in range(points + 1))
        return np.asarray(
            1.001 * constant * width ** (2 * points) * expectation * np.exp(np.minimum(width * distance, 700.0))
        )


def integrate_panels(loss: BranchLoss, edges: FloatArray, exponents: FloatArray, exponent_error: FloatArray) -> Panels:
    """Quadrature over the panels between consecutive `edges`; `exponents` (one per panel) are added to log P."""
    left, right = edges[:-1], edges[1:]
    width = right - left
    extent = np.maximum(np.abs(left), np.abs(right))
    widest = float(width.max())
    points = _choose_rule(loss, extent, width)
    abscissas, weights = _RULES[points]
    half = 0.5 * width
    nodes = (0.5 * (left + right))[:, None] + half[:, None] * abscissas[None, :]
    values = loss.evaluate(nodes.ravel(), margin=1.01 * widest)
    shape = nodes.shape
    log_density = values.log_density.reshape(shape)
    with np.errstate(under="ignore", over="ignore"):  # callers discard what overflowed
        masses = np.exp(log_density + exponents[:, None]) * (half[:, None] * weights[None, :])
    displaced = 3.0 * UNIT * (extent + width)  # a node is off its exact place by at most this
    slope = values.slope.reshape(shape)
    drift = values.right_slope.reshape(shape) - nodes  # d log P / du
    rounding = (
        values.density_error.reshape(shape)
        + np.abs(drift) * displaced[:, None]
        + 2.0 * UNIT * (np.abs(log_density) + np.abs(exponents)[:, None])
    )
    of_p, of_q = (
        rule_error(points, width, np.max(reach.reshape(shape), axis=1)) + DROPPED * len(side.shifts)
        for reach, side in ((values.right_reach, loss.right), (values.left_reach, loss.left))
    )
    return Panels(
        masses=masses,
        loss=values.loss.reshape(shape),
        loss_error=np.max(values.loss_error.reshape(shape) + slope * displaced[:, None], axis=1),
        mass_error=1.001 * (np.max(rounding, axis=1) + exponent_error + of_p + ELEMENTARY + 16.0 * UNIT),
        ratio_error=1.001 * of_q + 4.0 * UNIT,
    )


def _choose_rule(loss: BranchLoss, extent: FloatArray, width: FloatArray) -> int:
    """The cheapest rule that is exact to rounding for normal densities about as far as Q's; 4 points otherwise."""
    distance = extent + loss.left.largest
    for points in (2, 3):
        if float(np.max(rule_error(points, width, np.maximum(distance, 14.0)))) <= _GOOD_ENOUGH:
            return points
    return 4


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

    `cells` are those to use, for each interval of the support; `advance` gets the number of cells done.
    """
    for interval, own_cells in enumerate(cells):
        for edges in grid_edges(branch_loss, table, interval, own_cells, step=mass.step):
            _add_dots(mass, branch_loss, edges)
            advance(len(edges.nodes))
    _add_outside(mass, support, table)


def _add_dots(mass: TiltedMass, branch_loss: BranchLoss, edges: LossNodes) -> None:
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
    # Where a mass overflowed, all of this is not a number, and the composition has no finite bound.
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        total = panels.masses.sum(axis=1)
        moved = np.einsum("ij,ij->i", panels.masses, fraction)
        total_up = total * (1.0 + panels.mass_error + 8.0 * UNIT)
        room = 1.01 * uncertain * total / -np.expm1(-width)
        moved_up = np.minimum(moved * (1.0 + panels.mass_error) + room, total_up)
        kept_up = (total_up - moved_up) + 4.0 * UNIT * total_up
        # Masses are tilted as at the far end; TINY covers underflow.
        kept_up = kept_up * np.exp(-fall) * (1.0 + ELEMENTARY + UNIT * (4.0 * fall + 4.0)) + TINY
        moved_up += TINY
    mass.inflation = max(mass.inflation, 4.0 * float(panels.mass_error.max()) + 1e-12)
    mass.book(np.concatenate((near, far)), np.concatenate((kept_up, moved_up)), up=True)


def _add_outside(mass: TiltedMass, support: Support, table: LossTable) -> None:
    """Mass outside of the intervals: that on the left goes up to the first lattice point, the rest to +infinity."""
    mass.add_infinite(support.log_dead_mass)
    index = math.ceil((float(table.values.loss[0]) + float(table.values.loss_error[0])) / mass.step) + 1
    exponent = support.log_left_mass + mass.tilt.rate * (index * mass.step) - mass.tilt.log_scale
    exponent += 1e-9 + 1e-12 * (abs(support.log_left_mass) + abs(exponent) + abs(mass.tilt.log_scale))
    if exponent > _LARGEST_EXPONENT:
        mass.add_infinite(support.log_left_mass)
    else:
        mass.inflation += 1.01 * math.exp(min(support.log_left_mass, 0.0))
        mass.book(np.array([index]), np.array([math.exp(exponent) + TINY]), up=True)
