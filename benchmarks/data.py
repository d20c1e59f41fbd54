"""Counting and bounding rows: DuckDB, Polars and pyarrow as one would use them by hand, groupdp beside them.

    python benchmarks/data.py [--rows 50000000] [--people 2000000] [--at-most 8]

Every task runs in a process of its own, one after the other, so that its memory is its own. Writes
benchmarks/data-report.md, which report.py takes in. What is compared is not equal work: the others choose by a seeded
hash that is stable neither across versions nor engines, hold everything in memory, and do not check what they wrote.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "benchmarks"


def make_rows(file: Path, rows: int, people: int) -> None:
    """Everybody has at least one example, and few have very many."""
    import duckdb

    duckdb.sql("SET preserve_insertion_order = false")
    duckdb.sql(
        f"""SELECT
        CASE WHEN i < {people} THEN i ELSE CAST({people} * pow(random(), 3) AS BIGINT) % {people} END AS user_id,
        i AS example_id, random() AS score, ['web', 'books', 'code'][1 + i % 3] AS source FROM range({rows}) t(i)"""
    ).write_parquet(str(file))


def groupdp_count(rows: str, out: str, at_most: int) -> None:
    from groupdp.data import count

    count(rows, by="user_id", out=out)


def groupdp_bound(rows: str, out: str, at_most: int) -> None:
    from groupdp.data import bound

    bound(rows, by="user_id", key="example_id", at_most=at_most, seed="s", out=out)


def duckdb_count(rows: str, out: str, at_most: int) -> None:
    import duckdb

    duckdb.sql(f"COPY (SELECT user_id, count(*) AS n FROM '{rows}' GROUP BY user_id) TO '{out}' (FORMAT parquet)")


def duckdb_bound(rows: str, out: str, at_most: int) -> None:
    import duckdb

    place = "row_number() OVER (PARTITION BY user_id ORDER BY hash(user_id, example_id, 's'))"
    duckdb.sql(f"COPY (SELECT * FROM '{rows}' QUALIFY {place} <= {at_most}) TO '{out}' (FORMAT parquet)")


def polars_count(rows: str, out: str, at_most: int) -> None:
    import polars

    polars.scan_parquet(rows).group_by("user_id").len().sink_parquet(out)


def polars_bound(rows: str, out: str, at_most: int) -> None:
    import polars

    number = polars.struct("user_id", "example_id").hash(seed=1)
    place = number.rank("ordinal").over("user_id")
    polars.scan_parquet(rows).filter(place <= at_most).sink_parquet(out)


def pyarrow_count(rows: str, out: str, at_most: int) -> None:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(rows, columns=["user_id"])
    pyarrow.parquet.write_table(table.group_by("user_id").aggregate([([], "count_all")]), out)


def pyarrow_bound(rows: str, out: str, at_most: int) -> None:
    """pyarrow has no hash of values and no rank within groups: random numbers, one sort, the place by NumPy."""
    import numpy as np
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(rows)
    users = table["user_id"].to_numpy()
    order = np.lexsort((np.random.default_rng(1).random(len(users)), users))
    ordered = users[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    place = np.arange(len(users)) - np.repeat(starts, np.diff(np.r_[starts, len(users)]))
    pyarrow.parquet.write_table(table.take(order[place < at_most]), out)


TASKS: dict[str, Callable[[str, str, int], None]] = {
    f"{tool} {what}": globals()[f"{tool}_{what}"]
    for what in ("count", "bound")
    for tool in ("groupdp", "duckdb", "polars", "pyarrow")
}


def run_task(name: str, rows: Path, at_most: int, limit: float) -> dict[str, object]:
    """One task in a process of its own."""
    line = [sys.executable, __file__, "--task", name, "--file", str(rows), "--at-most", str(at_most)]
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"failure": f"no answer in {limit:g} s"}
    if done.returncode:
        return {"failure": (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1][:100]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def report(results: dict[str, dict[str, object]], arguments: argparse.Namespace, load: str) -> str:
    """The page."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("duckdb", "polars", "pyarrow"))
    lines = [
        "## Counting and bounding rows",
        "",
        "Written by `benchmarks/data.py`; do not edit.",
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, "
        f"{platform.system()}, Python {platform.python_version()}; {versions}. {load}",
        "",
        f"{arguments.rows} rows of {arguments.people} people in Parquet, at most {arguments.at_most} of each kept.",
        "The other tools do less: their hash is not stable across versions, they hold what they need in memory,",
        "and nothing checks what was written.",
        "",
        "| task | tool | seconds | of processor time | GB of memory | ratio | remark |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, result in results.items():
        tool, what = name.split()
        ours = results[f"groupdp {what}"]
        if "seconds" not in result:
            lines.append(f"| {what} | {tool} | | | | | {result['failure']} |")
            continue
        ratio = f"{float(str(result['seconds'])) / float(str(ours['seconds'])):.2f}" if "seconds" in ours else ""
        numbers = [f"{float(str(result[key])):.2f}" for key in ("seconds", "processor", "memory")]
        lines.append(f"| {what} | {tool} | {' | '.join(numbers)} | {ratio} | |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--people", type=int, default=2_000_000)
    parser.add_argument("--at-most", type=int, default=8)
    parser.add_argument("--limit", type=float, default=900.0, help="seconds a task may take")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        started = time.perf_counter()
        out = FOLDER / "out.parquet"
        TASKS[arguments.task](arguments.file, str(out), arguments.at_most)
        seconds = time.perf_counter() - started
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(json.dumps({"seconds": seconds, "processor": time.process_time(), "memory": memory}))
        out.unlink()
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = FOLDER / f"rows-{arguments.rows}-{arguments.people}.parquet"
    if not rows.exists():
        make_rows(rows, arguments.rows, arguments.people)
    before = os.getloadavg()[0]
    results = {}
    for name in TASKS:
        results[name] = run_task(name, rows, arguments.at_most, arguments.limit)
        print(name, results[name], flush=True)
    load = f"Load of the machine before and after: {before:.1f}, {os.getloadavg()[0]:.1f}."
    (ROOT / "benchmarks" / "data-report.md").write_text(report(results, arguments, load))


if __name__ == "__main__":
    main()
