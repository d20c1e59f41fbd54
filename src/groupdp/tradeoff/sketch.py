"""Trade-off curves at a modest accuracy: delta sampled once, every rate bounded from the samples around its tangent.

The bounds are as certified as any (they are those of `enclosure`, from other samples), only wider.
"""

from __future__ import annotations

import math

import numpy as np

from groupdp.tradeoff.enclosure import (
    Curves,
    Level,
    Values,
    false_negative_rates,
    locate,
    log_false_positive_level,
    log_true_positive_level,
    true_positive_rates,
)
from groupdp.tradeoff.minorant import FloatArray

#: Samples on either side of a tangent that its bounds are made from.
_AROUND = 4
_MOST_SAMPLES = 400


class Sketch:
    """Samples of delta of a few curves, dense enough for the rates in a range."""

    def __init__(self, curves: Curves, level: Level, targets: FloatArray, tolerance: float) -> None:
        self.curves = curves
        ends = [
            locate(curve, level, target, 0.0)[0]
            for curve in curves
            for target in (float(targets.min()), float(targets.max()))
        ]
        low, high = min(ends), max(ends)
        # Samples whose log level differs by s bound a rate to about s^2 / 8.
        wanted = float(np.ptp(targets)) / min(math.sqrt(8.0 * tolerance), 0.5)
        count = int(min(max(wanted, 16.0), _MOST_SAMPLES))
        apart = max((high - low) / count, 1e-6)
        self.samples: FloatArray = low + apart * np.arange(-_AROUND, count + _AROUND + 1, dtype=np.float64)
        for curve in curves:
            curve.sample(self.samples, 1e-4 * tolerance)
        self.logs = np.array([max(curve.log_delta(float(at))[1] for curve in curves) for at in self.samples])

    @classmethod
    def for_true_positive_rates(cls, curves: Curves, log_alphas: FloatArray, tolerance: float) -> Sketch:
        """Samples for rates of the first duality."""
        return cls(curves, log_false_positive_level, log_alphas, tolerance)

    @classmethod
    def for_false_negative_rates(cls, mirrored: Curves, log_gammas: FloatArray, tolerance: float) -> Sketch:
        """Samples for rates of the second duality: of the reversed pairs."""
        return cls(mirrored, log_true_positive_level, log_gammas, tolerance)

    def true_positive_rate(self, log_alpha: float, room: float) -> tuple[float, float]:
        """(lower, upper) of log TPR, log alpha being off by up to `room`."""
        best = int(np.argmin(np.logaddexp(self.logs, self.samples + log_alpha)))
        lower, upper = true_positive_rates(self._values(best, log_alpha), np.array([log_alpha]), np.array([room]))
        return float(lower[0]), float(upper[0])

    def false_negative_rate(self, low: float, high: float) -> tuple[float, float]:
        """(lower, upper) of log f for gamma = 1 - alpha in [low, high]."""
        log_gamma = math.log(high)
        with np.errstate(divide="ignore", under="ignore"):
            shares = np.log1p(-np.exp(np.minimum(self.logs - log_gamma, 0.0))) - self.samples
        values = self._values(int(np.argmax(shares)), log_gamma)
        lower, upper = false_negative_rates(values, np.array([low]), np.array([high]))
        return float(lower[0]), float(upper[0])

    def _values(self, best: int, fallback: float) -> Values:
        around = self.samples[max(best - _AROUND, 0) : best + _AROUND + 1]
        return Values.at(self.curves, [float(at) for at in around], float(self.samples[best]), fallback)
