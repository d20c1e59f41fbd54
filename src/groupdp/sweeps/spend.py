"""The budget while training goes on: epsilon against steps, and the step at which a target is reached."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from groupdp.bounds import Bounds
from groupdp.engines import Progress
from groupdp.errors import InvalidArgument, InWords, require_number
from groupdp.guarantees import epsilon, epsilons
from groupdp.mechanisms.dpsgd import DPSGD, phases_of

#: Most points of one curve.
MOST_POINTS = 400


@dataclass(frozen=True, slots=True)
class Spent:
    """The epsilon spent after so many steps."""

    steps: int
    epsilon: Bounds
    epoch: int | None = None
    """How many epochs end at that step, if one does."""


@dataclass(frozen=True, slots=True)
class Spending:
    """The curve; and, for a target, the last step at which it is not exceeded (None: not even the first)."""

    points: tuple[Spent, ...]
    target: float | None
    last_step_within: int | None


def prefix(phases: Sequence[DPSGD], steps: int) -> list[DPSGD]:
    """The run up to a step."""
    done: list[DPSGD] = []
    for phase in phases:
        if steps <= 0:
            break
        done.append(replace(phase, steps=min(phase.steps, steps)))
        steps -= phase.steps
    return done or [replace(phases[0], steps=0)]


def spend(
    run: Any,
    *,
    delta: float,
    target: float | None = None,
    points: int = 100,
    progress: Progress | None = None,
    **neighbours: Any,
) -> Spending:
    """Certified epsilon after each epoch (or at about `points` steps, if those are fewer); epsilon rises with steps.

    Before the last step epsilon is that of the run stopped there. `neighbours` as for `epsilon`.
    """
    phases = phases_of(run)
    limit = None if target is None else require_number("target", target, above=0.0)
    total = sum(phase.steps for phase in phases)
    if total == 0:
        raise InvalidArgument("steps", InWords("0"), "be at least 1 for anything to be spent")
    most = min(max(points, 2), MOST_POINTS)
    epochs = _epochs(phases, most)
    steps = _marks(phases, total, most, epochs)
    report = progress if progress is not None else (lambda _: None)
    bounds_at: dict[int, Bounds] = {}

    def evaluate(marks: Sequence[int], start: float, end: float) -> None:
        asked = [(prefix(phases, step), {"delta": delta, **neighbours}) for step in marks]
        for done, (step, bounds) in enumerate(zip(marks, epsilons(asked), strict=True)):
            report(start + (end - start) * done / len(marks))
            if not isinstance(bounds, Bounds):
                raise bounds
            bounds_at[step] = bounds

    evaluate(steps, 0.0, 0.5)
    # A run whose first steps cost what all its first epoch does pays by the epoch: the curve rises right after its end.
    if epochs and steps[0] < min(epochs) and bounds_at[steps[0]] == bounds_at[min(epochs)]:
        evaluate([end + 1 for end in epochs if end < total and end + 1 not in bounds_at], 0.5, 0.9)
    spent = tuple(Spent(step, bounds_at[step], epochs.get(step)) for step in sorted(bounds_at))
    last = None if limit is None else _last_within(phases, spent, limit, delta, neighbours)
    return Spending(spent, limit, last)


def _marks(phases: Sequence[DPSGD], total: int, points: int, epochs: dict[int, int]) -> list[int]:
    """The ends of epochs and phases, and more if these are few; and steps before the first: epsilon rises fast."""
    ends, begun = {total, *epochs}, 0
    for phase in phases:
        begun += phase.steps
        ends.add(begun)
    if len(ends) < points // 4:
        ends |= {max(1, round(total * i / points)) for i in range(1, points + 1)}
    first = min(end for end in ends if end > 0)
    ends |= {max(1, round(first * share)) for share in (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7)}
    return sorted(end for end in ends if end > 0)


def _epochs(phases: Sequence[DPSGD], points: int) -> dict[int, int]:
    """The steps at which epochs end, with their number; none where there are too many, or what an epoch is is unknown.

    An epoch may end in a later phase than the one in which it began: shares of the data are added up.
    """
    ends: dict[int, int] = {}
    begun, visited = 0, Fraction(0)
    for phase in phases:
        try:
            length = math.ceil(1 / phase.sampling.share_of_data())
        except InvalidArgument:
            return {}
        done = visited + Fraction(phase.steps, length)
        if done > points:
            return {}
        for number in range(math.floor(visited) + 1, math.floor(done) + 1):
            ends[begun + math.ceil((number - visited) * length)] = number
        begun, visited = begun + phase.steps, done
    return ends


def _last_within(
    phases: Sequence[DPSGD], points: Sequence[Spent], target: float, delta: float, neighbours: dict[str, Any]
) -> int | None:
    low = max((point.steps for point in points if point.epsilon.upper <= target), default=0)
    high = min((point.steps for point in points if point.epsilon.upper > target), default=None)
    if high is None:
        return low

    def exceeds(steps: int) -> bool:
        return epsilon(prefix(phases, steps), delta=delta, **neighbours).upper > target

    return low + bisect_left(range(low + 1, high), True, key=exceeds) or None
