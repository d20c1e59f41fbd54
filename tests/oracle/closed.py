"""Closed forms in ball arithmetic: one round of any mixture, and any number of rounds of plain Gaussians.

One round: L > eps exactly where u is beyond u* (remove) or below it (add), so delta is a difference of normal
tail probabilities. Precision is raised until 100 bits survive the cancellation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flint import arb, ctx

from oracle.mixture import PRECISION, Composition, Mixture, exact

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


def one_round_log_delta(mixture: Mixture, *, epsilon: Any, direction: str) -> arb:
    """log delta(epsilon) of a single round; minus infinity where delta is zero."""
    return _accurate(lambda: _one_round(mixture, arb(exact(epsilon)), direction)[0])


def one_round_epsilon(mixture: Mixture, *, delta: Any, direction: str) -> arb:
    """The smallest epsilon >= 0 with delta(epsilon) <= delta, for a single round."""
    with ctx.workprec(2 * PRECISION):
        target = arb(exact(delta)).log()
        low, high = arb(0), arb(1)
        if _one_round(mixture, low, direction)[0] <= target:
            return arb(0)
        while _one_round(mixture, high, direction)[0] > target:
            low, high = high, 2 * high
        for _ in range(60):
            middle = ((low + high) / 2).mid()
            above = _one_round(mixture, middle, direction)[0] > target
            low, high = (middle, high) if above else (low, middle)
        x = low
        for _ in range(3):  # from 18 digits to all of them
            value, slope = _one_round(mixture, x, direction)
            correction = (target - value) / slope
            x = (x + correction).mid()
        return x + correction * arb(0, 1)


def _one_round(mixture: Mixture, eps: arb, direction: str) -> tuple[arb, arb]:
    """log delta(eps) and its derivative -e^eps Q(L > eps) / delta."""
    shifts = [arb(m) for m in mixture.shifts]
    law = [arb(p) for p in mixture.probabilities]
    level = eps if direction == "remove" else -eps
    never = mixture.absence > 0 and level <= mixture.absence.log()  # R never falls to e^level
    if never and direction == "add":
        return arb.neg_inf(), arb.nan()
    if never:
        with_group = without_group = arb(1)
    else:
        u = _threshold(shifts, law, level)
        side = 1 if direction == "remove" else -1
        without_group = _tail(side * u)
        with_group = sum((p * _tail(side * (u - m)) for m, p in zip(shifts, law, strict=True)), arb(0))
    p_side, q_side = (with_group, without_group) if direction == "remove" else (without_group, with_group)
    delta = p_side - eps.exp() * q_side
    return delta.log(), -eps.exp() * q_side / delta


def _threshold(shifts: list[arb], law: list[arb], level: arb) -> arb:
    """u with Psi(u) = level. Psi is convex and increasing: from the right, Newton's method descends to it.

    delta is stationary in u (the best threshold), so an error here is squared there.
    """
    starts = [(level - p.log() + m * m / 2) / m for m, p in zip(shifts, law, strict=True) if m > 0]
    u = min(starts, key=lambda start: float(start.mid())).mid()
    for _ in range(10_000):
        terms = [p * (m * u - m * m / 2).exp() for m, p in zip(shifts, law, strict=True)]
        total = sum(terms, arb(0))
        slope = sum((m * term for m, term in zip(shifts, terms, strict=True)), arb(0)) / total
        correction = ((total.log() - level) / slope).mid()
        u = (u - correction).mid()
        if abs(correction) < arb(2) ** (-3 * ctx.prec // 4):
            return u
    raise AssertionError("no threshold found")


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
