"""Calibration: the least noise, the most steps, the largest batch or group that meets a target.

target.py   the target, one certified trial, and what is returned with the evidence of optimality in it
search.py   the secant search, for real parameters and for counts; moments.py says where it starts
counts.py   the most steps, the largest batch and group: the next count fails

The least noise, for one run or for many at once, and the largest sampling rate are here.

Formal guarantee of each: the run returned has certified epsilon.upper <= target, and unless `proved_optimal` is False
every value that is better by the tolerance is proved to exceed the target by the lower bound. The second half rests on
monotonicity: epsilon falls with the noise and rises with the rate (docs/cli.md gives the arguments).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from groupdp.calibration.counts import calibrate_batch_size as calibrate_batch_size
from groupdp.calibration.counts import calibrate_group_size as calibrate_group_size
from groupdp.calibration.counts import calibrate_steps as calibrate_steps
from groupdp.calibration.counts import one_phase, phase_index, sampling_maker
from groupdp.calibration.search import Goal, Root, Scale, find_root
from groupdp.calibration.target import (
    LARGEST_SEARCH,
    Found,
    Run,
    Target,
    TooMuchWork,
    Trial,
    read_target,
    result_of,
    try_together,
)
from groupdp.calibration.target import Calibration as Calibration
from groupdp.engines import Progress
from groupdp.errors import GroupDPError, InvalidArgument, InWords, require_number
from groupdp.mechanisms.mechanism import LARGEST_NOISE, SMALLEST_NOISE, Mechanism, Wrapper, mechanisms_of
from groupdp.moments import composed_mu, gaussian_mu, growth, noise_factor_for, noise_slope, rare_share

#: The value returned lies this share of the tolerance on the safe side of the root, where the bounds are narrow.
_SHARE = 1.0 / 16.0
_MOST_RETREATS = 60
#: Smallest sampling rate tried, and the one at which the start of a search is computed.
SMALLEST_RATE, _REFERENCE_RATE = 1e-300, 1e-4

_T = TypeVar("_T")
#: A search yields a run to try, with one ordered change or None for all of them; it is sent the trial.
Search = Generator[tuple[Run, str | None], Trial, _T]


def calibrate_noise(
    run: Any,
    *,
    epsilon: float,
    delta: float,
    group_size: Any = None,
    adjacency: str = "add-or-remove",
    removed: Any = None,
    added: Any = None,
    phase: int | None = None,
    tolerance: float = 1e-9,
    start: float | None = None,
    engine: str = "auto",
    progress: Progress | None = None,
) -> Calibration:
    """The smallest noise multiplier that meets (epsilon, delta) for groups of `group_size`.

    `run` is a mechanism with a noise multiplier, which is ignored, or a sequence of them, whose noise multipliers are
    all scaled by one common factor: the value found. With `phase`, counted from 0 (or backwards from -1, the last),
    only that one's noise is chosen, given all others. `start` is a noise multiplier (or factor) near the answer, if one
    is known.
    """
    neighbours = (group_size, adjacency, removed, added)
    run, target = read_target(run, epsilon, delta, neighbours, engine, progress, tolerance)
    return _alone(target, _least_noise(run, target, phase, start))


def calibrate_noises(
    asked: Sequence[tuple[Any, Any, float | None]],
    *,
    epsilon: float,
    delta: float,
    adjacency: str = "add-or-remove",
    tolerance: float = 1e-9,
    engine: str = "auto",
) -> list[Calibration | GroupDPError]:
    """`calibrate_noise`, or what it raises, for each (run, group size, start); the kernel answers their trials in
    batches."""
    targets, searches = [], []
    for described, group_size, start in asked:
        neighbours = (group_size, adjacency, None, None)
        run, target = read_target(described, epsilon, delta, neighbours, engine, None, tolerance)
        targets.append(target)
        searches.append(_least_noise(run, target, None, start))
    return _together(targets, searches)


def calibrate_rate(
    run: Any,
    *,
    epsilon: float,
    delta: float,
    group_size: Any = None,
    adjacency: str = "add-or-remove",
    removed: Any = None,
    added: Any = None,
    phase: int | None = None,
    tolerance: float = 1e-9,
    engine: str = "auto",
    progress: Progress | None = None,
) -> Calibration:
    """The largest Poisson sampling rate that meets (epsilon, delta) for groups of `group_size`.

    The rate in `run` is ignored; of several phases, `phase` (counted from 0) says which one's to choose.
    """
    neighbours = (group_size, adjacency, removed, added)
    run, target = read_target(run, epsilon, delta, neighbours, engine, progress, tolerance)
    return _alone(target, _largest_rate(run, target, phase))


def _least_noise(run: Any, target: Target, phase: Any, start: Any) -> Search[Calibration]:
    phases = mechanisms_of(run)
    chosen = range(len(phases)) if phase is None else (phase_index(phases, phase),)
    for index in chosen:
        if not hasattr(Wrapper.innermost(phases[index]), "noise_multiplier"):
            raise InvalidArgument("run", phases[index], "have a noise multiplier in every mechanism to be calibrated")
    single = len(chosen) == 1
    parameter = "noise_multiplier" if single else "noise_factor"
    unit = [
        Wrapper.changed(mechanism, noise_multiplier=1.0) if single and i in chosen else mechanism
        for i, mechanism in enumerate(phases)
    ]
    noises = [Wrapper.innermost(unit[i]).noise_multiplier for i in chosen if unit[i].releases > 0] or [1.0]
    if 0.0 in noises:
        raise InvalidArgument(
            "noise_multiplier", InWords("0 in one of them"), "be above 0 in every phase to be scaled by a factor"
        )
    scale = Scale(-1.0, safest=LARGEST_NOISE / max(noises), riskiest=SMALLEST_NOISE / min(noises))

    def make(factor: float) -> Run:
        made = list(unit)
        for i in chosen:
            noise = Wrapper.innermost(unit[i]).noise_multiplier * factor
            if noise > 0.0:  # a product may round to just outside what a run accepts
                noise = min(max(noise, SMALLEST_NOISE), LARGEST_NOISE)
            made[i] = Wrapper.changed(unit[i], noise_multiplier=noise)
        return made[0] if isinstance(run, Mechanism) or len(made) == 1 else tuple(made)

    # Without noise a round is safe only if it hardly ever samples the group; then that is the answer.
    without = yield make(0.0), None
    if without.passes and without.bounds is not None:
        return result_of(target, parameter, Found(0.0, without.bounds, None, None, True), make(0.0))
    composition = target.composition(tuple(unit[i] for i in chosen))

    grows = growth(target.epsilon, target.delta)
    others = tuple(mechanism for i, mechanism in enumerate(phases) if i not in chosen)
    goal = Goal.beside(target.epsilon, (yield others, None) if others else None, grows)

    def guessed() -> float:
        return noise_factor_for(composition, gaussian_mu(target.epsilon, target.delta) * math.sqrt(1.0 - goal.taken))

    factor = guessed() if start is None else require_number("start", start, above=0.0)
    slope = grows * noise_slope(composition, factor)
    even = f"even the largest {parameter.replace('_', ' ')}, {scale.safest:g},"
    found = yield from _riskiest(
        target, make, scale, goal, start=factor, slope=slope, even=even, again=None if start is None else guessed
    )
    return result_of(target, parameter, found, make(found.value))


def _largest_rate(run: Any, target: Target, phase: Any) -> Search[Calibration]:
    training, put = one_phase(run, phase)
    sampling = sampling_maker(training, "rate", "a sampling rate")

    def make(rate: float) -> Run:
        return put(sampling=sampling(rate))

    # Where rates are small, mu is nearly proportional to the rate.
    composition = target.composition(replace(training, sampling=sampling(_REFERENCE_RATE)))
    grows = growth(target.epsilon, target.delta)
    goal = Goal.beside(target.epsilon, None if isinstance(run, Mechanism) else (yield put(steps=0), None), grows)
    share, mu = rare_share(composition, goal.left, target.delta), composed_mu(composition)
    if share is None:
        share = (
            gaussian_mu(target.epsilon, target.delta) * math.sqrt(1.0 - goal.taken) / mu if 0.0 < mu < math.inf else 1.0
        )
    start = min(max(_REFERENCE_RATE * share, SMALLEST_RATE), 1.0)
    scale = Scale(1.0, safest=SMALLEST_RATE, riskiest=1.0, is_probability=True)
    even = f"even a sampling rate of {SMALLEST_RATE:g}"
    found = yield from _riskiest(target, make, scale, goal, start=start, slope=grows, even=even)
    return result_of(target, "sampling_rate", found, make(found.value))


def _alone(target: Target, search: Search[_T]) -> _T:
    """What one search finds."""
    (found,) = _together([target], [search])
    if isinstance(found, GroupDPError):
        raise found
    return found


def _together(targets: Sequence[Target], searches: Sequence[Search[_T]]) -> list[_T | GroupDPError]:
    """What every search finds, or raises: each round tries what all of them ask for next."""
    for target in targets:  # all of them count in one place
        target.most_work += (len(targets) - 1) * LARGEST_SEARCH
    results: dict[int, _T | GroupDPError] = {}
    answers: dict[int, Trial | GroupDPError | None] = dict.fromkeys(range(len(searches)))
    while answers:
        asked = {}
        for i, answer in answers.items():
            try:
                if isinstance(answer, GroupDPError):
                    asked[i] = searches[i].throw(answer)
                else:
                    asked[i] = next(searches[i]) if answer is None else searches[i].send(answer)
            except StopIteration as ended:
                results[i] = ended.value
            except GroupDPError as error:
                results[i] = error
        trials = try_together([(targets[i], *request) for i, request in asked.items()])
        answers = dict(zip(asked, trials, strict=True))
    return [results[i] for i in range(len(searches))]


def _riskiest(
    target: Target,
    make: Callable[[float], Run],
    scale: Scale,
    goal: Goal,
    *,
    start: float,
    slope: float,
    even: str,
    again: Callable[[], float] | None = None,
) -> Search[Found]:
    """The riskiest value of a real parameter that meets the target, to its relative tolerance.

    `slope` is that of log epsilon, about; `again` is another start; `even` says what the safest value is, in words.
    """
    scale = replace(scale, digits=12 if target.tolerance >= 1e-9 else 17)
    value = scale.to_x(scale.to_u(start))
    first = yield make(value), None
    # The direction that decides at the start is searched alone; the answer is checked in both.
    direction = first.bounds.provenance.adjacency if first.bounds is not None else None
    for side in (direction, None):
        accuracy = 0.2 * _SHARE * target.tolerance
        roots = find_root(scale, start=scale.to_u(value), slope=slope, goal=goal, accuracy=accuracy, again=again)
        x = scale.to_x(next(roots))
        while True:
            trial = first if x == value else (yield make(x), side)
            try:
                x = scale.to_x(roots.send(trial))
            except StopIteration as ended:
                root: Root = ended.value
                break
        if root.outside == "safest":
            raise target.refusal(even, (yield make(scale.safest), None))
        if root.outside == "riskiest":
            whole = yield make(scale.riskiest), None
            if whole.passes and whole.bounds is not None:
                return Found(scale.riskiest, whole.bounds, None, None, True)
        else:
            found = yield from _certify(target, make, scale, root, side)
            if found is not None:
                return found
        # The direction searched was not the one that decides at the root: search with both.
    raise target.decline()


def _certify(
    target: Target,
    make: Callable[[float], Run],
    scale: Scale,
    root: Root,
    side: str | None,
) -> Search[Found | None]:
    """Retreat from the root until both directions pass; then look for the proof that the next value fails.

    None if they hardly pass at all: the other direction decides.
    """
    tolerance = scale.distance(root.u, target.tolerance)
    room = 1.1 * root.above / root.slope
    retreat = 0.0 if root.blocked else max(_SHARE * tolerance, room if room > _SHARE * tolerance else 0.0)
    for attempt in range(_MOST_RETREATS):
        value = scale.to_x(root.u - retreat)
        trial = yield make(value), None
        if trial.bounds is not None and trial.passes:
            break
        if trial.bounds is not None and math.isfinite(trial.bounds.upper):
            # Newton's step for the upper side, in case the bounds are wide.
            miss = math.log(trial.bounds.upper / target.epsilon) / root.slope
            if side is not None and miss > 1e-3:
                return None
            retreat += 1.1 * max(miss, 0.0)
        retreat = max(retreat, _SHARE * tolerance) * (2.0 if attempt < 20 else 4.0)
        if value == scale.safest:
            return None
    else:
        return None
    found = Found(value, trial.bounds, None, None, False)
    try:
        return (yield from _with_evidence(found, lambda x: (make(x), side), scale, root, target.tolerance, retreat))
    except TooMuchWork:  # the value stands, without a proof that a riskier one fails
        return found


def _with_evidence(
    found: Found,
    candidate: Callable[[float], tuple[Run, str | None]],
    scale: Scale,
    root: Root,
    relative: float,
    retreat: float,
) -> Search[Found]:
    """The value found, with a riskier one that is proved to fail: the next, or one as near as can be."""
    value = found.value
    next_value = value * (1.0 - relative) if scale.sign < 0.0 else value * (1.0 + relative)
    beyond = max if scale.sign < 0.0 else min
    next_value = beyond(next_value, scale.riskiest)
    if next_value == value:  # the riskiest value of all
        return Found(value, found.bounds, None, None, True)
    tolerance, room = scale.distance(root.u, relative), 1.1 * root.below / root.slope
    if retreat + room < 2.0 * tolerance:  # else it is as good as certain that the next value cannot be proved to fail
        failing = yield candidate(next_value)
        if failing.fails:
            return Found(value, found.bounds, next_value, failing.bounds, True)
    # Neither side of the target can be proved this close to it: find what can.
    step = max(4.0 * tolerance, room)
    for _ in range(20):
        other_value = scale.to_x(root.u + step)
        failing = yield candidate(other_value)
        if failing.fails:
            return Found(value, found.bounds, other_value, failing.bounds, False)
        if other_value == scale.riskiest or (failing.bounds is None and step > 0.5):
            break
        step *= 8.0
    return found
