"""Rounds of an envelope on the lattice: symmetric measures above and below a profile R (L-11 to L-13).

R has a law of its own, symmetric in that f(-x) = e^-x f(x), so only losses x > 0 are discretised, from the masses
under P and Q of the events v_i(x) < u <= v_i(x'), summed over the components. From above (L-11) the dots at
multiples of the step are connected; from below (L-12) cells are merged. L-13: with atoms p_j at losses l_j > 0 and
p_j e^-l_j at -l_j, and what is missing to a total of 1 at 0, the measure's curve lies above (below) R everywhere if
it does for alpha >= 1 and its total is at least (at most) 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from groupdp.engines.lattice.cells import langevin
from groupdp.engines.lattice.envelope import Envelope
from groupdp.engines.lattice.grid_steps import LatticeCells, cell_count, lattice_cells, width_exponents
from groupdp.engines.lattice.likelihood import LOG_SQRT_2PI, FloatArray
from groupdp.engines.lattice.mills import log_normal_cdf
from groupdp.engines.lattice.parts import LARGEST_SHIFT, Grid, tilt_of
from groupdp.engines.lattice.quadrature import FOUR_POINTS, PANEL_WIDTH, rule_error
from groupdp.engines.lattice.rough_law import RoughLaw
from groupdp.engines.lattice.rounding import ELEMENTARY, TINY, UNIT
from groupdp.engines.lattice.tail import sum_down, sum_up
from groupdp.engines.lattice.tilted_mass import IntArray, TiltedMass
from groupdp.errors import LimitExceeded
from groupdp.pairs import Side

#: Nodes of the rough law at x > 0; the first are this much closer to each other than the last, in logarithm.
_NODES = 4000
_REFINED = 16.0
#: Numbers (components x panels x nodes) that are held at a time.
_BLOCK_NUMBERS = 1 << 20
#: Most thresholds (components x panels) of one measure: 320 MB.
_MOST_THRESHOLDS = 40_000_000
_MOST_SPLITS = 60
#: Components this far (in logarithm) below the largest in a panel do not decide how wide it is.
_NEGLIGIBLE = 70.0
#: Times that edges of merged cells are moved, and how far a cell may miss its lattice point to be worth it.
_MOST_MOVES = 4
_NEAR_MISS = 0.1
#: A merged cell is aimed this fraction of its second-order shift above its lattice point.
_AIM = 1e-3


@dataclass(frozen=True, slots=True)
class _CellMasses:
    """Per cell: its tilted mass under P, the excess int (1 - e^(target - loss)) dP, and certified errors of both."""

    mass: FloatArray
    mass_error: FloatArray
    excess: FloatArray
    excess_error: FloatArray


@dataclass(frozen=True, slots=True)
class _Panels:
    """Thresholds (rows: components) at the panels' edges, the cell of every panel, and where cells end."""

    v: FloatArray
    cell: IntArray
    ends: IntArray


