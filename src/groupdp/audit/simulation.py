"""Scores of an attack: many simulated runs of a worst case, with correlated noise too, or two columns of a CSV file.

Simulated scores follow from a seed: chunk i of each dataset has its own spawned stream, and the size of a chunk depends
on the instance alone. In a file, one row is one independent training run: several canaries of one run are not
independent, and the audit's confidence would be wrong.
"""

from __future__ import annotations

import csv
import io
import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from groupdp._files import standard_input
from groupdp.audit.worst_cases import (
    BoolArray,
    TrainingPhase,
    WorstCase,
    log_likelihood_ratio,
    slope_gradient,
    train_many,
    training_phases,
)
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, LimitExceeded, require_integer, shown
from groupdp.floats import FloatArray
from groupdp.mechanisms.correlated import (
    CorrelatedNoise,
    CyclicPoisson,
    FixedEpochs,
    MinimumSeparation,
    SeparatedPoisson,
)
from groupdp.neighbours import FORWARD

#: Called with the fraction done, in [0, 1]; an exception raised inside stops the simulation.
Progress = Callable[[float], None]
#: Iterates of shape (T + 1, trials, 1) and the instance -> one score per trial, larger meaning "with".
Attack = Callable[[FloatArray, WorstCase], FloatArray]

#: Inclusion indicators (trials x rounds x examples) that a simulation may draw: hours, not days.
LARGEST_SIMULATION = 10**13
#: Rounds that a simulation may have: every iterate of a trial is held.
MOST_ROUNDS = 1_000_000
#: Trials of either dataset that a simulation may run: their scores are kept.
MOST_TRIALS = 10**9
#: Numbers held at once by a chunk; about ten arrays of this many bytes x 8 live at the same time.
CHUNK_NUMBERS = 1 << 18
#: Most rounds with correlated noise, and most rounds x trials.
MOST_CORRELATED_ROUNDS, LARGEST_CORRELATED = 512, 200_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scores:
    """One attack score per independent training run; a larger score speaks for the group's presence."""

    with_group: FloatArray
    without_group: FloatArray

    def __post_init__(self) -> None:
        for name in ("with_group", "without_group"):
            try:
                scores = np.asarray(getattr(self, name), dtype=np.float64)
            except (TypeError, ValueError):
                raise InvalidArgument(name, NOT_SHOWN, "be a sequence of numbers, one score per run") from None
            if scores.ndim != 1 or len(scores) == 0:
                raise InvalidArgument(name, InWords(f"shape {scores.shape}"), "be a non-empty sequence of scores")
            if np.any(np.isnan(scores)):
                raise InvalidArgument(name, InWords(f"{int(np.isnan(scores).sum())} of them"), "not contain NaN")
            object.__setattr__(self, name, scores)

    def positives(self, direction: str) -> FloatArray:
        """Losses under P: with the group, or backwards without it and negated."""
        return self.with_group if direction == FORWARD else -self.without_group

    def negatives(self, direction: str) -> FloatArray:
        """Losses under Q."""
        return self.without_group if direction == FORWARD else -self.with_group


def attack_scores(
    instance: WorstCase,
    *,
    trials: int,
    seed: int,
    phases: Sequence[TrainingPhase] | None = None,
    attack: Attack = log_likelihood_ratio,
    reveal_batches: bool = False,
    progress: Progress | None = None,
) -> Scores:
    """Train `trials` times with the group and `trials` times without it, and attack every run.

    The training is what the instance's run describes, unless `phases` say otherwise: that is how a trainer that does
    not do what it declares is simulated. The attack always believes the declaration. With `reveal_batches` it sees who
    was in every batch, and `attack` is not used.
    """
    if reveal_batches:
        told = InWords(f"true for {instance.title}")
        if any(phase.sampling.secret_allocation for phase in instance.run):
            secret = "be false where the bound holds only while the batches of an epoch stay secret"
            raise InvalidArgument("reveal_batches", told, secret)
        if len(instance.with_group) != len(instance.without_group):
            raise InvalidArgument("reveal_batches", told, "be false where the datasets differ in size")
    count = require_integer("trials", trials, at_least=1, at_most=MOST_TRIALS)
    root = np.random.SeedSequence(require_integer("seed", seed, at_least=0))
    training = training_phases(instance.run) if phases is None else tuple(phases)
    if instance.steps > MOST_ROUNDS:
        raise LimitExceeded(f"A simulation may have at most {MOST_ROUNDS} steps, this run has {instance.steps}.")
    work = 2 * count * max(1, instance.steps) * len(instance.with_group)
    if work > LARGEST_SIMULATION:
        raise LimitExceeded(
            f"A simulation may draw at most {LARGEST_SIMULATION:.0e} inclusion indicators "
            f"(trials x steps x examples), this one would draw {work:.1e}."
        )
    chunk = chunk_size(instance)
    both = []
    moves = np.stack([data.moves for data in instance.datasets[0]], axis=1) if reveal_batches else np.zeros((0, 2))
    streams = root.spawn(2)
    for side, dataset in enumerate((instance.with_group, instance.without_group)):
        scores = np.empty(count)
        for index, start in enumerate(range(0, count, chunk)):
            stop = min(start + chunk, count)
            stream = np.random.SeedSequence(entropy=streams[side].entropy, spawn_key=(*streams[side].spawn_key, index))
            means: list[FloatArray] = []
            iterates = train_many(
                slope_gradient,
                dataset,
                training,
                trials=stop - start,
                generator=np.random.default_rng(stream),
                initial_model=0.0,
                clipping_norm=instance.clipping_norm,
                step_size=instance.step_size,
                observer=partial(_observe, means, moves) if reveal_batches else None,
            )
            if reveal_batches:
                known = np.array(means).reshape(-1, 2, stop - start).transpose(1, 0, 2)
                scores[start:stop] = log_likelihood_ratio(iterates, instance, known)
            else:
                scores[start:stop] = attack(iterates, instance)
            if progress is not None:
                progress((side * count + stop) / (2 * count))
        both.append(scores)
    return Scores(with_group=both[0], without_group=both[1])


