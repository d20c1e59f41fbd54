"""delta far below 1 / trials, by importance sampling: a check of the accountant's arithmetic, not a black-box audit.

Draws the worst case's privacy loss L = sum_j L_j under the tilt e^(c min(L_j, a)) of every round j, with normaliser K:

    delta(epsilon) = kappa(c) e^(K - c epsilon) E_c[Y],   kappa(c) = c^c / (1 + c)^(1 + c),
    Y = e^(c epsilon - c sum_j min(L_j, a)) (1 - e^(epsilon - L))_+ / kappa(c),   0 <= Y <= 1   (docs/trust.md)

In units of the noise, R(u) = sum_i p_i exp(m_i u - m_i^2 / 2) is the likelihood ratio of one round and phi the standard
normal density. P has the density R phi and L = log R; backwards P has phi, and L = -log R.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from groupdp.audit.lower_bounds import require_confidence
from groupdp.audit.simulation import Progress
from groupdp.errors import InvalidArgument, InWords, LimitExceeded, require_integer, require_number
from groupdp.floats import FloatArray
from groupdp.mechanisms.dpsgd import DPSGD, phases_of
from groupdp.neighbours import BACKWARD, FORWARD, Change, require_direction
from groupdp.printing import given
from groupdp.samplings.audited import IndependentSums, log_mixture_ratio

#: Terms (samples x rounds x components) of a sampling; components of a mixture (group size + 1, or batch size + 1); and
#: terms of a table (nodes of a quadrature or of a grid, times components).
LARGEST_SAMPLING, MOST_COMPONENTS, MOST_TERMS = 10**12, 2000, 100_000_000
_CHUNK = 1 << 15
#: The tilt is looked for in this range.
_TILTS = (1e-3, 1e3)
#: Cells of the envelope.
CELLS = 1 << 12
#: Integration stops where the density is below e^-84 of its peak (a normal tail at 13), drawing at e^-60.
_TAIL, _DRAWN = 13.0, 60.0
_PANEL_NODES, _PANEL_WEIGHTS = np.polynomial.legendre.leggauss(20)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportanceEstimate:
    """delta at `epsilon` for one direction, with an interval of the stated confidence. A check of the numerics."""

    direction: str
    epsilon: float
    log_delta: float
    """Logarithm of the estimate; -inf if no draw exceeded epsilon."""
    log_lower: float
    log_upper: float
    confidence: float
    samples: int
    tilt: float

    @property
    def delta(self) -> float:
        """The estimate; 0 where it is below the smallest double."""
        return math.exp(self.log_delta)

    @property
    def lower(self) -> float:
        """Lower end of the interval."""
        return math.exp(self.log_lower)

    @property
    def upper(self) -> float:
        """Upper end of the interval."""
        return math.exp(self.log_upper)


def importance_delta(
    run: Any,
    *,
    group_size: int,
    epsilon: float,
    direction: str,
    samples: int = 1_000_000,
    confidence: float = 0.999,
    seed: int = 0,
    progress: Progress | None = None,
) -> ImportanceEstimate:
    """Estimate the worst case's delta at `epsilon`; the interval is the empirical Bernstein bound."""
    side = require_direction(direction)
    at = require_number("epsilon", epsilon, at_least=0.0)
    count = require_integer("samples", samples, at_least=2)
    sure = require_confidence(confidence)
    laws = _laws(run, require_integer("group_size", group_size, at_least=1))
    _require_few(max((len(law.shifts) for law, _ in laws), default=1), MOST_COMPONENTS, "components of a mixture")
    terms = count * sum(repeats * len(law.log_weights) for law, repeats in laws)
    _require_few(terms, LARGEST_SAMPLING, "terms (samples x steps x components)")
    absent = sum(law.log_absence * repeats for law, repeats in laws)
    about: dict[str, Any] = {"direction": side, "epsilon": at, "confidence": sure}
    if not laws or (side == BACKWARD and at >= -absent):  # the loss cannot exceed epsilon
        nothing: Any = dict.fromkeys(("log_delta", "log_lower", "log_upper"), -math.inf)
        return ImportanceEstimate(**about, samples=0, tilt=1.0, **nothing)

    def tilt_at(rate: float) -> CappedTilt:
        cap = at - absent - _log_kappa(rate) / rate if side == FORWARD else math.inf
        return CappedTilt(direction=side, rate=rate, cap=cap)

    def log_scale(rate: float) -> float:
        try:
            cumulant = sum(repeats * log_normaliser(law, tilt_at(rate)) for law, repeats in laws)
        except LimitExceeded:
            return math.inf
        return cumulant - rate * at + _log_kappa(rate)

    rate = _best_tilt(log_scale)
    scale, tilt = log_scale(rate), tilt_at(rate)
    tilted = [(TiltedRound(law, tilt), repeats) for law, repeats in laws]
    root = np.random.SeedSequence([require_integer("seed", seed, at_least=0), 0x711])
    total = squares = 0.0
    for index, start in enumerate(range(0, count, _CHUNK)):
        size = min(_CHUNK, count - start)
        generator = np.random.default_rng(np.random.SeedSequence(entropy=root.entropy, spawn_key=(index,)))
        loss, capped = np.zeros(size), np.zeros(size)
        for law, repeats in tilted:
            for _ in range(repeats):
                losses = law.draw(generator, size)
                loss += losses
                capped += np.minimum(losses, tilt.cap)
        y = np.exp(np.where(loss > at, rate * (at - capped) - _log_kappa(rate), -np.inf))
        y *= -np.expm1(-np.maximum(loss - at, 0.0))
        if y.max() > 1.0 + 1e-9:
            raise AssertionError("importance weights must lie in [0, 1]")
        total, squares = total + float(y.sum()), squares + float(y @ y)
        if progress is not None:
            progress((start + size) / count)
    mean = total / count
    variance = max(squares - total * mean, 0.0) / (count - 1)
    rounding = 1e-10 + 1e-12 * sum(repeats for _, repeats in laws)  # of the normaliser, in log delta
    margin = _bernstein(variance, count, (1.0 - sure) / 2.0)
    return ImportanceEstimate(
        **about,
        log_delta=scale + _log(mean),
        log_lower=scale + _log(mean - margin) - rounding,
        log_upper=min(0.0, scale + _log(mean + margin) + rounding),
        samples=count,
        tilt=rate,
    )


