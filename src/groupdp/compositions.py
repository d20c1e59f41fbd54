"""Bounds of one composition: rounds without noise in closed form, the noisy rest by an engine or the better of two.

With p the P-probability that no noiseless round is revealing, l the loss of what is left (log prod a_0 / b_0; its
largest value above, with all branches merged below) and delta' the curve of the noisy rounds,

    delta(eps) = (1 - p) + p delta'(eps - l).                                                    (P-10)

A `Plan` holds what does not depend on the target; it is made once for all questions about a composition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from groupdp.bounds import Bounds, Provenance
from groupdp.enclosures import (
    coins_of,
    enclosed_epsilon,
    enclosed_log_delta,
    gaussian_epsilon,
    largest_mu,
    shifted_epsilon,
    shifted_log_delta,
    split_known,
)
from groupdp.engines import Options, spectral
from groupdp.errors import LimitExceeded
from groupdp.floats import log_complement
from groupdp.pairs import AllocationRound, Composition, Round, SubstitutionEnvelope, lower_composition

#: Relative slack that covers the few roundings of the closed forms below.
_SLACK = 1e-14
#: Above this a shift has all digits of a double, and so has what it is divided by or into.
_SMALLEST_SHIFT = 1e-290
#: Below this log delta only the bound in closed form is returned.
_CLOSED_FORM_BELOW = -1e6
#: The smallest positive double.
_SMALLEST = math.ulp(0.0)
#: In `auto`, a result wider than this, and than the tolerance, is intersected with the other engine's.
WIDE = 1e-5


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
    has_contour |= len(noisy) == 1 and isinstance(noisy[0][0], SubstitutionEnvelope)
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
    quiet = plan.noiseless
    found = _noisy_log_delta(plan, epsilon, options) if quiet is None else _log_delta_beside(quiet, epsilon, options)
    if plan.lower is None:
        return found
    return replace(found, lower=min(log_delta_of(plan.lower, epsilon, options).lower, found.upper))


def epsilon_of(composition: Composition, log_delta: float, options: Options) -> Bounds:
    """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta."""
    plan = plan_of(composition)
    quiet = plan.noiseless
    found = _noisy_epsilon(plan, log_delta, options) if quiet is None else _epsilon_beside(quiet, log_delta, options)
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
        value = log_complement(epsilon)
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
    if enclosed is not None:
        return enclosed
    bounds = _by_engine(plan, options, log_delta=log_delta)
    return bounds if bounds.upper < math.inf else replace(bounds, upper=gaussian_epsilon(plan.noisy, log_delta))


def log_delta_ceiling(noisy: Composition, epsilon: float) -> float:
    """An upper bound on log delta(epsilon) in closed form, 0 where it gives none (P-11).

    With the largest shifts in every round the pair is Gaussian and dominates (anchor lemma), with
    mu^2 = sum_j T_j max over branches (x_max + y_max)_j^2; and delta(eps) <= Phi(mu / 2 - eps / mu) <= e^{-(eps / mu -
    mu / 2)^2 / 2}.
    """
    mu = largest_mu(noisy)
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
    first, *second = order
    try:
        bounds = _answer(first, plan, options, epsilon, log_delta)
    except LimitExceeded:
        if not second:
            raise
        return _answer(second[0], plan, options, epsilon, log_delta)
    if not second or bounds.relative_width <= max(WIDE, options.tolerance or 0.0):
        return bounds
    try:
        other = _answer(second[0], plan, options, epsilon, log_delta)
    except LimitExceeded:
        return bounds
    narrower = bounds if bounds.width <= other.width else other
    return Bounds(max(bounds.lower, other.lower), min(bounds.upper, other.upper), narrower.provenance)


def _answer(engine: str, plan: Plan, options: Options, epsilon: float, log_delta: float | None) -> Bounds:
    """What one engine answers: log delta(epsilon), or the epsilon of a log delta."""
    if engine == "lattice":
        from groupdp.engines import lattice  # most calls never need it

        how: dict[str, Any] = {
            "tolerance": options.tolerance,
            "memory_budget": options.memory_budget,
            "progress": options.progress,
        }
        if log_delta is None:
            return lattice.log_delta(plan.noisy, epsilon=epsilon, **how)
        return lattice.epsilon(plan.noisy, log_delta=log_delta, **how)
    beside = plan.known and not spectral.stands_beside_allocations(plan.noisy)
    if beside and not plan.rest:
        raise LimitExceeded("known losses alone, without other rounds, are answered by the lattice engine.")
    if log_delta is None:
        if beside:
            return shifted_log_delta(plan.known, plan.rest, epsilon=epsilon)
        return spectral.log_delta(plan.noisy, epsilon=epsilon)
    if beside:
        return shifted_epsilon(plan.known, plan.rest, log_delta=log_delta)
    return spectral.epsilon(plan.noisy, log_delta=log_delta)


def _is_one_round(noisy: Composition) -> bool:
    """Whether the lattice engine's closed form is called for; the kernel has its own without a coin (S-71)."""
    if len(noisy) != 1 or noisy[0][1] != 1:
        return False
    round_ = noisy[0][0]
    if not isinstance(round_, Round):
        return not isinstance(round_, AllocationRound)
    return not round_.is_gaussian and not (spectral.AVAILABLE and len(round_.branches) == 1)


@dataclass(frozen=True, slots=True)
class Noiseless:
    """log p and the range of l for the rounds without noise, and the noisy rounds beside them."""

    log_p: float
    least_loss: float
    most_loss: float
    noisy: Composition

    @property
    def reveals_all(self) -> bool:
        """Whether no outcome is possible under both P and Q."""
        return self.log_p == -math.inf or self.least_loss == math.inf


