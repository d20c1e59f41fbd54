"""Statistics of drawn indices, each of them a count that is binomial if the claim is true.

A statistic that is a count of independent events of one known probability has an exact test: no approximation, no
degrees of freedom. Where a sampling makes events of one epoch dependent (a permutation), a count takes one event of
every epoch. Several counts of one family share its false alarm rate (Bonferroni).

Drawn indices come from a file: a row for every example of every batch, with the columns step and index. Steps count
from 0 or from 1, through the whole run or, with a column epoch, within each epoch. A batch without examples has no
row. The column person says whose an example is, where the claim is about people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from groupdp.errors import InvalidArgument, InWords, shown
from groupdp.floats import FloatArray, IntArray
from groupdp.printing import counted

#: Assumed relative error of the incomplete beta function; p-values are taken that much larger.
_SLACK = 1e-6


@dataclass(frozen=True, slots=True)
class Finding:
    """One statistic, held against the claim."""

    what: str
    """A sentence with what was counted and what the claim expects."""
    p_value: float
    """The probability, if the claim is true, of a count at least this unusual anywhere in the family; 0 where the
    claim excludes what was seen."""


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Indices as they were drawn: one entry for each (epoch, step, index)."""

    epoch: IntArray
    step: IntArray
    """The step within its epoch, counted from 0."""
    index: IntArray
    epochs: int
    """Whole ones: what follows them is left out."""
    steps: int
    """Steps of an epoch, empty batches included."""
    dataset_size: int

    @property
    def rounds(self) -> IntArray:
        """The step of every entry, counted through all epochs."""
        return self.epoch * self.steps + self.step

    def by(self, unit_of: Callable[[IntArray], IntArray], units: int) -> Drawn:
        """The same draws by unit: a person is in a batch if one of their examples is."""
        keys = np.unique(self.rounds * units + unit_of(self.index))
        rounds = keys // units
        return Drawn(rounds // self.steps, rounds % self.steps, keys % units, self.epochs, self.steps, units)

    def sizes(self) -> IntArray:
        """The size of every batch, of shape (epochs, steps)."""
        counts = np.bincount(self.rounds, minlength=self.epochs * self.steps).astype(np.int64)
        return counts.reshape(self.epochs, self.steps)

    def place(self) -> IntArray:
        """The batch of every example in every epoch, of shape (epochs, dataset_size), where each is in exactly one;
        -1 where an example is in none."""
        places = np.full((self.epochs, self.dataset_size), -1, dtype=np.int64)
        places[self.epoch, self.index] = self.step
        return places


def binomial(
    what: str | Sequence[str], counts: npt.ArrayLike, trials: npt.ArrayLike, chance: npt.ArrayLike
) -> Finding | None:
    """Two-sided exact tests of a family of counts, named together or one by one; None without trials."""
    given = (np.asarray(array, dtype=np.float64) for array in (counts, trials, chance))
    c, n, p = (array.reshape(-1) for array in np.broadcast_arrays(*given))
    if n.size == 0 or not np.any(n > 0):
        return None
    upper = np.where(c > 0, special.betainc(np.maximum(c, 1.0), n - np.maximum(c, 1.0) + 1.0, p), 1.0)
    lower = np.where(c < n, special.betaincc(np.minimum(c, n - 1.0) + 1.0, n - np.minimum(c, n - 1.0), p), 1.0)
    each = np.minimum(1.0, 2.0 * np.minimum(upper, lower) * (1.0 + _SLACK))
    worst = int(np.argmin(each))
    family = f" (the most unusual of {each.size})" if each.size > 1 else ""
    named = what if isinstance(what, str) else what[worst]
    said = f"{named}: {counted(int(c[worst]))} of {counted(int(n[worst]))}{family}, expected {n[worst] * p[worst]:.4g}"
    return Finding(said, float(min(1.0, each[worst] * each.size)))


def excluded(what: str, times: int) -> Finding:
    """Something that the claim excludes, seen so many times."""
    return Finding(
        f"{what}: {times} times, and never if the claim is true" if times else f"{what}: never", float(not times)
    )


def quantile_counts(what: str, values: IntArray, law: FloatArray) -> Finding | None:
    """How many of independent values are at most each of five quantiles of their law (a probability for 0, 1, ...), and
    how many are equal to its mode: constant values are caught, too wide and too narrow ones as well. `what` has braces
    for the value."""
    below = np.cumsum(law)
    points = np.unique(np.searchsorted(below, (0.02, 0.25, 0.5, 0.75, 0.98)))
    mode = int(np.argmax(law))
    counts = [int((values <= point).sum()) for point in points] + [int((values == mode).sum())]
    chances = [min(1.0, float(below[point])) for point in points] + [float(law[mode])]
    names = [what.format(f"at most {point}") for point in points] + [what.format(f"exactly {mode}")]
    return binomial(names, counts, len(values), chances)


def binomial_law(trials: int, chance: float) -> FloatArray:
    """P(Binom(trials, chance) = 0, 1, ...)."""
    k = np.arange(trials + 1.0)
    logs = _log_choose(trials, k) + special.xlogy(k, chance) + special.xlog1py(trials - k, -chance)
    return np.asarray(np.exp(logs))


def hypergeometric_law(batch: int, dataset: int) -> FloatArray:
    """The law of how many examples two independent batches of one size share."""
    least = max(0, 2 * batch - dataset)
    k = np.arange(least, batch + 1.0)
    logs = _log_choose(batch, k) + _log_choose(dataset - batch, batch - k) - _log_choose(dataset, batch)
    return np.concatenate([np.zeros(least), np.exp(logs)])


def _log_choose(n: float, k: npt.ArrayLike) -> FloatArray:
    """log (n over k) = -log(n + 1) - log B(n - k + 1, k + 1)."""
    chosen = np.asarray(k, dtype=np.float64)
    return np.asarray(-math.log1p(n) - special.betaln(n - chosen + 1.0, chosen + 1.0))


def at_most_once(drawn: Drawn) -> Finding:
    """Every example in at most one batch of an epoch."""
    keys = drawn.epoch * drawn.dataset_size + drawn.index
    return excluded("An example in several batches of one epoch", int(keys.size - np.unique(keys).size))


def exactly_once(drawn: Drawn) -> Iterator[Finding]:
    """Every example in exactly one batch of every epoch."""
    yield at_most_once(drawn)
    keys = np.unique(drawn.epoch * drawn.dataset_size + drawn.index)
    yield excluded("An example in no batch of an epoch", drawn.epochs * drawn.dataset_size - int(keys.size))


def shared_rounds(drawn: Drawn, first: IntArray, second: IntArray) -> IntArray:
    """How many examples are in both of two batches, for pairs of rounds."""
    size = drawn.dataset_size
    rounds = drawn.epochs * drawn.steps
    partner = np.full(rounds, -1, dtype=np.int64)
    partner[first] = second
    of_entries = partner[drawn.rounds]
    wanted = of_entries >= 0
    keys = np.unique(drawn.rounds * size + drawn.index)
    asked = of_entries[wanted] * size + drawn.index[wanted]
    both = np.isin(asked, keys)
    counts = np.bincount(drawn.rounds[wanted][both], minlength=rounds).astype(np.int64)
    return counts[first]


def require_whole_epochs(drawn: Drawn, least: int = 2) -> None:
    """Refuse a log that is too short to say anything."""
    if drawn.epochs < least:
        needed = f"cover at least {least} whole epochs of {drawn.steps} steps"
        raise InvalidArgument("indices", InWords(f"{drawn.epochs}"), needed)


#: Rows of a log that are read.
_MOST_ROWS = 200_000_000


def read_index_log(path: str, *, steps: int, dataset_size: int) -> tuple[Drawn, IntArray | None]:
    """The whole epochs of the log at `path` (CSV, Parquet or JSON lines), and each example's person, if it is there."""
    from groupdp.data.choice import quoted
    from groupdp.data.duckdb_engine import Engine
    from groupdp.data.relations import open_relation

    with Engine() as engine:
        source = open_relation(engine, path)
        for name in ("step", "index"):
            if name not in source.columns:
                needed = f"have a column {name!r}"
                raise InvalidArgument("indices", InWords(f"the columns {', '.join(source.columns)}"), needed)
        rows = int(engine.value(f"SELECT count(*) FROM {source.sql}"))
        if not 0 < rows <= _MOST_ROWS:
            raise InvalidArgument("indices", InWords(f"{rows}"), f"have 1 to {_MOST_ROWS} rows")
        names = [name for name in ("step", "index", "epoch") if name in source.columns]
        for name in names:
            whole = f"regexp_full_match(trim(CAST({quoted(name)} AS VARCHAR)), '-?[0-9]{{1,18}}')"
            wrong = engine.value(f"SELECT count(*) FROM {source.sql} WHERE NOT coalesce({whole}, false)")
            if wrong:
                raise InvalidArgument(name, InWords(f"{wrong} other values"), "be an integer in every row of the log")
        chosen = [f"CAST({quoted(name)} AS BIGINT) AS {quoted(name)}" for name in names]
        if "person" in source.columns:
            if engine.value(f'SELECT count(*) FROM {source.sql} WHERE "person" IS NULL'):
                raise InvalidArgument("person", InWords("nobody"), "be given in every row of the log")
            chosen.append('CAST(hash(CAST("person" AS VARCHAR)) >> 1 AS BIGINT) AS "person"')
        table = engine.table(f"SELECT {', '.join(chosen)} FROM {source.sql}")
        columns = {name: np.asarray(table[name].to_numpy(), dtype=np.int64) for name in names}
        persons = np.asarray(table["person"].to_numpy(), dtype=np.int64) if "person" in source.columns else None
    people = None if persons is None else _people(columns["index"], persons, dataset_size)
    return _drawn(columns, steps=steps, dataset_size=dataset_size), people


def _drawn(columns: dict[str, IntArray], *, steps: int, dataset_size: int) -> Drawn:
    """Entries by epoch and step; the steps after the last whole epoch are left out."""
    step, index = columns["step"], columns["index"]
    base = int(step.min())
    base = base if base < 2 else 0
    if base < 0:
        raise InvalidArgument("step", base, "count from 0 or 1")
    epoch = columns.get("epoch")
    if epoch is None:
        epoch, place = (step - base) // steps, (step - base) % steps
        epochs = (int(step.max()) - base + 1) // steps
    else:
        epoch = epoch - int(epoch.min())
        within = int(step.max()) - base < steps
        place = step - base if within else step - base - epoch * steps
        epochs = int(epoch.max()) + 1
        if place.min() < 0 or place.max() >= steps:
            wrong = int(step[np.argmax((place < 0) | (place >= steps))])
            raise InvalidArgument("step", InWords(shown(wrong)), f"be one of the {steps} steps of its epoch")
    kept = epoch < epochs
    return Drawn(epoch[kept], place[kept], index[kept], epochs, steps, dataset_size)


def _people(index: IntArray, persons: IntArray, dataset_size: int) -> IntArray:
    inside = (index >= 0) & (index < dataset_size)
    people = np.full(dataset_size, -1, dtype=np.int64)
    people[index[inside]] = persons[inside]
    if np.any(people[index[inside]] != persons[inside]):
        raise InvalidArgument("person", InWords("two"), "be the same in all rows of an index")
    missing = people < 0
    people[missing] = -1 - np.arange(dataset_size)[missing]  # examples that were never drawn are nobody's
    return people
