"""Bounds of one composition: rounds without noise in closed form, the noisy rest by an engine or the better of two.

A `Plan` holds what does not depend on the target; it is made once for all questions about a composition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from groupdp._validation import require_choice, require_integer, require_number
from groupdp.allocations import AllocationRound
from groupdp.bounds import Bounds, Provenance
from groupdp.enclosures import (
    coins_of,
    enclosed_epsilon,
    enclosed_log_delta,
    shifted_epsilon,
    shifted_log_delta,
    split_known,
)
from groupdp.engines import spectral
from groupdp.engines.interface import DEFAULT_MEMORY, SMALLEST_MEMORY, Progress
from groupdp.errors import InvalidArgument, LimitExceeded
from groupdp.noiseless import Noiseless, epsilon_with, log_delta_with, split
from groupdp.pairs import Composition, Round, lower_composition

#: Engines by name; `auto` takes the spectral one where it answers narrowly, and the lattice where not.
ENGINES = ("auto", "spectral", "lattice")
#: Relative slack that covers the few roundings of the closed forms below.
_SLACK = 1e-14
#: Above this a shift has all digits of a double, and so has what it is divided by or into.
_SMALLEST_SHIFT = 1e-290
#: Below this log delta only the bound in closed form is returned.
_CLOSED_FORM_BELOW = -1e6
#: In `auto`, a result wider than this, and than the tolerance, is intersected with the other engine's.
WIDE = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to compute: the engine, the relative width, the bytes, a progress callback."""

    engine: str = "auto"
    tolerance: float | None = None
    memory_budget: int = DEFAULT_MEMORY
    progress: Progress | None = None


_DEFAULTS = Options()


def options_of(
    *, engine: Any, tolerance: Any = None, memory_budget: Any = DEFAULT_MEMORY, progress: Any = None
) -> Options:
    """Validated options."""
    if engine == "auto" and tolerance is progress is None and memory_budget is DEFAULT_MEMORY:
        return _DEFAULTS
    require_choice("engine", engine, ENGINES)
    if tolerance is not None:
        tolerance = require_number("tolerance", tolerance, above=0.0, at_most=1.0)
    budget = require_integer("memory_budget", memory_budget, at_least=SMALLEST_MEMORY)
    if progress is not None and not callable(progress):
        raise InvalidArgument("progress", progress, "be a callable that takes the fraction done, or None")
    return Options(engine=engine, tolerance=tolerance, memory_budget=budget, progress=progress)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What does not depend on the target of a question: made once for each composition."""

    noisy: Composition
    noiseless: Noiseless | None
    """What the rounds without noise reveal; most compositions have none."""
    lower: Composition | None
    """The composition for lower sides, if it is another one."""
    log_distance: float
    """log of a bound on delta(0) of the noisy rounds (P-12)."""
    enclosed: bool
    """Whether the closed form for large shifts may answer (P-25)."""
    known: Composition
    """The noisy rounds with known losses; `rest` has the others."""
    rest: Composition
    order: tuple[str, ...]
    """The engines that `auto` asks, in this order."""


@lru_cache(maxsize=64)
def plan_of(composition: Composition) -> Plan:
    noisy, noiseless = split(composition)
    known, rest = split_known(noisy)
    has_contour = all(isinstance(round_, Round | AllocationRound) for round_, _ in rest or known)
    order = ("spectral", "lattice") if has_contour and not _is_one_round(noisy) else ("lattice",)
    return Plan(
        noisy,
        noiseless,
        lower_composition(composition),
        _log_distance(noisy) if noisy else -math.inf,
        coins_of(noisy) is not None,
        known,
        rest,
        order,
    )


def log_delta_of(composition: Composition, epsilon: float, options: Options) -> Bounds:
    """Bounds on log delta(epsilon), for any real epsilon."""
    plan = plan_of(composition)
    if plan.noiseless is None:
        found = _noisy_log_delta(plan, epsilon, options)
    else:
        noisy = plan_of(plan.noisy)
        found = log_delta_with(plan.noiseless, epsilon, lambda value: _noisy_log_delta(noisy, value, options))
    if plan.lower is None:
        return found
    return replace(found, lower=min(log_delta_of(plan.lower, epsilon, options).lower, found.upper))


def epsilon_of(composition: Composition, log_delta: float, options: Options) -> Bounds:
    """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta."""
    plan = plan_of(composition)
    if plan.noiseless is None:
        found = _noisy_epsilon(plan, log_delta, options)
    else:
        noisy = plan_of(plan.noisy)
        found = epsilon_with(
            plan.noiseless,
            log_delta,
            lambda value: _noisy_log_delta(noisy, value, options),
            (lambda target: _noisy_epsilon(noisy, target, options)) if plan.noisy else None,
        )
    if plan.lower is None:
        return found
    return replace(found, lower=min(epsilon_of(plan.lower, log_delta, options).lower, found.upper))


def epsilon_ceiling_of(composition: Composition, log_delta: float, *, enough: float) -> float:
    """A cheap rigorous upper bound on epsilon, to be compared with `enough`; inf where none is at hand."""
    plan = plan_of(composition)
    if plan.noiseless is not None or not plan.noisy:
        return math.inf
    try:
        return spectral.epsilon_ceiling(composition, log_delta=log_delta, enough=enough)
    except LimitExceeded:
        return math.inf


def _noisy_log_delta(plan: Plan, epsilon: float, options: Options) -> Bounds:
    noisy = plan.noisy
    if not noisy:
        if epsilon >= 0.0:
            return Bounds(-math.inf, -math.inf)
        value = math.log(-math.expm1(epsilon)) if epsilon > -1.0 else math.log1p(-math.exp(epsilon))
        slack = _SLACK * abs(value)
        return Bounds(value - slack, min(value + slack, 0.0))
    if options.engine != "auto":
        return _by_engine(plan, options, epsilon=epsilon)
    enclosed = enclosed_log_delta(noisy, epsilon) if plan.enclosed else None
    if enclosed is not None:
        return enclosed
    ceiling = log_delta_ceiling(noisy, epsilon)
    far = Bounds(-math.inf, ceiling, Provenance(engine="closed form", tolerance_met=False))
    if ceiling < _CLOSED_FORM_BELOW:
        return far
    try:
        bounds = _by_engine(plan, options, epsilon=epsilon)
        return bounds if bounds.upper <= ceiling else replace(bounds, upper=max(ceiling, bounds.lower))
    except LimitExceeded:
        if ceiling < 0.0:  # the closed form is a guarantee too
            return far
        raise


def _noisy_epsilon(plan: Plan, log_delta: float, options: Options) -> Bounds:
    if log_delta >= plan.log_distance:
        return Bounds(0.0, 0.0)
    enclosed = None
    if plan.enclosed and options.engine == "auto":
        enclosed = enclosed_epsilon(plan.noisy, log_delta)
    return _by_engine(plan, options, log_delta=log_delta) if enclosed is None else enclosed


def log_delta_ceiling(noisy: Composition, epsilon: float) -> float:
    """An upper bound on log delta(epsilon) in closed form, 0 where it gives none (P-11).

    With the largest shifts in every round the pair is Gaussian and dominates (anchor lemma), with
    mu^2 = sum_j T_j max over branches (x_max + y_max)_j^2; and delta(eps) <= Phi(mu / 2 - eps / mu) <= e^{-(eps / mu -
    mu / 2)^2 / 2}.
    """
    # hypot: the squares of small shifts have lost their digits, or are 0.
    mu = math.hypot(*(math.sqrt(times) * one.largest_shift for one, times in noisy))
    if not _SMALLEST_SHIFT < mu < math.inf:
        return 0.0
    distance = min((epsilon / mu - mu / 2.0) * (1.0 - 1e-14) - 1e-14 * mu, 1e150)
    return -0.5 * distance * distance * (1.0 - 1e-14) if distance > 0.0 else 0.0


def _log_distance(noisy: Composition) -> float:
    """log of a bound on delta(0) (P-12): the bounds of the rounds add up."""
    terms = [math.log(times) + one.log_mass_above_zero for one, times in noisy]
    return (terms[0] if len(terms) == 1 else float(np.logaddexp.reduce(terms))) + 1e-9


def _by_engine(plan: Plan, options: Options, *, epsilon: float = 0.0, log_delta: float | None = None) -> Bounds:
    """log delta(epsilon), or the epsilon of a log delta, by the engine asked for; in `auto` by the contour where it is
    short and the lattice where it is not."""
    order = plan.order if options.engine == "auto" else (options.engine,)
    bounds = _better_of(order, plan, options, epsilon, log_delta)
    if options.tolerance is None:
        return bounds
    met = bounds.relative_width <= options.tolerance
    return replace(bounds, provenance=replace(bounds.provenance, tolerance=options.tolerance, tolerance_met=met))


def _better_of(order: tuple[str, ...], plan: Plan, options: Options, epsilon: float, log_delta: float | None) -> Bounds:
    """The first engine's bounds; intersected with the second's where they are wide, the second's where it declines."""
    try:
        bounds = _ENGINES[order[0]](plan, options, epsilon, log_delta)
    except LimitExceeded:
        if len(order) == 1:
            raise
        return _ENGINES[order[1]](plan, options, epsilon, log_delta)
    if len(order) == 1 or bounds.relative_width <= max(WIDE, options.tolerance or 0.0):
        return bounds
    try:
        other = _ENGINES[order[1]](plan, options, epsilon, log_delta)
    except LimitExceeded:
        return bounds
    narrower = bounds if bounds.width <= other.width else other
    return Bounds(max(bounds.lower, other.lower), min(bounds.upper, other.upper), narrower.provenance)


