"""log_delta and epsilon by the spectral engine, for one direction of one composition."""

from __future__ import annotations

import functools
import math

from groupdp.bounds import Bounds, Provenance
from groupdp.engines.interface import Direction
from groupdp.engines.spectral import compiled
from groupdp.engines.spectral.contour import Contour, build
from groupdp.engines.spectral.prepare import Prepared, prepare
from groupdp.engines.spectral.ratio import U
from groupdp.engines.spectral.saddle import Scan, Scanner, first_scan_for_delta, saddle_for_delta, saddle_for_epsilon
from groupdp.errors import LimitExceeded
from groupdp.reductions import Composition

#: A root is accepted from the first contour if it is this narrow, relative to itself.
_NARROW = 1e-9
#: A contour is good for a root whose log delta is this close to that at its own epsilon.
_CLOSE = 0.7
#: Doublings of the distance from the root before giving up on certifying a side.
_OUTWARD = 40


def log_delta(composition: Composition, *, direction: Direction, epsilon: float) -> Bounds:
    """Certified bounds on log delta(epsilon), for any real epsilon."""
    found = compiled.log_delta(composition, direction, epsilon)
    return found if found is not None else log_delta_by_numpy(composition, direction, epsilon)


def log_delta_by_numpy(composition: Composition, direction: Direction, epsilon: float) -> Bounds:
    """The same, whatever the compiled engine declines."""
    assumed = -60.0
    for _ in range(8):
        prepared = prepare(composition, direction, assumed)
        if epsilon >= prepared.largest_loss:
            return Bounds(-math.inf, -math.inf, Provenance(engine="exact", adjacency=direction))
        saddle = saddle_for_epsilon(prepared.rounds, direction, epsilon, prepared.mean, prepared.deviation)
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
    found = compiled.epsilon(composition, direction, log_delta)
    return found if found is not None else epsilon_by_numpy(composition, direction, log_delta)


def epsilon_by_numpy(composition: Composition, direction: Direction, log_delta: float) -> Bounds:
    """The same, whatever the compiled engine declines."""
    prepared, scanner, scan = _scanned(composition, direction, log_delta)
    saddle = saddle_for_delta(scanner, scan, log_delta)
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


def epsilon_ceiling(composition: Composition, *, direction: Direction, log_delta: float, enough: float) -> float:
    """A cheap and rigorous upper bound on epsilon, to be compared with `enough`: a few per cent above the truth by
    Chernoff alone, closer where that does not decide.
    """
    compiled_ceiling = compiled.epsilon_ceiling(composition, direction, log_delta, enough)
    if compiled_ceiling is not None:
        return compiled_ceiling
    prepared, _, found = _scanned(composition, direction, log_delta)
    if prepared.direction == "remove" and prepared.log_dropped > -math.inf:
        log_delta += math.log1p(-math.exp(prepared.log_dropped - log_delta))
    ceiling = max(found.epsilon_ceiling(log_delta), 0.0)
    if prepared.direction == "add" and prepared.log_dropped > -math.inf:
        ceiling += 2.0 * math.exp(prepared.log_dropped)
    return min(math.nextafter(ceiling, math.inf), prepared.largest_loss)


@functools.lru_cache(maxsize=2)
def _scanned(composition: Composition, direction: Direction, log_delta: float) -> tuple[Prepared, Scanner, Scan]:
    """What the Chernoff screen and the epsilon of one direction have in common, kept for the second of them."""
    prepared = prepare(composition, direction, log_delta)
    return prepared, *first_scan_for_delta(prepared.rounds, direction, log_delta, prepared.deviation)


def _epsilon_near_zero(prepared: Prepared, target: float) -> Bounds:
    """The root is at or near epsilon = 0: decide with a contour planned there."""
    contour = _contour_at(prepared, 0.0)
    if prepared.corrected(contour, 0.0)[1] <= target - 4.0 * U * abs(target):
        return Bounds(0.0, 0.0, _provenance(prepared.direction, contour, evaluations=1))
    found = _certified_root(prepared, contour, 0.0, target)
    if found is None:
        raise LimitExceeded("no epsilon could be certified by the spectral engine: too heavy a tail.")
    return found


def _search(prepared: Prepared, target: float, *, start: float, ceiling: float) -> Bounds | None:
    """Newton with bisection, each evaluation on a contour of its own, then a certified root on the last one."""
    low, high = 0.0, max(ceiling, 0.0)
    x = start if low < start < high else 0.5 * (low + high)
    for _ in range(60):
        contour = _contour_at(prepared, x)
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


def _certified_root(prepared: Prepared, contour: Contour, start: float, target: float) -> Bounds | None:
    """Newton on the cached samples, then outward from the root until both sides are certified; None if that fails."""
    # The target itself is a rounded logarithm: each side is certified against the worse of its neighbours.
    slack = 4.0 * U * abs(target)
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
    above = max((upper_log - target + slack) / rate, 0.0) * 1.05 + floor
    below = max((target + slack - lower_log) / rate, 0.0) * 1.05 + floor
    upper = None
    for _ in range(_OUTWARD):
        candidate = min(root + above, prepared.largest_loss)
        evaluations += 1
        if prepared.corrected(contour, candidate)[1] <= target - slack:
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
        if prepared.corrected(contour, candidate)[0] >= target + slack:
            lower = candidate
            break
        below = max(2.0 * below, 1e-300)
    return Bounds(lower, upper, _provenance(prepared.direction, contour, evaluations=evaluations))


def _contour_at(prepared: Prepared, epsilon: float) -> Contour:
    """A contour of its own for one epsilon."""
    saddle = saddle_for_epsilon(prepared.rounds, prepared.direction, epsilon, prepared.mean, prepared.deviation)
    return build(prepared.rounds, prepared.direction, saddle)


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
