"""delta(epsilon) of one composition, evaluated near chosen points: certified bounds, and slopes to steer by."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Protocol

from groupdp.accounting import Options, log_delta_of
from groupdp.accounting.engine_choice import is_one_round
from groupdp.engines.spectral import neighbourhood
from groupdp.errors import LimitExceeded
from groupdp.pairs import Composition

#: A contour serves epsilons whose log delta differs by less than this from where it was planned.
_CLOSE = 0.3
#: Steps of the finite differences that steer the search where no contour is at hand: one round, more of them.
_FINE_STEP = 1e-5
_COARSE_STEP = 1e-3
#: Where delta is evaluated around an optimum: finely where that is cheap.
_FINE_LADDER = (1e-6, 4e-6, 1.6e-5, 6.4e-5, 3e-4, 2e-3, 1e-2, 0.05, 0.25)
_COARSE_LADDER = (2e-3, 0.02, 0.2)
_MOST_CACHED = 64
#: Evaluations of one curve, where each may take a second; after that, monotonicity bounds what is asked.
_MOST_COSTLY = 32
#: Width asked for there, unless the caller says.
_COSTLY_TOLERANCE = 1e-4


class Local(Protocol):
    """delta near one epsilon."""

    @property
    def epsilon(self) -> float:
        """Where it was planned."""

    @property
    def accuracy(self) -> float:
        """How closely an optimum is worth locating."""

    @property
    def deviation(self) -> float:
        """The scale on which it is good for something."""

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Certified (lower, upper) of log delta."""

    def log_delta_slope(self, epsilon: float) -> tuple[float, float]:
        """Approximate log delta and its derivative."""


@dataclass(frozen=True, slots=True)
class _Anywhere:
    """Every evaluation on its own: other engines, closed forms, rounds without noise."""

    composition: Composition
    options: Options
    epsilon: float
    seen: dict[float, tuple[float, float]]
    deviation: float = math.inf

    @property
    def accuracy(self) -> float:
        return 1e-6 if is_one_round(self.composition) else 1e-3

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        if epsilon in self.seen:
            return self.seen[epsilon]
        if len(self.seen) >= _MOST_COSTLY and not is_one_round(self.composition):
            # delta decreases: bounded by its neighbours.
            upper = min((sides[1] for at, sides in self.seen.items() if at <= epsilon), default=0.0)
            lower = max((sides[0] for at, sides in self.seen.items() if at >= epsilon), default=-math.inf)
            return min(lower, upper), upper
        options = self.options
        if options.tolerance is None:
            options = replace(options, tolerance=_COSTLY_TOLERANCE)
        bounds = log_delta_of(self.composition, epsilon, options)
        self.seen[epsilon] = (bounds.lower, bounds.upper)
        return bounds.lower, bounds.upper

    def log_delta_slope(self, epsilon: float) -> tuple[float, float]:
        step = _FINE_STEP if is_one_round(self.composition) else _COARSE_STEP
        left, right = self.log_delta(epsilon - step)[1], self.log_delta(epsilon + step)[1]
        return 0.5 * (left + right), (right - left) / (2.0 * step) if math.isfinite(right) else -math.inf


@dataclass(slots=True)
class DeltaCurve:
    """The curve of one composition."""

    composition: Composition
    options: Options
    _cached: list[tuple[Local, float, float]] = field(default_factory=list)
    _seen: dict[float, tuple[float, float]] = field(default_factory=dict)

    def near(self, epsilon: float, *, exactly: bool = False) -> Local | None:
        """Something that evaluates delta near epsilon; None where delta is 0. `exactly`: planned right there."""
        close = 0.02 if exactly else _CLOSE
        for local, _, slope in reversed(self._cached):
            distance = abs(epsilon - local.epsilon)
            if isinstance(local, _Anywhere):
                return local
            if distance * abs(slope) <= close and distance <= close * local.deviation:
                return local
        guess = min((abs(one.epsilon - epsilon), value) for one, value, _ in self._cached)[1] if self._cached else -60.0
        found = self._build(epsilon, guess)
        if found is not None:
            value, slope = found.log_delta_slope(epsilon)
            lower, upper = found.log_delta(epsilon)
            if not (math.isfinite(lower) and upper - lower < 0.1 and lower - 0.1 < value < upper + 0.1):
                value, slope = min(upper, -1.0), math.inf  # delta drowned: nothing to be learnt nearby
            self._cached = [*self._cached[-_MOST_CACHED:], (found, value, slope)]
        return found

    def ladder(self, epsilon: float) -> tuple[float, ...]:
        """Relative distances from an optimum at which delta should be evaluated."""
        costly = isinstance(self.near(epsilon), _Anywhere) and not is_one_round(self.composition)
        return _COARSE_LADDER if costly else _FINE_LADDER

    @property
    def is_costly(self) -> bool:
        """Whether evaluations turned out to be few rounds' lattices: a second each, not a millisecond."""
        return any(isinstance(local, _Anywhere) for local, _, _ in self._cached) and not is_one_round(self.composition)

    def _build(self, epsilon: float, guess: float) -> Local | None:
        noisy = all(one.has_noise for one, _ in self.composition)
        by_contour = self.options.engine == "spectral" or (
            self.options.engine == "auto" and not is_one_round(self.composition)
        )
        if noisy and by_contour:
            try:
                return neighbourhood(self.composition, epsilon, log_delta=guess - 8.0)
            except LimitExceeded:
                if self.options.engine == "spectral":
                    raise
        return _Anywhere(self.composition, self.options, epsilon, self._seen)
