"""The envelope of fixed batches with k members replaced: thresholds, panels, and one round's curve (L-10 to L-12).

At alpha = e^x >= 1 the event of component i is u > v_i, v_0 = u_0 and v_i = max(u_0, u_i) with u_i = x / mu_i + mu_i /
2, where u_0 balances the component that never shifts against those it holds back: f(u_0) = 0 for the increasing, convex

    f(u) = -h_0 (1 - e^-x) + sum_i h_i (r_i(u) / alpha - 1)_+,      r_i(u) = e^{mu_i u - mu_i^2 / 2}.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from groupdp.engines import Work
from groupdp.engines.lattice.cells import PANEL_WIDTH
from groupdp.engines.lattice.loss import FOUR_POINTS, rule_error
from groupdp.engines.lattice.measures import TiltedMass
from groupdp.engines.lattice.round_terms import log_sum_with_errors, right_terms_at_positive
from groupdp.errors import LimitExceeded
from groupdp.floats import ELEMENTARY, LOG_SQRT_2PI, TINY, UNIT, FloatArray, IntArray, log_complement
from groupdp.pairs import Round, Side

_MOST_STEPS = 80
_MOST_DOUBLINGS = 60

#: Numbers (components x panels x nodes) that are held at a time.
_BLOCK_NUMBERS = 1 << 20
#: Most thresholds (components x panels) of one measure: 320 MB.
_MOST_THRESHOLDS = 40_000_000
_MOST_SPLITS = 60
#: Components this far (in logarithm) below the largest in a panel do not decide how wide it is.
_NEGLIGIBLE = 70.0


@dataclass(frozen=True, slots=True)
class CellMasses:
    """Per cell: its tilted mass under P, the excess int (1 - e^(target - loss)) dP, and certified errors of both."""

    mass: FloatArray
    mass_error: FloatArray
    excess: FloatArray
    excess_error: FloatArray


@dataclass(frozen=True, slots=True)
class EnvelopePanels:
    """Thresholds (rows: components) at the panels' edges, the cell of every panel, and where cells end."""

    v: FloatArray
    cell: IntArray
    ends: IntArray


