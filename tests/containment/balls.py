"""Helpers of the containment tests: exact doubles, Gaussian closed forms, and what "contained" means for a ball."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from flint import arb, ctx

from containment.half_line_truth import exact, tail

__all__ = ["assert_contains", "assert_contains_log", "ball", "gaussian_delta", "gaussian_epsilon", "tail"]


class Sided(Protocol):
    @property
    def lower(self) -> float: ...

    @property
    def upper(self) -> float: ...


def ball(value: float) -> arb:
    """A double as a ball without radius, at the working precision."""
    return arb(exact(value))


def assert_contains(bounds: Sided, truth: arb, *context: object) -> None:
    """The truth, a very narrow ball, does not certainly lie outside."""
    assert truth.is_finite(), context
    for side in (bounds.lower, bounds.upper):
        assert side == side, (*context, bounds)
    assert not arb(bounds.lower) > truth, (*context, bounds, truth.str(25))
    assert not arb(bounds.upper) < truth, (*context, bounds, truth.str(25))


def assert_contains_log(bounds: Sided, truth: arb, *context: object) -> None:
    """The same for bounds on the logarithm of a positive number."""
    assert_contains(bounds, truth.log(), *context)


def gaussian_delta(epsilon: arb, mu: arb) -> arb:
    """delta of the Gaussian mechanism with shift mu (Balle and Wang 2018)."""
    return tail(epsilon / mu - mu / 2) - epsilon.exp() * tail(epsilon / mu + mu / 2)


def gaussian_epsilon(delta: arb, mu: arb) -> arb:
    """The smallest epsilon >= 0 with delta(epsilon) <= delta, as a narrow ball."""
    return smallest_root(lambda x: gaussian_delta(x, mu).log() - delta.log())


def smallest_root(falling: Callable[[arb], arb], most: int = 200) -> arb:
    """Where a decreasing function of x >= 0 becomes 0, by proved signs; 0 if it is negative there."""
    low, high = arb(0), arb(1)
    if falling(low) <= 0:
        return low
    while not falling(high) < 0:
        low, high = high, 2 * high
    for _ in range(most):
        middle = ((low + high) / 2).mid()
        value = falling(middle)
        if value > 0:
            low = middle
        elif value < 0:
            high = middle
        else:
            break
        if high - low < abs(middle) * arb(2) ** -100:
            break
    with ctx.workprec(ctx.prec):
        return low.union(high)
