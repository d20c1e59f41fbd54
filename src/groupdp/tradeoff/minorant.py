"""What a few certified values of a convex, decreasing function say about it everywhere, rounding included.

Let d >= 0 be convex and decreasing on x > 0, with lower_i <= d(X_i) <= upper_i at places X_i that are known to lie in
[low_i, high_i], high_i < low_{i+1}. Chords extended beyond their ends lie below d (T-6):

    d(x) >= lower_i - (upper_{i-1} - lower_i) / (low_i - high_{i-1}) (x - low_i)             for x >= low_i,
    d(x) >= lower_i + (lower_i - upper_{i+1})_+ / (high_{i+1} - low_i) (low_i - x)           for x <= low_i.

Every line is kept with the point it goes through and is evaluated from there, each operation rounded in the safe
direction: no error is relative to a result in which the parts cancel. The extreme of an objective that is
monotone along lines is bounded piece by piece, on each piece by the best line at its two ends (T-7): where the pieces
end decides how close the bound is, not whether it holds.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from groupdp.floats import FloatArray


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
