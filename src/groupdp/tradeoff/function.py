"""The trade-off function of a run, as an object to ask: error rates of the best attacker on a group.

Formal guarantee. The attacker sees every iterate, knows everything but whether the group took part, and guesses.

    adjacency "remove": the null hypothesis is "the group is absent"; a false positive claims a presence that is not.
    adjacency "add": the null hypothesis is "the group is present"; a false positive claims an absence that is not.
    adjacency "add-or-remove": both at once, by the symmetric convex envelope of the two (Dong, Roth and Su 2022).

No attack with a false positive rate of at most alpha has a false negative rate below `lower`; for the worst loss and
datasets, some attack comes down to `upper` (for add-or-remove: some attack in one of the directions, or a mixture of
attacks in both).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from groupdp._validation import require_number
from groupdp.accounting import log_revealed
from groupdp.bounds import Bounds
from groupdp.compositions import question_of
from groupdp.engines.interface import Progress
from groupdp.guarantees import exp_down, exp_up, options_of
from groupdp.pairs import mirrored
from groupdp.tradeoff.delta_curve import DeltaCurve
from groupdp.tradeoff.enclosure import (
    log_false_negative_rate,
    log_false_positive_level,
    log_true_positive_rate,
)

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOffCurve:
    """Certified error rates at many false positive rates."""

    false_positive_rate: FloatArray
    false_negative_rate_lower: FloatArray
    false_negative_rate_upper: FloatArray
    true_positive_rate_lower: FloatArray
    true_positive_rate_upper: FloatArray
    adjacency: str


class TradeOff:
    """The group-level trade-off function of a run; keeps what it computed, so ask one object many questions."""

    def __init__(
        self,
        run: Any,
        *,
        group_size: Any = None,
        adjacency: str = "add-or-remove",
        removed: Any = None,
        added: Any = None,
        rounds: int | None = None,
        engine: str = "auto",
    ) -> None:
        question = question_of(
            run, group_size=group_size, adjacency=adjacency, removed=removed, added=added, rounds=rounds
        )
        self.composition = question.compositions[0][1]
        self.adjacency = adjacency
        self.tight = question.tight
        options = options_of(engine=engine)
        ordered = [composition for _, composition in question.compositions]
        reversed_pairs = [mirrored(composition) for composition in ordered]
        every = {one: DeltaCurve(one, options) for one in (*ordered, *reversed_pairs)}
        self._curves = tuple(every[one] for one in ordered)
        self._mirrored = tuple(every[one] for one in reversed_pairs)
        self._log_middle: float | None = None
        # (log rate, the epsilon found for it), for each of the two dualities
        self._starts: list[tuple[float, float]] = [(0.0, 0.0)]
        self._mirrored_starts: list[tuple[float, float]] = [(0.0, 0.0)]

    def log_true_positive_rate(self, log_false_positive_rate: float) -> Bounds:
        """Bounds on log TPR for a false positive rate given by its logarithm, however small."""
        if not self.composition:
            return Bounds(log_false_positive_rate, log_false_positive_rate)
        if log_false_positive_rate == -math.inf:
            revealed = self._revealed()
            room = 1e-14 * (1.0 + abs(revealed)) if revealed > -math.inf else 0.0
            return Bounds(revealed - room, min(revealed + room, 0.0))
        bounds, epsilon = log_true_positive_rate(
            self._curves, log_false_positive_rate, self._start(log_false_positive_rate)
        )
        self._starts.append((log_false_positive_rate, epsilon))
        return bounds

    def tangent(self, log_false_positive_rate: float) -> tuple[float, float, float]:
        """(log delta, epsilon, log of a lower bound on TPR): TPR(a) <= delta + e^epsilon a for all a, tight here.

        epsilon >= 0 and delta are certified; the closer to the tangent, the better.
        """
        bounds, epsilon = log_true_positive_rate(
            self._curves, log_false_positive_rate, self._start(log_false_positive_rate)
        )
        self._starts.append((log_false_positive_rate, epsilon))
        epsilon = max(epsilon, 0.0)
        return self.log_delta(epsilon).upper, epsilon, bounds.lower

    @property
    def is_costly(self) -> bool:
        """Whether every evaluation of delta takes long: then ask for few points."""
        return any(curve.is_costly for curve in self._curves + self._mirrored)

    def log_delta(self, epsilon: float, *, rough: bool = False, mirrored: bool = False) -> Bounds:
        """Bounds on log delta(epsilon), for any real epsilon: the larger of the adjacency's directions.

        `rough`: wider bounds will do, such as those of a contour planned nearby. `mirrored`: of the reversed pair.
        """
        if not self.composition:
            value = -math.inf if epsilon >= 0.0 else math.log(-math.expm1(epsilon))
            return Bounds(value, value)
        sides = []
        for curve in self._mirrored if mirrored else self._curves:
            local = curve.near(epsilon, exactly=not rough)
            sides.append((-math.inf, -math.inf) if local is None else local.log_delta(epsilon))
        return Bounds(max(low for low, _ in sides), max(high for _, high in sides))

    def true_positive_rate(self, false_positive_rate: float) -> Bounds:
        """Bounds on the largest true positive rate of attacks with at most this false positive rate."""
        return self._rates(false_positive_rate)[1]

    def false_negative_rate(self, false_positive_rate: float) -> Bounds:
        """Bounds on the smallest false negative rate of attacks with at most this false positive rate."""
        return self._rates(false_positive_rate)[0]

    def curve(self, false_positive_rates: Any = None, *, progress: Progress | None = None) -> TradeOffCurve:
        """Both rates at many points; by default from 1e-12 to 1 - 1e-12."""
        rates = _rates_asked(false_positive_rates)
        results = []
        for done, rate in enumerate(rates):
            results.append(self._rates(float(rate)))
            if progress is not None:
                progress((done + 1) / len(rates))
        sides = np.array([[fnr.lower, fnr.upper, tpr.lower, tpr.upper] for fnr, tpr in results]).T
        return TradeOffCurve(
            false_positive_rate=rates,
            false_negative_rate_lower=sides[0],
            false_negative_rate_upper=sides[1],
            true_positive_rate_lower=sides[2],
            true_positive_rate_upper=sides[3],
            adjacency=self.adjacency,
        )

    def _rates(self, alpha: float) -> tuple[Bounds, Bounds]:
        """(false negative rate, true positive rate)."""
        alpha = require_number("false_positive_rate", alpha, at_least=0.0, at_most=1.0)
        if alpha == 1.0:
            return Bounds(0.0, 0.0), Bounds(1.0, 1.0)
        if alpha == 0.0 or not self.composition or math.log(alpha) <= self._log_middle_rate():
            logarithm = self.log_true_positive_rate(math.log(alpha) if alpha > 0.0 else -math.inf)
            tpr = Bounds(exp_down(logarithm.lower), exp_up(logarithm.upper))
            return _complement(tpr), tpr
        gamma = 1.0 - alpha
        exact = 1.0 - gamma == alpha and alpha >= 0.5  # Sterbenz: then the subtraction is exact
        low, high = (gamma, gamma) if exact else (math.nextafter(gamma, 0.0), min(math.nextafter(gamma, 2.0), 1.0))
        start = min(self._mirrored_starts, key=lambda pair: abs(pair[0] - math.log(gamma)))[1]
        log_fnr, epsilon = log_false_negative_rate(self._mirrored, Bounds(low, high), start)
        self._mirrored_starts.append((math.log(gamma), epsilon))
        fnr = Bounds(exp_down(log_fnr.lower), exp_up(log_fnr.upper))
        return fnr, _complement(fnr)

    def _log_middle_rate(self) -> float:
        """log of the false positive rate at epsilon = 0, about: below it the first duality is used."""
        if self._log_middle is None:
            levels = []
            for curve in self._curves:
                local = curve.near(0.0)
                levels.append(-math.inf if local is None else log_false_positive_level(local, 0.0))
            # An infinite level says that delta(0) is nearly 1: Q(L > 0) <= 1 - delta(0) is too small to be resolved.
            self._log_middle = max(level if level < 0.0 else -20.0 for level in levels)
        return self._log_middle

    def _start(self, log_alpha: float) -> float:
        """The epsilon of the nearest rate so far; at first 0."""
        return min(self._starts, key=lambda pair: abs(pair[0] - log_alpha))[1]

    def _revealed(self) -> float:
        """log of the true positive rate without any false positive: rounds without noise may give the group away."""
        return max(log_revealed(curve.composition) for curve in self._curves)


def trade_off(
    run: Any,
    *,
    group_size: int | None = None,
    adjacency: str = "add-or-remove",
    rounds: int | None = None,
    engine: str = "auto",
) -> TradeOff:
    """The trade-off function of `run` for groups of `group_size` (or of a `MixtureOfGaussians` over `rounds`)."""
    return TradeOff(run, group_size=group_size, adjacency=adjacency, rounds=rounds, engine=engine)


def _complement(rate: Bounds) -> Bounds:
    """1 - rate, rounded outward."""
    lower = max(math.nextafter(1.0 - rate.upper, -math.inf), 0.0) if rate.upper > 0.0 else 1.0
    upper = min(math.nextafter(1.0 - rate.lower, math.inf), 1.0) if rate.lower > 0.0 else 1.0
    return Bounds(lower if rate.upper < 1.0 else 0.0, upper)


def _rates_asked(rates: Any) -> FloatArray:
    if rates is None:
        small = np.geomspace(1e-12, 0.05, 33)
        return np.concatenate((small, np.linspace(0.08, 0.92, 29), 1.0 - small[::-1]))
    values = [require_number("false_positive_rate", rate, at_least=0.0, at_most=1.0) for rate in list(rates)]
    return np.array(values)
