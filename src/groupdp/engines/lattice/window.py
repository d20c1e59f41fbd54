"""Where nearly all of a tilted law lies, by Chernoff's bound.

P(L >= x) <= exp(K(c + theta) - K(c) - theta x) for theta > 0, smallest where K'(c + theta) = x; likewise on the left.
Windows are planned from rough cumulants; what lies outside is bounded afterwards, from the measures themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """An interval of losses, and the Chernoff exponents that bound what lies outside of it."""

    left: float
    right: float
    theta_left: float
    theta_right: float


def window_of(
    cumulant: Callable[[float], tuple[float, float, float]],
    rate: float,
    log_outside: float,
    *,
    resolution: float,
    extremes: tuple[float, float],
) -> Window:
    """The window outside of which the law tilted by `rate` has about e^log_outside on either side.

    `cumulant` gives (K, K', K''). Nothing lies beyond the `extremes`; a law narrower than `resolution` is taken to be
    that wide.
    """
    k, mean, variance = cumulant(rate)
    unit = 1.0 / max(math.sqrt(variance), resolution)
    sides = []
    for sign, extreme in zip((-1.0, 1.0), extremes, strict=True):
        low, high = -8.0, 6.0  # log10 of |theta| / unit
        for _ in range(20):
            middle = 0.5 * (low + high)
            theta = sign * unit * 10.0**middle
            shifted, position, _ = cumulant(rate + theta)
            low, high = (middle, high) if shifted - k - theta * position > log_outside else (low, middle)
        theta = sign * unit * 10.0**high
        position = (cumulant(rate + theta)[0] - k - log_outside) / theta
        sides.append((max(position, extreme) if sign < 0.0 else min(position, extreme), theta))
    left, right = min(sides[0][0], mean - resolution), max(sides[1][0], mean + resolution)
    return Window(left, right, sides[0][1], sides[1][1])
