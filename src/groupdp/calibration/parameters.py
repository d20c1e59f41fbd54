"""One function per parameter: noise multiplier, steps, sampling rate, batch size, group size.

Formal guarantee of each: the run returned has certified epsilon.upper <= target, and unless `proved_optimal` is
False every better value (by the tolerance, or by 1) is proved to exceed the target by the lower bound. The second
half rests on monotonicity: epsilon falls with the noise, and rises with steps, rate, batch size and group size
(docs/cli.md gives the arguments).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from groupdp._validation import LARGEST_COUNT, require_integer, require_number, shown
from groupdp.bounds import Bounds
from groupdp.calibration.counts import calibrate_count
from groupdp.calibration.guess import composed_mu, gaussian_mu, noise_factor_for
from groupdp.calibration.real import Found, calibrate_real
from groupdp.calibration.result import Calibration
from groupdp.calibration.search import Scale
from groupdp.calibration.target import LARGEST_TOLERANCE, SMALLEST_TOLERANCE, Run, Target, Trial, target_of
from groupdp.engines.interface import Progress
from groupdp.errors import InvalidArgument, InWords
from groupdp.groups import LARGEST_GROUP
from groupdp.mechanisms.dpsgd import DPSGD, phases_of
from groupdp.mechanisms.mechanism import LARGEST_NOISE, SMALLEST_NOISE, mechanisms_of
from groupdp.neighbours import ADJACENCIES
from groupdp.printing import round_down

#: What chooses an attribute of a sampling, in the library and on the command line.
_COMMANDS = {
    "rate": "calibrate_rate (groupdp calibrate rate)",
    "batch_size": "calibrate_batch_size (groupdp calibrate batch)",
}
#: Smallest sampling rate tried.
SMALLEST_RATE = 1e-300


def calibrate_noise(
    run: Any,
    *,
    epsilon: float,
    delta: float,
    group_size: Any = None,
    adjacency: str = "add-or-remove",
    removed: Any = None,
    added: Any = None,
    tolerance: float = 1e-9,
    start: float | None = None,
    engine: str = "auto",
    progress: Progress | None = None,
) -> Calibration:
    """The smallest noise multiplier that meets (epsilon, delta) for groups of `group_size`.

    `run` is a mechanism with a noise multiplier, which is not looked at, or a sequence of them, whose noise
    multipliers are all scaled by one common factor: the value found. `start` is a noise multiplier (or factor) to
    begin with, if one that is close is known.
    """
    target, accuracy = _read_target(
        run, epsilon, delta, (group_size, adjacency, removed, added), engine, progress, tolerance
    )
    phases = _noisy_mechanisms(run)
    single = len(phases) == 1
    parameter = "noise_multiplier" if single else "noise_factor"
    unit = (replace(phases[0], noise_multiplier=1.0),) if single else phases
    silent = [phase for phase in phases if phase.noise_multiplier == 0.0 and phase.releases > 0]
    if not single and silent:
        raise InvalidArgument(
            "noise_multiplier", InWords("0 in one of them"), "be above 0 in every phase to be scaled by a factor"
        )
    noises = [phase.noise_multiplier for phase in unit if phase.releases > 0] or [1.0]
    scale = Scale(-1.0, safest=LARGEST_NOISE / max(noises), riskiest=SMALLEST_NOISE / min(noises))

    def make(factor: float) -> Run:
        made = tuple(replace(phase, noise_multiplier=_clipped_noise(phase.noise_multiplier * factor)) for phase in unit)
        return made[0] if single else made

    def result(found: Found) -> Calibration:
        return _result(target, parameter, found, make(found.value), accuracy)

    # Without noise a round is safe only if it hardly ever samples the group; then that is the answer.
    without = target.try_run(make(0.0))
    if without.passes and without.bounds is not None:
        return result(Found(0.0, without.bounds, None, None, True))
    if start is None:
        factor = noise_factor_for(
            target.composition(unit),
            gaussian_mu(target.epsilon, target.delta),
        )
    else:
        factor = require_number("start", start, above=0.0)
    found = calibrate_real(
        target,
        make,
        scale,
        start=factor,
        tolerance=accuracy,
        impossible=lambda bounds: _cannot(
            target, f"even the largest {parameter.replace('_', ' ')}, {scale.safest:g},", bounds
        ),
    )
    return result(found)


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

    The steps in `run` are not looked at; of several phases, `phase` (counted from 0) says which one to extend.
    """
    target, _ = _read_target(run, epsilon, delta, (group_size, adjacency, removed, added), engine, progress, None)
    phases, index, put = _one_phase(run, phase)
    others = sum(one.steps for i, one in enumerate(phases) if i != index)

    def make(steps: int) -> Run:
        return put(replace(phases[index], steps=steps))

    per_step = composed_mu(target.composition(replace(phases[index], steps=1)))
    ratio = gaussian_mu(target.epsilon, target.delta) / per_step if per_step > 0.0 else math.inf
    found = calibrate_count(
        target,
        lambda steps, side: target.try_run(make(steps), adjacency=side),
        start=math.floor(min(ratio * ratio, 2.0**52)),
        smallest=0 if others else 1,
        largest=LARGEST_COUNT - others,
        impossible=lambda bounds: _cannot(target, "even no step of that phase" if others else "even one step", bounds),
    )
    return _result(target, "steps", found, make(int(found.value)), None)


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

    The rate in `run` is not looked at; of several phases, `phase` (counted from 0) says which one's to choose.
    """
    target, accuracy = _read_target(
        run, epsilon, delta, (group_size, adjacency, removed, added), engine, progress, tolerance
    )
    phases, index, put = _one_phase(run, phase)
    made = _maker(phases[index], "rate", "a sampling rate")

    def make(rate: float) -> Run:
        return put(made(rate))

    # Where rates are small, mu is nearly proportional to the rate.
    reference = 1e-4
    mu = composed_mu(target.composition(made(reference)))
    start = reference * gaussian_mu(target.epsilon, target.delta) / mu if 0.0 < mu < math.inf else reference
    found = calibrate_real(
        target,
        make,
        Scale(1.0, safest=SMALLEST_RATE, riskiest=1.0),
        start=min(max(start, SMALLEST_RATE), 1.0),
        tolerance=accuracy,
        impossible=lambda bounds: _cannot(target, f"even a sampling rate of {SMALLEST_RATE:g}", bounds),
    )
    return _result(target, "sampling_rate", found, make(found.value), accuracy)


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

    The batch size in `run` is not looked at; of several phases, `phase` (counted from 0) says which one's to choose.
    """
    target, _ = _read_target(run, epsilon, delta, (group_size, adjacency, removed, added), engine, progress, None)
    phases, index, put = _one_phase(run, phase)
    made = _maker(phases[index], "batch_size", "a batch size")
    dataset_size: int = phases[index].sampling.values()["dataset_size"]
    largest = dataset_size - target.kept_places()

    def make(batch_size: int) -> Run:
        return put(made(batch_size))

    mu = composed_mu(target.composition(made(1)))
    ratio = gaussian_mu(target.epsilon, target.delta) / mu if mu > 0.0 else math.inf
    found = calibrate_count(
        target,
        lambda batch_size, side: target.try_run(make(batch_size), adjacency=side),
        start=math.floor(min(ratio, float(largest))),
        smallest=1,
        largest=max(largest, 1),
        impossible=lambda bounds: _cannot(target, "even a batch of one example", bounds),
    )
    return _result(target, "batch_size", found, make(int(found.value)), None)


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
        raise InvalidArgument("run", InWords("several sources"), "draw from one source for its group size to be chosen")
    target = target_of(
        run, epsilon=epsilon, delta=delta, group_size=1, adjacency=adjacency, engine=engine, progress=progress
    )
    limits = (phase.sampling.largest_group(target.neighbours.adjacency) for phase in phases)
    sizes = [limit for limit in limits if limit is not None]

    def attempt(group_size: int, side: str | None) -> Trial:
        return target.try_run(whole, group_size=group_size, adjacency=side)

    mu = composed_mu(target.composition(whole))
    ratio = gaussian_mu(target.epsilon, target.delta) / mu if mu > 0.0 else math.inf
    found = calibrate_count(
        target,
        attempt,
        start=math.floor(min(ratio, float(LARGEST_GROUP))),
        smallest=1,
        largest=min([LARGEST_GROUP, *sizes]),
        impossible=lambda bounds: _cannot(target, "even a single example", bounds),
    )
    target.neighbours = replace(target.neighbours, group=int(found.value))
    return _result(target, "group_size", found, whole, None)


