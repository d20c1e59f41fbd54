"""Closed forms in ball arithmetic: one round of any mixture, and any number of rounds of plain Gaussians.

One round: within a branch L > eps exactly where u is beyond some u*, so delta is a difference of normal tail
probabilities, and a sum of those over the coin. Precision is raised until 100 bits survive the cancellation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb, ctx

from oracle.mixture import PRECISION, Composition, Mixture, exact
from oracle.pairs import Branch, Gaussian, Round, rounds_of

_BITS = 100


def gaussian_log_delta(composition: Composition, *, epsilon: Any) -> arb:
    """log delta of mixtures with a single component, which compose to one Gaussian mechanism."""
    if any(len(mixture.shifts) != 1 for mixture, _ in composition):
        raise ValueError("not a composition of Gaussian mechanisms")
    squares = sum((rounds * mixture.shifts[0] ** 2 for mixture, rounds in composition), exact(0))

    def log_delta() -> arb:
        eps, mu = arb(exact(epsilon)), arb(squares).sqrt()
        return (_tail(eps / mu - mu / 2) - eps.exp() * _tail(eps / mu + mu / 2)).log()

    return _accurate(log_delta)


def one_round_log_delta(one: Mixture | Round, *, epsilon: Any, direction: str | None = None) -> arb:
    """log delta(epsilon) of a single round; minus infinity where delta is zero. A mixture needs a direction."""
    return _accurate(lambda: _one_round(one, arb(exact(epsilon)), direction)[0])


def one_round_epsilon(one: Mixture | Round, *, delta: Any, direction: str | None = None) -> arb:
    """The smallest epsilon >= 0 with delta(epsilon) <= delta, for a single round."""
    ((one, _),) = rounds_of([(one, 1)], direction)
    with ctx.workprec(2 * PRECISION):
        target = arb(exact(delta)).log()
        low, high = arb(0), arb(1)
        if _one_round(one, low)[0] <= target:
            return arb(0)
        while _one_round(one, high)[0] > target:
            low, high = high, 2 * high
        for _ in range(60):
            middle = ((low + high) / 2).mid()
            above = _one_round(one, middle)[0] > target
            low, high = (middle, high) if above else (low, middle)
        x = low
        for _ in range(3):  # from 18 digits to all of them
            value, slope = _one_round(one, x)
            correction = (target - value) / slope
            x = (x + correction).mid()
        return x + correction * arb(0, 1)


def _one_round(one: Mixture | Round, eps: arb, direction: str | None = None) -> tuple[arb, arb]:
    """log delta(eps) and its derivative -e^eps Q(L > eps) / delta: sums over the coin."""
    ((one, _),) = rounds_of([(one, 1)], direction)
    p_side = q_side = arb(0)
    for weight, branch in one.coin:
        p, q = _event(branch, eps)
        p_side, q_side = p_side + arb(weight) * p, q_side + arb(weight) * q
    if p_side == 0 and q_side == 0:
        return arb.neg_inf(), arb.nan()
    delta = p_side - eps.exp() * q_side
    return delta.log(), -eps.exp() * q_side / delta


def _event(branch: Branch | Gaussian, eps: arb) -> tuple[arb, arb]:
    """P(L > eps) and Q(L > eps)."""
    if isinstance(branch, Gaussian):
        mu = arb(branch.square).sqrt()
        return _tail(eps / mu - mu / 2), _tail(eps / mu + mu / 2)
    if eps >= branch.largest_loss:
        return arb(0), arb(0)
    if eps <= branch.smallest_loss:
        return arb(1), arb(1)
    u = threshold(branch, eps)
    p = sum((a * _tail(u - x) for x, a in _balls(branch.right)), arb(0))
    q = sum((b * _tail(u + y) for y, b in _balls(branch.left)), arb(0))
    return p, q


def threshold(branch: Branch, level: arb) -> arb:
    """u with Psi(u) = level: Newton's method within a bracket, since Psi is increasing.

    delta is stationary in u (the best threshold), so an error here is squared there.
    """
    sides = _balls(branch.right), _balls(branch.left)
    u = _bracketed(branch, float(level.mid()))
    low, high = arb.neg_inf(), arb.pos_inf()
    for _ in range(10_000):
        value, slope = _loss(sides, u)
        low, high = (low, u) if value > level else (u, high)
        correction = ((value - level) / slope).mid()
        after = (u - correction).mid()
        if not low < after < high:
            if abs(correction) < arb(2) ** (-3 * ctx.prec // 4):
                return u
            after = ((low + high) / 2).mid() if low.is_finite() and high.is_finite() else after
        u = after
        if abs(correction) < arb(2) ** (-3 * ctx.prec // 4):
            return u
    raise AssertionError("no threshold found")


def _bracketed(branch: Branch, level: float) -> arb:
    """u with Psi(u) = level, about, by bisection in doubles."""
    low, high = -1.0, 1.0
    while branch.float_loss(np.array([low]))[0] > level and low > -1e150:
        low *= 2
    while branch.float_loss(np.array([high]))[0] < level and high < 1e150:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        below = branch.float_loss(np.array([middle]))[0] < level
        low, high = (middle, high) if below else (low, middle)
    return arb((low + high) / 2)


def _loss(sides: tuple[list[tuple[arb, arb]], list[tuple[arb, arb]]], u: arb) -> tuple[arb, arb]:
    """Psi(u) and Psi'(u)."""
    value = slope = arb(0)
    for sign, side in zip((1, -1), sides, strict=True):
        terms = [p * (sign * m * u - m * m / 2).exp() for m, p in side]
        total = sum(terms, arb(0))
        value += sign * total.log()
        slope += sum((m * term for (m, _), term in zip(side, terms, strict=True)), arb(0)) / total
    return value, slope


def _balls(side: Mixture) -> list[tuple[arb, arb]]:
    return [(arb(m), arb(p)) for m, p in zip(side.shifts, side.probabilities, strict=True)]


def _tail(x: arb) -> arb:
    """P(N(0, 1) > x)."""
    return (x / arb(2).sqrt()).erfc() / 2


def _accurate(function: Callable[[], arb]) -> arb:
    precision = PRECISION
    while precision < 100_000:
        with ctx.workprec(precision):
            value = function()
            if value == arb.neg_inf() or value.rel_accuracy_bits() >= _BITS:
                return value
        precision *= 2
    raise AssertionError("cancellation beyond 100 000 bits")
