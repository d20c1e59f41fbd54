"""A group dealt to batches: the law of r = sum_t c_t^2, c_t its members in batch t, exact (C-3) or larger (C-27).

Laws are lists of (probability, r), rationals that sum to at most 1: what they lack is left out (C-5). Given r a run is
Gaussian, and leaks more the larger r is. An epoch whose allocation stays hidden is dominated by coins over products of
R(M, s), in exact rationals (C-30).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

from flint import arb, arb_poly, ctx, fmpq, fmpz_poly

from groupdp.certificate.checker.lines import Factor, Hidden, Product
from groupdp.certificate.checker.reading import LARGEST_DATASET, LARGEST_GROUP, Undecided, hint, integer

#: Most examples whose allocations are counted in whole numbers.
LARGEST_ALLOCATION = 64
#: Most products of balls for the law of larger groups; the probability it leaves out: the aim, and the most accepted.
_MOST_PRODUCTS, _RARE, _SELDOM = 60_000_000, fmpq(1, 10**50), fmpq(1, 10**35)
#: Numbers of pairs that a larger law distinguishes: the first ones singly, the others in groups.
_FIRST, _SPREAD = 50, 199


def thrown(size: int, batches: int, check: Callable[[], None] = lambda: None) -> tuple[list[Any], bool]:
    """`size` examples, each in any batch with the same probability, independently; and whether the law is larger."""
    if size <= LARGEST_ALLOCATION:
        return squares(math.comb, batches, [1] + [0] * size, size, batches**size, check), False
    squared = squares_in_balls(size, batches, None, 0, check)
    if squared:
        return squared, False
    return larger_squares(size, fmpq(1, batches), fmpq(1, batches), batches, check), True


def dealt(size: int, batch: int, examples: int, check: Callable[[], None] = lambda: None) -> tuple[list[Any], bool]:
    """`size` of the examples in random order, cut into batches, the last one may be smaller; and whether the law is
    larger."""
    batches, rest = divmod(examples, batch)
    if size <= LARGEST_ALLOCATION:
        last = [math.comb(rest, c) for c in range(size + 1)]
        return squares(lambda _, c: math.comb(batch, c), batches, last, size, math.comb(examples, size), check), False
    squared = squares_in_balls(size, batches, batch, rest, check) if size <= batches * batch else []
    if squared:
        return squared, False
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
    """C-3 in balls, up to a number of pairs that is seldom exceeded; an empty list where that takes too long."""
    most, squared = size * (size - 1) // 2, []
    last = min(most, 5 * size * size // (8 * batches) + 400)
    bits = 192 + (2 * size if size > batches + 1 else 0)  # terms of both signs cancel
    while size * crowd_of(last, size) * (last + 1) * bits <= _MOST_PRODUCTS * 192:
        with ctx.workprec(bits):
            law = law_in_balls(size, batches, places, rest, last, check)
            squared = [(max(p.lower().fmpq(), fmpq(0)), fmpq(size + 2 * pairs)) for pairs, p in enumerate(law)]
        missing = 1 - sum((p for p, _ in squared), fmpq(0))
        if missing <= _RARE or last == most:
            break
        last = min(most, 2 * last)
    return squared if squared and 1 - sum((p for p, _ in squared), fmpq(0)) <= _SELDOM else []


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


#: Most histograms of counts that are distinguished.
MOST_HISTOGRAMS = 2_000
#: Most ways of one member to join batches of several counts.
_MOST_CHOICES = 100_000
#: (count, number of batches), the largest counts first.
Histogram = tuple[tuple[int, int], ...]
Rounds = list[tuple[Hidden, int]]


def hidden_rounds(
    phase: dict[str, Any], sizes: tuple[int, int], unit: fmpq, steps: int, law: Any, check: Callable[[], None]
) -> Rounds:
    """sizes[0] leave and sizes[1] join; `unit` is the square of one example's shift. Some leave and others join: each
    with a share of the noise (P-18)."""
    rounds: Rounds = []
    for size, reverse in zip(sizes, (False, True), strict=True):
        if size:
            for members, square, copies in parts_of(phase, size, unit * fmpq(sum(sizes), size), law):
                for round_, times in one_sided(phase, members, square, steps, law, check):
                    larger = round_.larger or 0 not in sizes or members < size
                    rounds.append((Hidden(round_.coin, reverse, round_.missing, larger), copies * times))
    return rounds


def parts_of(phase: dict[str, Any], size: int, square: fmpq, law: Any) -> list[tuple[int, fmpq, int]]:
    """(members, their squared shift, how often): `parts` of independent members, each with its share of the noise."""
    if not (isinstance(law, dict) and "parts" in law):
        return [(size, square, 1)]
    parts = law["parts"]
    if phase["sampling"] == "spread" or type(parts) is not int or not 1 <= parts <= size:
        raise Undecided("a group may have as many parts as members, who must be independent")
    fewest, more = divmod(size, parts)
    listed = ((fewest + 1, more), (fewest, parts - more))
    return [(members, square * fmpq(size, members), times) for members, times in listed if times]


def one_sided(
    phase: dict[str, Any], size: int, square: fmpq, steps: int, law: Any, check: Callable[[], None]
) -> Rounds:
    """`size` examples leave, each with the squared shift `square`."""
    batches = integer(phase["batches"], "batches", 1, LARGEST_DATASET)
    often = integer(phase.get("participations", 1), "participations", 1, batches)
    whole, rest = divmod(steps, batches)
    if size == often == 1:  # exact (P-13)
        full, cut = Factor(batches, square), Factor(max(rest, 1), square, fmpq(max(rest, 1), batches))
        listed = ((Hidden([(fmpq(1), ((full, 1),))]), whole), (Hidden([(fmpq(1), ((cut, 1),))]), int(rest > 0)))
        return [(round_, times) for round_, times in listed if times]
    epochs = whole + (rest > 0)
    if phase["sampling"] == "spread":  # P-14
        share = size // batches
        if share and not (phase.get("evenly", False) is True or size == batches):
            raise Undecided("a person with more examples than batches needs `evenly`")
        product = (
            ((Factor(1, square * even_squares(size, batches)), 1),) if share else blocks(((1, size),), batches, square)
        )
        return [(Hidden([(fmpq(1), product)], larger=True), epochs)]
    if isinstance(law, dict) and "single" in law:
        if often > 1:
            raise Undecided("collisions are hidden for balls in bins only")
        return [(hidden_collisions(size, batches, square, law), epochs)]
    least = hint(law, "least", 0, 1) if isinstance(law, dict) else 0.0
    coin: dict[Product, fmpq] = {}
    for histogram, probability in histograms(size, often, batches, check).items():
        if arb(probability) < least:  # blocks of one batch
            product = ((Factor(1, square * sum(c * c * bins for c, bins in histogram)), 1),)
        else:
            product = blocks(histogram, batches, square)
        coin[product] = coin.get(product, fmpq(0)) + probability
    return [(Hidden([(p, product) for product, p in coin.items()], larger=True), epochs)]


def even_squares(size: int, batches: int) -> int:
    """sum_t c_t^2 of counts that are as even as possible."""
    share, more = divmod(size, batches)
    return (batches - more) * share**2 + more * (share + 1) ** 2


def blocks(histogram: Histogram, batches: int, square: fmpq) -> Product:
    """P-15: blocks of floor and ceil of N / m batches, the larger ones for the larger counts."""
    size, larger = divmod(batches, sum(bins for _, bins in histogram))
    factors: list[tuple[Factor, int]] = []
    for count, bins in histogram:
        above = min(bins, larger)
        larger -= above
        for places, times in ((size + 1, above), (size, bins - above)):
            if times:
                factors.append((Factor(places, square * count**2), times))
    return tuple(factors)


def histograms(size: int, often: int, batches: int, check: Callable[[], None]) -> dict[Histogram, fmpq]:
    """How many batches hold 1, 2, ... of `size` members, each in `often` distinct ones of all `batches`, uniformly.

    Member by member: of the m_c batches with count c, a_c are chosen with probability prod_c C(m_c, a_c) / C(N, e).
    """
    law: dict[Histogram, fmpq] = {(): fmpq(1)}
    if often * math.log2(batches) > 10_000:
        raise Undecided("the participations of an allocation are too many")
    whole = math.comb(batches, often)
    for _ in range(size):
        wider: dict[Histogram, fmpq] = {}
        for histogram, probability in law.items():
            check()
            empty = batches - sum(bins for _, bins in histogram)
            for chosen, ways in choices((*histogram, (0, empty)), often):
                wider[chosen] = wider.get(chosen, fmpq(0)) + probability * fmpq(ways, whole)
        law = wider
        if len(law) > MOST_HISTOGRAMS:
            raise Undecided(f"the counts of the group have more than {MOST_HISTOGRAMS} histograms")
    return law


def choices(histogram: Histogram, number: int) -> Iterator[tuple[Histogram, int]]:
    """Histograms after `number` batches took one more member, with the number of ways."""
    ranges = [range(min(bins, number) + 1) for _, bins in histogram]
    if math.prod(map(len, ranges)) > _MOST_CHOICES:
        raise Undecided("the participations of an allocation are too many")
    for taken in itertools.product(*ranges):
        if sum(taken) != number:
            continue
        after: dict[int, int] = {}
        ways = 1
        for (c, bins), chosen in zip(histogram, taken, strict=True):
            after[c] = after.get(c, 0) + bins - chosen
            after[c + 1] = after.get(c + 1, 0) + chosen
            ways *= math.comb(bins, chosen)
        yield tuple((c, bins) for c, bins in sorted(after.items(), reverse=True) if c and bins), ways


def hidden_collisions(size: int, batches: int, square: fmpq, law: dict[str, Any]) -> Hidden:
    """P-17 with `single` batches in the blocks of single members, and M in the block (c, i) of `blocks`: (c, i, M)."""
    k, n, listed = size, batches, law.get("blocks")
    if not k < n or not isinstance(listed, list) or len(listed) > 2 * LARGEST_GROUP:
        raise Undecided("collisions are hidden for groups smaller than the number of batches, with a list of blocks")
    sizes: dict[tuple[int, int], int] = {}
    for block in listed:
        if not isinstance(block, list) or len(block) != 3 or any(type(part) is not int for part in block):
            raise Undecided("a block is a list of three integers")
        sizes[block[0], block[1]] = block[2]
    single = law["single"]
    if type(single) is not int or min([single, *sizes.values()]) < 1 or k * single + sum(sizes.values()) > n:
        raise Undecided("the blocks must have a batch each, and no more than there are")
    factors, missing, used = [(Factor(single, square), k)], fmpq(0), 0
    for c in range(2, k + 1):
        chain = fmpq(1)  # the probability that blocks (c, 1), ..., (c, i) are all occupied
        for i in range(1, k // c + 1):
            p = fmpq(n * math.comb(k - c * (i - 1), c), i * (n - k) ** c)
            p = p if p < 1 else fmpq(1)
            chain *= p
            if (c, i) not in sizes:
                missing += chain
                break
            factors.append((Factor(sizes[c, i], square * c**2, p), 1))
            used += 1
    if used < len(listed):
        raise Undecided("a block is listed twice, or without those before it")
    merged: dict[Factor, int] = {}
    for factor, times in factors:
        merged[factor] = merged.get(factor, 0) + times
    return Hidden([(fmpq(1), tuple(merged.items()))], missing=missing, larger=True)
