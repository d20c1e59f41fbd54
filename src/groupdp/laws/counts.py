"""How many of the group's k examples a round's batch contains."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache

from groupdp.errors import LimitExceeded
from groupdp.laws.decimals import CONTEXT, as_law, recurrence
from groupdp.laws.large_groups import is_large, large_binomial_law
from groupdp.pairs import Law

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


@lru_cache(maxsize=64)
def binomial_law(group_size: int, rate: float) -> Law:
    """(probabilities, log_probabilities) of Binom(group_size, rate) on 0, ..., group_size."""
    if is_large(group_size, rate):
        return large_binomial_law(group_size, rate)
    return as_law(binomial_decimals(group_size, rate))


@lru_cache(maxsize=32)
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


def _convolved(first: list[Decimal], second: Iterable[Decimal]) -> list[Decimal]:
    factors = list(second)
    result = [Decimal(0)] * (len(first) + len(factors) - 1)
    for i, p in enumerate(first):
        if p:
            for j, q in enumerate(factors, start=i):
                result[j] = CONTEXT.fma(p, q, result[j])
    return result


@lru_cache(maxsize=32)
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

    if first == 0:  # B = n and k > 0 never reach here: n + k - B - j >= 1 for j < k when B <= n
        raise AssertionError("hypergeometric support must start at 0")

    def ratio(i: int) -> Decimal:
        return CONTEXT.divide(Decimal((k - i) * (b - i)), Decimal((i + 1) * (n - b + i + 1)))

    return as_law(recurrence(first, ratio, shorter))
