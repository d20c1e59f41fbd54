"""log A = log E[R(U)^alpha] of one example's mixture at many orders: trapezoidal sums with their errors bounded.

R(u) = 1 - q + q e^{m u - m^2/2}, and A - 1 = E[R^alpha - 1 - alpha (R - 1)], whose integrand is never negative.

Aliasing: for |Im u| <= d with m d <= 1.2 < pi/2, |R(u + iy)| <= R(u), so the sum of R^a phi is off by at most
2 E[R^a] e^{d^2/2} / (e^{2 pi d / h} - 1); here for a = alpha, 1 and 0.
Range: on the right the integrand is at most R^alpha + alpha, and R^alpha <= 2^alpha (1 + q^alpha e^{alpha y});
on the left R <= 1 and it is at most alpha. Beyond the last nodes these bounds decrease: a normal tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from groupdp.bounds import Bounds

FloatArray = npt.NDArray[np.float64]

#: Most nodes of a trapezoidal sum.
MOST_NODES = 20_000
#: Elementary functions are taken to be within 4 units in the last place; a dozen of them are within this.
ROUNDING = 2.0**-47
#: Orders share their nodes up to so many numbers in a table.
_MOST_ENTRIES = 50_000


def moments_by_quadrature(
    orders: Sequence[float], shift: float, present: float, log_present: float
) -> list[Bounds | None]:
    """Certified bounds on log A at every order; None where that needs too many nodes, or is lost in rounding."""
    depth = min(1.2 / shift, 15.0)
    wanted = 60.0 - 2.0 * log_present - 2.0 * math.log(min(shift, 1.0))
    step = min(2.0 * math.pi * depth / (wanted + depth**2 / 2.0), 0.25)
    reach = math.sqrt(2.0 * wanted)
    found: dict[float, Bounds | None] = {}
    together: list[float] = []
    for order in sorted(set(orders), reverse=True):  # the first of those together has the longest range
        longest = 2.0 * reach + (together[0] if together else order) * shift
        unlike = longest - order * shift > 3.0 * reach  # rounding is charged by the farthest node
        if together and (unlike or longest / step * (len(together) + 1) > _MOST_ENTRIES):
            found.update(_group(together, shift, present, log_present, depth=depth, step=step, reach=reach))
            together = []
        if (2.0 * reach + order * shift) / step > MOST_NODES:
            found[order] = None
        else:
            together.append(order)
    if together:
        found.update(_group(together, shift, present, log_present, depth=depth, step=step, reach=reach))
    return [found[order] for order in orders]


def _group(
    orders: list[float], shift: float, present: float, log_present: float, *, depth: float, step: float, reach: float
) -> dict[float, Bounds | None]:
    """Orders with one set of nodes, that of the largest: a longer range than needed leaves out less."""
    first, last = math.floor(-reach / step), math.ceil((reach + orders[0] * shift) / step)
    u = np.arange(first, last + 1, dtype=np.float64) * np.float64(step)
    column = np.array(orders)[:, np.newaxis]
    log_part, log_error = _integrand(column, shift, present, log_present, u)
    weight = math.log(step / math.sqrt(2.0 * math.pi)) - u**2 / 2.0
    log_part += weight
    largest = np.max(log_part, axis=1)
    finite = np.where(largest == -math.inf, 0.0, largest)[:, np.newaxis]
    totals = np.sum(np.exp(log_part - finite), axis=1)
    roundings = np.sum(np.exp(log_error + weight - finite), axis=1) * (1.0 + 1e-9)
    # Of the weights, and of a sum of non-negative terms in any order.
    farthest = max(float(u[0]) ** 2, float(u[-1]) ** 2)
    roundings += totals * (ROUNDING * (1.0 + farthest + np.abs(finite[:, 0])) + len(u) * 2.0**-52)
    log_alias = math.log(2.0) + depth**2 / 2.0 - 2.0 * math.pi * depth / step + 1e-9
    return {
        order: _enclosed(order, shift, log_present, top, total, rounding, log_alias=log_alias, reach=reach)
        for order, top, total, rounding in zip(
            orders, largest.tolist(), totals.tolist(), roundings.tolist(), strict=True
        )
    }


def _enclosed(
    order: float,
    shift: float,
    log_present: float,
    top: float,
    total: float,
    rounding: float,
    *,
    log_alias: float,
    reach: float,
) -> Bounds | None:
    """log A from e^top x total, with aliasing, range and rounding charged."""
    if top == -math.inf:  # lost in rounding
        return None
    center = top + math.log(total)
    moment = max(center, 0.0) + math.log(2.0)  # log of a bound on A
    aliasing = log_alias + _log_sum(moment, math.log(2.0 * order))
    tail = _log_sum(
        order * math.log(2.0) + math.log1p(2.0 * order),
        order * (math.log(2.0) + log_present) + shift**2 * order * (order - 1.0) / 2.0,
    )
    left_out = tail - reach**2 / 2.0 + 1e-9
    if max(aliasing, left_out) > top:
        return None
    error = (rounding + math.exp(aliasing - top) + math.exp(left_out - top)) / total
    if error > 1e-3:
        return None
    upper = center + math.log1p(error) + ROUNDING * (1.0 + abs(center))
    lower = center + math.log1p(-error) - ROUNDING * (1.0 + abs(center))
    return Bounds(log_one_plus_exp(lower, -1), log_one_plus_exp(upper, 1))


def _integrand(
    order: FloatArray, shift: float, present: float, log_present: float, u: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Logarithms of R^alpha - 1 - alpha (R - 1) and of a bound on its rounding error: a row for each order."""
    y = shift * u - shift**2 / 2.0
    inexact = ROUNDING * (shift * np.abs(u) + shift**2)  # the error of y
    capped = np.minimum(y, 600.0)
    increment = present * np.expm1(capped)
    log_ratio = np.where(y < 600.0, np.log1p(increment), y + log_present)
    powered = order * log_ratio

    near = np.minimum(powered, 30.0)
    power = np.expm1(near)
    difference = np.maximum(power - order * increment, 0.0)
    error = ROUNDING * (np.abs(power) * (1.0 + np.abs(near)) + order * np.abs(increment))
    slope = order * np.abs(np.expm1(np.minimum((order - 1.0) * log_ratio, 30.0)))
    error += slope * np.exp(np.minimum(y + log_present, 30.0)) * inexact  # q e^y <= R, below e^30 here

    # Far to the right the power is too large for a double: divide by it.
    others = (1.0 - order) * np.exp(-np.maximum(powered, 0.0)) + np.exp(
        np.minimum(np.log(order) + log_ratio - powered, 0.0)
    )
    with np.errstate(divide="ignore"):
        far = powered + np.log1p(-np.minimum(others, 0.5))
        log_error_far = powered + np.log(ROUNDING * (1.0 + np.abs(powered)) + 2.0 * order * inexact)
        is_near = powered < 30.0
        return np.where(is_near, np.log(difference), far), np.where(is_near, np.log(error), log_error_far)


def log_one_plus_exp(value: float, sign: int) -> float:
    """log(1 + e^value), rounded outward: down for sign -1, up for sign 1, and never below 0."""
    result = value + math.log1p(math.exp(-value)) if value > 0.0 else math.log1p(math.exp(value))
    return result * (1.0 + sign * ROUNDING)


def _log_sum(first: float, second: float) -> float:
    """log(e^first + e^second)."""
    return max(first, second) + math.log1p(math.exp(-abs(first - second)))
