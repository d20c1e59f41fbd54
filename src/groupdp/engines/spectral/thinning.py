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
        return log_normal_cdf((self.edge - u) / self.width)

    def steepness(self, u: FloatArray) -> FloatArray:
        """|d log chi / du|, increasing in u."""
        t = (u - self.edge) / self.width
        return np.asarray(np.exp(-0.5 * t * t - HALF_LOG_2PI - log_normal_cdf(-t)) / self.width)


def discard(m: FloatArray, log_p: FloatArray, *, width: float, log_budget: float) -> Thinning:
    """The lowest edge that discards at most e^log_budget: each component gets an equal share of the budget.

    Phi(-z) <= e^{-z^2 / 2} / 2 for z >= 0.
    """
    spread = math.sqrt(1.0 + width * width)
    room = log_p + math.log(len(m)) - log_budget - math.log(2.0)
    edge = float(np.max(m + spread * np.sqrt(2.0 * np.maximum(room, 0.0))))
    shares = log_p - math.log(2.0) - 0.5 * np.square((edge - m) / spread)
    return Thinning(edge, width, float(np.logaddexp.reduce(shares)) + 1e-6)


def log_normal_cdf(t: FloatArray) -> FloatArray:
    """log Phi(t), to a few units in the last place of the larger of itself and 1e-16.

    The C library's erfc where it is neither 1 nor close to underflow, the asymptotic series of Mills' ratio beyond.
    """
    result = np.zeros_like(t)
    right = (t > 0.0) & (t < 9.0)
    left = (t <= 0.0) & (t >= -35.0)
    result[right] = [math.log1p(-0.5 * math.erfc(x)) for x in (t[right] / _ROOT_2).tolist()]
    result[left] = [math.log(0.5 * math.erfc(x)) for x in (-t[left] / _ROOT_2).tolist()]
    far = t < -35.0
    x = t[far]
    y = 1.0 / np.square(x)
    # 1 - y + 3 y^2 - 15 y^3 + ...: alternating, the first term left out is below 3e-17 at |t| = 35.
    series = -y * (1.0 - 3.0 * y * (1.0 - 5.0 * y * (1.0 - 7.0 * y * (1.0 - 9.0 * y * (1.0 - 11.0 * y)))))
    result[far] = -0.5 * x * x - HALF_LOG_2PI - np.log(-x) + np.log1p(series)
    return result


_ROOT_2 = math.sqrt(2.0)
