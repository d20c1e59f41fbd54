"""log_delta and epsilon by the spectral engine, for one direction of one composition."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from groupdp.bounds import Bounds, Provenance
from groupdp.engines.interface import Direction
from groupdp.engines.spectral.contour import Contour, build
from groupdp.engines.spectral.moments import plan
from groupdp.engines.spectral.rounds import Round, largest_loss, trimmed
from groupdp.engines.spectral.saddle import Scan, scan
from groupdp.engines.spectral.tilted import exponents_of
from groupdp.errors import LimitExceeded
from groupdp.reductions import Composition

#: Dropped components may cost this much (e^-36) of delta.
_LOG_TRIM = -36.0


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
        found, tilt, guess = _saddle_for_epsilon(prepared, epsilon)
        if prepared.log_dropped == -math.inf or assumed <= guess + 1.0:
            break
        assumed = guess - 10.0
    contour = build(
        prepared.rounds, direction=direction, tilt=tilt, epsilon=epsilon, log_delta=guess, scan=found
    )
    lower, upper = prepared.corrected(contour, epsilon)
    return Bounds(lower, upper, _provenance(direction, contour, evaluations=1))


def epsilon(composition: Composition, *, direction: Direction, log_delta: float) -> Bounds:
    """Certified bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta.

    `upper` satisfies delta_upper(upper) <= delta and `lower` satisfies delta_lower(lower) >= delta, or is 0.
    """
    prepared = _prepare(composition, direction, log_delta)
    found, tilt, guess = _saddle_for_delta(prepared, log_delta)
    if guess <= 0.0:
        return _epsilon_near_zero(prepared, log_delta)
    contour = build(
        prepared.rounds, direction=direction, tilt=tilt, epsilon=guess, log_delta=log_delta, scan=found
    )
    return _certified_root(prepared, contour, guess, log_delta)


def epsilon_ceiling(composition: Composition, *, direction: Direction, log_delta: float) -> float:
    """A rigorous upper bound on epsilon, by Chernoff alone: cheap, a few per cent above the truth."""
    prepared = _prepare(composition, direction, log_delta)
    found, _, _ = _saddle_for_delta(prepared, log_delta)
    if prepared.direction == "remove" and prepared.log_dropped > -math.inf:
        log_delta += math.log1p(-math.exp(prepared.log_dropped - log_delta))
    ceiling = max(found.epsilon_ceiling(log_delta), 0.0)
    if prepared.direction == "add" and prepared.log_dropped > -math.inf:
        ceiling += 2.0 * math.exp(prepared.log_dropped)
    return min(math.nextafter(ceiling, math.inf), prepared.largest_loss)


def _epsilon_near_zero(prepared: _Prepared, target: float) -> Bounds:
    """The root is at or near epsilon = 0: decide with a contour planned there."""
    found, tilt, guess = _saddle_for_epsilon(prepared, 0.0)
    contour = build(
        prepared.rounds, direction=prepared.direction, tilt=tilt, epsilon=0.0, log_delta=guess, scan=found
    )
    if prepared.corrected(contour, 0.0)[1] <= target:
        return Bounds(0.0, 0.0, _provenance(prepared.direction, contour, evaluations=1))
    return _certified_root(prepared, contour, 0.0, target)


def _certified_root(prepared: _Prepared, contour: Contour, start: float, target: float) -> Bounds:
    """Newton on the cached samples, then outward from the root until both sides are certified."""
    root = start
    evaluations = 0
    for _ in range(30):
        value, slope = contour.log_delta_slope(root)
        evaluations += 1
        if not (math.isfinite(value) and math.isfinite(slope) and slope < 0.0):
            break
        change = (target - value) / slope
        change = max(min(change, contour.period / 8.0), -contour.period / 8.0)
        root = max(root + change, 0.0)
        if abs(change) <= 1e-15 * max(root, 1e-300):
            break
    value, slope = contour.log_delta_slope(root)
    lower_log, upper_log = prepared.corrected(contour, root)
    rate = max(-slope, 1e-300) if math.isfinite(slope) else 1.0
    floor = 4e-16 * root
    above = max((upper_log - target) / rate, 0.0) * 1.05 + floor
    below = max((target - lower_log) / rate, 0.0) * 1.05 + floor
    upper = math.inf
    for _ in range(200):
        candidate = min(root + above, prepared.largest_loss)
        evaluations += 1
        if prepared.corrected(contour, candidate)[1] <= target:
            upper = candidate
            break
        above = max(2.0 * above, 1e-300)
    lower = 0.0
    for _ in range(200):
        candidate = root - below
        if candidate <= 0.0 or not math.isfinite(below):
            break
        evaluations += 1
        if prepared.corrected(contour, candidate)[0] >= target:
            lower = candidate
            break
        below = max(2.0 * below, 1e-300)
    if not math.isfinite(upper):
        raise LimitExceeded("no finite upper bound could be certified by the spectral engine.")
    return Bounds(lower, upper, _provenance(prepared.direction, contour, evaluations=evaluations))


def _prepare(composition: Composition, direction: Direction, log_delta: float) -> _Prepared:
    total = math.fsum(rounds for _, rounds in composition)
    whole = tuple(trimmed(mixture, rounds, log_budget=-math.inf) for mixture, rounds in composition)
    finest = min(float(one.m[one.m > 0.0][0]) for one in whole)
    # Losses as small as the finest shift move delta's scale in epsilon accordingly.
    budget = min(log_delta, 0.0) - math.log(total) + _LOG_TRIM - 2.0 * max(0.0, -math.log(finest))
    rounds = tuple(trimmed(mixture, count, log_budget=budget) for mixture, count in composition)
    dropped = [one.log_dropped + math.log(one.count) for one in rounds]
    ceiling = largest_loss(whole) if direction == "add" else math.inf
    return _Prepared(_divisible(rounds), direction, float(np.logaddexp.reduce(dropped)), ceiling)


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


def _first_scale(prepared: _Prepared) -> tuple[float, float]:
    """Mean and standard deviation of the composed loss under P, roughly."""
    mean = variance = 0.0
    exponents = exponents_of(prepared.direction, np.zeros(1))
    for one in prepared.rounds:
        quadrature = plan(one, exponents, frequency=0.0, log_tolerance=-12.0, with_identity=False)
        weight = np.exp(quadrature.log_weight + exponents[0] * quadrature.table.psi)
        weight /= weight.sum()
        loss = quadrature.table.psi if prepared.direction == "remove" else -quadrature.table.psi
        first = float(weight @ loss)
        mean += one.count * first
        variance += one.count * float(weight @ np.square(loss - first))
    return mean, math.sqrt(variance)


def _saddle_for_epsilon(prepared: _Prepared, target: float) -> tuple[Scan, float, float]:
    """(scan, tilt, guess of log delta) for a given epsilon."""
    mean, deviation = _first_scale(prepared)
    largest = 2.0 * max(target - mean, 0.0) / deviation**2 + 24.0 / deviation
    for _ in range(60):
        found = scan(prepared.rounds, prepared.direction, largest)
        level = found.k - found.tilt * target - np.log(found.tilt) - np.log1p(found.tilt)
        best = int(np.argmin(level))
        c = float(found.tilt[best])
        if best < len(level) - 1 and c + 14.0 / math.sqrt(found.variance[best]) <= found.tilt[-1]:
            break
        largest *= 4.0
    slope = found.mean[best] - target - 1.0 / c - 1.0 / (1.0 + c)
    curvature = found.variance[best] + 1.0 / c**2 + 1.0 / (1.0 + c) ** 2
    tilt = float(np.clip(c - slope / curvature, 0.7 * c, 1.4 * c))
    guess = float(level[best] - 0.5 * slope * slope / curvature - 0.5 * math.log(2.0 * math.pi * curvature))
    return found, tilt, min(guess, 0.0)


def _saddle_for_delta(prepared: _Prepared, target: float) -> tuple[Scan, float, float]:
    """(scan, tilt, guess of epsilon) for a given log delta; the guess is 0 or below if epsilon is about 0."""
    _, deviation = _first_scale(prepared)
    largest = (2.0 * math.sqrt(2.0 * max(-target, 0.0)) + 24.0) / deviation
    for _ in range(60):
        found = scan(prepared.rounds, prepared.direction, largest)
        epsilons, levels = found.log_delta_guess()
        # Along increasing tilts epsilon rises and the level falls.
        beyond = np.flatnonzero(levels <= target)
        if len(beyond) and found.tilt[beyond[0]] + 14.0 / math.sqrt(found.variance[beyond[0]]) <= found.tilt[-1]:
            break
        largest *= 4.0
    else:
        raise LimitExceeded("no tilt fits this delta: it is too small for the spectral engine.")
    last = int(beyond[0])
    if last == 0:
        return found, float(found.tilt[0]), 0.0
    share = float(np.clip((levels[last - 1] - target) / (levels[last - 1] - levels[last]), 0.0, 1.0))
    tilt = math.exp((1.0 - share) * math.log(found.tilt[last - 1]) + share * math.log(found.tilt[last]))
    return found, tilt, float((1.0 - share) * epsilons[last - 1] + share * epsilons[last])


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
