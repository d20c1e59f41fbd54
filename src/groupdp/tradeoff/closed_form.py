"""Error rates of the best attacker on one round: certified closed forms, for one pair or for several at once.

The most powerful tests are half-lines (`half_lines`), so a rate is evaluated at a test that is certainly not above the
level asked for, and at one that is certainly not below it (T-3). For several pairs (add-or-remove) the function is the
concave envelope of all curves: lines that lie above every one bound it from above, chords from below (T-4, T-5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from groupdp.floats import ELEMENTARY, UNIT, FloatArray, Sides
from groupdp.pairs import Round
from groupdp.tradeoff.half_lines import HalfLines, bracket, solve, step_out

IntArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]

#: Bisections for the common tangent of two curves, where neither its own tangent nor slope 1 is it.
_MOST_BISECTIONS = 50
#: Envelopes known to this relative width need no better tangent.
_NARROW = 1e-11


@dataclass(frozen=True, slots=True)
class Levels:
    """False positive rates alpha, by log alpha and log(1 - alpha), each right to a few units in the last place."""

    log_alpha: FloatArray
    log_gamma: FloatArray

    def __getitem__(self, chosen: IntArray) -> Levels:
        return Levels(self.log_alpha[chosen], self.log_gamma[chosen])

    @property
    def small(self) -> BoolArray:
        """Where alpha is at most 1/2: there log alpha is the one to compare with, elsewhere log(1 - alpha)."""
        return np.asarray(self.log_alpha <= -math.log(2.0))

    @property
    def alpha_room(self) -> FloatArray:
        """What log alpha may be off by."""
        return ELEMENTARY * np.abs(self.log_alpha)

    @property
    def gamma_room(self) -> FloatArray:
        """What log(1 - alpha) may be off by."""
        return ELEMENTARY * np.abs(self.log_gamma)


@dataclass(frozen=True, slots=True)
class Rates:
    """log of the true positive and of the false negative rate at every level, and the loss at the threshold, about."""

    power: Sides
    miss: Sides
    loss: FloatArray


class OneRound:
    """The curve of one round."""

    def __init__(self, round_: Round) -> None:
        self.half = HalfLines(round_)

    def rates(self, levels: Levels) -> Rates:
        """Both rates at every level (T-3)."""
        half, small = self.half, levels.small

        def excess(s: FloatArray) -> FloatArray:
            _, about, _ = self._tests(s)
            level, passed = half.log_level(about).middle, half.log_pass(about).middle
            return np.where(small, levels.log_alpha - level, passed - levels.log_gamma)

        def certainly_below(s: FloatArray) -> BoolArray:
            _, about, _ = self._tests(s)
            below = half.log_level(about).upper <= levels.log_alpha - levels.alpha_room
            return np.where(small, below, half.log_pass(about).lower >= levels.log_gamma + levels.gamma_room)

        def certainly_above(s: FloatArray) -> BoolArray:
            _, _, after = self._tests(s)
            above = half.log_level(after).lower >= levels.log_alpha + levels.alpha_room
            return np.where(small, above, half.log_pass(after).upper <= levels.log_gamma - levels.gamma_room)

        accuracy = UNIT * np.where(small, np.abs(levels.log_alpha), np.abs(levels.log_gamma))
        about = solve(excess, *bracket(excess, *self._start(levels)), accuracy)
        _, weaker, _ = self._tests(step_out(about, 1.0, certainly_below))
        stronger, _, _ = self._tests(step_out(about, -1.0, certainly_above))
        # The coin that ignores the data has power alpha: no best test is weaker.
        power = Sides(
            np.maximum(half.log_power(weaker).lower, levels.log_alpha - levels.alpha_room),
            half.log_power(stronger).upper,
        )
        miss = Sides(
            half.log_miss(stronger).lower,
            np.minimum(half.log_miss(weaker).upper, levels.log_gamma + levels.gamma_room),
        )
        loss = about if half.branches > 1 else half.loss(about, 0).middle
        return Rates(power, miss, loss)

    def _tests(self, s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(a larger test, about, a smaller one) for the threshold s: in u itself, or in the loss under a coin."""
        if self.half.branches == 1:
            u = s[:, None]
            return u, u, u
        before, about, after = self.half.thresholds(np.where(np.isfinite(s), s, 0.0))
        infinite = ~np.isfinite(s)[:, None]
        return tuple(np.where(infinite, s[:, None], u) for u in (before, about, after))  # type: ignore[return-value]

    def _start(self, levels: Levels) -> tuple[FloatArray, FloatArray]:
        """A first bracket of the threshold."""
        from scipy.special import ndtri_exp  # not before it is needed: a third of a second

        if self.half.branches > 1:
            return np.full(len(levels.log_alpha), -1.0), np.full(len(levels.log_alpha), 1.0)
        finite = self.half.left.shifts[~self.half.left.infinite]
        reach = (float(finite[0]), float(finite[-1])) if len(finite) else (0.0, 0.0)
        quantile = np.where(levels.small, -ndtri_exp(levels.log_alpha), ndtri_exp(levels.log_gamma))
        quantile = np.clip(quantile, -1e150, 1e150)
        return quantile - reach[1] - 1e-3, quantile - reach[0] + 1e-3


