"""What the baselines start from: the mixtures of one example, and their Renyi divergences.

For one example the mixture has two components, so one round's ratio to N(0, 1) is R(u) = 1 - q + q e^{m u - m^2/2} with
m = sensitivity / noise, and (alpha - 1) D_alpha = log A, A = E[R(U)^alpha], in the `remove` direction. That is at least
the divergence of the `add` direction (Mironov, Talwar and Zhang 2019, "Renyi differential privacy of the sampled
Gaussian mechanism", Theorem 5), so it serves add-or-remove.

E[R] = 1, so A - 1 = E[R^alpha - 1 - alpha (R - 1)], whose integrand is never negative: nothing is lost where A is close
to 1. For whole orders it is a finite sum, otherwise a trapezoidal sum, whose errors are:

Aliasing: for |Im u| <= d with m d <= 1.2 < pi/2, |R(u + iy)| <= R(u), so the sum of R^a phi is off by at most 2 E[R^a]
e^{d^2/2} / (e^{2 pi d / h} - 1); here for a = alpha, 1 and 0.

Range: on the right the integrand is at most R^alpha + alpha, and R^alpha <= 2^alpha (1 + q^alpha e^{alpha y}); on the
left R <= 1 and it is at most alpha. Beyond the last nodes these bounds decrease: a normal tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from groupdp.bounds import Bounds
from groupdp.errors import InvalidArgument, InWords, require_choice
from groupdp.floats import FloatArray
from groupdp.mechanisms.dpsgd import DPSGD, phases_of
from groupdp.mechanisms.mechanism import mechanisms_of
from groupdp.mechanisms.mixture import MixtureOfGaussians
from groupdp.neighbours import ADJACENCIES, FORWARD, ONE_SIDED
from groupdp.pairs import Round
from groupdp.question import question_of

#: Mixtures with the number of rounds of each.
Composition = tuple[tuple[MixtureOfGaussians, int], ...]


class NoBaseline(InvalidArgument):
    """The run is valid, and no such analysis of one example is known for it."""


def example_composition(run: Any) -> Composition:
    """The mixtures that dominate a run for one example removed, in units of the noise; mirrored, for one added.

    Refuses samplings whose round for one example is not one mixture against one Gaussian: no baseline is known there.
    """
    require_walk(run)
    ((_, composition),) = question_of(run, group_size=1, adjacency=FORWARD).compositions
    mixtures = []
    for round_, times in composition:
        if not isinstance(round_, Round) or len(round_.branches) > 1 or not round_.branches[0].left.is_zero:
            raise NoBaseline(
                "run",
                InWords("a public coin"),
                "have rounds that are one mixture against one Gaussian for this baseline",
            )
        side = round_.branches[0].right
        law = (side.probabilities, side.log_probabilities)
        if round_.has_noise:
            mixtures.append((MixtureOfGaussians.from_law(side.shifts, law, 1.0), times))
        else:
            mixtures.append((MixtureOfGaussians.from_law(np.minimum(side.shifts, 1.0), law, 0.0), times))
    return tuple(mixtures)


def require_walk(run: Any) -> None:
    """Refuse samplings where one example's guarantee does not hold for the datasets on the way to a group.

    The datasets of a walk from none of the group to all of it have a larger common part than the first one.
    """
    if any(not isinstance(mechanism, DPSGD) for mechanism in mechanisms_of(run)):
        raise NoBaseline("run", run, "be a DPSGD or a sequence of them for this baseline")
    for phase in phases_of(run):
        if not phase.sampling.leaks_most_where_smallest:
            raise NoBaseline(
                "sampling",
                InWords(phase.sampling.title),
                "be another one for this baseline",
                "datasets on the way to a group are larger, and may leak more than the smallest one",
            )


def require_one_sided(adjacency: Any) -> None:
    """Refuse adjacencies that the mixtures of one removed example do not cover."""
    if require_choice("adjacency", adjacency, ADJACENCIES) not in ONE_SIDED:
        raise InvalidArgument("adjacency", adjacency, f"be {', '.join(ONE_SIDED)} for this baseline")


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
        unlike = longest - order * shift > 3.0 * reach  # the farthest node decides the rounding error
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
    """log A from e^top x total, with the errors of aliasing, range and rounding."""
    if top == -math.inf:  # lost in rounding
        return None
    center = top + math.log(total)
    moment = max(center, 0.0) + math.log(2.0)  # log of a bound on A
    aliasing = log_alias + np.logaddexp(moment, math.log(2.0 * order))
    tail = np.logaddexp(
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


#: The customary orders: 1.1 to 10.9 by tenths, 11 to 63, and four powers of two.
ORDERS: tuple[float, ...] = (
    *(1.0 + tenth / 10.0 for tenth in range(1, 100)),
    *(float(order) for order in range(11, 64)),
    128.0,
    256.0,
    512.0,
    1024.0,
)


@lru_cache(maxsize=64)
def renyi_divergences(composition: Composition, orders: tuple[float, ...] = ORDERS) -> tuple[Bounds, ...]:
    """Certified bounds on the composed D_alpha at every order; rounds add up."""
    lower, upper = np.zeros(len(orders)), np.zeros(len(orders))
    for mixture, rounds in composition:
        moments = log_moments(mixture, orders)
        lower += rounds * np.array([moment.lower for moment in moments])
        upper += rounds * np.array([moment.upper for moment in moments])
    slack = ROUNDING * (1 + len(composition))
    excess = np.array(orders) - 1.0
    return tuple(
        Bounds(float(low), float(high))
        for low, high in zip(lower / excess * (1.0 - slack), upper / excess * (1.0 + slack), strict=True)
    )


def log_moments(mixture: MixtureOfGaussians, orders: Sequence[float]) -> list[Bounds]:
    """Certified bounds on log A = (alpha - 1) D_alpha of one round of a mixture for one example, at every order.

    Where a quadrature is too long, whole orders are interpolated: looser, still proved.
    """
    if mixture.standard_deviation == 0.0:
        return [Bounds(math.inf, math.inf)] * len(orders)
    shift = float(mixture.sensitivities[-1]) / mixture.standard_deviation
    absent = mixture.log_probability_of_absence
    if absent == -math.inf:  # always sampled: a Gaussian mechanism
        exact = [order * (order - 1.0) * shift**2 / 2.0 for order in orders]
        return [Bounds(value * (1.0 - ROUNDING), value * (1.0 + ROUNDING)) for value in exact]
    log_present = float(mixture.log_probabilities[-1])
    fractions = [order for order in orders if order != int(order)]
    found = moments_by_quadrature(fractions, shift, float(mixture.probabilities[-1]), log_present)
    by_order = dict(zip(fractions, found, strict=True))
    return [by_order.get(order) or _by_convexity(order, shift, log_present, absent) for order in orders]


def _by_convexity(order: float, shift: float, present: float, absent: float) -> Bounds:
    """log A at any order: exactly where it is whole, else between chords of its neighbours.

    log A is a convex function of the order: below the chord of the two whole orders around, and above the
    chords of the two on either side, prolonged.
    """
    floor = math.floor(order)
    part = order - floor
    if part == 0.0:
        return _at_whole(floor, shift, present, absent)
    before, left, right, after = (_at_whole(floor + i, shift, present, absent) for i in (-1, 0, 1, 2))
    upper = (1.0 - part) * left.upper + part * right.upper
    lower = max(
        left.lower + part * (left.lower - before.upper), right.lower - (1.0 - part) * (after.upper - right.lower)
    )
    return Bounds(max(lower * (1.0 - ROUNDING), 0.0), upper * (1.0 + ROUNDING))


@lru_cache(maxsize=4096)
def _at_whole(order: int, shift: float, present: float, absent: float) -> Bounds:
    """A - 1 = sum_{i >= 2} C(alpha, i) (1-q)^{alpha-i} q^i (e^{m^2 i(i-1)/2} - 1)."""
    if order < 2:
        return Bounds(0.0, 0.0)
    i = np.arange(2, order + 1, dtype=np.float64)
    j = np.arange(order, dtype=np.float64)
    choose = np.cumsum(np.log((order - j) / (j + 1.0)))[1:]
    exponent = shift**2 * i * (i - 1.0) / 2.0
    log_expm1 = np.where(
        exponent < 30.0,
        np.log(np.expm1(np.minimum(exponent, 30.0))),
        exponent + np.log1p(-np.exp(-np.maximum(exponent, 30.0))),
    )
    terms = choose + (order - i) * absent + i * present + log_expm1
    # Every part is off by a few units in the last place of its magnitude, the running sum by those of its parts.
    magnitude = order * math.log(order) + (order - i) * abs(absent) + i * abs(present) + np.abs(log_expm1)
    largest = float(np.max(terms))
    center = largest + math.log(math.fsum(np.exp(terms - largest).tolist()))
    slack = ROUNDING * (1.0 + order + abs(center) + float(np.max(magnitude)))
    return Bounds(log_one_plus_exp(center - slack, -1), log_one_plus_exp(center + slack, 1))
