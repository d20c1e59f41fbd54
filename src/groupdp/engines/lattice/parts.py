"""The parts of a composition: how each round's loss is put on a lattice from above and from below.

A part knows the rough law of its loss, for planning, and makes both measures on a given grid. Rounds of pairs do it
branch by branch: the measure of a public coin is the weighted sum of its branches' measures (L-8). Laws of atoms and
the Laplace mechanism's law have known losses (R-4, R-5).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from groupdp.engines.lattice.cells import NO_EDGES, GivenEdges, LatticeCells, cell_count, lattice_cells, width_exponents
from groupdp.engines.lattice.loss import BranchLoss
from groupdp.engines.lattice.measures import Tilt, TiltedMass
from groupdp.engines.lattice.merging import Layout, add_dominated, lower_layout
from groupdp.engines.lattice.panels import add_dominating
from groupdp.engines.lattice.support import LossTable, RoughLaw, Support, loss_table, support_of
from groupdp.errors import LimitExceeded
from groupdp.floats import ELEMENTARY, TINY, UNIT, FloatArray, IntArray
from groupdp.losses import AtomsRound, LaplaceRound, laplace_factors
from groupdp.pairs import Round

#: Largest shift the engine's arithmetic is good for.
LARGEST_SHIFT = 1e8


@dataclass(frozen=True, slots=True)
class Grid:
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
        self, grid: Grid, log_mass: FloatArray, *, share: float, up: bool, advance: Callable[[int], None]
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

    def __init__(self, round_: Round, rounds: int, *, log_cut: float, log_left_cut: float) -> None:
        self.rounds = rounds
        losses = [
            BranchLoss(branch, log_weight=weight)
            for branch, weight in zip(round_.branches, round_.log_weights, strict=True)
        ]
        for loss in losses:
            require_moderate_shift(loss)
        self.total_components = sum(len(loss.right.shifts) for loss in losses)
        supports = [
            (loss, support_of(loss, log_cut=log_cut, log_left_cut=log_left_cut, components=self.total_components))
            for loss in losses
        ]
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
        self, grid: Grid, log_mass: FloatArray, *, share: float, up: bool, advance: Callable[[int], None]
    ) -> TiltedMass:
        layout, gathering = self._layout(log_mass, rate=grid.rate, step=grid.step, up=up)
        law = RoughLaw(self.law.loss - layout.offset, self.law.log_weights, self.law.spacing, self.law.breaks)
        exponents = width_exponents(law, log_mass, rate=grid.rate, step=grid.step, share=share)
        mass = TiltedMass.empty(step=grid.step, tilt=tilt_of(self.law, grid, layout.offset), length=grid.length)
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


def require_moderate_shift(loss: BranchLoss) -> None:
    """Refuse shifts that the engine's arithmetic is not good for."""
    if not loss.largest_shift <= LARGEST_SHIFT:
        raise LimitExceeded(
            f"the largest sensitivity is {loss.largest_shift:.3g} times the noise; the lattice engine takes at "
            f"most {LARGEST_SHIFT:g} times."
        )


def cells_of(table: LossTable, exponents: IntArray, step: float) -> list[LatticeCells]:
    """The cells to use in each interval of the table, with the widths given at its nodes."""
    loss = table.values.loss
    return [lattice_cells(loss[begin:end], exponents[begin:end], step) for begin, end in table.breaks]


def tilt_of(law: RoughLaw, grid: Grid, offset: float) -> Tilt:
    """The tilt of one part's loss minus `offset`."""
    k = law.cumulant(grid.rate)[0] - grid.rate * offset
    thetas = (grid.theta_left, grid.theta_right)
    shifted = [law.cumulant(grid.rate + theta)[0] - (grid.rate + theta) * offset for theta in thetas]
    moments = tuple((theta, value - k) for theta, value in zip(thetas, shifted, strict=True))
    return Tilt(rate=grid.rate, log_scale=k, moments=moments, offset=offset)


def _law_of(pieces: list[_Piece]) -> RoughLaw:
    """The tables of all branches, one after the other."""
    log_weights = []
    for piece in pieces:
        own = np.log(piece.table.weights) + piece.table.values.log_density
        own[0] = np.logaddexp(own[0], piece.support.log_left_mass)
        log_weights.append(own)
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


#: Nodes of the rough law between the two atoms of a Laplace mechanism.
_NODES = 2001
#: Most lattice points between the two atoms of a Laplace mechanism.
_MOST_POINTS = 2e7


