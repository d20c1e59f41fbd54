"""Drawn indices from a file: a row for every example of every batch, with the columns step and index.

Steps count from 0 or from 1, through the whole run or, with a column epoch, within each epoch. A batch without examples
has no row. The column person says whose an example is, where the claim is about people.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from groupdp._validation import shown
from groupdp.errors import InvalidArgument, InWords
from groupdp.loading.fit_tests import Drawn, IntArray

#: Rows of a log that are read.
_MOST_ROWS = 200_000_000


@dataclass(frozen=True, slots=True, eq=False)
class IndexLog:
    """A log of a run that has whole epochs of `steps` steps; `people` has each example's person, if it was there."""

    drawn: Drawn
    people: IntArray | None


def read_index_log(path: str, *, steps: int, dataset_size: int) -> IndexLog:
    """The log at `path`: CSV, Parquet or JSON lines."""
    from groupdp.data.duckdb_engine import Engine
    from groupdp.data.keyed_hash import quoted
    from groupdp.data.sources import open_source

    with Engine() as engine:
        source = open_source(engine, path)
        for name in ("step", "index"):
            if name not in source.columns:
                raise InvalidArgument(
                    "indices", InWords(f"the columns {', '.join(source.columns)}"), f"have a column {name!r}"
                )
        rows = int(engine.value(f"SELECT count(*) FROM {source.sql}"))
        if not 0 < rows <= _MOST_ROWS:
            raise InvalidArgument("indices", InWords(f"{rows}"), f"have 1 to {_MOST_ROWS} rows")
        names = [name for name in ("step", "index", "epoch") if name in source.columns]
        people = "person" in source.columns
        for name in names:
            whole = f"regexp_full_match(trim(CAST({quoted(name)} AS VARCHAR)), '-?[0-9]{{1,18}}')"
            wrong = engine.value(f"SELECT count(*) FROM {source.sql} WHERE NOT coalesce({whole}, false)")
            if wrong:
                raise InvalidArgument(name, InWords(f"{wrong} other values"), "be an integer in every row of the log")
        chosen = [f"CAST({quoted(name)} AS BIGINT) AS {quoted(name)}" for name in names]
        if people:
            chosen.append('CAST(hash(coalesce(CAST("person" AS VARCHAR), )) >> 1 AS BIGINT) AS "person"')
        table = engine.table(f"SELECT {', '.join(chosen)} FROM {source.sql}")
        columns = {name: np.asarray(table[name].to_numpy(), dtype=np.int64) for name in names}
        persons = np.asarray(table["person"].to_numpy(), dtype=np.int64) if people else None
    return log_of(columns, persons, steps=steps, dataset_size=dataset_size)


def log_of(columns: dict[str, IntArray], persons: IntArray | None, *, steps: int, dataset_size: int) -> IndexLog:
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
    drawn = Drawn(epoch[kept], place[kept], index[kept], epochs, steps, dataset_size)
    return IndexLog(drawn, None if persons is None else _people(index, persons, dataset_size))


def _people(index: IntArray, persons: IntArray, dataset_size: int) -> IntArray:
    inside = (index >= 0) & (index < dataset_size)
    people = np.full(dataset_size, -1, dtype=np.int64)
    people[index[inside]] = persons[inside]
    if np.any(people[index[inside]] != persons[inside]):
        raise InvalidArgument("person", InWords("two"), "be one for each index")
    missing = people < 0
    people[missing] = -1 - np.arange(dataset_size)[missing]  # examples that were never drawn are nobody's
    return people