class Envelope:
    """The components of a profile: h_0, and h_i > 0 with mu_i > 0. Those below e^log_cut in all are left out."""

    def __init__(self, side: Side, *, log_cut: float = -math.inf, balanced: bool = True) -> None:
        # Without a balance the component that never shifts is a branch of its own, with all of its mass at loss 0.
        self.log_h0 = side.log_mass_at_zero if balanced else -math.inf
        present = side.shifts > 0.0
        shifts, log_h = side.shifts[present], side.log_probabilities[present]
        kept = log_h > log_cut - math.log(len(log_h))
        kept[int(np.argmax(log_h))] = True
        self.shifts: FloatArray = shifts[kept]
        self.log_h: FloatArray = log_h[kept]
        #: log of at least the probability left out.
        self.log_lost_mass = -math.inf
        if not kept.all():
            self.log_lost_mass = float(np.logaddexp.reduce(log_h[~kept])) + 1e-9
        with np.errstate(under="ignore"):
            self.h0 = math.exp(self.log_h0)
            self.h: FloatArray = np.exp(self.log_h)

    @property
    def log_weights(self) -> FloatArray:
        """log h_i, component 0 first."""
        return np.concatenate(([self.log_h0], self.log_h))

    @property
    def all_shifts(self) -> FloatArray:
        """mu_i, component 0 first."""
        return np.concatenate(([0.0], self.shifts))

    def own_thresholds(self, x: FloatArray) -> FloatArray:
        """u_i (rows) at every x >= 0, within 4 roundings."""
        return np.asarray(x[None, :] / self.shifts[:, None] + 0.5 * self.shifts[:, None])

    def thresholds(self, x: FloatArray, *, above: bool) -> FloatArray:
        """v_i (rows: component 0 first) at every x >= 0, to bound R from above (f <= 0) or from below (f >= 0)."""
        if self.h0 == 0.0:  # no component without a shift
            return self.with_own_thresholds(x, np.full(len(x), -np.inf), above=above)
        return self.with_own_thresholds(x, self._moved(x, self._balanced(x), above=above), above=above)

    def with_own_thresholds(self, x: FloatArray, u: FloatArray, *, above: bool) -> FloatArray:
        """v_i for given u_0 = `u`: own thresholds are rounded down (above) or up."""
        own = self.own_thresholds(x) * (1.0 - 8.0 * UNIT if above else 1.0 + 8.0 * UNIT)
        return np.vstack((u, np.maximum(own, u)))

    def imbalance(self, x: FloatArray, u: FloatArray) -> FloatArray:
        """At least |f(u)| / h_0 where f(u) <= 0."""
        if self.h0 == 0.0:
            return np.zeros(len(x))
        value, error, _ = self._balance(x, u)
        return np.asarray((np.maximum(-value, 0.0) + error) / self.h0)

    def _balance(self, x: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(f(u), certified error, f'(u)) at every x."""
        m = self.shifts[:, None]
        excess = np.minimum(m * (u - 0.5 * m) - x, 700.0)
        held = excess > 0.0
        with np.errstate(under="ignore", over="ignore"):
            weights = self.h[:, None] * np.exp(np.maximum(excess, -700.0))
            value = np.sum(np.where(held, self.h[:, None] * np.expm1(excess), 0.0), axis=0) + self.h0 * np.expm1(-x)
            slope = np.sum(np.where(held, m * weights, 0.0), axis=0)
            # Own thresholds that are 8 roundings off u_0 may be on either side of it, which the error covers.
            units = 9.0 * np.abs(self.log_h[:, None]) + 4.0 * x + m * (16.0 * np.abs(u) + 8.0 * m) + 20.0
            near = excess > -UNIT * units
            error = np.sum(np.where(near, weights * units, 0.0), axis=0) * UNIT
        error += UNIT * self.h0 * -np.expm1(-x) * (9.0 * abs(self.log_h0) + 20.0) + len(self.h) * TINY
        error += len(self.h) * UNIT * (np.abs(value) + self.h0 * -np.expm1(-x))
        return value, 1.01 * error, slope

    def _balanced(self, x: FloatArray) -> FloatArray:
        """About the u with f(u) = 0: Newton's method from the right, where the convex f is not negative."""
        m = self.shifts[:, None]
        with np.errstate(divide="ignore", under="ignore", over="ignore"):
            log_ratio = np.logaddexp(0.0, self.log_h0 + np.log(-np.expm1(-x))[None, :] - self.log_h[:, None])
        u = np.asarray(np.min((x[None, :] + log_ratio) / m + 0.5 * m, axis=0))
        for _ in range(_MOST_STEPS):
            value, error, slope = self._balance(x, u)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = np.where((value > error) & (slope > 0.0), value / slope, 0.0)
            if not np.any(step > 4.0 * UNIT * np.abs(u)):
                break
            u = u - step
        return u

    def _moved(self, x: FloatArray, u: FloatArray, *, above: bool) -> FloatArray:
        """u moved as little as need be for f <= 0 (above) or f >= 0 to be certain."""
        sign = -1.0 if above else 1.0
        lowest = 0.5 * float(self.shifts[0]) * (1.0 - 8.0 * UNIT)  # r_i <= 1 for all i: f <= 0
        distance = np.zeros(len(x))
        pending = np.arange(len(x))
        u = np.where(x <= 0.0, lowest if above else 0.5 * float(self.shifts[0]), u)
        moved = u.copy()
        for attempt in range(_MOST_DOUBLINGS):
            value, error, slope = self._balance(x[pending], moved[pending])
            sure = sign * value >= error
            if above:
                sure |= moved[pending] <= lowest
            else:
                sure |= x[pending] <= 0.0  # h_0 (1 - alpha) = 0: no term of f is negative
            pending, error, slope = pending[~sure], error[~sure], slope[~sure]
            if len(pending) == 0:
                return moved
            if attempt == 0:
                with np.errstate(divide="ignore", over="ignore"):
                    guess = np.where(slope > 0.0, 2.0 * error / np.maximum(slope, 1e-300), 0.0)
                distance[pending] = np.maximum(np.minimum(guess, 1.0), 8.0 * UNIT * (1.0 + np.abs(u[pending])))
            else:
                distance[pending] *= 2.0
            moved[pending] = u[pending] + sign * distance[pending]
            if above:
                moved[pending] = np.maximum(moved[pending], lowest)
        # Not certain: take u_0 so small that f <= 0 (above), or so large that the event is nearly empty (below).
        moved[pending] = lowest if above else 1e300
        return moved

    def integrate(
        self,
        mass: TiltedMass,
        panels: EnvelopePanels,
        target: FloatArray,
        tilted_at: FloatArray,
        advance: Callable[[int], None],
    ) -> CellMasses:
        """Masses of the cells that the panels make up, tilted as at the lattice indices `tilted_at`."""
        cell = panels.cell
        exponent, exponent_error = mass.exponents(tilted_at)
        rows = np.zeros((4, len(target)))
        block = max(64, _BLOCK_NUMBERS // (4 * (len(self.h) + 1)))
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
        return CellMasses(*rows)

    def split(self, edges: FloatArray, advance: Callable[[int], None], *, above: bool) -> EnvelopePanels:
        """More edges between the given x = `edges`, until no panel of any component is too wide for the quadrature.

        Thresholds at the inner edges are those of their own x: any thresholds that do not decrease are valid there, for
        only those at the cells' ends say what the masses add up to.
        """
        x, cell = edges, np.arange(len(edges) - 1)
        v = self.thresholds(x, above=above)
        for _ in range(_MOST_SPLITS):
            advance(0)
            m = self.all_shifts[:, None]
            left, right = v[:, :-1], v[:, 1:]
            distance = np.maximum(np.abs(right - m), np.abs(left - m))
            distance = np.clip(np.maximum(distance, 0.6 * np.abs(right)), 2.0, 30.0)
            with np.errstate(invalid="ignore", over="ignore"):
                nearest = np.where((left < m) & (m < right), 0.0, np.minimum(np.abs(right - m), np.abs(left - m)))
                log_density = self.log_weights[:, None] - 0.5 * nearest * nearest
                matters = log_density > np.max(log_density, axis=0) - _NEGLIGIBLE
                wide = np.any(matters & ((right - left) * distance > PANEL_WIDTH), axis=0)
            wide &= (x[1:] - x[:-1]) > 1e-12 * x[1:]
            if not np.any(wide):
                break
            at = np.flatnonzero(wide)
            new = 0.5 * (x[at] + x[at + 1])
            v = np.insert(v, at + 1, self.thresholds(new, above=above), axis=1)
            x = np.insert(x, at + 1, new)
            cell = np.insert(cell, at + 1, cell[at])
            if v.size > _MOST_THRESHOLDS:
                raise LimitExceeded(
                    f"the lattice engine would need more than its limit of {_MOST_THRESHOLDS:.0e} thresholds: the "
                    "group is too large, or the noise too large or too small."
                )
        # In order whatever the roundings were: towards where f is negative (above), or the other way.
        u = np.minimum.accumulate(v[0, ::-1])[::-1] if above else np.maximum.accumulate(v[0])
        v = self.with_own_thresholds(x, u, above=above)
        ends = np.flatnonzero(np.concatenate(([True], cell[1:] != cell[:-1], [True])))
        return EnvelopePanels(v, cell, ends)

    def _panel_masses(
        self, v: FloatArray, target: FloatArray, exponent: FloatArray, exponent_error: FloatArray
    ) -> FloatArray:
        """(mass, its error, excess, its error) of the panels between thresholds v, summed over the components."""
        m, log_h = self.all_shifts[:, None], self.log_weights[:, None]
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
            p_error = np.minimum(1.01 * (rounding + rule_error(width, reach)), 1e30)
            q_error = np.minimum(1.01 * (rounding + in_lag + rule_error(width, extent)), 1e30)
            room = TINY * finite
            mass_error = p_error * of_p + room
            excess_error = mass_error + q_error * of_q + room
        return np.vstack([part.sum(axis=0) for part in (of_p, mass_error, signed, excess_error)])


def gaussian_coin(round_: Round) -> Side | None:
    """The law of mu if every branch is N(mu) against N(0), moved as it may be: an envelope with h_0 = 0 (L-10)."""
    if not round_.is_gaussian:
        return None
    shifts = np.array([branch.right.largest + branch.left.largest for branch in round_.branches])
    log_weights = np.array(round_.log_weights)
    order = np.flatnonzero(log_weights > -math.inf)
    order = order[np.argsort(shifts[order], kind="stable")]
    with np.errstate(under="ignore"):
        return Side.merged(shifts[order], (np.exp(log_weights[order]), np.minimum(log_weights[order], 0.0)))


#: Cost of one evaluation of the curve (engines/__init__.py): for each component, and fixed.
_WORK_OF_A_COMPONENT, _WORK_OF_A_CALL = 20, 20_000


class Curve(ABC):
    """Certified bounds on log delta(epsilon) of one round, in closed form; evaluations count as work."""

    def __init__(self, work: Work | None, cost: float, largest_loss: float = math.inf) -> None:
        self.work, self.cost, self.largest_loss = Work() if work is None else work, cost, largest_loss

    def above(self, epsilon: float) -> float:
        """An upper bound on log delta(epsilon)."""
        return min(self._bound(epsilon, 1.0), 0.0)

    def below(self, epsilon: float) -> float:
        """A lower bound on log delta(epsilon)."""
        return self._bound(epsilon, -1.0)

    @abstractmethod
    def _bound(self, epsilon: float, sign: float) -> float:
        """The upper bound (sign 1) or the lower one (-1)."""


class EnvelopeCurve(Curve):
    """The hockey stick R(e^epsilon) of one round of an envelope."""

    def __init__(self, side: Side, work: Work | None = None, *, balanced: bool = True) -> None:
        self.envelope = Envelope(side, balanced=balanced)
        super().__init__(work, _WORK_OF_A_COMPONENT * len(self.envelope.shifts) + _WORK_OF_A_CALL)

    def _bound(self, epsilon: float, sign: float) -> float:
        self.work.spend(self.cost)
        if epsilon < 0.0:  # R(alpha) = 1 - alpha + alpha R(1 / alpha)
            trivial, mirrored = log_complement(epsilon), epsilon + self._bound(-epsilon, sign)
            room = sign * 8.0 * ELEMENTARY * (1.0 + abs(trivial) + (abs(mirrored) if math.isfinite(mirrored) else 0.0))
            return float(np.logaddexp(trivial, mirrored)) + room
        v = self.envelope.thresholds(np.array([epsilon]), above=sign > 0.0)[1:, 0]
        m = self.envelope.shifts
        if not np.all(np.isfinite(v)) or float(np.max(v)) > 1e15:
            return -math.inf if sign < 0.0 else 0.0
        log_terms, errors = right_terms_at_positive(v, v - m, m)
        value, error = log_sum_with_errors(log_terms, errors, self.envelope.log_h)
        return value + sign * error if error < math.inf else (-math.inf if sign < 0.0 else 0.0)
