"""The trade-off function of a run: error rates of the best attacker on a group.

closed_form      one round, exactly (half_lines; runs that amount to one round)
delta_curve      delta near chosen epsilons, certified, by contours that serve many of them
minorant         what a few values of a convex function say about it everywhere; and, without a claim, between them
enclosure        one point of the trade-off function, by duality; many points from few values of delta
risk             what it means for a person; the closest Gaussian mechanism

Formal guarantee. The attacker sees every iterate, knows everything but whether the group took part, and guesses.

    adjacency "remove": the null hypothesis is "the group is absent"; a false positive calls an absent group present.
    adjacency "add": the null hypothesis is "the group is present"; a false positive calls a present group absent.
    adjacency "add-or-remove": both at once, by the symmetric convex envelope of the two (Dong, Roth and Su 2022).

No attack with a false positive rate of at most alpha has a false negative rate below `lower`; for the worst loss and
datasets, some attack comes down to `upper` (for add-or-remove: some attack in one of the directions, or a mixture of
attacks in both).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from groupdp.bounds import Bounds
from groupdp.engines import Progress, Work, options_of
from groupdp.errors import InvalidArgument, require_number
from groupdp.floats import ELEMENTARY, FloatArray, log_complement
from groupdp.guarantees import exp_down, exp_up
from groupdp.pairs import mirrored
from groupdp.question import decisive_compositions, question_of
from groupdp.tradeoff.closed_form import Envelope, Levels
from groupdp.tradeoff.delta_curve import DeltaCurve
from groupdp.tradeoff.enclosure import Duality, Sketch, both, complement, log_false_positive_level
from groupdp.tradeoff.half_lines import as_one_round
from groupdp.tradeoff.minorant import Interpolated


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
        given = {"group_size": group_size, "removed": removed, "added": added, "rounds": rounds, "adjacency": adjacency}
        if removed is not None or added is not None:
            del given["adjacency"]
        self._words = ", ".join(
            [repr(run), *(f"{name}={value!r}" for name, value in given.items() if value is not None)]
        )
        self.adjacency = adjacency
        self.tight = question.tight
        options = options_of(engine=engine)
        ordered = decisive_compositions(question, options)
        self.composition = ordered[0]
        reversed_pairs = [mirrored(composition) for composition in ordered]
        every = {composition: DeltaCurve(composition, options) for composition in (*ordered, *reversed_pairs)}
        self._curves = [every[composition] for composition in ordered]
        self._forward = Duality(self._curves, mirrored=False)
        self._backward = Duality([every[reversed_pair] for reversed_pair in reversed_pairs], mirrored=True)
        is_closed = self.composition and engine == "auto"  # unless an engine is asked for by name
        rounds_alone = [as_one_round(composition) for composition in ordered] if is_closed else [None]
        closed = [round_ for round_ in rounds_alone if round_ is not None]
        self._closed = Envelope(closed) if len(closed) == len(rounds_alone) else None
        # Whether an outcome tells P from Q for certain, up to a probability of e^-700.
        self._disjoint = any(curve.log_revealed == 0.0 for curve in self._curves)
        self._log_middle: float | None = None
        self._interpolated: Interpolated | None = None

    def __repr__(self) -> str:
        return f"TradeOff({self._words})"

    def log_true_positive_rate(self, log_false_positive_rate: float) -> Bounds:
        """Bounds on log TPR for a false positive rate given by its logarithm, however small."""
        return self._labelled(self._log_true_positive_rate(require_log_rate(log_false_positive_rate), 0.0)[0])

    def _log_true_positive_rate(
        self, log_alpha: float, room: float, sketch: Sketch | None = None
    ) -> tuple[Bounds, float]:
        """Bounds on log TPR, log alpha being off by up to `room`, and the epsilon of the tangent, about."""
        if not self.composition or log_alpha == 0.0:
            return Bounds(log_alpha - room, min(log_alpha + room, 0.0)), 0.0
        if self._disjoint:
            return Bounds(-1e-300, 0.0), math.inf
        if log_alpha == -math.inf:
            revealed = max(curve.log_revealed for curve in self._curves)
            around = 1e-14 * (1.0 + abs(revealed)) if revealed > -math.inf else 0.0
            return Bounds(revealed - around, min(revealed + around, 0.0)), math.inf
        if self._closed is not None:
            levels = Levels(np.array([log_alpha]), np.array([log_complement(log_alpha)]))
            power, _, loss = self._closed.rates(levels)
            return Bounds(float(power.lower[0]), float(power.upper[0])), float(loss[0])
        bounds, epsilon = self._forward.bounds(log_alpha, (log_alpha, room), sketch)
        # dP <= e^largest dQ: P(S) <= e^largest Q(S) (T-8).
        ceiling = log_alpha + room + self._forward.largest_loss
        ceiling += ELEMENTARY * (1.0 + abs(log_alpha) + abs(ceiling)) if ceiling < math.inf else 0.0
        return Bounds(bounds.lower, min(bounds.upper, ceiling)), epsilon

    def tangent(self, log_false_positive_rate: float, near: float | None = None) -> tuple[float, float, float]:
        """(log delta, epsilon, log of a lower bound on TPR): TPR(a) <= delta + e^epsilon a for all a, tight here.

        epsilon >= 0 and delta are certified; the closer to the tangent, the better. `near`: about where it is.
        """
        if near is not None:
            self._forward.starts = [(log_false_positive_rate, near)]
        bounds, epsilon = self._log_true_positive_rate(require_log_rate(log_false_positive_rate), 0.0)
        epsilon = min(max(epsilon, 0.0), 1e300)
        return self.log_delta(epsilon).upper, epsilon, bounds.lower

    def limit_lattices(self, work: Work) -> None:
        """What all lattices of this function may cost together; bounds are wider, and hold, where that is little."""
        for curve in (*self._curves, *self._backward.curves):
            curve.lattices.work = work

    @property
    def gaussian_shift(self) -> float | None:
        """mu where this is the trade-off function of N(mu, 1) against N(0, 1); else None."""
        return None if self._closed is None else self._closed.gaussian_shift

    @property
    def largest_shift(self) -> float:
        """A mu for which N(mu, 1) against N(0, 1) is at least as easy to tell apart (P-0); inf if there is none."""
        return max(
            math.hypot(*(math.sqrt(times) * round_.largest_shift for round_, times in curve.composition))
            for curve in self._curves
        )

    @property
    def largest_loss(self) -> float:
        """An upper bound on the loss; inf where none is known."""
        return self._forward.largest_loss

    @property
    def interpolated(self) -> Interpolated | None:
        """The curve between points of its contours, without a claim; None where it has none."""
        has_contours = self._closed is None and len(self._curves) == 1 and self._curves[0].contours.available
        if self._interpolated is None and has_contours:
            self._interpolated = Interpolated(self._curves[0].contours)
        return self._interpolated

    @property
    def is_costly(self) -> bool:
        """Whether every evaluation of delta takes long: then ask for few points."""
        return any(curve.is_costly for curve in (*self._curves, *self._backward.curves))

    def log_delta(self, epsilon: float, *, mirrored: bool = False) -> Bounds:
        """Bounds on log delta(epsilon), for any real epsilon: the larger of the adjacency's directions.

        `mirrored`: of the reversed pair.
        """
        epsilon = require_number("epsilon", epsilon)
        if not self.composition:
            value = -math.inf if epsilon >= 0.0 else math.log(-math.expm1(epsilon))
            return self._labelled(Bounds(value, value))
        sides = [curve.log_delta(epsilon) for curve in (self._backward.curves if mirrored else self._curves)]
        return self._labelled(Bounds(max(low for low, _ in sides), max(high for _, high in sides)))

    def true_positive_rate(self, false_positive_rate: float) -> Bounds:
        """Bounds on the largest true positive rate of attacks with at most this false positive rate."""
        return self._labelled(self._rates(false_positive_rate)[1])

    def false_negative_rate(self, false_positive_rate: float) -> Bounds:
        """Bounds on the smallest false negative rate of attacks with at most this false positive rate."""
        return self._labelled(self._rates(false_positive_rate)[0])

    def _labelled(self, bounds: Bounds) -> Bounds:
        """The bounds, labelled with whether they hold for every analysis or for this one alone."""
        return bounds if self.tight else replace(bounds, tight=False)

    def curve(
        self, false_positive_rates: Any = None, *, tolerance: float | None = None, progress: Progress | None = None
    ) -> TradeOffCurve:
        """Both rates at many points; by default from 1e-12 to 1 - 1e-12.

        `tolerance` (1e-3 and more, say, for a picture): relative widths of about that will do, and take less time.
        The more false positives, the fewer false negatives: what is known at one rate holds at all beyond it.
        """
        rates = rates_asked(false_positive_rates)
        if tolerance is not None:
            tolerance = require_number("tolerance", tolerance, above=0.0, at_most=1.0)
        results = self._all_rates(rates, tolerance, progress)
        sides = np.array([[fnr.lower, fnr.upper, tpr.lower, tpr.upper] for fnr, tpr in results]).T
        rising = np.argsort(rates, kind="stable")
        falling = rising[::-1]
        sides[0, falling] = np.maximum.accumulate(sides[0, falling])
        sides[1, rising] = np.minimum.accumulate(sides[1, rising])
        sides[2, rising] = np.maximum.accumulate(sides[2, rising])
        sides[3, falling] = np.minimum.accumulate(sides[3, falling])
        return TradeOffCurve(
            false_positive_rate=rates,
            false_negative_rate_lower=sides[0],
            false_negative_rate_upper=sides[1],
            true_positive_rate_lower=sides[2],
            true_positive_rate_upper=sides[3],
            adjacency=self.adjacency,
        )

    def _all_rates(
        self, rates: FloatArray, tolerance: float | None, progress: Progress | None
    ) -> list[tuple[Bounds, Bounds]]:
        """(false negative rate, true positive rate) for every rate."""
        if self._closed is not None and not self._disjoint:
            inside = (rates > 0.0) & (rates < 1.0)
            found = iter(self._in_closed_form(rates[inside]))
            return [next(found) if one else self._rates(float(rate)) for one, rate in zip(inside, rates, strict=True)]
        if tolerance is None or not self.composition or self._disjoint:
            tolerance = 0.0
        sketches = self._sketches(rates, tolerance) if tolerance > 0.0 else (None, None)
        results = []
        for done, rate in enumerate(rates):
            results.append(self._rates(float(rate), *sketches))
            if progress is not None:
                progress((done + 1) / len(rates))
        return results

    def _sketches(self, rates: FloatArray, tolerance: float) -> tuple[Sketch | None, Sketch | None]:
        """Samples of delta for the rates on either side of the middle, where evaluating delta is quick."""
        middle = self._log_middle_rate()
        if self.is_costly:
            return None, None
        inside = rates[(rates > 0.0) & (rates < 1.0)]
        small = inside[np.log(inside) <= middle]
        large = inside[np.log(inside) > middle]
        return (
            Sketch(self._forward, np.log(small), tolerance) if len(small) else None,
            Sketch(self._backward, np.log1p(-large), tolerance) if len(large) else None,
        )

    def _in_closed_form(self, alphas: FloatArray) -> list[tuple[Bounds, Bounds]]:
        if self._closed is None:
            raise AssertionError("the curve has no closed form")
        # For alpha above 1/2 the subtraction is exact (Sterbenz).
        gammas = np.where(alphas <= 0.5, np.log1p(-alphas), np.log(1.0 - np.minimum(alphas, 1.0 - 2.0**-53)))
        power, miss, _ = self._closed.rates(Levels(np.log(alphas), gammas))
        results = []
        for p_low, p_high, m_low, m_high in zip(power.lower, power.upper, miss.lower, miss.upper, strict=True):
            tpr = Bounds(exp_down(float(p_low)), exp_up(float(p_high)))
            fnr = Bounds(exp_down(float(m_low)), exp_up(float(m_high)))
            results.append((both(fnr, complement(tpr)), both(tpr, complement(fnr))))
        return results

    def _rates(
        self, alpha: float, sketch: Sketch | None = None, mirrored_sketch: Sketch | None = None
    ) -> tuple[Bounds, Bounds]:
        """(false negative rate, true positive rate)."""
        alpha = require_number("false_positive_rate", alpha, at_least=0.0, at_most=1.0)
        if alpha == 1.0:
            return Bounds(0.0, 0.0), Bounds(1.0, 1.0)
        if not self.composition:
            return complement(Bounds(alpha, alpha)), Bounds(alpha, alpha)
        if self._disjoint:
            return Bounds(0.0, 1e-300), Bounds(math.nextafter(1.0, 0.0), 1.0)
        if self._closed is not None and alpha > 0.0:
            return self._in_closed_form(np.array([alpha]))[0]
        if alpha == 0.0:
            logarithm, _ = self._log_true_positive_rate(-math.inf, 0.0)
            tpr = Bounds(exp_down(logarithm.lower), exp_up(logarithm.upper))
            return complement(tpr), tpr
        log_alpha = math.log(alpha)
        if log_alpha <= self._log_middle_rate():
            logarithm, _ = self._log_true_positive_rate(log_alpha, ELEMENTARY * abs(log_alpha), sketch)
            tpr = both(Bounds(exp_down(logarithm.lower), exp_up(logarithm.upper)), self._between(log_alpha, alpha))
            return complement(tpr), tpr
        fnr = self._small_false_negative_rate(alpha, mirrored_sketch)
        return fnr, both(complement(fnr), self._between(log_alpha, alpha))

    def _between(self, log_alpha: float, alpha: float) -> Bounds:
        """A coin has power alpha; and dP <= e^largest dQ, so P(S) <= e^largest Q(S) (T-8)."""
        ceiling = log_alpha + self._forward.largest_loss
        if not ceiling < 0.0:
            return Bounds(alpha, 1.0)
        return Bounds(alpha, exp_up(ceiling + ELEMENTARY * (1.0 + abs(log_alpha) + abs(ceiling))))

    def _small_false_negative_rate(self, alpha: float, sketch: Sketch | None) -> Bounds:
        gamma = 1.0 - alpha
        exact = alpha >= 0.5  # Sterbenz: then the subtraction is exact
        low, high = (gamma, gamma) if exact else (math.nextafter(gamma, 0.0), min(math.nextafter(gamma, 2.0), 1.0))
        log_fnr, _ = self._backward.bounds(math.log(high), (low, high), sketch)
        # dQ <= e^largest dP, and so 1 - alpha <= e^largest f (T-8).
        floor = -math.inf
        if self._backward.largest_loss < math.inf:
            floor = math.log(low) - self._backward.largest_loss
            floor -= ELEMENTARY * (1.0 + abs(math.log(low)) + abs(floor))
        return Bounds(exp_down(max(log_fnr.lower, floor)), exp_up(log_fnr.upper))

    def _log_middle_rate(self) -> float:
        """log of the false positive rate at epsilon = 0, about: below it the first duality is used."""
        if self._log_middle is None:
            levels = [log_false_positive_level(curve, 0.0) for curve in self._curves]
            # An infinite level says that delta(0) is nearly 1: Q(L > 0) <= 1 - delta(0) is too small to be resolved.
            self._log_middle = max(level if level < 0.0 else -20.0 for level in levels)
        return self._log_middle


def require_log_rate(value: Any) -> float:
    """The logarithm of a false positive rate, -inf for 0."""
    if isinstance(value, float) and value == -math.inf:
        return value
    return require_number("log_false_positive_rate", value, at_most=0.0)


def rates_asked(rates: Any) -> FloatArray:
    """False positive rates, at least one; those of a whole curve if None are given."""
    if rates is None:
        small = np.geomspace(1e-12, 0.05, 33)
        return np.concatenate((small, np.linspace(0.08, 0.92, 29), 1.0 - small[::-1]))
    given = list(rates) if isinstance(rates, Iterable) and not isinstance(rates, str) else []
    if not given:
        raise InvalidArgument("false_positive_rates", rates, "be a sequence of at least one rate")
    return np.array([require_number("false_positive_rate", rate, at_least=0.0, at_most=1.0) for rate in given])


def trade_off(run: Any, **question: Any) -> TradeOff:
    """The trade-off function of `run` for groups of `group_size` (or of a `MixtureOfGaussians` over `rounds`).

    Takes the keywords of `TradeOff`.
    """
    return TradeOff(run, **question)
