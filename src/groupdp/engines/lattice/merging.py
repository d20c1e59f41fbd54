"""One branch from below: a measure on the lattice that it dominates, second order in the step (L-6).

Merging all outcomes of a cell of losses into an atom with loss log P(cell)/Q(cell) is post-processing; booking the atom
at a smaller loss keeps the order. The edges are placed such that log P(cell)/Q(cell) is a lattice point up to O(h^4).

While neither side shifts, the loss is about log(a_0 / b_0), the unshifted loss, and much of P may lie within far less
than a step of it. There the edges are computed one after the other towards the unshifted loss, and the offset of the
lattice is such that the cell around it is a lattice point too: with z the loss minus the unshifted loss, a cell [a, b]
of u has

    log P/Q = rest + Z(a, b),      Z(a, b) = -log(int_a^b p e^-z du / int_a^b p du)

and the lattice goes through rest + s h for a position s such that the cell around it, between the last edges of both
sides, has Z = s h. Edges and lattice decide how narrow the bracket is, never whether it is valid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from groupdp.engines.lattice.cells import (
    NO_EDGES,
    GivenEdges,
    LatticeCells,
    MergingEdges,
    growth,
    merging_edges,
    merging_shift,
    subdivided,
)
from groupdp.engines.lattice.loss import BranchLoss, Panels, integrate_panels
from groupdp.engines.lattice.measures import TiltedMass
from groupdp.engines.lattice.support import LossTable
from groupdp.floats import ELEMENTARY, TINY, UNIT, FloatArray, IntArray

#: Cells on each side of the unshifted loss whose edges are solved for.
_CELLS = 24
#: Positions that are tried at a time; each of three rounds narrows them down.
_TRIED = 24
#: Positions lie within this of where mass gathers.
_WAY = 2.5
#: Newton's method ends after so many steps, or once no edge moves by more than this part of a node's distance.
_NEWTON_STEPS = 8
_SETTLED = 1e-9
#: Where only one side shifts, the cell around the unshifted loss lies where the density rises by a few nats a step.
_STEEP = 4.0
#: Cells across which sqrt(P Q) changes by more than this factor (in logarithm) are too coarse for the smooth rule ...
_COARSE = 0.15
#: ... which matters if they hold more of the importance than this, times the step, times 1 + tilt.
_MATTERS = 0.02
_NODES = 4001


@dataclass(frozen=True, slots=True)
class Layout:
    """An offset of the lattice, and edges that go with it."""

    offset: float
    edges: GivenEdges = NO_EDGES


def lower_layout(loss: BranchLoss, table: LossTable, log_mass: FloatArray, *, rate: float, step: float) -> Layout:
    """The lattice of the lower measure, and its cells next to the unshifted loss (0 if there is none)."""
    rest = loss.log_ratio_unshifted
    if rest is None:
        return Layout(0.0)
    plain = Layout(rest)
    rise = growth(table)
    with np.errstate(under="ignore"):
        coarse = float(np.sum(np.exp(log_mass)[np.abs(rise) * step > _COARSE]))
    if not coarse > _MATTERS * (1.0 + rate) * step:
        return plain
    nearest = int(np.argmin(np.abs(table.values.loss - rest)))
    interval = next(i for i, (begin, end) in enumerate(table.breaks) if begin <= nearest < end)
    low, high = _positions(loss, table, interval, rest, step)
    picture = _Picture(loss, table, interval, rest, (max(abs(low), abs(high)) + _CELLS + 1.0) * step)
    for _ in range(3):
        positions = np.linspace(low, high, _TRIED)
        left, right = picture.edges(table, interval, positions, step)
        excess = picture.excess(left, right, positions * step)
        if not np.all(np.isfinite(excess)):
            return plain
        # The excess falls with the position: the last one at which it is not negative books nothing too high.
        k = int(np.count_nonzero(np.logical_and.accumulate(excess >= 0.0)))
        low, high = float(positions[max(k - 1, 0)]), float(positions[min(k, _TRIED - 1)])
    chosen = max(k - 1, 0)
    offset = rest + float(positions[chosen]) * step - 16.0 * picture.error
    nodes = np.concatenate((left[::-1, chosen], right[:, chosen]))
    first = 1 - len(left)
    indices = np.arange(first, first + len(nodes), dtype=np.int64)
    if not np.all(np.diff(nodes) > 0.0):
        return plain
    return Layout(offset, GivenEdges(interval, indices, nodes))


def _positions(loss: BranchLoss, table: LossTable, interval: int, rest: float, step: float) -> tuple[float, float]:
    """Positions of the lattice to try, in steps from the unshifted loss."""
    if not (loss.right.is_zero or loss.left.is_zero):
        return -0.5 * _WAY, 0.5 * _WAY
    begin, end = table.breaks[interval]
    distance = np.abs(table.values.loss[begin:end] - rest)
    sign = -1.0 if loss.right.is_zero else 1.0
    flat = np.flatnonzero(sign * growth(table)[begin:end] * step <= _STEEP)
    nearest = 0.0
    if len(flat):
        nearest = max(float(distance[flat[0] if sign > 0.0 else flat[-1]]) / step - 1.0, 0.0)
    return (nearest, nearest + _WAY) if sign > 0.0 else (-nearest - _WAY, -nearest)


class _Picture:
    """Cumulative integrals of p and of p (e^-z - 1) next to the unshifted loss, for planning."""

    def __init__(self, loss: BranchLoss, table: LossTable, interval: int, rest: float, farthest: float) -> None:
        self.rest = rest
        begin, end = table.breaks[interval]
        nodes = table.nodes[begin:end]
        distance = np.abs(table.values.loss[begin:end] - rest)
        near = np.flatnonzero(distance <= max(farthest, float(np.min(distance))))
        ends = nodes[max(int(near[0]) - 1, 0)], nodes[min(int(near[-1]) + 1, len(nodes) - 1)]
        self.u: FloatArray = np.linspace(*ends, _NODES)
        self.open_left, self.open_right = not loss.left.is_zero, not loss.right.is_zero
        values = loss.shifted(rest).evaluate(self.u)
        self.z = np.maximum.accumulate(values.loss)
        self.error = float(np.min(values.loss_error))
        with np.errstate(under="ignore", over="ignore"):
            self.density = np.exp(values.log_density - float(np.max(values.log_density)))
            self.leaving = self.density * np.expm1(-np.maximum(self.z, -700.0))
            self.integrals = _Cumulative(np.stack((self.density, self.leaving)), self.u)

    def edges(
        self, table: LossTable, interval: int, positions: FloatArray, step: float
    ) -> tuple[FloatArray, FloatArray]:
        """Edges to the left and to the right of the unshifted loss (rows, outwards), for every position (columns).

        The outermost edge is that of the smooth rule; every other one makes the cell outside of it end up on
        the lattice. A side that does not open has none.
        """
        return tuple(self._side(table, interval, positions, step, sign) for sign in (-1, 1))  # type: ignore[return-value]

    def _side(self, table: LossTable, interval: int, positions: FloatArray, step: float, sign: int) -> FloatArray:
        if not (self.open_right if sign > 0 else self.open_left):
            return np.empty((0, len(positions)))
        reach = sign * float(self.z[-1] if sign > 0 else self.z[0]) / step - float(np.max(sign * positions)) - 1.0
        count = int(min(max(reach, 1.0), float(_CELLS)))
        outermost = (positions + sign * (count - 0.5)) * step
        shift = merging_shift(table, interval, self.rest + outermost, np.full(len(positions), step))
        edges = np.empty((count, len(positions)))
        edges[-1] = np.interp(outermost - shift, self.z, self.u)
        for j in range(count - 1, 0, -1):
            wanted, near = (positions + sign * j) * step, (positions + sign * (j - 0.5)) * step
            edges[j - 1] = self._inner_edge(edges[j], wanted, near, sign)
        return edges

    def _inner_edge(self, outer: FloatArray, wanted: FloatArray, near: FloatArray, sign: int) -> FloatArray:
        """The edge whose cell up to `outer` has Z = wanted: Newton's method from z = near; the end if there is none."""
        end = np.full(len(outer), self.u[0] if sign > 0 else self.u[-1])
        at = np.interp(near, self.z, self.u)
        at = np.where(sign * (outer - at) > 0.0, at, 0.5 * (end + outer))
        low, high = (end, outer) if sign > 0 else (outer, end)
        outside = self.integrals(outer)
        for _ in range(_NEWTON_STEPS):
            before = at
            mass, excess = outside - self.integrals(at)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                off = -np.log1p(excess / mass) - wanted
                density = np.interp(at, self.u, self.density)
                leaving = np.interp(at, self.u, self.leaving)
                slope = (leaving - density * excess / mass) / (mass + excess)
                step = at - off / slope
            low, high = np.where(off < 0.0, at, low), np.where(off < 0.0, high, at)
            inside = np.isfinite(step) & (step > low) & (step < high)
            at = np.where(inside, step, 0.5 * (low + high))
            if (np.abs(at - before) <= _SETTLED * self.integrals.step).all():
                break
        a, b = (end, outer) if sign > 0 else (outer, end)
        none = sign * (self._mean(a, b) - wanted) >= 0.0
        return np.where(none, end, at)

    def excess(self, left: FloatArray, right: FloatArray, wanted: FloatArray) -> FloatArray:
        """Z - wanted of the cell between both sides; where there is no room for it, the sign that moves it there."""
        a = left[0] if len(left) else np.full(len(wanted), self.u[0])
        b = right[0] if len(right) else np.full(len(wanted), self.u[-1])
        excess = self._mean(a, b) - wanted
        if len(left) and len(right):
            return np.where(b > a, excess, np.nan)
        return np.where(b > a, excess, 1.0 if len(right) else -1.0)

    def _mean(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Z(a, b); where the cell is empty, z at its inner end."""
        mass, excess = self.integrals(b) - self.integrals(a)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = -np.log1p(excess / mass)
        return np.where((mass > 0.0) & np.isfinite(mean), mean, np.interp(b, self.u, self.z))


class _Cumulative:
    """Integrals of smooth functions, one a row, from the first node on: corrected trapezoid rule, cubic in between."""

    def __init__(self, values: FloatArray, nodes: FloatArray) -> None:
        self.start, self.step = float(nodes[0]), float(nodes[1] - nodes[0])
        slopes = np.gradient(values, self.step, edge_order=2, axis=1)
        pieces = 0.5 * self.step * (values[:, 1:] + values[:, :-1])
        pieces += self.step**2 / 12.0 * (slopes[:, :-1] - slopes[:, 1:])
        sums = np.cumsum(pieces, axis=1)
        sums = np.concatenate((np.zeros((len(values), 1)), sums), axis=1)
        self.last = values.shape[1] - 1
        #: For every piece, on every row: the integral up to it, the one over it, and the values at its ends.
        self.pieces = np.stack((sums[:, :-1], sums[:, 1:] - sums[:, :-1], values[:, :-1], values[:, 1:]))

    def __call__(self, u: FloatArray) -> FloatArray:
        place = np.minimum(np.maximum((u - self.start) / self.step, 0.0), float(self.last))
        k = np.minimum(place.astype(np.int64), self.last - 1)
        s = place - k
        rest = 1.0 - s
        before, over, left, right = self.pieces[:, :, k]
        rise = s * s * (3.0 - 2.0 * s)
        bend = s * rest * self.step * (rest * left - s * right)
        result: FloatArray = before + rise * over + bend
        return result


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
    given: GivenEdges = NO_EDGES,
) -> None:
    """Add to `mass` a measure on the lattice that the branch dominates.

    `cells` are those to use, for each interval of the support; `advance` gets the number of cells done. Edges `given`
    (next to the unshifted loss) are used as they are.
    """
    for interval, own_cells in enumerate(cells):
        known = given if interval == given.interval else NO_EDGES
        for edges in merging_edges(branch_loss, table, interval, own_cells, known, step=mass.step):
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
