"""Where to start a search: the central limit of the privacy loss. Nothing here is part of a proof."""

from __future__ import annotations

import math

import numpy as np

from groupdp.reductions import Composition

#: Components looked at per mixture: a start need not be better than that.
_MOST_COMPONENTS = 128


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The mu for which a mu-GDP mechanism has that epsilon at that delta, roughly."""
    low, high = math.log(1e-12), math.log(1e12)
    for _ in range(60):
        middle = 0.5 * (low + high)
        mu = math.exp(middle)
        first = _log_normal(0.5 * mu - epsilon / mu)
        second = _log_normal(-0.5 * mu - epsilon / mu) + epsilon
        gap = second - first
        log_delta = first + (math.log(-math.expm1(gap)) if gap < 0.0 else -math.inf)
        low, high = (middle, high) if log_delta < math.log(delta) else (low, middle)
    return math.exp(0.5 * (low + high))


def composed_mu(composition: Composition, noise_factor: float = 1.0) -> float:
    """sqrt(sum_j T_j chi^2_j), chi^2 the divergence of one round's mixture from the plain Gaussian."""
    total = 0.0
    for mixture, rounds in composition:
        if mixture.standard_deviation == 0.0:
            return math.inf
        mode = int(np.argmax(mixture.probabilities))
        kept = slice(max(mode - _MOST_COMPONENTS // 2, 0), mode + _MOST_COMPONENTS // 2)
        p = mixture.probabilities[kept]
        m = mixture.sensitivities[kept] / (mixture.standard_deviation * noise_factor)
        total += rounds * float(p @ np.expm1(np.minimum(np.multiply.outer(m, m), 300.0)) @ p)
    return math.sqrt(total)


def noise_factor_for(composition: Composition, mu: float) -> float:
    """The factor on all noise at which the central limit has this mu."""
    low, high = math.log(1e-9), math.log(1e21)
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if composed_mu(composition, math.exp(middle)) > mu else (low, middle)
    return math.exp(0.5 * (low + high))


def _log_normal(z: float) -> float:
    """log Phi(z), roughly; by Mills' ratio where erfc would underflow."""
    if z > -30.0:
        return math.log(0.5 * math.erfc(-z / math.sqrt(2.0)))
    return -0.5 * z * z - math.log(-z) - 0.5 * math.log(2.0 * math.pi) - 1.0 / (z * z)
