"""The envelope of fixed batches with k members replaced: thresholds, and one round's curve (L-10 to L-12).

In the coordinate u, with r_i(u) = e^{mu_i u - mu_i^2 / 2} and alpha = e^x >= 1, the event of component i is u > v_i for

    v_0 = u_0,      v_i = max(u_0, u_i),      u_i = x / mu_i + mu_i / 2     (where r_i = alpha)

and u_0 balances the component that never shifts against those it holds back: f(u_0) = 0,

    f(u) = -h_0 (1 - e^-x) + sum_i h_i (r_i(u) / alpha - 1)_+,

which increases and is convex. With D_i(u) = Phi(mu_i - u) - r_i Phi(-u), L-10: R(alpha) is at most (at least) sum_i
h_i D_i(max(u_0, u_i)) wherever f(u_0) <= 0 (f(u_0) >= 0), and the same with own thresholds u_i too small (too
large).
"""

from __future__ import annotations

import math

import numpy as np

from groupdp.engines.lattice.likelihood import FloatArray
from groupdp.engines.lattice.round_terms import log_one_minus_exp, log_sum_with_errors, right_terms_at_positive
from groupdp.engines.lattice.rounding import ELEMENTARY, TINY, UNIT
from groupdp.engines.work import Work
from groupdp.pairs import Round, Side

_MOST_STEPS = 80
_MOST_DOUBLINGS = 60
#: About what one evaluation of the curve costs (work.py): for each component, and for itself.
_WORK_OF_A_COMPONENT, _WORK_OF_A_CALL = 20, 20_000


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
        #: log of at least the probability of what was left out.
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
        if self.h0 == 0.0:  # nothing holds the others back
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
            # Own thresholds that are 8 roundings off u_0 are on either side of it: charged too.
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
        # Certainty was not reached: u_0 so small that f <= 0 (above), or so large that the event is all but empty.
        moved[pending] = lowest if above else 1e300
        return moved


def gaussian_coin(one: Round) -> Side | None:
    """The law of mu if every branch is N(mu) against N(0), moved as it may be; None otherwise.

    Its hockey stick sum_b w_b H_b is that of an envelope in which nothing is held back (L-10 with h_0 = 0, and the
    weight of branches that tell nothing at loss 0).
    """
    if any(len(branch.right.shifts) > 1 or len(branch.left.shifts) > 1 for branch in one.branches):
        return None
    shifts = np.array([branch.right.largest + branch.left.largest for branch in one.branches])
    log_weights = np.array(one.log_weights)
    order = np.flatnonzero(log_weights > -math.inf)
    order = order[np.argsort(shifts[order], kind="stable")]
    with np.errstate(under="ignore"):
        return Side.merged(shifts[order], (np.exp(log_weights[order]), np.minimum(log_weights[order], 0.0)))


class EnvelopeCurve:
    """The hockey stick R(e^epsilon) of one round of an envelope."""

    largest_loss = math.inf

    def __init__(self, side: Side, work: Work | None = None, *, balanced: bool = True) -> None:
        self.envelope = Envelope(side, balanced=balanced)
        self.work = Work() if work is None else work

    def above(self, epsilon: float) -> float:
        """An upper bound on log R(e^epsilon)."""
        return min(self._bound(epsilon, 1.0), 0.0)

    def below(self, epsilon: float) -> float:
        """A lower bound on log R(e^epsilon)."""
        return self._bound(epsilon, -1.0)

    def _bound(self, epsilon: float, sign: float) -> float:
        self.work.spend(_WORK_OF_A_COMPONENT * len(self.envelope.shifts) + _WORK_OF_A_CALL)
        if epsilon < 0.0:  # R(alpha) = 1 - alpha + alpha R(1 / alpha)
            trivial, mirrored = log_one_minus_exp(epsilon), epsilon + self._bound(-epsilon, sign)
            room = sign * 8.0 * ELEMENTARY * (1.0 + abs(trivial) + (abs(mirrored) if math.isfinite(mirrored) else 0.0))
            return float(np.logaddexp(trivial, mirrored)) + room
        v = self.envelope.thresholds(np.array([epsilon]), above=sign > 0.0)[1:, 0]
        m = self.envelope.shifts
        if not np.all(np.isfinite(v)) or float(np.max(v)) > 1e15:
            return -math.inf if sign < 0.0 else 0.0
        log_terms, errors = right_terms_at_positive(v, v - m, m)
        value, error = log_sum_with_errors(log_terms, errors, self.envelope.log_h)
        return value + sign * error if error < math.inf else (-math.inf if sign < 0.0 else 0.0)

    def epsilon_near(self, log_delta: float) -> tuple[float, float]:
        """(epsilon, slope): about where log R is `log_delta`, and how steeply it falls; not certified."""
        low, high = 0.0, 1.0
        while self.above(high) > log_delta and high < 1e300:
            low, high = high, 2.0 * high
        for _ in range(30):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.above(middle) > log_delta else (low, middle)
        apart = 1e-6 * (1.0 + high)
        slope = (self.above(low) - self.above(high + apart)) / (high + apart - low)
        return low, slope if 0.0 < slope < math.inf else 1.0
