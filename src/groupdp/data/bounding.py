"""Examples of each person: how many there are, and at most k of each, chosen by a keyed hash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from groupdp._files import NewFiles
from groupdp.data.choice import Choice, check_type, hexadecimal, kind_of, literal, quoted, visible_sql
from groupdp.data.duckdb_engine import COPY_FORMATS, DEFAULT_MEMORY, Engine, Progress, stages
from groupdp.data.manifest import Bounded, Counts, write_manifest
from groupdp.data.relations import NO_ROWS, Relation, open_relation
from groupdp.errors import GroupDPError, InvalidArgument, InWords, shown

#: What a spreadsheet takes for the beginning of a formula.
_FORMULA = r"^[=+\-@\t\r]"
#: If fewer than this share of the rows belong to people who lose some, only those rows are sorted.
_FEW = 0.75


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
        totals = "SELECT g0, sum(n) AS n FROM people GROUP BY g0"
        pairs = engine.rows(f"SELECT n, count(*) FROM ({totals}) GROUP BY n ORDER BY n")
        name = by if isinstance(by, str) else "owner"
        rows = f"SELECT g0 AS {quoted(name)}, CAST(n AS BIGINT) AS {counts_column(name)} FROM people ORDER BY g0"
        counts = Counts(
            examples=np.array([int(n) for n, _ in pairs], dtype=np.int64),
            people_with=np.array([int(people) for _, people in pairs], dtype=np.int64),
            table=engine.table(rows) if table else None,
            alike=alike_people(engine),
            records=records,
        )
        if out is not None and destination is not None:
            write_people(engine, rows, name, destination, writing)
            write_manifest(
                files,
                out,
                destination,
                made_by="count",
                rows=counts.rows if records is None else records,
                people=counts.people,
                largest=counts.largest,
                by=", ".join(columns_of(by)),
                owners=None if records is None else {"columns": list(columns_of(by))},
            )
        return counts


def bound(
    source: Any,
    *,
    by: str | Sequence[str],
    at_most: int | Mapping[str, int],
    key: str | tuple[str, ...] | None = None,
    per: str | None = None,
    seed: str | int = "0",
    out: str | Path | None = None,
    memory: int = DEFAULT_MEMORY,
    kind: str | None = None,
    client: Any = None,
    progress: Progress | None = None,
) -> Bounded:
    """Keep at most `at_most` examples of each person, the distinct values of the column `by`.

    Every person keeps min(at_most, their examples), those whose number (`choice.priority` of seed, person and key)
    is smallest. The choice does not depend on the order of rows, on files, on the engine or on anybody else's rows.
    `key` is a column, or several, that tells a person's examples apart; without it the row's own content does. With
    `per`, a column of sources, `at_most` holds for each source of a person: one number, or one for each source.

    Where `by` names several columns, or one with lists, a record has several owners: at most `at_most` records of each
    owner are kept, chosen by ownership, seed and `key` (which must be given) alone: owners.py.

    The rows go to `out` (Parquet, CSV or JSONL), which appears whole or not at all with its manifest (manifest.py), or
    into the answer's `table`. The report is computed from the rows written.
    """
    from groupdp.data.dask_engine import bounded_on_cluster, is_for_cluster
    from groupdp.data.owners import Owners, are_several, bounded_owners, columns_of

    names = columns_of(by)
    given = {"key": key, "at_most": at_most, "per": per, "seed": seed}
    with NewFiles("out") as files, Engine(memory=memory) as engine:
        destination = None if out is None else files.temporary(checked_suffix(out))
        if is_for_cluster(source, client):
            where = {"kind": kind, "client": client, "progress": progress}
            bounded = bounded_on_cluster(engine, source, by, given, destination, memory=memory, **where)
        else:
            opened = open_relation(engine, source, kind=kind)
            if are_several(by, opened.columns):
                owners = Owners.of(by=names, **given)
                bounded = bounded_owners(engine, opened, owners, destination, memory, progress)
            else:
                bounded = _bounded(engine, opened, Choice.of(by=by, **given), destination, progress)
        if out is not None and destination is not None:
            write_manifest(
                files,
                out,
                destination,
                made_by="bound",
                by=", ".join(names),
                rows=bounded.kept,
                people=bounded.people,
                largest=bounded.largest_kept,
                cap=bounded.at_most,
                per=per,
                key=[key] if isinstance(key, str) else list(key or ()),
                seed=bounded.seed,
                digest=bounded.digest,
                share_kept=bounded.kept / bounded.rows,
                owners=None if bounded.owners is None else {"columns": bounded.owners, "possible": bounded.possible},
            )
        return bounded


def counts_column(by: str) -> str:
    """The column of numbers of examples in a table that `count` writes."""
    return "examples" if by.casefold() != "examples" else "count"


def checked_suffix(out: str | Path) -> Path:
    """The destination, if its suffix names a format."""
    path = Path(out)
    if path.suffix.lower() not in COPY_FORMATS:
        raise InvalidArgument("out", str(out), f"end in {', '.join(COPY_FORMATS)}")
    return path


def tally_people(engine: Engine, source: Relation, group: tuple[str, ...], progress: Progress | None = None) -> None:
    """Make the table `people` (g0, g1, ..., n): how many rows each person (and source) has."""
    for name in group:
        check_type(name, kind_of(name, source.columns))
    chosen = ", ".join(f"{quoted(name)} AS g{i}" for i, name in enumerate(group))
    tally = f"SELECT {chosen}, count(*) AS n FROM {source.sql} GROUP BY ALL"
    engine.rows(f"CREATE OR REPLACE TEMP TABLE people AS {tally}", progress)
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
    """The number of the first row without a value, counted from 1 after a header."""
    engine.rows("SET threads = 1")  # rows are then numbered as they are read
    engine.rows("SET preserve_insertion_order = true")
    numbered = f"SELECT row_number() OVER () AS place, {quoted(name)} AS value FROM {source.sql}"
    return int(engine.value(f"SELECT min(place) FROM ({numbered}) WHERE coalesce(CAST(value AS VARCHAR), '') = ''"))


def write_people(engine: Engine, rows: str, by: str, out: Path, progress: Progress | None = None) -> None:
    """Write a table of people; in CSV, an identifier that a spreadsheet would compute gets an apostrophe."""
    value = quoted(by)
    if out.suffix.lower() == ".csv" and engine.value(f"SELECT typeof({value}) FROM ({rows}) LIMIT 1") == "VARCHAR":
        safe = f"CASE WHEN regexp_matches({value}, {literal(_FORMULA)}) THEN '''' || {value} ELSE {value} END"
        rows = f"SELECT * REPLACE ({safe} AS {value}) FROM ({rows})"
    engine.copy(rows, out, progress)


def _bounded(
    engine: Engine, opened: Relation, choice: Choice, destination: Path | None, progress: Progress | None
) -> Bounded:
    """Bound a source on this machine."""
    choice.check(opened.columns)
    counting, cutting, writing, checking = stages(progress, 5, 50, 35, 10)
    tally_people(engine, opened, choice.group, counting)
    check_sources(engine, choice)
    kept = stored_rows(engine, kept_rows(engine, opened, choice, cutting), opened, destination, writing)
    report, digest = check_kept(engine, kept, choice, checking)
    return delivered(engine, destination, {**report, "digest": hexadecimal(digest)})


def check_sources(engine: Engine, choice: Choice) -> None:
    """Refuse a source that has no cap."""
    if choice.per is None:
        return
    unknown = engine.rows(f"SELECT CAST(g1 AS VARCHAR) FROM people WHERE {choice.cap('g1')} IS NULL LIMIT 1")
    if unknown:
        raise InvalidArgument("at_most", InWords(f"none for {shown(unknown[0][0])}"), "have a number for every source")


def kept_rows(engine: Engine, source: Relation, choice: Choice, progress: Progress | None = None) -> str:
    """The query of the rows to keep; the table `people` must be there."""
    width = len(choice.group)
    keys = ", ".join(f"g{i}" for i in range(width))
    engine.rows(f"CREATE OR REPLACE TEMP TABLE crowded AS SELECT {keys}, n FROM people WHERE n > {choice.cap('g1')}")
    crowded, rows = engine.rows("SELECT coalesce((SELECT sum(n) FROM crowded), 0), (SELECT sum(n) FROM people)")[0]
    columns = ", ".join(f"r.{quoted(name)}" for name in source.columns)
    if not crowded:
        return f"SELECT {columns} FROM {source.sql} r"
    same = " AND ".join(f"r.{quoted(name)} = c.g{i}" for i, name in enumerate(choice.group))
    if not choice.key:
        return _kept_by_content(source, choice, same, columns)
    number = choice.number(source.columns, of="r.")
    chosen = ", ".join(f"r.{quoted(name)} AS g{i}" for i, name in enumerate(choice.group))
    joined = f"SEMI JOIN crowded c ON {same}" if crowded < _FEW * rows else ""
    # The cap-th smallest number of each; and where a number repeats among the cap + 1 smallest, that as well.
    engine.rows(
        f"""CREATE OR REPLACE TEMP TABLE cuts AS SELECT {keys}, h, repeated FROM (
            SELECT {keys}, h, row_number() OVER w AS place, coalesce(h = lag(h) OVER w, false) AS repeated
            FROM (SELECT {chosen}, {number} AS h FROM {source.sql} r {joined})
            WINDOW w AS (PARTITION BY {keys} ORDER BY h)
        ) SEMI JOIN crowded USING ({keys})
        WHERE place = greatest({choice.cap("g1")}, 1) OR repeated AND place <= {choice.cap("g1")} + 1""",
        progress,
    )
    repeated = engine.rows("SELECT CAST(g0 AS VARCHAR) FROM cuts WHERE repeated ORDER BY g0 LIMIT 1")
    if repeated:
        names = ", ".join(shown(name) for name in choice.key)
        which = InWords(f"{names}, which repeats for {shown(repeated[0][0])}")
        raise InvalidArgument("key", which, "differ between a person's examples")
    return (
        f"SELECT {columns} FROM {source.sql} r LEFT JOIN cuts c ON {same} "
        f"WHERE c.h IS NULL OR ({choice.cap('c.g1')} > 0 AND {number} <= c.h)"
    )


def _kept_by_content(source: Relation, choice: Choice, same: str, columns: str) -> str:
    """Without a key: equal rows are numbered 0, 1, ... in any order, and that number ends the message."""
    keys = ", ".join(quoted(name) for name in choice.group)
    names = ", ".join(quoted(name) for name in source.columns)
    number = choice.number(source.columns, copies="__groupdp_copy")
    alike = choice.number(source.columns, of="r.")
    return f"""
        SELECT {columns} FROM {source.sql} r ANTI JOIN crowded c ON {same}
        UNION ALL
        SELECT {names} FROM (
            SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY __groupdp_h) AS __groupdp_place FROM (
                SELECT *, {number} AS __groupdp_h FROM (
                    SELECT {columns}, row_number() OVER (PARTITION BY {alike}) - 1 AS __groupdp_copy
                    FROM {source.sql} r SEMI JOIN crowded c ON {same})))
        WHERE __groupdp_place <= {choice.cap(quoted(choice.per or ""))}"""


def _digest(engine: Engine, source: Relation, choice: Choice) -> int:
    """The exclusive or of all rows' numbers under the empty seed: the same for the same rows in any order."""
    number, rows = choice.number(source.columns, seed=""), source.sql
    if not choice.key:
        rows = f"(SELECT *, row_number() OVER (PARTITION BY {number}) - 1 AS __groupdp_copy FROM {source.sql})"
        number = choice.number(source.columns, copies="__groupdp_copy", seed="")
    return int(engine.value(f"SELECT CAST(bit_xor({number}) AS VARCHAR) FROM {rows}") or 0)


