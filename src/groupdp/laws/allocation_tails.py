"""Bounds on both tails of W = sum_t c_t (c_t - 1)/2, the pairs that share a batch (docs/internals/laws.md, P-9).

With g_L(x, y) = sum_{c <= L} g_c x^c y^{c (c - 1)/2} for one batch (g_c = C(B, c) if the group is dealt to places, 1/c!
if it is thrown), a smaller last batch likewise, and A the k-th coefficient of the product at y = 1 without a limit on c
(C(n, k), or N^k / k!), for every x > 0 and t > 0

    P(W > w)  <= P(some c_t > L) + e^{-t (w + 1)} x^{-k} g_L(x, e^t)^N I(N D) / A,
    P(W <= w) <= P(some c_t > L) + e^{t w} x^{-k} g_L(x, e^-t)^N I(N D) / A,

D = sum_c a_c a_{c + 1} of the law a_c that is proportional to the terms of g_L, I(z) = e^-z I_0(z): over x^-k g_L^N the
coefficient is the probability that N independent counts of that law sum to k, at most the integral of |phi|^N over 2
pi, and |phi(u)|^2 <= 1 - 2 D (1 - cos u). Also P(W > w) <= P(some c_t > L) for w >= k (L - 1)/2. P(some c_t > L) is at
most C(k, L + 1) s^L and at most N times the binomial Chernoff bound, s = B/n (1/N).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from groupdp.floats import FloatArray

#: Tilts t of each sign, multiples of one deviation of W.
_TILTS = np.geomspace(3e-3, 60.0, 64)
#: Limits L on the members of one batch: the smallest ones whose excess is less likely than e to these powers.
_CROWDED = (-3.0, -7.0, -14.0, -25.0, -40.0, -60.0, -100.0, -200.0, -400.0, -700.0)
#: Largest limit with tilts: sums over all counts up to it are taken some thousand times.
_MOST_COUNTS = 2_000
#: No bound is below this: it could have underflowed.
LEAST = 1e-300
_U = 2.0**-53


@dataclass(frozen=True, slots=True)
class Dealing:
    """k members, and N batches of B places with a last one of `rest` places; B = 0 if members are thrown."""

    members: int
    batches: int
    places: int = 0
    rest: int = 0

    @property
    def most_pairs(self) -> int:
        """The most pairs that share a batch."""
        k, b = self.members, self.places
        if b == 0:
            return k * (k - 1) // 2
        # Full batches hold the most; with one batch more than these can hold, the last one takes what is left.
        full, left = divmod(k, b)
        return full * (b * (b - 1) // 2) + left * (left - 1) // 2

    @property
    def fewest_pairs(self) -> int:
        """A lower bound on the pairs that share a batch: as if all were spread evenly over all batches."""
        each, left = divmod(self.members, self.batches + (self.rest > 0))
        return (self.batches + (self.rest > 0)) * (each * (each - 1) // 2) + left * each


class Tails:
    """Bounds on P(W > w) and P(W <= w), evaluated for many w at once."""

    def __init__(self, allocation: Dealing) -> None:
        self.allocation = allocation
        self._limits = _limits(allocation)
        self._parts = [(crowded, *self._transforms(limit)) for limit, crowded in self._limits if limit <= _MOST_COUNTS]

    def above(self, pairs: FloatArray) -> FloatArray:
        """P(W > w) for whole numbers w, rounded up."""
        best = self._bound(pairs + 1.0, sign=1.0)
        for limit, crowded in self._limits:
            best = np.where(2.0 * pairs >= self.allocation.members * (limit - 1.0), np.minimum(best, crowded), best)
        return np.maximum(best, LEAST)

    def at_most(self, pairs: FloatArray) -> FloatArray:
        """P(W <= w) for whole numbers w, rounded up."""
        return self._bound(pairs, sign=-1.0)

    def means(self) -> FloatArray:
        """Values of W where the bounds change: its means under the tilts, and the most with a limit on one batch."""
        full = np.array([float(-(-self.allocation.members * (limit - 1) // 2)) for limit, _ in self._limits])
        return np.unique(np.round(np.concatenate([full, *(means for _, _, _, _, means in self._parts)])))

    def _bound(self, pairs: FloatArray, *, sign: float) -> FloatArray:
        best = np.ones_like(pairs)
        for crowded, tilts, transforms, slack, _ in self._parts:
            chosen = tilts * sign > 0.0
            exponents = np.outer(pairs, -tilts[chosen])
            exponents += transforms[chosen] + slack[chosen] + 8.0 * _U * np.abs(exponents)
            with np.errstate(under="ignore"):
                tail = np.exp(np.minimum(exponents.min(axis=1), 0.0)) + crowded
            best = np.minimum(best, tail * (1.0 + 1e-12))
        return np.maximum(best, LEAST)

    def _transforms(self, limit: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """(t, log of the least x^{-k} g_L(x, e^t)^N I(N D) / A, its rounding, the mean of W there) for all tilts t."""
        from scipy.special import i0e

        a = self.allocation
        k, c = a.members, np.arange(limit + 1.0)
        pairs = c * (c - 1.0) / 2.0
        kinds = [(float(a.batches), log_ways(a.places, limit))]
        if a.rest:
            kinds.append((1.0, log_ways(a.rest, limit)))
        mean = k * k / (2.0 * a.batches)
        tilts = np.concatenate((-_TILTS[::-1], _TILTS)) / math.sqrt(max(mean, 1.0) + mean * k / a.batches)
        low = np.full(len(tilts), math.log(k / a.batches) - 60.0 - np.abs(tilts) * limit)
        high = np.full(len(tilts), math.log(k / a.batches) + 60.0 + np.abs(tilts) * limit)
        for _ in range(40):  # any x is valid; the best one makes the mean of c_t equal to k / N
            middle = 0.5 * (low + high)
            total = np.zeros(len(tilts))
            for count, ways in kinds:
                total += count * (_weights(ways, c, pairs, middle, tilts)[0] @ c)
            low, high = np.where(total < k, middle, low), np.where(total < k, high, middle)
        log_a, size = _log_all(a)
        value, slack, means = -k * low - log_a, (k * np.abs(low) + size) * 8.0 * _U, np.zeros(len(tilts))
        for count, ways in kinds:
            weights, log_sum, largest = _weights(ways, c, pairs, low, tilts)
            value += count * log_sum
            # the logarithm is right to its arguments' errors, and by that of 1 + the rest where the rest is small
            slack += count * (8.0 * _U * (weights @ np.abs(c)) * (1.0 + largest) + 4.0 * limit * _U * np.abs(log_sum))
            means += count * (weights @ pairs)
            if ways is kinds[0][1]:
                value += np.log(i0e(count * (weights[:, 1:] * weights[:, :-1]).sum(axis=1) * (1.0 - 1e-10))) + 1e-10
        return tilts, value, slack * 2.0 + 1e-12, means


def _weights(
    ways: FloatArray, c: FloatArray, pairs: FloatArray, log_x: FloatArray, tilts: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The tilted law of one batch's count for every tilt, the logarithm of its sum, and its largest exponent."""
    with np.errstate(invalid="ignore"):
        exponents = ways + np.outer(log_x, c) + np.outer(tilts, pairs)
    top = exponents.max(axis=1, keepdims=True)
    with np.errstate(under="ignore"):
        terms = np.exp(exponents - top)
        rest = terms[:, 1:].sum(axis=1)
        # where nobody in the batch is likeliest, g = 1 + the rest
        plain = np.where(top[:, 0] == 0.0, np.log1p(rest), top[:, 0] + np.log(terms.sum(axis=1)))
    sizes = np.abs(np.where(np.isfinite(ways), ways, 0.0)) + np.outer(np.abs(log_x), c) + np.outer(np.abs(tilts), pairs)
    return terms / terms.sum(axis=1, keepdims=True), plain, sizes.max(axis=1)


