"""delta(epsilon) of one composition, at any real epsilon: certified bounds, each computed once; slopes.

Some compositions are equivalent to one round. Gaussian rounds N(x_j) against N(-y_j) compose to one with the shift
sqrt(sum_j T_j (x_j + y_j)^2). A round without noise shows +infinity or nothing under P, -infinity or nothing under Q:
what is left for a finite outcome is the probability that no such round shows anything, under P and under Q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from groupdp.compositions import Options, are_few, log_delta_ceiling, log_delta_of
from groupdp.engines import spectral
from groupdp.errors import LimitExceeded
from groupdp.floats import FloatArray, log_complement
from groupdp.noiseless import log_revealed
from groupdp.pairs import ZERO, Branch, Composition, Round, Side

if TYPE_CHECKING:
    from groupdp.engines.lattice import Solution


def as_one_round(composition: Composition) -> Round | None:
    """The round whose trade-off function is the composition's; None if there is none."""
    rounds = [(one, times) for one, times in composition if isinstance(one, Round)]
    if len(rounds) < len(composition):  # a profile is not a pair of mixtures
        return None
    noisy = [part for part in rounds if part[0].has_noise]
    silent = [part for part in rounds if not part[0].has_noise]
    if not noisy:
        one: Round | None = Round.of(ZERO, ZERO)
    elif all(_is_gaussian(part) for part, _ in noisy):
        one = Round.of(Side.point(_gaussian_shift(noisy)), ZERO)
    elif len(noisy) == 1 and noisy[0][1] == 1:
        one = noisy[0][0]
    else:
        one = None
    if one is None or not silent:
        return one
    if not all(_shows_nothing_finite(part) for part, _ in silent):
        return None
    right = math.fsum(times * part.branches[0].right.log_mass_at_zero for part, times in silent)
    left = math.fsum(times * part.branches[0].left.log_mass_at_zero for part, times in silent)
    branches = (Branch(_revealed(branch.right, right), _revealed(branch.left, left)) for branch in one.branches)
    return Round(branches, one.log_weights)


def _is_gaussian(one: Round) -> bool:
    return len(one.branches) == 1 and len(one.branches[0].right.shifts) == len(one.branches[0].left.shifts) == 1


def _gaussian_shift(parts: list[tuple[Round, int]]) -> float:
    shifts = ((one.branches[0].right.largest + one.branches[0].left.largest, times) for one, times in parts)
    return math.hypot(*(math.sqrt(times) * shift for shift, times in shifts))


def _shows_nothing_finite(one: Round) -> bool:
    """Whether all shifts are 0 or infinite, and there is no coin."""
    sides = (side for branch in one.branches for side in (branch.right, branch.left))
    return len(one.branches) == 1 and all(bool(np.all((side.shifts == 0.0) | np.isinf(side.shifts))) for side in sides)


def _revealed(side: Side, log_hidden: float) -> Side:
    """The side, with an outcome that P or Q alone has unless an event of probability e^log_hidden happens."""
    if log_hidden == 0.0:
        return side
    if log_hidden == -math.inf:
        return Side.point(math.inf)
    shifts = np.append(side.shifts, math.inf)
    logs = np.append(side.log_probabilities + log_hidden, log_complement(log_hidden))
    with np.errstate(under="ignore"):
        return Side(shifts, (np.exp(logs), logs))


#: Steps of the finite differences that steer the search. They decide how close the bounds are, not whether they hold.
_FINE_STEP = 1e-4
_FINEST_STEP = 1e-11
_COARSE_STEP = 1e-3
#: Nodes times steps of all contours of a curve, one to two seconds' work: after that it is left to lattices, each of
#: which is good for many epsilons, and takes seconds.
_MOST_CONTOURS = 2e9
#: Relative width up to which a contour planned for another epsilon serves, and how many are kept.
_CONTOUR_WIDTH, _MOST_KEPT = 1e-10, 64
#: Lattices of one curve, each of which may take a second; after that, those at hand bound what is asked.
_MOST_LATTICES = 16
#: Width that is asked for there, unless the caller says; and one that will do, where a lattice made for another epsilon
#: has it.
_LATTICE_TOLERANCE = 3e-5
_NEARBY_TOLERANCE = 1e-4
#: Evaluations, each with a lattice of its own, where an engine is asked for by name or some rounds have no noise.
_MOST_COSTLY = 32
#: So many of the nearest lattices are asked.
_NEAREST = 3


