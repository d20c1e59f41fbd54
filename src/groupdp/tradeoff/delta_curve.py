"""delta(epsilon) of one composition, at any real epsilon: certified bounds, each computed once; slopes."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from groupdp.compositions import log_delta_ceiling, log_delta_of, log_revealed
from groupdp.engines import Options, Work, spectral
from groupdp.errors import LimitExceeded
from groupdp.floats import FloatArray
from groupdp.pairs import AllocationRound, Composition, Round

if TYPE_CHECKING:
    from groupdp.engines.lattice import Solution

#: Steps of the finite differences that steer the search. They decide how close the bounds are, not whether they hold.
_COARSE_STEP, _FINE_STEP, _FINEST_STEP = 1e-3, 1e-4, 1e-11
#: Nodes times steps of all contours of a curve, one to two seconds' work: after that it is left to lattices, each of
#: which is good for many epsilons, and takes seconds.
_MOST_CONTOURS = 2e9
#: A contour planned for another epsilon serves up to this width relative to log delta, or twice the one where it was
#: planned; where that is wider than the second it does not serve at all.
_CONTOUR_WIDTH, _WIDEST_CONTOUR = 1e-10, 1e-6
#: Plans that may come to nothing, each of which may take a tenth of a second.
_MOST_DECLINED = 3
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


class Contours:
    """Contours of a composition of pairs: certified bounds on log delta around the epsilons they were planned for."""

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        rounds = all(isinstance(round_, Round | AllocationRound) and round_.has_noise for round_, _ in composition)
        self.available = spectral.AVAILABLE and rounds and bool(composition)
        self.planned: list[tuple[float, float, spectral.Neighbourhood]] = []  # (epsilon, relative width there, contour)
        self.work = self.declined = 0

    @property
    def exhausted(self) -> bool:
        """Whether no further contour is planned."""
        return not self.available or self.work > _MOST_CONTOURS or self.declined > _MOST_DECLINED

    def nearest(self, epsilon: float) -> tuple[float, float, spectral.Neighbourhood]:
        """The contour that was planned closest."""
        place = bisect_left(self.planned, epsilon, key=lambda planned: planned[0])
        return min(self.planned[max(place - 1, 0) : place + 1], key=lambda planned: abs(planned[0] - epsilon))

    def evaluate(self, epsilon: float, *, wide: float = 0.0) -> tuple[float, float, float, float] | None:
        """(lower, upper) certified, then log delta and its slope, about; None where no contour is narrow.

        A contour planned elsewhere also serves where it is at most `wide`, relative to log delta.
        """
        if not self.planned:
            return self.plan(epsilon)
        _, own, contour = self.nearest(epsilon)
        found = _first(contour.evaluate(np.array([epsilon])))
        width = _relative(*found[:2])
        if width <= max(_CONTOUR_WIDTH, 2.0 * own, wide):
            return found
        better = self.plan(epsilon)
        return found if better is None and width <= _WIDEST_CONTOUR else better

    def at_hand(self, epsilon: float) -> tuple[float, float]:
        """Certified (lower, upper) by the contours planned on either side, however wide."""
        place = bisect_left(self.planned, epsilon, key=lambda planned: planned[0])
        sides = [planned[2].log_delta(epsilon) for planned in self.planned[max(place - 1, 0) : place + 1]]
        return max((side[0] for side in sides), default=-math.inf), min((side[1] for side in sides), default=0.0)

    def plan(self, epsilon: float) -> tuple[float, float, float, float] | None:
        """The same by a contour planned for this epsilon."""
        if self.exhausted:
            return None
        try:
            contour = spectral.neighbourhood(self.composition, epsilon)
        except LimitExceeded:
            self.declined += 1
            return None
        if contour is None:  # delta is 0
            return -math.inf, -math.inf, -math.inf, 0.0
        self.work += contour.work
        found = _first(contour.evaluate(np.array([epsilon])))
        own = _relative(*found[:2])
        if not own <= _WIDEST_CONTOUR:
            self.declined += 1
            return None
        insort(self.planned, (epsilon, own, contour), key=lambda planned: planned[0])
        return found

    def around(self, epsilon: float, points: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Certified (lower, upper) at points close to an epsilon, by one contour, as narrow as they come out."""
        found = self.evaluate(epsilon)
        return None if found is None or not self.planned else self.nearest(epsilon)[2].log_deltas(points)

    @property
    def deviation(self) -> float:
        """The deviation of the loss, about; 1 before a contour knows it."""
        return self.planned[0][2].deviation if self.planned else 1.0


