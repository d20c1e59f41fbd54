"""Correlated noise that is really trained with, its worst case, and the optimal attack.

Every example is a slope s with loss s theta, clipped to norm 1; the group's slopes are -1, the others' are 0. A round
sums the batch and adds the noise of a matrix mechanism, (C^-1 z)_t, one round after the other:

    theta_t = theta_{t-1} - (x_t + w_t),     w_t = (z_t - sum_{s < t} C_ts w_s) / C_tt,     z_t ~ N(0, sigma^2)

An attacker knows C, so that y = C (theta_{t-1} - theta_t)_t = C x + z is what is released. Nothing here is taken from
the accountant: the matrix is the strategy's own, entry by entry.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from groupdp._validation import require_integer
from groupdp.audit.audit import AuditReport, audit_scores
from groupdp.audit.claims import claimed_curve
from groupdp.audit.simulation import MOST_TRIALS, Scores
from groupdp.errors import InvalidArgument, InWords, LimitExceeded
from groupdp.floats import FloatArray
from groupdp.mechanisms.correlated import CorrelatedNoise, CyclicPoisson, FixedEpochs, MinimumSeparation

#: Most rounds of a simulation, and most rounds x trials.
MOST_ROUNDS, LARGEST_SIMULATION = 512, 200_000_000


def audit_correlated(
    run: CorrelatedNoise,
    *,
    group_size: int,
    trials: int,
    delta: float,
    trained: CorrelatedNoise | None = None,
    confidence: float = 0.999,
    seed: int = 0,
) -> AuditReport:
    """Train the worst case of `run` many times, attack every run, and hold the claim about `run` against it.

    `trained` is what the training code does, where that differs from the claim: another normalisation, for example.
    """
    scores = correlated_scores(run if trained is None else trained, group_size=group_size, trials=trials, seed=seed)
    claim = claimed_curve(run, group_size=group_size, smallest_delta=min(1e-2, 1.0 / trials))
    return audit_scores(scores, run, delta=delta, group_size=group_size, claim=claim, confidence=confidence, seed=seed)


def correlated_scores(
    run: CorrelatedNoise, *, group_size: int, trials: int, seed: int, signs: npt.ArrayLike | None = None
) -> Scores:
    """The log-likelihood ratios of `trials` runs with the group, all together from round 0 on, and of as many without.

    `signs` are those of the group's gradients, round by round; all +1 unless given.
    """
    count = require_integer("trials", trials, at_least=1, at_most=MOST_TRIALS)
    group = require_integer("group_size", group_size, at_least=1)
    if run.steps > MOST_ROUNDS or run.steps * count > LARGEST_SIMULATION:
        raise LimitExceeded(
            f"A simulation of correlated noise may have at most {MOST_ROUNDS} rounds, and {LARGEST_SIMULATION:.0e} in "
            f"all trials; this one has {run.steps} rounds and {count} trials."
        )
    if run.noise_multiplier == 0.0:
        raise InvalidArgument("noise_multiplier", InWords("0.0"), "be above 0 to attack a run")
    matrix = run.strategy.matrix(run.steps)
    if matrix.shape[0] != matrix.shape[1]:
        raise InvalidArgument("strategy", InWords(run.strategy.describe()), "be square, one row for each round")
    slopes = np.ones(run.steps) if signs is None else np.asarray(signs, dtype=np.float64)
    if slopes.shape != (run.steps,) or np.any(np.abs(slopes) != 1.0):
        raise InvalidArgument("signs", InWords(f"shape {slopes.shape}"), f"be {run.steps} numbers that are 1 or -1")
    generator = np.random.default_rng(require_integer("seed", seed, at_least=0))
    both = []
    for present in (True, False):
        counts = _participations(run, group if present else 0, count, generator) * slopes[:, np.newaxis]
        iterates = _train(matrix, counts, run.standard_deviation, generator)
        releases = matrix @ -np.diff(iterates, axis=0)
        both.append(_log_ratio(run, releases, matrix * slopes, group))
    return Scores(with_group=both[0], without_group=both[1])


def _train(matrix: FloatArray, sums: FloatArray, deviation: float, generator: np.random.Generator) -> FloatArray:
    """The iterates of all trials, of shape (T + 1, trials); `sums` are the clipped sums of the batches."""
    iterates = np.zeros((len(sums) + 1, sums.shape[1]))
    noise = np.zeros_like(sums)
    for t in range(len(sums)):
        fresh = deviation * generator.standard_normal(sums.shape[1])
        noise[t] = (fresh - matrix[t, :t] @ noise[:t]) / matrix[t, t]
        iterates[t + 1] = iterates[t] - (sums[t] + noise[t])
    return iterates


def _rounds_of_group(run: CorrelatedNoise) -> npt.NDArray[np.intp]:
    """The rounds in which the group may take part: the first part, or as early and as often as is allowed."""
    match run.participation:
        case CyclicPoisson(parts=apart):
            return np.arange(0, run.steps, apart)
        case MinimumSeparation(separation=apart, participations=most):
            return np.arange(0, run.steps, apart)[:most]
        case FixedEpochs(batches=apart):
            return np.arange(0, run.steps, apart)
    raise AssertionError(run.participation)


def _participations(run: CorrelatedNoise, group: int, trials: int, generator: np.random.Generator) -> FloatArray:
    """How many of the group are in each round's batch, for every trial."""
    counts = np.zeros((run.steps, trials))
    rounds = _rounds_of_group(run)
    if isinstance(run.participation, CyclicPoisson):
        counts[rounds] = generator.binomial(group, run.participation.rate, size=(len(rounds), trials))
    else:
        counts[rounds] = group
    return counts


def _log_ratio(run: CorrelatedNoise, releases: FloatArray, matrix: FloatArray, group: int) -> FloatArray:
    """log p(y | with the group) - log p(y | without), where columns of the group's rounds share no row or are fixed."""
    from scipy.stats import binom

    rounds = _rounds_of_group(run)
    y = releases / run.standard_deviation
    columns: Any = matrix[:, rounds] / run.standard_deviation
    if not isinstance(run.participation, CyclicPoisson):
        shift = group * columns.sum(axis=1)
        return np.asarray(shift @ y - shift @ shift / 2.0)
    sizes = np.arange(group + 1)
    weights = binom.logpmf(sizes, group, run.participation.rate)
    projected, squares = columns.T @ y, np.sum(columns * columns, axis=0)
    total = np.zeros(releases.shape[1])
    for projection, square in zip(projected, squares, strict=True):
        terms = weights[:, np.newaxis] + np.outer(sizes, projection) - (sizes**2)[:, np.newaxis] * square / 2.0
        total += np.logaddexp.reduce(terms, axis=0)
    return total
