"""What a few certified values of a convex, decreasing function say about it everywhere.

Let d be convex and decreasing on x > 0 with lower_i <= d(x_i) <= upper_i at x_0 < ... < x_n. Then

    d(x) >= lower_i + (lower_i - upper_{i-1}) / (x_i - x_{i-1}) (x - x_i)          for x >= x_i,
    d(x) >= lower_i + (upper_{i+1} - lower_i) / (x_{i+1} - x_i) (x - x_i)          for x <= x_i,
    d(x) >= lower_{i+1}  for x <= x_{i+1},        d(x) >= 0.

Chords extended beyond their ends: with x_i close together these are second-order accurate, so that the minimum of
d(x) + a x (a trade-off function, by duality) is enclosed almost as narrowly as the values themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Line = tuple[float, float]  # intercept, slope


@dataclass(frozen=True, slots=True)
class Values:
    """Certified values at increasing x."""

    x: Sequence[float]
    lower: Sequence[float]
    upper: Sequence[float]

    def lines_between(self, i: int) -> list[Line]:
        """Lines below the function on [x_{i-1}, x_i]; x_{-1} = 0 and x_{n+1} = infinity.

        The nearest chords, and outside all points every chord: values far from the optimum may be poor.
        """
        last = len(self.x) - 1
        if i == 0:
            chords = [_line(self.x[j], self.lower[j], self.x[j + 1], self.upper[j + 1]) for j in range(last)]
            return [(0.0, 0.0), (self.lower[0], 0.0), *chords]
        if i == last + 1:
            chords = [_line(self.x[j], self.lower[j], self.x[j - 1], self.upper[j - 1]) for j in range(1, last + 1)]
            return [(0.0, 0.0), *chords]
        lines: list[Line] = [(0.0, 0.0)]
        if i <= last:
            lines.append((self.lower[i], 0.0))
        if i >= 2:  # the chord on the left, extended to the right
            lines.append(_line(self.x[i - 1], self.lower[i - 1], self.x[i - 2], self.upper[i - 2]))
        if i + 1 <= last:  # the chord on the right, extended to the left
            lines.append(_line(self.x[i], self.lower[i], self.x[i + 1], self.upper[i + 1]))
        return lines


def _line(x0: float, y0: float, x1: float, y1: float) -> Line:
    slope = (y1 - y0) / (x1 - x0)
    return y0 - slope * x0, slope


def extreme_below(functions: Sequence[Values], objective: Callable[[float, float], float], *, smallest: bool) -> float:
    """min (or max) over x > 0 of objective(x, m(x)), m the best minorant known of the larger of the functions.

    All functions are known at the same x. Between neighbouring x, m is the largest of a few lines, and the extreme of
    an objective that is monotone along every line (affine, or affine over x) lies at an end or where lines cross.
    """
    x = functions[0].x
    best = math.inf if smallest else -math.inf
    for i in range(len(x) + 1):
        lines = [line for one in functions for line in one.lines_between(i)]
        low = x[i - 1] if i > 0 else 0.0
        high = x[i] if i < len(x) else math.inf
        candidates = [end for end in (low, high) if 0.0 <= end < math.inf]
        for j, (a, b) in enumerate(lines):
            for c, d in lines[:j]:
                if b != d:
                    crossing = (c - a) / (b - d)
                    if low < crossing < high:
                        candidates.append(crossing)
        for at in candidates:
            value = objective(at, max(a + b * at for a, b in lines))
            best = min(best, value) if smallest else max(best, value)
    return best
