"""The parts of a composition: how each round's loss is put on a lattice from above and from below.

A part knows the rough law of its loss, for planning, and makes both measures on a given grid. Rounds of pairs do it
branch by branch (L-8); other_parts.py and allocation.py have the others. From above the dots are connected (L-5), with
masses rounded up (L-7); from below cells are merged (merging.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from groupdp.engines.lattice.cells import (
    NO_EDGES,
    GivenEdges,
    LatticeCells,
    cell_count,
    grid_edges,
    lattice_cells,
    width_exponents,
)
from groupdp.engines.lattice.loss import BranchLoss, integrate_panels
from groupdp.engines.lattice.measures import Tilt, TiltedMass
from groupdp.engines.lattice.merging import Layout, add_dominated, lower_layout
from groupdp.engines.lattice.support import LossNodes, LossTable, RoughLaw, Support, loss_table, support_of
from groupdp.errors import LimitExceeded
from groupdp.floats import ELEMENTARY, TINY, UNIT, FloatArray, IntArray
from groupdp.pairs import Round

#: Largest shift the engine's arithmetic is good for.
LARGEST_SHIFT = 1e8


@dataclass(frozen=True, slots=True)
class TransformGrid:
    """The step of a lattice, a tilt, and the window of N lattice points that the transform sees."""

    rate: float
    step: float
    length: int
    left: float
    theta_left: float
    theta_right: float


class Part(Protocol):
    """One mechanism of the composition, run `rounds` times."""

    rounds: int
    law: RoughLaw
    log_dead_mass: float
    """log of about the mass moved to +infinity above, and left out below."""
    farthest: float
    """About the largest |loss - offset| that is put on a lattice."""

    def work(self, log_mass: FloatArray, *, rate: float, step: float, share: float) -> tuple[float, float]:
        """About how many cells a measure has, and its cost in evaluations of one component at one node."""
        ...

    def measure(
        self, grid: TransformGrid, log_mass: FloatArray, *, share: float, up: bool, advance: Callable[[int], None]
    ) -> TiltedMass:
        """The dominating (up) or the dominated measure; losses whose importance e^log_mass is large are resolved best.

        `advance` gets the number of cells done.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Piece:
    """One branch of a round: its loss, where its mass is, its place in the round's rough law."""

    loss: BranchLoss
    support: Support
    table: LossTable
    begin: int
    end: int


class RoundPart:
    """A round of pairs: every branch of its coin whose weight is not negligible."""

    def __init__(self, round_: Round, rounds: int, *, log_cut: float) -> None:
        self.rounds = rounds
        require_moderate_shift(round_.largest)
        losses = [
            BranchLoss(branch, log_weight=weight)
            for branch, weight in zip(round_.branches, round_.log_weights, strict=True)
        ]
        self.total_components = sum(len(loss.right.shifts) for loss in losses)
        supports = [(loss, support_of(loss, log_cut=log_cut, components=self.total_components)) for loss in losses]
        live = [(loss, support) for loss, support in supports if support is not None]
        #: Branches left out altogether, at their full weight.
        self.lost = [loss for loss, support in supports if support is None]
        self.log_lost_mass = -math.inf
        if self.lost:
            self.log_lost_mass = float(np.logaddexp.reduce([loss.log_weight for loss in self.lost])) + 1e-9
        dead = [support.log_dead_mass for _, support in live]
        self.log_dead_mass = float(np.logaddexp.reduce([*dead, self.log_lost_mass]))
        self.pieces: list[_Piece] = []
        used = 0
        for loss, support in live:
            table = loss_table(loss, support, 1.0 / len(live))
            self.pieces.append(_Piece(loss, support, table, used, used + len(table.nodes)))
            used += len(table.nodes)
        if not self.pieces:
            raise AssertionError("a round must have a branch of positive weight")
        self.law = _law_of(self.pieces)
        unshifted = [abs(piece.loss.log_ratio_unshifted or 0.0) for piece in self.pieces]
        self.farthest = float(np.max(np.abs(self.law.loss))) + max(unshifted)

    def work(self, log_mass: FloatArray, *, rate: float, step: float, share: float) -> tuple[float, float]:
        exponents = width_exponents(self.law, log_mass, rate=rate, step=step, share=share)
        cells = work = 0.0
        for piece in self.pieces:
            own = slice(piece.begin, piece.end)
            law = RoughLaw(self.law.loss[own], self.law.log_weights[own], self.law.spacing[own], piece.table.breaks)
            count = cell_count(law, exponents[own], step)
            cells, work = cells + count, work + count * _components_at_a_time(piece.loss)
        return cells, work

    def measure(
        self, grid: TransformGrid, log_mass: FloatArray, *, share: float, up: bool, advance: Callable[[int], None]
    ) -> TiltedMass:
        layout, gathering = self._layout(log_mass, rate=grid.rate, step=grid.step, up=up)
        law = RoughLaw(self.law.loss - layout.offset, self.law.log_weights, self.law.spacing, self.law.breaks)
        exponents = width_exponents(law, log_mass, rate=grid.rate, step=grid.step, share=share)
        mass = empty_mass(self.law, grid, layout.offset)
        for piece in self.pieces:
            given = layout.edges if piece is gathering else NO_EDGES
            self._add(mass, piece, layout.offset, exponents, advance, up=up, given=given)
        if up:
            mass.add_infinite(self.log_lost_mass)
        mass.finish(up=up)
        return mass

    def whole_measure(self, step: float, length: int, *, up: bool) -> TiltedMass:
        """The untilted measure on every point of the lattice through 0."""
        mass = TiltedMass.empty(step=step, tilt=Tilt(rate=0.0, log_scale=0.0), length=length)
        exponents = np.zeros(len(self.law.loss), dtype=np.int64)
        for piece in self.pieces:
            self._add(mass, piece, 0.0, exponents, lambda _: None, up=up)
        if up:
            mass.add_infinite(self.log_lost_mass)
        mass.finish(up=up)
        return mass

    def _add(
        self,
        mass: TiltedMass,
        piece: _Piece,
        offset: float,
        exponents: IntArray,
        advance: Callable[[int], None],
        *,
        up: bool,
        given: GivenEdges = NO_EDGES,
    ) -> None:
        loss, table = piece.loss.shifted(offset), piece.table.shifted(offset)
        cells = cells_of(table, exponents[piece.begin : piece.end], mass.step)
        if up:
            add_dominating(mass, loss, piece.support, table, cells, advance)
        else:
            add_dominated(mass, loss, table, cells, advance, given)

    def _layout(self, log_mass: FloatArray, *, rate: float, step: float, up: bool) -> tuple[Layout, _Piece | None]:
        """The lattice, laid for the branch with the most mass near its unshifted loss; and that branch."""
        heaviest, piece = -math.inf, None
        for candidate in self.pieces:
            if candidate.loss.log_ratio_unshifted is None:
                continue
            weight = candidate.loss.log_weight + candidate.loss.branch.right.log_mass_at_zero
            if weight > heaviest:
                heaviest, piece = weight, candidate
        if piece is None or piece.loss.log_ratio_unshifted is None:
            return Layout(0.0), None
        if up:
            return Layout(piece.loss.log_ratio_unshifted), piece
        own = log_mass[piece.begin : piece.end]
        return lower_layout(piece.loss, piece.table, own, rate=rate, step=step), piece


