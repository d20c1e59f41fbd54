"""The three questions: epsilon for a delta, delta for an epsilon, and its logarithm.

Formal guarantee. Let D and D' be datasets such that one is the other plus up to `group_size` examples, and let
M be the run described, releasing every iterate. Then for every event E

    P(M(D) in E) <= e^epsilon P(M(D') in E) + delta,

with the `upper` side of what is returned here, for D the larger dataset ("remove"), the smaller one ("add") or either
("add-or-remove"). No smaller value holds for every loss and dataset than the `lower` side (Ganesh 2024,
Theorems 3.1 and 3.3 and section 3.3).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

from groupdp._validation import require_choice, require_integer, require_number, shown
from groupdp.bounds import Bounds, Provenance
from groupdp.directions import Options, epsilon_ceiling_of, epsilon_of, log_delta_of
from groupdp.engines.interface import DEFAULT_MEMORY, SMALLEST_MEMORY, Direction, Progress, share_of
from groupdp.errors import InvalidArgument
from groupdp.mixture import MixtureOfGaussians
from groupdp.reductions import Composition, compose_run

ADJACENCIES = ("add", "remove", "add-or-remove")
ENGINES = ("auto", "spectral", "lattice")


def epsilon(
    run: Any,
    *,
    delta: float,
    group_size: int | None = None,
    adjacency: str = "add-or-remove",
    rounds: int | None = None,
    engine: str = "auto",
    tolerance: float | None = None,
    memory_budget: int = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> Bounds:
    """Bounds on the smallest epsilon >= 0 such that the run is (epsilon, delta)-DP for groups of `group_size`.

    `run` is a `DPSGD`, a sequence of them (phases, composed), or a `MixtureOfGaussians` with a number of `rounds`
    instead of a group size. delta_upper(upper) <= delta is certified, and delta_lower(lower) >= delta unless lower
    is 0. Infinite where no finite epsilon exists (no noise).

    `tolerance` asks for a width relative to max(1, epsilon); `provenance.tolerance_met` says whether it was
    reached. `memory_budget` is how many bytes the lattice engine may take for its transforms (the spectral engine needs
    no more than 300 MB): the less, the coarser its lattice may have to be. `progress` is called with the fraction done
    by computations of more than a moment; an exception raised in it stops them.
    """
    composition = composition_of(run, group_size=group_size, rounds=rounds)
    target = math.log(require_number("delta", delta, above=0.0, below=1.0))
    options = options_of(engine=engine, tolerance=tolerance, memory_budget=memory_budget, progress=progress)
    directions = directions_of(adjacency)
    if not composition:
        return Bounds(0.0, 0.0, Provenance(engine="exact"))
    return epsilon_of_composition(composition, directions, target, options)


def log_delta(
    run: Any,
    *,
    epsilon: float,
    group_size: int | None = None,
    adjacency: str = "add-or-remove",
    rounds: int | None = None,
    engine: str = "auto",
    tolerance: float | None = None,
    memory_budget: int = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> Bounds:
    """Bounds on log delta(epsilon), also where delta is far below the smallest double; -inf where delta is 0."""
    composition = composition_of(run, group_size=group_size, rounds=rounds)
    target = require_number("epsilon", epsilon, at_least=0.0)
    options = options_of(engine=engine, tolerance=tolerance, memory_budget=memory_budget, progress=progress)
    directions = directions_of(adjacency)
    if not composition:
        return Bounds(-math.inf, -math.inf, Provenance(engine="exact"))
    return log_delta_of_composition(composition, directions, target, options)


def delta(
    run: Any,
    *,
    epsilon: float,
    group_size: int | None = None,
    adjacency: str = "add-or-remove",
    rounds: int | None = None,
    engine: str = "auto",
    tolerance: float | None = None,
    memory_budget: int = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> Bounds:
    """Bounds on delta(epsilon); where it underflows, [0, smallest double]: use `log_delta` there."""
    logarithm = log_delta(
        run,
        epsilon=epsilon,
        group_size=group_size,
        adjacency=adjacency,
        rounds=rounds,
        engine=engine,
        tolerance=tolerance,
        memory_budget=memory_budget,
        progress=progress,
    )
    return Bounds(exp_down(logarithm.lower), exp_up(logarithm.upper), logarithm.provenance)


def epsilon_of_composition(
    composition: Composition, directions: tuple[Direction, ...], log_delta: float, options: Options
) -> Bounds:
    """The worse of the directions; one that provably does not matter is not evaluated (Chernoff screen)."""
    results: dict[Direction, Bounds] = {}
    for index, direction in enumerate(directions):
        if results and options.engine != "lattice":
            worst = max(done.lower for done in results.values())
            if epsilon_ceiling_of(composition, direction, log_delta, enough=worst) < worst:
                continue
        part = _part_of(options, index, len(directions))
        results[direction] = epsilon_of(composition, direction, log_delta, part)
    return _worse(results)


def log_delta_of_composition(
    composition: Composition, directions: tuple[Direction, ...], epsilon: float, options: Options
) -> Bounds:
    """The worse of the directions."""
    results: dict[Direction, Bounds] = {}
    for index, direction in enumerate(directions):
        part = _part_of(options, index, len(directions))
        results[direction] = log_delta_of(composition, direction, epsilon, part)
    return _worse(results)


def _part_of(options: Options, index: int, count: int) -> Options:
    """The options of one of `count` directions: each reports its share of the progress."""
    if options.progress is None:
        return options
    return replace(options, progress=share_of(options.progress, index, count))


def composition_of(run: Any, *, group_size: Any = None, rounds: Any = None) -> Composition:
    """The composition of mixtures to be accounted for, from whatever describes it."""
    if isinstance(run, MixtureOfGaussians):
        if group_size is not None:
            raise InvalidArgument(f"group_size must be left out for a MixtureOfGaussians, got {shown(group_size)}.")
        if rounds is None:
            raise InvalidArgument("rounds must be given for a MixtureOfGaussians, got None.")
        count = require_integer("rounds", rounds, at_least=0)
        return ((run, count),) if count > 0 and not run.is_trivial else ()
    if rounds is not None:
        raise InvalidArgument(f"rounds must be left out for a run (it has steps), got {shown(rounds)}.")
    return compose_run(run, group_size)


def directions_of(adjacency: Any) -> tuple[Direction, ...]:
    """The directions an adjacency comprises; the one that is worse more often comes first."""
    chosen = require_choice("adjacency", adjacency, ADJACENCIES)
    return ("remove", "add") if chosen == "add-or-remove" else (cast("Direction", chosen),)


def options_of(
    *, engine: Any, tolerance: Any = None, memory_budget: Any = DEFAULT_MEMORY, progress: Any = None
) -> Options:
    """Validated options."""
    require_choice("engine", engine, ENGINES)
    if tolerance is not None:
        tolerance = require_number("tolerance", tolerance, above=0.0, at_most=1.0)
    budget = require_integer("memory_budget", memory_budget, at_least=SMALLEST_MEMORY)
    if progress is not None and not callable(progress):
        raise InvalidArgument(
            f"progress must be a callable that takes the fraction done, or None, got {shown(progress)}."
        )
    return Options(engine=engine, tolerance=tolerance, memory_budget=budget, progress=progress)


def exp_up(logarithm: float) -> float:
    """e^logarithm, rounded up; never above 1 for a logarithm that is not positive."""
    if logarithm == -math.inf:
        return 0.0
    value = math.exp(logarithm) * (1.0 + 4.0 * 2.0**-52)
    value = math.nextafter(value, math.inf)
    return min(value, 1.0) if logarithm <= 0.0 else value


def exp_down(logarithm: float) -> float:
    """e^logarithm, rounded down."""
    if logarithm == -math.inf:
        return 0.0
    return max(math.nextafter(math.exp(logarithm) * (1.0 - 4.0 * 2.0**-52), -math.inf), 0.0)


def _worse(results: dict[Direction, Bounds]) -> Bounds:
    """The larger of the directions, side by side, with the provenance of the one with the larger upper side."""
    decisive = max(results, key=lambda direction: results[direction].upper)
    provenance = results[decisive].provenance
    evaluations: dict[str, int] = {}
    for result in results.values():
        for name, count in result.provenance.evaluations.items():
            evaluations[name] = evaluations.get(name, 0) + count
    return Bounds(
        max(result.lower for result in results.values()),
        results[decisive].upper,
        Provenance(
            engine=provenance.engine,
            adjacency=decisive,
            directions={direction: (result.lower, result.upper) for direction, result in results.items()},
            evaluations=evaluations,
            tolerance=provenance.tolerance,
            tolerance_met=all(result.provenance.tolerance_met for result in results.values()),
        ),
    )
