"""Exact laws of how much of a group is in a batch, correct to the last bits of a double.

truncated     Poisson batches cut to a largest size: members kept and others displaced
allocation    sums of squared counts when a group is dealt to batches (allocation_tails, allocation_transform)
blocks        coins over allocations, from the laws of collisions (histograms)

Here: the arithmetic, and how many of the group's k examples a round's batch contains (binomial, hypergeometric, sums of
binomials, people). A relative error e in a probability moves epsilon by about (steps x e), and differences of log-gamma
functions lose 1e-11 at a dataset of 50 000. So laws are computed in decimals of 40 digits: every probability is then
correct to the last bit of the double it is rounded to, nothing underflows, and logarithms are available where the
double is zero. `truncated` computes with vectors of unevaluated sums of two doubles (Dekker 1971), each right to 2^-98.
"""

from __future__ import annotations

import functools
import math
from array import array
from collections.abc import Callable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

import numpy as np

from groupdp.errors import LimitExceeded
from groupdp.floats import FloatArray, composed
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


#: Multiplications that a sum of binomials may take: about a second.
_MOST_PRODUCTS = 3_000_000


def binomial_decimals(group_size: int, rate: float) -> list[Decimal]:
    """Binom(k, q) on 0, ..., k:   p_{i+1} / p_i = (k - i) / (i + 1) * q / (1 - q),   p_0 = (1 - q)^k."""
    q = CONTEXT.create_decimal(Decimal(rate))
    complement = CONTEXT.subtract(Decimal(1), Decimal(rate))
    if complement == 0:
        return [Decimal(0)] * group_size + [Decimal(1)]
    odds = CONTEXT.divide(q, complement)
    multiply, divide = CONTEXT.multiply, CONTEXT.divide
    value = CONTEXT.power(complement, Decimal(group_size))
    values = [value]
    for i in range(group_size):
        value = divide(multiply(multiply(value, odds), group_size - i), i + 1)
        values.append(value)
    return values


@functools.lru_cache(maxsize=64)
def binomial_law(group_size: int, rate: float) -> Law:
    """(probabilities, log_probabilities) of Binom(group_size, rate) on 0, ..., group_size."""
    return as_law(binomial_decimals(group_size, rate))


@functools.lru_cache(maxsize=32)
def sum_of_binomials_law(parts: tuple[tuple[float, int], ...]) -> Law:
    """The law of a sum of independent Binom(k_s, q_s), from pairs (q_s, k_s): a convolution.

    Parts of one rate are one binomial: Binom(k, q) + Binom(k', q) = Binom(k + k', q).
    """
    sizes: dict[float, int] = {}
    for rate, size in parts:
        sizes[rate] = sizes.get(rate, 0) + size
    result = [Decimal(1)]
    work = 0
    for rate, size in sorted(sizes.items(), key=lambda item: item[1]):
        work += len(result) * (size + 1)
        if work > _MOST_PRODUCTS:
            raise LimitExceeded(
                f"the law of a group from {len(sizes)} sources would take more than {_MOST_PRODUCTS} products: fewer "
                "examples or fewer different rates are needed."
            )
        result = _convolved(result, binomial_decimals(size, rate))
    return as_law(result)


def _convolved(first: list[Decimal], second: list[Decimal]) -> list[Decimal]:
    result = [Decimal(0)] * (len(first) + len(second) - 1)
    for i, p in enumerate(first):
        if p:
            for j, q in enumerate(second, start=i):
                result[j] = CONTEXT.fma(p, q, result[j])
    return result


@functools.lru_cache(maxsize=32)
def people_law(people: int, rate: float, held: int, example_rate: float, most: int) -> Law:
    """The law of a sum over `people` of 0 or, with probability `rate`, min(Binom(held, example_rate), most) (P-23)."""
    largest = people * min(held, most)
    if largest * largest > _MOST_PRODUCTS:
        raise LimitExceeded(
            f"the law of {people} people with up to {min(held, most)} examples each would take more than "
            f"{_MOST_PRODUCTS} products: fewer people or fewer examples are needed."
        )
    kept = binomial_decimals(held, example_rate)
    person = [*kept[:most], total(kept[most:])] if held > most else kept
    sampled = CONTEXT.create_decimal(Decimal(rate))
    person = [CONTEXT.multiply(sampled, p) for p in person]
    person[0] = CONTEXT.add(person[0], CONTEXT.subtract(Decimal(1), Decimal(rate)))
    law: list[Decimal] = composed(person, people, _convolved)
    return as_law(law)


@functools.lru_cache(maxsize=32)
def hypergeometric_law(batch_size: int, others: int, group_size: int) -> Law:
    """(probabilities, log_probabilities) of Hypergeom(B, n + k, k) on 0, ..., min(k, B), for B <= n = `others`.

    p_{i+1} / p_i = (k - i)(B - i) / ((i + 1)(n - B + i + 1)),   p_0 = prod_{j<k} (n + k - B - j) / (n + k - j)
    """
    b, n, k = batch_size, others, group_size
    # p_0 = C(n + k - B, k) / C(n + k, k) is symmetric in k and B: take the shorter product.
    shorter, longer = min(k, b), max(k, b)
    first = Decimal(1)
    for j in range(shorter):
        factor = CONTEXT.divide(Decimal(n + k - longer - j), Decimal(n + k - j))
        first = CONTEXT.multiply(first, factor)

    def ratio(i: int) -> Decimal:
        return CONTEXT.divide(Decimal((k - i) * (b - i)), Decimal((i + 1) * (n - b + i + 1)))

    return as_law(recurrence(first, ratio, shorter))
