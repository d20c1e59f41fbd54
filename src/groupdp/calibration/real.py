"""Real parameters: from an approximate root to a value with certificates on both sides."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from groupdp.bounds import Bounds
from groupdp.calibration.search import Root, Scale, find_root
from groupdp.calibration.target import Run, Target, TooMuchWork, Trial
from groupdp.errors import InvalidArgument

#: The value returned lies this share of the tolerance on the safe side of the root, where the bounds are narrow.
_SHARE = 1.0 / 16.0
_MOST_RETREATS = 60


@dataclass(frozen=True, slots=True)
class Found:
    """A value that passes, and the evidence about riskier ones."""

    value: float
    bounds: Bounds
    failing_value: float | None
    failing_bounds: Bounds | None
    proved_optimal: bool


def calibrate_real(
    target: Target,
    make: Callable[[float], Run],
    scale: Scale,
    *,
    start: float,
    slope: float,
    tolerance: float,
    impossible: Callable[[Bounds], InvalidArgument],
) -> Found:
    """The riskiest value of a real parameter that meets the target, to a relative tolerance.

    `impossible` words the refusal when even the safest value is proved to fail.
    """
    scale = replace(scale, digits=12 if tolerance >= 1e-9 else 17)
    value = scale.to_x(scale.to_u(start))
    first = target.try_run(make(value))
    # The direction that decides at the start is searched alone; the answer is checked in both.
    direction = first.bounds.provenance.adjacency if first.bounds is not None else None
    for side in (direction, None):

        def attempt(u: float, side: str | None = side) -> Trial:
            x = scale.to_x(u)
            return first if x == value else target.try_run(make(x), adjacency=side)

        root = find_root(
            attempt,
            scale,
            start=scale.to_u(value),
            slope=slope,
            target=target.epsilon,
            accuracy=0.2 * _SHARE * tolerance,
        )
        if root.outside == "safest":
            raise _refusal(target, make(scale.safest), impossible)
        if root.outside == "riskiest":
            whole = target.try_run(make(scale.riskiest))
            if whole.passes and whole.bounds is not None:
                return Found(scale.riskiest, whole.bounds, None, None, True)
        else:
            found = _certify(target, make, scale, root, tolerance, side)
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
) -> Found | None:
    """Retreat from the root until both directions pass; then look for the proof that the next value fails.

    None if they hardly pass at all: the other direction decides.
    """
    room = 1.1 * root.above / root.slope
    retreat = 0.0 if root.blocked else max(_SHARE * tolerance, room if room > _SHARE * tolerance else 0.0)
    for attempt in range(_MOST_RETREATS):
        value = scale.to_x(root.u - retreat)
        trial = target.try_run(make(value))
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

    def attempt_at(x: float) -> Trial:
        return target.try_run(make(x), adjacency=side)

    try:
        return _with_evidence(found, attempt_at, scale, root, tolerance, retreat)
    except TooMuchWork:  # the value stands, without a proof that a riskier one fails
        return found


def _with_evidence(
    found: Found, attempt: Callable[[float], Trial], scale: Scale, root: Root, tolerance: float, retreat: float
) -> Found:
    """The value found, with a riskier one that is proved to fail: the next, or one as near as can be."""
    value = found.value
    next_value = value * (1.0 - tolerance) if scale.sign < 0.0 else value * (1.0 + tolerance)
    beyond = max if scale.sign < 0.0 else min
    next_value = beyond(next_value, scale.riskiest)
    if next_value == value:  # the riskiest value of all
        return Found(value, found.bounds, None, None, True)
    room = 1.1 * root.below / root.slope
    if retreat + room < 2.0 * tolerance:  # else it is as good as certain that the next value cannot be proved to fail
        failing = attempt(next_value)
        if failing.fails:
            return Found(value, found.bounds, next_value, failing.bounds, True)
    # Neither side of the target can be proved this close to it: find what can.
    step = max(4.0 * tolerance, room)
    for _ in range(20):
        other_value = scale.to_x(root.u + step)
        failing = attempt(other_value)
        if failing.fails:
            return Found(value, found.bounds, other_value, failing.bounds, False)
        if other_value == scale.riskiest or (failing.bounds is None and step > 0.5):
            break
        step *= 8.0
    return found


def _refusal(target: Target, run: Run, impossible: Callable[[Bounds], InvalidArgument]) -> Exception:
    trial = target.try_run(run)
    if trial.bounds is None or not trial.fails:
        return target.decline()
    return impossible(trial.bounds)
