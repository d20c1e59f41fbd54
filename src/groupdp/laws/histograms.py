"""How many batches hold 1, 2, 3, ... of a group whose k members are thrown into N batches independently.

A *histogram* lists (count c, how many batches m_c hold exactly c members), the largest counts first. Its probability is

    N! / (N - m)! k! / (N^k prod_c c!^{m_c} m_c!),      m = sum_c m_c.

Up to a few dozen members every histogram is listed. Beyond, those below a threshold are left out: a prefix (j_c) of
histograms with at least j_c batches of count c >= 2 has in all a probability of at most the factorial moment

    E prod_c C(m_c, j_c) = N! / (N - J)! k! / (k - B)! / (N^B prod_c c!^{j_c} j_c!),     J = sum j_c, B = sum c j_c,

and what was left out is added up from these bounds. The rarer ones of the others are replaced by larger histograms
that several of them share (P-16); where they are too many to be listed, all of them, or by a chain of larger ones.
A histogram is larger if it has at least as many batches with at least c members, for every c.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from groupdp.errors import LimitExceeded
from groupdp.laws import CONTEXT

#: (count, number of batches), the largest counts first.
Histogram = tuple[tuple[int, int], ...]

#: Most histograms that are distinguished.
MOST_HISTOGRAMS = 1600
#: The likeliest ones are kept as they are if there are more; no effect on validity.
_LIKELIEST = 600
#: Grids that the others are rounded up to, and how many of them each grid may leave; no effect on validity.
_GRIDS, _CELLS = (8, 4, 3, 2, 1), 500
#: Thresholds and grids that all are rounded up to where they are too many to be listed; no effect on validity.
_WITH_GRIDS, _MOST_CELLS = ((Decimal(10) ** -13, 16), (Decimal(10) ** -11, 8)), 20_000
#: Prefixes and histograms that a search may visit.
_MOST_VISITS = 30_000
#: Largest group of which all histograms are listed: 1575 of them.
_LARGEST_COMPLETE = 24
#: For larger ones those less likely than the first threshold are left out; where they are too many, than the next.
_THRESHOLDS = (Decimal(10) ** -30, Decimal(10) ** -22)
#: Tail probabilities of the nested histograms that replace too many.
_TAILS = (0.8, 0.65, 0.5, 0.38, 0.28, 0.2, 0.14, 0.1, 0.06, 0.03, 0.015, *(10.0 ** -(0.5 * j) for j in range(5, 61)))


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
        search = _Search(group_size, batches, threshold, _MOST_VISITS)
        try:
            return HistogramLaw(tuple(_merged(search.histograms())), search.left_out)
        except _TooMany:
            continue
    for threshold, grid in _WITH_GRIDS:
        search = _Search(group_size, batches, threshold, 2 * _MOST_VISITS)
        try:
            return HistogramLaw(tuple(_merged(_rounded_prefixes(search, grid))), search.left_out)
        except _TooMany:
            continue
    return nested_histograms(group_size, batches)


def _merged(histograms: list[tuple[Histogram, Decimal]]) -> list[tuple[Histogram, Decimal]]:
    """The likeliest histograms, and larger ones that the others share, the rarer the more coarsely (P-16)."""
    if len(histograms) <= MOST_HISTOGRAMS:
        return histograms
    histograms.sort(key=lambda entry: entry[1], reverse=True)
    merged, others = histograms[:_LIKELIEST], histograms[_LIKELIEST:]
    finest, *coarser = _GRIDS
    cells, taken = _cells(others, finest)
    merged += cells
    for grid in coarser:
        cells, rest = _cells(others[taken:], grid)
        if taken + rest == len(others):
            return [*merged, *cells]
    raise _TooMany


def _cells(histograms: list[tuple[Histogram, Decimal]], grid: int) -> tuple[list[tuple[Histogram, Decimal]], int]:
    """The larger histograms that the first ones share, and how many they are that need no more than `_CELLS`."""
    cells = _Cells(grid)
    for index, (histogram, probability) in enumerate(histograms):
        cell, _ = cells.of(histogram)
        if cell not in cells.masses and len(cells.masses) == _CELLS:
            return cells.histograms(), index
        cells.add(cell, sum(bins for _, bins in histogram), probability)
    return cells.histograms(), len(histograms)


def _rounded_prefixes(search: _Search, grid: int) -> list[tuple[Histogram, Decimal]]:
    """The larger histograms that all share: of those with the same larger counts many at a time."""
    cells = _Cells(grid)
    for chosen, moment, members, free in search.prefixes():
        larger, rounded = cells.of(chosen)
        several = sum(bins for _, bins in chosen)
        runs: dict[int, tuple[int, Decimal]] = {}
        for pairs, alone, probability in search.pairs(moment, members, free):
            more = max(_rounded(several + pairs, grid) - rounded, 0)
            most, mass = runs.get(more, (0, Decimal(0)))
            runs[more] = max(most, several + pairs + alone), CONTEXT.add(mass, probability)
        for more, (most, mass) in runs.items():
            cells.add((*larger, (2, more)) if more else larger, most, mass)
        if len(cells.masses) > _MOST_CELLS:
            raise _TooMany
    return cells.histograms()


class _Cells:
    """Histograms that others are replaced by: the numbers of batches with at least c >= 2 members are rounded up to the
    grid, and so are counts above 4; of occupied batches there are as many as the most of those that share a cell."""

    def __init__(self, grid: int) -> None:
        self.grid = grid
        self.masses: dict[Histogram, tuple[int, Decimal]] = {}

    def of(self, histogram: Histogram) -> tuple[Histogram, int]:
        """The cell without single members, and the number of its batches."""
        larger: dict[int, int] = {}
        members = rounded = 0
        for c, bins in histogram:
            members += bins
            if c > 1 and (more := _rounded(members, self.grid) - rounded) > 0:
                count = _rounded(c, max(self.grid, 4))
                larger[count] = larger.get(count, 0) + more
                rounded += more
        return tuple(larger.items()), rounded

    def add(self, cell: Histogram, occupied: int, probability: Decimal) -> None:
        most, mass = self.masses.get(cell, (0, Decimal(0)))
        self.masses[cell] = max(most, occupied), CONTEXT.add(mass, probability)

    def histograms(self) -> list[tuple[Histogram, Decimal]]:
        alone = {cell: occupied - sum(bins for _, bins in cell) for cell, (occupied, _) in self.masses.items()}
        return [
            ((*cell, (1, alone[cell])) if alone[cell] > 0 else cell, mass) for cell, (_, mass) in self.masses.items()
        ]


def _rounded(number: int, grid: int) -> int:
    """The next multiple of the power of 2 that makes it at most `grid` of them."""
    step = 1
    while number > grid * step:
        step *= 2
    return -(-number // step) * step


def nested_histograms(group_size: int, batches: int) -> HistogramLaw:
    """Histograms h_1 <= h_2 <= ... with P(histogram not <= h_i) <= tail_i: the coin with these tails dominates (P-16).

    Count c has a share 1 / (c (c + 1)) of a tail.
    """
    likely = _at_least(group_size, batches)
    levels: dict[Histogram, float] = {}
    for tail in _TAILS:
        histogram: list[tuple[int, int]] = []
        occupied = [*(_quantile(p, batches, tail / (c * (c + 1.0))) for c, p in enumerate(likely, start=1)), 0]
        occupied = list(itertools.accumulate(occupied, min))
        for c, (bins, more) in enumerate(itertools.pairwise(occupied), start=1):
            histogram += [(c, bins - more)] if bins > more else []
        levels.setdefault(tuple(reversed(histogram)), tail)
    tails = [1.0, *levels.values()]
    probabilities = (CONTEXT.subtract(Decimal(high), Decimal(low)) for high, low in itertools.pairwise(tails))
    return HistogramLaw(tuple(zip(levels, probabilities, strict=True)), Decimal(tails[-1]))


def _at_least(k: int, n: int) -> list[float]:
    """P(Binom(k, 1/N) >= c) for c = 1, 2, ..., rounded up, until all batches' are below the last tail's share."""
    ways = [math.lgamma(k + 1) - math.lgamma(c + 1) - math.lgamma(k - c + 1) for c in range(k + 1)]
    logs = [ways[c] - c * math.log(n) + (k - c) * math.log1p(-1 / n) for c in range(k + 1)]
    room = 1.0 + 1e-13 * (math.lgamma(k + 1) + k * math.log(n) + 10.0)
    sums = [*itertools.accumulate(map(math.exp, reversed(logs)))][::-1]
    result = [min(total * room, 1.0) for total in sums[1:]]
    return result[: next((c for c, p in enumerate(result, 1) if n * p <= _TAILS[-1] / (c * (c + 1.0))), k)]


def _quantile(p: float, n: int, tail: float) -> int:
    """A number h with P(more than h of N batches) <= tail, each of which has probability p, negatively associated."""
    low, high = min(math.floor(n * p), n), n
    if n * p <= tail:
        return 0
    while low < high:
        middle = (low + high) // 2
        if _log_tail(p, n, middle + 1) <= math.log(tail):
            high = middle
        else:
            low = middle + 1
    return low


def _log_tail(p: float, n: int, j: int) -> float:
    """log of C(N, i) p^i / C(j, i), rounded up, for the i that makes it smallest: at least P(j or more batches)."""
    if j > n:
        return -math.inf
    i = min(max(math.ceil((j - n * p) / (1.0 - p)), 0), j) if p < 1.0 else 0
    terms = (math.lgamma(n + 1), -math.lgamma(n - i + 1), i * math.log(p), math.lgamma(j - i + 1), -math.lgamma(j + 1))
    return math.fsum(terms) + 1e-14 * math.fsum(map(abs, terms)) + 1e-9


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

    def __init__(self, k: int, n: int, threshold: Decimal, most_visits: int) -> None:
        self.members, self.size = k, n
        self.threshold = threshold
        self.left_out = Decimal(0)
        self.visits, self.most_visits = 0, most_visits
        #: (N)_m / N^m for m up to k.
        self.apart = [Decimal(1)]
        for j in range(min(k, n)):
            self.apart.append(CONTEXT.multiply(self.apart[-1], CONTEXT.divide(Decimal(n - j), Decimal(n))))

    def histograms(self) -> list[tuple[Histogram, Decimal]]:
        """All histograms that are likelier than the threshold."""
        found = []
        for chosen, moment, members, free in self.prefixes():
            for pairs, alone, probability in self.pairs(moment, members, free):
                if probability <= self.threshold:
                    self.left_out = CONTEXT.add(self.left_out, probability)
                    continue
                found.append((tuple((c, bins) for c, bins in (*chosen, (2, pairs), (1, alone)) if bins), probability))
        return found

    def prefixes(self) -> Iterator[tuple[Histogram, Decimal, int, int]]:
        """The batches with three and more members, largest counts first, and what is left, as in `_visit`."""
        return self._visit(3, (), Decimal(1), self.members, self.size)

    def _visit(
        self, c: int, chosen: Histogram, moment: Decimal, members: int, free: int
    ) -> Iterator[tuple[Histogram, Decimal, int, int]]:
        """All prefixes with the batches `chosen` of counts below c; `members` and `free` batches are left.

        `moment` is k! / (k - B)! / prod (c!^{j_c} j_c! N^{(c - 1) j_c}); times (N)_J / N^J it is the factorial moment.
        """
        self.visits += 1
        if self.visits > self.most_visits:
            raise _TooMany
        if c > members or free == 0:
            yield chosen, moment, members, free
            return
        rest = self._beyond(c, moment, members, free)
        if rest is not None:
            self.left_out = CONTEXT.add(self.left_out, rest)
            yield chosen, moment, members, free
            return
        number = 0
        while True:
            yield from self._visit(c + 1, ((c, number), *chosen) if number else chosen, moment, members, free)
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

    def pairs(self, moment: Decimal, members: int, free: int) -> Iterator[tuple[int, int, Decimal]]:
        """The number of batches with two of the members left, of those with one, and the probability."""
        pairs = 0
        while True:
            self.visits += 1
            used = self.size - free
            if members <= free:
                yield pairs, members, CONTEXT.multiply(moment, self.apart[used + members])
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
