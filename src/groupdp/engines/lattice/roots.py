"""Where a decreasing function of epsilon passes a target: certified by evaluation, never by convergence."""

from __future__ import annotations

import math
from collections.abc import Callable

_MOST_DOUBLINGS = 200
_MOST_STEPS = 60


def crossing(
    log_delta: Callable[[float], float], target: float, *, start: float, slope: float, resolution: float
) -> tuple[float, float]:
    """(a, b) with 0 <= a <= b, log_delta(a) > target and log_delta(b) <= target, both of them evaluated.

    a = b = 0 if log_delta(0) <= target; b = inf if no such b was found. `slope` is a guess of -d log_delta
    / d epsilon.
    """
    a, value_a, b, value_b = _enclose(log_delta, target, max(start, 0.0), 1.0 / max(slope, 1e-12))
    if b == 0.0 or b == math.inf:
        return a, b
    side = 0
    for _ in range(_MOST_STEPS):
        if b - a <= resolution * max(1.0, b):
            break
        middle = 0.5 * (a + b)
        if math.isfinite(value_a) and math.isfinite(value_b):
            # Regula falsi; the weight of a side that stays put is halved (Illinois).
            secant = (a * value_b - b * value_a) / (value_b - value_a) if value_b != value_a else middle
            nudge = 0.1 * resolution * max(1.0, b)
            secant = secant + nudge if side < 0 else secant - nudge if side > 0 else secant
            middle = secant if a < secant < b else middle
        if not a < middle < b:
            break
        value = log_delta(middle) - target
        if value <= 0.0:
            b, value_b = middle, value
            value_a = 0.5 * value_a if side > 0 else value_a
            side = 1
        else:
            a, value_a = middle, value
            value_b = 0.5 * value_b if side < 0 else value_b
            side = -1
    return a, b


def _enclose(
    log_delta: Callable[[float], float], target: float, start: float, reach: float
) -> tuple[float, float, float, float]:
    """(a, excess at a, b, excess at b) around the crossing."""
    value = log_delta(start) - target
    if value <= 0.0:
        b, value_b = start, value
        for _ in range(_MOST_DOUBLINGS):
            a = max(start - reach, 0.0)
            value_a = log_delta(a) - target
            if value_a > 0.0:
                return a, value_a, b, value_b
            if a == 0.0:
                return 0.0, value_a, 0.0, value_a
            b, value_b, reach = a, value_a, 2.0 * reach
    a, value_a = start, value
    for _ in range(_MOST_DOUBLINGS):
        b = start + reach
        if not math.isfinite(b):
            break
        value_b = log_delta(b) - target
        if value_b <= 0.0:
            return a, value_a, b, value_b
        a, value_a, reach = b, value_b, 2.0 * reach
    return a, value_a, math.inf, -math.inf