def split(composition: Composition) -> tuple[Composition, Noiseless | None]:
    """The noisy rounds, and what the noiseless ones reveal; None where they reveal nothing."""
    revealing = [(*round_.at_zero, times) for round_, times in composition if not round_.has_noise]
    if not revealing:
        return composition, None
    noisy = tuple(part for part in composition if part[0].has_noise)
    total_p, total_q = (math.fsum(part[-1] * part[side] for part in revealing) for side in (0, 1))
    least = total_p - total_q if total_p > -math.inf else 0.0
    largest = max(math.fsum(times * most for _, _, most, times in revealing), least)
    if total_p == least == largest == 0.0:
        return noisy, None
    return noisy, Noiseless(total_p, least, largest, noisy)


def log_revealed(composition: Composition) -> float:
    """log of the P-probability of outcomes that Q never has: rounds without noise reveal them."""
    noiseless = split(composition)[1]
    return -math.inf if noiseless is None or noiseless.log_p == 0.0 else log_complement(noiseless.log_p)


def _log_delta_beside(noiseless: Noiseless, epsilon: float, options: Options) -> Bounds:
    """Bounds on log delta(epsilon) from those on the noisy rounds' log delta (P-10)."""
    if noiseless.reveals_all:
        return Bounds(0.0, 0.0)
    log_p, noisy = noiseless.log_p, plan_of(noiseless.noisy)
    room = _SLACK * (abs(noiseless.least_loss) + abs(log_p) + abs(epsilon))
    low = _noisy_log_delta(noisy, epsilon - noiseless.least_loss + room, options)
    lower = _log_with_revealed(log_p * (1.0 - _SLACK), low.lower)  # (1 - p) + p delta' falls with p
    upper, provenance = 0.0, low.provenance
    if noiseless.most_loss < math.inf:
        high = _noisy_log_delta(noisy, epsilon - noiseless.most_loss - room, options)
        upper, provenance = _log_with_revealed(log_p * (1.0 + _SLACK), high.upper), high.provenance
    return Bounds(_widened(lower, -1.0), min(_widened(upper, 1.0), 0.0), provenance)


def _epsilon_beside(noiseless: Noiseless, log_delta: float, options: Options) -> Bounds:
    """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta (P-10)."""
    if noiseless.reveals_all:
        return Bounds(math.inf, math.inf)
    if _log_delta_beside(noiseless, 0.0, options).upper <= log_delta - _SLACK * abs(log_delta):
        return Bounds(0.0, 0.0)
    lower_target, upper_target = _targets(noiseless.log_p, log_delta)
    if lower_target is None:
        return Bounds(math.inf, math.inf)
    room = _SLACK * (abs(noiseless.log_p) + abs(noiseless.least_loss))
    lower, upper, provenance = 0.0, math.inf, Provenance()
    if lower_target < 0.0:
        low = _real_epsilon(noiseless.noisy, lower_target, options)
        lower = max(math.nextafter(low.lower + noiseless.least_loss - room, -math.inf), 0.0)
        provenance = low.provenance
    if upper_target is not None and noiseless.most_loss < math.inf:
        high = _real_epsilon(noiseless.noisy, min(upper_target, -1e-300), options)
        upper = max(math.nextafter(high.upper + noiseless.most_loss + room, math.inf), 0.0)
        provenance = high.provenance
    return Bounds(min(lower, upper), upper, provenance)


def _targets(log_p: float, log_delta: float) -> tuple[float | None, float | None]:
    """log of (delta - (1 - p)) / p, rounded up for the lower side and down for the upper; None where it is negative."""
    if log_p == 0.0:
        return log_delta, log_delta
    revealed = -math.expm1(log_p)
    delta = math.exp(log_delta)
    left = delta - revealed
    # Of 1 - p and of e^log(delta), which has lost as many bits as log(delta) has before its point; and of subnormals.
    uncertainty = _SLACK * (4.0 * revealed + delta * (1.0 + 0.1 * abs(log_delta))) + 4.0 * _SMALLEST
    room = _SLACK * abs(log_p)
    lower = math.log(left + uncertainty) - log_p + room if left + uncertainty > 0.0 else None
    upper = math.log(left - uncertainty) - log_p - room if left - uncertainty > 0.0 else None
    return lower, upper


def _real_epsilon(noisy: Composition, log_delta: float, options: Options) -> Bounds:
    """The smallest real epsilon, not only >= 0: at or below 0, where no round is noisy, delta(eps) = 1 - e^eps."""
    if not noisy:
        # log(1 - delta), from the logarithm: next to 1, e^log_delta has lost 1 - delta.
        value = math.log(-math.expm1(log_delta))
        room = _SLACK * abs(value) + 1e-15
        return Bounds(value - room, value + room)
    bounds = _noisy_epsilon(plan_of(noisy), log_delta, options)
    return replace(bounds, lower=-math.inf) if bounds.lower == 0.0 else bounds


def _log_with_revealed(log_p: float, log_delta: float) -> float:
    """log of (1 - p) + p delta."""
    high, low = log_complement(log_p), log_p + log_delta
    if high < low:
        high, low = low, high
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def _widened(logarithm: float, sign: float) -> float:
    """Moved outward by more than the roundings of the closed form; an infinite one stays."""
    return logarithm + sign * _SLACK * (1.0 + abs(logarithm)) if math.isfinite(logarithm) else logarithm
