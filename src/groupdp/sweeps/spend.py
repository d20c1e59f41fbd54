"""The budget while training goes on: epsilon against steps, and the step at which a target is reached."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from groupdp._validation import require_number
from groupdp.bounds import Bounds
from groupdp.dpsgd import DPSGD, phases_of
from groupdp.engines.interface import Progress
from groupdp.errors import InvalidArgument
from groupdp.guarantees import epsilon

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
        raise InvalidArgument("steps must be at least 1 for anything to be spent, got 0.")
    most = min(max(points, 2), MOST_POINTS)
    epochs = _epochs(phases, most)
    steps = _marks(phases, total, most, epochs)
    found = []
    for done, step in enumerate(steps):
        if progress is not None:
            progress(0.9 * done / len(steps))
        found.append(Spent(step, epsilon(prefix(phases, step), delta=delta, **neighbours), epochs.get(step)))
    last = None if limit is None else _last_within(phases, found, limit, delta, neighbours)
    return Spending(tuple(found), limit, last)


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
    """The steps at which epochs end, with their number; none where there are too many or a phase ends within one."""
    ends: dict[int, int] = {}
    begun = done = 0
    for phase in phases:
        try:
            epoch = math.ceil(1 / phase.sampling.share_of_data())
        except InvalidArgument:
            return ends
        for end in range(begun + epoch, begun + min(phase.steps, points * epoch) + 1, epoch):
            done += 1
            ends[end] = done
        begun += phase.steps
        if phase.steps % epoch:
            break
    return ends if len(ends) <= points else {}


def _last_within(
    phases: Sequence[DPSGD], found: Sequence[Spent], target: float, delta: float, neighbours: dict[str, Any]
) -> int | None:
    low = max((one.steps for one in found if one.epsilon.upper <= target), default=0)
    high = min((one.steps for one in found if one.epsilon.upper > target), default=None)
    if high is None:
        return low
    while high - low > 1:
        middle = (low + high) // 2
        if epsilon(prefix(phases, middle), delta=delta, **neighbours).upper <= target:
            low = middle
        else:
            high = middle
    return low or None
