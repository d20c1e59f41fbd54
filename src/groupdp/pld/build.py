"""Both measures of one round on every point of a lattice, untilted; mean and variance of its loss under P.

A panel's masses under P and Q, which the quadrature certifies, give its mean loss up to half of its squared width; what
lies outside of the support is bounded by Cauchy and Schwarz (L-17). A public coin's moments are the weighted sums of
its branches'.
"""

from __future__ import annotations

import math

import numpy as np

from groupdp.engines.lattice.cells import grid_edges
from groupdp.engines.lattice.loss import BranchLoss, integrate_panels
from groupdp.engines.lattice.measures import TiltedMass
from groupdp.engines.lattice.parts import RoundPart, cells_of
from groupdp.engines.lattice.planning import rounded_step
from groupdp.engines.lattice.support import LossNodes
from groupdp.errors import LimitExceeded
from groupdp.floats import ELEMENTARY, UNIT, FloatArray
from groupdp.pairs import Round
from groupdp.pld.measures import Measure

#: Certified (lower, upper) of the loss's mean under P, and of its variance.
LossMoments = tuple[tuple[float, float], tuple[float, float]]


def loss_moments(part: RoundPart, *, step: float) -> LossMoments:
    """Mean and variance of the loss, on cells of one step."""
    law = part.law
    with np.errstate(under="ignore"):
        weights = np.exp(law.log_weights - float(np.max(law.log_weights)))
    centre = float(weights @ law.loss) / float(weights.sum())  # roughly the mean: deviations are taken from it
    first = np.zeros(2)  # lower and upper of E[L - centre]
    second = np.zeros(2)
    for piece in part.pieces:
        cells = cells_of(piece.table, np.zeros(len(piece.table.nodes), dtype=np.int64), step)
        for interval, own in enumerate(cells):
            for edges in grid_edges(piece.loss, piece.table, interval, own, step=step):
                _add_block(piece.loss, edges, centre, first, second)
    outside_first, outside_second = _outside(part, centre)
    scale = abs(centre) + float(np.max(np.abs(law.loss)))
    room_first = outside_first + 1e-14 * scale
    room_second = outside_second + 1e-14 * scale**2
    mean = (centre + first[0] - room_first, centre + first[1] + room_first)
    largest = max(abs(first[0] - room_first), abs(first[1] + room_first))
    return mean, (max(float(second[0]) - room_second - largest**2, 0.0), float(second[1]) + room_second)


def _add_block(loss: BranchLoss, edges: LossNodes, centre: float, first: FloatArray, second: FloatArray) -> None:
    """Add one block of panels to the bounds of the first and second moments about the centre."""
    low = edges.loss[:-1] - edges.loss_error[:-1]
    width = np.maximum(edges.loss[1:] + edges.loss_error[1:] - low, 0.0)
    count = len(low)
    panels = integrate_panels(loss, edges.nodes, np.zeros(count), np.zeros(count))
    mass = panels.masses.sum(axis=1)
    rise = np.einsum("ij,ij->i", panels.masses, -np.expm1(low[:, None] - panels.loss))
    mass_doubt = 1.01 * panels.mass_error * mass
    rise_doubt = panels.mass_error + panels.ratio_error + panels.loss_error + 4.0 * ELEMENTARY
    # More doubt than this says no more than 0 <= l - low <= width, which holds anyway.
    rise_doubt = np.minimum(1.01 * rise_doubt * mass + mass_doubt, (width + 1.0) * mass)
    masses = (np.maximum(mass - mass_doubt, 0.0), mass + mass_doubt)
    most = np.minimum(rise + 0.5 * width**2 * masses[1] + rise_doubt, width * masses[1])
    rises = (np.clip(rise - rise_doubt, 0.0, most), most)
    offset = low - centre
    first += _interval_sum(offset, masses) + _interval_sum(np.ones(count), rises)
    squares = (np.zeros(count), width**2 * masses[1])
    second += _interval_sum(offset**2, masses) + _interval_sum(2.0 * offset, rises)
    second += _interval_sum(np.ones(count), squares)


