"""How many of the group's k examples a round's batch contains: two exact laws.

A relative error e in a probability moves epsilon by about (steps x e), and differences of log-gamma
functions lose 1e-11 at a dataset of 50 000. So the ratio recurrences below run in 40-digit decimal
arithmetic (the standard library's, compiled): every probability is then correct to the last bit of the
double it is rounded to, nothing underflows, and logarithms are available where the double is zero.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from functools import lru_cache

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

#: Relative error of k recurrence steps of three roundings each is below 1e4 x 3 x 1e-39: beyond doubles.
_CONTEXT = Context(prec=40, Emax=MAX_EMAX, Emin=MIN_EMIN)
_LOG_10 = math.log(10.0)

Law = tuple[FloatArray, FloatArray]


@lru_cache(maxsize=32)
def binomial_law(group_size: int, rate: float) -> Law:
    """(probabilities, log_probabilities) of Binom(group_size, rate) on 0, ..., group_size.

    p_{i+1} / p_i = (k - i) / (i + 1) * q / (1 - q),   p_0 = (1 - q)^k
    """
    context = _CONTEXT
    q = context.create_decimal(Decimal(rate))
    complement = context.subtract(Decimal(1), Decimal(rate))
    if complement == 0:
        only_all = [Decimal(0)] * group_size + [Decimal(1)]
        return _as_doubles(only_all)
    odds = context.divide(q, complement)

    def ratio(i: int) -> Decimal:
        return context.divide(context.multiply(Decimal(group_size - i), odds), Decimal(i + 1))

    return _recurrence(context.power(complement, Decimal(group_size)), ratio, group_size)


@lru_cache(maxsize=32)
def hypergeometric_law(batch_size: int, dataset_size: int, group_size: int) -> Law:
    """(probabilities, log_probabilities) of Hypergeom(B, n + k, k) on 0, ..., min(k, B), for B <= n.

    p_{i+1} / p_i = (k - i)(B - i) / ((i + 1)(n - B + i + 1)),   p_0 = prod_{j<k} (n + k - B - j) / (n + k - j)
    """
    context = _CONTEXT
    b, n, k = batch_size, dataset_size, group_size
    # p_0 = C(n + k - B, k) / C(n + k, k) is symmetric in k and B: take the shorter product.
    shorter, longer = min(k, b), max(k, b)
    first = Decimal(1)
    for j in range(shorter):
        factor = context.divide(Decimal(n + k - longer - j), Decimal(n + k - j))
        first = context.multiply(first, factor)

    if first == 0:  # B = n and k > 0 never reach here: n + k - B - j >= 1 for j < k when B <= n
        raise AssertionError("hypergeometric support must start at 0")

    def ratio(i: int) -> Decimal:
        return context.divide(Decimal((k - i) * (b - i)), Decimal((i + 1) * (n - b + i + 1)))

    return _recurrence(first, ratio, shorter)


def _recurrence(first: Decimal, ratio: Callable[[int], Decimal], last: int) -> Law:
    values = [first]
    for i in range(last):
        values.append(_CONTEXT.multiply(values[-1], ratio(i)))
    return _as_doubles(values)


def _as_doubles(values: list[Decimal]) -> Law:
    probabilities = [float(value) for value in values]
    logarithms = [_log(value) for value in values]
    likeliest = max(range(len(values)), key=probabilities.__getitem__)
    if probabilities[likeliest] > 0.5:  # its logarithm comes from what is left for the others
        others = functools.reduce(_CONTEXT.add, values[:likeliest] + values[likeliest + 1 :], Decimal(0))
        logarithms[likeliest] = math.log1p(-float(others))
    arrays = np.array(probabilities), np.array(logarithms)
    for array in arrays:
        array.setflags(write=False)
    return arrays


def _log(value: Decimal) -> float:
    """log(value) to a few units in the last place of the result, for a value not close to 1."""
    if value == 0:
        return -math.inf
    exponent = value.adjusted()
    if exponent > -300:
        return math.log(value)
    return math.log(value.scaleb(-exponent, _CONTEXT)) + exponent * _LOG_10