def _laws(run: Any, group_size: int) -> list[tuple[RoundLaw, int]]:
    for phase in phases_of(run):
        if phase.microbatch_size != 1 or phase.noise_multiplier == 0.0:
            found = f"noise_multiplier {given(phase.noise_multiplier)} and microbatch_size {phase.microbatch_size}"
            raise InvalidArgument("run", InWords(found), "have noise and microbatch_size 1 to be sampled")
    return [(law_of(phase, group_size=group_size), phase.steps) for phase in phases_of(run) if phase.steps > 0]


def law_of(phase: DPSGD, *, group_size: int) -> RoundLaw:
    """One round of a phase, if it is one mixture against a Gaussian, and does not depend on other rounds."""
    phase.sampling.require_adjacency(FORWARD)
    change = Change(FORWARD, group_size, 0)
    first, second = (dataset.releases for dataset in phase.sampling.audited_datasets(change, ordinary_examples=1))
    if not (isinstance(first, IndependentSums) and isinstance(second, IndependentSums) and len(second.values) == 1):
        found = InWords(phase.sampling.title)
        raise InvalidArgument("run", found, "be one mixture against one Gaussian in every round")
    return RoundLaw((first.values - second.values[0]) / phase.noise_multiplier, first.log_weights)


def _best_tilt(log_scale: Any) -> float:
    """About where a unimodal function of the tilt is smallest: any tilt is valid, a good one shortens the interval."""
    low, high = _TILTS
    while high > 1.01 * low:
        rates = np.geomspace(low, high, 9)
        best = int(np.argmin([log_scale(float(rate)) for rate in rates]))
        low, high = float(rates[max(best - 1, 0)]), float(rates[min(best + 1, 8)])
    return math.sqrt(low * high)


