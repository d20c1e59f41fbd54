"""A group of k dealt to batches: the law of r = sum_t c_t^2, c_t the number of its members in batch t.

r = k + 2 W, W the pairs that share a batch. Up to `LARGEST_EXACT_GROUP` the law is exact: counts of allocations are
whole numbers. With N equal batches whose generating function is g(x) = sum_c g_c x^c y^{c^2} (g_c = C(B, c) ways to
fill c of B places, or 1/c! for balls thrown independently, where j! f_j is the whole number), the coefficients f_j of
g^N obey, since (g^N)' g = N g' g^N and g_0 = 1,

    f_j = (1/j) sum_{c = 1}^{j} (c (N + 1) - j) g_c y^{c^2} f_{j - c}.

Beyond, two laws enclose the true one (docs/internals/laws.md, P-9, P-20, P-21): a stochastically larger one serves
upper sides, a stochastically smaller one serves lower sides. Up to k = N + 1 no term of the recurrence is
negative, and the two laws differ by its rounding (`_by_recurrence`); beyond, they differ by the rounding of Fourier
transforms (`transformed`). Where either takes too long the two laws come from bounds on the tails alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from groupdp.floats import FloatArray
from groupdp.laws.allocation_tails import Dealing, Tails
from groupdp.laws.allocation_transform import Enclosed, transformed
from groupdp.pairs import Law

#: Up to this group size the law is exact.
LARGEST_EXACT_GROUP = 64
#: The law is computed up to the pairs that are exceeded with this probability at most; the first one that is quick.
_RARE = (1e-60, 1e-40, 1e-25)
#: Most products that the recurrence may take: some two seconds.
_MOST_PRODUCTS = 2_000_000_000
#: Values of W beyond the recurrence that the larger law tells apart.
_LEVELS = 200
#: More than all that underflows.
_UNDERFLOW = 1e-290
_U = 2.0**-53

#: Values of r in increasing order, with their law.
Values = tuple[FloatArray, Law]


class SquaresLaw(NamedTuple):
    """A law of r that is stochastically at least the true one, and one that is at most; the same if both are exact."""

    upper: Values
    lower: Values


_Counts = npt.NDArray[np.object_]


@lru_cache(maxsize=32)
def dealt_squares_law(group_size: int, batch_size: int, dataset_size: int) -> SquaresLaw:
    """r for a uniformly random permutation of n examples, cut into batches of B (the last one may be smaller)."""
    k, b, n = group_size, batch_size, dataset_size
    batches, remainder = divmod(n, b)
    if k > LARGEST_EXACT_GROUP:
        return _enclosing(Dealing(k, batches, b, remainder))
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
        return _enclosing(Dealing(k, batches))
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
    law = np.array(values, dtype=np.float64), (probabilities, logarithms)
    return SquaresLaw(law, law)


def _log_ratio(count: int, whole: int) -> float:
    """log(count / whole), right to a few units in the last place of the result."""
    if 2 * count > whole:
        return math.log1p(-((whole - count) / whole)) if count < whole else 0.0
    ratio = count / whole
    return math.log(ratio) if ratio > 1e-300 else math.log(count) - math.log(whole)


def _enclosing(allocation: Dealing) -> SquaresLaw:
    """Two laws between which r is, stochastically."""
    k, fewest, most = allocation.members, allocation.fewest_pairs, allocation.most_pairs
    if fewest == most:
        point = np.array([k + 2.0 * most]), (np.ones(1), np.zeros(1))
        return SquaresLaw(point, point)
    tails = Tails(allocation)
    spread = np.unique(np.round(np.geomspace(1.0, most - fewest, _LEVELS))) + (fewest - 1.0)
    levels = np.union1d(spread, tails.means())
    levels = levels[(levels >= fewest) & (levels < most)]
    above = np.minimum.accumulate(tails.above(levels))  # P(W > w) falls with w
    for seldom in _RARE:
        rare = int(np.argmax(above <= seldom)) if above[-1] <= seldom else len(levels)
        last = int(levels[rare]) if rare < len(levels) else most
        if not _is_quick(allocation, last):
            continue
        masses, error = _by_recurrence(allocation, last)
        pairs = np.concatenate((np.arange(last + 1.0), levels[rare + 1 :], [float(most)] if last < most else []))
        beyond = np.append(above[rare:], 0.0) if last < most else np.zeros(1)
        higher = np.concatenate((masses * (1.0 + error) + _UNDERFLOW, beyond[:-1] - beyond[1:]))
        lower = np.maximum(masses * (1.0 - error) - _UNDERFLOW, 0.0)
        return SquaresLaw(_largest_first(k, pairs, higher), _smallest_rest(k, pairs[: last + 1], lower))
    if (enclosed := transformed(allocation)) is not None:
        return _between(k, enclosed, levels, above, fewest, most)
    survival = np.concatenate(([1.0], above, [0.0]))
    largest = _largest_first(k, np.append(levels, float(most)), survival[:-1] - survival[1:])
    below = np.minimum(np.maximum.accumulate(tails.at_most(levels)), 1.0)  # P(W <= w) rises with w
    # W > w with probability at least 1 - below: put there W = w + 1
    gained = np.append(below[1:], 1.0) - below
    first = np.concatenate(([float(fewest)], levels + 1.0)), np.concatenate(([below[0]], gained))
    return SquaresLaw(largest, _smallest_rest(k, *first))


def _between(k: int, enclosed: Enclosed, levels: FloatArray, above: FloatArray, fewest: int, most: int) -> SquaresLaw:
    """Two laws from probabilities around the mean (P-21), P(W > w) at `levels` beyond (P-9), and crowded batches."""
    pairs = enclosed.first + np.arange(float(len(enclosed.least)))
    last = pairs[-1]
    farther = levels > last
    beyond = np.concatenate(([_at(levels, above, last)], above[farther], [0.0])) if last < most else np.zeros(1)
    masses = enclosed.most.copy()
    masses[-1] += enclosed.crowded
    higher = np.concatenate((masses, beyond[:-1] - beyond[1:]))
    places = np.concatenate((pairs, levels[farther], [float(most)] if last < most else []))
    with_rest = np.concatenate(([float(fewest)], pairs)), np.concatenate(([0.0], enclosed.least))
    if enclosed.first <= fewest:
        with_rest = pairs, enclosed.least
    return SquaresLaw(_largest_first(k, places, higher), _smallest_rest(k, *with_rest))


def _at(levels: FloatArray, above: FloatArray, pairs: float) -> float:
    """P(W > w) at most, from the next lower level."""
    place = int(np.searchsorted(levels, pairs, side="right"))
    return float(above[place - 1]) if place else 1.0


def _is_quick(allocation: Dealing, last: int) -> bool:
    """Whether the recurrence has no negative terms, and takes few enough products up to `last` pairs."""
    k = allocation.members
    return k <= allocation.batches + 1 and k * _crowd(last, k) * (last + 1.0) <= _MOST_PRODUCTS


def _crowd(pairs: int, k: int) -> int:
    """The most members of one batch if no more pairs share one."""
    return min(k, (1 + math.isqrt(1 + 8 * pairs)) // 2)


def _by_recurrence(allocation: Dealing, last: int) -> tuple[FloatArray, float]:
    """P(W = w) for w = 0, ..., last and k <= N + 1, with a bound on the relative error (beside 1e-300).

    With f_j over its value at y = 1 the law F_j of W for j members, the recurrence is a mixture (P-20):

        F_j(w) = sum_c m(j, c) F_{j - c}(w - c (c - 1)/2),
        m(j, c) = (c (N + 1) - j)/j prod_{i < c} (B - i)/(i + 1) (j - i)/(N B - j + i + 1),

    the product being prod_{i < c} (j - i)/((i + 1) N) for members who are thrown. More than `last` pairs never become
    fewer.
    """
    k, n, b = allocation.members, allocation.batches, allocation.places
    crowd = _crowd(last, k)
    c = np.arange(1.0, crowd + 1.0)
    fixed = np.maximum(b - c + 1.0, 0.0) / c if b else 1.0 / (c * n)
    laws = np.zeros((crowd + 1, last + 1))  # of the last few numbers of members, j in row j mod (crowd + 1)
    laws[0, 0] = 1.0
    shifts = [count * (count - 1) // 2 for count in range(crowd + 1)]
    with np.errstate(under="ignore"):
        for j in range(1, k + 1):
            factors = fixed * np.maximum(j - c + 1.0, 0.0)
            if b:
                factors /= n * b - j + c
            mixture = np.cumprod(factors) * ((c * (n + 1.0) - j) / j)
            laws[j % len(laws)] = _mixed(laws, mixture.tolist(), shifts, j)
        result = laws[k % len(laws)]
        if allocation.rest:  # c of the last batch's places are taken: hypergeometric
            whole = n * b + allocation.rest
            i = np.arange(float(k))
            none = float(np.prod((n * b - i) / (whole - i)))
            factors = np.maximum(allocation.rest - c + 1.0, 0.0) / c * np.maximum(k - c + 1.0, 0.0) / (n * b - k + c)
            result = _mixed(laws, (none * np.cumprod(factors)).tolist(), shifts, k) + none * result
    return result, 1.01 * _U * (k + 1.0) * (crowd + 20.0)


def _mixed(laws: FloatArray, mixture: list[float], shifts: list[int], j: int) -> FloatArray:
    """sum_c m_c F_{j - c}(w - c (c - 1)/2) over c >= 1."""
    total = np.zeros(laws.shape[1])
    for count, weight in enumerate(mixture[:j], start=1):
        if weight > 0.0:
            shift = shifts[count]
            total[shift:] += weight * laws[(j - count) % len(laws), : laws.shape[1] - shift]
    return total


def _largest_first(k: int, pairs: FloatArray, masses: FloatArray) -> Values:
    """The law with these masses on the largest numbers of pairs, as far as they add up to at most 1."""
    from_above = np.cumsum(masses[::-1])[::-1]
    first = int(np.argmax(from_above < 1.0))  # the rest of 1 belongs to the one before
    if from_above[0] < 1.0 or first == 0:
        first = 1 if from_above[0] < 1.0 else len(masses)
    masses = masses[first - 1 :].copy()
    masses[0] = max(1.0 - math.fsum(masses[1:]), 0.0)
    return _as_law(k, pairs[first - 1 :], masses)


def _smallest_rest(k: int, pairs: FloatArray, masses: FloatArray) -> Values:
    """The law with these masses; the rest of 1 goes to the fewest pairs."""
    masses = masses.copy()
    masses[0] = max(1.0 - math.fsum(masses[1:]), 0.0)
    return _as_law(k, pairs, masses)


def _as_law(k: int, pairs: FloatArray, masses: FloatArray) -> Values:
    keep = masses > 0.0
    pairs, masses = pairs[keep], masses[keep]
    total = math.fsum(masses)
    logarithms = np.minimum(np.log(masses) - math.log(total), 0.0)
    top = int(np.argmax(masses))
    if masses[top] > 0.5 * total:
        logarithms[top] = math.log1p(-min(math.fsum(np.delete(masses, top)) / total, 1.0))
    return k + 2.0 * pairs, (masses / total, logarithms)
