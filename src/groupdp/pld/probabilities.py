"""Probabilities of the loss from bounds on the hockey-stick curve.

delta as a function of alpha = e^x is convex with slope -Q(L > x), and P(L > x) = delta + alpha Q(L > x). Difference
quotients to the left and to the right of x enclose the slope, so for every s > 0 (L-19)

    (e^s delta(x) - delta(x + s)) / (e^s - 1)   <=   P(L > x)   <=   (delta(x - s) - e^-s delta(x)) / (1 - e^-s)
"""

from __future__ import annotations

import math

from groupdp.pld.measures import Measure

#: Distances tried, in steps of the lattice: powers of two up to 2^20.
_LARGEST_POWER = 20
_ROOM = 1e-13


def tail_probability(lower: Measure, upper: Measure, x: float) -> tuple[float, float]:
    """Certified (lower, upper) of P(L > x), for a loss without atoms or with."""
    at_low, at_high = lower.delta_below(x), upper.delta_above(x)
    low, high = at_low, 1.0  # P(L > x) >= delta(x)
    for power in range(_LARGEST_POWER + 1):
        s = upper.step * 2.0**power
        if s > 4.0:
            break
        # delta decreases: taken a rounding to the left, it is not below that at the exact places
        before, after = (upper.delta_above(math.nextafter(place, -math.inf)) for place in (x - s, x + s))
        low = max(low, (math.exp(s) * at_low - after) / math.expm1(s) - _ROOM * (1.0 + 1.0 / s) * at_high)
        high = min(high, (before - math.exp(-s) * at_low) / -math.expm1(-s) + _ROOM * (1.0 + 1.0 / s) * before)
    return max(low, 0.0), min(max(high, low, 0.0), 1.0)