def _by_contour(plan: Plan, options: Options, epsilon: float, log_delta: float | None) -> Bounds:
    if plan.known and not spectral.stands_beside_allocations(plan.noisy):
        if not plan.rest:
            raise LimitExceeded("known losses alone, without other rounds, are answered by the lattice engine.")
        if log_delta is None:
            return shifted_log_delta(plan.known, plan.rest, epsilon=epsilon)
        return shifted_epsilon(plan.known, plan.rest, log_delta=log_delta)
    if log_delta is None:
        return spectral.log_delta(plan.noisy, epsilon=epsilon)
    return spectral.epsilon(plan.noisy, log_delta=log_delta)


def _by_lattice(plan: Plan, options: Options, epsilon: float, log_delta: float | None) -> Bounds:
    from groupdp.engines import lattice  # most calls never need it

    how: dict[str, Any] = {
        "tolerance": options.tolerance,
        "memory_budget": options.memory_budget,
        "progress": options.progress,
    }
    if log_delta is None:
        return lattice.log_delta(plan.noisy, epsilon=epsilon, **how)
    return lattice.epsilon(plan.noisy, log_delta=log_delta, **how)


_ENGINES = {"spectral": _by_contour, "lattice": _by_lattice}


def _is_one_round(noisy: Composition) -> bool:
    """Whether the lattice engine's closed form is called for; the kernel has its own without a coin (S-71)."""
    if len(noisy) != 1 or noisy[0][1] != 1:
        return False
    round_ = noisy[0][0]
    if not isinstance(round_, Round):
        return not isinstance(round_, AllocationRound)
    return not round_.is_gaussian and not (spectral.AVAILABLE and len(round_.branches) == 1)
