"""Vectors of 106-bit numbers: unevaluated sums high + low of two doubles (Dekker 1971).

Relative errors are at most a few 2^-104 as long as nothing under- or overflows; callers keep values between 1e-250
and 1e250 by exact scaling with powers of two.
"""

from __future__ import annotations

import numpy as np

from groupdp.pairs import FloatArray

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


def multiply(x: Number, y: Number) -> Number:
    """x y."""
    high, low = _product(x[0], y[0])
    return _normal(high, low + (x[0] * y[1] + x[1] * y[0]))


def divide(x: FloatArray, y: FloatArray) -> Number:
    """x / y for doubles: the remainder of the rounded quotient is exact."""
    high = x / y
    back, rest = _product(high, y)
    return _normal(high, ((x - back) - rest) / y)


def add(x: Number, y: Number) -> Number:
    """x + y, for numbers of the same sign."""
    high, low = _sum(x[0], y[0])
    return _normal(high, low + (x[1] + y[1]))


def total(x: Number) -> tuple[float, float]:
    """The sum of non-negative numbers, by halves."""
    high, low = x
    while len(high) > 1:
        half = (len(high) + 1) // 2
        rest = len(high) - half
        upper = add((high[:rest], low[:rest]), (high[half:], low[half:]))
        if rest < half:
            high, low = np.append(upper[0], high[rest:half]), np.append(upper[1], low[rest:half])
        else:
            high, low = upper
    return float(high[0]), float(low[0])
