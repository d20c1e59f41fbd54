"""Public coins over rounds without noise: the masses of the outcome 0, from those of the branches."""

from __future__ import annotations

import math
from collections.abc import Sequence


def at_zero_of(log_weights: Sequence[float], masses: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """(log P(0), log Q(0), largest loss at outcome 0) of a coin over branches with these (log P(0), log Q(0))."""
    if len(masses) == 1:
        p, q = masses[0]
        return p, q, p - q if p > -math.inf else 0.0
    p = log_total(log_weights, [a for a, _ in masses])
    q = log_total(log_weights, [b for _, b in masses])
    return p, q, max((a - b for a, b in masses if a > -math.inf), default=0.0)


def log_total(log_weights: Sequence[float], logarithms: Sequence[float]) -> float:
    """log of sum w e^log, the weights w summing to 1, to a few units in its last place.

    Where the sum is above one half it is 1 - sum w (1 - e^log): of what is next to 1, the sum of the terms would have
    lost the distance from 1, which is what is revealed.
    """
    missing = math.fsum(
        math.exp(weight) * -math.expm1(value) for weight, value in zip(log_weights, logarithms, strict=True)
    )
    if missing < 0.5:
        return math.log1p(-missing)
    terms = [weight + value for weight, value in zip(log_weights, logarithms, strict=True)]
    largest = max(terms)
    if largest == -math.inf:
        return largest
    return min(largest + math.log(math.fsum(math.exp(value - largest) for value in terms)), 0.0)


def log_complement(logarithm: float) -> float:
    """log of (1 - e^logarithm)_+, to a few units in the last place."""
    if logarithm >= 0.0:
        return -math.inf
    return math.log(-math.expm1(logarithm)) if logarithm > -1.0 else math.log1p(-math.exp(logarithm))
