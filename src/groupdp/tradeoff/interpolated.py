"""log TPR of one curve between points of it, without a claim: where a search starts.

The point at epsilon has the rates log alpha = log delta + log(-s) - eps and log TPR = log delta + log(1 - s), s the
slope of log delta; there d log TPR / d log alpha = e^{eps + log alpha - log TPR}. Between two points log TPR is the
cubic with these values and slopes, and the slope of the cubic gives epsilon back.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from contextlib import suppress

from groupdp.engines import spectral
from groupdp.errors import LimitExceeded
from groupdp.tradeoff.delta_curve import Contours

#: A cubic whose middle is right to this much in log TPR is as good as the curve.
_ACCURACY = 1e-6
#: Points of one curve, steps beyond the last of them, and halvings of a step that contours refuse.
_MOST_POINTS, _MOST_STEPS, _MOST_HALVINGS = 2000, 60, 6
#: Parts of an epsilon at which a curve may begin, the first where its slope is not lost.
_FIRST = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)
#: A contour serves a point it is as wide at, relative to log delta.
_WIDE = 1e-7


class Interpolated:
    """Points of one curve in the order of epsilon, made where they are needed."""

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
