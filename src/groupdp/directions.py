"""One direction of one composition: exact parts peeled off, the rest given to an engine.

A round without noise reveals whether the group was sampled in it. With p the probability that no noiseless
round samples the group, and delta' the curve of the noisy rounds,

    remove:  delta(eps) = (1 - p) + p delta'(eps - log p)
    add:     delta(eps) = delta'(eps + log p)

since P and Q of the noiseless rounds are a point mass of 1 and a law with mass p on the same point.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType

from groupdp.bounds import Bounds, Provenance
from groupdp.engines import spectral
from groupdp.engines.deadline import deadline_in
from groupdp.engines.interface import DEFAULT_MEMORY, Direction, Progress
from groupdp.errors import LimitExceeded
from groupdp.reductions import Composition, pairs_of

#: Relative slack that covers the few roundings of the closed forms below.
_SLACK = 1e-14
#: The smallest positive double.
_SMALLEST = math.ulp(0.0)
#: Seconds after which a computation of the lattice engine is given up.
LONGEST_LATTICE = 60.0
#: Below this log delta a bound in closed form is all that is returned: nobody needs the digits.
_HOPELESSLY_FAR = -1e6
#: In `auto`, a spectral result wider than this is intersected with the lattice engine's.
_WIDE = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to compute: which engine, how narrow, in how many bytes, whom to tell."""

    engine: str = "auto"
    tolerance: float | None = None
    memory_budget: int = DEFAULT_MEMORY
    progress: Progress | None = None


def log_delta_of(composition: Composition, direction: Direction, epsilon: float, options: Options) -> Bounds:
    """Bounds on log delta(epsilon) in one direction, for any real epsilon."""
    noisy, log_p = _peel(composition)
    if log_p == 0.0:
        return _noisy_log_delta(noisy, direction, epsilon, options)
    if log_p == -math.inf:
        return Bounds(0.0, 0.0, Provenance(adjacency=direction))
    room = _SLACK * (abs(log_p) + abs(epsilon))
    shifted = epsilon - log_p if direction == "remove" else epsilon + log_p
    high = _noisy_log_delta(noisy, direction, shifted - room, options)
    low = _noisy_log_delta(noisy, direction, shifted + room, options)
    if direction == "add":
        return Bounds(low.lower, high.upper, high.provenance)
    # (1 - p) + p delta' falls with p.
    lower = _log_with_revealed(log_p * (1.0 - _SLACK), low.lower)
    upper = _log_with_revealed(log_p * (1.0 + _SLACK), high.upper)
    return Bounds(lower - _SLACK * (1.0 + abs(lower)), min(upper + _SLACK * (1.0 + abs(upper)), 0.0), high.provenance)


def epsilon_of(composition: Composition, direction: Direction, log_delta: float, options: Options) -> Bounds:
    """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta, in one direction."""
    noisy, log_p = _peel(composition)
    if log_p == 0.0:
        return _noisy_epsilon(noisy, direction, log_delta, options)
    exact = Provenance(adjacency=direction)
    if log_p == -math.inf:
        return Bounds(math.inf, math.inf, exact)
    room = _SLACK * abs(log_p)
    if direction == "add":
        # delta' at epsilon + log p, which may be negative: only its part at or above 0 goes to the engines.
        at_zero = log_delta_of(composition, direction, 0.0, options)
        if at_zero.upper <= log_delta - _SLACK * abs(log_delta):
            return Bounds(0.0, 0.0, exact)
        if not noisy:
            # log(1 - delta), from the logarithm: next to 1, e^log_delta has lost 1 - delta.
            value = max(math.log(-math.expm1(log_delta)) - log_p, 0.0)
            return Bounds(max(value - room - 1e-15, 0.0), value + room + 1e-15, exact)
        found = _noisy_epsilon(noisy, direction, log_delta, options)
        return Bounds(
            max(_down(found.lower - log_p - room), 0.0) if found.lower > 0.0 else 0.0,
            _up(found.upper - log_p + room),
            found.provenance,
        )
    revealed = -math.expm1(log_p)
    delta = math.exp(log_delta)
    left = delta - revealed
    # Of 1 - p and of e^log(delta), which has lost as many bits as log(delta) has before its point; and of subnormals.
    uncertainty = _SLACK * (4.0 * revealed + delta * (1.0 + 0.1 * abs(log_delta))) + 4.0 * _SMALLEST
    if left < -uncertainty:
        return Bounds(math.inf, math.inf, exact)
    upper = math.inf
    if left - uncertainty > 0.0:
        target = math.log(left - uncertainty) - log_p - room
        upper = max(_up(_noisy_epsilon(noisy, direction, min(target, -1e-300), options).upper + log_p + room), 0.0)
    lower = 0.0
    if left + uncertainty > 0.0:
        target = math.log(left + uncertainty) - log_p + room
        if target < 0.0:
            lower = max(_down(_noisy_epsilon(noisy, direction, target, options).lower + log_p - room), 0.0)
    return Bounds(min(lower, upper), upper, exact)


