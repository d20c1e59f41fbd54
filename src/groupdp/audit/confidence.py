"""Exact binomial confidence limits, one threshold at a time or for all thresholds at once.

One threshold (Clopper and Pearson 1934): with s successes in n independent trials of probability p,

    P( lower_limit(s, n, alpha) > p ) <= alpha,      P( upper_limit(s, n, alpha) < p ) <= alpha      for
    every p.

All thresholds: the r-th smallest of n independent uniforms is Beta(r, n + 1 - r). Limits that hold at a fixed
set of ranks, each at its share of alpha, hold between them by monotonicity; no continuity is assumed.

No limit is taken on trust from an inverse: each is checked against the incomplete beta function itself (which
is assumed right to 1e-6 of its value), and found by bisection where the inverse is off. SciPy 1.17's is, by
a factor of two, at 1000 successes in 10^9 trials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from groupdp._validation import require_number

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Assumed relative error of the incomplete beta function; limits are taken that much further out.
_SLACK = 1e-6
#: An inverse is accepted if the chance it leaves is in [alpha (1 - this), alpha].
_TOLERANCE = 1e-2


def require_confidence(confidence: Any) -> float:
    """`confidence` as a number in [0.5, 1)."""
    return require_number("confidence", confidence, at_least=0.5, below=1.0)


def lower_limit(successes: npt.ArrayLike, trials: npt.ArrayLike, alpha: float) -> FloatArray:
    """One-sided lower limit of a binomial probability at level 1 - alpha; 0 where nothing succeeded."""
    s, n = _counts(successes, trials)
    inside = s > 0
    one = np.where(inside, s, 1.0)  # any valid argument, where the answer is known
    return np.where(inside, beta_lower_quantile(one, n - one + 1.0, alpha), 0.0)


def upper_limit(successes: npt.ArrayLike, trials: npt.ArrayLike, alpha: float) -> FloatArray:
    """One-sided upper limit of a binomial probability at level 1 - alpha; 1 where nothing failed."""
    s, n = _counts(successes, trials)
    inside = s < n
    one = np.where(inside, s, 0.0)
    return np.where(inside, beta_upper_quantile(one + 1.0, n - one, alpha), 1.0)


def beta_lower_quantile(a: FloatArray, b: FloatArray, alpha: float) -> FloatArray:
    """x with P(Beta(a, b) <= x) <= alpha, and hardly less."""
    alpha *= 1.0 - _SLACK
    guess = np.asarray(special.betaincinv(a, b, alpha) * (1.0 - 1e-12))
    wrong = ~_close(special.betainc(a, b, guess), alpha)
    if np.any(wrong):
        low, high = np.zeros(int(wrong.sum())), np.ones(int(wrong.sum()))
        for _ in range(200):
            middle = (low + high) / 2.0
            safe = special.betainc(a[wrong], b[wrong], middle) <= alpha
            low, high = np.where(safe, middle, low), np.where(safe, high, middle)
        guess[wrong] = low
    return guess


def beta_upper_quantile(a: FloatArray, b: FloatArray, alpha: float) -> FloatArray:
    """x with P(Beta(a, b) > x) <= alpha, and hardly less."""
    alpha *= 1.0 - _SLACK
    guess = np.asarray(np.minimum(1.0, special.betainccinv(a, b, alpha) * (1.0 + 1e-12)))
    wrong = ~_close(special.betaincc(a, b, guess), alpha)
    if np.any(wrong):
        low, high = np.zeros(int(wrong.sum())), np.ones(int(wrong.sum()))
        for _ in range(200):
            middle = (low + high) / 2.0
            safe = special.betaincc(a[wrong], b[wrong], middle) <= alpha
            low, high = np.where(safe, low, middle), np.where(safe, middle, high)
        guess[wrong] = high
    return guess


def _close(chance: FloatArray, alpha: float) -> npt.NDArray[np.bool_]:
    return np.asarray((chance <= alpha) & (chance >= (1.0 - _TOLERANCE) * alpha))


def _counts(successes: npt.ArrayLike, trials: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    s, n = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(trials, np.float64))
    return s, n


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimultaneousBand:
    """Limits of P(X <= t), for all t at once, from the number of observations that are <= t."""

    trials: int
    ranks: IntArray
    lower: FloatArray
    upper: FloatArray

    def limits(self, counts: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """(lower, upper) limits of P(X <= t) given how many of the `trials` observations are <= t.

        If r of the grid is at most the count, x_(r) <= t and P(X <= t) >= P(X <= x_(r)) >= its lower limit;
        if r is above it, t < x_(r) and P(X <= t) <= P(X < x_(r)) <= its upper limit.
        """
        c = np.asarray(counts, dtype=np.int64)
        reached = np.searchsorted(self.ranks, c, side="right")
        lower = np.concatenate([[0.0], self.lower])[reached]
        upper = np.concatenate([self.upper, [1.0]])[reached]
        return lower, upper


def simultaneous_band(trials: int, alpha: float) -> SimultaneousBand:
    """A band that misses the distribution function anywhere with probability at most alpha.

    Bonferroni over both sides of a grid of ranks that is fixed before any data is seen.
    """
    ranks = rank_grid(trials)
    share = alpha / (2 * len(ranks))
    r = ranks.astype(np.float64)
    return SimultaneousBand(
        trials=trials,
        ranks=ranks,
        lower=beta_lower_quantile(r, trials + 1.0 - r, share),
        upper=beta_upper_quantile(r, trials + 1.0 - r, share),
    )


def rank_grid(trials: int) -> IntArray:
    """Ranks in 1..trials, about one standard deviation of a count apart, dense in both tails."""
    half = (trials + 1) // 2
    ranks = [1]
    while (following := ranks[-1] + max(1, int(ranks[-1] ** 0.5))) <= half:
        ranks.append(following)
    low = np.array(ranks, dtype=np.int64)
    return np.unique(np.concatenate([low, trials + 1 - low]))