def check_kept(
    engine: Engine, kept: Relation, choice: Choice, progress: Progress | None = None
) -> tuple[dict[str, Any], int]:
    """(report, digest) of the rows written; an answer that is not min(cap, count) of everybody is a bug."""
    keys, cap = ", ".join(f"g{i}" for i in range(len(choice.group))), choice.cap("g1")
    group = ", ".join(f"{quoted(name)} AS g{i}" for i, name in enumerate(choice.group))
    tally = f"SELECT {group}, count(*) AS m FROM {kept.sql} GROUP BY ALL"
    engine.rows(f"CREATE OR REPLACE TEMP TABLE left_over AS {tally}", progress)
    wrong = engine.value(
        f"SELECT count(*) FROM people FULL JOIN left_over USING ({keys}) "
        f"WHERE n IS NULL OR coalesce(m, 0) <> least(n, {cap})"
    )
    if wrong:
        raise GroupDPError(f"the rows written are not the rows chosen, for {wrong} people: this is a bug in groupdp.")
    before = "SELECT g0, sum(n) AS n FROM people GROUP BY g0"
    after = "SELECT g0, sum(m) AS m FROM left_over GROUP BY g0"
    rows, people, largest = engine.rows(f"SELECT sum(n), count(*), max(n) FROM ({before})")[0]
    total, most = engine.rows(f"SELECT coalesce(sum(m), 0), coalesce(max(m), 0) FROM ({after})")[0]
    report = {
        "rows": int(rows),
        "people": int(people),
        "largest": int(largest),
        "kept": int(total),
        "people_cut": int(engine.value(f"SELECT count(*) FROM people WHERE n > {cap}")),
        "largest_kept": int(most),
        "at_most": choice.at_most if isinstance(choice.at_most, int) else dict(choice.at_most),
        "seed": choice.seed,
        "alike": alike_people(engine),
    }
    return report, _digest(engine, kept, choice)


def stored_path(engine: Engine, destination: Path | None) -> Path:
    """The path that rows are written to first: the destination itself if it is a Parquet file."""
    if destination is not None and destination.suffix.lower() == ".parquet":
        return destination
    return engine.folder / "kept.parquet"


def stored_rows(
    engine: Engine, query: str, like: Relation, destination: Path | None, progress: Progress | None
) -> Relation:
    """The rows of a query, written as Parquet."""
    stored = stored_path(engine, destination)
    engine.copy(query, stored, progress)
    return Relation(f"read_parquet({literal(str(stored))})", like.columns)


def delivered(engine: Engine, destination: Path | None, report: dict[str, Any]) -> Bounded:
    """Copy the stored rows to the destination, in the format of its suffix."""
    stored = stored_path(engine, destination)
    if destination is None:
        import pyarrow.parquet

        return Bounded(**report, table=pyarrow.parquet.read_table(stored))
    if stored != destination:
        engine.copy(f"SELECT * FROM read_parquet({literal(str(stored))})", destination)
    return Bounded(**report)
