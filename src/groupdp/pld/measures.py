"""Measures on a lattice of losses with a mass at +infinity: delta, probabilities of the loss, and composition.

A composition is computed under several tilts, every entry of each certified: an entry's smallest upper bound (or
largest lower bound) over the tilts is certified too, and keeps relative accuracy far into the tails (L-18).
Probabilities of the loss come from difference quotients of the convex delta (L-19).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from groupdp.engines.lattice.measures import Tail, Tilt, TiltedMass, sum_down, sum_up
from groupdp.engines.lattice.other_parts import law_of_atoms
from groupdp.engines.lattice.planning import compose_tail, transform_length
from groupdp.engines.lattice.support import Window, window_of
from groupdp.errors import LimitExceeded
from groupdp.floats import ELEMENTARY, TINY, UNIT, FloatArray, log_sum_exp

#: log of the tilted mass that a transform may leave outside of its window.
_LOG_OUTSIDE = -42.0
#: Tilts are this many standard deviations apart.
_APART = 5.0
_MOST_TILTS = 40
#: Atoms that plans are made from.
_SKETCH = 4096


@dataclass(frozen=True, slots=True)
class Measure:
    """Masses at the losses first x step, (first + 1) x step, ..., and at +infinity."""

    step: float
    first: int
    masses: FloatArray
    infinite_mass: float = 0.0

    @property
    def losses(self) -> FloatArray:
        return self.step * (self.first + np.arange(len(self.masses), dtype=np.float64))

    def delta_above(self, epsilon: float) -> float:
        """sum of mass x (1 - e^(epsilon - loss))_+, rounded up."""
        masses, kernel = self._beyond(epsilon)
        total = sum_up(masses * kernel) * (1.0 + 2.0 * ELEMENTARY) + len(masses) * TINY
        return min((total + self.infinite_mass) * (1.0 + 4.0 * UNIT), 1.0)

    def delta_below(self, epsilon: float) -> float:
        """The same, rounded down."""
        masses, kernel = self._beyond(epsilon)
        total = sum_down(masses * kernel) * (1.0 - 2.0 * ELEMENTARY) + self.infinite_mass
        return min(max(total * (1.0 - 4.0 * UNIT), 0.0), 1.0)

    def _beyond(self, epsilon: float) -> tuple[FloatArray, FloatArray]:
        exact = Fraction(epsilon) / Fraction(self.step) - self.first
        start = min(max(math.floor(exact) + 1, 0), len(self.masses))
        base = float((start - exact) * Fraction(self.step))
        distance = base + self.step * np.arange(len(self.masses) - start)
        with np.errstate(under="ignore"):
            return self.masses[start:], -np.expm1(-distance)


def compose_measures(parts: Sequence[tuple[Measure, int]], *, up: bool, tail_mass: float, longest: int) -> Measure:
    """A measure that bounds the composition entry by entry: from above if `up`, else from below.

    About `tail_mass` on the right goes to +infinity (up) or is left out; as much on the left is moved up or left out.
    """
    sketch = _Sketch(parts)
    window = window_of(sketch.cumulant, 0.0, math.log(tail_mass), resolution=sketch.step, extremes=sketch.extremes)
    first, last = math.floor(window.left / sketch.step) - 1, math.ceil(window.right / sketch.step) + 1
    if last - first >= longest:
        raise LimitExceeded(
            f"the composed distribution would take {last - first + 1} lattice points, more than the limit of "
            f"{longest}: a larger grid_step is needed."
        )
    bounds = np.full(last - first + 1, math.inf if up else 0.0)
    for rate in sketch.rates(window):
        tail = _tilted_composition(parts, sketch, rate, up=up, longest=longest)
        if up:
            _tighten_above(bounds, first, tail, _log_moment(parts, rate), rate)
        else:
            _tighten_below(bounds, first, tail)
    if not up:
        return Measure(sketch.step, first, bounds)
    left = _chernoff(parts, window.theta_left, first - 1)
    right = _chernoff(parts, window.theta_right, last + 1)
    bounds[0] += left
    infinite = min((right + _infinite_mass(parts)) * (1.0 + 4.0 * UNIT), 1.0)
    return Measure(sketch.step, first, bounds * (1.0 + 2.0 * UNIT), infinite)


class _Sketch:
    """A rough picture of the parts, for planning: at most a few thousand atoms each."""

    def __init__(self, parts: Sequence[tuple[Measure, int]]) -> None:
        self.step = parts[0][0].step
        self.rounds = [count for _, count in parts]
        self.laws = []
        for measure, _ in parts:
            block = -(-len(measure.masses) // _SKETCH)
            starts = np.arange(0, len(measure.masses), block)
            masses = np.add.reduceat(measure.masses, starts)
            centres = measure.step * (measure.first + np.minimum(starts + 0.5 * (block - 1), len(measure.masses) - 1))
            live = masses > 0.0
            self.laws.append(law_of_atoms(centres[live], np.log(masses[live])))
        low = sum(count * measure.first for measure, count in parts)
        high = sum(count * (measure.first + len(measure.masses) - 1) for measure, count in parts)
        self.extremes = (low * self.step, high * self.step)

    def cumulant(self, rate: float) -> tuple[float, float, float]:
        """(K, K', K'') of the composed law, roughly."""
        k = mean = variance = 0.0
        for law, count in zip(self.laws, self.rounds, strict=True):
            own = law.cumulant(rate)
            k, mean, variance = k + count * own[0], mean + count * own[1], variance + count * own[2]
        return k, mean, variance

    def rates(self, window: Window) -> list[float]:
        """Tilts whose means are a few standard deviations apart, from one end of the window to the other."""
        rates = [0.0]
        for sign, edge in ((-1.0, window.left), (1.0, window.right)):
            rate = 0.0
            for _ in range(_MOST_TILTS):
                _, mean, variance = self.cumulant(rate)
                target = mean + sign * _APART * max(math.sqrt(variance), self.step)
                if sign * (edge - target) <= 0.0:
                    break
                rate = self._rate_for(target, rate, sign)
                rates.append(rate)
        return rates

    def _rate_for(self, target: float, start: float, sign: float) -> float:
        """The tilt whose mean is `target`, on the side `sign` of `start`."""
        reach = 1.0
        while sign * (target - self.cumulant(start + sign * reach)[1]) > 0.0 and reach < 1e12:
            reach *= 2.0
        low, high = 0.0, reach
        for _ in range(40):
            middle = 0.5 * (low + high)
            is_short = sign * (target - self.cumulant(start + sign * middle)[1]) > 0.0
            low, high = (middle, high) if is_short else (low, middle)
        return start + sign * high


def _tilted_composition(
    parts: Sequence[tuple[Measure, int]], sketch: _Sketch, rate: float, *, up: bool, longest: int
) -> Tail:
    """The composition under one tilt, on the window where nearly all of its tilted mass lies."""
    window = window_of(sketch.cumulant, rate, _LOG_OUTSIDE, resolution=sketch.step, extremes=sketch.extremes)
    points = (window.right - window.left) / sketch.step + 16.0
    length = transform_length(min(1.2 * points, 2.0 * longest))
    steepest = 20.0 / sketch.step
    thetas = (max(window.theta_left, -steepest), min(window.theta_right, steepest))
    masses = []
    for measure, _ in parts:
        log_scale = _log_sum(measure, rate)
        moments = tuple((theta, _log_sum(measure, rate + theta) - log_scale) for theta in thetas)
        mass = TiltedMass.empty(
            step=sketch.step, tilt=Tilt(rate=rate, log_scale=log_scale, moments=moments), length=length
        )
        live = np.flatnonzero(measure.masses)
        exponent, error = mass.exponents((measure.first + live).astype(np.float64))
        with np.errstate(under="ignore"):
            values = measure.masses[live] * np.exp(exponent)
        room = error + ELEMENTARY + 4.0 * UNIT
        values = values * (1.0 + room) + TINY if up else np.maximum(values * (1.0 - room) - TINY, 0.0)
        mass.book(measure.first + live, values, up=up)
        mass.finish(up=up)
        masses.append(mass)
    left = window.left - 8.0 * sketch.step
    return compose_tail(masses, [count for _, count in parts], left=left)


def _tighten_above(bounds: FloatArray, first: int, tail: Tail, log_moment: float, rate: float) -> None:
    """Lower the upper bounds to those of one tilt: Chernoff's bound everywhere, the transform on its window."""
    losses = tail.step * (first + np.arange(len(bounds), dtype=np.float64))
    room = 1e-12 * (abs(log_moment) + np.abs(rate * losses)) + 1e-9
    with np.errstate(over="ignore", under="ignore"):
        np.minimum(bounds, np.exp(log_moment - rate * losses + room), out=bounds)
    here, there = _overlap(len(bounds), first, tail)
    factor, error = _untilting(tail, first, here)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        values = (np.maximum(tail.values[there], 0.0) + tail.error) * factor * (1.0 + error) + TINY
    bounds[here] = np.fmin(bounds[here], values)


def _tighten_below(bounds: FloatArray, first: int, tail: Tail) -> None:
    """Raise the lower bounds to those of one tilt."""
    here, there = _overlap(len(bounds), first, tail)
    factor, error = _untilting(tail, first, here)
    doubt = (tail.error + tail.left_outside + tail.right_outside) * (1.0 + 4.0 * UNIT)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        values = np.maximum(tail.values[there] - doubt, 0.0) * factor * (1.0 - error)
    bounds[here] = np.fmax(bounds[here], np.where(np.isfinite(values), values, 0.0))


def _overlap(count: int, first: int, tail: Tail) -> tuple[slice, slice]:
    """Where the lattice points first, ..., first + count - 1 and the tail's window overlap, in both."""
    start = max(first, tail.first)
    stop = max(min(first + count, tail.first + len(tail.values)), start)
    return slice(start - first, stop - first), slice(start - tail.first, stop - tail.first)


def _untilting(tail: Tail, first: int, here: slice) -> tuple[FloatArray, FloatArray]:
    """exp(log_scale - rate x loss) at lattice points, and its relative error."""
    losses = tail.step * (first + np.arange(here.start, here.stop, dtype=np.float64))
    lift = tail.rate * losses
    error = tail.log_scale_error + UNIT * (4.0 * abs(tail.log_scale) + 4.0 * np.abs(lift)) + ELEMENTARY + 4.0 * UNIT
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(tail.log_scale - lift), 1.01 * error


def _log_sum(measure: Measure, rate: float) -> float:
    """log sum mass x exp(rate x loss), to within 1e-12 of its largest exponent."""
    live = measure.masses > 0.0
    if not np.any(live):
        return -math.inf
    return log_sum_exp(np.log(measure.masses[live]) + rate * measure.losses[live])


def _log_moment(parts: Sequence[tuple[Measure, int]], rate: float) -> float:
    """At least log of the composed sum of mass x exp(rate x loss), by no more than a few roundings."""
    terms, sizes = [], []
    for measure, count in parts:
        terms.append(count * _log_sum(measure, rate))
        # A logarithm is off by a few roundings of the largest exponent that went into it.
        sizes.append(count * (abs(rate) * float(np.max(np.abs(measure.losses))) + 800.0))
    return math.fsum(terms) + 1e-14 * (math.fsum(map(abs, terms)) + math.fsum(sizes))


def _chernoff(parts: Sequence[tuple[Measure, int]], theta: float, edge: int) -> float:
    """A bound on the composed mass at and beyond the lattice index `edge`, on the side of theta's sign."""
    last = sum(count * (measure.first + len(measure.masses) - 1) for measure, count in parts)
    first = sum(count * measure.first for measure, count in parts)
    if last < edge if theta > 0.0 else first > edge:
        return 0.0
    lift = theta * edge * parts[0][0].step
    exponent = _log_moment(parts, theta) - lift
    return math.exp(min(exponent + 1e-14 * (abs(lift) + abs(exponent)) + 1e-12, 700.0))


def _infinite_mass(parts: Sequence[tuple[Measure, int]]) -> float:
    """At least the mass at +infinity of the composition: sum T w, times the growth of total masses above 1."""
    growth = 0.0
    for measure, count in parts:
        excess = sum_up(measure.masses) + measure.infinite_mass - 1.0
        growth += count * max(excess, 0.0)
    total = math.fsum(count * measure.infinite_mass for measure, count in parts)
    return min(total * math.exp(min(1.01 * growth, 700.0)) * (1.0 + 8.0 * UNIT), 1.0)


#: Distances tried, in steps of the lattice: powers of two up to 2^20.
_LARGEST_POWER = 20
_ROOM = 1e-13


def tail_probability(lower: Measure, upper: Measure, x: float) -> tuple[float, float]:
    """Certified (lower, upper) of P(L > x), for a loss without atoms or with: for every s > 0 (L-19)

    (e^s delta(x) - delta(x + s)) / (e^s - 1)   <=   P(L > x)   <=   (delta(x - s) - e^-s delta(x)) / (1 - e^-s)
    """
    at_low, at_high = lower.delta_below(x), upper.delta_above(x)
    low, high = at_low, 1.0  # P(L > x) >= delta(x)
    for power in range(_LARGEST_POWER + 1):
        s = upper.step * 2.0**power
        if s > 4.0:
            break
        # delta decreases: taken a rounding to the left, it is not below that at the exact places
        before, after = (upper.delta_above(math.nextafter(place, -math.inf)) for place in (x - s, x + s))
        low = max(low, (math.exp(s) * at_low - after) / math.expm1(s) - _ROOM * (1.0 + 1.0 / s) * at_high)
        high = min(high, (before - math.exp(-s) * at_low) / -math.expm1(-s) + _ROOM * (1.0 + 1.0 / s) * before)
    return max(low, 0.0), min(max(high, low, 0.0), 1.0)
