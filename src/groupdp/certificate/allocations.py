"""A group dealt to batches: the law of r = sum_t c_t^2, c_t its members in batch t, exact (C-3) or larger (C-27).

Laws are lists of (probability, r), rationals that sum to at most 1: what they lack is left out (C-5). Given r a run is
Gaussian, and leaks more the larger r is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flint import arb, arb_poly, ctx, fmpq, fmpz_poly

#: Most examples whose allocations are counted in whole numbers.
LARGEST_ALLOCATION = 64
#: Most products of balls for the law of more examples, and what that law may leave out: rather this, or at worst that.
_MOST_PRODUCTS, _RARE, _SELDOM = 60_000_000, fmpq(1, 10**50), fmpq(1, 10**35)
#: Numbers of pairs that a larger law tells apart: so many one by one, and so many spread over the rest.
_FIRST, _SPREAD = 50, 199


def thrown(size: int, batches: int, check: Callable[[], None] = lambda: None) -> tuple[list[Any], bool]:
    """`size` examples, each in any batch with the same probability, independently; and whether the law is larger."""
    if size <= LARGEST_ALLOCATION:
        return squares(math.comb, batches, [1] + [0] * size, size, batches**size, check), False
    found = squares_in_balls(size, batches, None, 0, check)
    if found:
        return found, False
    return larger_squares(size, fmpq(1, batches), fmpq(1, batches), batches, check), True


def dealt(size: int, batch: int, examples: int, check: Callable[[], None] = lambda: None) -> tuple[list[Any], bool]:
    """`size` of the examples in random order, cut into batches, the last one may be smaller; and whether the law is
    larger."""
    batches, rest = divmod(examples, batch)
    if size <= LARGEST_ALLOCATION:
        last = [math.comb(rest, c) for c in range(size + 1)]
        return squares(lambda _, c: math.comb(batch, c), batches, last, size, math.comb(examples, size), check), False
    found = squares_in_balls(size, batches, batch, rest, check) if size <= batches * batch else []
    if found:
        return found, False
    joining = fmpq(batch - 1, examples - size + 1)
    return larger_squares(size, joining, fmpq(batch, examples), -(-examples // batch), check), True


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


def squares_in_balls(
    size: int, batches: int, places: int | None, rest: int, check: Callable[[], None] = lambda: None
) -> list[Any]:
    """C-3 in balls, for numbers of pairs up to one that is seldom exceeded; nothing where that takes too long."""
    most, found = size * (size - 1) // 2, []
    last = min(most, 5 * size * size // (8 * batches) + 400)
    bits = 192 + (2 * size if size > batches + 1 else 0)  # terms of both signs cancel
    while size * crowd_of(last, size) * (last + 1) * bits <= _MOST_PRODUCTS * 192:
        with ctx.workprec(bits):
            law = law_in_balls(size, batches, places, rest, last, check)
            found = [(max(p.lower().fmpq(), fmpq(0)), fmpq(size + 2 * pairs)) for pairs, p in enumerate(law)]
        missing = 1 - sum((p for p, _ in found), fmpq(0))
        if missing <= _RARE or last == most:
            break
        last = min(most, 2 * last)
    return found if found and 1 - sum((p for p, _ in found), fmpq(0)) <= _SELDOM else []


def law_in_balls(
    size: int, batches: int, places: int | None, rest: int, last: int, check: Callable[[], None]
) -> list[arb]:
    """C-3 with f_j over its value at y = 1, the law of the pairs of j examples, as far as `last` pairs."""
    crowd, laws = crowd_of(last, size), [arb_poly([1])]
    for j in range(1, size + 1):
        check()
        total, weight = arb_poly([]), arb(1)
        for c in range(1, min(j, crowd) + 1):
            if places is None:
                weight *= fmpq(j - c + 1, c * batches)
            else:
                weight *= fmpq((places - c + 1) * (j - c + 1), c * (batches * places - j + c))
            shifted = (laws[j - c] * (weight * fmpq(c * (batches + 1) - j, j))).left_shift(math.comb(c, 2))
            total += shifted.truncate(last + 1)
            if c == places:
                break
        laws.append(total)
    result = laws[size]
    if rest and places is not None:  # c of the last batch: hypergeometric
        weight = arb(1)
        for i in range(size):
            weight *= fmpq(batches * places - i, batches * places + rest - i)
        result *= weight
        for c in range(1, min(rest, crowd, size) + 1):
            weight *= fmpq((rest - c + 1) * (size - c + 1), c * (batches * places - size + c))
            result += (laws[size - c] * weight).left_shift(math.comb(c, 2)).truncate(last + 1)
    return list(result.coeffs())


def crowd_of(pairs: int, size: int) -> int:
    """The most of `size` examples in one batch if no more pairs share one."""
    return min(size, (1 + math.isqrt(1 + 8 * pairs)) // 2)


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
