"""Parts that are not rounds of pairs: envelopes, laws of atoms, and the Laplace mechanism (R-4, R-5).

An envelope has symmetric measures above and below its profile (L-13), so only losses x > 0 are discretised, from the
masses under P and Q of the events v_i(x) < u <= v_i(x'), summed over the components: dots at multiples of the step are
connected from above (L-11), cells are merged from below (L-12).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from groupdp.engines.lattice.cells import LatticeCells, cell_count, langevin, lattice_cells, width_exponents
from groupdp.engines.lattice.envelope import CellMasses, Envelope
from groupdp.engines.lattice.measures import TiltedMass
from groupdp.engines.lattice.parts import TransformGrid, empty_mass, require_moderate_shift
from groupdp.engines.lattice.round_terms import log_normal_cdf
from groupdp.engines.lattice.support import RoughLaw
from groupdp.errors import LimitExceeded
from groupdp.floats import ELEMENTARY, TINY, UNIT, FloatArray, IntArray, bisected
from groupdp.losses import AtomsRound, LaplaceRound, laplace_factors
from groupdp.pairs import Side

#: Nodes of the rough law at x > 0; the first are this much closer to each other than the last, in logarithm.
_NODES = 4000
_REFINED = 16.0
#: Times that edges of merged cells are moved, and how far a cell may miss its lattice point to be worth it.
_MOST_MOVES = 4
_NEAR_MISS = 0.1
#: A merged cell is aimed this fraction of its second-order shift above its lattice point.
_AIM = 1e-3


class EnvelopePart:
    """An envelope, or a coin over Gaussian branches (not `balanced`), run `rounds` times."""

    def __init__(self, side: Side, rounds: int, *, log_cut: float, balanced: bool = True) -> None:
        require_moderate_shift(side.largest)
        self.rounds = rounds
        self.envelope = Envelope(side, log_cut=log_cut, balanced=balanced)
        self.log_mass_unshifted = -math.inf if balanced else side.log_mass_at_zero
        self.x = self._nodes(log_cut)
        log_p, log_q = (
            self._log_differences(side) for side in (self._log_tails(self.x, under_p) for under_p in (True, False))
        )
        middle, spacing = 0.5 * (self.x[1:] + self.x[:-1]), np.diff(self.x)
        log_atom = self._log_atom()
        # Losses -x_n, ..., -x_1, 0, x_1, ..., x_n: P's mass at -x is Q's at x.
        self.law = RoughLaw(
            np.concatenate((-middle[::-1], [0.0], middle)),
            np.concatenate((log_q[::-1], [log_atom], log_p)),
            np.concatenate((spacing[::-1], [float(spacing[0])], spacing)),
            ((0, len(middle)), (len(middle), len(middle) + 1), (len(middle) + 1, 2 * len(middle) + 1)),
        )
        self.middle = middle
        self.farthest = float(self.x[-1])
        self.log_dead_mass = float(np.logaddexp(log_cut, self.envelope.log_lost_mass))
        #: d log sqrt(P Q) / dx, roughly.
        self.growth = np.gradient(np.clip(log_p, -1e6, 0.0) - np.log(spacing), middle) - 0.5

    def _nodes(self, log_cut: float) -> FloatArray:
        """x from 0 to where P(L > x) is about e^log_cut, closest at 0."""

        def matters(x: float) -> bool:
            return float(self._log_tails(np.array([x]), True)[0]) > log_cut

        high = 1.0
        while matters(high) and high < 1e12:
            high *= 2.0
        _, high = bisected(matters, 0.0, high, 40)
        return np.asarray(high * np.expm1(_REFINED * np.linspace(0.0, 1.0, _NODES + 1)) / math.expm1(_REFINED))

    def _log_tails(self, x: FloatArray, under_p: bool) -> FloatArray:
        """log P(L > x) or log Q(L > x), roughly."""
        v = self.envelope.thresholds(x, above=False)
        shifts = self.envelope.all_shifts[:, None] if under_p else 0.0
        with np.errstate(under="ignore"):
            return np.asarray(
                np.logaddexp.reduce(self.envelope.log_weights[:, None] + log_normal_cdf(shifts - v), axis=0)
            )

    @staticmethod
    def _log_differences(log_tails: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", under="ignore", invalid="ignore"):
            logs = log_tails[:-1] + np.log(-np.expm1(np.minimum(np.diff(log_tails), 0.0)))
        return np.asarray(np.maximum(np.nan_to_num(logs, nan=-1e300, neginf=-1e300), -1e300))

    def _log_atom(self) -> float:
        half = 0.5 * float(self.envelope.shifts[0])
        if self.envelope.log_h0 == -math.inf or half == 0.0:
            return max(self.log_mass_unshifted, -1e300)
        return self.envelope.log_h0 + math.log(max(math.erf(half / math.sqrt(2.0)), 1e-300))

    def work(self, log_mass: FloatArray, *, rate: float, step: float, share: float) -> tuple[float, float]:
        exponents = self._exponents(log_mass, rate=rate, step=step, share=share)
        count = cell_count(self._positive_law(), exponents, step)
        # Where the balance point moves fast, a step is cut into panels.
        span = float(np.max(self.envelope.thresholds(self.x[-1:], above=False))) + 20.0
        return count, (count + 20.0 * span) * (2.0 * len(self.envelope.h) + 10.0)

    def _positive_law(self) -> RoughLaw:
        count = len(self.middle)
        return RoughLaw(self.middle, self.law.log_weights[-count:], self.law.spacing[-count:], ((0, count),))

    def _exponents(self, log_mass: FloatArray, *, rate: float, step: float, share: float) -> IntArray:
        """log3 of the widths of cells at the nodes x > 0, which serve for -x as well."""
        count = len(self.middle)
        combined = np.logaddexp(log_mass[-count:], log_mass[:count][::-1])
        return width_exponents(self._positive_law(), combined, rate=rate, step=step, share=share)

    def measure(
        self, grid: TransformGrid, log_mass: FloatArray, *, share: float, up: bool, advance: Callable[[int], None]
    ) -> TiltedMass:
        exponents = self._exponents(log_mass, rate=grid.rate, step=grid.step, share=share)
        cells = lattice_cells(self.middle, exponents, grid.step)
        mass = empty_mass(self.law, grid)
        indices, values = self._above(mass, cells, advance) if up else self._below(mass, cells, advance)
        mass.book_symmetric(indices, values, up=up)
        mass.finish(up=up)
        return mass

    def _above(
        self, mass: TiltedMass, cells: LatticeCells, advance: Callable[[int], None]
    ) -> tuple[IntArray, FloatArray]:
        """Lattice indices > 0 and tilted masses whose curve is above R for alpha >= 1 (L-11)."""
        indices = np.concatenate(([0], cells.indices[cells.indices > 0]))
        edges = mass.step * indices
        far = indices[1:].astype(np.float64)
        panels = self.envelope.split(edges, advance, above=True)
        masses = self.envelope.integrate(mass, panels, edges[:-1], far, advance)
        width = np.diff(edges)
        inflation = _inflation(self.envelope, edges, panels.v[0, panels.ends])
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            total = (masses.mass + masses.mass_error) * (1.0 + 1.01 * inflation)
            moved = (masses.excess + masses.excess_error + 1.01 * inflation * total) / -np.expm1(-width)
            moved = np.clip(moved * (1.0 + 4.0 * ELEMENTARY), 0.0, total)
            kept = (total - moved) + 8.0 * UNIT * total
            fall = mass.tilt.rate * width
            kept = kept * np.exp(-fall) * (1.0 + ELEMENTARY + UNIT * (4.0 * fall + 4.0)) + TINY
            moved = moved + TINY
        values = np.zeros(len(indices))
        values[1:] += moved
        values[:-1] += kept
        # The mass beyond the last edge, and the components left out (each at most its probability: L-11).
        last = panels.v[:, -1]
        with np.errstate(under="ignore"):
            tail = float(
                np.logaddexp.reduce(self.envelope.log_weights + log_normal_cdf(self.envelope.all_shifts - last))
            )
        mass.add_infinite(tail + 1e-9 + 1e-12 * abs(tail) + math.log1p(min(inflation, 1e300)))
        mass.add_infinite(self.envelope.log_lost_mass)
        return indices[1:], values[1:] * (1.0 + 4.0 * UNIT)

    def _below(
        self, mass: TiltedMass, cells: LatticeCells, advance: Callable[[int], None]
    ) -> tuple[IntArray, FloatArray]:
        """Lattice indices > 0 and tilted masses whose curve is below R for alpha >= 1 (L-12)."""
        positive = cells.indices > 0
        indices, width = cells.indices[positive], mass.step * cells.widths[positive].astype(np.float64)
        target: FloatArray = np.asarray(mass.step * indices, dtype=np.float64)
        boundary = target - 0.5 * width
        rate = np.interp(boundary, self.middle, self.growth)
        before = np.concatenate((width[:1], width[:-1]))
        shift = np.minimum(*(0.5 * own * langevin(0.5 * own * rate) for own in (width, before)))
        edges: FloatArray = np.append(boundary - shift + _AIM * np.abs(shift), target[-1] + 0.5 * width[-1])
        edges = np.maximum.accumulate(np.maximum(edges, 1e-3 * mass.step))
        for _ in range(_MOST_MOVES):
            masses, above = self._merged(mass, edges, target, indices, advance)
            missing = np.where((above < 0.0) & (above > -_NEAR_MISS * width), -above, 0.0)
            if not np.any(missing > 0.0):
                break
            rise = 1.5 * np.maximum(np.append(missing, 0.0), np.append(0.0, missing))
            limit = np.append(np.diff(edges) / 3.0, 0.0)
            edges = np.asarray(edges + np.minimum(rise, limit), dtype=np.float64)
        else:
            masses, above = self._merged(mass, edges, target, indices, advance)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            # No loss is booked beyond its cell's right edge, which L-12 asks for.
            booked = indices + np.floor(np.minimum(np.minimum(above, edges[1:] - target), 0.0) / mass.step)
            rise = mass.tilt.rate * (booked - indices) * mass.step
            values = (masses.mass - masses.mass_error) * np.exp(rise)
            values *= 1.0 - ELEMENTARY - UNIT * (4.0 * np.abs(rise) + 8.0)
        good = (booked > 0) & np.isfinite(values) & (values > TINY)
        return booked[good].astype(np.int64), values[good]

    def _merged(
        self,
        mass: TiltedMass,
        edges: FloatArray,
        target: FloatArray,
        indices: IntArray,
        advance: Callable[[int], None],
    ) -> tuple[CellMasses, FloatArray]:
        """Cells between `edges`: masses, and lower bounds on log P/Q - target."""
        panels = self.envelope.split(edges, advance, above=False)
        masses = self.envelope.integrate(mass, panels, target, indices.astype(np.float64), advance)
        with np.errstate(invalid="ignore", divide="ignore"):
            # e^target Q / P - 1 = -excess / mass, at most
            ratio = (-masses.excess + masses.excess_error) / (masses.mass - masses.mass_error)
            ratio = np.where(
                ratio > 0.0, ratio, (-masses.excess + masses.excess_error) / (masses.mass + masses.mass_error)
            )
            above = -np.log1p(ratio) * (1.0 + np.copysign(4.0 * ELEMENTARY, ratio))
            above = np.where(masses.mass > masses.mass_error, above, -np.inf)
        # No cell's log P/Q is below its left edge (L-12): that decides where Q is too small for its quadrature.
        return masses, np.fmax(above, (edges[:-1] - target) - 8.0 * UNIT * (edges[:-1] + target))


def _inflation(envelope: Envelope, x: FloatArray, u: FloatArray) -> float:
    """At least (R - F) / P(L > x) at all x, F the value at the thresholds (L-11).

    Of u_0: |f| / (h_0 - |f|). Of own thresholds that are d = 16 u off: 4 mu_i d^2 (1 + u)^2.
    """
    worst = float(np.max(envelope.imbalance(x, u)))
    own = envelope.own_thresholds(x[-1:])[:, 0]
    displaced = 16.0 * UNIT * own
    second_order = float(np.max(4.0 * envelope.shifts * displaced**2 * (1.0 + own) ** 2))
    return (worst / (1.0 - worst) if worst < 0.5 else math.inf) + second_order + UNIT


#: Nodes of the rough law between the two atoms of a Laplace mechanism.
_LAPLACE_NODES = 2001
#: Most lattice points between the two atoms of a Laplace mechanism.
_MOST_POINTS = 2e7


#: From the side asked for and the step of the lattice: losses, P-masses, log of P's mass at +infinity.
Atoms = Callable[[bool, float], tuple[FloatArray, FloatArray, float]]


class AtomsPart:
    """A law of atoms, run `rounds` times; multiples of the step should meet `spacing` if it is not 0."""

    def __init__(
        self, atoms: Atoms, rounds: int, law: RoughLaw, *, log_lost: float = -math.inf, spacing: float = 0.0
    ) -> None:
        self.atoms, self.rounds, self.law = atoms, rounds, law
        self.log_dead_mass, self.spacing = log_lost, spacing
        self.farthest = float(np.max(np.abs(law.loss)))

    def work(self, log_mass: FloatArray, *, rate: float, step: float, share: float) -> tuple[float, float]:
        count = len(self.law.loss) + 2.0 * self.spacing / step
        return count, 10.0 * count

    def measure(
        self, grid: TransformGrid, log_mass: FloatArray, *, share: float, up: bool, advance: Callable[[int], None]
    ) -> TiltedMass:
        loss, masses, log_infinite = self.atoms(up, grid.step)
        mass = empty_mass(self.law, grid)
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

    def atoms(up: bool, _: float) -> tuple[FloatArray, FloatArray, float]:
        sign = 1.0 if up else -1.0
        loss = round_.losses + sign * (round_.loss_error + 2.0 * UNIT * np.abs(round_.losses))
        room = round_.mass_error + ELEMENTARY + 4.0 * UNIT * np.abs(round_.log_p)
        with np.errstate(under="ignore"):
            return loss, np.exp(round_.log_p) * (1.0 + sign * 1.01 * room), round_.log_lost

    return AtomsPart(atoms, rounds, law_of_atoms(round_.losses, round_.log_p), log_lost=round_.log_lost)


def laplace_part(round_: LaplaceRound, rounds: int) -> AtomsPart:
    """The Laplace mechanism, run `rounds` times.

    Above, its shift x is rounded up to a multiple n h of the step, below rounded down: a larger shift dominates (R-1).
    The masses are those of `losses.laplace_atoms` (R-4).
    """
    x = round_.shift

    def atoms(up: bool, step: float) -> tuple[FloatArray, FloatArray, float]:
        sign = 1.0 if up else -1.0
        shift = x * (1.0 + sign * 4.0 * UNIT)  # a quotient, off by a rounding
        n = math.ceil(shift / step) if up else math.floor(shift / step)
        n += int(n * step < shift) if up else -int(n * step > shift)
        if n > _MOST_POINTS:
            raise LimitExceeded(f"a Laplace mechanism takes {2 * n} lattice points, more than the limit.")
        index = np.arange(-n, n + 1, dtype=np.float64)
        log_r = 0.5 * (index - n) * step
        room = 4.0 * ELEMENTARY + UNIT * (4.0 * np.abs(log_r) + 32.0)
        with np.errstate(under="ignore"):
            masses = 0.5 * laplace_factors(n, step, up=up) * np.exp(log_r) * (1.0 + sign * room)
        return index * step, masses, -math.inf

    inner = np.linspace(-x, x, _LAPLACE_NODES + 2)[1:-1]
    spacing = np.full(_LAPLACE_NODES + 2, 2.0 * x / (_LAPLACE_NODES + 1))
    log_density = 0.5 * (inner - x) - math.log(4.0) + math.log(spacing[0])
    law = RoughLaw(
        np.concatenate(([-x], inner, [x])),
        np.concatenate(([-x - math.log(2.0)], log_density, [-math.log(2.0)])),
        spacing,
        ((0, _LAPLACE_NODES + 2),),
    )
    return AtomsPart(atoms, rounds, law, spacing=x)