def epsilon_ceiling_of(composition: Composition, direction: Direction, log_delta: float, *, enough: float) -> float:
    """A cheap rigorous upper bound on epsilon, to be compared with `enough`; inf where none is at hand."""
    noisy, log_p = _peel(composition)
    if log_p != 0.0 or not noisy:
        return math.inf
    try:
        return spectral.epsilon_ceiling(noisy, direction=direction, log_delta=log_delta, enough=enough)
    except LimitExceeded:
        return math.inf


def _peel(composition: Composition) -> tuple[Composition, float]:
    """The noisy rounds, and the log-probability that the noiseless ones never sample the group."""
    noisy = tuple(part for part in composition if part[0].standard_deviation > 0.0)
    noiseless = (part for part in composition if part[0].standard_deviation == 0.0)
    return noisy, math.fsum(rounds * mixture.log_probability_of_absence for mixture, rounds in noiseless)


def _noisy_log_delta(noisy: Composition, direction: Direction, epsilon: float, options: Options) -> Bounds:
    if not noisy:
        value = _log_delta_where_identical(epsilon)
        if value == -math.inf:
            return Bounds(value, value, Provenance(adjacency=direction))
        slack = _SLACK * abs(value)
        return Bounds(value - slack, min(value + slack, 0.0), Provenance(adjacency=direction))
    if options.engine != "auto":
        return _computed_log_delta(noisy, direction, epsilon, options)
    ceiling = _log_delta_ceiling(noisy, epsilon)
    far = Bounds(-math.inf, ceiling, Provenance(engine="closed form", adjacency=direction, tolerance_met=False))
    if ceiling < _HOPELESSLY_FAR:
        return far
    try:
        found = _computed_log_delta(noisy, direction, epsilon, options)
        return found if found.upper <= ceiling else Bounds(found.lower, ceiling, found.provenance)
    except LimitExceeded:
        if ceiling < 0.0:  # a guarantee all the same, of which no more is claimed than it says
            return far
        raise


def _log_delta_ceiling(noisy: Composition, epsilon: float) -> float:
    """An upper bound on log delta(epsilon) in closed form, 0 if it has nothing to say.

    With the largest sensitivity in every round the mechanism is Gaussian and dominates (Ganesh 2024, Lemma 2.6), with
    mu^2 = sum_j T_j (c_max / sigma)_j^2; and delta(eps) <= Phi(mu / 2 - eps / mu) <= e^{-(eps / mu - mu / 2)^2 / 2}.
    """
    squares = (rounds * (mixture.sensitivities[-1] / mixture.standard_deviation) ** 2 for mixture, rounds in noisy)
    mu = math.sqrt(math.fsum(squares))
    if not 0.0 < mu < math.inf:
        return 0.0
    distance = min((epsilon / mu - mu / 2.0) * (1.0 - 1e-14) - 1e-14 * mu, 1e150)
    return -0.5 * distance * distance * (1.0 - 1e-14) if distance > 0.0 else 0.0


