"""The sweep itself: chunks of points over threads, or over any executor; rows as CSV or Parquet.

While a sweep runs into a file, every finished chunk is a file of its own in FILE.parts, in the format of FILE, and
appears there whole; manifest.json says which sweep it is. At the end the parts, in order, are the file, and the folder
goes. One part is in memory at a time. An interrupted sweep goes on where it stopped.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Container, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from groupdp._files import NewFiles
from groupdp._validation import require_choice
from groupdp.at_once import epsilons
from groupdp.bounds import Bounds
from groupdp.engines.interface import Progress
from groupdp.errors import NOT_SHOWN, GroupDPError, InvalidArgument, InWords
from groupdp.neighbours import ADJACENCIES
from groupdp.sweeps.grid import Grid, grid_of

#: (lower, upper, tight, why it is refused), as in a row.
Outcome = tuple[float | None, float | None, bool | None, str | None]


@dataclass(frozen=True, slots=True)
class Row:
    """One point: the values of what varies, and certified bounds, or why there are none."""

    values: dict[str, Any]
    epsilon_lower: float | None
    epsilon_upper: float | None
    tight: bool | None
    refused: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Flat, for tables."""
        return {**self.values, **{name: getattr(self, name) for name in _RESULTS}}


def sweep(
    run: Any,
    *,
    delta: float | None = None,
    vary: Any,
    group_size: Any = 1,
    adjacency: str = "add-or-remove",
    executor: Executor | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Certified epsilons for every combination of the values in `vary`, the last name varying fastest.

    `vary` maps names of the run file (noise_multiplier, steps, sampling_rate, batch_size, ...) or of the question
    (group_size, delta, adjacency) to values. A point that is refused has the sentence in place of numbers. Chunks run
    on threads, one for each processor; or on `executor` (any `concurrent.futures.Executor`), or on the Dask scheduler
    at the address `scheduler`.
    """
    require_choice("adjacency", adjacency, ADJACENCIES)
    grid = grid_of(run, delta=delta, group_size=group_size, adjacency=adjacency, vary=vary)
    return rows_of(grid, executor=executor, scheduler=scheduler, progress=progress)


def rows_of(grid: Grid, *, progress: Progress | None = None, **where: Any) -> list[Row]:
    """All rows, in order; `where` as for `finished_chunks`."""
    chunks: dict[int, list[Row]] = {}
    for start, rows in finished_chunks(grid, **where):
        chunks[start] = rows
        if progress is not None:
            progress(sum(map(len, chunks.values())) / len(grid))
    return [row for start in sorted(chunks) for row in chunks[start]]


def finished_chunks(
    grid: Grid, *, done: Container[int] = (), executor: Executor | None = None, scheduler: str | None = None
) -> Iterator[tuple[int, list[Row]]]:
    """(number of its first point, rows) of every chunk that is not yet done, in the order in which they are finished.

    Few chunks are under way at a time, and each is sent with the values of its own points alone: neither memory nor the
    cost of a point grows with the size of the grid.
    """
    with _workers(executor, scheduler) as (workers, threads):
        left = (start for start in range(0, len(grid), grid.chunk) if start not in done)
        bare, pending = grid.bare, dict[Future[list[Outcome]], int]()
        try:
            while True:
                for start in islice(left, 2 * threads + 2 - len(pending)):
                    values = list(grid.values(start, start + grid.chunk))
                    pending[workers.submit(_outcomes, bare, values)] = start
                if not pending:
                    return
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    start = pending.pop(future)
                    yield start, _rows(grid, start, future.result())
        finally:
            for future in pending:
                future.cancel()


def _outcomes(grid: Grid, values: list[tuple[Any, ...]]) -> list[Outcome]:
    """Bounds for every point, in order."""
    points = list(grid.points(values))
    asked = [
        (
            point.run if len(point.run) > 1 else point.run[0],
            {"delta": point.delta, "group_size": point.group_size, "adjacency": point.adjacency},
        )
        for point in points
        if point.refused is None
    ]
    answers = epsilons(asked, threads=1)
    return [_outcome(next(answers) if point.refused is None else point.refused) for point in points]


def _outcome(answer: Bounds | GroupDPError | str) -> Outcome:
    if isinstance(answer, Bounds):
        return answer.lower, answer.upper, answer.tight, None
    return None, None, None, str(answer)


def _rows(grid: Grid, start: int, outcomes: list[Outcome]) -> list[Row]:
    chosen = grid.values(start, start + grid.chunk)
    return [
        Row(dict(zip(grid.names, values, strict=True)), *outcome)
        for values, outcome in zip(chosen, outcomes, strict=True)
    ]


@contextmanager
def _workers(executor: Executor | None, scheduler: str | None) -> Iterator[tuple[Executor, int]]:
    """An executor, and how many calls it runs at a time."""
    processors = os.cpu_count() or 1
    if executor is not None and scheduler is not None:
        raise InvalidArgument("scheduler", NOT_SHOWN, "be left out where an executor is given")
    if executor is not None:
        if not callable(getattr(executor, "submit", None)):
            raise InvalidArgument("executor", NOT_SHOWN, "have a method submit, as those of concurrent.futures have")
        yield executor, processors
    elif scheduler is not None:
        with _dask_client(scheduler) as client:
            yield client.get_executor(), max(sum(client.nthreads().values()), 1)
    else:
        with ThreadPoolExecutor(max_workers=processors) as threads:
            yield threads, processors


def _dask_client(scheduler: str) -> Any:
    try:
        import distributed
    except ImportError:
        raise GroupDPError("a Dask scheduler needs the extra dask: pip install 'groupdp[dask]'.") from None
    try:
        client: Any = distributed
        return client.Client(scheduler, timeout="10s")
    except (OSError, ValueError, TimeoutError) as error:
        raise InvalidArgument(
            "scheduler",
            InWords(f"{scheduler!r} ({type(error).__name__})"),
            "be the address of a running Dask scheduler",
        ) from None


SUFFIXES = (".csv", ".parquet")
_RESULTS = ("epsilon_lower", "epsilon_upper", "tight", "refused")


def check_name(name: str, path: str) -> None:
    """Refuse a name that ends in neither .csv nor .parquet."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise InvalidArgument(name, path, "end in .csv or .parquet")


class Parts:
    """The finished chunks of a sweep, beside the file that they become."""

    def __init__(self, path: str, grid: Grid) -> None:
        check_name("out", path)
        self._path, self._grid = Path(path), grid
        self._folder = Path(f"{path}.parts")
        self._suffix = Path(path).suffix.lower()
        self._schema = _schema(grid) if self._suffix == ".parquet" else None

    def begin(self) -> set[int]:
        """The first points of the chunks that an earlier run of the same sweep has finished; parts of another sweep are
        removed."""
        manifest, key = self._folder / "manifest.json", _key(self._grid)
        try:
            same = json.loads(manifest.read_text(encoding="utf-8")) == key
        except (OSError, ValueError):
            same = False
        if not same:
            self.remove()
            with NewFiles() as files:
                files.write_text(manifest, json.dumps(key) + "\n")
        starts = range(0, len(self._grid), self._grid.chunk)
        return {start for start in starts if self._part(start).exists()}

    def write(self, start: int, rows: list[Row]) -> None:
        """Write one chunk; its file appears whole."""
        with NewFiles() as files:
            path = files.temporary(self._part(start))
            if self._schema is None:
                with open(path, "w", encoding="utf-8", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows(row.as_dict().values() for row in rows)
            else:
                import pyarrow.parquet

                flat = [row.as_dict() for row in rows]
                pyarrow.parquet.write_table(pyarrow.Table.from_pylist(flat, self._schema), path)

    def assemble(self) -> None:
        """The whole file, in order; it appears at once, and the parts go."""
        starts = range(0, len(self._grid), self._grid.chunk)
        with NewFiles() as files:
            path = files.temporary(self._path)
            if self._schema is None:
                with open(path, "w", encoding="utf-8", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerow((*self._grid.names, *_RESULTS))
                    for start in starts:
                        file.write(self._part(start).read_text(encoding="utf-8"))
            else:
                import pyarrow.parquet

                with pyarrow.parquet.ParquetWriter(path, self._schema) as writer:
                    for start in starts:
                        writer.write_table(pyarrow.parquet.read_table(self._part(start), schema=self._schema))
        self.remove()

    def rows(self) -> Iterator[Row]:
        """The rows of the file, from its parts."""
        for start in range(0, len(self._grid), self._grid.chunk):
            chosen = self._grid.values(start, start + self._grid.chunk)
            for values, results in zip(chosen, self._results(start), strict=True):
                yield Row(dict(zip(self._grid.names, values, strict=True)), *results)

    def _results(self, start: int) -> Iterator[tuple[Any, ...]]:
        if self._schema is not None:
            import pyarrow.parquet

            columns = pyarrow.parquet.read_table(self._part(start)).select(_RESULTS).to_pydict()
            yield from zip(*columns.values(), strict=True)
            return
        with open(self._part(start), encoding="utf-8", newline="") as file:
            for line in csv.reader(file):
                lower, upper, tight, refused = line[-len(_RESULTS) :]
                known = (None, None, None) if refused else (float(lower), float(upper), tight == "True")
                yield *known, refused or None

    def remove(self) -> None:
        """Delete the parts, and their folder if nothing else is in it."""
        for pattern in ("manifest.json", "part-*.csv", "part-*.parquet"):
            for path in self._folder.glob(pattern):
                path.unlink(missing_ok=True)
        try:
            self._folder.rmdir()
        except OSError:  # it is not there, or somebody put something into it
            return

    def _part(self, start: int) -> Path:
        return self._folder / f"part-{start:07}{self._suffix}"


def _schema(grid: Grid) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise GroupDPError("Parquet files need the extra parquet: pip install 'groupdp[parquet]'.") from None
    varied = [(name, pyarrow.array(values).type) for name, values in grid.vary]
    types = (pyarrow.float64(), pyarrow.float64(), pyarrow.bool_(), pyarrow.string())
    return pyarrow.schema([*varied, *zip(_RESULTS, types, strict=True)])


def _key(grid: Grid) -> str:
    """A digest of the whole question."""
    described: dict[str, Any] = {
        "phases": [phase.values() for phase in grid.phases],
        "delta": grid.delta,
        "group_size": grid.group_size,
        "adjacency": grid.adjacency,
        "vary": [[name, list(values)] for name, values in grid.vary],
        "chunk": grid.chunk,
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
