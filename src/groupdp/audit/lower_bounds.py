"""Statistically valid lower bounds on epsilon and delta, from scores alone, by exact binomial limits.

P(E) <= e^epsilon Q(E) + delta for every event E, here "the loss is at least t". One half of the runs chooses t and the
direction; the other half confirms it with exact binomial limits, half of alpha on each of P(E) and Q(E).

One threshold (Clopper and Pearson 1934): with s successes in n independent trials of probability p,

    P( lower_limit(s, n, alpha) > p ) <= alpha,      P( upper_limit(s, n, alpha) < p ) <= alpha      for every p.

All thresholds: the r-th smallest of n independent uniforms is Beta(r, n + 1 - r). Limits that hold at a fixed set of
ranks, each at its share of alpha, hold between them by monotonicity; no continuity is assumed.

Each limit is checked against the incomplete beta function itself (assumed right to 1e-6 of its value), and found by
bisection where the inverse is off. SciPy 1.17's is, by a factor of two, at 1000 successes in 10^9 trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from groupdp._validation import require_integer, require_number
from groupdp.audit.simulation import Scores
from groupdp.errors import InvalidArgument
from groupdp.floats import FloatArray, IntArray
from groupdp.neighbours import Direction, directions_of

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
    counts = np.where(inside, s, 1.0)  # any valid argument, where the answer is known
    return np.where(inside, beta_lower_quantile(counts, n - counts + 1.0, alpha), 0.0)


def upper_limit(successes: npt.ArrayLike, trials: npt.ArrayLike, alpha: float) -> FloatArray:
    """One-sided upper limit of a binomial probability at level 1 - alpha; 1 where nothing failed."""
    s, n = _counts(successes, trials)
    inside = s < n
    counts = np.where(inside, s, 0.0)
    return np.where(inside, beta_upper_quantile(counts + 1.0, n - counts, alpha), 1.0)


def beta_lower_quantile(a: FloatArray, b: FloatArray, alpha: float) -> FloatArray:
    """x with P(Beta(a, b) <= x) <= alpha, and hardly less."""
    alpha *= 1.0 - _SLACK
    return _checked(special.betaincinv(a, b, alpha) * (1.0 - 1e-12), special.betainc, a, b, alpha, rises=True)


def beta_upper_quantile(a: FloatArray, b: FloatArray, alpha: float) -> FloatArray:
    """x with P(Beta(a, b) > x) <= alpha, and hardly less."""
    alpha *= 1.0 - _SLACK
    guess = np.minimum(1.0, special.betainccinv(a, b, alpha) * (1.0 + 1e-12))
    return _checked(guess, special.betaincc, a, b, alpha, rises=False)


def _checked(
    guess: FloatArray, chance: Callable[..., FloatArray], a: FloatArray, b: FloatArray, alpha: float, *, rises: bool
) -> FloatArray:
    """The guess where its chance is at most alpha and hardly less; elsewhere what bisection finds."""
    guess, left = np.asarray(guess), chance(a, b, guess)
    wrong = ~np.asarray((left <= alpha) & (left >= (1.0 - _TOLERANCE) * alpha))
    if np.any(wrong):
        low, high = np.zeros(int(wrong.sum())), np.ones(int(wrong.sum()))
        for _ in range(200):
            middle = (low + high) / 2.0
            up = (chance(a[wrong], b[wrong], middle) <= alpha) == rises
            low, high = np.where(up, middle, low), np.where(up, high, middle)
        guess[wrong] = low if rises else high
    return guess


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


#: Scores of either kind below which no audit is attempted.
FEWEST_RUNS = 2
#: What the few roundings of a bound may amount to, relative to its parts: it is rounded down by as much.
_ROUNDING = 2.0**-49


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An event "loss >= threshold" and how often it happened in the confirming half."""

    direction: Direction
    threshold: float
    """In units of the loss: the score, or backwards its negative."""
    hits: int
    hit_trials: int
    false_alarms: int
    false_alarm_trials: int
    hit_rate_lower: float
    false_alarm_rate_upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound:
    """The true epsilon (at `delta`) or delta (at `epsilon`) is at least `value`, with the stated
    confidence."""

    quantity: Literal["epsilon", "delta"]
    value: float
    epsilon: float
    delta: float
    confidence: float
    operation: Operation


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """Scores cut at random into a half that chooses and a half that confirms."""

    choosing: Scores
    confirming: Scores


def epsilon_lower_bound(
    scores: Scores,
    *,
    delta: float,
    confidence: float = 0.999,
    adjacency: str = "add-or-remove",
    seed: int = 0,
) -> LowerBound:
    """epsilon >= log((P(E) - delta) / Q(E)) for the event E that the choosing half prefers; at least 0.

    The true epsilon at `delta` is below the returned value with probability at most 1 - confidence.
    """
    level = require_number("delta", delta, at_least=0.0, below=1.0)

    def gain(hit: FloatArray, false_alarm: FloatArray) -> FloatArray:
        return np.log(np.maximum(hit - level, 1e-300)) - np.log(false_alarm)

    operation, sure = _chosen_operation(scores, gain, confidence, adjacency, seed)
    surplus = math.nextafter(operation.hit_rate_lower - level, -math.inf) if level > 0.0 else operation.hit_rate_lower
    value = math.log(surplus / operation.false_alarm_rate_upper) if surplus > 0.0 else 0.0
    value = max(0.0, value - _ROUNDING * (1.0 + abs(value)))
    return LowerBound(quantity="epsilon", value=value, epsilon=value, delta=level, confidence=sure, operation=operation)


