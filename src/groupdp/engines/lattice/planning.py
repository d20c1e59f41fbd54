"""Tilt, window and support of a composition, and one solve with them: both sides of the composed measure.

The choices decide how narrow the bracket gets, never whether it is valid. They come from a rough quadrature of the
cumulant generating function K of the composed loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from groupdp.engines.lattice.allocation import allocation_part
from groupdp.engines.lattice.compose import convolution_power
from groupdp.engines.lattice.envelope import gaussian_coin
from groupdp.engines.lattice.measures import Tail, TiltedMass
from groupdp.engines.lattice.one_round import MANY_BRANCHES, envelope_of
from groupdp.engines.lattice.other_parts import AtomsPart, EnvelopePart, atoms_part, laplace_part
from groupdp.engines.lattice.parts import Part, RoundPart, TransformGrid
from groupdp.engines.lattice.support import Survival, Window, log_importance, window_of
from groupdp.floats import UNIT, bisected
from groupdp.losses import AtomsRound, LaplaceRound
from groupdp.pairs import AllocationRound, AnyRound, Composition, Round

#: The mass left out of the support is this far (in logarithm) below the tolerance; planning assumes at least 1e-4.
_ROOM = 7.0
_COARSEST = 1e-4
#: Lattice points on either side of 0, at most: indices and their neighbours must be exact as doubles.
_MOST_STEPS = 2.0**48
_SMALLEST_RATE, _LARGEST_RATE = 1e-15, 1e15


@dataclass(frozen=True, slots=True)
class Saddle:
    """A tilt rate with the epsilon and log delta it is best for, roughly."""

    rate: float
    epsilon: float
    log_delta: float


@dataclass(frozen=True, slots=True)
class LatticePlan:
    """The composition prepared for answers near a given size of delta."""

    parts: tuple[Part, ...]

    @property
    def log_dead_mass(self) -> float:
        """log of about the mass that the supports leave out."""
        terms = [math.log(part.rounds) + part.log_dead_mass for part in self.parts]
        return float(np.logaddexp.reduce(terms))

    @property
    def rounds(self) -> int:
        return sum(part.rounds for part in self.parts)

    @property
    def finest_step(self) -> float:
        """The smallest step at which indices of lattice points and of their neighbours are exact as doubles."""
        return max(part.farthest for part in self.parts) / _MOST_STEPS

    @property
    def spacing(self) -> float:
        """The spacing of the part that runs most often, which the step should divide; 0 if there is none."""
        spaced = [part for part in self.parts if isinstance(part, AtomsPart) and part.spacing]
        return max(spaced, key=lambda part: part.rounds).spacing if spaced else 0.0

    def share(self, part: Part) -> float:
        """How much wider than on average the bracket of one round of a part may be."""
        return self.rounds / (part.rounds * len(self.parts))

    def cumulant(self, rate: float) -> tuple[float, float, float]:
        """(K, K', K'') of the whole composition, roughly."""
        each = [part.law.cumulant(rate) for part in self.parts]
        k, mean, variance = (
            math.fsum(part.rounds * values[i] for part, values in zip(self.parts, each, strict=True)) for i in range(3)
        )
        return k, mean, variance

    def saddle(self, rate: float) -> Saddle:
        """The epsilon at which `rate` minimises K(c) - c eps - log c - log(1 + c), and delta there (Laplace)."""
        k, mean, variance = self.cumulant(rate)
        epsilon = mean - 1.0 / rate - 1.0 / (1.0 + rate)
        spread = variance + rate**-2 + (1.0 + rate) ** -2
        exponent = k - rate * epsilon - math.log(rate) - math.log1p(rate)
        return Saddle(rate, epsilon, min(exponent - 0.5 * math.log(2.0 * math.pi * spread), 0.0))

    def saddle_for_epsilon(self, epsilon: float) -> Saddle:
        return self.saddle(_bisect(lambda rate: self.saddle(rate).epsilon < epsilon))

    def saddle_for_delta(self, log_delta: float) -> Saddle:
        return self.saddle(_bisect(lambda rate: self.saddle(rate).log_delta > log_delta))

    def window(self, rate: float, log_outside: float, *, resolution: float) -> Window:
        """Losses outside of which the tilted law has about e^log_outside on either side."""
        first, last = (
            math.fsum(part.rounds * float(extreme(part.law.loss)) for part in self.parts)
            for extreme in (np.min, np.max)
        )
        return window_of(self.cumulant, rate, log_outside, resolution=resolution, extremes=(first, last))


def prepare(composition: Composition, *, log_delta: float, tolerance: float) -> LatticePlan:
    """A plan for values of delta around e^log_delta (or larger), and a relative width of about `tolerance`."""
    rounds = sum(count for _, count in composition)
    log_share = math.log(min(tolerance, _COARSEST)) - _ROOM - math.log(rounds)
    log_cut = min(log_delta, 0.0) + log_share
    return LatticePlan(tuple(_part_of(round_, count, log_cut=log_cut) for round_, count in _simple(composition)))


def _simple(composition: Composition) -> Composition:
    """Products of allocations without a coin as separate rounds: their composition is the same."""
    simple: list[tuple[AnyRound, int]] = []
    for round_, count in composition:
        if isinstance(round_, AllocationRound) and len(round_.products) == 1:
            for factor, times in round_.products[0]:
                simple.append((AllocationRound((((factor, 1),),), reverse=round_.reverse), count * times))
        else:
            simple.append((round_, count))
    return tuple(simple)


def _part_of(round_: AnyRound, rounds: int, *, log_cut: float) -> Part:
    if isinstance(round_, AllocationRound):
        return allocation_part(round_, rounds)
    if isinstance(round_, AtomsRound):
        return atoms_part(round_, rounds)
    if isinstance(round_, LaplaceRound):
        return laplace_part(round_, rounds)
    if not isinstance(round_, Round):
        return EnvelopePart(envelope_of(round_).side, rounds, log_cut=log_cut)
    gaussian = gaussian_coin(round_) if len(round_.branches) >= MANY_BRANCHES else None
    if gaussian is not None:
        return EnvelopePart(gaussian, rounds, log_cut=log_cut, balanced=False)
    return RoundPart(round_, rounds, log_cut=log_cut)


def _bisect(too_small: Callable[[float], bool]) -> float:
    """The rate, on a logarithmic scale, where `too_small` turns false."""
    ends = math.log(_SMALLEST_RATE), math.log(_LARGEST_RATE)
    low, high = bisected(lambda log_rate: too_small(math.exp(log_rate)), *ends, 45)
    return math.exp(0.5 * (low + high))


#: log2 of the shortest transform.
SHORTEST = 10
#: Chernoff exponents per lattice step stay below this: a law narrower than a step is not on a lattice.
_STEEPEST = 20.0


def grid_for(plan: LatticePlan, rate: float, *, step: float, log_outside: float, longest: int) -> TransformGrid:
    """The window that leaves about e^log_outside of the tilted law outside, on a lattice of about `step`.

    The step is then the smallest for which the window fits the transform, whose length is at most
    `longest`.
    """
    window = plan.window(rate, log_outside, resolution=step)
    # Every round may be off by two steps: enough for a window that covers all losses to cover all atoms.
    margin = min(2.0 * plan.rounds, 0.01 * (window.right - window.left) / step) + 8.0
    span = max(window.right - window.left, 16.0 * step)
    length = min(transform_length(span / step + 2.0 * margin), longest)
    step = max(span / (length - 2.0 * margin), plan.finest_step)
    if plan.spacing >= step:
        step = plan.spacing * (1.0 + 1e-14) / math.floor(plan.spacing / step)
    step = rounded_step(step)
    steepest = _STEEPEST / step
    return TransformGrid(
        rate,
        step,
        length,
        window.left - margin * step,
        max(window.theta_left, -steepest),
        min(window.theta_right, steepest),
    )


def transform_length(points: float) -> int:
    """The smallest length 2^a, 3 x 2^a or 5 x 2^a for at least 10/11 of `points`."""
    exponent = max(SHORTEST, math.ceil(math.log2(points / 1.1 + 8.0)))
    shorter = (5 << (exponent - 3), 3 << (exponent - 2), 1 << exponent)
    return next(length for length in shorter if 1.1 * (length - 8) >= points or length == 1 << exponent)


def rounded_step(step: float) -> float:
    """A step of at most 24 significant bits, not below `step`: multiples of it are then exact for a long way."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.ceil(mantissa * 2.0**24), exponent - 24)


def step_below(step: float) -> float:
    """The next smaller step of 24 significant bits: every number that `rounded_step` takes to `step` is above it."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.ceil(mantissa * 2.0**24) - 1.0, exponent - 24)


@dataclass(frozen=True, slots=True)
class Solution:
    """The dominating and the dominated composed measure."""

    above: Tail
    below: Tail
    cells: int

    @property
    def size(self) -> int:
        """Bytes of the two measures."""
        return self.above.values.nbytes + self.below.values.nbytes


def solve(
    plan: LatticePlan,
    grid: TransformGrid,
    *,
    epsilon: float = 0.0,
    survival: Survival | None = None,
    advance: Callable[[int], None],
) -> Solution:
    """Discretise every part on both sides and compose, which keeps both orders (L-7).

    What matters for `epsilon` is resolved best. `advance` gets the number of cells done, and may raise.
    """
    cells = 0

    def count(more: int) -> None:
        nonlocal cells
        cells += more
        advance(more)

    tails = []
    for up in (False, True):
        masses = []
        own = grid if up or not plan.spacing else replace(grid, step=step_below(grid.step))
        for part in plan.parts:
            log_mass = log_importance(part.law, rate=grid.rate, epsilon=epsilon, survival=survival)
            masses.append(part.measure(own, log_mass, share=plan.share(part), up=up, advance=count))
        tails.append(compose_tail(masses, [part.rounds for part in plan.parts], left=grid.left))
        advance(0)
    return Solution(below=tails[0], above=tails[1], cells=cells // 2)


def compose_tail(masses: list[TiltedMass], rounds: list[int], *, left: float) -> Tail:
    """The composed measure on the window that starts at about the loss `left`."""
    step, length, parts = masses[0].step, len(masses[0].array), list(zip(masses, rounds, strict=True))
    offset = sum((count * Fraction(mass.tilt.offset) for mass, count in parts), Fraction(0))
    first = math.floor((Fraction(left) - offset) / Fraction(step))
    outside = [math.exp(min(_log_outside(masses, rounds, k, first=first, length=length), 700.0)) for k in (0, 1)]
    log_infinite = _log_infinite_mass(masses, rounds)
    values, error, norm_error = convolution_power([(mass.array, count) for mass, count in parts])
    turn = first % length
    scales = [count * mass.tilt.log_scale for mass, count in parts]
    return Tail(
        step=step,
        offset=offset,
        rate=masses[0].tilt.rate,
        log_scale=math.fsum(scales),
        log_scale_error=4.0 * UNIT * math.fsum(map(abs, scales)),
        first=first,
        values=np.concatenate((values[turn:], values[:turn])),
        error=error,
        norm_error=norm_error,
        left_outside=outside[0],
        right_outside=outside[1],
        log_infinite_mass=log_infinite,
    )


def _log_outside(masses: list[TiltedMass], rounds: list[int], k: int, *, first: int, length: int) -> float:
    """log of Chernoff's bound on the tilted mass left (k = 0) or right (k = 1) of the window."""
    extreme = sum(count * (mass.lowest, mass.highest)[k] for mass, count in zip(masses, rounds, strict=True))
    if (extreme >= first) if k == 0 else (extreme < first + length):
        return -math.inf
    theta = masses[0].tilt.moments[k][0]
    edge = (first - 1 if k == 0 else first + length) * masses[0].step
    terms = [-theta * edge]
    for mass, count in zip(masses, rounds, strict=True):
        if not (0.0 < mass.moments[k] < math.inf):
            return math.inf if mass.moments[k] > 0.0 else -math.inf
        terms.append(count * (math.log(mass.moments[k]) + mass.tilt.moments[k][1]))
    room = 1e-13 * math.fsum(map(abs, terms)) + 1e-15 * math.fsum(rounds) + 1e-9
    return math.fsum(terms) + room


def _log_infinite_mass(masses: list[TiltedMass], rounds: list[int]) -> float:
    """log of a bound on the mass at +infinity of the composition: sum T w (1 + inflation + w)^T."""
    terms, growth = [-math.inf], 0.0
    for mass, count in zip(masses, rounds, strict=True):
        if mass.log_infinite_mass > -math.inf:
            terms.append(math.log(count) + mass.log_infinite_mass)
        growth += count * (mass.inflation + math.exp(min(mass.log_infinite_mass, 0.0)))
    return float(np.logaddexp.reduce(terms)) + growth * 1.01 + 1e-9