@dataclass(slots=True)
class DeltaCurve:
    """The curve of one composition, P against Q."""

    composition: Composition
    options: Options
    #: Whether evaluations turned out to be lattices, of which only a few are made.
    is_costly: bool = False
    _has_contour: bool = False
    _contours: list[spectral.Neighbourhood] = field(default_factory=list)
    _unplanned: int = 0
    _lattices: list[tuple[float, Solution]] = field(default_factory=list)
    _made: int = 0
    _work: float = 0.0
    _step: float = _FINE_STEP
    _seen: dict[float, tuple[float, float]] = field(default_factory=dict)

    def in_closed_form(self) -> Round | None:
        """The single round it amounts to, where an engine is not asked for by name."""
        return as_one_round(self.composition) if self.options.engine == "auto" else None

    @property
    def largest_loss(self) -> float:
        """An upper bound on the privacy loss, inf where it is unbounded: P = {0} and Q may be at 0 too (T-8)."""
        total = []
        for one, times in self.composition:
            if not isinstance(one, Round) or not all(branch.right.is_zero for branch in one.branches):
                return math.inf
            total.append(times * max(-branch.left.log_mass_at_zero for branch in one.branches))
        return math.fsum(total) * (1.0 + 2.0**-48)

    @property
    def log_revealed(self) -> float:
        """log of the probability that P shows what Q never does: rounds without noise may give the group away."""
        return log_revealed(self.composition)

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Certified (lower, upper) of log delta(epsilon)."""
        if epsilon not in self._seen:
            self._seen[epsilon] = self._evaluate(epsilon)
        return self._seen[epsilon]

    def sample(self, epsilons: FloatArray, width: float) -> None:
        """Prepare `log_delta` at these increasing epsilons, by few contours, each good for many of them.

        What a contour does not bound to `width` is left to be evaluated on its own.
        """
        if self.options.engine != "auto" or self.is_costly or not _has_contours(self.composition):
            return
        first, ahead = 0, 4
        while first < len(epsilons):
            planned = float(epsilons[min(first + ahead, len(epsilons) - 1)])
            try:
                near = spectral.neighbourhood(self.composition, planned)
            except LimitExceeded:
                return
            if near is None and ahead == 1:  # delta is 0 from here on
                return
            part, good = epsilons[first : first + 2 * ahead + 1], 0
            if near is not None:
                lower, upper = near.log_deltas(part)
                with np.errstate(invalid="ignore"):
                    good = int(np.logical_and.accumulate(upper - lower <= width).sum())
                for at, low, high in zip(part[:good], lower, upper, strict=False):
                    self._seen[float(at)] = float(low), float(high)
            first += max(good, 1)
            ahead = min(2 * ahead, 64) if good == len(part) else max(good // 2, 1)

    def _evaluate(self, epsilon: float) -> tuple[float, float]:
        """By the contour, in milliseconds; by a lattice or in closed form of few rounds, or where it declines."""
        if self.options.engine == "auto" and not (self.is_costly or are_few(self.composition)):
            near = self._by_neighbourhood(epsilon)
            if near is not None:
                return near
            try:
                bounds = log_delta_of(self.composition, epsilon, replace(self.options, engine="spectral"))
                self._has_contour = True
                used = bounds.provenance.evaluations
                self._work += used.get("nodes", 0) * used.get("contour steps", 0)
                self.is_costly = self._work > _MOST_CONTOURS
                return bounds.lower, bounds.upper
            except LimitExceeded:
                if self._has_contour:  # too far out for it: nothing that a search needs to know exactly
                    return self._between_neighbours(epsilon)
        try:
            return self._by_lattice(epsilon) if self._has_lattices else self._directly(epsilon)
        except LimitExceeded:
            if not self._seen:
                raise
            return self._between_neighbours(epsilon)

    def _by_neighbourhood(self, epsilon: float) -> tuple[float, float] | None:
        """By a contour planned for this epsilon or one close to it; None where none is narrow."""
        if epsilon < 0.0 or self._unplanned > 1 or not _has_contours(self.composition):
            return None
        for contour in sorted(self._contours, key=lambda one: abs(one.epsilon - epsilon))[:2]:
            lower, upper = contour.log_delta(epsilon)
            if _is_narrow(lower, upper):
                return lower, upper
        self._unplanned += 1  # a plan that comes to nothing may take a second: two of them are enough
        try:
            planned = spectral.neighbourhood(self.composition, epsilon)
        except LimitExceeded:
            return None
        if planned is None:  # delta is 0
            self._unplanned -= 1
            return None
        lower, upper = planned.log_delta(epsilon)
        if not _is_narrow(lower, upper):
            return None
        self._unplanned -= 1
        self._has_contour = True
        self._contours = [*self._contours[1 - _MOST_KEPT :], planned]
        return lower, upper

    def _directly(self, epsilon: float) -> tuple[float, float]:
        """By what `groupdp.log_delta` would do, as often as that may be."""
        if self._made >= _MOST_COSTLY:
            return self._between_neighbours(epsilon)
        options = self.options
        if options.tolerance is None:
            options = replace(options, tolerance=_NEARBY_TOLERANCE)
        self._made += 1  # also where it ends in a refusal, which may take as long
        bounds = log_delta_of(self.composition, epsilon, options)
        if bounds.provenance.engine == "lattice":
            self.is_costly = True
        else:
            self._made -= 1
        return bounds.lower, bounds.upper

    @property
    def _has_lattices(self) -> bool:
        """Whether lattices of its own evaluate the curve where contours do not."""
        noisy = bool(self.composition) and all(one.has_noise and not one.is_trivial for one, _ in self.composition)
        return self.options.engine == "auto" and noisy and sum(times for _, times in self.composition) > 1

    def _by_lattice(self, epsilon: float) -> tuple[float, float]:
        """By lattices made for other epsilons, where they are narrow here, or by one made for this one.

        Each bounds the whole curve, and so does the ceiling in closed form (L-7, P-11): the narrowest of all of them.
        """
        lower, upper = self._between_neighbours(epsilon)
        upper = min(upper, log_delta_ceiling(self.composition, epsilon))
        for _, solution in sorted(self._lattices, key=lambda pair: abs(pair[0] - epsilon))[:_NEAREST]:
            lower = max(lower, solution.below.log_delta_below(epsilon))
            upper = min(upper, solution.above.log_delta_above(epsilon))
            if upper - lower <= _NEARBY_TOLERANCE * max(1.0, abs(upper)):
                return lower, upper
        if self._made >= _MOST_LATTICES:
            return lower, upper
        from groupdp.engines import lattice

        tolerance = _LATTICE_TOLERANCE if self.options.tolerance is None else self.options.tolerance
        self._made += 1  # also where it ends in a refusal, which may take as long
        found, made = lattice.neighbourhood(
            self.composition,
            epsilon=epsilon,
            tolerance=tolerance,
            memory_budget=self.options.memory_budget,
        )
        if made is None:  # known without one
            self._made -= 1
        else:
            kept = [made, *(one for _, one in self._lattices)]
            if sum(one.size for one in kept) <= self.options.memory_budget / 8.0:
                self._lattices.append((epsilon, made))
        self.is_costly |= found.provenance.engine == "lattice"
        return max(lower, found.lower), min(upper, found.upper)

    def _between_neighbours(self, epsilon: float) -> tuple[float, float]:
        """delta decreases: bounded by what is known on either side."""
        upper = min((sides[1] for at, sides in self._seen.items() if at <= epsilon), default=0.0)
        lower = max((sides[0] for at, sides in self._seen.items() if at >= epsilon), default=-math.inf)
        return lower, upper

    def log_delta_slope(self, epsilon: float) -> tuple[float, float]:
        """Approximate log delta and its derivative."""
        here = self.log_delta(epsilon)[1]
        if self.is_costly:
            right = self.log_delta(epsilon + _COARSE_STEP)[1]
            return 0.5 * (here + right), _quotient(right - here, _COARSE_STEP)
        # A step that changes delta by less than a factor e: losses may be as small as the sampling rate.
        step = min(self._step * 10.0, _FINE_STEP)
        while True:
            left, right = self.log_delta(epsilon - step)[1], self.log_delta(epsilon + step)[1]
            if abs(right - left) <= 1.0 or step <= _FINEST_STEP or here == -math.inf:
                break
            step *= 0.1
        self._step = step
        return 0.5 * (left + right), _quotient(right - left, 2.0 * step)


def _is_narrow(lower: float, upper: float) -> bool:
    return math.isfinite(upper) and upper - lower <= _CONTOUR_WIDTH * max(1.0, abs(upper))


def _has_contours(composition: Composition) -> bool:
    """Whether contours of its own are what evaluates the curve: rounds of pairs, all with noise."""
    rounds = all(isinstance(one, Round) and one.has_noise for one, _ in composition)
    return spectral.AVAILABLE and rounds and not are_few(composition)


def _quotient(difference: float, step: float) -> float:
    return difference / step if math.isfinite(difference) else -math.inf