def delta_lower_bound(
    scores: Scores,
    *,
    epsilon: float,
    confidence: float = 0.999,
    adjacency: str = "add-or-remove",
    seed: int = 0,
) -> LowerBound:
    """delta >= P(E) - e^epsilon Q(E) for the event E that the choosing half prefers; at least 0.

    The true delta at `epsilon` is below the returned value with probability at most 1 - confidence.
    """
    level = require_number("epsilon", epsilon, at_least=0.0, at_most=700.0)
    factor = math.exp(level)

    def gain(hit: FloatArray, false_alarm: FloatArray) -> FloatArray:
        return hit - factor * false_alarm

    operation, sure = _chosen_operation(scores, gain, confidence, adjacency, seed)
    false_alarms = factor * operation.false_alarm_rate_upper
    value = operation.hit_rate_lower - false_alarms
    value = max(0.0, value - _ROUNDING * (operation.hit_rate_lower + false_alarms))
    return LowerBound(quantity="delta", value=value, epsilon=level, delta=value, confidence=sure, operation=operation)


def _chosen_operation(
    scores: Scores,
    gain: Callable[[FloatArray, FloatArray], FloatArray],
    confidence: Any,
    adjacency: Any,
    seed: int,
) -> tuple[Operation, float]:
    sure = require_confidence(confidence)
    alpha = 1.0 - sure
    halves = split(scores, seed)
    best: tuple[float, Direction, float] | None = None
    for direction in directions_of(adjacency):
        thresholds = candidate_thresholds(halves.choosing, direction)
        hit, false_alarm = limits_at(halves.choosing, direction, thresholds, alpha)
        gains = gain(hit, false_alarm)
        winner = int(np.argmax(gains))
        if best is None or gains[winner] > best[0]:
            best = (float(gains[winner]), direction, float(thresholds[winner]))
    if best is None:
        raise AssertionError("there must be a direction to test")
    return operate(halves.confirming, best[1], best[2], alpha), sure


def split(scores: Scores, seed: int) -> Halves:
    """Cut both kinds of scores in two at random: runs may come in any order."""
    generator = np.random.default_rng([require_integer("seed", seed, at_least=0), 0x5B117])
    halves = []
    for name in ("with_group", "without_group"):
        values = generator.permutation(getattr(scores, name))
        if len(values) < FEWEST_RUNS:
            raise InvalidArgument(name, len(values), f"hold at least {FEWEST_RUNS} scores")
        halves.append((values[: len(values) // 2], values[len(values) // 2 :]))
    (with_1, with_2), (without_1, without_2) = halves
    return Halves(
        choosing=Scores(with_group=with_1, without_group=without_1),
        confirming=Scores(with_group=with_2, without_group=without_2),
    )


def candidate_thresholds(scores: Scores, direction: Direction) -> FloatArray:
    """Order statistics of both samples, dense in the tails."""
    chosen = []
    for losses in (scores.positives(direction), scores.negatives(direction)):
        ordered = np.sort(losses)
        chosen.append(ordered[rank_grid(len(ordered)) - 1])
    return np.unique(np.concatenate(chosen))


def limits_at(
    scores: Scores, direction: Direction, thresholds: FloatArray, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """(lower limits of P(loss >= t), upper limits of Q(loss >= t)), each at level alpha / 2."""
    hits = count_at_least(scores.positives(direction), thresholds)
    false_alarms = count_at_least(scores.negatives(direction), thresholds)
    return (
        lower_limit(hits, len(scores.positives(direction)), alpha / 2.0),
        upper_limit(false_alarms, len(scores.negatives(direction)), alpha / 2.0),
    )


def operate(scores: Scores, direction: Direction, threshold: float, alpha: float) -> Operation:
    """One threshold's counts and limits; alpha / 2 for each limit."""
    positives, negatives = scores.positives(direction), scores.negatives(direction)
    hits = int(np.count_nonzero(positives >= threshold))
    false_alarms = int(np.count_nonzero(negatives >= threshold))
    return Operation(
        direction=direction,
        threshold=threshold,
        hits=hits,
        hit_trials=len(positives),
        false_alarms=false_alarms,
        false_alarm_trials=len(negatives),
        hit_rate_lower=float(lower_limit(hits, len(positives), alpha / 2.0)),
        false_alarm_rate_upper=float(upper_limit(false_alarms, len(negatives), alpha / 2.0)),
    )


def count_at_least(values: FloatArray, thresholds: FloatArray) -> npt.NDArray[np.int64]:
    """How many values are at least t, for every t."""
    return len(values) - np.searchsorted(np.sort(values), thresholds, side="left")
