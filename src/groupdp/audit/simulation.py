"""Scores of an attack: many simulated runs of a worst case, or two columns of a CSV file.

Simulated scores follow from a seed: chunk i of each dataset has its own spawned stream, and the size of a chunk depends
on the instance alone. Memory is bounded by the chunk.

In a file, one row is one independent training run. Scores of several canaries of the same run are not independent, and
the audit's confidence would be wrong.
"""

from __future__ import annotations

import csv
import io
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np
import numpy.typing as npt

from groupdp._files import standard_input
from groupdp._validation import require_integer, shown
from groupdp.audit.trainer import TrainingPhase, train_many, training_phases
from groupdp.audit.worst_cases import WorstCase, log_likelihood_ratio, revealed_log_likelihood_ratio, slope_gradient
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, LimitExceeded
from groupdp.floats import FloatArray
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scores:
    """One attack score per independent training run; a larger score speaks for the group's presence."""

    with_group: FloatArray
    without_group: FloatArray

    def __post_init__(self) -> None:
        for name in ("with_group", "without_group"):
            object.__setattr__(self, name, _scores(name, getattr(self, name)))

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

    The training is what the instance's run describes, unless `phases` say otherwise: that is how a trainer
    that does not do what it declares is simulated. The attack always believes the declaration. With `reveal_batches`
    it sees who was in every batch, and `attack` is not used.
    """
    if reveal_batches and any(phase.sampling.secret_allocation for phase in instance.run):
        raise InvalidArgument(
            "reveal_batches",
            InWords(f"true for {instance.title}"),
            "be false where the bound holds only while the batches of an epoch stay secret",
        )
    if reveal_batches and len(instance.with_group) != len(instance.without_group):
        raise InvalidArgument(
            "reveal_batches", InWords(f"true for {instance.title}"), "be false where the datasets differ in size"
        )
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
                scores[start:stop] = revealed_log_likelihood_ratio(iterates, known, instance)
            else:
                scores[start:stop] = attack(iterates, instance)
            if progress is not None:
                progress((side * count + stop) / (2 * count))
        both.append(scores)
    return Scores(with_group=both[0], without_group=both[1])


def _observe(means: list[FloatArray], moves: FloatArray, included: npt.NDArray[np.bool_]) -> None:
    """What a batch would sum up to in both datasets."""
    means.append((included.astype(np.float64) @ moves).T)


def chunk_size(instance: WorstCase) -> int:
    """Trials per chunk: bounds the indicators of one round, the iterates and the attack's terms."""
    members = int(np.count_nonzero(instance.with_group))
    widest = max(len(instance.with_group), 2 * (instance.steps + 1), members + 1)
    return max(1, CHUNK_NUMBERS // widest)


def _scores(name: str, values: object) -> FloatArray:
    try:
        scores = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(name, NOT_SHOWN, "be a sequence of numbers, one score per run") from None
    if scores.ndim != 1 or len(scores) == 0:
        raise InvalidArgument(name, InWords(f"shape {scores.shape}"), "be a non-empty sequence of scores")
    if np.any(np.isnan(scores)):
        raise InvalidArgument(name, InWords(f"{int(np.isnan(scores).sum())} of them"), "not contain NaN")
    return scores


#: The default names of the columns.
WITH_COLUMN, WITHOUT_COLUMN = "with_group", "without_group"


def read_scores(path: str | Path, *, with_column: str = WITH_COLUMN, without_column: str = WITHOUT_COLUMN) -> Scores:
    """Read a CSV file with a header; empty cells are skipped, so the columns may differ in length.

    Scores may be infinite ("inf", "-inf"); anything else that is not a number is refused with its line.
    """
    if with_column == without_column:
        raise InvalidArgument("with_column and without_column", InWords(f"{shown(with_column)} twice"), "differ")
    columns = {with_column: array("d"), without_column: array("d")}
    try:
        with _opened(path) as file:
            rows = csv.reader(file)
            header = [name.strip() for name in next(rows, [])]
            for name in columns:
                if header.count(name) != 1:
                    raise InvalidArgument(
                        "scores", InWords(f"the columns {shown(header)}"), f"have one column named {shown(name)}"
                    )
            places = {name: header.index(name) for name in columns}
            for row in rows:
                for name, place in places.items():
                    if place < len(row) and row[place].strip():
                        columns[name].append(_score(name, row[place], rows.line_num))
                if rows.line_num > MOST_TRIALS:
                    raise LimitExceeded(f"scores may have at most {MOST_TRIALS} lines.")
    except OSError as error:
        raise InvalidArgument(
            "scores", InWords(f"{shown(str(path))} ({error.strerror or error})"), "be a file that can be read"
        ) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidArgument("scores", InWords(f"{shown(str(path))} ({error})"), "be a CSV file in UTF-8") from None
    return Scores(with_group=np.array(columns[with_column]), without_group=np.array(columns[without_column]))


@contextmanager
def _opened(path: str | Path) -> Iterator[TextIO]:
    """The file, or standard input for "-"; a byte order mark is skipped."""
    if str(path) == "-":
        yield io.TextIOWrapper(io.BytesIO(standard_input().read()), newline="", encoding="utf-8-sig")
        return
    with open(path, newline="", encoding="utf-8-sig") as file:
        yield file


def _score(name: str, cell: str, line: int) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise InvalidArgument(name, InWords(f"{shown(cell)} on line {line}"), "hold numbers")
    return value
