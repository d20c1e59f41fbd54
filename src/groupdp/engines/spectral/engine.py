"""log_delta and epsilon by the spectral engine, for one direction of one composition."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from groupdp.bounds import Bounds, Provenance
from groupdp.engines.interface import Direction
from groupdp.engines.spectral.contour import Contour, build
from groupdp.engines.spectral.rounds import Round, largest_loss, trimmed
from groupdp.engines.spectral.saddle import loss_scale, saddle_for_delta, saddle_for_epsilon
from groupdp.engines.spectral.thinning import discard
from groupdp.errors import LimitExceeded
from groupdp.reductions import Composition

#: Dropped components may cost this much (e^-36) of delta.
_LOG_TRIM = -36.0
#: Thinning is never sharper than this: nodes would have to be closer than a fraction of it.
_NARROWEST_THINNING = 1e-3
#: A root is accepted from the first contour if it is this narrow, relative to itself.
_NARROW = 1e-9
#: A contour is good for a root whose log delta is this close to that at its own epsilon.
_CLOSE = 0.7
#: Doublings of the distance from the root before giving up on certifying a side.
_OUTWARD = 40


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A composition trimmed for a given size of delta."""

    rounds: tuple[Round, ...]
    direction: Direction
    log_dropped: float  # log of sum_j T_j eta_j, an upper bound
    largest_loss: float

    def corrected(self, contour: Contour, epsilon: float) -> tuple[float, float]:
        """Certified (lower, upper) of log delta(epsilon) for the composition before trimming (section 5)."""
        if epsilon >= self.largest_loss:
            return -math.inf, -math.inf
        lower, upper = contour.log_delta(epsilon)
        if self.log_dropped == -math.inf:
            return lower, upper
        if self.direction == "remove":
            return lower, min(float(np.logaddexp(upper, self.log_dropped)) + 1e-15 * (1.0 + abs(upper)), 0.0)
        # -log(1 - eta) <= 2 eta; the mixture is at least (1 - eta) times the trimmed one, in every round.
        shift = 2.0 * math.exp(self.log_dropped)
        return lower, contour.log_delta(math.nextafter(epsilon - shift, -math.inf))[1]


def log_delta(composition: Composition, *, direction: Direction, epsilon: float) -> Bounds:
    """Certified bounds on log delta(epsilon), for any real epsilon."""
    assumed = -60.0
    for _ in range(8):
        prepared = _prepare(composition, direction, assumed)
        if epsilon >= prepared.largest_loss:
            return Bounds(-math.inf, -math.inf, Provenance(engine="exact", adjacency=direction))
        saddle = saddle_for_epsilon(prepared.rounds, direction, epsilon)
        if prepared.log_dropped == -math.inf or assumed <= saddle.log_delta + 1.0:
            break
        assumed = saddle.log_delta - 10.0
    contour = build(prepared.rounds, direction, saddle)
    lower, upper = prepared.corrected(contour, epsilon)
    return Bounds(lower, upper, _provenance(direction, contour, evaluations=1))


def epsilon(composition: Composition, *, direction: Direction, log_delta: float) -> Bounds:
    """Certified bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta.

    `upper` satisfies delta_upper(upper) <= delta and `lower` satisfies delta_lower(lower) >= delta, or is 0.
    """
    prepared = _prepare(composition, direction, log_delta)
    saddle = saddle_for_delta(prepared.rounds, direction, log_delta)
    if saddle.epsilon <= 0.0:
        return _epsilon_near_zero(prepared, log_delta)
    contour = build(prepared.rounds, direction, saddle)
    found = _certified_root(prepared, contour, saddle.epsilon, log_delta)
    if found is not None and found.width <= _NARROW * found.upper:
        return found
    # The approximation behind the contour was poor: rare large losses. Search with a contour per epsilon.
    ceiling = min(saddle.scan.epsilon_ceiling(log_delta), prepared.largest_loss)
    again = _search(prepared, log_delta, start=found.upper if found else saddle.epsilon, ceiling=ceiling)
    candidates = [bounds for bounds in (found, again) if bounds is not None]
    if not candidates:
        raise LimitExceeded("no epsilon could be certified by the spectral engine: too heavy a tail.")
    return min(candidates, key=lambda bounds: bounds.width)


def epsilon_ceiling(composition: Composition, *, direction: Direction, log_delta: float) -> float:
    """A rigorous upper bound on epsilon, by Chernoff alone: cheap, a few per cent above the truth."""
    prepared = _prepare(composition, direction, log_delta)
    found = saddle_for_delta(prepared.rounds, direction, log_delta).scan
    if prepared.direction == "remove" and prepared.log_dropped > -math.inf:
        log_delta += math.log1p(-math.exp(prepared.log_dropped - log_delta))
    ceiling = max(found.epsilon_ceiling(log_delta), 0.0)
    if prepared.direction == "add" and prepared.log_dropped > -math.inf:
        ceiling += 2.0 * math.exp(prepared.log_dropped)
    return min(math.nextafter(ceiling, math.inf), prepared.largest_loss)


def _epsilon_near_zero(prepared: _Prepared, target: float) -> Bounds:
    """The root is at or near epsilon = 0: decide with a contour planned there."""
    contour = build(prepared.rounds, prepared.direction, saddle_for_epsilon(prepared.rounds, prepared.direction, 0.0))
    if prepared.corrected(contour, 0.0)[1] <= target:
        return Bounds(0.0, 0.0, _provenance(prepared.direction, contour, evaluations=1))
    found = _certified_root(prepared, contour, 0.0, target)
    if found is None:
        raise LimitExceeded("no epsilon could be certified by the spectral engine: too heavy a tail.")
    return found