def _interval_sum(factor: FloatArray, bounds: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Bounds of sum factor x value, for values within `bounds`."""
    low = np.where(factor >= 0.0, factor * bounds[0], factor * bounds[1])
    high = np.where(factor >= 0.0, factor * bounds[1], factor * bounds[0])
    room = (len(factor) + 4.0) * UNIT * float(np.sum(np.abs(low) + np.abs(high)))
    return np.array([float(np.sum(low)) - room, float(np.sum(high)) + room])


def _outside(part: RoundPart, centre: float) -> tuple[float, float]:
    """Bounds of E|L - centre| and E(L - centre)^2 outside of the support.

    In a branch |L(u) - centre| <= a + b |u - u_0| with b the sum of the largest shifts of both sides; its 4th moment
    is at most 8 a^4 + 8 b^4 E(u - u_0)^4. Branches left out altogether are bounded the same way, from u_0 = 0.
    """
    totals = [0.0, 0.0]
    pieces = [
        (
            piece.loss,
            float(piece.table.nodes[k]),
            float(piece.table.values.loss[k]),
            float(piece.table.values.loss_error[k]),
        )
        for piece in part.pieces
        for k in [int(np.argmin(np.abs(piece.table.values.loss - centre)))]
    ]
    masses = [math.exp(piece.support.log_dead_mass) for piece in part.pieces]
    for loss in part.lost:
        at_zero = loss.evaluate(np.zeros(1))
        pieces.append((loss, 0.0, float(at_zero.loss[0]), float(at_zero.loss_error[0])))
        masses.append(1.01 * math.exp(loss.log_weight))
    for (loss, node, value, error), mass in zip(pieces, masses, strict=True):
        a = abs(value - centre) + error
        distances = loss.right.shifts - node
        with np.errstate(under="ignore"):
            spread = 8.0 * (float(np.exp(loss.right.log_probabilities) @ distances**4) + 3.0)
        steepest = 1.01 * (loss.right.largest + loss.left.largest)
        fourth = 1.01 * math.exp(loss.log_weight) * (8.0 * a**4 + 8.0 * steepest**4 * spread)
        second = math.sqrt(fourth * mass)
        totals[0] += 1.01 * math.sqrt(second * mass)
        totals[1] += 1.01 * second
    return totals[0], totals[1]


def measures_of(round_: Round, *, step: float, tail_mass: float, longest: int) -> tuple[Measure, Measure, LossMoments]:
    """(dominated, dominating, moments) of one round; about `tail_mass` is cut off on either side."""
    step = rounded_step(step)
    log_cut = math.log(tail_mass)
    part = RoundPart(round_, 1, log_cut=log_cut)
    points = float(np.max(part.law.loss) - np.min(part.law.loss)) / step + 8.0
    if points > longest:
        raise LimitExceeded(
            f"the distribution would take {points:.3g} lattice points, more than the limit of {longest}: a larger "
            f"grid_step is needed."
        )
    length = 1 << math.ceil(math.log2(points + 8.0))
    lower, upper = (part.whole_measure(step, length, up=up) for up in (False, True))
    return _unfolded(lower, up=False), _unfolded(upper, up=True), loss_moments(part, step=step)


def _unfolded(mass: TiltedMass, *, up: bool) -> Measure:
    """The measure with its masses in order, and at their own scale again."""
    room = 1.0 + 16.0 * UNIT if up else 1.0 - 16.0 * UNIT
    count = mass.highest - mass.lowest + 1
    places = (mass.lowest + np.arange(count)) % len(mass.array)
    masses = mass.array[places] * (math.exp(mass.tilt.log_scale) * room)
    infinite = min(math.exp(mass.log_infinite_mass) * (1.0 + 1e-9), 1.0) if up else 0.0
    masses.setflags(write=False)
    return Measure(mass.step, mass.lowest, masses, infinite)