def _first(columns: tuple[FloatArray, ...]) -> tuple[float, float, float, float]:
    lower, upper, value, slope = (float(column[0]) for column in columns)
    return lower, upper, value, slope


def _relative(lower: float, upper: float) -> float:
    """The width beside max(1, |log delta|); inf where a side is unknown."""
    return (upper - lower) / max(1.0, abs(upper)) if math.isfinite(lower) and math.isfinite(upper) else math.inf


class Lattices:
    """Lattices of a composition: each bounds the whole curve (L-7), and is narrow near the epsilon it was made for."""

    def __init__(self, composition: Composition, *, most: int, narrow: float, tolerance: float, memory: int) -> None:
        self.composition, self.most, self.narrow = composition, most, narrow
        self.tolerance, self.memory = tolerance, memory
        self.kept: list[tuple[float, Solution]] = []
        self.made = 0
        self.work: Work | None = None  # what all of them may cost together; None: what each of them may

    def narrowed(self, epsilon: float, lower: float, upper: float) -> tuple[float, float, bool]:
        """Both bounds on log delta, narrowed by the nearest lattices or by one more, and whether that was made.

        Another one is made where none is `narrow` here and there are fewer than `most`.
        """
        for _, solution in sorted(self.kept, key=lambda pair: abs(pair[0] - epsilon))[:_NEAREST]:
            lower = max(lower, solution.below.log_delta_below(epsilon))
            upper = min(upper, solution.above.log_delta_above(epsilon))
            if upper - lower <= self.narrow * max(1.0, abs(upper)):
                return lower, upper, False
        if self.made >= self.most or (self.work is not None and self.work.done >= self.work.limit):
            return lower, upper, False
        from groupdp.engines import lattice

        self.made += 1  # also where it ends in a refusal, which may take as long
        found, made = lattice.neighbourhood(
            self.composition,
            epsilon=epsilon,
            tolerance=self.tolerance,
            memory_budget=self.memory,
            work=self.work,
        )
        if made is None:  # known without one
            self.made -= 1
        elif made.size + sum(solution.size for _, solution in self.kept) <= self.memory / 8.0:
            self.kept.append((epsilon, made))
        return max(lower, found.lower), min(upper, found.upper), found.provenance.engine == "lattice"


