"""The least noise, for one run or for many at once.

Formal guarantee: as in parameters.py; epsilon falls with the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from groupdp._validation import require_number
from groupdp.calibration.real import Candidates, alone, calibrate_real, together
from groupdp.calibration.result import Calibration, Found, result_of
from groupdp.calibration.search import Scale, gaussian_mu, growth, noise_factor_for, noise_slope
from groupdp.calibration.target import Run, Target, cannot, phase_index, read_target
from groupdp.engines.interface import Progress
from groupdp.errors import GroupDPError, InvalidArgument, InWords
from groupdp.mechanisms.mechanism import LARGEST_NOISE, SMALLEST_NOISE, Mechanism, Wrapper, mechanisms_of


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
    search, result = _search(run, target, phase, start)
    return result(alone(target, search))


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
        run, target = read_target(
            described, epsilon, delta, (group_size, adjacency, None, None), engine, None, tolerance
        )
        targets.append(target)
        searches.append(_search(run, target, None, start))
    found = together(targets, [search for search, _ in searches])
    return [
        value if isinstance(value, GroupDPError) else result(value)
        for value, (_, result) in zip(found, searches, strict=True)
    ]


def _search(run: Any, target: Target, phase: Any, start: Any) -> tuple[Candidates, Callable[[Found], Calibration]]:
    """The search for the least noise, and the calibration from what it finds."""
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

    def search() -> Candidates:
        # Without noise a round is safe only if it hardly ever samples the group; then that is the answer.
        without = yield make(0.0), None
        if without.passes and without.bounds is not None:
            return Found(0.0, without.bounds, None, None, True)
        composition = target.composition(tuple(unit[i] for i in chosen))
        if start is None:
            factor = noise_factor_for(composition, gaussian_mu(target.epsilon, target.delta))
        else:
            factor = require_number("start", start, above=0.0)
        return (
            yield from calibrate_real(
                target,
                make,
                scale,
                start=factor,
                slope=growth(target.epsilon, target.delta) * noise_slope(composition, factor),
                tolerance=target.tolerance,
                impossible=cannot(target, f"even the largest {parameter.replace('_', ' ')}, {scale.safest:g},"),
            )
        )

    return search(), lambda found: result_of(target, parameter, found, make(found.value))
