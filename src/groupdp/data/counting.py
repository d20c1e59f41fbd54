"""Examples of each person."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from groupdp._files import NewFiles
from groupdp._validation import shown
from groupdp.data.choice import check_type, kind_of, literal, quoted, visible_sql
from groupdp.data.duckdb_engine import COPY_FORMATS, DEFAULT_MEMORY, Engine, Progress, stages
from groupdp.data.manifest import Counts, write_manifest
from groupdp.data.relations import NO_ROWS, Relation, open_relation
from groupdp.errors import InvalidArgument, InWords

#: What a spreadsheet takes for the beginning of a formula.
_FORMULA = r"^[=+\-@\t\r]"


def count(
    source: Any,
    *,
    by: str | Sequence[str],
    out: str | Path | None = None,
    table: bool = False,
    memory: int = DEFAULT_MEMORY,
    kind: str | None = None,
    client: Any = None,
    progress: Progress | None = None,
) -> Counts:
    """Count the examples of each person, the distinct values of the column `by`.

    `source` is a path, glob, directory or a list of them, a pandas, Polars or Arrow table, a DuckDB relation or a Dask
    DataFrame. Missing or empty values are refused: an example without a person cannot be bounded. Where `by`
    names several columns, or one with lists, a record counts for each of its owners, and needs at least one. `out` gets
    a table of people and their numbers of examples, with a manifest beside it; `table=True` returns it.
    """
    from groupdp.data.dask_engine import counted_on_cluster, is_for_cluster
    from groupdp.data.owners import columns_of, tally

    with NewFiles("out") as files, Engine(memory=memory) as engine:
        destination = None if out is None else files.temporary(checked_suffix(out))
        counting, writing = stages(progress, 9, 1)
        if is_for_cluster(source, client):
            records = counted_on_cluster(engine, source, by, kind=kind, client=client)
        else:
            records = tally(engine, open_relation(engine, source, kind=kind), by, counting)
        pairs = engine.rows(
            "SELECT n, count(*) FROM (SELECT g0, sum(n) AS n FROM people GROUP BY g0) GROUP BY n ORDER BY n"
        )
        name = by if isinstance(by, str) else "owner"
        column = counts_column(name)
        rows = f"SELECT g0 AS {quoted(name)}, CAST(n AS BIGINT) AS {column} FROM people ORDER BY g0"
        counts = Counts(
            examples=np.array([int(n) for n, _ in pairs], dtype=np.int64),
            people_with=np.array([int(people) for _, people in pairs], dtype=np.int64),
            table=engine.table(rows) if table else None,
            alike=alike_people(engine),
            records=records,
        )
        if out is not None and destination is not None:
            write_people(engine, rows, name, destination, writing)
            columns = columns_of(by)
            write_manifest(
                files,
                out,
                destination,
                made_by="count",
                rows=counts.rows if records is None else records,
                people=counts.people,
                largest=counts.largest,
                by=", ".join(columns),
                owners=None if records is None else {"columns": list(columns)},
            )
        return counts


def tally_people(engine: Engine, source: Relation, group: tuple[str, ...], progress: Progress | None = None) -> None:
    """Make the table `people` (g0, g1, ..., n): how many rows each person (and source) has."""
    for name in group:
        check_type(name, kind_of(name, source.columns))
    chosen = ", ".join(f"{quoted(name)} AS g{i}" for i, name in enumerate(group))
    engine.rows(
        f"CREATE OR REPLACE TEMP TABLE people AS SELECT {chosen}, count(*) AS n FROM {source.sql} GROUP BY ALL",
        progress,
    )
    check_people(engine, group, source)


def check_people(engine: Engine, group: tuple[str, ...], source: Relation | None = None) -> None:
    """Refuse missing identifiers, those with spaces around them, and tables without rows."""
    for i, name in enumerate(group):
        missing = engine.value(f"SELECT sum(n) FROM people WHERE g{i} IS NULL OR CAST(g{i} AS VARCHAR) = ''")
        if missing:
            rows, first = ("row", "row") if missing == 1 else ("rows", "the first of them row")
            where = "" if source is None else f", {first} {_first_missing(engine, source, name)}"
            raise InvalidArgument(shown(name), InWords(f"{missing} {rows} without it{where}"), "not be missing")
        spaces = f"trim(CAST(g{i} AS VARCHAR), ' ' || chr(9) || chr(10) || chr(13))"
        odd = engine.rows(f"SELECT CAST(g{i} AS VARCHAR) FROM people WHERE CAST(g{i} AS VARCHAR) <> {spaces} LIMIT 1")
        if odd:  # the same person with and without a space would count as two
            raise InvalidArgument(shown(name), odd[0][0], "not begin or end with spaces")
    if not engine.value("SELECT count(*) FROM people"):
        raise InvalidArgument(*NO_ROWS)


def alike_people(engine: Engine) -> int:
    """How many people have an identifier that differs from another's only in invisible characters."""
    if not engine.value("SELECT count(*) FROM people WHERE regexp_matches(CAST(g0 AS VARCHAR), '[^ -~]')"):
        return 0
    groups = f"SELECT count(DISTINCT g0) AS people FROM people GROUP BY {visible_sql('g0')}"
    return int(engine.value(f"SELECT coalesce(sum(people), 0) FROM ({groups}) WHERE people > 1"))


def _first_missing(engine: Engine, source: Relation, name: str) -> int:
    """The number of the first row without a value, counted from 1 after any header."""
    engine.rows("SET threads = 1")  # rows are then numbered as they are read
    engine.rows("SET preserve_insertion_order = true")
    numbered = f"SELECT row_number() OVER () AS place, {quoted(name)} AS value FROM {source.sql}"
    first = engine.value(f"SELECT min(place) FROM ({numbered}) WHERE value IS NULL OR CAST(value AS VARCHAR) = ''")
    return int(first)


def counts_column(by: str) -> str:
    """The column of numbers of examples in a table that `count` writes."""
    return "examples" if by.casefold() != "examples" else "count"


def write_people(engine: Engine, rows: str, by: str, out: Path, progress: Progress | None = None) -> None:
    """Write a table of people; in CSV, an identifier that a spreadsheet would compute gets an apostrophe."""
    value, mark = quoted(by), literal("'")
    if out.suffix.lower() == ".csv" and engine.value(f"SELECT typeof({value}) FROM ({rows}) LIMIT 1") == "VARCHAR":
        safe = f"CASE WHEN regexp_matches({value}, {literal(_FORMULA)}) THEN {mark} || {value} ELSE {value} END"
        rows = f"SELECT * REPLACE ({safe} AS {value}) FROM ({rows})"
    engine.copy(rows, out, progress)


def checked_suffix(out: str | Path) -> Path:
    """The destination, if its suffix names a format."""
    path = Path(out)
    if path.suffix.lower() not in COPY_FORMATS:
        raise InvalidArgument("out", str(out), f"end in {', '.join(COPY_FORMATS)}")
    return path