def _observe(means: list[FloatArray], moves: FloatArray, included: BoolArray) -> None:
    """What a batch would sum up to in both datasets."""
    means.append((included.astype(np.float64) @ moves).T)


def chunk_size(instance: WorstCase) -> int:
    """Trials per chunk: bounds the indicators of one round, the iterates and the attack's terms."""
    members = int(np.count_nonzero(instance.with_group))
    widest = max(len(instance.with_group), 2 * (instance.steps + 1), members + 1)
    return max(1, CHUNK_NUMBERS // widest)


def correlated_scores(
    run: CorrelatedNoise, *, group_size: int, trials: int, seed: int, signs: npt.ArrayLike | None = None
) -> Scores:
    """The log-likelihood ratios of `trials` runs with the group, all together from round 0 on, and of as many without.

    A round adds the noise (C^-1 z)_t of a matrix mechanism, z ~ N(0, sigma^2 I), to the sum x_t of its batch. The
    attacker knows C, and sees C x + z. The group's slopes are -1 times `signs`, round by round; all +1 unless given.
    """
    count = require_integer("trials", trials, at_least=1, at_most=MOST_TRIALS)
    group = require_integer("group_size", group_size, at_least=1)
    if run.steps > MOST_CORRELATED_ROUNDS or run.steps * count > LARGEST_CORRELATED:
        raise LimitExceeded(
            f"A simulation of correlated noise may have at most {MOST_CORRELATED_ROUNDS} rounds, and "
            f"{LARGEST_CORRELATED:.0e} in all trials; this one has {run.steps} rounds and {count} trials."
        )
    if run.noise_multiplier == 0.0:
        raise InvalidArgument("noise_multiplier", InWords("0.0"), "be above 0 to attack a run")
    matrix = run.strategy.matrix(run.steps)
    if matrix.shape[0] != matrix.shape[1]:
        raise InvalidArgument("strategy", InWords(run.strategy.describe()), "be square, one row for each round")
    slopes = np.ones(run.steps) if signs is None else np.asarray(signs, dtype=np.float64)
    if slopes.shape != (run.steps,) or np.any(np.abs(slopes) != 1.0):
        raise InvalidArgument("signs", InWords(f"shape {slopes.shape}"), f"be {run.steps} numbers that are 1 or -1")
    participation = run.participation
    if isinstance(participation, SeparatedPoisson) and group > 1:
        raise InvalidArgument("group_size", group, "be 1 to attack separated Poisson sampling")
    generator = np.random.default_rng(require_integer("seed", seed, at_least=0))
    rounds, both = _rounds_of_group(run), []
    for present in (group, 0):
        sums = np.zeros((run.steps, count))
        if isinstance(participation, SeparatedPoisson):
            sums += _separated(participation, run.steps, count, generator) * present
        elif isinstance(participation, CyclicPoisson):
            sums[rounds] = generator.binomial(present, participation.rate, size=(len(rounds), count))
        else:
            sums[rounds] = present
        iterates = _train(matrix, sums * slopes[:, np.newaxis], run.standard_deviation, generator)
        releases = matrix @ -np.diff(iterates, axis=0)
        both.append(_log_ratio(run, releases, (matrix * slopes)[:, rounds], group))
    return Scores(with_group=both[0], without_group=both[1])


def _separated(sampling: SeparatedPoisson, rounds: int, trials: int, generator: np.random.Generator) -> FloatArray:
    """Whether one example is included, round by round and trial by trial."""
    included = np.zeros((rounds, trials))
    free = np.zeros(trials, dtype=np.int64)  # the first round in which it may be included again
    for t in range(rounds):
        now = (generator.random(trials) < sampling.rate) & (free <= t)
        included[t], free[now] = now, t + sampling.separation
    return included


def _train(matrix: FloatArray, sums: FloatArray, deviation: float, generator: np.random.Generator) -> FloatArray:
    """theta_t = theta_{t-1} - (x_t + w_t), w_t = (z_t - sum_{s < t} C_ts w_s) / C_tt: shape (T + 1, trials)."""
    iterates = np.zeros((len(sums) + 1, sums.shape[1]))
    noise = np.zeros_like(sums)
    for t in range(len(sums)):
        fresh = deviation * generator.standard_normal(sums.shape[1])
        noise[t] = (fresh - matrix[t, :t] @ noise[:t]) / matrix[t, t]
        iterates[t + 1] = iterates[t] - (sums[t] + noise[t])
    return iterates


def _rounds_of_group(run: CorrelatedNoise) -> npt.NDArray[np.intp]:
    """The rounds in which the group may take part: those of the first part, or as early and as often as allowed."""
    match run.participation:
        case CyclicPoisson(parts=apart) | FixedEpochs(batches=apart):
            return np.arange(0, run.steps, apart)
        case MinimumSeparation(separation=apart, participations=most):
            return np.arange(0, run.steps, apart)[:most]
        case SeparatedPoisson():
            return np.arange(run.steps)
    raise AssertionError(run.participation)


def _log_ratio(run: CorrelatedNoise, releases: FloatArray, columns: FloatArray, group: int) -> FloatArray:
    """log p(y | with the group) - log p(y | without), where columns of the group's rounds share no row or are fixed."""
    from scipy.stats import binom

    y, columns = releases / run.standard_deviation, columns / run.standard_deviation
    if not isinstance(run.participation, CyclicPoisson | SeparatedPoisson):
        shift = group * columns.sum(axis=1)
        return np.asarray(shift @ y - shift @ shift / 2.0)
    projected, squares = columns.T @ y, np.sum(columns * columns, axis=0)
    if isinstance(run.participation, SeparatedPoisson):
        return _separated_log_ratio(run.participation, projected - squares[:, np.newaxis] / 2.0)
    sizes = np.arange(group + 1)
    weights = binom.logpmf(sizes, group, run.participation.rate)
    total = np.zeros(releases.shape[1])
    for projection, square in zip(projected, squares, strict=True):
        terms = weights[:, np.newaxis] + np.outer(sizes, projection) - (sizes**2)[:, np.newaxis] * square / 2.0
        total += np.logaddexp.reduce(terms, axis=0)
    return total


def _separated_log_ratio(sampling: SeparatedPoisson, log_ratios: FloatArray) -> FloatArray:
    """log f_0, f_t = (1 - q) f_{t+1} + q L_t f_{t+b}: included columns share no row, so their ratios multiply."""
    stay = math.log1p(-sampling.rate) if sampling.rate < 1.0 else -math.inf
    rounds, trials = log_ratios.shape
    following = np.zeros((rounds + 1, trials))
    for t in reversed(range(rounds)):
        after = following[min(t + sampling.separation, rounds)]
        following[t] = np.logaddexp(stay + following[t + 1], math.log(sampling.rate) + log_ratios[t] + after)
    return np.asarray(following[0])


def read_scores(path: str | Path, *, with_column: str = "with_group", without_column: str = "without_group") -> Scores:
    """Read a CSV file with a header, or standard input for "-".

    Empty cells are skipped, so the columns may differ in length. Scores may be infinite ("inf",
    "-inf"); anything else that is not a number is refused with its line.
    """
    if with_column == without_column:
        raise InvalidArgument("with_column and without_column", InWords(f"{shown(with_column)} twice"), "differ")
    columns = {with_column: array("d"), without_column: array("d")}
    try:
        with io.BytesIO(standard_input().read()) if str(path) == "-" else Path(path).open("rb") as source:
            rows = csv.reader(io.TextIOWrapper(source, newline="", encoding="utf-8-sig"))
            header = [name.strip() for name in next(rows, [])]
            for name in columns:
                if header.count(name) != 1:
                    found = InWords(f"the columns {shown(header)}")
                    raise InvalidArgument("scores", found, f"have one column named {shown(name)}")
            places = {name: header.index(name) for name in columns}
            for row in rows:
                for name, place in places.items():
                    if place < len(row) and row[place].strip():
                        columns[name].append(_score(name, row[place], rows.line_num))
                if rows.line_num > MOST_TRIALS:
                    raise LimitExceeded(f"scores may have at most {MOST_TRIALS} lines.")
    except OSError as error:
        reason = InWords(f"{shown(str(path))} ({error.strerror or error})")
        raise InvalidArgument("scores", reason, "be a file that can be read") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidArgument("scores", InWords(f"{shown(str(path))} ({error})"), "be a CSV file in UTF-8") from None
    return Scores(with_group=np.array(columns[with_column]), without_group=np.array(columns[without_column]))


def _score(name: str, cell: str, line: int) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise InvalidArgument(name, InWords(f"{shown(cell)} on line {line}"), "hold numbers")
    return value