@dataclass(slots=True)
class DeltaCurve:
    """The curve of one composition, P against Q."""

    composition: Composition
    options: Options
    #: Whether evaluations turned out to be lattices, of which only a few are made.
    is_costly: bool = False
    contours: Contours = field(init=False)
    _has_contour: bool = False
    lattices: Lattices = field(init=False)
    _made: int = 0
    _work: float = 0.0
    _step: float = _FINE_STEP
    _seen: dict[float, tuple[float, float]] = field(default_factory=dict)
    _order: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.contours = Contours(self.composition)
        self.contours.available &= self.options.engine == "auto"
        self.lattices = Lattices(
            self.composition,
            most=_MOST_LATTICES,
            narrow=_NEARBY_TOLERANCE,
            tolerance=_LATTICE_TOLERANCE if self.options.tolerance is None else self.options.tolerance,
            memory=self.options.memory_budget,
        )

    @property
    def scale(self) -> float:
        """The deviation of the loss, about, where a contour knows it."""
        return self.contours.deviation

    @property
    def log_revealed(self) -> float:
        """log of the probability that P shows what Q never does: rounds without noise may give the group away."""
        return log_revealed(self.composition)

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Certified (lower, upper) of log delta(epsilon)."""
        if epsilon not in self._seen:
            self._seen[epsilon] = self._evaluate(epsilon)
            insort(self._order, epsilon)
        return self._seen[epsilon]

    def sample(self, epsilons: FloatArray, width: float) -> None:
        """Prepare `log_delta` at these increasing epsilons, by few contours, each good for many of them.

        What a contour does not bound to `width` is left to be evaluated on its own.
        """
        if self.is_costly or self.contours.exhausted:
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
                    if float(at) not in self._seen:
                        insort(self._order, float(at))
                    self._seen[float(at)] = float(low), float(high)
            first += max(good, 1)
            ahead = min(2 * ahead, 64) if good == len(part) else max(good // 2, 1)

    def _evaluate(self, epsilon: float) -> tuple[float, float]:
        """Evaluate by a contour, in milliseconds; without one, by a lattice or in closed form."""
        if self.options.engine == "auto" and not self.is_costly:
            found = self._by_contour(epsilon)
            if found is not None:
                return found
            if self._has_contour:  # too far out for it: nothing that a search needs to know exactly
                return self._between_neighbours(epsilon)
        try:
            return self._by_lattice(epsilon) if self._has_lattices else self._directly(epsilon)
        except LimitExceeded:
            if not self._seen:
                raise
            return self._between_neighbours(epsilon)

    def _by_contour(self, epsilon: float) -> tuple[float, float] | None:
        """Evaluate by a contour planned close to this epsilon, or for it; None if there is none."""
        if self.contours.available and epsilon >= 0.0:
            near = self.contours.evaluate(epsilon)
            self._has_contour |= near is not None
            self.is_costly |= self.contours.work > _MOST_CONTOURS
            return None if near is None else near[:2]
        try:
            bounds = log_delta_of(self.composition, epsilon, replace(self.options, engine="spectral"))
        except LimitExceeded:
            return None
        self._has_contour = True
        used = bounds.provenance.evaluations
        self._work += used.get("nodes", 0) * used.get("contour steps", 0)
        self.is_costly |= self._work > _MOST_CONTOURS
        return bounds.lower, bounds.upper

    def _directly(self, epsilon: float) -> tuple[float, float]:
        """As `groupdp.log_delta` computes it, up to a limited number of times."""
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
        noisy = all(round_.has_noise and not round_.is_trivial for round_, _ in self.composition)
        return self.options.engine == "auto" and noisy and sum(times for _, times in self.composition) > 1

    def _by_lattice(self, epsilon: float) -> tuple[float, float]:
        """By lattices made for other epsilons, where they are narrow here, or by one made for this one.

        Each bounds the whole curve, and so does the ceiling in closed form (L-7, P-11): the narrowest of all of them.
        """
        lower, upper = self._between_neighbours(epsilon)
        upper = min(upper, log_delta_ceiling(self.composition, epsilon))
        lower, upper, took_long = self.lattices.narrowed(epsilon, lower, upper)
        self.is_costly |= took_long
        return lower, upper

    def _between_neighbours(self, epsilon: float) -> tuple[float, float]:
        """delta decreases: bounded by what is known next to it on either side."""
        place = bisect_left(self._order, epsilon)
        upper = self._seen[self._order[place - 1]][1] if place > 0 else 0.0
        lower = self._seen[self._order[place]][0] if place < len(self._order) else -math.inf
        return lower, upper

    def log_deltas(self, points: Sequence[float], centre: float) -> list[tuple[float, float]]:
        """Certified (lower, upper) at points around one: by one contour, where there is one."""
        if centre >= 0.0 and not self.is_costly:
            found = self.contours.around(centre, np.array(points))
            if found is not None:
                return list(zip(*(side.tolist() for side in found), strict=True))
        return [self.log_delta(point) for point in points]

    def log_delta_slope(self, epsilon: float) -> tuple[float, float]:
        """Approximate log delta and its derivative."""
        if epsilon >= 0.0 and not self.is_costly:
            found = self.contours.evaluate(epsilon)
            if found is not None:
                return found[2:]
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


def _quotient(difference: float, step: float) -> float:
    return difference / step if math.isfinite(difference) else -math.inf
