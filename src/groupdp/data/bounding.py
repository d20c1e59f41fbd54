"""At most k examples of each person, chosen by a keyed hash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from groupdp._files import NewFiles
from groupdp._validation import shown
from groupdp.data.choice import Choice, hexadecimal, literal, quoted
from groupdp.data.counting import alike_people, checked_suffix, tally_people
from groupdp.data.duckdb_engine import DEFAULT_MEMORY, Engine, Progress, stages
from groupdp.data.manifest import Bounded, write_manifest
from groupdp.data.owners import Owners, are_several, bounded_owners, columns_of
from groupdp.data.relations import Relation, open_relation
from groupdp.errors import GroupDPError, InvalidArgument, InWords

#: If fewer than this share of the rows belong to people who lose some, only those rows are sorted.
_FEW = 0.75


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
    owner are kept, chosen by ownership, key and seed alone (owners.py). `key` tells records apart, and has to be given.

    The rows go to `out` (Parquet, CSV or JSONL), which appears whole or not at all with its manifest (manifest.py), or
    into the answer's `table`. The report is computed from the rows written.
    """
    from groupdp.data.dask_engine import bounded_on_cluster, is_for_cluster

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
    if choice.per is not None:
        unknown = engine.rows(f"SELECT CAST(g1 AS VARCHAR) FROM people WHERE {choice.cap('g1')} IS NULL LIMIT 1")
        if unknown:
            raise InvalidArgument(
                "at_most", InWords(f"none for {shown(unknown[0][0])}"), "have a number for every source"
            )


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
        raise InvalidArgument(
            "key",
            InWords(f"{', '.join(shown(name) for name in choice.key)}, which repeats for {shown(repeated[0][0])}"),
            "tell a person's examples apart",
        )
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
    source_of = quoted(choice.per) if choice.per else ""
    return f"""
        SELECT {columns} FROM {source.sql} r ANTI JOIN crowded c ON {same}
        UNION ALL
        SELECT {names} FROM (
            SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY __groupdp_h) AS __groupdp_place FROM (
                SELECT *, {number} AS __groupdp_h FROM (
                    SELECT {columns}, row_number() OVER (PARTITION BY {alike}) - 1 AS __groupdp_copy
                    FROM {source.sql} r SEMI JOIN crowded c ON {same})))
        WHERE __groupdp_place <= {choice.cap(source_of)}"""


def digest_sql(source: Relation, choice: Choice) -> str:
    """The exclusive or of all rows' numbers under the empty seed: the same for the same rows in any order."""
    if choice.key:
        return f"SELECT CAST(bit_xor({choice.number(source.columns, seed='')}) AS VARCHAR) FROM {source.sql}"
    alike = choice.number(source.columns, seed="")
    number = choice.number(source.columns, copies="__groupdp_copy", seed="")
    return (
        f"SELECT CAST(bit_xor({number}) AS VARCHAR) FROM "
        f"(SELECT *, row_number() OVER (PARTITION BY {alike}) - 1 AS __groupdp_copy FROM {source.sql})"
    )


def check_kept(
    engine: Engine, kept: Relation, choice: Choice, progress: Progress | None = None
) -> tuple[dict[str, Any], int]:
    """The report, from the rows written; an answer that is not min(cap, count) of everybody is a bug and is refused."""
    keys = ", ".join(f"g{i}" for i in range(len(choice.group)))
    cap = choice.cap("g1")
    group = ", ".join(f"{quoted(name)} AS g{i}" for i, name in enumerate(choice.group))
    engine.rows(
        f"CREATE OR REPLACE TEMP TABLE left_over AS SELECT {group}, count(*) AS m FROM {kept.sql} GROUP BY ALL",
        progress,
    )
    wrong = engine.value(
        f"SELECT count(*) FROM people FULL JOIN left_over USING ({keys}) "
        f"WHERE n IS NULL OR coalesce(m, 0) <> least(n, {cap})"
    )
    if wrong:
        raise GroupDPError(f"the rows kept are not those meant to be, for {wrong} people: this is a bug in groupdp.")
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
    return report, int(engine.value(digest_sql(kept, choice)) or 0)


def stored_path(engine: Engine, destination: Path | None) -> Path:
    """Where the rows are written first: the destination itself, where that is a Parquet file."""
    direct = destination is not None and destination.suffix.lower() == ".parquet"
    return destination if destination is not None and direct else engine.folder / "kept.parquet"


def stored_rows(
    engine: Engine, query: str, like: Relation, destination: Path | None, progress: Progress | None
) -> Relation:
    """The rows of a query, written as Parquet."""
    stored = stored_path(engine, destination)
    engine.copy(query, stored, progress)
    return Relation(f"read_parquet({literal(str(stored))})", like.columns)


def delivered(engine: Engine, destination: Path | None, report: dict[str, Any]) -> Bounded:
    """Put the stored rows where they are wanted, in the format wanted there."""
    stored = stored_path(engine, destination)
    if destination is None:
        import pyarrow.parquet

        return Bounded(**report, table=pyarrow.parquet.read_table(stored))
    if stored != destination:
        engine.copy(f"SELECT * FROM read_parquet({literal(str(stored))})", destination)
    return Bounded(**report)
