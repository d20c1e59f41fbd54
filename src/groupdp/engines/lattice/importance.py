"""How much every loss of one round matters for the answer: what decides where cells are narrow.

Moving the mass at a loss l of one round changes delta(epsilon) in proportion to how likely the other rounds
make up the rest, P(L' > epsilon - l). Before anything is known that is taken to grow like the tilt e^{c l};
after a first solve its survival function is used too. The two differ where the law has a trough, as it does
when the group is rarely sampled: epsilon then lies between losses of no sample and those of one. Nothing
here is certified, nor has to be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from groupdp.engines.lattice.likelihood import FloatArray
from groupdp.engines.lattice.rough_law import RoughLaw

#: Logarithms of probabilities stay above minus this.
_NEVER = 1e9


@dataclass(frozen=True, slots=True)
class Survival:
    """log P(L > x) of the composition, roughly, at increasing x; beyond them it falls like the tilt."""

    losses: FloatArray
    log_values: FloatArray
    rate: float

    def __call__(self, x: FloatArray) -> FloatArray:
        inside = np.interp(x, self.losses, self.log_values)
        outside = np.maximum(x - self.losses[-1], 0.0) - np.maximum(self.losses[0] - x, 0.0)
        with np.errstate(over="ignore"):
            return np.asarray(np.clip(inside - self.rate * outside, -_NEVER, 0.0))


def log_importance(law: RoughLaw, *, rate: float, epsilon: float, survival: Survival | None) -> FloatArray:
    """log of weights at the nodes of a rough law, which sum to 1."""
    loss, log_weights = law.loss, law.log_weights
    tilted = _normalised(log_weights + rate * loss)
    if survival is None:
        return tilted
    surviving = log_weights + survival(epsilon - loss)
    if not float(surviving.max()) > -_NEVER:  # nothing is known there
        return tilted
    return np.asarray(np.logaddexp(tilted, _normalised(surviving)) - math.log(2.0))


def _normalised(log_values: FloatArray) -> FloatArray:
    return np.asarray(log_values - np.logaddexp.reduce(log_values))
