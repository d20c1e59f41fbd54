"""How many batches hold 1, 2, 3, ... of a group whose k members are thrown into N batches independently.

A *histogram* lists (count c, how many batches m_c hold exactly c members), the largest counts first. Its probability is

    N! / (N - m)! k! / (N^k prod_c c!^{m_c} m_c!),      m = sum_c m_c.

Up to a few dozen members every histogram is listed. Beyond, those below a threshold are left out: a prefix (j_c) of
histograms with at least j_c batches of count c >= 2 has in all a probability of at most the factorial moment

    E prod_c C(m_c, j_c) = N! / (N - J)! k! / (k - B)! / (N^B prod_c c!^{j_c} j_c!),     J = sum j_c, B = sum c j_c,

and what was left out is added up from these bounds. The rarer ones of the others are replaced by larger histograms
that several of them share (`_merged`, P-16); where all of them are rare, by a chain of larger ones
(`nested_histograms`, P-16).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from groupdp.errors import LimitExceeded
from groupdp.laws.precise import CONTEXT

#: (count, number of batches), the largest counts first.
Histogram = tuple[tuple[int, int], ...]

#: Most histograms that are distinguished.
MOST_HISTOGRAMS = 1600
#: The likeliest ones are kept as they are if there are more; no effect on validity.
_LIKELIEST = 1000
#: Prefixes and histograms that a search may visit.
_MOST_VISITS = 40_000
#: Largest group of which all histograms are listed: 1575 of them.
_LARGEST_COMPLETE = 24
#: For larger ones those less likely than the first threshold are left out; where they are too many, than the next.
_THRESHOLDS = tuple(Decimal(10) ** -exponent for exponent in (30, 22, 16, 13))
#: Tail probabilities of the nested histograms that replace too many.
_TAILS = (*(0.6, 0.4, 0.25, 0.15, 0.08, 0.04, 0.02), *(10.0 ** -(0.5 * j) for j in range(4, 121)))


@dataclass(frozen=True, slots=True)
class HistogramLaw:
    """Histograms with their probabilities, and a bound on the probability of all others."""

    histograms: tuple[tuple[Histogram, Decimal], ...]
    left_out: Decimal


class _TooMany(Exception):
    """A search met its limit."""


@lru_cache(maxsize=32)
def thrown_histograms(group_size: int, batches: int) -> HistogramLaw:
    """The law of the histogram: complete; or without rare ones, some of them merged; or a dominating chain."""
    if batches == 1:
        return HistogramLaw(((((group_size, 1),), Decimal(1)),), Decimal(0))
    for threshold in (Decimal(0),) if group_size <= _LARGEST_COMPLETE else _THRESHOLDS:
        search = _Search(group_size, batches, threshold)
        try:
            histograms = [
                entry for entry in search.visit(3, (), Decimal(1), group_size, batches) if search.is_kept(entry[1])
            ]
            return HistogramLaw(tuple(_merged(histograms)), search.left_out)
        except _TooMany:
            continue
    return nested_histograms(group_size, batches)


def _merged(histograms: list[tuple[Histogram, Decimal]]) -> list[tuple[Histogram, Decimal]]:
    """The likeliest histograms, and larger ones that the others share: the numbers of batches with c >= 2 members are
    rounded up to multiples of the first power of 2 that makes few of them; of single members the most (P-16)."""
    if len(histograms) <= MOST_HISTOGRAMS:
        return histograms
    histograms.sort(key=lambda entry: entry[1], reverse=True)
    kept, others = histograms[:_LIKELIEST], histograms[_LIKELIEST:]
    for multiple in (2, 4, 8, 16):
        cells: dict[Histogram, tuple[int, Decimal]] = {}
        for histogram, probability in others:
            rounded = tuple((c, -(-bins // multiple) * multiple) for c, bins in histogram if c > 1)
            alone = next((bins for c, bins in histogram if c == 1), 0)
            most, mass = cells.get(rounded, (0, Decimal(0)))
            cells[rounded] = max(most, alone), CONTEXT.add(mass, probability)
        if len(cells) <= MOST_HISTOGRAMS - _LIKELIEST:
            return [
                *kept,
                *(((*cell, (1, alone)) if alone else cell, mass) for cell, (alone, mass) in cells.items()),
            ]
    raise _TooMany


def nested_histograms(group_size: int, batches: int) -> HistogramLaw:
    """Histograms h_1 <= h_2 <= ... (more batches of every count) with P(histogram not <= h_i) <= tail_i (P-16).

    In the order of domination that is a chain, so the coin with exactly these tails dominates the law. With
    E C(m_c, i) = C(N, i) k! / (c!^i (k - ci)!) N^{-ci} (1 - i/N)^{k - ci}, Markov's inequality is
    P(m_c >= j) <= E C(m_c, i) / C(j, i) for every i <= j; count c has a share 2^-c of a tail.
    """
    levels: dict[Histogram, float] = {}
    for tail in _TAILS:
        histogram = []
        for c in range(1, group_size + 1):
            most = _quantile(c, group_size, batches, math.log(tail) - c * math.log(2.0))
            if most:
                histogram.append((c, most))
            elif 2 * (group_size - c) <= (c + 1) * (batches - 1):
                break  # E m_c <= 2^-c tail, and E m_{c+1} / E m_c = (k - c) / ((c + 1) (N - 1)) <= 1/2, and so on
        levels.setdefault(tuple(reversed(histogram)), tail)
    tails = [1.0, *levels.values()]
    probabilities = (CONTEXT.subtract(Decimal(high), Decimal(low)) for high, low in itertools.pairwise(tails))
    return HistogramLaw(tuple(zip(levels, probabilities, strict=True)), Decimal(tails[-1]))


def _quantile(c: int, k: int, n: int, log_tail: float) -> int:
    """A number h with P(m_c > h) <= e^log_tail."""
    most = min(k // c, n)
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if _log_tail(c, k, n, middle + 1) <= log_tail:
            high = middle
        else:
            low = middle + 1
    return low


def _log_tail(c: int, k: int, n: int, j: int) -> float:
    """log of a bound on P(m_c >= j), rounded up: the smallest over a few i."""
    best = 0.0
    for i in sorted({1, j, *(max(1, round(j * share)) for share in (0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8))}):
        if c * i > k or i > n:
            continue
        if i == n and k > c * i:  # no batch is left for the others
            return -math.inf
        apart = (k - c * i) * math.log1p(-i / n) if k > c * i else 0.0
        terms = (
            math.lgamma(n + 1) - math.lgamma(n - i + 1) - c * i * math.log(n),
            math.lgamma(k + 1) - i * math.lgamma(c + 1) - math.lgamma(k - c * i + 1),
            apart - math.lgamma(j + 1) + math.lgamma(j - i + 1),  # C(N, i) / C(j, i) = (N)_i / (j)_i
        )
        room = 1e-14 * (math.lgamma(n + 1) + math.lgamma(k + 1) + c * i * math.log(n)) + 1e-9
        best = min(best, math.fsum(terms) + room)
    return best


@lru_cache(maxsize=32)
def allocated_histograms(group_size: int, participations: int, batches: int) -> HistogramLaw:
    """The law of the histogram where each of k members is in e distinct batches of N, uniformly and independently.

    Member by member: of the m_c batches with count c, a_c are chosen with probability prod_c C(m_c, a_c) / C(N, e).
    """
    law: dict[Histogram, Decimal] = {(): Decimal(1)}
    whole = Decimal(math.comb(batches, participations))
    for _ in range(group_size):
        wider: dict[Histogram, Decimal] = {}
        for histogram, probability in law.items():
            empty = batches - sum(bins for _, bins in histogram)
            for chosen, ways in _choices((*histogram, (0, empty)), participations):
                share = CONTEXT.divide(CONTEXT.multiply(probability, Decimal(ways)), whole)
                wider[chosen] = CONTEXT.add(wider.get(chosen, Decimal(0)), share)
        law = wider
        if len(law) > MOST_HISTOGRAMS:
            raise LimitExceeded(
                f"the counts of {group_size} examples with {participations} participations each have too many "
                f"histograms, more than {MOST_HISTOGRAMS}: a smaller group or fewer participations are needed."
            )
    return HistogramLaw(tuple(law.items()), Decimal(0))


def _choices(histogram: Histogram, number: int) -> Iterator[tuple[Histogram, int]]:
    """Histograms after `number` batches took one more member, with the number of ways."""
    ranges = [range(min(bins, number) + 1) for _, bins in histogram]
    for taken in itertools.product(*ranges):
        if sum(taken) != number:
            continue
        after: dict[int, int] = {}
        for (c, bins), chosen in zip(histogram, taken, strict=True):
            after[c] = after.get(c, 0) + bins - chosen
            after[c + 1] = after.get(c + 1, 0) + chosen
        ways = math.prod(math.comb(bins, chosen) for (_, bins), chosen in zip(histogram, taken, strict=True))
        yield tuple((c, bins) for c, bins in sorted(after.items(), reverse=True) if c and bins), ways


class _Search:
    """Depth first over the numbers of batches with 3, 4, ... members; those with 2 of them last."""

    def __init__(self, k: int, n: int, threshold: Decimal) -> None:
        self.threshold = threshold
        self.left_out = Decimal(0)
        self.visits = 0
        self.size = n
        #: (N)_m / N^m for m up to k.
        self.apart = [Decimal(1)]
        for j in range(min(k, n)):
            self.apart.append(CONTEXT.multiply(self.apart[-1], CONTEXT.divide(Decimal(n - j), Decimal(n))))

    def is_kept(self, probability: Decimal) -> bool:
        if probability <= self.threshold:
            self.left_out = CONTEXT.add(self.left_out, probability)
            return False
        return True

    def visit(
        self, c: int, chosen: Histogram, moment: Decimal, members: int, free: int
    ) -> Iterator[tuple[Histogram, Decimal]]:
        """All histograms with the batches `chosen` of counts below c; `members` and `free` batches are left.

        `moment` is k! / (k - B)! / prod (c!^{j_c} j_c! N^{(c - 1) j_c}); times (N)_J / N^J it is the factorial moment.
        """
        self.visits += 1
        if self.visits > _MOST_VISITS:
            raise _TooMany
        if c > members or free == 0:
            yield from self._leaf(chosen, moment, members, free)
            return
        rest = self._beyond(c, moment, members, free)
        if rest is not None:
            self.left_out = CONTEXT.add(self.left_out, rest)
            yield from self._leaf(chosen, moment, members, free)
            return
        number = 0
        while True:
            yield from self.visit(c + 1, ((c, number), *chosen) if number else chosen, moment, members, free)
            if members < c or free == 0:
                return
            number += 1
            ways = math.comb(members, c)
            divisor = self.size ** (c - 1) * number
            factor = CONTEXT.divide(Decimal(ways), Decimal(divisor))
            moment = CONTEXT.multiply(moment, factor)
            members, free = members - c, free - 1
            bound = CONTEXT.multiply(moment, self.apart[self.size - free])
            if factor < 1 and bound < self.threshold:
                # At least `number` batches of count c: all of them together.
                self.left_out = CONTEXT.add(self.left_out, bound)
                return

    def _beyond(self, c: int, moment: Decimal, members: int, free: int) -> Decimal | None:
        """A bound on the probability of any further batch with c or more members, if that is below the threshold.

        From c to c + 1 the bound changes by (members - c) / ((c + 1) N), which falls with c.
        """
        ratio = CONTEXT.divide(Decimal(members), Decimal((c + 1) * self.size))
        if self.threshold == 0 or 2 * ratio > 1:
            return None
        first = CONTEXT.multiply(moment, CONTEXT.divide(Decimal(math.comb(members, c)), Decimal(self.size ** (c - 1))))
        bound = CONTEXT.multiply(CONTEXT.multiply(first, self.apart[self.size - free + 1]), Decimal(2))
        return bound if bound < self.threshold else None

    def _leaf(self, chosen: Histogram, moment: Decimal, members: int, free: int) -> Iterator[tuple[Histogram, Decimal]]:
        """The members left are alone in their batches, or two of them share one: every number of pairs."""
        pairs = 0
        while True:
            self.visits += 1
            used = self.size - free
            if members <= free:
                histogram = tuple((c, bins) for c, bins in (*chosen, (2, pairs), (1, members)) if bins)
                yield histogram, CONTEXT.multiply(moment, self.apart[used + members])
            if members < 2 or free == 0:
                return
            pairs += 1
            factor = CONTEXT.divide(Decimal(members * (members - 1)), Decimal(2 * self.size * pairs))
            moment = CONTEXT.multiply(moment, factor)
            members, free = members - 2, free - 1
            bound = CONTEXT.multiply(moment, self.apart[used + 1])
            if factor < 1 and bound < self.threshold:
                self.left_out = CONTEXT.add(self.left_out, bound)
                return
