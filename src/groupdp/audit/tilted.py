"""One round's exponentially tilted law: its normaliser, and exact draws from it.

In units of the noise, R(u) = sum_i p_i exp(m_i u - m_i^2 / 2) is the likelihood ratio of one round and phi the standard
normal density. P has the density R phi and L = log R; backwards P has phi, and L = -log R.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from groupdp.errors import LimitExceeded
from groupdp.floats import FloatArray
from groupdp.neighbours import BACKWARD, FORWARD
from groupdp.samplings.audited import log_mixture_ratio

#: Most terms of a table (nodes of a quadrature or grid x components of the mixture).
MOST_TERMS = 100_000_000
#: Cells of the envelope.
CELLS = 1 << 12
#: Integration stops where the density is below e^-84 of its peak (a normal tail at 13), drawing at e^-60.
_TAIL = 13.0
_DRAWN = 60.0
_PANEL_NODES, _PANEL_WEIGHTS = np.polynomial.legendre.leggauss(20)


class RoundLaw:
    """One round in units of its noise: shifts i * unit with log-probabilities."""

    def __init__(self, unit: float, log_weights: FloatArray) -> None:
        self.log_weights = log_weights
        self.shifts = unit * np.arange(len(log_weights), dtype=np.float64)
        self.largest_shift = float(self.shifts[np.flatnonzero(log_weights > -math.inf)[-1]])
        self.log_absence = float(log_weights[0])  # log p_0, the infimum of log R

    def log_ratio(self, u: FloatArray) -> FloatArray:
        """log R(u)."""
        return log_mixture_ratio(u, self.shifts, self.log_weights)

    def mean_shift(self, u: FloatArray) -> FloatArray:
        """(log R)'(u): the mean of the shifts under their posterior given u."""
        level, mean = self.log_ratio(u), np.zeros_like(u)
        for shift, log_weight in zip(self.shifts.tolist(), self.log_weights.tolist(), strict=True):
            mean += shift * np.exp(log_weight + shift * u - shift * shift / 2.0 - level)
        return mean


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedTilt:
    """exp(rate * min(L, cap)), in one direction."""

    direction: str
    rate: float
    cap: float = math.inf

    def log_density(self, log_ratio: FloatArray, u: FloatArray) -> FloatArray:
        """Logarithm of the tilted density, without its normaliser and without 1 / sqrt(2 pi)."""
        if self.direction == BACKWARD:
            return np.asarray(-self.rate * log_ratio - u * u / 2.0)
        return np.asarray(log_ratio + self.rate * np.minimum(log_ratio, self.cap) - u * u / 2.0)

    @property
    def exponents(self) -> tuple[float, float]:
        """The power of R below and above the cap."""
        return (-self.rate, -self.rate) if self.direction == BACKWARD else (1.0 + self.rate, 1.0)


def log_normaliser(law: RoundLaw, tilt: CappedTilt) -> float:
    """K = log E_P[exp(c min(L, a))], by Gauss-Legendre panels on both sides of the cap.

    The integrand is analytic where |Im u| m_max < pi / 2; panels of half-width 1 / (4 m_max sqrt(1 + |w|)) with 20
    nodes leave only rounding.
    """
    low, kink, high = _range(law, tilt)
    scale = max(1.0, law.largest_shift) * math.sqrt(1.0 + abs(tilt.exponents[0]))
    pieces = []
    for left, right in ((low, kink), (kink, high)):
        panels = math.ceil(2.0 * scale * (right - left))
        _require_few(panels * len(_PANEL_NODES), law)
        if panels == 0:
            continue
        half = (right - left) / panels / 2.0
        centres = left + half * (2.0 * np.arange(panels) + 1.0)
        u = (centres[:, None] + half * _PANEL_NODES).ravel()
        pieces.append((tilt.log_density(law.log_ratio(u), u), np.tile(half * _PANEL_WEIGHTS, panels)))
    peak = max(float(values.max()) for values, _ in pieces)
    total = math.fsum(float(np.sum(weights * np.exp(values - peak))) for values, weights in pieces)
    return peak + math.log(total) - 0.5 * math.log(2.0 * math.pi)