class Envelope:
    """The concave envelope of several rounds' curves (one round: its own curve)."""

    def __init__(self, rounds: Sequence[Round]) -> None:
        self.curves = [OneRound(round_) for round_ in rounds]
        self._shifts = [
            round_.largest_shift if round_.is_gaussian and round_.has_noise and len(round_.branches) == 1 else None
            for round_ in rounds
        ]

    @property
    def gaussian_shift(self) -> float | None:
        """The largest mu if every curve is that of N(mu, 1) against N(0, 1); else None."""
        shifts = [shift for shift in self._shifts if shift is not None]
        return max(shifts) if len(shifts) == len(self._shifts) else None

    def rates(self, levels: Levels) -> tuple[Sides, Sides, FloatArray]:
        """(log true positive rate, log false negative rate, log slope of a tangent, about) at every level."""
        each = [curve.rates(levels) for curve in self.curves]
        if len(each) == 1:
            return each[0].power, each[0].miss, each[0].loss
        found = _Found(levels, each)
        losses = np.nan_to_num([point.loss for point in each], nan=0.0, posinf=1e300, neginf=-1e300)
        # At its own threshold the largest curve mostly has a tangent above all others; if not, try the rest, slope 1
        # (the common tangent of a pair and its mirror image), and what bisection finds.
        order = np.argsort([-point.power.lower for point in each], axis=0)
        for t in (*np.take_along_axis(losses, order, axis=0), np.zeros(losses.shape[1])):
            rest = np.flatnonzero(found.is_wide)
            if len(rest):
                found.improve(self.curves, t[rest], rest)
        rest = np.flatnonzero(found.is_wide)
        if len(rest):
            t = self._common_tangent(levels[rest], losses[:, rest].min(axis=0), losses[:, rest].max(axis=0))
            found.improve(self.curves, t, rest)
        return found.power, found.miss, found.slope

    def _common_tangent(self, levels: Levels, low: FloatArray, high: FloatArray) -> FloatArray:
        """The t at which the largest of all lines at alpha is smallest, about."""
        for _ in range(_MOST_BISECTIONS):
            t = 0.5 * (low + high)
            lines, level = [], []
            for curve in self.curves:
                before, about, after = curve.half.thresholds(t)
                lines.append(_line(curve.half, levels, t, before, after)[0])
                level.append(curve.half.log_level(about).middle)
            top = np.argmax(np.array(lines), axis=0)
            # The slope of the line in e^t is alpha minus the level of its test.
            right = np.take_along_axis(np.array(level), top[None, :], axis=0)[0] > levels.log_alpha
            low, high = np.where(right, t, low), np.where(right, high, t)
        return 0.5 * (low + high)