def _bernstein(variance: float, samples: int, alpha: float) -> float:
    """Maurer and Pontil 2009, theorem 4: a one-sided margin at level 1 - alpha for means of values in [0, 1]."""
    logarithm = math.log(2.0 / alpha)
    return math.sqrt(2.0 * variance * logarithm / samples) + 7.0 * logarithm / (3.0 * (samples - 1))


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf


def _log_kappa(tilt: float) -> float:
    return tilt * math.log(tilt) - (1.0 + tilt) * math.log1p(tilt)


class RoundLaw:
    """One round in units of its noise: increasing shifts with log-probabilities."""

    def __init__(self, shifts: FloatArray, log_weights: FloatArray) -> None:
        self.shifts, self.log_weights = shifts, log_weights
        self.largest_shift = float(shifts[-1])
        # log p_0, the infimum of log R
        self.log_absence = float(log_weights[0]) if shifts[0] == 0.0 else -math.inf

    def log_ratio(self, u: FloatArray) -> FloatArray:
        """log R(u)."""
        return log_mixture_ratio(u, self.shifts, self.log_weights)

    def mean_shift(self, u: FloatArray) -> FloatArray:
        """(log R)'(u): the mean of the shifts under their posterior given u."""
        logs = np.outer(self.shifts, u) + (self.log_weights - self.shifts**2 / 2.0)[:, None]
        return np.asarray(self.shifts @ np.exp(logs - self.log_ratio(u)))


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

    def bend(self, law: RoundLaw) -> float:
        """A bound on |h''| = |w (log R)'' - 1|, away from the cap: (log R)'' is a variance on [0, m_max]."""
        return max(1.0, max(map(abs, self.exponents)) * law.largest_shift**2 / 4.0)


def log_normaliser(law: RoundLaw, tilt: CappedTilt) -> float:
    """K = log E_P[exp(c min(L, a))], by Gauss-Legendre panels on both sides of the cap.

    It is analytic where |Im u| m_max < pi / 2: 20 nodes in half-widths 1 / (4 m_max sqrt(1 + |w|)) leave only rounding.
    """
    low, kink, high = _range(law, tilt)
    scale = max(1.0, law.largest_shift) * math.sqrt(1.0 + abs(tilt.exponents[0]))
    parts = []
    for left, right in ((low, kink), (kink, high)):
        panels = math.ceil(2.0 * scale * (right - left))
        _require_few(panels * len(_PANEL_NODES) * len(law.shifts), MOST_TERMS, "terms of a quadrature")
        half = (right - left) / max(panels, 1) / 2.0
        centres = left + half * (2.0 * np.arange(panels) + 1.0)
        parts.append(((centres[:, None] + half * _PANEL_NODES).ravel(), np.tile(half * _PANEL_WEIGHTS, panels)))
    u, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
    values = tilt.log_density(law.log_ratio(u), u)
    peak = float(values.max())
    return peak + math.log(float(weights @ np.exp(values - peak))) - 0.5 * math.log(2.0 * math.pi)


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
        rise = slope * self._width / 2.0 + self._tilt.bend(self._law) * self._width**2 / 8.0
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


def _require_few(number: float, most: float, what: str) -> None:
    if number > most:
        raise LimitExceeded(
            f"Importance sampling takes at most {most:.3g} {what}, here it would take {number:.3g}: ask for more "
            "noise, a smaller group or a smaller epsilon."
        )


def _where_it_is(law: RoundLaw, tilt: CappedTilt) -> tuple[float, float]:
    """An interval outside of which the density is below e^-59 of its peak.

    The grid is at least as fine as the narrowest peak, so it finds the highest one to within a factor e^(1/8).
    """
    low, _, high = _range(law, tilt)
    count = max(4096, math.ceil((high - low) * math.sqrt(tilt.bend(law))) + 1)
    _require_few(count * len(law.shifts), MOST_TERMS, "terms of a grid")
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
