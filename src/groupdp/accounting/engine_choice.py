"""Certified answers for the noisy rounds of one composition: which engine, how narrow, how long."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np

from groupdp.bounds import Bounds, Provenance
from groupdp.engines import spectral
from groupdp.engines.interface import DEFAULT_MEMORY, Progress
from groupdp.errors import LimitExceeded
from groupdp.pairs import Composition, Profile, Round

#: Engines by name; `auto` takes the spectral one where it answers narrowly, and the lattice where not.
ENGINES = ("auto", "spectral", "lattice")
#: Relative slack that covers the few roundings of the closed forms below.
_SLACK = 1e-14
#: Seconds after which a computation of the lattice engine is given up.
LONGEST_LATTICE = 60.0
#: Above this a shift has all digits of a double, and so has what it is divided by or into.
_SMALLEST_SHIFT = 1e-290
#: Below this log delta only the bound in closed form is returned.
_CLOSED_FORM_BELOW = -1e6
#: Up to so many rounds of mixtures the contour is not even tried first: their characteristic function hardly falls, and
#: of random questions it answered none.
_FEW = 6
#: In `auto`, a result wider than this, and than the tolerance, is intersected with the other engine's.
_WIDE = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to compute: which engine, how narrow, in how many bytes, whom to tell."""

    engine: str = "auto"
    tolerance: float | None = None
    memory_budget: int = DEFAULT_MEMORY
    progress: Progress | None = None


def noisy_log_delta(noisy: Composition, epsilon: float, options: Options) -> Bounds:
    """Bounds on log delta(epsilon), for any real epsilon."""
    if not noisy:
        if epsilon >= 0.0:
            return Bounds(-math.inf, -math.inf)
        value = math.log(-math.expm1(epsilon)) if epsilon > -1.0 else math.log1p(-math.exp(epsilon))
        slack = _SLACK * abs(value)
        return Bounds(value - slack, min(value + slack, 0.0))
    if options.engine != "auto":
        return _computed_log_delta(noisy, epsilon, options)
    ceiling = log_delta_ceiling(noisy, epsilon)
    far = Bounds(-math.inf, ceiling, Provenance(engine="closed form", tolerance_met=False))
    if ceiling < _CLOSED_FORM_BELOW:
        return far
    try:
        found = _computed_log_delta(noisy, epsilon, options)
        return found if found.upper <= ceiling else replace(found, upper=max(ceiling, found.lower))
    except LimitExceeded:
        if ceiling < 0.0:  # a guarantee all the same, of which no more is claimed than it says
            return far
        raise


def noisy_epsilon(noisy: Composition, log_delta: float, options: Options) -> Bounds:
    """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta."""
    if not noisy or log_delta >= _log_distance(noisy):
        return Bounds(0.0, 0.0)
    return _choose(
        options,
        noisy,
        lambda: spectral.epsilon(noisy, log_delta=log_delta),
        lambda deadline: _lattice().epsilon(
            noisy,
            log_delta=log_delta,
            tolerance=options.tolerance,
            memory_budget=options.memory_budget,
            deadline=deadline,
            progress=options.progress,
        ),
    )


def spectral_ceiling(noisy: Composition, log_delta: float, enough: float) -> float:
    """A cheap rigorous upper bound on epsilon, to be compared with `enough`; inf where none is at hand."""
    try:
        return float(spectral.epsilon_ceiling(noisy, log_delta=log_delta, enough=enough))
    except LimitExceeded:
        return math.inf


def log_delta_ceiling(noisy: Composition, epsilon: float) -> float:
    """An upper bound on log delta(epsilon) in closed form, 0 if it has nothing to say (P-11).

    With the largest shifts in every round the pair is Gaussian and dominates (anchor lemma), with
    mu^2 = sum_j T_j max over branches (x_max + y_max)_j^2; and delta(eps) <= Phi(mu / 2 - eps / mu) <= e^{-(eps / mu -
    mu / 2)^2 / 2}.
    """
    # hypot: the squares of small shifts have lost their digits, or are 0.
    mu = math.hypot(*(math.sqrt(times) * _largest_shift(one) for one, times in noisy))
    if not _SMALLEST_SHIFT < mu < math.inf:
        return 0.0
    distance = min((epsilon / mu - mu / 2.0) * (1.0 - 1e-14) - 1e-14 * mu, 1e150)
    return -0.5 * distance * distance * (1.0 - 1e-14) if distance > 0.0 else 0.0


