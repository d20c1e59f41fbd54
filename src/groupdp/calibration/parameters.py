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
from groupdp.calibration.guess import composed_mu, gaussian_mu, growth, noise_factor_for, noise_slope, rare_share
from groupdp.calibration.real import Found, calibrate_real
from groupdp.calibration.result import Calibration
from groupdp.calibration.search import Scale
from groupdp.calibration.target import LARGEST_TOLERANCE, SMALLEST_TOLERANCE, Run, Target, Trial, target_of
from groupdp.engines.interface import Progress
from groupdp.errors import InvalidArgument, InWords
from groupdp.groups import LARGEST_GROUP
from groupdp.mechanisms.dpsgd import DPSGD, phases_of
from groupdp.mechanisms.mechanism import LARGEST_NOISE, SMALLEST_NOISE, Mechanism, Wrapper, mechanisms_of
from groupdp.mechanisms.of_group import with_own_groups
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
    phase: int | None = None,
    tolerance: float = 1e-9,
    start: float | None = None,
    engine: str = "auto",
    progress: Progress | None = None,
) -> Calibration:
    """The smallest noise multiplier that meets (epsilon, delta) for groups of `group_size`.

    `run` is a mechanism with a noise multiplier, which is not looked at, or a sequence of them, whose noise
    multipliers are all scaled by one common factor: the value found. With `phase`, counted from 0 (or backwards from
    -1, the last), only that one's noise is chosen, given all others. `start` is a noise multiplier (or factor) to begin
    with, if one that is close is known.
    """
    run, target, accuracy = _read_target(
        run, epsilon, delta, (group_size, adjacency, removed, added), engine, progress, tolerance
    )
    phases = mechanisms_of(run)
    chosen = range(len(phases)) if phase is None else (_index(phases, phase),)
    for index in chosen:
        if not hasattr(Wrapper.innermost(phases[index]), "noise_multiplier"):
            raise InvalidArgument("run", phases[index], "have a noise multiplier in every mechanism whose is chosen")
    single = len(chosen) == 1
    parameter = "noise_multiplier" if single else "noise_factor"
    unit = [
        Wrapper.changed(one, noise_multiplier=1.0) if single and i in chosen else one for i, one in enumerate(phases)
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
            noise = _clipped_noise(Wrapper.innermost(unit[i]).noise_multiplier * factor)
            made[i] = Wrapper.changed(unit[i], noise_multiplier=noise)
        return made[0] if isinstance(run, Mechanism) or len(made) == 1 else tuple(made)

    def result(found: Found) -> Calibration:
        return _result(target, parameter, found, make(found.value), accuracy)

    # Without noise a round is safe only if it hardly ever samples the group; then that is the answer.
    without = target.try_run(make(0.0))
    if without.passes and without.bounds is not None:
        return result(Found(0.0, without.bounds, None, None, True))
    composition = target.composition(tuple(unit[i] for i in chosen))
    if start is None:
        factor = noise_factor_for(composition, gaussian_mu(target.epsilon, target.delta))
    else:
        factor = require_number("start", start, above=0.0)
    slope = growth(target.epsilon, target.delta) * noise_slope(composition, factor)
    found = calibrate_real(
        target,
        make,
        scale,
        start=factor,
        slope=slope,
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

    The steps in `run` are not looked at; of several phases, `phase` (counted from 0, -1 is the last) says which one to
    extend.
    """
    run, target, _ = _read_target(run, epsilon, delta, (group_size, adjacency, removed, added), engine, progress, None)
    _, put = _one_phase(run, phase)
    others = sum(other.releases for other in mechanisms_of(put(steps=0)))

    def make(steps: int) -> Run:
        return put(steps=steps)

    per_step = composed_mu(target.composition(mechanisms_of(make(1))[_index(mechanisms_of(run), phase)]))
    ratio = gaussian_mu(target.epsilon, target.delta) / per_step if per_step > 0.0 else math.inf
    found = calibrate_count(
        target,
        lambda steps, side: target.try_run(make(steps), adjacency=side),
        start=math.floor(min(ratio * ratio, 2.0**52)),
        slope=0.5 * growth(target.epsilon, target.delta),
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
    run, target, accuracy = _read_target(
        run, epsilon, delta, (group_size, adjacency, removed, added), engine, progress, tolerance
    )
    one, put = _one_phase(run, phase)
    sampling = _maker(one, "rate", "a sampling rate")

    def make(rate: float) -> Run:
        return put(sampling=sampling(rate))

    # Where rates are small, mu is nearly proportional to the rate.
    reference = 1e-4
    composition = target.composition(replace(one, sampling=sampling(reference)))
    share, mu = rare_share(composition, target.epsilon, target.delta), composed_mu(composition)
    if share is None:
        share = gaussian_mu(target.epsilon, target.delta) / mu if 0.0 < mu < math.inf else 1.0
    start = reference * share
    found = calibrate_real(
        target,
        make,
        Scale(1.0, safest=SMALLEST_RATE, riskiest=1.0),
        start=min(max(start, SMALLEST_RATE), 1.0),
        slope=growth(target.epsilon, target.delta),
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
    run, target, _ = _read_target(run, epsilon, delta, (group_size, adjacency, removed, added), engine, progress, None)
    one, put = _one_phase(run, phase)
    sampling = _maker(one, "batch_size", "a batch size")
    dataset_size: int = one.sampling.values()["dataset_size"]
    largest = dataset_size - target.kept_places()

    def make(batch_size: int) -> Run:
        return put(sampling=sampling(batch_size))

    mu = composed_mu(target.composition(replace(one, sampling=sampling(1))))
    ratio = gaussian_mu(target.epsilon, target.delta) / mu if mu > 0.0 else math.inf
    found = calibrate_count(
        target,
        lambda batch_size, side: target.try_run(make(batch_size), adjacency=side),
        start=math.floor(min(ratio, float(largest))),
        slope=growth(target.epsilon, target.delta),
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
        slope=growth(target.epsilon, target.delta),
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
) -> tuple[Any, Target, float]:
    keywords = dict(zip(("group_size", "adjacency", "removed", "added"), neighbours, strict=True))
    run, keywords["group_size"] = with_own_groups(run, keywords["group_size"])
    target = target_of(run, epsilon=epsilon, delta=delta, engine=engine, progress=progress, **keywords)
    if tolerance is None:
        return run, target, 0.0
    target.tolerance = require_number("tolerance", tolerance, at_least=SMALLEST_TOLERANCE, at_most=LARGEST_TOLERANCE)
    return run, target, target.tolerance


def _index(phases: tuple[Mechanism, ...], phase: Any) -> int:
    """Which phase is meant; -1 is the last one."""
    if phase is None and len(phases) > 1:
        raise InvalidArgument("phase", None, f"say which of the {len(phases)} phases to change, counted from 0")
    index = require_integer("phase", 0 if phase is None else phase, at_least=-len(phases), at_most=len(phases) - 1)
    return index % len(phases)


def _one_phase(run: Any, phase: Any) -> tuple[DPSGD, Callable[..., Run]]:
    """The phase of DP-SGD to change, and the run with other values of it."""
    phases = mechanisms_of(run)
    index = _index(phases, phase)
    one = Wrapper.innermost(phases[index])
    if not isinstance(one, DPSGD):
        raise InvalidArgument("run", one, "be a DPSGD or a sequence in which the phase to change is one")

    def put(**values: Any) -> Run:
        changed: Mechanism = Wrapper.changed(phases[index], **values)
        return changed if isinstance(run, Mechanism) else (*phases[:index], changed, *phases[index + 1 :])

    return one, put


def _maker(phase: DPSGD, attribute: str, what: str) -> Callable[[Any], Any]:
    """Its sampling with another value of an attribute, in which epsilon must grow."""
    if attribute not in phase.sampling.epsilon_grows_with:
        others = [_COMMANDS[one] for one in phase.sampling.epsilon_grows_with]
        instead = f": use {' or '.join(others)} instead" if others else ""
        raise InvalidArgument(
            "sampling",
            InWords(f"{phase.sampling.name}{instead}"),
            f"be one whose epsilon grows with {what} for it to be chosen",
        )
    values = {field.attribute: getattr(phase.sampling, field.attribute) for field in phase.sampling.fields}

    return lambda value: type(phase.sampling)(**{**values, attribute: value})


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
