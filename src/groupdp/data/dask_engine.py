"""The same count and the same choice on a Dask cluster.

Every partition is read by one task, which counts its people and keeps of each person the rows that can still be among
the chosen ones: those with the cap + 1 smallest numbers in the partition. These go by person into buckets, and one task
a bucket chooses. All tasks are pure, so one that is lost with its worker is computed again with the same result.

Workers need the extra `dask`: they do their part with DuckDB, by the statements that one machine would use.
"""

from __future__ import annotations

import functools
import operator
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from groupdp.data import bounding
from groupdp.data import owners as several
from groupdp.data.choice import Choice, hexadecimal, quoted, visible_sql
from groupdp.data.duckdb_engine import LEAST_MEMORY, Engine, Progress
from groupdp.data.manifest import Bounded
from groupdp.data.owners import Owners, are_several, columns_of
from groupdp.data.relations import NO_ROWS, PREFIX, Relation, find_files, open_relation
from groupdp.errors import NOT_SHOWN, GroupDPError, InvalidArgument, InWords, shown

#: Hexadecimal digits of a person's hash that name the bucket: 16 buckets, or 256 for many partitions.
_MANY_PARTITIONS = 64
#: Bytes that a task may take in its worker.
_TASK_MEMORY = 2 * LEAST_MEMORY


def is_for_cluster(source: Any, client: Any) -> bool:
    """Whether Dask is meant: a scheduler is given, or the rows are a Dask DataFrame."""
    return client is not None or type(source).__module__.split(".")[0] in ("dask", "dask_expr")


def counted_on_cluster(engine: Engine, source: Any, by: Any, *, kind: str | None, client: Any) -> int | None:
    """Make the table `people` of a source that the cluster reads; the number of records if they have several owners."""
    with connected(client) as running, tempfile.TemporaryDirectory() as folder:
        parts = _partitions(running, source, kind, Path(folder))
        tallies = _gathered(running, [running.submit(_on_part, _tally, part, by, pure=False) for part in parts])
    tallies = [of_part for of_part in tallies if of_part is not None]
    _people_of(engine, [table for table, _ in tallies], columns_of(by)[:1])
    records = [number for _, number in tallies if number is not None]
    _require_alike(number is None for _, number in tallies)
    return sum(records) if records else None


def bounded_on_cluster(
    engine: Engine,
    source: Any,
    by: Any,
    given: dict[str, Any],
    destination: Path | None,
    *,
    memory: int,
    kind: str | None,
    client: Any,
    progress: Progress | None,
) -> Bounded:
    """Bound a source that the cluster reads; without a destination the rows stay there, as a Dask DataFrame."""
    with connected(client) as running, tempfile.TemporaryDirectory() as folder:
        parts = _partitions(running, source, kind, Path(folder))
        if (
            not isinstance(by, str)
            or running.submit(_on_part, _are_several, parts[0], by, empty=False, pure=False).result()
        ):
            owners = Owners.of(by=columns_of(by), **given)
            report, tables = _bounded_owners(engine, running, parts, owners, memory, progress)
        else:
            report, tables = _bounded(running, parts, Choice.of(by=by, **given), progress)
        if destination is None:
            return Bounded(**report, table=_frame(running, tables))
        _write(engine, running, tables, destination)
        return bounding.delivered(engine, destination, report)


def _bounded(
    running: Any, parts: list[Any], choice: Choice, progress: Progress | None
) -> tuple[dict[str, Any], list[Any]]:
    """The report, and the rows kept of every bucket, which stay with the workers."""
    digits = 1 if len(parts) <= _MANY_PARTITIONS else 2
    split = [running.submit(_on_part, _candidates, part, choice, digits, empty={}, pure=False) for part in parts]
    chosen = []
    for bucket in range(16**digits):
        pieces = [running.submit(dict.get, future, f"{bucket:0{digits}x}", pure=False) for future in split]
        chosen.append(running.submit(_chosen, pieces, choice, pure=False))
    checked = _gathered(running, _each(running, chosen, 1), progress)
    buckets = [of_bucket for of_bucket in checked if of_bucket is not None]  # they have no person in common
    if not buckets:
        raise InvalidArgument(*NO_ROWS)
    report = dict(buckets[0][0])
    for name in ("rows", "people", "kept", "people_cut", "alike"):
        report[name] = sum(of_bucket[name] for of_bucket, _ in buckets)
    for name in ("largest", "largest_kept"):
        report[name] = max(of_bucket[name] for of_bucket, _ in buckets)
    report["digest"] = hexadecimal(functools.reduce(operator.xor, (digest for _, digest in buckets)))
    return report, _each(running, chosen, 0)


