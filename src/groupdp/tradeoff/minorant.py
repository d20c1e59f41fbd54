"""What a few certified values of a convex, decreasing function say about it everywhere, rounding included.

Let d >= 0 be convex and decreasing on x > 0, with lower_i <= d(X_i) <= upper_i at places X_i that are known to lie in
[low_i, high_i], high_i < low_{i+1}. Chords extended beyond their ends lie below d (T-6):

    d(x) >= lower_i - (upper_{i-1} - lower_i) / (low_i - high_{i-1}) (x - low_i)             for x >= low_i,
    d(x) >= lower_i + (lower_i - upper_{i+1})_+ / (high_{i+1} - low_i) (low_i - x)           for x <= low_i.

Every line is kept with the point it goes through and is evaluated from there, each operation rounded in the safe
direction: no error is relative to a result in which the parts cancel. The extreme of an objective that is
monotone along lines is bounded piece by piece, on each piece by the best line at its two ends (T-7): where the pieces
end decides how close the bound is, not whether it holds.

`Interpolated` is the curve between points of it without a claim, where a search starts.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from groupdp.engines import spectral
from groupdp.errors import LimitExceeded
from groupdp.floats import FloatArray
from groupdp.tradeoff.delta_curve import Contours

#: A cubic whose middle is right to this much in log TPR is as good as the curve.
_ACCURACY = 1e-6
#: Points of one curve, steps beyond the last of them, and halvings of a step that contours refuse.
_MOST_POINTS, _MOST_STEPS, _MOST_HALVINGS = 2000, 60, 6
#: Parts of an epsilon at which a curve may begin, the first where its slope is not lost.
_FIRST = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)
#: A contour serves a point it is as wide at, relative to log delta.
_WIDE = 1e-7


def up(values: npt.ArrayLike) -> FloatArray:
    """The next double above."""
    return np.asarray(np.nextafter(values, math.inf))


def down(values: npt.ArrayLike) -> FloatArray:
    """The next double below."""
    return np.asarray(np.nextafter(values, -math.inf))


class Minorant:
    """The largest of several convex, decreasing functions, from below; arrays are (functions, places)."""

    def __init__(self, low: FloatArray, high: FloatArray, lower: FloatArray, upper: FloatArray) -> None:
        self.low, self.high, self.lower, self.upper = low, high, np.maximum(lower, 0.0), upper
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            drop = up(upper[:, :-1] - self.lower[:, 1:])
            gap = down(low[1:] - high[:-1])
            falls = np.where(gap > 0.0, up(np.maximum(drop, 0.0) / np.maximum(gap, 1e-300)), np.inf)
            # Steepness of the chord that ends at place i, extended to the right; none ends at the first.
            self.falls = np.concatenate((np.full((len(lower), 1), np.inf), falls), axis=1)
            rise = down(self.lower[:, :-1] - upper[:, 1:])
            rises = np.maximum(down(np.maximum(rise, 0.0) / up(high[1:] - low[:-1])), 0.0)
            # Steepness of the chord that begins at place i, extended to the left; none begins at the last.
            self.rises = np.concatenate((np.nan_to_num(rises), np.zeros((len(lower), 1))), axis=1)

    def right_of(self, i: int | slice, x: npt.ArrayLike) -> FloatArray:
        """Below the functions at x >= low_i: the chord that ends at i, extended, also below 0."""
        with np.errstate(invalid="ignore", over="ignore"):
            away = up(np.asarray(x) - self.low[i])
            value = down(self.lower[:, i] - up(self.falls[:, i] * away))
        return np.where(np.isnan(value), -np.inf, value)

    def left_of(self, i: int | slice, x: npt.ArrayLike) -> FloatArray:
        """Below the functions at x <= low_i: the chord that begins at i, extended."""
        away = np.maximum(down(self.low[i] - np.asarray(x)), 0.0)
        return down(self.lower[:, i] + np.maximum(down(self.rises[:, i] * away), 0.0))

    def pieces(self) -> tuple[FloatArray, FloatArray]:
        """(ends, values) between the first and the last place.

        ends[i, ...] are increasing and cover [low_i, low_{i+1}], cut where lines cross, about; values[line, i, ...] are
        lower bounds on lines that stay below the largest function all along that interval.
        """
        a, b = self.low[:-1], self.low[1:]
        cuts = []
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for f in range(len(self.lower)):
                for g in range(len(self.lower)):
                    rise, fall = self.rises[g, 1:], self.falls[f, :-1]
                    cut = a + (self.lower[f, :-1] - self.lower[g, 1:] - rise * (b - a)) / (fall - rise)
                    cuts.append(np.clip(np.where(np.isfinite(cut), cut, a), a, b))
        ends = np.sort(np.stack([a, *cuts, b], axis=1), axis=1)
        count = len(a)
        right = np.stack([self.right_of(slice(0, count), ends[:, k]) for k in range(ends.shape[1])], axis=2)
        left = np.stack([self.left_of(slice(1, count + 1), ends[:, k]) for k in range(ends.shape[1])], axis=2)
        return ends, np.concatenate((np.zeros_like(ends)[None], right, left), axis=0)

    def beyond(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """For every chord that ends at a place: its steepness, its value at the last place, and where it meets 0."""
        rest, last = slice(1, None), self.low[-1]
        falls, at, here = (
            array.ravel() for array in (self.falls[:, rest], self.lower[:, rest], self.right_of(rest, last))
        )
        places = np.tile(self.low[rest], len(self.lower))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            meets = np.where(falls > 0.0, np.maximum(down(places + down(at / falls)), last), last)
        return falls, here, meets


def smallest_sum(minorant: Minorant, weights: FloatArray) -> FloatArray:
    """A lower bound on the smallest d(x) + w x over x > 0, for every w >= 0 of `weights` (T-7)."""
    w = weights[:, None]
    first, last = minorant.low[0], minorant.low[-1]
    # Beyond the last place: a falling line or 0, whichever is larger; the smallest at the end or where they meet.
    falls, here, meets = minorant.beyond()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        beyond = np.where(w >= falls, down(here + down(w * last)), down(w * meets))
    at_zero, at_first = minorant.left_of(slice(None), 0.0).ravel(), minorant.left_of(slice(None), first).ravel()
    ends, values = minorant.pieces()
    with np.errstate(over="ignore"):  # down(inf) is the largest double
        beyond = np.maximum(_largest(beyond), down(w[:, 0] * last))
        # Before the first place: lines that rise to the left; the smallest at either end.
        before = _largest(np.minimum(at_zero, down(at_first + down(w * first))))
        objective = down(values[:, None] + down(w[None, :, :, None] * ends[None, None])) if ends.size else ends
    result = np.minimum(beyond, before)
    if ends.size:
        between = np.minimum(objective[..., :-1], objective[..., 1:]).max(axis=0)
        result = np.minimum(result, between.min(axis=(1, 2)))
    return np.asarray(np.maximum(result, 0.0))


def largest_ratio(minorant: Minorant, heights: FloatArray) -> FloatArray:
    """An upper bound on the largest (c - d(x)) / x over x > 0, for every c > 0 of `heights` (T-7)."""
    c = heights[:, None]
    first, last = minorant.low[0], minorant.low[-1]
    falls, here, meets = minorant.beyond()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        beyond = np.where(falls > 0.0, np.maximum(_ratio_up(c - here, last), _ratio_up(c, meets)), np.inf)
    beyond = np.minimum(-_largest(-beyond), _ratio_up(c, last)[:, 0])
    at_zero, at_first = minorant.left_of(slice(None), 0.0).ravel(), minorant.left_of(slice(None), first).ravel()
    before = -_largest(-np.where(at_zero >= c, _ratio_up(c - at_first, first), np.inf))
    result = np.maximum(beyond, before)
    ends, values = minorant.pieces()
    if ends.size:
        objective = _ratio_up(c[None, :, :, None] - values[:, None], ends[None, None])
        between = np.maximum(objective[..., :-1], objective[..., 1:]).min(axis=0)
        result = np.maximum(result, between.max(axis=(1, 2)))
    return np.asarray(result)


def _largest(values: FloatArray) -> FloatArray:
    """The largest along the last axis; what is not a number is no bound; -inf of nothing."""
    return np.asarray(np.max(np.where(np.isnan(values), -np.inf, values), axis=-1, initial=-np.inf))


def _ratio_up(numerator: FloatArray, x: npt.ArrayLike) -> FloatArray:
    """numerator / x for x > 0, where the numerator has been rounded once: rounded up."""
    with np.errstate(over="ignore", divide="ignore"):
        return up(up(numerator) / np.asarray(x))


class Interpolated:
    """log TPR of one curve between points of it, which are made where they are needed.

    The point at epsilon has the rates log alpha = log delta + log(-s) - eps and log TPR = log delta + log(1 - s), s the
    slope of log delta; there d log TPR / d log alpha = e^{eps + log alpha - log TPR}. Between two points log TPR is the
    cubic with these values and slopes, and the slope of the cubic gives epsilon back.
    """

    def __init__(self, contours: Contours) -> None:
        self.contours = contours
        #: (-log alpha, epsilon, log TPR) of each; whether the cubic from the one before to it is good.
        self.points: list[tuple[float, float, float]] = []
        self.good: list[bool] = []
        self.end = math.inf  # contours refuse from there on

    def tangent(self, log_alpha: float) -> tuple[float, float, float]:
        """(log delta, epsilon, log TPR) at a false positive rate; LimitExceeded where no contour is at hand."""
        if not self.points:
            self._begin(log_alpha)
        self._extend(-log_alpha)
        while True:
            place = bisect_left(self.points, -log_alpha, key=lambda point: point[0])
            if place == 0:  # to the left the first point's tangent, which is at 0 if delta(0) is not nearly 1
                rate, epsilon, power = self.points[0]
                log_delta = power + math.log1p(-_slope(rate, epsilon, power))
                return log_delta, epsilon, min(_log_sum(log_delta, epsilon + log_alpha), 0.0)
            left, right = self.points[place - 1 : place + 1]
            value, slope = _cubic(left, right, -log_alpha)
            if self.good[place]:
                # d log TPR / d log alpha = e^{eps + log alpha - log TPR}
                epsilon = value - log_alpha + math.log(slope) if slope > 0.0 else left[1]
                epsilon, value = min(max(epsilon, left[1]), right[1]), min(value, 0.0)
                share = min(epsilon + log_alpha - value, -1e-15)
                return value + math.log(-math.expm1(share)), epsilon, value
            self._halve(place)

    def _begin(self, log_alpha: float) -> None:
        composition = self.contours.composition
        about = max(spectral.epsilon(composition, log_delta=log_alpha).upper, 0.0)
        for part in _FIRST:
            try:
                self._add(part * about)
                return
            except LimitExceeded:  # delta is 1 to all digits
                continue
        raise LimitExceeded("the spectral engine has no contour for a point of the curve.")

    def _extend(self, wanted: float) -> None:
        """Points to the right until one has a rate below the one wanted."""
        for _ in range(_MOST_STEPS):
            rate, epsilon, _ = self.points[-1]
            if rate >= wanted:
                return
            step = max(epsilon, self.contours.deviation)
            if len(self.points) > 1:
                before = self.points[-2]
                step = min(step, 1.1 * (wanted - rate) * (epsilon - before[1]) / (rate - before[0]))
            declined = self.contours.declined  # of few plans that may be: those are kept for points nearer by
            for _ in range(_MOST_HALVINGS):
                if self.contours.declined > declined:
                    raise LimitExceeded("the spectral engine has no contour for a point of the curve.")
                with suppress(LimitExceeded):
                    self._add(epsilon + max(step, 1e-9 * epsilon))
                    break
                step *= 0.5
            else:
                break
        raise LimitExceeded("the f-DP group bound found no tangent far enough out.")

    def _halve(self, place: int) -> None:
        left, right = self.points[place - 1 : place + 1]
        middle = 0.5 * (left[1] + right[1])
        if not left[1] < middle < right[1] or right[1] - left[1] <= 1e-10 * right[1]:
            self.good[place] = True
            return
        rate, _, power = self._point(middle)
        if not left[0] < rate < right[0]:  # lost in rounding
            self.good[place] = True
            return
        good = abs(_cubic(left, right, rate)[0] - power) <= _ACCURACY
        self.good[place] = good
        self.points.insert(place, (rate, middle, power))
        self.good.insert(place, good)

    def _add(self, epsilon: float) -> None:
        point = self._point(epsilon)
        if self.points and not point[0] > self.points[-1][0]:
            raise LimitExceeded("the f-DP group bound found no tangent far enough out.")
        self.points.append(point)
        self.good.append(False)

    def _point(self, epsilon: float) -> tuple[float, float, float]:
        if len(self.points) >= _MOST_POINTS:
            raise LimitExceeded(f"the f-DP group bound needs more than {_MOST_POINTS} points of the curve.")
        found = self.contours.evaluate(epsilon, wide=_WIDE) if epsilon < self.end else None
        if found is None and self.points:
            self.end = min(self.end, epsilon)
        if found is None or not math.isfinite(found[2]) or not -math.inf < found[3] < 0.0:
            raise LimitExceeded("the spectral engine has no contour for a point of the curve.")
        value, slope = found[2:]
        return epsilon - value - math.log(-slope), epsilon, min(value + math.log1p(-slope), 0.0)


def _slope(rate: float, epsilon: float, power: float) -> float:
    """d log TPR / d log alpha at a point: the share of x alpha in delta + x alpha."""
    return math.exp(min(epsilon - rate - power, -1e-15))


def _log_sum(one: float, other: float) -> float:
    return max(one, other) + math.log1p(math.exp(-abs(one - other)))


def _cubic(left: tuple[float, float, float], right: tuple[float, float, float], rate: float) -> tuple[float, float]:
    """log TPR between two points at -log alpha, and minus its slope there: the slope in log alpha."""
    (a, epsilon, y), (b, other, z) = left, right
    width = b - a
    s, t = -_slope(a, epsilon, y) * width, -_slope(b, other, z) * width
    u = (rate - a) / width
    c, d = 3.0 * (z - y) - 2.0 * s - t, s + t - 2.0 * (z - y)
    return y + u * (s + u * (c + u * d)), -(s + u * (2.0 * c + 3.0 * u * d)) / width