def log_ways(places: int, limit: int) -> FloatArray:
    """log of C(B, c), or of 1/c!, for c = 0, ..., limit; -inf where there are too few places."""
    c = np.arange(1.0, limit + 1.0)
    with np.errstate(divide="ignore"):
        steps = np.log(np.maximum(places - c + 1.0, 0.0)) - np.log(c) if places else -np.log(c)
    return np.concatenate(([0.0], np.cumsum(steps)))


def _log_all(a: Dealing) -> tuple[float, float]:
    """log of the number of allocations (N^k / k! of those thrown), and a sum of the sizes of its terms."""
    i = np.arange(float(a.members))
    whole = a.batches * a.places + a.rest
    above = np.log(whole - i) if a.places else np.full(a.members, math.log(a.batches))
    below = np.log(i + 1.0)
    return math.fsum(above - below), math.fsum(np.abs(above) + below)


def _limits(a: Dealing) -> list[tuple[int, float]]:
    """Limits L on the members of one batch with a bound on P(some batch has more)."""
    k = a.members
    most = min(k, a.places) if a.places else k
    share = a.places / (a.batches * a.places + a.rest) if a.places else 1.0 / a.batches
    batches = a.batches + (a.rest > 0)
    limits: list[tuple[int, float]] = []
    limit = max(1, k // batches)
    for wanted in _CROWDED:
        while limit < most and log_crowded(k, share, batches, limit) > wanted:
            limit += 1
        if limit >= most:
            return [*limits, (most, 0.0)]
        limits.append((limit, math.exp(log_crowded(k, share, batches, limit))))
    return limits


def log_crowded(k: int, p: float, batches: int, largest: int) -> float:
    """log of a bound on the probability that some batch has more than `largest` of k members, rounded up."""
    x = (largest + 1) / k
    log_ways = math.lgamma(k + 1) - math.lgamma(largest + 2) - math.lgamma(k - largest)
    log_bound = log_ways + largest * math.log(p)
    if x > p:
        rest = (1.0 - x) * math.log((1.0 - x) / (1.0 - p)) if x < 1.0 else 0.0
        log_bound = min(log_bound, math.log(batches) - k * (x * math.log(x / p) + rest))
    return min(log_bound + 1e-9 * (1.0 + abs(log_ways) + abs(log_bound)), 0.0)