def _bounded_owners(
    engine: Engine, running: Any, parts: list[Any], owners: Owners, memory: int, progress: Progress | None
) -> tuple[dict[str, Any], list[Any]]:
    """Records with several owners: the graph comes here, where one choice is made of it; the rows stay with workers."""
    import pyarrow

    graph = [running.submit(_on_part, _records, part, owners, pure=False) for part in parts]
    tables = [table for table in _gathered(running, graph, progress) if table is not None]
    if not tables:
        raise InvalidArgument(*NO_ROWS)
    engine.connection.register(f"{PREFIX}records", pyarrow.concat_tables(tables))
    engine.rows(f"CREATE OR REPLACE TEMP TABLE records AS SELECT CAST(h AS UHUGEINT) AS h, owners FROM {PREFIX}records")
    report = several.choose(engine, owners, memory)
    chosen = running.scatter(engine.table("SELECT CAST(h AS VARCHAR) AS h FROM chosen"), broadcast=True)
    nothing = (None, None)
    kept = [running.submit(_on_part, _kept, part, owners, chosen, empty=nothing, pure=False) for part in parts]
    checks = [check for check in _gathered(running, _each(running, kept, 1)) if check is not None]
    return report | several.finished(engine, owners, checks), _each(running, kept, 0)


def _each(running: Any, pairs: list[Any], place: int) -> list[Any]:
    """The entry at `place` of every future pair."""
    return [running.submit(operator.itemgetter(place), pair, pure=False) for pair in pairs]


def _on_part(work: Callable[..., Any], part: Any, *arguments: Any, empty: Any = None) -> Any:
    """In a worker: what `work` makes of one partition, or `empty` of one without rows."""
    if not isinstance(part, tuple) and not len(part):
        return empty
    file, kind = part if isinstance(part, tuple) else (part, None)
    with Engine(memory=_TASK_MEMORY, threads=1) as engine:
        return work(engine, open_relation(engine, file, kind=kind), *arguments)


def _are_several(_: Engine, source: Relation, by: str) -> bool:
    return are_several(by, source.columns)


def _tally(engine: Engine, source: Relation, by: Any) -> tuple[Any, int | None]:
    """The people of one partition, and its number of records where these may have several owners."""
    records = several.tally(engine, source, by)
    return engine.table("SELECT * FROM people"), records


def _records(engine: Engine, source: Relation, owners: Owners) -> Any:
    """The numbers and owners of one partition's records."""
    several.read_records(engine, source, owners)
    return engine.table("SELECT CAST(h AS VARCHAR) AS h, owners FROM records")


def _kept(engine: Engine, source: Relation, owners: Owners, chosen: Any) -> tuple[Any, Any]:
    """The rows of one partition that were chosen, and their report."""
    engine.connection.register(f"{PREFIX}chosen", chosen)
    engine.rows(f"CREATE OR REPLACE TEMP TABLE chosen AS SELECT CAST(h AS UHUGEINT) AS h FROM {PREFIX}chosen")
    kept = engine.table(several.kept_records(source, owners))
    engine.connection.register(f"{PREFIX}kept", kept)
    return kept, several.check_records(engine, Relation(quoted(f"{PREFIX}kept"), source.columns), owners)


@contextmanager
def connected(client: Any) -> Iterator[Any]:
    """The running client, one for the address of a scheduler, or the one that is current."""
    try:
        from distributed import Client, get_client
    except ImportError:
        raise GroupDPError("A cluster needs Dask: pip install 'groupdp[dask]'.") from None
    if isinstance(client, str):
        try:
            opened = Client(client, timeout="10s")  # type: ignore[no-untyped-call]
        except (OSError, ValueError, TimeoutError) as error:
            got = InWords(f"{shown(client)} ({shown(str(error))})")
            raise InvalidArgument("scheduler", got, "be the address of a running Dask scheduler") from None
        with opened:
            yield opened
        return
    try:
        running = get_client() if client is None else client
    except ValueError:
        raise InvalidArgument("client", None, "be given, or be running, for a Dask DataFrame") from None
    if not hasattr(running, "submit"):
        raise InvalidArgument("client", running, "be a Dask client or a scheduler's address")
    yield running


def _partitions(running: Any, source: Any, kind: str | None, folder: Path) -> list[Any]:
    """What each task reads: a partition of a Dask DataFrame, or a file, which workers must see under the same path."""
    if hasattr(source, "to_delayed"):
        return list(running.compute(list(source.to_delayed())))
    paths = [source] if isinstance(source, str | Path) else list(source)
    if "-" in paths:
        raise InvalidArgument("files", NOT_SHOWN, "be given where a scheduler is: workers cannot read standard input")
    files, common = find_files([str(path) for path in paths], kind, folder)
    return [(str(Path(file).resolve()), common) for file in files]