def require_moderate_shift(shift: float) -> None:
    """Refuse shifts that the engine's arithmetic is not good for."""
    if not shift <= LARGEST_SHIFT:
        raise LimitExceeded(
            f"the largest sensitivity is {shift:.3g} times the noise; the lattice engine takes at most "
            f"{LARGEST_SHIFT:g} times."
        )


def cells_of(table: LossTable, exponents: IntArray, step: float) -> list[LatticeCells]:
    """The cells to use in each interval of the table, with the widths given at its nodes."""
    loss = table.values.loss
    return [lattice_cells(loss[begin:end], exponents[begin:end], step) for begin, end in table.breaks]


def empty_mass(law: RoughLaw, grid: TransformGrid, offset: float = 0.0) -> TiltedMass:
    """A measure of one part's loss minus `offset`, without any atoms yet."""
    k = law.cumulant(grid.rate)[0] - grid.rate * offset
    thetas = (grid.theta_left, grid.theta_right)
    shifted = [law.cumulant(grid.rate + theta)[0] - (grid.rate + theta) * offset for theta in thetas]
    moments = tuple((theta, value - k) for theta, value in zip(thetas, shifted, strict=True))
    tilt = Tilt(rate=grid.rate, log_scale=k, moments=moments, offset=offset)
    return TiltedMass.empty(step=grid.step, tilt=tilt, length=grid.length)


def _law_of(pieces: list[_Piece]) -> RoughLaw:
    """The tables of all branches, one after the other."""
    log_weights = []
    for piece in pieces:
        log_weights.append(np.log(piece.table.weights) + piece.table.values.log_density)
    tables = [piece.table for piece in pieces]
    with np.errstate(under="ignore"):
        spacing = [table.weights * np.maximum(table.values.slope, 1e-300) for table in tables]
    breaks = tuple((piece.begin + begin, piece.begin + end) for piece in pieces for begin, end in piece.table.breaks)
    return RoughLaw(
        np.concatenate([table.values.loss for table in tables]),
        np.concatenate(log_weights),
        np.concatenate(spacing),
        breaks,
    )


def _components_at_a_time(loss: BranchLoss) -> float:
    """About how many components matter at one point, plus the cost of everything else."""
    most = 0.0
    for side in (loss.right, loss.left):
        most += float(np.max(np.searchsorted(side.shifts, side.shifts + 24.0) - np.arange(len(side.shifts))))
    return 9.0 + most


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
    mass.add_infinite(support.log_dead_mass)


def _add_dots(mass: TiltedMass, branch_loss: BranchLoss, edges: LossNodes) -> None:
    """Split every panel's mass P between the ends j h and J h of its cell, w = (J - j) h apart (L-5).

    With q its mass under Q times e^{j h}, (P - q) / (1 - e^-w) goes to the far end, with P rounded up and q down.
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
