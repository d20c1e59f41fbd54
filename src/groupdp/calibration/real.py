"""Real parameters: from an approximate root to a value with certificates on both sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace

from groupdp.bounds import Bounds
from groupdp.calibration.result import Found
from groupdp.calibration.search import Root, Scale, find_root
from groupdp.calibration.target import LARGEST_SEARCH, Run, Target, TooMuchWork, Trial, try_together
from groupdp.errors import GroupDPError, InvalidArgument

#: The value returned lies this share of the tolerance on the safe side of the root, where the bounds are narrow.
_SHARE = 1.0 / 16.0
_MOST_RETREATS = 60


#: A search yields a run to try, with one ordered change or None for all of them; it is sent the trial.
Candidates = Generator[tuple[Run, str | None], Trial, Found]


def alone(target: Target, search: Candidates) -> Found:
    """What one search finds."""
    (found,) = together([target], [search])
    if isinstance(found, GroupDPError):
        raise found
    return found


def together(targets: Sequence[Target], searches: Sequence[Candidates]) -> list[Found | GroupDPError]:
    """What every search finds, or raises: each round tries what all of them ask for next."""
    for target in targets:  # all of them count in one place
        target.most_work += (len(targets) - 1) * LARGEST_SEARCH
    results: dict[int, Found | GroupDPError] = {}
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


def calibrate_real(
    target: Target,
    make: Callable[[float], Run],
    scale: Scale,
    *,
    start: float,
    slope: float,
    tolerance: float,
    impossible: Callable[[Bounds], InvalidArgument],
) -> Candidates:
    """The riskiest value of a real parameter that meets the target, to a relative tolerance.

    `impossible` words the refusal when even the safest value is proved to fail.
    """
    scale = replace(scale, digits=12 if tolerance >= 1e-9 else 17)
    value = scale.to_x(scale.to_u(start))
    first = yield make(value), None
    # The direction that decides at the start is searched alone; the answer is checked in both.
    direction = first.bounds.provenance.adjacency if first.bounds is not None else None
    for side in (direction, None):
        accuracy = 0.2 * _SHARE * tolerance
        roots = find_root(scale, start=scale.to_u(value), slope=slope, target=target.epsilon, accuracy=accuracy)
        x = scale.to_x(next(roots))
        while True:
            trial = first if x == value else (yield make(x), side)
            try:
                x = scale.to_x(roots.send(trial))
            except StopIteration as ended:
                root: Root = ended.value
                break
        if root.outside == "safest":
            safest = yield make(scale.safest), None
            raise impossible(safest.bounds) if safest.bounds is not None and safest.fails else target.decline()
        if root.outside == "riskiest":
            whole = yield make(scale.riskiest), None
            if whole.passes and whole.bounds is not None:
                return Found(scale.riskiest, whole.bounds, None, None, True)
        else:
            found = yield from _certify(target, make, scale, root, tolerance, side)
            if found is not None:
                return found
        # The direction searched was not the one that decides at the root: search with both.
    raise target.decline()


def _certify(
    target: Target,
    make: Callable[[float], Run],
    scale: Scale,
    root: Root,
    tolerance: float,
    side: str | None,
) -> Generator[tuple[Run, str | None], Trial, Found | None]:
    """Retreat from the root until both directions pass; then look for the proof that the next value fails.

    None if they hardly pass at all: the other direction decides.
    """
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
        return (yield from _with_evidence(found, lambda x: (make(x), side), scale, root, tolerance, retreat))
    except TooMuchWork:  # the value stands, without a proof that a riskier one fails
        return found


def _with_evidence(
    found: Found,
    candidate: Callable[[float], tuple[Run, str | None]],
    scale: Scale,
    root: Root,
    tolerance: float,
    retreat: float,
) -> Candidates:
    """The value found, with a riskier one that is proved to fail: the next, or one as near as can be."""
    value = found.value
    next_value = value * (1.0 - tolerance) if scale.sign < 0.0 else value * (1.0 + tolerance)
    beyond = max if scale.sign < 0.0 else min
    next_value = beyond(next_value, scale.riskiest)
    if next_value == value:  # the riskiest value of all
        return Found(value, found.bounds, None, None, True)
    room = 1.1 * root.below / root.slope
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