class EnvelopePart:
    """An envelope, or a coin over Gaussian branches (not `balanced`), run `rounds` times."""

    def __init__(self, side: Side, rounds: int, *, log_cut: float, balanced: bool = True) -> None:
        if not side.largest <= LARGEST_SHIFT:
            raise LimitExceeded(
                f"the largest sensitivity is {side.largest:.3g} times the noise; the lattice engine takes at "
                f"most {LARGEST_SHIFT:g} times."
            )
        self.rounds = rounds
        self.envelope = Envelope(side, log_cut=log_cut, balanced=balanced)
        self.log_at_rest = -math.inf if balanced else side.log_mass_at_zero
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
        high = 1.0
        while float(self._log_tails(np.array([high]), True)[0]) > log_cut and high < 1e12:
            high *= 2.0
        low = 0.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (
                (middle, high) if float(self._log_tails(np.array([middle]), True)[0]) > log_cut else (low, middle)
            )
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
            found = log_tails[:-1] + np.log(-np.expm1(np.minimum(np.diff(log_tails), 0.0)))
        return np.asarray(np.maximum(np.nan_to_num(found, nan=-1e300, neginf=-1e300), -1e300))

    def _log_atom(self) -> float:
        half = 0.5 * float(self.envelope.shifts[0])
        if self.envelope.log_h0 == -math.inf or half == 0.0:
            return max(self.log_at_rest, -1e300)
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
        self, grid: Grid, log_mass: FloatArray, *, share: float, up: bool, advance: Callable[[int], None]
    ) -> TiltedMass:
        exponents = self._exponents(log_mass, rate=grid.rate, step=grid.step, share=share)
        cells = lattice_cells(self.middle, exponents, grid.step)
        mass = TiltedMass.empty(step=grid.step, tilt=tilt_of(self.law, grid, 0.0), length=grid.length)
        indices, values = self._above(mass, cells, advance) if up else self._below(mass, cells, advance)
        _book_symmetric(mass, indices, values, up=up)
        mass.finish(up=up)
        return mass

    def _above(
        self, mass: TiltedMass, cells: LatticeCells, advance: Callable[[int], None]
    ) -> tuple[IntArray, FloatArray]:
        """Lattice indices > 0 and tilted masses whose curve is above R for alpha >= 1 (L-11)."""
        indices = np.concatenate(([0], cells.indices[cells.indices > 0]))
        edges = mass.step * indices
        far = indices[1:].astype(np.float64)
        panels = self._split(edges, advance, above=True)
        found = self._integrate(mass, panels, edges[:-1], far, advance)
        width = np.diff(edges)
        inflation = _inflation(self.envelope, edges, panels.v[0, panels.ends])
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            total = (found.mass + found.mass_error) * (1.0 + 1.01 * inflation)
            moved = (found.excess + found.excess_error + 1.01 * inflation * total) / -np.expm1(-width)
            moved = np.clip(moved * (1.0 + 4.0 * ELEMENTARY), 0.0, total)
            kept = (total - moved) + 8.0 * UNIT * total
            fall = mass.tilt.rate * width
            kept = kept * np.exp(-fall) * (1.0 + ELEMENTARY + UNIT * (4.0 * fall + 4.0)) + TINY
            moved = moved + TINY
        values = np.zeros(len(indices))
        values[1:] += moved
        values[:-1] += kept
        # What lies beyond the last edge, and the components left out (each at most its probability: L-11).
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
            found, above = self._merged(mass, edges, target, indices, advance)
            missing = np.where((above < 0.0) & (above > -_NEAR_MISS * width), -above, 0.0)
            if not np.any(missing > 0.0):
                break
            rise = 1.5 * np.maximum(np.append(missing, 0.0), np.append(0.0, missing))
            limit = np.append(np.diff(edges) / 3.0, 0.0)
            edges = np.asarray(edges + np.minimum(rise, limit), dtype=np.float64)
        else:
            found, above = self._merged(mass, edges, target, indices, advance)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            # No loss is booked beyond its cell's right edge, which L-12 asks for.
            booked = indices + np.floor(np.minimum(np.minimum(above, edges[1:] - target), 0.0) / mass.step)
            rise = mass.tilt.rate * (booked - indices) * mass.step
            values = (found.mass - found.mass_error) * np.exp(rise)
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
    ) -> tuple[_CellMasses, FloatArray]:
        """Cells between `edges`: masses, and lower bounds on log P/Q - target."""
        panels = self._split(edges, advance, above=False)
        found = self._integrate(mass, panels, target, indices.astype(np.float64), advance)
        with np.errstate(invalid="ignore", divide="ignore"):
            # e^target Q / P - 1 = -excess / mass, at most
            ratio = (-found.excess + found.excess_error) / (found.mass - found.mass_error)
            ratio = np.where(ratio > 0.0, ratio, (-found.excess + found.excess_error) / (found.mass + found.mass_error))
            above = -np.log1p(ratio) * (1.0 + np.copysign(4.0 * ELEMENTARY, ratio))
            above = np.where(found.mass > found.mass_error, above, -np.inf)
        # No cell's log P/Q is below its left edge (L-12): that decides where Q is too small for its quadrature.
        return found, np.fmax(above, (edges[:-1] - target) - 8.0 * UNIT * (edges[:-1] + target))

    def _integrate(
        self,
        mass: TiltedMass,
        panels: _Panels,
        target: FloatArray,
        tilted_at: FloatArray,
        advance: Callable[[int], None],
    ) -> _CellMasses:
        """Masses of the cells that the panels make up, tilted as at the lattice indices `tilted_at`."""
        cell = panels.cell
        exponent, exponent_error = mass.exponents(tilted_at)
        rows = np.zeros((4, len(target)))
        block = max(64, _BLOCK_NUMBERS // (4 * (len(self.envelope.h) + 1)))
        for start in range(0, len(cell), block):
            own = cell[start : start + block]
            v = panels.v[:, start : start + block + 1]
            parts = self._panel_masses(v, target[own], exponent[own], exponent_error[own])
            starts = np.flatnonzero(np.concatenate(([True], own[1:] != own[:-1])))
            pieces = np.diff(np.append(starts, len(own)))
            sums = np.add.reduceat(parts, starts, axis=1)
            sums[1] += 8.0 * UNIT * pieces * sums[0]
            sums[3] += 8.0 * UNIT * pieces * np.add.reduceat(np.abs(parts[2]) + parts[0], starts)
            rows[:, own[starts]] += sums
            advance(len(starts))
        rows[1] += 8.0 * UNIT * rows[0]
        rows[3] += 8.0 * UNIT * (np.abs(rows[2]) + rows[0])
        return _CellMasses(*rows)

    def _split(self, edges: FloatArray, advance: Callable[[int], None], *, above: bool) -> _Panels:
        """More edges between the given x = `edges`, until no panel of any component is too wide for the quadrature.

        Thresholds at the inner edges are those of their own x: any thresholds that do not decrease are valid there, for
        only those at the cells' ends say what the masses add up to.
        """
        x, cell = edges, np.arange(len(edges) - 1)
        v = self.envelope.thresholds(x, above=above)
        for _ in range(_MOST_SPLITS):
            advance(0)
            m = self.envelope.all_shifts[:, None]
            left, right = v[:, :-1], v[:, 1:]
            distance = np.maximum(np.abs(right - m), np.abs(left - m))
            distance = np.clip(np.maximum(distance, 0.6 * np.abs(right)), 2.0, 30.0)
            with np.errstate(invalid="ignore", over="ignore"):
                nearest = np.where((left < m) & (m < right), 0.0, np.minimum(np.abs(right - m), np.abs(left - m)))
                log_density = self.envelope.log_weights[:, None] - 0.5 * nearest * nearest
                matters = log_density > np.max(log_density, axis=0) - _NEGLIGIBLE
                wide = np.any(matters & ((right - left) * distance > PANEL_WIDTH), axis=0)
            wide &= (x[1:] - x[:-1]) > 1e-12 * x[1:]
            if not np.any(wide):
                break
            at = np.flatnonzero(wide)
            new = 0.5 * (x[at] + x[at + 1])
            v = np.insert(v, at + 1, self.envelope.thresholds(new, above=above), axis=1)
            x = np.insert(x, at + 1, new)
            cell = np.insert(cell, at + 1, cell[at])
            if v.size > _MOST_THRESHOLDS:
                raise LimitExceeded(
                    f"the lattice engine would need more than its limit of {_MOST_THRESHOLDS:.0e} thresholds: the "
                    "group is too large, or the noise too large or too small."
                )
        # In order whatever the roundings were: towards where f is negative (above), or the other way.
        u = np.minimum.accumulate(v[0, ::-1])[::-1] if above else np.maximum.accumulate(v[0])
        v = self.envelope.with_own_thresholds(x, u, above=above)
        ends = np.flatnonzero(np.concatenate(([True], cell[1:] != cell[:-1], [True])))
        return _Panels(v, cell, ends)

    def _panel_masses(
        self, v: FloatArray, target: FloatArray, exponent: FloatArray, exponent_error: FloatArray
    ) -> FloatArray:
        """(mass, its error, excess, its error) of the panels between thresholds v, summed over the components."""
        m, log_h = self.envelope.all_shifts[:, None], self.envelope.log_weights[:, None]
        left, right = v[:, :-1], v[:, 1:]
        finite = np.isfinite(left) & np.isfinite(right)
        left, right = np.where(finite, left, 0.0), np.where(finite, right, 0.0)
        width = np.maximum(right - left, 0.0)
        extent = np.maximum(np.abs(left), np.abs(right))
        reach = np.maximum(np.abs(left - m), np.abs(right - m))
        displaced = 3.0 * UNIT * (extent + width)
        of_p, of_q = np.zeros_like(width), np.zeros_like(width)
        signed = np.zeros_like(width)
        abscissas, weights = FOUR_POINTS
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            for abscissa, weight in zip(abscissas, weights, strict=True):
                u = 0.5 * (left + right) + 0.5 * width * abscissa
                away = u - m
                density = np.exp(log_h - 0.5 * away * away - LOG_SQRT_2PI + exponent) * (0.5 * width * weight)
                lag = np.minimum(target - m * (u - 0.5 * m), 700.0)
                of_p += density
                of_q += density * np.exp(lag)
                signed -= density * np.expm1(lag)
            size = np.abs(np.where(np.isfinite(log_h), log_h, 0.0))
            rounding = UNIT * (9.0 * size + 4.0 * reach * reach + m * reach + 4.0 * np.abs(exponent) + 32.0)
            rounding += reach * displaced + exponent_error + 2.0 * ELEMENTARY
            in_lag = UNIT * (4.0 * target + m * (5.0 * extent + 4.0 * m)) + m * displaced
            p_error = np.minimum(1.01 * (rounding + rule_error(4, width, reach)), 1e30)
            q_error = np.minimum(1.01 * (rounding + in_lag + rule_error(4, width, extent)), 1e30)
            room = TINY * finite
            mass_error = p_error * of_p + room
            excess_error = mass_error + q_error * of_q + room
        return np.vstack([part.sum(axis=0) for part in (of_p, mass_error, signed, excess_error)])


def _inflation(envelope: Envelope, x: FloatArray, u: FloatArray) -> float:
    """At least (R - F) / P(L > x) at all x, F the value at the thresholds (L-11).

    Of u_0: |f| / (h_0 - |f|). Of own thresholds that are d = 16 u off: 4 mu_i d^2 (1 + u)^2.
    """
    worst = float(np.max(envelope.imbalance(x, u)))
    own = envelope.own_thresholds(x[-1:])[:, 0]
    displaced = 16.0 * UNIT * own
    second_order = float(np.max(4.0 * envelope.shifts * displaced**2 * (1.0 + own) ** 2))
    return (worst / (1.0 - worst) if worst < 0.5 else math.inf) + second_order + UNIT


def _book_symmetric(mass: TiltedMass, indices: IntArray, values: FloatArray, *, up: bool) -> None:
    """Book atoms at l > 0, their mirror images at -l, and what is missing to 1 at 0 (L-13)."""
    x = mass.step * indices
    rate, log_scale = mass.tilt.rate, mass.tilt.log_scale
    sign = 1.0 if up else -1.0
    add = sum_up if not up else sum_down  # of what is subtracted from 1
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        lift = rate * x - log_scale
        room = ELEMENTARY + UNIT * (8.0 * (np.abs(rate * x) + abs(log_scale)) + 8.0)
        plain = values * np.exp(-lift)
        plain_room = plain * room
        total = add(plain) + add(plain * np.exp(-x))
        doubt = 4.0 * (sum_up(plain_room) + sum_up(plain_room * np.exp(-x))) + 16.0 * UNIT
        missing = 1.0 - total + sign * doubt
        if up:
            mass.inflation += 1.01 * max(total - 1.0, 0.0) + 3.0 * doubt + 1e-12
        if not up and missing < 0.0:  # scaled down to a total of at most 1
            values = values * (1.0 + 1.01 * missing) * (1.0 - 4.0 * UNIT)
            missing = 0.0
        fall = (1.0 + 2.0 * rate) * x
        mirrored = values * np.exp(-fall) * (1.0 + sign * (ELEMENTARY + UNIT * (8.0 * fall + 8.0)))
        if up:
            mirrored = mirrored + TINY
        centre = max(missing, 0.0) * math.exp(min(-log_scale, 700.0))
        centre *= 1.0 + sign * (ELEMENTARY + UNIT * (4.0 * abs(log_scale) + 8.0))
    mass.book(np.concatenate((-indices, [0], indices)), np.concatenate((mirrored, [centre], values)), up=up)