def are_few(noisy: Composition) -> bool:
    """Whether `auto` asks the lattice engine first: few rounds, all of mixtures. Plain Gaussians suit the contour."""
    return sum(times for _, times in noisy) <= _FEW and all(_has_mixture(one) for one, _ in noisy)


def _is_one_round(noisy: Composition) -> bool:
    """Whether the lattice engine's closed form is called for."""
    return len(noisy) == 1 and noisy[0][1] == 1 and are_few(noisy)


def _has_mixture(one: Round | Profile) -> bool:
    if not isinstance(one, Round):
        return True
    return any(len(side.shifts) > 1 for branch in one.branches for side in (branch.right, branch.left))


def _computed_log_delta(noisy: Composition, epsilon: float, options: Options) -> Bounds:
    return _choose(
        options,
        noisy,
        lambda: spectral.log_delta(noisy, epsilon=epsilon),
        lambda deadline: _lattice().log_delta(
            noisy,
            epsilon=epsilon,
            tolerance=options.tolerance,
            memory_budget=options.memory_budget,
            deadline=deadline,
            progress=options.progress,
        ),
    )


def _choose(
    options: Options, noisy: Composition, by_contour: Callable[[], Bounds], by_lattice: Callable[[float], Bounds]
) -> Bounds:
    """The engine asked for, or in `auto` the contour where it is short and the lattice where it is not."""
    deadline = time.monotonic() + LONGEST_LATTICE
    has_profile = any(not isinstance(one, Round) for one, _ in noisy)
    if options.engine == "spectral":
        found = by_contour()
    elif options.engine == "lattice" or has_profile or _is_one_round(noisy):
        found = _within(deadline, by_lattice)
    else:
        engines = by_contour, lambda: _within(deadline, by_lattice)
        wide = max(_WIDE, options.tolerance or 0.0)
        found = _automatic(*(engines[::-1] if are_few(noisy) else engines), wide=wide)
    if options.tolerance is None:
        return found
    met = found.relative_width <= options.tolerance
    return replace(found, provenance=replace(found.provenance, tolerance=options.tolerance, tolerance_met=met))


def _within(deadline: float, by_lattice: Callable[[float], Bounds]) -> Bounds:
    """What the lattice engine finds until the deadline; whoever is refused is told the limit."""
    try:
        return by_lattice(deadline)
    except LimitExceeded:
        if time.monotonic() <= deadline:
            raise
        raise LimitExceeded(
            f"the computation did not finish within its limit of {LONGEST_LATTICE:g} seconds."
        ) from None


def _automatic(first: Callable[[], Bounds], second: Callable[[], Bounds], *, wide: float) -> Bounds:
    """What the first engine finds; with what the second one does where that is wide, or nothing."""
    try:
        found = first()
    except LimitExceeded:
        return second()
    if found.relative_width <= wide:
        return found
    try:
        other = second()
    except LimitExceeded:
        return found
    narrower = found if found.width <= other.width else other
    return Bounds(max(found.lower, other.lower), min(found.upper, other.upper), narrower.provenance)


def _lattice() -> ModuleType:
    """The lattice engine, imported when first needed: most calls never do."""
    from groupdp.engines import lattice

    return lattice


def _largest_shift(one: Round | Profile) -> float:
    if not isinstance(one, Round):
        return one.largest_shift
    return max(branch.right.largest + branch.left.largest for branch in one.branches)


def _log_distance(noisy: Composition) -> float:
    """log of a bound on delta(0) (P-12): in a branch P and Q agree with probability at least min(a_0, b_0)."""
    terms = [math.log(times) + _log_difference(one) for one, times in noisy]
    return (terms[0] if len(terms) == 1 else float(np.logaddexp.reduce(terms))) + 1e-9


def _log_difference(one: Round | Profile) -> float:
    if not isinstance(one, Round):
        return one.log_mass_above_zero
    terms = [
        weight + max(branch.right.log_mass_above_zero, branch.left.log_mass_above_zero)
        for weight, branch in zip(one.log_weights, one.branches, strict=True)
    ]
    return terms[0] if len(terms) == 1 else float(np.logaddexp.reduce(terms))
