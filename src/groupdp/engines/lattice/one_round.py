"""A single round: delta(epsilon) in closed form, certified to a few roundings (docs/lattice.md, section 8).

With u* such that log R(u*) = +-epsilon, x_i = u* - m_i, r_i = exp(m_i u* - m_i^2 / 2) and M the Mills
ratio,

    remove:  delta = sum_i p_i D_i,              D_i = Phi(-x_i) - r_i Phi(-u*)  =  phi(x_i) (M(x_i) - M(u*))
    add:     delta = e^epsilon sum_i p_i E_i,    E_i = r_i Phi(u*) - Phi(x_i)    =  phi(x_i) (M(-u*) - M(-x_i))

with D_i - E_i = 1 - r_i. Every term is non-negative, and for each of them one of these forms does not
cancel. delta decreases in epsilon, so evaluating at a point whose loss is certainly not above (not below)
epsilon gives the upper (lower) bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from groupdp.engines.interface import Direction
from groupdp.engines.lattice.loss import LOG_SQRT_2PI, FloatArray, RoundLoss
from groupdp.engines.lattice.mills import mills, mills_difference
from groupdp.engines.lattice.roots import first_at_most, last_above
from groupdp.engines.lattice.rounding import ELEMENTARY, UNIT
from groupdp.mixture import MixtureOfGaussians

_FAR = 5.0
_MOST_DOUBLINGS = 1100
#: No coordinate beyond this is looked at.
_FARTHEST = 1e15


def one_round_log_delta(mixture: MixtureOfGaussians, direction: Direction, epsilon: float) -> tuple[float, float]:
    """(lower, upper) of log delta(epsilon), for an epsilon strictly within the range of the loss."""
    curve = _Curve(mixture, direction)
    return curve.below(epsilon), curve.above(epsilon)


def one_round_epsilon(mixture: MixtureOfGaussians, direction: Direction, log_delta: float) -> tuple[float, float]:
    """(lower, upper) of the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta."""
    curve = _Curve(mixture, direction)
    if curve.above(0.0) <= log_delta:
        return 0.0, 0.0
    start, slope = curve.epsilon_near(log_delta)
    about = {"start": start, "slope": slope, "resolution": 1e-15}
    lower = last_above(curve.below, log_delta, **about)
    upper = first_at_most(curve.above, log_delta, **about)
    largest = curve.loss.largest_loss
    return min(lower, upper, largest), min(upper, largest)


class _Curve:
    """The hockey-stick curve of one round, as a function of the coordinate t in which the loss increases."""

    def __init__(self, mixture: MixtureOfGaussians, direction: Direction) -> None:
        self.loss = RoundLoss(mixture, direction)
        self.removing = direction == "remove"
        self.probabilities = mixture.probabilities

    def above(self, epsilon: float) -> float:
        """An upper bound on log delta(epsilon)."""
        if epsilon >= self.loss.largest_loss:
            return -math.inf
        at = self._point(epsilon, side=-1.0)
        if at is None:  # within a rounding of the smallest loss, log p_0: delta <= 1 - p_0
            return min(log_one_minus_exp(self.loss.log_absence) + 4.0 * ELEMENTARY, 0.0) if self.removing else 0.0
        value, error = self.log_delta_at(at)
        return min(value + error, 0.0)

    def below(self, epsilon: float) -> float:
        """A lower bound on log delta(epsilon); delta >= 1 - e^epsilon always holds."""
        trivial = -math.inf
        if epsilon < 0.0:
            trivial = log_one_minus_exp(epsilon)
            trivial -= 4.0 * ELEMENTARY * (1.0 + abs(trivial))
        at = self._point(epsilon, side=1.0)
        if at is None:
            return trivial
        value, error = self.log_delta_at(at)
        return max(value - error, trivial)

    def epsilon_near(self, log_delta: float) -> tuple[float, float]:
        """(epsilon, slope): about where log delta is `log_delta`, and how steeply it falls; not certified."""
        bracket = _enclose(lambda t: self.log_delta_at(t)[0] <= log_delta)
        if bracket is None:
            return 0.0, 1.0
        low, high = bracket
        for _ in range(100):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            low, high = (middle, high) if self.log_delta_at(middle)[0] > log_delta else (low, middle)
        t = 0.5 * (low + high)
        apart = 1e-5 * max(1.0, abs(t))
        fall = self.log_delta_at(t - apart)[0] - self.log_delta_at(t + apart)[0]
        rise = self.loss_at(t + apart)[0] - self.loss_at(t - apart)[0]
        return self.loss_at(t)[0], fall / rise if fall > 0.0 and rise > 0.0 else 1.0

    def loss_at(self, t: float) -> tuple[float, float, float]:
        """(loss, certified error, slope). Where R is near 1 its distance from 1 is summed instead of R itself."""
        values = self.loss.evaluate(np.array([t]))
        loss, error, slope = float(values.loss[0]), float(values.loss_error[0]), float(values.slope[0])
        u = self.loss.sign * t
        m, p = self.loss.shifts, self.probabilities
        rho = m * (u - 0.5 * m)
        if float(rho.max()) > 1.0:
            return loss, error, slope
        with np.errstate(under="ignore"):
            terms = p * np.expm1(rho)
            units = p * (12.0 * np.abs(np.expm1(rho)) + np.exp(rho) * (4.0 * np.abs(rho) + m * np.abs(u - m)))
        total = math.fsum(terms)
        if total < -0.5:
            return loss, error, slope
        own_error = 1.01 * UNIT * math.fsum(units) / (1.0 + total) + ELEMENTARY * abs(math.log1p(total)) + 1e-300
        if own_error < error:
            return self.loss.sign * math.log1p(total), own_error, slope
        return loss, error, slope

    def log_delta_at(self, t: float) -> tuple[float, float]:
        """(log delta, certified error) at the epsilon that is the loss at t."""
        u = self.loss.sign * t
        m, log_p = self.loss.shifts, self.loss.log_probabilities
        present = m > 0.0
        m, log_p = m[present], log_p[present]
        log_terms, errors = (log_removing if self.removing else log_adding)(u, m)
        log_terms = log_terms + log_p
        errors = errors + UNIT * (9.0 * np.abs(log_p) + 2.0 * np.abs(log_terms))
        if not np.all(np.isfinite(errors)):
            return float(np.logaddexp.reduce(log_terms)), math.inf
        top = float(log_terms.max())
        if top == -math.inf:
            return -math.inf, 0.0
        with np.errstate(under="ignore", over="ignore"):
            weights = np.exp(log_terms - top)
        total = math.fsum(weights)
        worst = float(np.max(np.where(weights > 1e-40, errors, 0.0)))
        # Terms below 1e-40 of the largest may be off by any factor up to 1e10.
        error = 1.01 * math.fsum(weights * np.minimum(errors, 1e10)) / total if worst < 0.01 else 1.01 * worst
        value = top + math.log(total)
        error += ELEMENTARY * 2.0 + UNIT * (len(m) ** 0.5 + 4.0 * abs(value) + 8.0)
        if not self.removing:
            loss, loss_error, _ = self.loss_at(t)
            value, error = value + loss, error + loss_error + UNIT * 2.0 * (abs(loss) + abs(value))
        return value, error

    def _point(self, epsilon: float, *, side: float) -> float | None:
        """A coordinate near the solution whose loss is certainly not above (side -1) or below (side +1) epsilon."""
        low, high = _enclose(lambda t: self.loss_at(t)[0] >= epsilon) or (-_FARTHEST, _FARTHEST)
        t = 0.5 * (low + high)
        loss, error, slope = self.loss_at(t)
        for _ in range(200):
            if abs(loss - epsilon) <= error:
                break
            low, high = (t, high) if loss < epsilon else (low, t)
            step = t - (loss - epsilon) / slope if slope > 0.0 else math.nan
            middle = 0.5 * (low + high)
            new = step if low < step < high else middle
            if not low < new < high:
                break
            t = new
            loss, error, slope = self.loss_at(t)
        distance = max(2.0 * error / slope if slope > 0.0 else 0.0, 4.0 * UNIT * abs(t), 1e-300)
        for _ in range(_MOST_DOUBLINGS):
            loss, error, _ = self.loss_at(t)
            if side * (loss - epsilon) >= error:
                return t
            t += side * distance
            distance *= 2.0
            if not abs(t) <= _FARTHEST:
                return None
        return None


def log_one_minus_exp(x: float) -> float:
    """log(1 - e^x) for x < 0; 0 for -inf."""
    return math.log(-math.expm1(x)) if x > -1.0 else math.log1p(-math.exp(x))


def log_removing(u: float, m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(log D_i, certified errors) for m_i > 0."""
    x = u - m
    rho = m * (u - 0.5 * m)
    rho_error = UNIT * (4.0 * np.abs(rho) + m * np.abs(x))
    if u <= 0.0:  # D = E + (1 - r), and r <= 1
        log_v, v_error = _log_kernel(x, np.full_like(m, -u), m)
        log_rest, rest_error = _log_minus_expm1(rho, rho_error)
        return np.logaddexp(log_v, log_rest), np.maximum(v_error, rest_error) + 2.0 * ELEMENTARY
    return _log_removing_right(u, x, m)