def _computed_log_delta(noisy: Composition, direction: Direction, epsilon: float, options: Options) -> Bounds:
    return _choose(
        options,
        noisy,
        lambda: spectral.log_delta(noisy, direction=direction, epsilon=epsilon),
        lambda: _labelled(
            _lattice().log_delta(
                pairs_of(noisy, direction),
                epsilon=epsilon,
                tolerance=options.tolerance,
                memory_budget=options.memory_budget,
                deadline=deadline_in(LONGEST_LATTICE),
                progress=options.progress,
            ),
            direction,
        ),
    )


def _noisy_epsilon(noisy: Composition, direction: Direction, log_delta: float, options: Options) -> Bounds:
    if not noisy or log_delta >= _log_chance_of_presence(noisy):
        return Bounds(0.0, 0.0, Provenance(adjacency=direction))
    return _choose(
        options,
        noisy,
        lambda: spectral.epsilon(noisy, direction=direction, log_delta=log_delta),
        lambda: _labelled(
            _lattice().epsilon(
                pairs_of(noisy, direction),
                log_delta=log_delta,
                tolerance=options.tolerance,
                memory_budget=options.memory_budget,
                deadline=deadline_in(LONGEST_LATTICE),
                progress=options.progress,
            ),
            direction,
        ),
    )


def _choose(
    options: Options, noisy: Composition, by_contour: Callable[[], Bounds], by_lattice: Callable[[], Bounds]
) -> Bounds:
    """The engine asked for, or in `auto` the contour where it is short and the lattice where it is not."""
    if options.engine == "spectral":
        found = by_contour()
    elif options.engine == "lattice" or is_one_round(noisy):
        found = by_lattice()
    else:
        found = _automatic(by_contour, by_lattice)
    if options.tolerance is None:
        return found
    met = found.relative_width <= options.tolerance
    provenance = replace(found.provenance, tolerance=options.tolerance, tolerance_met=met)
    return Bounds(found.lower, found.upper, provenance)


def _labelled(found: Bounds, direction: Direction) -> Bounds:
    """The bounds of an engine that knows nothing of directions, with the direction they are for."""
    directions: dict[str, tuple[float, float]] = {direction: (found.lower, found.upper)}
    return Bounds(found.lower, found.upper, replace(found.provenance, adjacency=direction, directions=directions))


def _lattice() -> ModuleType:
    """The lattice engine, imported when first needed: most calls never do."""
    from groupdp.engines import lattice

    return lattice


def is_one_round(noisy: Composition) -> bool:
    """Whether the lattice engine's closed form is called for; a plain Gaussian suits the contour."""
    mixture, rounds = noisy[0]
    return len(noisy) == 1 and rounds == 1 and len(mixture.sensitivities) > 1


def _automatic(by_contour: Callable[[], Bounds], by_lattice: Callable[[], Bounds]) -> Bounds:
    try:
        found = by_contour()
    except LimitExceeded:
        return by_lattice()
    if found.relative_width <= _WIDE:
        return found
    try:
        other = by_lattice()
    except LimitExceeded:
        return found
    narrower = found if found.width <= other.width else other
    return Bounds(max(found.lower, other.lower), min(found.upper, other.upper), narrower.provenance)


def _log_chance_of_presence(noisy: Composition) -> float:
    """log of a bound on delta(0): the expected number of rounds that sample the group at all."""
    terms = [math.log(rounds) + mixture.log_probability_of_presence for mixture, rounds in noisy]
    return functools.reduce(_log_sum, terms) + 1e-9


def _log_delta_where_identical(epsilon: float) -> float:
    """log of (1 - e^epsilon)_+, to a few units in the last place."""
    if epsilon >= 0.0:
        return -math.inf
    return math.log(-math.expm1(epsilon)) if epsilon > -1.0 else math.log1p(-math.exp(epsilon))


def _log_with_revealed(log_p: float, log_delta: float) -> float:
    """log of (1 - p) + p delta."""
    return _log_sum(_log_delta_where_identical(log_p), log_p + log_delta)


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)


def _down(value: float) -> float:
    return math.nextafter(value, -math.inf)


def _log_sum(x: float, y: float) -> float:
    """log(e^x + e^y)."""
    high, low = max(x, y), min(x, y)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))