class _Found:
    """The best bounds on the envelope so far."""

    def __init__(self, levels: Levels, each: Sequence[Rates]) -> None:
        self.levels = levels
        count = len(levels.log_alpha)
        self.slope = np.zeros(count)
        # The envelope lies above every curve.
        self.power = Sides(np.max([point.power.lower for point in each], axis=0), np.zeros(count))
        self.miss = Sides(np.full(count, -np.inf), np.min([point.miss.upper for point in each], axis=0))

    @property
    def is_wide(self) -> BoolArray:
        """Where a better tangent may be worth looking for."""
        with np.errstate(invalid="ignore"):
            gaps = (self.power.upper - self.power.lower, self.miss.upper - self.miss.lower)
        sizes = (1.0 + np.abs(self.power.upper), 1.0 + np.abs(self.miss.upper))
        return np.asarray(~(gaps[0] <= _NARROW * sizes[0]) | ~(gaps[1] <= _NARROW * sizes[1]))

    def improve(self, curves: Sequence[OneRound], t: FloatArray, rows: IntArray) -> None:
        """Lines of slope e^t above all curves (T-4), and chords between the tests with threshold t (T-5)."""
        levels = self.levels[rows]
        tests = [curve.half.thresholds(t) for curve in curves]
        lines = [
            _line(curve.half, levels, t, before, after) for curve, (before, _, after) in zip(curves, tests, strict=True)
        ]
        above = np.max([line[0] for line in lines], axis=0)
        below = np.min([line[1] for line in lines], axis=0)
        points = [_Point.of(curve.half, about) for curve, (_, about, _) in zip(curves, tests, strict=True)]
        for point in points:
            for other in points:
                if point is not other:
                    power, miss = _chord(levels, point, other)
                    self.power.lower[rows] = np.fmax(self.power.lower[rows], power)
                    self.miss.upper[rows] = np.fmin(self.miss.upper[rows], miss)
        self.slope[rows] = np.where(above < self.power.upper[rows], t, self.slope[rows])
        self.power.upper[rows] = np.fmin(self.power.upper[rows], above)
        self.miss.lower[rows] = np.fmax(self.miss.lower[rows], below)


def _difference(levels: Levels, level: Sides, passed: Sides) -> tuple[FloatArray, FloatArray]:
    """(d, r) with alpha - level <= d e^r for a test: rounded up, without cancellation near alpha = 1."""
    small = levels.small
    # alpha - level = passed - gamma: the two small ones of each are compared.
    plus = np.where(small, levels.log_alpha + levels.alpha_room, passed.upper)
    minus = np.where(small, level.lower, levels.log_gamma - levels.gamma_room)
    return _subtract_up(plus, minus)