def _search(prepared: _Prepared, target: float, *, start: float, ceiling: float) -> Bounds | None:
    """Newton with bisection, each evaluation on a contour of its own, then a certified root on the last one."""
    low, high = 0.0, max(ceiling, 0.0)
    x = start if low < start < high else 0.5 * (low + high)
    for _ in range(60):
        contour = build(prepared.rounds, prepared.direction, saddle_for_epsilon(prepared.rounds, prepared.direction, x))
        value, slope = contour.log_delta_slope(x)
        sound = math.isfinite(value) and slope < 0.0
        if sound and abs(value - target) < _CLOSE:
            return _certified_root(prepared, contour, x, target)
        lower, upper = prepared.corrected(contour, x)
        if upper <= target:
            high = x
        elif lower >= target:
            low = x
        else:
            return _certified_root(prepared, contour, x, target)
        x = x + (target - value) / slope if sound else low
        if not low < x < high:
            x = 0.5 * (low + high)
    return None


def _certified_root(prepared: _Prepared, contour: Contour, start: float, target: float) -> Bounds | None:
    """Newton on the cached samples, then outward from the root until both sides are certified; None if that fails."""
    root, rate = start, math.inf
    evaluations = 0
    for _ in range(30):
        value, slope = contour.log_delta_slope(root)
        evaluations += 1
        if not (math.isfinite(value) and math.isfinite(slope) and slope < 0.0):
            return None
        change = (target - value) / slope
        rate = -slope
        root = max(root + max(min(change, contour.period / 8.0), -contour.period / 8.0), 0.0)
        if abs(change) <= 1e-15 * max(root, 1e-300):
            break
    lower_log, upper_log = prepared.corrected(contour, root)
    floor = 4e-16 * root
    above = max((upper_log - target) / rate, 0.0) * 1.05 + floor
    below = max((target - lower_log) / rate, 0.0) * 1.05 + floor
    upper = None
    for _ in range(_OUTWARD):
        candidate = min(root + above, prepared.largest_loss)
        evaluations += 1
        if prepared.corrected(contour, candidate)[1] <= target:
            upper = candidate
            break
        above = max(2.0 * above, 1e-300)
    if upper is None:
        return None
    lower = 0.0
    for _ in range(_OUTWARD):
        candidate = root - below
        if not candidate > 0.0:
            break
        evaluations += 1
        if prepared.corrected(contour, candidate)[0] >= target:
            lower = candidate
            break
        below = max(2.0 * below, 1e-300)
    return Bounds(lower, upper, _provenance(prepared.direction, contour, evaluations=evaluations))


def _prepare(composition: Composition, direction: Direction, log_delta: float) -> _Prepared:
    total = math.fsum(rounds for _, rounds in composition)
    whole = tuple(trimmed(mixture, rounds, log_budget=-math.inf) for mixture, rounds in composition)
    finest = min(float(one.m[one.m > 0.0][0]) for one in whole)
    # Losses as small as the finest shift move delta's scale in epsilon accordingly.
    budget = min(log_delta, 0.0) - math.log(total) + _LOG_TRIM - 2.0 * max(0.0, -math.log(finest))
    rounds = _divisible(tuple(trimmed(mixture, count, log_budget=budget) for mixture, count in composition))
    ceiling = largest_loss(whole) if direction == "add" else math.inf
    if direction == "remove":
        rounds = _thinned(rounds, log_delta=log_delta, log_budget=budget)
    dropped = [one.log_dropped + math.log(one.count) for one in rounds]
    dropped += [one.thinning.log_discarded + math.log(one.count) for one in rounds if one.thinning is not None]
    return _Prepared(rounds, direction, float(np.logaddexp.reduce(dropped)), ceiling)


def _thinned(rounds: tuple[Round, ...], *, log_delta: float, log_budget: float) -> tuple[Round, ...]:
    """The rounds, thinned where the tilt that delta calls for would pile mass up beyond anything that matters."""
    _, deviation = loss_scale(rounds, "remove")
    tilt = (math.sqrt(2.0 * max(-log_delta, 0.0)) + 1.0) / deviation
    result = []
    for one in rounds:
        reach = (1.0 + tilt) * one.largest_shift
        width = min(max(3.0 / reach, _NARROWEST_THINNING), 1.0)
        thinning = discard(one.m, one.log_p, width=width, log_budget=log_budget)
        result.append(replace(one, thinning=thinning) if reach > thinning.edge - 2.0 else one)
    return tuple(result)


def _divisible(rounds: tuple[Round, ...]) -> tuple[Round, ...]:
    """Plain Gaussian rounds cut into many smaller ones: T rounds of shift m are T' rounds of m sqrt(T / T')."""
    result = []
    for one in rounds:
        if len(one.m) == 1 and one.count < 256.0:
            count = 256.0
            result.append(Round(one.m * math.sqrt(one.count / count), one.p, one.log_p, count, one.log_dropped))
        else:
            result.append(one)
    return tuple(result)


def _provenance(direction: Direction, contour: Contour, *, evaluations: int) -> Provenance:
    return Provenance(
        engine="spectral",
        adjacency=direction,
        evaluations={
            "nodes": contour.nodes,
            "contour steps": len(contour.frequency),
            "evaluations of delta": evaluations,
        },
    )
