"""How fast the characteristic function of one round's loss falls: a bound for every frequency beyond s.

Layer cake (section 7 of docs/numerics.md): a function below the density f of the loss is cut into rectangles
of width W and height t over intervals. A rectangle's Fourier integral is at most W t env(s W / 2) with

    env(x) = sin(x) / x  for x <= pi / 2,   1 / x  beyond       (non-increasing)

and the mass outside the rectangles at most itself, so that for every frequency of at least s

    |phi| <= 1 - sum_r t_r W_r (1 - env(s W_r / 2)).

Each summand grows with W: widths may be rounded down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from groupdp.engines.spectral.moments import slope_error
from groupdp.engines.spectral.rounds import FloatArray
from groupdp.engines.spectral.tilted import TiltedRound
from groupdp.errors import LimitExceeded

#: Everything here is inequality; this covers all rounding in the sums below.
_ROUNDING = 1.0 - 1e-7
_RECTANGLES = 128
_LARGEST_NUMBER_OF_PEAKS = 12
#: Largest relative error of a slope that is worked with.
_LARGEST_DOUBT = 0.01


@dataclass(frozen=True, slots=True)
class Decay:
    """Rectangles below the density of one round's loss under the tilted law."""

    width: FloatArray
    height: FloatArray
    rounds: float

    def log_bound(self, frequency: FloatArray) -> FloatArray:
        """(number of rounds) * log of a bound on |phi(s)| for all s >= frequency."""
        gap = _one_minus_envelope(0.5 * np.multiply.outer(frequency, self.width))
        captured = np.minimum(gap @ (self.width * self.height) * _ROUNDING, 1.0 - 1e-15)
        return np.asarray(self.rounds * np.log1p(-captured))


def certify(tilted: TiltedRound) -> Decay:
    """Rectangles from a piecewise constant minorant, one cell per node.

    In a cell of width h around the node u the tilted density of u has |d log / du| = |a Psi' - u|, and Psi' changes
    by at most the factor e^{m h / 2} on either side, m the span of the shifts: Psi'' is the variance of a variable on
    that span, so Psi'' <= m (Psi' - smallest shift) <= m Psi' (Bhatia and Davis). So

        f >= f(u) exp(-(h/2) (|a Psi'(u) - u| + |a| Psi'(u) (e^{m h / 2} - 1) + h/2) - m h / 2),

    (with |d log chi / du| at the right end of the cell added, where the round is thinned)
    and the cell is at least h Psi'(u) (1 + e^{-m h / 2}) / 2 wide, since Psi is convex.
    """
    table, a, h = tilted.table, tilted.exponent, tilted.step
    growth = 0.5 * tilted.one_round.span * h
    doubt = slope_error(tilted.one_round, float(np.max(np.abs(table.u[[0, -1]]))))
    if not doubt < _LARGEST_DOUBT:
        raise LimitExceeded("the slopes of the loss are not known well enough: too large exponents for doubles.")
    drift = np.abs(a * table.slope - table.u) + abs(a) * table.slope * (math.expm1(growth) + 2.0 * doubt) + 0.5 * h
    if tilted.one_round.thinning is not None:
        drift += tilted.one_round.thinning.steepness(table.u + 0.5 * h)
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        height = tilted.weight / (h * table.slope) * np.exp(-0.5 * h * drift * (1.0 + 1e-9) - growth)
    # A weight may be too large by its error, a slope too small: the heights must stay below the density.
    height *= 1.0 - 1.01 * doubt - tilted.weight_error
    width = h * table.slope * (1.0 - doubt) * _ROUNDING * 0.5 * (1.0 + math.exp(-growth))
    usable = np.isfinite(height)
    height = np.where(usable, height, 0.0)
    widths, heights = [], []
    for _ in range(_LARGEST_NUMBER_OF_PEAKS):
        peak = _unimodal_part(height)
        order = np.argsort(-peak)
        sorted_peak = peak[order]
        widths.append(np.cumsum(width[order]))
        heights.append(sorted_peak - np.append(sorted_peak[1:], 0.0))
        height = height - peak
        if float(height @ width) < 0.02:
            break
    compressed = [_compress(w, t) for w, t in zip(widths, heights, strict=True)]
    return Decay(np.concatenate([w for w, _ in compressed]), np.concatenate([t for _, t in compressed]), tilted.rounds)


def _unimodal_part(height: FloatArray) -> FloatArray:
    """The largest function below `height` that rises to its highest cell and falls after it."""
    top = int(np.argmax(height))
    left = np.minimum.accumulate(height[top::-1])[::-1]
    right = np.minimum.accumulate(height[top:])
    return np.concatenate((left, right[1:]))


def _compress(width: FloatArray, height: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Fewer rectangles: neighbours in size share the smallest width among them."""
    if len(width) <= _RECTANGLES:
        return width, height
    starts = np.linspace(0, len(width), _RECTANGLES, endpoint=False).astype(int)
    return width[starts], np.add.reduceat(height, starts)


def _one_minus_envelope(x: FloatArray) -> FloatArray:
    """1 - env(x), rounded down by at most 1e-9 of itself."""
    small = x < 0.1
    bent = np.clip(x, 0.1, 0.5 * math.pi)
    curved = np.where(x > 0.5 * math.pi, 1.0 - 1.0 / np.maximum(x, 1.0), 1.0 - np.sin(bent) / bent)
    # 1 - sin(x) / x >= x^2 / 6 - x^4 / 120
    return np.where(small, x * x * (1.0 / 6.0 - x * x / 120.0), curved)
