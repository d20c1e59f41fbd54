"""What a few certified values of a convex, decreasing function say about it everywhere, rounding included.

Let d >= 0 be convex and decreasing on x > 0, with lower_i <= d(X_i) <= upper_i at places X_i that are known to lie in
[low_i, high_i], high_i < low_{i+1}. Chords extended beyond their ends lie below d (T-6):

    d(x) >= lower_i - (upper_{i-1} - lower_i) / (low_i - high_{i-1}) (x - low_i)             for x >= low_i,
    d(x) >= lower_i + (lower_i - upper_{i+1})_+ / (high_{i+1} - low_i) (low_i - x)           for x <= low_i.

Every line is kept with the point it goes through and is evaluated from there, each operation rounded in the safe
direction: nothing is charged relative to a result in which the parts cancel. The extreme of an objective that is
monotone along lines is bounded piece by piece, on each piece by the best line at its two ends (T-7): where the pieces
end decides how close the bound is, not whether it holds.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


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
        """Below the functions at x >= low_i: the chord that ends at i, extended (also below 0: a line, to be monotone)."""
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


def smallest_sum(minorant: Minorant, weights: FloatArray) -> FloatArray:
    """A lower bound on the smallest d(x) + w x over x > 0, for every w >= 0 of `weights` (T-7)."""
    w = weights[:, None, None]
    ends, values = minorant.pieces()
    result = np.full(len(weights), np.inf)
    objective = np.stack([down(line[None] + down(w * ends[None])) for line in values])
    worst = np.minimum(objective[..., :-1], objective[..., 1:]).max(axis=0)
    if worst.size:
        result = worst.min(axis=(1, 2))
    first, last = minorant.low[0], minorant.low[-1]
    flat = weights[:, None]
    # Beyond the last place: a falling line or 0, whichever is larger; the smallest at the end or where they meet.
    beyond = down(flat * last)
    for f in range(len(minorant.lower)):
        falls, at = minorant.falls[f][None, 1:], minorant.lower[f][None, 1:]
        here = np.array([minorant.right_of(i, last)[f] for i in range(1, len(minorant.low))])[None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            meets = down(minorant.low[None, 1:] + down(at / falls))
            later = np.where(falls > 0.0, down(flat * np.maximum(meets, last)), down(flat * last) + at)
            best = np.where(flat >= falls, down(here + down(flat * last)), np.maximum(later, 0.0))
        if best.size:
            beyond = np.maximum(beyond, np.nan_to_num(best, nan=0.0).max(axis=1, keepdims=True))
    # Before the first place: a line that rises to the left; the smallest at either end.
    before = np.zeros_like(flat)
    for i in range(len(minorant.low)):
        at_zero, at_first = minorant.left_of(i, 0.0), minorant.left_of(i, first)
        ends_of = np.minimum(at_zero[None], down(at_first[None] + down(flat * first)))
        before = np.maximum(before, ends_of.max(axis=1, keepdims=True))
    return np.asarray(np.maximum(np.minimum(result, np.minimum(beyond[:, 0], before[:, 0])), 0.0))


def largest_ratio(minorant: Minorant, heights: FloatArray) -> FloatArray:
    """An upper bound on the largest (c - d(x)) / x over x > 0, for every c of `heights` (T-7)."""
    c = heights[:, None, None]
    ends, values = minorant.pieces()
    result = np.full(len(heights), -np.inf)
    objective = np.stack([_ratio_up(c - line[None], ends[None]) for line in values])
    best = np.maximum(objective[..., :-1], objective[..., 1:]).min(axis=0)
    if best.size:
        result = best.max(axis=(1, 2))
    first, last = minorant.low[0], minorant.low[-1]
    flat = heights[:, None]
    beyond = _ratio_up(flat, last)
    for f in range(len(minorant.lower)):
        falls, at = minorant.falls[f][None, 1:], minorant.lower[f][None, 1:]
        here = np.array([minorant.right_of(i, last)[f] for i in range(1, len(minorant.low))])[None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            meets = np.maximum(down(minorant.low[None, 1:] + down(at / falls)), last)
            later = np.where(falls > 0.0, _ratio_up(flat, np.where(np.isfinite(meets), meets, last)), np.inf)
            worst = np.maximum(_ratio_up(flat - here, last), later)
        if worst.size:
            beyond = np.minimum(beyond, np.nan_to_num(worst, nan=np.inf, posinf=np.inf).min(axis=1, keepdims=True))
    before = np.full_like(flat, np.inf)
    for i in range(len(minorant.low)):
        at_zero, at_first = minorant.left_of(i, 0.0), minorant.left_of(i, first)
        ends_of = np.where(at_zero[None] >= flat, _ratio_up(flat - at_first[None], first), np.inf)
        before = np.minimum(before, ends_of.min(axis=1, keepdims=True))
    return np.asarray(np.maximum(result, np.maximum(beyond[:, 0], before[:, 0])))


def _ratio_up(numerator: FloatArray, x: npt.ArrayLike) -> FloatArray:
    """numerator / x for x > 0, where the numerator has been rounded once: rounded up."""
    with np.errstate(over="ignore", divide="ignore"):
        return up(up(numerator) / np.asarray(x))
