"""Where a decreasing function of epsilon passes a target: certified by evaluation, never by convergence."""

from __future__ import annotations

import math
from collections.abc import Callable

_MOST_SECANTS = 12
_MOST_DOUBLINGS = 200
_MOST_BISECTIONS = 80


def first_at_most(
    log_delta: Callable[[float], float], target: float, *, start: float, slope: float, resolution: float
) -> float:
    """An epsilon >= 0 with log_delta(epsilon) <= target, evaluated, and close to the smallest; inf if none was found.

    `slope` is a guess of -d log_delta / d epsilon; `resolution` is relative to max(1, epsilon).
    """
    return _crossing(log_delta, target, start, slope, resolution, above=True)


def last_above(
    log_delta: Callable[[float], float], target: float, *, start: float, slope: float, resolution: float
) -> float:
    """An epsilon >= 0 with log_delta(epsilon) > target, evaluated, and close to the largest; 0 if there is none."""
    return _crossing(log_delta, target, start, slope, resolution, above=False)


def _crossing(
    log_delta: Callable[[float], float], target: float, start: float, slope: float, resolution: float, *, above: bool
) -> float:
    def excess(x: float) -> float:
        return log_delta(x) - target

    guess = _secant(excess, max(start, 0.0), slope, resolution)
    reach = 0.5 * resolution * max(1.0, guess)
    # (a, b) with excess(a) > 0 >= excess(b), or a = b = 0, or b = inf.
    a, b = _enclose(excess, guess, reach, above=above)
    if b > 0.0 and math.isfinite(b):
        for _ in range(_MOST_BISECTIONS):
            middle = 0.5 * (a + b)
            if b - a <= 2.0 * reach or not a < middle < b:
                break
            a, b = (middle, b) if excess(middle) > 0.0 else (a, middle)
    return b if above else a


def _secant(excess: Callable[[float], float], start: float, slope: float, resolution: float) -> float:
    """About where the excess is zero; wherever it got to if it is not smooth."""
    x, value = start, excess(start)
    slope = max(slope, 1e-300)
    for _ in range(_MOST_SECANTS):
        if not math.isfinite(value) or abs(value) <= 0.1 * slope * resolution * max(1.0, x):
            break
        new = max(x + value / slope, 0.0)
        if not math.isfinite(new) or new == x:
            break
        new_value = excess(new)
        if not math.isfinite(new_value):
            break
        found = (value - new_value) / (new - x)
        slope = max(found, 0.05 * slope)
        x, value = new, new_value
    return x


def _enclose(excess: Callable[[float], float], guess: float, reach: float, *, above: bool) -> tuple[float, float]:
    """(a, b) around the crossing; the side asked for is looked at first, and is usually all that is needed."""
    a = max(guess - reach, 0.0)
    b = guess + reach
    if above:
        for _ in range(_MOST_DOUBLINGS):
            if not math.isfinite(b):
                return a, math.inf
            if excess(b) <= 0.0:
                break
            a, b = b, b + reach
            reach *= 2.0
        else:
            return a, math.inf
        # From here on a smaller b is looked for only if the guess turns out to be beyond the crossing.
        while a > 0.0 and excess(a) <= 0.0:
            a, b = max(a - reach, 0.0), a
            reach *= 2.0
        if a == 0.0 and excess(0.0) <= 0.0:
            return 0.0, 0.0
        return a, b
    while a > 0.0 and excess(a) <= 0.0:
        a, b = max(a - reach, 0.0), a
        reach *= 2.0
    if a == 0.0 and excess(0.0) <= 0.0:
        return 0.0, 0.0
    for _ in range(_MOST_DOUBLINGS):
        if not math.isfinite(b) or excess(b) <= 0.0:
            return a, b
        a, b = b, b + reach
        reach *= 2.0
    return a, math.inf
