"""Every combination of the values that vary, in chunks over threads or any executor; `spend`: epsilon against steps.

While a sweep runs into a file, every finished chunk is a file of its own in FILE.parts and appears there whole;
sweep.sha256 says which sweep it is. At the end the parts, in order, become the file, and the folder goes. One part is
in memory at a time. An interrupted sweep goes on where it stopped.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
from collections.abc import Container, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import Any

from groupdp._files import NewFiles
from groupdp.bounds import Bounds
from groupdp.engines import Progress
from groupdp.errors import (
    NOT_SHOWN,
    GroupDPError,
    InvalidArgument,
    InWords,
    require_choice,
    require_integer,
    require_number,
)
from groupdp.guarantees import Asked, epsilons
from groupdp.mechanisms.dpsgd import DPSGD, phases_of
from groupdp.mechanisms.named_values import keys_of, training_of
from groupdp.neighbours import ADJACENCIES

#: Most points of one sweep.
LARGEST_SWEEP = 1_000_000
#: Most combinations with other values that one value is tried in.
_MOST_TRIED = 1000
#: Names that vary the question instead of the run.
QUESTION_KEYS = ("delta", "group_size", "adjacency")
_RESULTS = ("epsilon_lower", "epsilon_upper", "tight", "refused")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A run, a question, and the values of what varies, in order."""

    phases: tuple[DPSGD, ...]
    delta: float | None
    group_size: Any
    adjacency: str
    vary: tuple[tuple[str, tuple[Any, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What varies."""
        return tuple(name for name, _ in self.vary)

    def __len__(self) -> int:
        return math.prod(len(values) for _, values in self.vary)

    @property
    def chunk(self) -> int:
        """How many points are evaluated in one go, and written together: a few hundred chunks, of a second at most."""
        return min(max(len(self) // 500, 250), 2000)

    @property
    def starts(self) -> range:
        """The number of every chunk's first point."""
        return range(0, len(self), self.chunk)

    def values(self, first: int = 0, last: int = LARGEST_SWEEP) -> Iterator[tuple[Any, ...]]:
        """The values of what varies, in the order of `names`, from number `first` to before `last`."""
        for number in range(first, min(last, len(self))):
            chosen = []
            for _, values in reversed(self.vary):
                number, place = divmod(number, len(values))
                chosen.append(values[place])
            yield tuple(reversed(chosen))

    def rows(self, start: int, results: Iterable[Iterable[Any]]) -> list[Row]:
        """The rows of the chunk that begins with point `start`."""
        values = self.values(start, start + self.chunk)
        return [Row(dict(zip(self.names, v, strict=True)), *r) for v, r in zip(values, results, strict=True)]

    def questions(self, points: Iterable[tuple[Any, ...]]) -> Iterator[Asked | str]:
        """The question of every point, or why there is no such run: valid values may be invalid together."""
        made: dict[tuple[Any, ...], tuple[DPSGD, ...] | InvalidArgument] = {}
        places = [place for place, name in enumerate(self.names) if name not in QUESTION_KEYS]
        for values in points:
            about_run = tuple([values[place] for place in places])
            if about_run not in made:
                made[about_run] = self.run_or_reason({self.names[place]: values[place] for place in places})
            run = made[about_run]
            chosen = dict(zip(self.names, values, strict=True))
            question = {name: chosen.get(name, getattr(self, name)) for name in QUESTION_KEYS}
            yield str(run) if isinstance(run, InvalidArgument) else (run, question)

    def run_or_reason(self, values: dict[str, Any]) -> tuple[DPSGD, ...] | InvalidArgument:
        """The run with these values in place of its own, or why there is none."""
        if not values:
            return self.phases
        (phase,) = self.phases
        described = phase.values()
        if "epochs" in values:
            described.pop("steps")
        if "batch_size" in values and "batch_size" not in described:
            described.pop("sampling_rate", None)
        try:
            is_quick = set(values) <= {"noise_multiplier", "steps", "microbatch_size"}
            return (replace(phase, **values) if is_quick else training_of({**described, **values}),)
        except InvalidArgument as error:
            return error


def grid_of(run: Any, *, delta: Any, group_size: Any, adjacency: Any, vary: Any) -> Grid:
    """A validated grid: every value is tried on the run before anything is computed."""
    phases = phases_of(run)
    if not isinstance(vary, Mapping) or not vary:
        raise InvalidArgument("vary", vary, "be a mapping from names to sequences of values")
    lists = tuple((name, _values(name, values)) for name, values in vary.items())
    known = [key for key in keys_of(phases[0].sampling.name) if key not in ("mechanism", "sampling")]
    for name in (name for name, _ in lists if name not in QUESTION_KEYS):
        if len(phases) > 1:
            raise InvalidArgument("vary", name, f"be one of {', '.join(QUESTION_KEYS)} for a run of several phases")
        if name not in known:
            needed = f"name what a run or question has ({', '.join((*known, *QUESTION_KEYS))})"
            raise InvalidArgument("vary", name, needed)
    for name, value in (("delta", delta), ("group_size", group_size)):
        if value is None and name not in vary:
            raise InvalidArgument(name, NOT_SHOWN, "be given, or vary")
    grid = Grid(
        phases=phases,
        delta=None if delta is None else require_number("delta", delta, above=0.0, below=1.0),
        group_size=1 if group_size is None else group_size,
        adjacency=adjacency,
        vary=lists,
    )
    if len(grid) > LARGEST_SWEEP:
        raise InvalidArgument("vary", len(grid), f"amount to at most {LARGEST_SWEEP} points")
    _try_values(grid)
    return grid


def _values(name: str, values: Any) -> tuple[Any, ...]:
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise InvalidArgument(f"vary[{name!r}]", values, "be a sequence of values")
    if not (listed := tuple(getattr(value, "item", lambda value=value: value)() for value in values)):
        raise InvalidArgument(f"vary[{name!r}]", InWords("none"), "have at least one value")
    if name == "adjacency" and any(value not in ADJACENCIES for value in listed):
        raise InvalidArgument("vary['adjacency']", listed, f"be some of {', '.join(ADJACENCIES)}")
    if name == "group_size":
        return tuple(require_integer("group_size", value, at_least=0) for value in listed)
    if name == "delta":
        return tuple(require_number("delta", value, above=0.0, below=1.0) for value in listed)
    return listed


def _try_values(grid: Grid) -> None:
    """Try every value with some of the others, and refuse now a value that is invalid with all of them."""
    about_run = {name: values for name, values in grid.vary if name not in QUESTION_KEYS}
    for name, values in about_run.items():
        for value in values:
            tried = islice(product(*{**about_run, name: (value,)}.values()), _MOST_TRIED)
            reasons = (grid.run_or_reason(dict(zip(about_run, chosen, strict=True))) for chosen in tried)
            first = next(reasons)
            if isinstance(first, InvalidArgument) and all(isinstance(reason, InvalidArgument) for reason in reasons):
                raise first


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
            progress(len(chunks) / len(grid.starts))
    return [row for start in sorted(chunks) for row in chunks[start]]


def finished_chunks(
    grid: Grid, *, done: Container[int] = (), executor: Executor | None = None, scheduler: str | None = None
) -> Iterator[tuple[int, list[Row]]]:
    """(number of its first point, rows) of every chunk that is not yet done, in the order in which they are finished.

    Few chunks are under way at a time, and each is sent with the values of its own points alone: neither memory nor the
    cost of a point grows with the size of the grid.
    """
    bare = replace(grid, vary=tuple((name, ()) for name in grid.names))
    with _workers(executor, scheduler) as (workers, threads):
        left = (start for start in grid.starts if start not in done)
        pending = dict[Future[list[tuple[Any, ...]]], int]()
        try:
            while True:
                for start in islice(left, 2 * threads + 2 - len(pending)):
                    points = list(grid.values(start, start + grid.chunk))
                    pending[workers.submit(_results, bare, points)] = start
                if not pending:
                    return
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    start = pending.pop(future)
                    yield start, grid.rows(start, future.result())
        finally:
            for future in pending:
                future.cancel()


def _results(grid: Grid, points: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """(lower, upper, tight, why it is refused) of every point, in order."""
    questions = list(grid.questions(points))
    answered = epsilons([question for question in questions if not isinstance(question, str)], threads=1)
    answers = [question if isinstance(question, str) else next(answered) for question in questions]
    return [
        (of.lower, of.upper, of.tight, None) if isinstance(of, Bounds) else (None, None, None, str(of))
        for of in answers
    ]


@contextmanager
def _workers(executor: Executor | None, scheduler: str | None) -> Iterator[tuple[Executor, int]]:
    """An executor, and how many calls it runs at a time."""
    processors = os.cpu_count() or 1
    if executor is not None:
        if scheduler is not None:
            raise InvalidArgument("scheduler", NOT_SHOWN, "be left out where an executor is given")
        if not callable(getattr(executor, "submit", None)):
            raise InvalidArgument("executor", NOT_SHOWN, "have a method submit, as those of concurrent.futures have")
        yield executor, processors
    elif scheduler is not None:
        from groupdp.data.dask_engine import connected

        with connected(scheduler) as client:
            yield client.get_executor(), max(sum(client.nthreads().values()), 1)
    else:
        with ThreadPoolExecutor(max_workers=processors) as threads:
            yield threads, processors


class Parts:
    """The finished chunks of a sweep, beside the file that they become."""

    def __init__(self, path: str, grid: Grid) -> None:
        if Path(path).suffix.lower() not in (".csv", ".parquet"):
            raise InvalidArgument("out", path, "end in .csv or .parquet")
        self._path, self._folder, self._grid = Path(path), Path(f"{path}.parts"), grid
        self._schema: Any = None
        if self._path.suffix.lower() == ".parquet":
            try:
                import pyarrow
            except ImportError:
                raise GroupDPError("Parquet files need the extra parquet: pip install 'groupdp[parquet]'.") from None
            varied = [(name, pyarrow.array(values).type) for name, values in grid.vary]
            types = (pyarrow.float64(), pyarrow.float64(), pyarrow.bool_(), pyarrow.string())
            self._schema = pyarrow.schema([*varied, *zip(_RESULTS, types, strict=True)])

    def begin(self) -> set[int]:
        """The first points of the chunks that an earlier run of the same sweep finished; other parts are removed."""
        question = {name: getattr(self._grid, name) for name in (*QUESTION_KEYS, "vary")}
        question["phases"] = [phase.values() for phase in self._grid.phases]
        key = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()
        digest = self._folder / "sweep.sha256"
        if not (digest.exists() and digest.read_text(encoding="utf-8", errors="replace") == key):
            self.remove()
            with NewFiles() as files:
                files.write_text(digest, key)
        return {start for start in self._grid.starts if self._part(start).exists()}

    def write(self, start: int, rows: list[Row]) -> None:
        """Write one chunk; its file appears whole."""
        with NewFiles() as files:
            files.write_text(self._part(start), json.dumps([[getattr(row, name) for name in _RESULTS] for row in rows]))

    def assemble(self) -> None:
        """The whole file, in order; it appears at once, and the parts go."""
        with NewFiles() as files:
            path = files.temporary(self._path)
            if self._schema is None:
                with open(path, "w", encoding="utf-8", newline="") as file:
                    lines = csv.writer(file, lineterminator="\n")
                    lines.writerow((*self._grid.names, *_RESULTS))
                    lines.writerows(row.as_dict().values() for row in self.rows())
            else:
                import pyarrow.parquet

                with pyarrow.parquet.ParquetWriter(path, self._schema) as writer:
                    for start in self._grid.starts:
                        flat = [row.as_dict() for row in self._chunk(start)]
                        writer.write_table(pyarrow.Table.from_pylist(flat, self._schema))
        self.remove()

    def rows(self) -> Iterator[Row]:
        """The rows of the file, from its parts."""
        return (row for start in self._grid.starts for row in self._chunk(start))

    def _chunk(self, start: int) -> list[Row]:
        return self._grid.rows(start, json.loads(self._part(start).read_text(encoding="utf-8")))

    def remove(self) -> None:
        """Delete the parts, and their folder if nothing else is in it."""
        for pattern in ("sweep.sha256", "manifest.json", "part-*"):
            for path in self._folder.glob(pattern):
                path.unlink(missing_ok=True)
        with suppress(OSError):  # it is not there, or somebody put something into it
            self._folder.rmdir()

    def _part(self, start: int) -> Path:
        return self._folder / f"part-{start:07}.json"