def _subtract_up(plus: FloatArray, minus: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(d, r) with e^plus - e^minus <= d e^r, |d| <= 1 or a little more."""
    r = np.maximum(plus, minus)
    r = np.where(np.isfinite(r), r, 0.0)
    with np.errstate(under="ignore"):
        one, other = np.exp(plus - r), np.exp(minus - r)
    room = ELEMENTARY + UNIT * (4.0 + np.abs(plus - r) + np.abs(minus - r))
    room = np.where(np.isfinite(room), room, 2.0 * ELEMENTARY)
    return (one - other) + room * (one + other) + 1e-300, r


def _line(
    half: HalfLines, levels: Levels, t: FloatArray, before: FloatArray, after: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(log of an upper bound on the line P + e^t (alpha - Q), log of a lower bound on P' + e^t (Q - alpha)) (T-4)."""
    d, r = _difference(levels, half.log_level(after), half.log_pass(after))
    power, miss = half.log_power(before).upper, half.log_miss(before).lower
    with np.errstate(under="ignore", over="ignore", invalid="ignore", divide="ignore"):
        top = np.maximum(power, t + r)
        room = 2.0 * ELEMENTARY + 4.0 * UNIT * (np.abs(t) + np.abs(r) + np.abs(top))
        one, other = np.exp(power - top), np.exp(t + r - top) * d
        above = one + other + room * (one + np.abs(other)) + 1e-300
        above_log = np.where(above > 0.0, np.log(above) + top, -np.inf)
        above_log = above_log + ELEMENTARY * (1.0 + np.abs(np.log(above))) + 2.0 * UNIT * np.abs(above_log)
        top = np.maximum(miss, t + r)
        room = 2.0 * ELEMENTARY + 4.0 * UNIT * (np.abs(t) + np.abs(r) + np.abs(top))
        one, other = np.exp(miss - top), np.exp(t + r - top) * d
        below = one - other - room * (one + np.abs(other)) - 1e-300
        below_log = np.where(below > 0.0, np.log(np.maximum(below, 1e-300)) + top, -np.inf)
        below_log = below_log - ELEMENTARY * (1.0 + np.abs(np.log(below))) - 2.0 * UNIT * np.abs(below_log)
    # A room that is not a number, or not small, makes no bound.
    above_log = np.where(np.isfinite(room) & ~np.isnan(above_log), np.minimum(above_log, 0.0), 0.0)
    return above_log, np.where(np.isfinite(room) & ~np.isnan(below_log), below_log, -np.inf)


@dataclass(frozen=True, slots=True)
class _Point:
    """One test: what its rates are, as logarithms."""

    level: Sides
    passed: Sides
    power: Sides
    miss: Sides

    @classmethod
    def of(cls, half: HalfLines, u: FloatArray) -> _Point:
        return cls(half.log_level(u), half.log_pass(u), half.log_power(u), half.log_miss(u))


def _chord(levels: Levels, one: _Point, other: _Point) -> tuple[FloatArray, FloatArray]:
    """(log power, log miss) of tossing a coin between two tests so that the level is at most alpha; nan if none (T-5).

    With c the chance of the second test, (1 - c) level_1 + c level_2 <= alpha for c = (alpha - level_1) / (level_2 -
    level_1) rounded down; near alpha = 1 the same with 1 - alpha.
    """
    small = levels.small
    with np.errstate(invalid="ignore", divide="ignore", under="ignore", over="ignore"):
        scale = np.where(small, other.level.upper, one.passed.upper)
        alpha = np.exp(np.where(small, levels.log_alpha - levels.alpha_room, one.passed.lower) - scale)
        first = np.exp(np.where(small, one.level.upper, levels.log_gamma + levels.gamma_room) - scale)
        second = np.exp(np.where(small, 0.0, np.minimum(other.passed.upper, 0.0) - scale))
        span_small, span_large = 1.0 - np.exp(one.level.lower - scale), 1.0 - np.exp(other.passed.lower - scale)
        span = np.where(small, span_small, span_large) + 32.0 * UNIT
        room = 4.0 * ELEMENTARY + UNIT * 8.0 * np.abs(scale)
        chance = (alpha - first - room * (alpha + first + second)) / span
        chance = np.where((span > 0.0) & (chance >= 0.0) & (chance <= 1.0), chance * (1.0 - 16.0 * UNIT), np.nan)
        rest = 1.0 - chance
        power = _log_mix(one.power.lower, np.maximum(rest - 2.0 * UNIT, 0.0), other.power.lower, chance, -1.0)
        miss = _log_mix(one.miss.upper, rest + 2.0 * UNIT, other.miss.upper, chance, 1.0)
    return power, miss


def _log_mix(x: FloatArray, a: FloatArray, y: FloatArray, b: FloatArray, sign: float) -> FloatArray:
    """log(a e^x + b e^y), rounded to the side of `sign`."""
    top = np.maximum(x, y)
    top = np.where(np.isfinite(top), top, 0.0)
    value = np.log(a * np.exp(x - top) + b * np.exp(y - top)) + top
    room = 4.0 * ELEMENTARY * (1.0 + np.abs(value - top)) + 8.0 * UNIT * (np.abs(top) + np.abs(value))
    return np.asarray(value + sign * room)
