"""The law of one round's loss on a few thousand nodes: what plans are made from. Nothing here is certified."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from groupdp.engines.lattice.likelihood import FloatArray


@dataclass(frozen=True, slots=True)
class RoughLaw:
    """Losses with their weights under P; in each range of `breaks` they increase."""

    loss: FloatArray
    log_weights: FloatArray
    spacing: FloatArray
    """About the distance between neighbouring losses."""
    breaks: tuple[tuple[int, int], ...]

    def cumulant(self, rate: float) -> tuple[float, float, float]:
        """(K, K', K'') of the loss at `rate`."""
        exponents = self.log_weights + rate * self.loss
        top = float(exponents.max())
        with np.errstate(under="ignore"):
            weights = np.exp(exponents - top)
            total = float(weights.sum())
            mean = float(weights @ self.loss) / total
            variance = float(weights @ (self.loss - mean) ** 2) / total
        return top + math.log(total), mean, variance
