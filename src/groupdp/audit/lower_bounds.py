"""Statistically valid lower bounds on epsilon and delta, from scores alone, by exact binomial limits.

P(E) <= e^epsilon Q(E) + delta for every event E, here "the loss is at least t". One half of the runs chooses t and the
direction; the other half confirms it with Clopper and Pearson's limits, half of alpha on each of P(E) and Q(E):

    P( lower_limit(s, n, alpha) > p ) <= alpha,      P( upper_limit(s, n, alpha) < p ) <= alpha      for every p.

Each limit is checked against the incomplete beta function itself (assumed right to 1e-6 of its value), and found by
bisection where the inverse is off. SciPy 1.17's is, by a factor of two, at 1000 successes in 10^9 trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from groupdp.audit.simulation import Scores
from groupdp.errors import InvalidArgument, require_integer, require_number
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
    s, n = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(trials, np.float64))
    inside = s > 0
    counts = np.where(inside, s, 1.0)  # any valid argument, where the answer is known
    return np.where(inside, beta_lower_quantile(counts, n - counts + 1.0, alpha), 0.0)


def upper_limit(successes: npt.ArrayLike, trials: npt.ArrayLike, alpha: float) -> FloatArray:
    """One-sided upper limit of a binomial probability at level 1 - alpha; 1 where nothing failed."""
    s, n = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(trials, np.float64))
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
    """The threshold in units of the loss: the score, or backwards its negative."""
    hits: int
    hit_trials: int
    false_alarms: int
    false_alarm_trials: int
    hit_rate_lower: float
    false_alarm_rate_upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound:
    """The true epsilon (at `delta`) or delta (at `epsilon`) is at least `value`, with the stated confidence."""

    quantity: Literal["epsilon", "delta"]
    value: float
    epsilon: float
    delta: float
    confidence: float
    operation: Operation


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
    level, sure = require_number("delta", delta, at_least=0.0, below=1.0), require_confidence(confidence)

    def gain(_: Direction, seen: Rates) -> FloatArray:
        return np.log(np.maximum(seen.hit_rate_lower - level, 1e-300)) - np.log(seen.false_alarm_rate_upper)

    operation, _ = chosen_operation(scores, directions_of(adjacency), gain, 1.0 - sure, seed)
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
    level, sure = require_number("epsilon", epsilon, at_least=0.0, at_most=700.0), require_confidence(confidence)
    factor = math.exp(level)

    def gain(_: Direction, seen: Rates) -> FloatArray:
        return seen.hit_rate_lower - factor * seen.false_alarm_rate_upper

    operation, _ = chosen_operation(scores, directions_of(adjacency), gain, 1.0 - sure, seed)
    false_alarms = factor * operation.false_alarm_rate_upper
    value = operation.hit_rate_lower - false_alarms
    value = max(0.0, value - _ROUNDING * (operation.hit_rate_lower + false_alarms))
    return LowerBound(quantity="delta", value=value, epsilon=level, delta=value, confidence=sure, operation=operation)


class Rates:
    """How often "loss >= t" happened, for every t: counts, and limits at level alpha / 2 each."""

    def __init__(self, scores: Scores, direction: Direction, thresholds: npt.ArrayLike, alpha: float) -> None:
        positives, negatives = np.sort(scores.positives(direction)), np.sort(scores.negatives(direction))
        self.hit_trials, self.false_alarm_trials = len(positives), len(negatives)
        self.hits = self.hit_trials - np.searchsorted(positives, thresholds, side="left")
        self.false_alarms = self.false_alarm_trials - np.searchsorted(negatives, thresholds, side="left")
        self.hit_rate_lower = lower_limit(self.hits, self.hit_trials, alpha / 2.0)
        self.false_alarm_rate_upper = upper_limit(self.false_alarms, self.false_alarm_trials, alpha / 2.0)


def chosen_operation(
    scores: Scores,
    directions: Iterable[Direction],
    gain: Callable[[Direction, Rates], FloatArray],
    alpha: float,
    seed: int,
) -> tuple[Operation, int]:
    """The event that the choosing half prefers, as the confirming half sees it; and the column of its `gain`."""
    choosing, confirming = split(scores, seed)
    options: list[tuple[float, Direction, float, int]] = []
    for direction in directions:
        thresholds = candidate_thresholds(choosing, direction)
        gains = gain(direction, Rates(choosing, direction, thresholds, alpha)).reshape(len(thresholds), -1)
        row, column = np.unravel_index(int(np.argmax(gains)), gains.shape)
        options.append((float(gains[row, column]), direction, float(thresholds[row]), int(column)))
    _, best, threshold, place = max(options, key=lambda option: option[0])
    seen = Rates(confirming, best, threshold, alpha)
    operation = Operation(
        direction=best,
        threshold=threshold,
        hits=int(seen.hits),
        hit_trials=seen.hit_trials,
        false_alarms=int(seen.false_alarms),
        false_alarm_trials=seen.false_alarm_trials,
        hit_rate_lower=float(seen.hit_rate_lower),
        false_alarm_rate_upper=float(seen.false_alarm_rate_upper),
    )
    return operation, place


def split(scores: Scores, seed: int) -> tuple[Scores, Scores]:
    """Scores cut at random, for runs may come in any order: a half that chooses, and a half that confirms."""
    generator = np.random.default_rng([require_integer("seed", seed, at_least=0), 0x5B117])
    halves: tuple[dict[str, FloatArray], dict[str, FloatArray]] = {}, {}
    for name in ("with_group", "without_group"):
        values = generator.permutation(getattr(scores, name))
        if len(values) < FEWEST_RUNS:
            raise InvalidArgument(name, len(values), f"hold at least {FEWEST_RUNS} scores")
        halves[0][name], halves[1][name] = values[: len(values) // 2], values[len(values) // 2 :]
    return Scores(**halves[0]), Scores(**halves[1])


def candidate_thresholds(scores: Scores, direction: Direction) -> FloatArray:
    """Order statistics of both samples, dense in the tails."""
    samples = (np.sort(losses) for losses in (scores.positives(direction), scores.negatives(direction)))
    return np.unique(np.concatenate([ordered[rank_grid(len(ordered)) - 1] for ordered in samples]))
