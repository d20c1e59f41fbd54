"""Counts: the most steps, the largest batch and the largest group; and which phase of a run is changed.

Formal guarantee of each: the run returned has certified epsilon.upper <= target, and unless `proved_optimal` is False
every larger count is proved to exceed the target by the lower bound. The second half rests on monotonicity: epsilon
rises with steps, batch size and group size (docs/cli.md gives the arguments).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from groupdp.bounds import Bounds
from groupdp.calibration.search import Goal, largest_integer
from groupdp.calibration.target import Calibration, Found, Run, Target, Trial, read_target, result_of, target_of
from groupdp.engines import Progress
from groupdp.errors import LARGEST_COUNT, InvalidArgument, InWords, require_integer
from groupdp.groups import LARGEST_GROUP
from groupdp.mechanisms.dpsgd import DPSGD, phases_of
from groupdp.mechanisms.mechanism import Mechanism, Wrapper, mechanisms_of
from groupdp.moments import composed_mu, gaussian_mu, growth

#: What chooses an attribute of a sampling, in the library and on the command line.
_COMMANDS = {
    "rate": "calibrate_rate (groupdp calibrate rate)",
    "batch_size": "calibrate_batch_size (groupdp calibrate batch)",
}


def calibrate_steps(
    run: Any,
    *,
    epsilon: float,
    delta: float,
    group_size: Any = None,
    adjacency: str = "add-or-remove",
    removed: Any = None,
    added: Any = None,
    phase: int | None = None,
    engine: str = "auto",
    progress: Progress | None = None,
) -> Calibration:
    """The largest number of steps that meets (epsilon, delta) for groups of `group_size`.

    The steps in `run` are ignored; of several phases, `phase` (counted from 0, -1 is the last) says which one to
    extend.
    """
    run, target = read_target(run, epsilon, delta, (group_size, adjacency, removed, added), engine, progress)
    _, put = one_phase(run, phase)
    others = sum(other.releases for other in mechanisms_of(put(steps=0)))
    beside = put(steps=0) if others else None
    found = _largest_count(
        target,
        lambda steps, side: target.try_run(put(steps=steps), adjacency=side),
        mechanisms_of(put(steps=1))[phase_index(mechanisms_of(run), phase)],
        power=2,
        smallest=0 if others else 1,
        largest=LARGEST_COUNT - others,
        even="even no step of that phase" if others else "even one step",
        beside=beside,
    )
    return result_of(target, "steps", found, put(steps=int(found.value)))


def calibrate_batch_size(
    run: Any,
    *,
    epsilon: float,
    delta: float,
    group_size: Any = None,
    adjacency: str = "add-or-remove",
    removed: Any = None,
    added: Any = None,
    phase: int | None = None,
    engine: str = "auto",
    progress: Progress | None = None,
) -> Calibration:
    """The largest fixed batch size that meets (epsilon, delta) for groups of `group_size`.

    The batch size in `run` is ignored; of several phases, `phase` (counted from 0) says which one's to choose.
    """
    run, target = read_target(run, epsilon, delta, (group_size, adjacency, removed, added), engine, progress)
    training, put = one_phase(run, phase)
    sampling = sampling_maker(training, "batch_size", "a batch size")
    found = _largest_count(
        target,
        lambda size, side: target.try_run(put(sampling=sampling(size)), adjacency=side),
        replace(training, sampling=sampling(1)),
        largest=max(training.sampling.values()["dataset_size"] - target.kept_places(), 1),
        even=f"even a batch of one {training.unit}",
        beside=None if isinstance(run, Mechanism) else put(steps=0),
    )
    return result_of(target, "batch_size", found, put(sampling=sampling(int(found.value))))


def calibrate_group_size(
    run: Any,
    *,
    epsilon: float,
    delta: float,
    adjacency: str = "add-or-remove",
    engine: str = "auto",
    progress: Progress | None = None,
) -> Calibration:
    """The largest group that the run protects with (epsilon, delta)."""
    phases = phases_of(run)
    whole: Run = phases[0] if len(phases) == 1 else phases
    if any(phase.sampling.sources is not None for phase in phases):
        raise InvalidArgument(
            "run", InWords("several sources"), "draw from one source for the group size to be calibrated"
        )
    target = target_of(
        run, epsilon=epsilon, delta=delta, group_size=1, adjacency=adjacency, engine=engine, progress=progress
    )
    limits = (phase.sampling.largest_group(target.neighbours.adjacency) for phase in phases)
    found = _largest_count(
        target,
        lambda size, side: target.try_run(whole, group_size=size, adjacency=side),
        whole,
        largest=min([LARGEST_GROUP, *(limit for limit in limits if limit is not None)]),
        even="even a single example",
    )
    target.neighbours = replace(target.neighbours, group=int(found.value))
    return result_of(target, "group_size", found, whole)


def _largest_count(
    target: Target,
    attempt: Callable[[int, str | None], Trial],
    single: Run,
    *,
    power: int = 1,
    smallest: int = 1,
    largest: int,
    even: str,
    beside: Run | None = None,
) -> Found:
    """The largest count whose certified upper epsilon is at most the target.

    `attempt(x, adjacency)` tries x, in one direction or (None) in all of them. `single` is the run with a count of 1,
    whose mu grows with the (1 / power)-th power of the count, about; `even` says what the smallest count is, in words,
    and `beside` is the run without what is counted.
    """
    grows = growth(target.epsilon, target.delta)
    goal = Goal.beside(target.epsilon, None if beside is None else target.try_run(beside), grows)
    mu = composed_mu(target.composition(single))
    ratio = gaussian_mu(target.epsilon, target.delta) * math.sqrt(1.0 - goal.taken) / mu if mu > 0.0 else math.inf
    slope = grows / power
    start = min(max(math.floor(min(ratio * ratio if power == 2 else ratio, 2.0**52)), smallest), largest)
    first = attempt(start, None)
    direction = first.bounds.provenance.adjacency if first.bounds is not None else None
    for side in (direction, None):
        seen: dict[int, Trial] = {start: first}

        def remembered(x: int, side: str | None = side, seen: dict[int, Trial] = seen) -> Trial:
            if x not in seen:
                seen[x] = attempt(x, side)
            return seen[x]

        passed, other = largest_integer(
            remembered, start=start, slope=slope, smallest=smallest, largest=largest, goal=goal
        )
        if passed is None:
            raise target.refusal(even, attempt(smallest, None))
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


def one_phase(run: Any, phase: Any) -> tuple[DPSGD, Callable[..., Run]]:
    """The phase of DP-SGD to change, and the run with other values of it."""
    phases = mechanisms_of(run)
    index = phase_index(phases, phase)
    training = Wrapper.innermost(phases[index])
    if not isinstance(training, DPSGD):
        raise InvalidArgument("run", training, "be DP-SGD in the phase to change")

    def put(**values: Any) -> Run:
        changed: Mechanism = Wrapper.changed(phases[index], **values)
        return changed if isinstance(run, Mechanism) else (*phases[:index], changed, *phases[index + 1 :])

    return training, put


def sampling_maker(phase: DPSGD, attribute: str, what: str) -> Callable[[Any], Any]:
    """Its sampling with another value of an attribute, in which epsilon must grow."""
    if attribute not in phase.sampling.epsilon_grows_with:
        others = [_COMMANDS[field] for field in phase.sampling.epsilon_grows_with if field in _COMMANDS]
        instead = f"use {' or '.join(others)} instead" if others else ""
        raise InvalidArgument("sampling", phase.sampling.name, f"have {what} that epsilon grows with", instead)
    values = {field.attribute: getattr(phase.sampling, field.attribute) for field in phase.sampling.fields}

    return lambda value: type(phase.sampling)(**{**values, attribute: value})


def phase_index(phases: tuple[Mechanism, ...], phase: Any) -> int:
    """Which phase is meant; -1 is the last one."""
    if phase is None and len(phases) > 1:
        raise InvalidArgument("phase", None, f"say which of the {len(phases)} phases to change, counted from 0")
    index = require_integer("phase", 0 if phase is None else phase, at_least=-len(phases), at_most=len(phases) - 1)
    return index % len(phases)