def log_adding(u: float, m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(log E_i, certified errors) for m_i > 0."""
    x = u - m
    if u <= _FAR:
        near = _log_kernel(x, np.full_like(m, -u), m)
        if u <= 0.0:
            return near
    rho = m * (u - 0.5 * m)
    rho_error = UNIT * (4.0 * np.abs(rho) + m * np.abs(x))
    # r >= 1: E = D + (r - 1), taken relative to r.
    log_d, d_error = _log_removing_right(u, x, m)
    log_rest, rest_error = _log_minus_expm1(-np.abs(rho), rho_error)
    log_e = np.logaddexp(log_d, rho + log_rest)
    e_error = np.maximum(d_error, rest_error + rho_error) + 2.0 * ELEMENTARY
    if u <= _FAR:
        better = near[1] < e_error
    else:  # r < 1: E = r - phi(x) (M(u) + M(-x)) with -x > u > 5, where the second part is below 1e-5 of r
        small = np.exp(-0.5 * u * u - LOG_SQRT_2PI) * (mills(np.full_like(m, u)) + mills(np.maximum(-x, _FAR)))
        near = (
            rho + np.log1p(-np.minimum(small, 0.5)),
            rho_error + 4.0 * ELEMENTARY + UNIT * (np.abs(rho) + u * u * 1e-5),
        )
        better = rho < 0.0
    use = better | (rho < 0.0)
    return np.where(use, near[0], log_e), np.where(use, near[1], e_error)


def _log_removing_right(u: float, x: FloatArray, m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(log D_i, errors) for u > 0."""
    log_w, w_error = _log_kernel(x, np.maximum(x, -_FAR), np.where(x >= -_FAR, m, u + _FAR))
    # Far left of the component: D = 1 - phi(x) (M(-x) + M(u)), where the second part is below 1e-5.
    rest = np.exp(-0.5 * x * x - LOG_SQRT_2PI) * (mills(np.maximum(-x, 0.0)) + mills(np.full_like(m, u)))
    far = np.log1p(-np.minimum(rest, 0.5))
    is_far = x < -_FAR
    far_error = 4.0 * ELEMENTARY + rest * UNIT * (x * x + m * np.abs(x) + 64.0)
    return np.where(is_far, far, log_w), np.where(is_far, far_error, w_error)


def _log_kernel(x: FloatArray, a: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(log of phi(x) (M(a) - M(a + width)), error)."""
    difference, relative = mills_difference(a, width)
    with np.errstate(divide="ignore"):
        value = -0.5 * x * x - LOG_SQRT_2PI + np.log(difference)
    relative = np.where(relative < 0.1, 1.1 * relative, np.inf)
    return value, relative + UNIT * (3.0 * x * x + 2.0 * width * np.abs(x) + 2.0 * np.abs(value) + 16.0) + ELEMENTARY


def _log_minus_expm1(rho: FloatArray, rho_error: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(log(1 - e^rho), error) for rho <= 0."""
    part = -np.expm1(rho)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        value = np.log(part)
        error = np.where(part > 0.0, rho_error * np.exp(rho) / part, np.inf)
    return value, np.where(np.isfinite(error), error, np.inf) + 2.0 * ELEMENTARY + UNIT * 8.0 * np.abs(value)


def _enclose(is_high: Callable[[float], bool]) -> tuple[float, float] | None:
    """(low, high) between which a condition that is false on the left becomes true; None if it does not."""
    low, high = -1.0, 1.0
    while not is_high(high):
        low, high = high, 4.0 * high
        if high > _FARTHEST:
            return None
    while is_high(low):
        high, low = min(high, low), -4.0 * abs(low)
        if low < -_FARTHEST:
            return None
    return low, high
