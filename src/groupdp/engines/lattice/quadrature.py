"""Gauss-Legendre quadrature of P and Q over narrow panels of u, with a certified relative error.

The n-point rule over a panel of width D is off by C_n D^(2n+1) f^(2n)(somewhere), C_n = (n!)^4 / ((2n+1)
(2n)!^3). For a unit normal density f at distance at most X all over the panel, f^(2n) = He_2n f, |He_2n(x)|
<= E (x^2 + Z^2)^n for Z ~ N(0, 1), and f varies by at most e^(D X). So the error relative to the integral
is at most

    C_n D^(2n) E[(X^2 + Z^2)^n] e^(D X)

and the same holds for a mixture whose components are all within X (L-3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from groupdp.engines.lattice.likelihood import DROPPED, FloatArray
from groupdp.engines.lattice.loss import BranchLoss
from groupdp.engines.lattice.rounding import ELEMENTARY, UNIT
from groupdp.engines.lattice.support import LossTable
from groupdp.engines.lattice.tilted_mass import IntArray
from groupdp.errors import LimitExceeded

#: Panels that one block of cells may be cut into.
MOST_PANELS = 1_000_000
#: Panels are at most this wide, times 1 / max(2, distance to the farthest component that matters).
PANEL_WIDTH = 0.15
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


def _choose_rule(loss: BranchLoss, extent: FloatArray, width: FloatArray) -> int:
    """The cheapest rule that is exact to rounding for normal densities about as far as Q's; 4 points otherwise."""
    distance = extent + loss.left.largest
    for points in (2, 3):
        if float(np.max(rule_error(points, width, np.maximum(distance, 14.0)))) <= _GOOD_ENOUGH:
            return points
    return 4