class AtomsPart:
    """A law of atoms, run `rounds` times; `atoms(up)` gives (losses, P-masses, log of P's mass at +infinity)."""

    def __init__(
        self, atoms: Callable[[bool], tuple[FloatArray, FloatArray, float]], rounds: int, law: RoughLaw
    ) -> None:
        self.atoms, self.rounds, self.law = atoms, rounds, law
        self.log_dead_mass = atoms(True)[2]
        self.farthest = float(np.max(np.abs(law.loss)))

    def work(self, log_mass: FloatArray, *, rate: float, step: float, share: float) -> tuple[float, float]:
        count = float(len(self.law.loss))
        return count, 10.0 * count

    def measure(
        self, grid: Grid, log_mass: FloatArray, *, share: float, up: bool, advance: Callable[[int], None]
    ) -> TiltedMass:
        loss, masses, log_infinite = self.atoms(up)
        mass = TiltedMass.empty(step=grid.step, tilt=tilt_of(self.law, grid, 0.0), length=grid.length)
        if up:
            mass.add_atoms_above(loss, masses)
            mass.add_infinite(log_infinite)
            mass.inflation += max(float(masses.sum()) - 1.0, 0.0) + 1e-9
        else:
            mass.add_atoms_below(loss, masses)
        advance(len(loss))
        mass.finish(up=up)
        return mass


def law_of_atoms(losses: FloatArray, log_masses: FloatArray) -> RoughLaw:
    """The rough law of increasing losses."""
    spacing = np.maximum(np.gradient(losses), 1e-12) if len(losses) > 1 else np.ones(1)
    return RoughLaw(losses, log_masses, spacing, ((0, len(losses)),))


def atoms_part(round_: AtomsRound, rounds: int) -> AtomsPart:
    """A round of known losses (R-5): both loss and mass are moved by their certified errors."""

    def atoms(up: bool) -> tuple[FloatArray, FloatArray, float]:
        sign = 1.0 if up else -1.0
        loss = round_.losses + sign * (round_.loss_error + 2.0 * UNIT * np.abs(round_.losses))
        room = round_.mass_error + ELEMENTARY + 4.0 * UNIT * np.abs(round_.log_p)
        with np.errstate(under="ignore"):
            return loss, np.exp(round_.log_p) * (1.0 + sign * 1.01 * room), round_.log_lost

    return AtomsPart(atoms, rounds, law_of_atoms(round_.losses, round_.log_p))


class LaplacePart:
    """The Laplace mechanism, run `rounds` times.

    Above, its shift x is rounded up to a multiple n h of the step, below rounded down: a larger shift dominates (R-1).
    The masses are those of `losses.laplace_atoms` (R-4).
    """

    def __init__(self, round_: LaplaceRound, rounds: int) -> None:
        self.rounds, self.shift = rounds, round_.shift
        x = round_.shift
        inner = np.linspace(-x, x, _NODES + 2)[1:-1]
        spacing = np.full(_NODES + 2, 2.0 * x / (_NODES + 1))
        log_density = 0.5 * (inner - x) - math.log(4.0) + math.log(spacing[0])
        self.law = RoughLaw(
            np.concatenate(([-x], inner, [x])),
            np.concatenate(([-x - math.log(2.0)], log_density, [-math.log(2.0)])),
            spacing,
            ((0, _NODES + 2),),
        )
        self.log_dead_mass = -math.inf
        self.farthest = x

    def work(self, log_mass: FloatArray, *, rate: float, step: float, share: float) -> tuple[float, float]:
        count = 2.0 * self.shift / step + 2.0
        return count, 10.0 * count

    def measure(
        self, grid: Grid, log_mass: FloatArray, *, share: float, up: bool, advance: Callable[[int], None]
    ) -> TiltedMass:
        step = grid.step
        # The shift is a quotient, off by a rounding.
        shift = self.shift * (1.0 + 4.0 * UNIT if up else 1.0 - 4.0 * UNIT)
        n = math.ceil(shift / step) if up else math.floor(shift / step)
        n += int(n * step < shift) if up else -int(n * step > shift)
        if n > _MOST_POINTS:
            raise LimitExceeded(f"a Laplace mechanism takes {2 * n} lattice points, more than the limit.")
        mass = TiltedMass.empty(step=step, tilt=tilt_of(self.law, grid, 0.0), length=grid.length)
        index = np.arange(-n, n + 1, dtype=np.float64)
        log_r = 0.5 * (index - n) * step
        factors = laplace_factors(n, step, up=up)
        exponent, error = mass.exponents(index)
        sign = 1.0 if up else -1.0
        room = 4.0 * ELEMENTARY + 1.01 * error + UNIT * (4.0 * np.abs(log_r) + 2.0 * np.abs(exponent) + 32.0)
        with np.errstate(under="ignore", over="ignore"):
            values = 0.5 * factors * np.exp(log_r + exponent) * (1.0 + sign * room)
        if up:
            values = values + TINY
            mass.inflation += 1e-9
            mass.book(index, values, up=True)
        else:
            good = values > TINY
            mass.book(index[good], values[good], up=False)
        advance(len(index))
        mass.finish(up=up)
        return mass
