"""The sweep itself: chunks of points over threads, or over any executor."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

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
        return {
            **self.values,
            "epsilon_lower": self.epsilon_lower,
            "epsilon_upper": self.epsilon_upper,
            "tight": self.tight,
            "refused": self.refused,
        }


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
    found: dict[int, list[Row]] = {}
    for start, rows in finished_chunks(grid, executor=executor, scheduler=scheduler):
        found[start] = rows
        if progress is not None:
            progress(sum(map(len, found.values())) / len(grid))
    return [row for start in sorted(found) for row in found[start]]


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
