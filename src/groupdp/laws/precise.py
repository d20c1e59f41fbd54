"""40-digit decimals, laws rounded from them, and vectors of 106-bit numbers.

A relative error e in a probability moves epsilon by about (steps x e), and differences of log-gamma functions lose
1e-11 at a dataset of 50 000. So laws are computed with 40 digits (the standard library's decimals, compiled): every
probability is then correct to the last bit of the double it is rounded to, nothing underflows, and logarithms are
available where the double is zero.

Vectors are unevaluated sums high + low of two doubles (Dekker 1971). Relative errors are at most a few 2^-104 as long
as nothing under- or overflows; callers keep values between 1e-250 and 1e250 by exact scaling with powers of two.
"""

from __future__ import annotations

import functools
import math
from array import array
from collections.abc import Callable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

import numpy as np

from groupdp.floats import FloatArray
from groupdp.pairs import Law

#: Relative error of 1e5 recurrence steps of three roundings each is below 1e5 x 3 x 1e-39: beyond doubles.
CONTEXT = Context(prec=40, Emax=MAX_EMAX, Emin=MIN_EMIN)
_LOG_10 = math.log(10.0)
#: Above this a double has all its bits.
_SMALLEST = 1e-300


def total(values: Sequence[Decimal]) -> Decimal:
    """The sum, in 40 digits."""
    return functools.reduce(CONTEXT.add, values, Decimal(0))


def recurrence(first: Decimal, ratio: Callable[[int], Decimal], last: int) -> list[Decimal]:
    """p_0 = `first`, p_{i+1} = p_i x ratio(i), up to p_last."""
    values = [first]
    for i in range(last):
        values.append(CONTEXT.multiply(values[-1], ratio(i)))
    return values


def as_law(values: Sequence[Decimal]) -> Law:
    """Probabilities that sum to 1, as doubles with their logarithms."""
    probabilities = [float(value) for value in values]
    logarithms = [math.log(p) if p > _SMALLEST else log(value) for p, value in zip(probabilities, values, strict=True)]
    likeliest = probabilities.index(max(probabilities))
    if probabilities[likeliest] > 0.5:  # its logarithm comes from the sum of the others
        others = total([*values[:likeliest], *values[likeliest + 1 :]])
        logarithms[likeliest] = math.log1p(-float(others))
    return _immutable(probabilities), _immutable(logarithms)


def _immutable(values: list[float]) -> FloatArray:
    """On bytes, which cannot be written to."""
    return np.frombuffer(array("d", values).tobytes())


def log(value: Decimal) -> float:
    """log(value) to a few units in the last place of the result, for a value not close to 1."""
    if not value:
        return -math.inf
    exponent = value.adjusted()
    if exponent > -300:
        return math.log(value)
    return math.log(value.scaleb(-exponent, CONTEXT)) + exponent * _LOG_10


#: (high, low)
Number = tuple[FloatArray, FloatArray]

_SPLITTER = 134217729.0  # 2^27 + 1


def _product(a: FloatArray, b: FloatArray) -> Number:
    """a b exactly, as a sum of two doubles."""
    high = a * b
    t = _SPLITTER * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = _SPLITTER * b
    b_high = t - (t - b)
    b_low = b - b_high
    low = ((a_high * b_high - high) + a_high * b_low + a_low * b_high) + a_low * b_low
    return high, low


def _sum(a: FloatArray, b: FloatArray) -> Number:
    """a + b exactly, as a sum of two doubles."""
    high = a + b
    part = high - a
    return high, (a - (high - part)) + (b - part)


def _normal(high: FloatArray, low: FloatArray) -> Number:
    result = high + low
    return result, low - (result - high)


def vector_multiply(x: Number, y: Number) -> Number:
    """x y."""
    high, low = _product(x[0], y[0])
    return _normal(high, low + (x[0] * y[1] + x[1] * y[0]))


def vector_divide(x: FloatArray, y: FloatArray) -> Number:
    """x / y for doubles: the remainder of the rounded quotient is exact."""
    high = x / y
    back, rest = _product(high, y)
    return _normal(high, ((x - back) - rest) / y)


def vector_add(x: Number, y: Number) -> Number:
    """x + y, for numbers of the same sign."""
    high, low = _sum(x[0], y[0])
    return _normal(high, low + (x[1] + y[1]))


def vector_total(x: Number) -> tuple[float, float]:
    """The sum of non-negative numbers, by halves."""
    high, low = x
    while len(high) > 1:
        half = (len(high) + 1) // 2
        rest = len(high) - half
        upper = vector_add((high[:rest], low[:rest]), (high[half:], low[half:]))
        if rest < half:
            high, low = np.append(upper[0], high[rest:half]), np.append(upper[1], low[rest:half])
        else:
            high, low = upper
    return float(high[0]), float(low[0])