class TiltedRound:
    """Exact draws from a tilted round up to tails below 1e-20, by rejection from a piecewise constant envelope."""

    def __init__(self, law: RoundLaw, tilt: CappedTilt) -> None:
        self._law, self._tilt = law, tilt
        low, high = _where_it_is(law, tilt)
        self._width = (high - low) / CELLS
        self._left = low + self._width * np.arange(CELLS, dtype=np.float64)
        self._ceiling = self._ceilings(self._left + self._width / 2.0)
        masses = np.cumsum(np.exp(self._ceiling - self._ceiling.max()))
        self._below = masses[:-1] / masses[-1]  # the probability of all cells up to this one

    def _ceilings(self, middle: FloatArray) -> FloatArray:
        """h <= h(middle) + |h'| D / 2 + sup h'' D^2 / 8 on a cell of width D, h the log density.

        h' = w (log R)' - u, with w the power of R on the middle's side of the cap, or the worse of the two powers in
        cells that the cap may cut.
        """
        log_ratio, mean = self._law.log_ratio(middle), self._law.mean_shift(middle)
        below, above = self._tilt.exponents
        slope_below, slope_above = np.abs(below * mean - middle), np.abs(above * mean - middle)
        reach = self._law.largest_shift * self._width / 2.0
        slope = np.where(log_ratio < self._tilt.cap, slope_below, slope_above)
        slope = np.where(np.abs(log_ratio - self._tilt.cap) <= reach, np.maximum(slope_below, slope_above), slope)
        rise = slope * self._width / 2.0 + _bend(self._law, self._tilt) * self._width**2 / 8.0
        if float(np.min(rise)) > 3.0:
            raise LimitExceeded("Importance sampling cannot draw from a law this narrow: raise the noise multiplier.")
        values = self._tilt.log_density(log_ratio, middle)
        return np.asarray(values + rise + 1e-9 + 1e-12 * np.abs(values))  # the last terms cover rounding

    def draw(self, generator: np.random.Generator, count: int) -> FloatArray:
        """The loss at `count` independent draws."""
        sign = 1.0 if self._tilt.direction == FORWARD else -1.0
        result = np.empty(count)
        filled = 0
        while filled < count:
            wanted = count - filled
            proposals = wanted + wanted // 16 + 16
            cell = np.searchsorted(self._below, generator.random(proposals), side="right")
            u = self._left[cell] + self._width * generator.random(proposals)
            log_ratio = self._law.log_ratio(u)
            height = self._tilt.log_density(log_ratio, u) - self._ceiling[cell]
            if height.max() > 0.0:
                raise AssertionError("the envelope must be above the density")
            accepted = log_ratio[-generator.standard_exponential(proposals) <= height][:wanted]
            result[filled : filled + len(accepted)] = sign * accepted
            filled += len(accepted)
        return result


def _range(law: RoundLaw, tilt: CappedTilt) -> tuple[float, float, float]:
    """(low, where the cap is, high): outside [low + 13, high - 13] the density falls at least like a normal one.

    Every mode is between min(0, w m_max) and max(0, w m_max), since 0 <= (log R)' <= m_max.
    """
    below, above = tilt.exponents
    reach = below * law.largest_shift
    low, high = min(0.0, reach) - _TAIL, max(0.0, reach)
    kink = math.inf
    if math.isfinite(tilt.cap):
        kink = _inverse(law, tilt.cap)
        high = max(above * law.largest_shift, min(high, kink))
    high += _TAIL
    return low, min(max(kink, low), high), high


def _require_few(nodes: int, law: RoundLaw) -> None:
    terms = nodes * len(law.log_weights)
    if terms > MOST_TERMS:
        raise LimitExceeded(
            f"Importance sampling would need {terms:.1e} terms, at most {MOST_TERMS:.0e} are allowed: "
            "ask for more noise, a smaller group or a smaller epsilon."
        )


def _bend(law: RoundLaw, tilt: CappedTilt) -> float:
    """A bound on |h''| = |w (log R)'' - 1|, away from the cap: (log R)'' is a variance on [0, m_max]."""
    return max(1.0, max(map(abs, tilt.exponents)) * law.largest_shift**2 / 4.0)


def _where_it_is(law: RoundLaw, tilt: CappedTilt) -> tuple[float, float]:
    """An interval outside of which the density is below e^-59 of its peak.

    The grid is at least as fine as the narrowest peak, so it finds the highest one to within a factor e^(1/8).
    """
    low, _, high = _range(law, tilt)
    count = max(4096, math.ceil((high - low) * math.sqrt(_bend(law, tilt))) + 1)
    _require_few(count, law)
    grid = np.linspace(low, high, count)
    values = tilt.log_density(law.log_ratio(grid), grid)
    kept = np.flatnonzero(values > values.max() - _DRAWN)
    margin = float(grid[1] - grid[0])
    return float(grid[kept[0]]) - margin, float(grid[kept[-1]]) + margin


def _inverse(law: RoundLaw, value: float) -> float:
    """u with log R(u) = value > log p_0, by bisection."""
    low, high = -1.0, 1.0
    while law.log_ratio(np.array([high]))[0] < value:
        high *= 2.0
    while law.log_ratio(np.array([low]))[0] > value:
        low *= 2.0
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if law.log_ratio(np.array([middle]))[0] < value else (low, middle)
    return high