def _read_target(
    run: Any,
    epsilon: Any,
    delta: Any,
    neighbours: tuple[Any, Any, Any, Any],
    engine: Any,
    progress: Progress | None,
    tolerance: Any,
) -> tuple[Target, float]:
    keywords = dict(zip(("group_size", "adjacency", "removed", "added"), neighbours, strict=True))
    target = target_of(run, epsilon=epsilon, delta=delta, engine=engine, progress=progress, **keywords)
    if tolerance is None:
        return target, 0.0
    target.tolerance = require_number("tolerance", tolerance, at_least=SMALLEST_TOLERANCE, at_most=LARGEST_TOLERANCE)
    return target, target.tolerance


def _noisy_mechanisms(run: Any) -> tuple[Any, ...]:
    """The mechanisms of a run, each of which has a noise multiplier."""
    mechanisms = mechanisms_of(run)
    for one in mechanisms:
        if not hasattr(one, "noise_multiplier"):
            raise InvalidArgument("run", one, "have a noise multiplier in every mechanism for it to be chosen")
    return mechanisms


def _one_phase(run: Any, phase: Any) -> tuple[tuple[DPSGD, ...], int, Callable[[DPSGD], Run]]:
    """The phases, the index of the one to change, and how to put a changed one back."""
    phases = phases_of(run)
    if phase is None:
        if len(phases) > 1:
            raise InvalidArgument("phase", None, f"say which of the {len(phases)} phases to change, counted from 0")
        phase = 0
    index = require_integer("phase", phase, at_least=0, at_most=len(phases) - 1)

    def put(changed: DPSGD) -> Run:
        if isinstance(run, DPSGD):
            return changed
        return (*phases[:index], changed, *phases[index + 1 :])

    return phases, index, put


