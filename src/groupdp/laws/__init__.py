"""Exact laws of how much of a group is in a batch, correct to the last bits of a double.

truncated     Poisson batches cut to a largest size: members kept and others displaced
allocation    sums of squared counts when a group is dealt to batches (allocation_tails, allocation_transform)
blocks        coins over allocations, from the laws of collisions (histograms)

Here: the arithmetic, and how many of the group's k examples a round's batch contains (binomial, hypergeometric, sums of
binomials, people). A relative error e in a probability moves epsilon by about (steps x e), and differences of log-gamma
functions lose 1e-11 at a dataset of 50 000. So laws are computed in decimals of 40 digits: every probability is then
correct to the last bit of the double it is rounded to, nothing underflows, and logarithms are available where the
double is zero. Binomial laws of large groups are products of factors (k - j) / (j + 1) q / (1 - q) in vectors of
unevaluated sums of two doubles (Dekker 1971), each right to 2^-98 and multiplied with an error of at most 2^-100: for
the largest group, 100 000, all are right to 2^-80 before they are rounded. Powers of two are kept apart.
"""

from __future__ import annotations

import functools
import math
from array import array
from collections.abc import Callable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

import numpy as np
import numpy.typing as npt

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
    ratios = _scaled(vector_multiply(vector_divide(group_size - i, i + 1.0), odds[:2]), odds[2])
    first = _from_decimal(CONTEXT.power(complement, Decimal(group_size)))
    high, _, exponents = (np.concatenate(parts) for parts in zip(first, _times(_products(ratios), first), strict=True))
    with np.errstate(under="ignore"):
        probabilities = np.ldexp(high, exponents)
    logarithms = exponents * _LOG_2_HIGH + (np.log(high) + exponents * _LOG_2_LOW)
    for values in (probabilities, logarithms):
        values.setflags(write=False)
    return probabilities, logarithms


def _products(factors: Scaled) -> Scaled:
    """The products of the first 1, 2, 3, ... factors: along rows, then over the rows before."""
    count = len(factors[0])
    width = count if count <= 4 else math.isqrt(count - 1) + 1
    rows = -(-count // width)
    padding = rows * width - count
    high, low, exponents = (
        np.append(part, np.full(padding, neutral)).reshape(rows, width)
        for part, neutral in zip(factors, (0.5, 0.0, 1), strict=True)
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
    return _scaled(vector_multiply(x[:2], y[:2]), x[2] + y[2])


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
    if is_large(group_size, rate):
        return large_binomial_law(group_size, rate)
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
