"""A group of k dealt to batches: the law of r = sum_t c_t^2, c_t the number of its members in batch t.

Up to `LARGEST_EXACT_GROUP` the law is exact: counts of allocations are whole numbers. With N equal batches whose
generating function is g(x) = sum_c g_c x^c y^{c^2} (g_c = C(B, c) ways to fill c of B places, or 1/c! for balls thrown
independently, where j! f_j is the whole number), the coefficients f_j of g^N obey, since (g^N)' g = N g' g^N and g_0 =
1,

    f_j = (1/j) sum_{c = 1}^{j} (c (N + 1) - j) g_c y^{c^2} f_{j - c}.

Beyond, a law of larger values is returned (docs/samplings.md, P-9). Whoever is dealt i-th joins an occupied batch with
probability at most (i - 1) p, whatever came before, p = 1/N or (B - 1)/(n - k + 1): the number Z of joinings has
E[e^{tZ}] <= e^{mu (e^t - 1)}, mu = p k (k - 1)/2. If no batch has more than L members, each joining adds at most L - 1
pairs, there are at most k (L - 1)/2 of them, and r = k + 2 pairs. So for every L

    P(r > k + 2 y) <= P((L - 1) Z > y) [y < k (L - 1)/2] + P(some batch has more than L),

the last one at most C(k, L + 1) p'^L and at most N times the binomial Chernoff bound, p' = B/n (1/N).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from groupdp.pairs import FloatArray, Law

#: Up to this group size the law is exact.
LARGEST_EXACT_GROUP = 64
#: Relative slack of the bound's floating-point evaluation: a few hundred roundings.
_SLACK = 1e-12
#: No bound is below this: it could have underflowed.
_LEAST = 1e-300
#: Values of r that the bound tells apart.
_LEVELS = 200

#: Values of r in increasing order, with their law.
SquaresLaw = tuple[FloatArray, Law]
_Counts = npt.NDArray[np.object_]


@lru_cache(maxsize=32)
def dealt_squares_law(group_size: int, batch_size: int, dataset_size: int) -> SquaresLaw:
    """r for a uniformly random permutation of n examples, cut into batches of B (the last one may be smaller)."""
    k, b, n = group_size, batch_size, dataset_size
    batches, remainder = divmod(n, b)
    if k > LARGEST_EXACT_GROUP:
        joining = (b - 1) / (n - k + 1) if n >= k else 1.0
        return _larger_law(k, joining, b / n, -(-n // b))
    ways = [math.comb(b, c) for c in range(k + 1)]
    counts = _powers(batches, k, lambda _, c: ways[c])
    if remainder:
        counts = _with_one_more(counts, [math.comb(remainder, c) for c in range(k + 1)], k)
    return _as_squares(counts[k], math.comb(n, k))


@lru_cache(maxsize=32)
def thrown_squares_law(group_size: int, batches: int) -> SquaresLaw:
    """r for k members thrown into N batches, each independently and uniformly."""
    k = group_size
    if k > LARGEST_EXACT_GROUP:
        return _larger_law(k, 1.0 / batches, 1.0 / batches, batches)
    return _as_squares(_powers(batches, k, math.comb)[k], batches**k)


def _powers(batches: int, k: int, ways: Callable[[int, int], int]) -> list[_Counts]:
    """f_0, ..., f_k as vectors over r of whole numbers; ways(j, c) is g_c (times j! / (j - c)! if members are
    labelled)."""
    counts = [_vector(0, {0: 1})]
    for j in range(1, k + 1):
        total = _vector(j * j, {})
        for c in range(1, j + 1):
            before = counts[j - c]
            total[c * c : c * c + len(before)] += (c * (batches + 1) - j) * ways(j, c) * before
        counts.append(total // j)
    return counts


def _with_one_more(counts: list[_Counts], ways: list[int], k: int) -> list[_Counts]:
    """The product with one batch of another size, of which only the k-th coefficient is needed."""
    total = _vector(k * k, {})
    for c in range(k + 1):
        if ways[c]:
            before = counts[k - c]
            total[c * c : c * c + len(before)] += ways[c] * before
    return [*counts[:k], total]


def _vector(largest: int, entries: dict[int, int]) -> _Counts:
    result: _Counts = np.zeros(largest + 1, dtype=object)
    for place, count in entries.items():
        result[place] = count
    return result


def _as_squares(counts: _Counts, whole: int) -> SquaresLaw:
    values = [r for r, count in enumerate(counts.tolist()) if count]
    present = [int(counts[r]) for r in values]
    if sum(present) != whole:
        raise AssertionError("the allocations must add up to all of them")
    probabilities = np.array([count / whole for count in present])
    logarithms = np.array([_log_ratio(count, whole) for count in present])
    return np.array(values, dtype=np.float64), (probabilities, logarithms)


def _log_ratio(count: int, whole: int) -> float:
    """log(count / whole), right to a few units in the last place of the result."""
    if 2 * count > whole:
        return math.log1p(-((whole - count) / whole)) if count < whole else 0.0
    ratio = count / whole
    return math.log(ratio) if ratio > 1e-300 else math.log(count) - math.log(whole)


def _larger_law(k: int, joining: float, sharing: float, batches: int) -> SquaresLaw:
    """A law that is stochastically larger than that of r."""
    if batches == 1:
        return np.array([float(k) ** 2]), (np.ones(1), np.zeros(1))
    most = k * (k - 1) / 2
    levels = np.unique(np.floor(np.concatenate((np.arange(50.0), np.geomspace(50.0, max(most, 50.0), _LEVELS)))))
    levels = levels[levels < most]
    mean = joining * k * (k - 1) / 2.0 * (1.0 + _SLACK)
    beyond = np.minimum(np.array([_beyond(k, mean, sharing, batches, y) for y in levels.tolist()]), 1.0)
    beyond = np.minimum.accumulate(beyond)  # P(r > k + 2 y) falls with y
    survival = np.concatenate(([1.0], beyond, [0.0]))
    masses = survival[:-1] - survival[1:]
    values = k + 2.0 * np.append(levels, most)
    keep = masses > 0.0
    masses, values = masses[keep], values[keep]
    # Sums of these differences telescope up to a few hundred roundings, which _SLACK covers.
    total = math.fsum(masses)
    logarithms = np.log(masses) - math.log(total)
    top = int(np.argmax(masses))
    if masses[top] > 0.5 * total:
        logarithms[top] = math.log1p(-math.fsum(np.delete(masses, top)) / total)
    return values, (masses / total, logarithms)


def _beyond(k: int, mean: float, sharing: float, batches: int, y: float) -> float:
    """The smallest bound on P(r > k + 2 y) over L, rounded up."""
    best = 1.0
    for largest in sorted({*range(2, min(k, 40) + 1), *(int(40 * 1.1**i) for i in range(60))}):
        if largest >= k:
            break
        crowded = _crowded(k, sharing, batches, largest)
        if crowded < best:
            joined = _poisson_tail(mean, math.floor(y / (largest - 1)) + 1) if 2.0 * y < k * (largest - 1) else 0.0
            best = min(best, joined + crowded)
    return max(best * (1.0 + _SLACK), _LEAST)


def _crowded(k: int, p: float, batches: int, largest: int) -> float:
    """A bound on the probability that some batch has more than `largest` members."""
    x = (largest + 1) / k
    log_ways = math.lgamma(k + 1) - math.lgamma(largest + 2) - math.lgamma(k - largest)
    log_bound = log_ways + largest * math.log(p)
    if x > p:
        rest = (1.0 - x) * math.log((1.0 - x) / (1.0 - p)) if x < 1.0 else 0.0
        log_bound = min(log_bound, math.log(batches) - k * (x * math.log(x / p) + rest))
    return math.exp(min(log_bound + 1e-9 * (1.0 + abs(log_ways) + abs(log_bound)), 0.0))


def _poisson_tail(mean: float, least: int) -> float:
    """Chernoff: P(Z >= z) <= exp(-(z log(z / mean) - z + mean)) for z > mean."""
    if mean == 0.0:
        return 0.0 if least > 0 else 1.0
    if least <= mean:
        return 1.0
    exponent = least * math.log(least / mean) - least + mean
    return math.exp(-max(exponent - 1e-12 * (least + mean + least * abs(math.log(least / mean))), 0.0))
