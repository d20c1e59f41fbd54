"""The sweep itself: chunks of points over threads, or over any executor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from groupdp._validation import require_choice
from groupdp.engines.interface import Progress
from groupdp.errors import NOT_SHOWN, GroupDPError, InvalidArgument, InWords
from groupdp.neighbours import ADJACENCIES
from groupdp.sweeps.evaluate import Outcome, evaluate
from groupdp.sweeps.grid import Grid, grid_of

#: Points evaluated in one go.
CHUNK = 250


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
    rows: list[Row] = []
    for done in rows_of(grid, executor=executor, scheduler=scheduler):
        rows.extend(done)
        if progress is not None:
            progress(len(rows) / len(grid))
    return rows


def rows_of(
    grid: Grid, *, first: int = 0, executor: Executor | None = None, scheduler: str | None = None
) -> Iterator[list[Row]]:
    """Rows of the grid from number `first` on, chunk by chunk, in order."""
    starts = range(first, len(grid), CHUNK)
    with _workers(executor, scheduler) as workers:
        pending: list[Future[list[Outcome]]] = []
        submitted = iter(starts)
        ahead = 2 * (os.cpu_count() or 1) + 2
        try:
            for start in starts:
                while len(pending) < ahead and (following := next(submitted, None)) is not None:
                    pending.append(workers.submit(_chunk, grid, following))
                yield _rows(grid, start, pending.pop(0).result())
        finally:
            for future in pending:
                future.cancel()


def _chunk(grid: Grid, start: int) -> list[Outcome]:
    return evaluate(list(grid.points(start, start + CHUNK)))


def _rows(grid: Grid, start: int, outcomes: list[Outcome]) -> list[Row]:
    rows, names = [], grid.names
    for chosen, outcome in zip(grid.values(start, start + CHUNK), outcomes, strict=True):
        values = dict(zip(names, chosen, strict=True))
        if isinstance(outcome, str):
            rows.append(Row(values, None, None, None, outcome))
        else:
            rows.append(Row(values, *outcome))
    return rows


@contextmanager
def _workers(executor: Executor | None, scheduler: str | None) -> Iterator[Executor]:
    if executor is not None and scheduler is not None:
        raise InvalidArgument("scheduler", NOT_SHOWN, "be left out where an executor is given")
    if executor is not None:
        if not callable(getattr(executor, "submit", None)):
            raise InvalidArgument("executor", NOT_SHOWN, "have a method submit, as those of concurrent.futures have")
        yield executor
    elif scheduler is not None:
        with _dask_client(scheduler) as client:
            yield client.get_executor()
    else:
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as threads:
            yield threads


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
