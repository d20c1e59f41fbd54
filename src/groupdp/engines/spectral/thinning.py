"""Thinning: outcomes of the remove direction too rare to matter are discarded, smoothly.

Keep an outcome u of one round with probability chi(u) = Phi((b - u) / w). With P' = chi P and Q' = chi Q, the
kept outcomes have the same losses, and for T rounds (section 5 of docs/numerics.md)

    H(P'^T, Q'^T) <= H(P^T, Q^T) <= H(P'^T, Q'^T) + T eta,
    eta = E_P[1 - chi] = sum_i p_i Phi((m_i - b) / sqrt(1 + w^2)).

So the far right tail of the loss, which inflates E[R^{1+c}] long before it has any influence on delta, is cut off
at a stated price. chi is entire with |chi(u + iy)| <= e^{y^2 / (2 w^2)} chi(u), so the trapezoid rule keeps converging
exponentially.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

FloatArray = npt.NDArray[np.float64]

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True, slots=True)
class Thinning:
    """chi(u) = Phi((edge - u) / width), and the probability it discards."""

    edge: float
    width: float
    log_discarded: float  # log of eta, an upper bound

    def log_keep(self, u: FloatArray) -> FloatArray:
        """log chi(u)."""
        return np.asarray(log_ndtr((self.edge - u) / self.width))

    def steepness(self, u: FloatArray) -> FloatArray:
        """|d log chi / du|, increasing in u."""
        t = (u - self.edge) / self.width
        return np.asarray(np.exp(-0.5 * t * t - HALF_LOG_2PI - log_ndtr(-t)) / self.width)


def discard(m: FloatArray, log_p: FloatArray, *, width: float, log_budget: float) -> Thinning:
    """The lowest edge that discards at most e^log_budget: each component gets an equal share of the budget.

    Phi(-z) <= e^{-z^2 / 2} / 2 for z >= 0.
    """
    spread = math.sqrt(1.0 + width * width)
    room = log_p + math.log(len(m)) - log_budget - math.log(2.0)
    edge = float(np.max(m + spread * np.sqrt(2.0 * np.maximum(room, 0.0))))
    log_discarded = float(np.logaddexp.reduce(log_p + log_ndtr((m - edge) / spread))) + 1e-9
    return Thinning(edge, width, log_discarded)
