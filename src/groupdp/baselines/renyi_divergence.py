"""Renyi divergences of a run for one example, at the orders that accountants use.

For one example the mixture has two components, so one round's ratio to N(0, 1) is
R(u) = 1 - q + q e^{m u - m^2/2} with m = sensitivity / noise, and (alpha - 1) D_alpha = log A, A = E[R(U)^alpha], in
the `remove` direction. That is at least the divergence of the `add` direction (Mironov, Talwar and Zhang 2019,
"Renyi differential privacy of the sampled Gaussian mechanism", Theorem 5), so it serves add-or-remove.

E[R] = 1, so A - 1 = E[R^alpha - 1 - alpha (R - 1)], whose integrand is never negative: nothing is lost where A is
close to 1. For whole orders it is a finite sum, otherwise a trapezoidal sum (moment_quadrature.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from groupdp.baselines.moment_quadrature import ROUNDING, log_one_plus_exp, moments_by_quadrature
from groupdp.baselines.one_example import Composition
from groupdp.bounds import Bounds
from groupdp.mechanisms.mixture import MixtureOfGaussians

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


def log_moment(mixture: MixtureOfGaussians, order: float) -> Bounds:
    """Certified bounds on log A = (alpha - 1) D_alpha of one round of a mixture for one example."""
    return log_moments(mixture, (order,))[0]


def log_moments(mixture: MixtureOfGaussians, orders: Sequence[float]) -> list[Bounds]:
    """`log_moment` at every order. Where a quadrature is too long, whole orders are interpolated: looser, still
    proved."""
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
