"""Where to put the lattice, and the first cells on it: at the loss where mass piles up.

Without the group the loss comes close to log p_0 (remove) or -log p_0 (add) and stays there: a good part of
P may lie within far less than a step of it. The two measures may use different lattices. Above, a lattice
point on the pile itself leaves nothing to split. Below, cells next to the pile are too coarse for the
smooth rule of `cells.merging_shift`, so their edges are solved for, one by one towards the pile, the
direction in which errors shrink; and the lattice is put such that the last cell, with the pile in it, is on
it too. All of this affects how narrow the bracket is, never whether it is valid.

x >= 0 is the distance from the pile, and y the coordinate t, reversed if need be, such that x increases in
y. The loss is pile + sign x, and a cell [a, b] of y has

    log P/Q = pile + sign X(a, b),      X(a, b) = -sign log(int p e^(-sign x) dy / int p dy)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from groupdp.engines.lattice.cells import growth, merging_shift
from groupdp.engines.lattice.loss import FloatArray, RoundLoss
from groupdp.engines.lattice.support import LossTable
from groupdp.engines.lattice.tilted_mass import IntArray

#: Cells next to the pile whose edges are solved for.
_CELLS = 24
#: Positions of the last cell, in steps from the pile, that are tried at a time; each of three rounds narrows them down.
_TRIED = 24
_WAY = 2.5
_NEWTON_STEPS = 8
#: The last cell lies where the density rises by a few nats a step.
_STEEP = 4.0
#: Cells across which sqrt(P Q) changes by more than this factor (in logarithm) are too coarse for the smooth rule ...
_COARSE = 0.15
#: ... which matters if they hold more of the importance than this, times the step, times 1 + tilt.
_MATTERS = 0.02
_NODES = 4001


@dataclass(frozen=True, slots=True)
class Layout:
    """An offset of the lattice; and edges, in t, each with the lattice index of the cell to its right."""

    offset: float
    right_indices: IntArray
    edges: FloatArray


def upper_offset(round_loss: RoundLoss) -> float:
    """The loss at which mass piles up; 0 if there is none."""
    return round_loss.sign * round_loss.log_absence if math.isfinite(round_loss.log_absence) else 0.0


def lower_layout(round_loss: RoundLoss, table: LossTable, log_mass: FloatArray, *, rate: float, step: float) -> Layout:
    """The lattice of the lower measure, and its cells next to the pile."""
    pile = upper_offset(round_loss)
    plain = Layout(pile, np.zeros(0, dtype=np.int64), np.zeros(0))
    if not math.isfinite(round_loss.log_absence):
        return plain
    interval = 0 if round_loss.direction == "remove" else len(table.breaks) - 1
    if not _coarse_mass(round_loss, table, log_mass, step) > _MATTERS * (1.0 + rate) * step:
        return plain
    nearest = _first_position(round_loss, table, interval, pile, step)
    picture = _Picture(round_loss, table, interval, pile, (nearest + _CELLS + _WAY + 1.0) * step)
    low, high = nearest, nearest + _WAY
    for _ in range(3):
        positions = np.linspace(low, high, _TRIED)
        edges = picture.edges(table, interval, positions, step)
        # The last cell's X decreases relative to the position it ought to have; no room for it means the same.
        last = picture.mean(np.full(_TRIED, picture.y[0]), edges[0])
        beyond = (last > positions * step) | (edges[0] <= picture.y[0])
        k = int(np.argmin(beyond)) if not np.all(beyond) else _TRIED - 1
        low, high = float(positions[max(k - 1, 0)]), float(positions[k])
    # Booked losses may not exceed log P/Q: the position is rounded towards the pile (remove) or away from it (add).
    chosen = max(k - 1, 0) if round_loss.direction == "remove" else k
    offset = pile + round_loss.sign * float(positions[chosen]) * step - 16.0 * picture.error
    own = edges[:, chosen]
    count = np.arange(1, len(own) + 1, dtype=np.int64)
    if round_loss.direction == "remove":
        return Layout(offset, count, own)
    return Layout(offset, 1 - count[::-1], -own[::-1])


def _first_position(round_loss: RoundLoss, table: LossTable, interval: int, pile: float, step: float) -> float:
    """Steps from the pile to where the density stops rising too steeply to matter: the last cell is about there."""
    begin, end = table.breaks[interval]
    distance = np.abs(table.values.loss[begin:end] - pile)
    steep = round_loss.sign * growth(round_loss, table)[begin:end] * step > _STEEP
    flat = np.flatnonzero(~steep)
    if len(flat) == 0:
        return 0.0
    return max(float(distance[flat[0] if round_loss.sign > 0.0 else flat[-1]]) / step - 1.0, 0.0)


def _coarse_mass(round_loss: RoundLoss, table: LossTable, log_mass: FloatArray, step: float) -> float:
    """The part of the mass that matters that lies in cells too coarse for the smooth rule."""
    with np.errstate(under="ignore"):
        mass = np.exp(log_mass)
    return float(np.sum(mass[np.abs(growth(round_loss, table)) * step > _COARSE]))


class _Picture:
    """Cumulative integrals of p and of p (e^(-sign x) - 1) next to the pile, for planning."""

    def __init__(self, round_loss: RoundLoss, table: LossTable, interval: int, pile: float, farthest: float) -> None:
        self.round_loss, self.sign, self.pile = round_loss, round_loss.sign, pile
        begin, end = table.breaks[interval]
        t = table.nodes[begin:end]
        distance = np.abs(table.values.loss[begin:end] - pile)
        near = np.flatnonzero(distance <= max(farthest, float(np.min(distance))))
        if self.sign > 0.0:
            t = np.linspace(t[0], t[min(int(near[-1]) + 1, len(t) - 1)], _NODES)
        else:
            t = np.linspace(t[max(int(near[0]) - 1, 0)], t[-1], _NODES)
        values = round_loss.shifted(pile).evaluate(t)
        order = slice(None) if self.sign > 0.0 else slice(None, None, -1)
        self.y = self.sign * t[order]
        self.x = np.maximum.accumulate(np.maximum(self.sign * values.loss[order], 0.0))
        self.error = float(values.loss_error[order][0])
        with np.errstate(under="ignore"):
            density = np.exp(values.log_density[order])
        self.of_p = _Cumulative(density, self.y)
        self.of_excess = _Cumulative(density * np.expm1(-self.sign * self.x), self.y)

    def edges(self, table: LossTable, interval: int, positions: FloatArray, step: float) -> FloatArray:
        """Edges e_1 < e_2 < ... (rows) in y for lattices through the pile + sign position x step (columns).

        The outermost edge is that of the smooth rule; every other one makes the cell before it end up on
        the lattice.
        """
        count = int(min(max(float(self.x[-1]) / step - float(positions[-1]) - 1.0, 1.0), float(_CELLS)))
        outermost = (positions + count - 0.5) * step
        loss = self.pile + self.sign * outermost
        shift = merging_shift(self.round_loss, table, interval, loss, np.full(len(positions), step))
        edges = np.empty((count, len(positions)))
        edges[-1] = np.interp(outermost - self.sign * shift, self.x, self.y)
        for j in range(count - 1, 0, -1):
            edges[j - 1] = self._left_edge(edges[j], (positions + j) * step, (positions + j - 0.5) * step)
        return edges

    def _left_edge(self, right: FloatArray, wanted: FloatArray, near: FloatArray) -> FloatArray:
        """The a with X(a, right) = wanted, by Newton's method from x = near; the first node if there is none."""
        first = np.full(len(right), self.y[0])
        a = np.minimum(np.interp(near, self.x, self.y), 0.5 * (first + right))
        low, high = first, right
        for _ in range(_NEWTON_STEPS):
            mass, excess = self.of_p(right) - self.of_p(a), self.of_excess(right) - self.of_excess(a)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                off = -self.sign * np.log1p(excess / mass) - wanted
                density = np.interp(a, self.y, self.of_p.values)
                leaving = np.interp(a, self.y, self.of_excess.values)
                slope = self.sign * (leaving - density * excess / mass) / (mass + excess)
                step = a - off / slope
            low, high = np.where(off < 0.0, a, low), np.where(off < 0.0, high, a)
            inside = np.isfinite(step) & (step > low) & (step < high)
            a = np.where(inside, step, 0.5 * (low + high))
        none = self.mean(first, right) >= wanted
        return np.where(none, first, a)

    def mean(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """X(a, b); where the cell is empty, x at its end."""
        mass = self.of_p(b) - self.of_p(a)
        excess = self.of_excess(b) - self.of_excess(a)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = -self.sign * np.log1p(excess / mass)
        return np.where((mass > 0.0) & np.isfinite(found), found, np.interp(b, self.y, self.x))


class _Cumulative:
    """The integral of a smooth function from the first node on: corrected trapezoid rule, cubic in between."""

    def __init__(self, values: FloatArray, nodes: FloatArray) -> None:
        self.values, self.start, self.step = values, float(nodes[0]), float(nodes[1] - nodes[0])
        slopes = np.gradient(values, self.step, edge_order=2)
        pieces = 0.5 * self.step * (values[1:] + values[:-1]) + self.step**2 / 12.0 * (slopes[:-1] - slopes[1:])
        self.sums = np.concatenate(([0.0], np.cumsum(pieces)))

    def __call__(self, y: FloatArray) -> FloatArray:
        place = np.clip((y - self.start) / self.step, 0.0, len(self.values) - 1.0)
        k = np.minimum(place.astype(np.int64), len(self.values) - 2)
        s = place - k
        rise = s * s * (3.0 - 2.0 * s)
        bend = s * (1.0 - s) * self.step * ((1.0 - s) * self.values[k] - s * self.values[k + 1])
        result: FloatArray = self.sums[k] + rise * (self.sums[k + 1] - self.sums[k]) + bend
        return result
