"""Binomial laws of large groups: the recurrence of counts.py in vectors of 106-bit numbers instead of decimals.

p_i is p_0 times i factors (k - j) / (j + 1) q / (1 - q), each right to 2^-98 and multiplied with an error of at most
2^-100: for the largest group, 100 000, all are right to 2^-80 before they are rounded to doubles. Powers of two are
kept apart, so that nothing underflows.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from groupdp.laws.decimals import CONTEXT
from groupdp.laws.double_double import Number, divide, multiply
from groupdp.pairs import FloatArray, Law

#: From this group size on; and only if both counts, of those drawn and of those not, are at least so large in the mean:
#: then no outcome has a probability above a half, and every logarithm may be taken from its own probability.
SMALLEST = 4096
SMALLEST_MEAN = 16.0
#: log 2 = high + low; multiples of the high part up to 2^21 are exact.
_LOG_2_HIGH, _LOG_2_LOW = 0.6931471803691238, 1.9082149292705877e-10

#: Numbers (high + low) 2^exponent with 1/2 <= high < 1.
Scaled = tuple[FloatArray, FloatArray, npt.NDArray[np.int64]]


def is_large(group_size: int, rate: float) -> bool:
    """Whether `large_binomial_law` answers for Binom(group_size, rate)."""
    return group_size >= SMALLEST and SMALLEST_MEAN <= group_size * rate <= group_size - SMALLEST_MEAN


def large_binomial_law(group_size: int, rate: float) -> Law:
    """(probabilities, log_probabilities) of Binom(group_size, rate) on 0, ..., group_size."""
    complement = CONTEXT.subtract(Decimal(1), Decimal(rate))
    odds = _from_decimal(CONTEXT.divide(Decimal(rate), complement))
    i = np.arange(group_size, dtype=np.float64)
    ratios = _scaled(multiply(divide(group_size - i, i + 1.0), odds[:2]), odds[2])
    first = _from_decimal(CONTEXT.power(complement, Decimal(group_size)))
    high, _, exponents = (np.concatenate(parts) for parts in zip(first, _times(_products(ratios), first), strict=True))
    with np.errstate(under="ignore"):
        probabilities = np.ldexp(high, exponents)
    logarithms = exponents * _LOG_2_HIGH + (np.log(high) + exponents * _LOG_2_LOW)
    for array in (probabilities, logarithms):
        array.setflags(write=False)
    return probabilities, logarithms


def _products(factors: Scaled) -> Scaled:
    """The products of the first 1, 2, 3, ... factors: along rows, then over the rows before."""
    count = len(factors[0])
    width = count if count <= 4 else math.isqrt(count - 1) + 1
    rows = -(-count // width)
    padding = rows * width - count
    high, low, exponents = (
        np.append(part, np.full(padding, one)).reshape(rows, width)
        for part, one in zip(factors, (0.5, 0.0, 1), strict=True)
    )
    for j in range(1, width):
        before = high[:, j - 1], low[:, j - 1], exponents[:, j - 1]
        high[:, j], low[:, j], exponents[:, j] = _times((high[:, j], low[:, j], exponents[:, j]), before)
    if rows > 1:
        ends = high[:-1, -1], low[:-1, -1], exponents[:-1, -1]
        ends = _products(ends) if rows > 2 else ends
        earlier = tuple(part[:, np.newaxis] for part in ends)
        high[1:], low[1:], exponents[1:] = _times((high[1:], low[1:], exponents[1:]), earlier)  # type: ignore[arg-type]
    return high.ravel()[:count], low.ravel()[:count], exponents.ravel()[:count]


def _times(x: Scaled, y: Scaled) -> Scaled:
    return _scaled(multiply(x[:2], y[:2]), x[2] + y[2])


def _scaled(number: Number, exponents: npt.NDArray[np.int64]) -> Scaled:
    high, more = np.frexp(number[0])
    return high, np.ldexp(number[1], -more), exponents + more


def _from_decimal(value: Decimal) -> Scaled:
    """A positive decimal, to 2^-104."""
    exponent = math.floor(value.adjusted() / math.log10(2.0))
    scaled = CONTEXT.divide(value, CONTEXT.power(Decimal(2), exponent))
    high = float(scaled)
    low = float(CONTEXT.subtract(scaled, Decimal(high)))
    return _scaled((np.array([high]), np.array([low])), np.array([exponent], dtype=np.int64))