def _maker(phase: DPSGD, attribute: str, what: str) -> Callable[[Any], DPSGD]:
    """The phase with another value of an attribute of its sampling, in which epsilon must grow."""
    if attribute not in phase.sampling.epsilon_grows_with:
        others = [_COMMANDS[one] for one in phase.sampling.epsilon_grows_with]
        instead = f": use {' or '.join(others)} instead" if others else ""
        raise InvalidArgument(
            "sampling",
            InWords(f"{phase.sampling.name}{instead}"),
            f"be one whose epsilon grows with {what} for it to be chosen",
        )
    values = {field.attribute: getattr(phase.sampling, field.attribute) for field in phase.sampling.fields}

    def make(value: Any) -> DPSGD:
        return replace(phase, sampling=type(phase.sampling)(**{**values, attribute: value}))

    return make


def _clipped_noise(noise: float) -> float:
    """A product may round to just outside what a run accepts."""
    return noise if noise == 0.0 else min(max(noise, SMALLEST_NOISE), LARGEST_NOISE)


def _cannot(target: Target, what: str, bounds: Bounds) -> InvalidArgument:
    least = "infinite" if math.isinf(bounds.lower) else f"at least {round_down(bounds.lower, 6)}"
    requirement = f"be larger for delta={shown(target.delta)}: {what} has an epsilon that is {least}"
    return InvalidArgument("epsilon", target.epsilon, requirement)


def _result(target: Target, parameter: str, found: Found, run: Run, tolerance: float | None) -> Calibration:
    return Calibration(
        parameter=parameter,
        value=found.value,
        epsilon=found.bounds,
        target_epsilon=target.epsilon,
        delta=target.delta,
        group_size=target.neighbours.group_size,
        adjacency=target.neighbours.adjacency if target.neighbours.joining is None else ADJACENCIES[0],
        run=run,
        failing_value=found.failing_value,
        failing_epsilon=found.failing_bounds,
        proved_optimal=found.proved_optimal,
        tolerance=tolerance,
        evaluations=target.trials,
    )
