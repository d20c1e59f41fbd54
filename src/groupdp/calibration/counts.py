"""Counts: the largest integer that meets the target, with the proof that the next one does not."""

from __future__ import annotations

import math
from collections.abc import Callable

from groupdp.bounds import Bounds
from groupdp.calibration.real import Found
from groupdp.calibration.search import largest_integer
from groupdp.calibration.target import Target, Trial
from groupdp.errors import InvalidArgument


def calibrate_count(
    target: Target,
    attempt: Callable[[int, str | None], Trial],
    *,
    start: int,
    slope: float,
    smallest: int,
    largest: int,
    impossible: Callable[[Bounds], InvalidArgument],
) -> Found:
    """The largest integer whose certified upper epsilon is at most the target.

    `attempt(x, adjacency)` tries x, in one direction or (None) in all of them.
    """
    start = min(max(start, smallest), largest)
    first = attempt(start, None)
    direction = first.bounds.provenance.adjacency if first.bounds is not None else None
    for side in (direction, None):
        seen: dict[int, Trial] = {start: first}

        def remembered(x: int, side: str | None = side, seen: dict[int, Trial] = seen) -> Trial:
            if x not in seen:
                seen[x] = attempt(x, side)
            return seen[x]

        passed, other = largest_integer(
            remembered, start=start, slope=slope, smallest=smallest, largest=largest, target=target.epsilon
        )
        if passed is None:
            trial = attempt(smallest, None)
            if trial.bounds is not None and trial.fails:
                raise impossible(trial.bounds)
            raise target.decline()
        whole = attempt(passed, None)
        if whole.passes and whole.bounds is not None:
            return _with_evidence(target, slope, passed, whole.bounds, other, remembered, largest)
    raise target.decline()


def _with_evidence(
    target: Target,
    slope: float,
    passed: int,
    bounds: Bounds,
    other: int | None,
    attempt: Callable[[int], Trial],
    largest: int,
) -> Found:
    """A failing value at or beyond the first one that did not pass."""
    if other is None:
        return Found(passed, bounds, None, None, True)
    trial = attempt(other)
    if trial.fails:
        return Found(passed, bounds, other, trial.bounds, other == passed + 1)
    # Undecided: the bounds straddle the target, or the engines declined. Look further out.
    gap = 1
    if trial.bounds is not None and 0.0 < trial.bounds.lower < target.epsilon:  # where the lower side meets the target
        gap = math.ceil(min(1.2 * other * math.log(target.epsilon / trial.bounds.lower) / slope, float(largest)))
    for _ in range(40):
        further = min(other + gap, largest)
        trial = attempt(further)
        if trial.fails:
            return Found(passed, bounds, further, trial.bounds, False)
        if further == largest or trial.bounds is None:
            break
        gap *= 4
    return Found(passed, bounds, None, None, False)
