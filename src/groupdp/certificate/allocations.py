"""A group dealt to batches: the law of r = sum_t c_t^2, c_t its members in batch t, exact (C-3) or larger (C-27).

Laws are lists of (probability, r), exact rationals: they sum to 1. Given r a run is Gaussian, and leaks more the larger
r is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flint import arb, fmpq, fmpz_poly

#: Most examples whose allocations are counted.
LARGEST_ALLOCATION = 64
#: Numbers of pairs that a larger law tells apart: so many one by one, and so many spread over the rest.
_FIRST, _SPREAD = 50, 199


def thrown(size: int, batches: int, check: Callable[[], None] = lambda: None) -> list[Any]:
    """`size` examples, each in any batch with the same probability, independently."""
    if size > LARGEST_ALLOCATION:
        return larger_squares(size, fmpq(1, batches), fmpq(1, batches), batches, check)
    return squares(math.comb, batches, [1] + [0] * size, size, batches**size, check)


def dealt(size: int, batch: int, examples: int, check: Callable[[], None] = lambda: None) -> list[Any]:
    """`size` of the examples in random order, cut into batches; the last one may be smaller."""
    if size > LARGEST_ALLOCATION:
        joining = fmpq(batch - 1, examples - size + 1)
        return larger_squares(size, joining, fmpq(batch, examples), -(-examples // batch), check)
    batches, last = examples // batch, [math.comb(examples % batch, c) for c in range(size + 1)]
    return squares(lambda _, c: math.comb(batch, c), batches, last, size, math.comb(examples, size), check)


def squares(
    ways: Callable[[int, int], int],
    batches: int,
    last: list[int],
    size: int,
    whole: int,
    check: Callable[[], None] = lambda: None,
) -> list[Any]:
    """C-3: the law of sum c_t^2 for `size` dealt to `batches`, and one more batch that takes c in last[c] ways.

    ways(j, c): in how many ways a batch takes c of j that are left.
    """
    powers = [fmpz_poly([1])]  # in y^(pairs in one batch): sum c_t^2 = size + 2 pairs
    for j in range(1, size + 1):
        check()
        total = fmpz_poly([])
        for c in range(1, j + 1):
            total += (powers[j - c] * ((c * (batches + 1) - j) * ways(j, c))).left_shift(math.comb(c, 2))
        powers.append(fmpz_poly([x // j for x in total.coeffs()]))
    ends = ((powers[size - c] * last[c]).left_shift(math.comb(c, 2)) for c in range(size + 1) if last[c])
    counts = sum(ends, fmpz_poly([])).coeffs()
    return [(fmpq(count, whole), fmpq(size + 2 * pairs)) for pairs, count in enumerate(counts) if count != 0]


def larger_squares(
    size: int, joining: fmpq, sharing: fmpq, batches: int, check: Callable[[], None] = lambda: None
) -> list[Any]:
    """C-27: a stochastically larger law. The i-th example joins an occupied batch with probability at most
    (i - 1) `joining`, and given that others are in a batch it is there with probability at most `sharing`."""
    if batches == 1:
        return [(fmpq(1), fmpq(size * size))]
    most = size * (size - 1) // 2
    limits = [limit for limit in (*range(2, 40), *(int(40 * 1.1**i) for i in range(60))) if limit < size]
    crowded = {limit: crowded_batch(size, sharing, batches, limit) for limit in limits}
    spread = (int(_FIRST * (most / _FIRST) ** (i / _SPREAD)) for i in range(_SPREAD))
    law, left = [], fmpq(1)
    for pairs in sorted({*range(_FIRST), *spread}):
        check()
        best = arb(1)  # P(more pairs than these), for the best limit on the members of one batch
        for limit, bound in crowded.items():
            if not bound < best:  # nor is it with the joinings; of balls that overlap neither is known to be smaller
                continue
            if 2 * pairs < size * (limit - 1):
                bound += many_joinings(joining * most, pairs // (limit - 1) + 1)
            best = best.min(bound)
        survival = min(left, best.upper().fmpq())
        law.append((left - survival, fmpq(size + 2 * pairs)))
        left = survival
    return [*law, (left, fmpq(size + 2 * most))]


def crowded_batch(size: int, sharing: fmpq, batches: int, limit: int) -> arb:
    """C-27: a bound on the probability that more than `limit` examples are in one batch."""
    together = math.comb(size, limit + 1) * arb(sharing) ** limit
    x, p = fmpq(limit + 1, size), sharing
    if x <= p or x == 1:
        return together
    divergence = x * arb(x / p).log() + (1 - x) * arb((1 - x) / (1 - p)).log()
    return together.min(batches * (-size * divergence).exp())


def many_joinings(mean: fmpq, least: int) -> arb:
    """C-27: Chernoff's bound on P(Z >= least), for E[e^{tZ}] <= e^{mean (e^t - 1)}."""
    if least <= mean:
        return arb(1)
    return (least - mean - least * arb(least / mean).log()).exp() if mean > 0 else arb(0)