def _gathered(running: Any, futures: list[Any], progress: Progress | None = None) -> list[Any]:
    from distributed import as_completed

    for done, _ in enumerate(as_completed(futures), start=1):  # type: ignore[no-untyped-call]
        if progress is not None:
            progress(done / len(futures))
    return list(running.gather(futures))


def _candidates(engine: Engine, source: Relation, choice: Choice, digits: int) -> dict[str, Any]:
    """The people of one partition and the rows that may be chosen, by bucket."""
    choice.check(source.columns)
    bounding.tally_people(engine, source, choice.group)
    bounding.check_sources(engine, choice)
    rows = f"SELECT * FROM {source.sql}"
    if choice.key:
        keys = ", ".join(quoted(name) for name in choice.group)
        number, cap = choice.number(source.columns), choice.cap(quoted(choice.per or ""))
        # rank, not row_number: a repeated key must arrive as often as it is there, to be refused.
        rows += f" QUALIFY rank() OVER (PARTITION BY {keys} ORDER BY {number}) <= {cap} + 1"
    # People who look alike go into one bucket, where they are counted.
    bucket = f"left(md5({{}}), {digits}) AS {PREFIX}bucket"
    counted = engine.table(f"SELECT *, {bucket.format(visible_sql('g0'))} FROM people")
    left = engine.table(f"SELECT *, {bucket.format(visible_sql(quoted(choice.by)))} FROM ({rows})")
    counts, kept = _by_bucket(counted), _by_bucket(left)
    return {name: (counts[name], kept.get(name)) for name in counts}


def _by_bucket(table: Any) -> dict[str, Any]:
    import pyarrow.compute as compute

    names = compute.unique(table[f"{PREFIX}bucket"]).to_pylist()
    rows = table.drop_columns([f"{PREFIX}bucket"])
    return {name: rows.filter(compute.equal(table[f"{PREFIX}bucket"], name)) for name in names}


def _chosen(pieces: list[Any], choice: Choice) -> tuple[Any, Any]:
    """In a worker: the rows chosen of one bucket's people, and their report."""
    import pyarrow

    pieces = [piece for piece in pieces if piece is not None]
    if not pieces:
        return None, None
    with Engine(memory=_TASK_MEMORY, threads=1) as engine:
        _people_of(engine, [counts for counts, _ in pieces], choice.group)
        tables = [rows for _, rows in pieces if rows is not None]
        _require_alike(table.schema.remove_metadata() for table in tables)
        source = open_relation(engine, pyarrow.concat_tables(tables))
        kept = engine.table(bounding.kept_rows(engine, source, choice))
        engine.connection.register(f"{PREFIX}kept", kept)
        return kept, bounding.check_kept(engine, Relation(quoted(f"{PREFIX}kept"), source.columns), choice)


def _people_of(engine: Engine, tables: list[Any], group: tuple[str, ...]) -> None:
    """Make the table `people` from those of all partitions."""
    import pyarrow

    if not tables:
        raise InvalidArgument(*NO_ROWS)
    _require_alike(table.schema.remove_metadata() for table in tables)
    engine.connection.register(f"{PREFIX}people", pyarrow.concat_tables(tables))
    keys = ", ".join(f"g{i}" for i in range(len(group)))
    engine.rows(
        f"CREATE OR REPLACE TEMP TABLE people AS SELECT {keys}, CAST(sum(n) AS BIGINT) AS n "
        f"FROM {PREFIX}people GROUP BY {keys}"
    )
    bounding.check_people(engine, group)


def _require_alike(of_partitions: Iterable[Any]) -> None:
    """Refuse partitions of different kinds."""
    if len(set(of_partitions)) > 1:
        raise InvalidArgument("partitions", InWords("different ones"), "have the same columns and types")


def _write(engine: Engine, running: Any, tables: list[Any], destination: Path) -> None:
    """The rows in one file, a bucket at a time."""
    import pyarrow.parquet

    writer = None
    try:
        for future in tables:
            table = running.gather(future)
            if table is not None:
                writer = writer or pyarrow.parquet.ParquetWriter(
                    bounding.stored_path(engine, destination), table.schema
                )
                writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _frame(running: Any, tables: list[Any]) -> Any:
    import dask.dataframe

    empty = running.gather([running.submit(operator.is_, table, None, pure=False) for table in tables])
    filled = [table for table, nothing in zip(tables, empty, strict=True) if not nothing]
    to_pandas = operator.methodcaller("to_pandas")
    return dask.dataframe.from_delayed([running.submit(to_pandas, table, pure=False) for table in filled])
