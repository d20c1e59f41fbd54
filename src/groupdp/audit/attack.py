"""The optimal attack on a worst case: the exact log-likelihood ratio of the released iterates.

    log p(theta_1, ..., theta_T | with the group) - log p(theta_1, ..., theta_T | without it)

Its level sets are the most powerful tests (Neyman and Pearson), so for the pair (with, without), "remove",
the privacy loss is this ratio, and for the pair (without, with), "add", its negative.

The weights of the mixture are computed here, from binomial coefficients in exact rational arithmetic where
that is possible, and share nothing with the accountant.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from groupdp.audit.worst_cases import WorstCase
from groupdp.dpsgd import DPSGD
from groupdp.errors import InvalidArgument
from groupdp.samplings import FixedBatchSampling

FloatArray = npt.NDArray[np.float64]

#: Largest population (examples that may be drawn) whose weights are computed in exact rationals.
LARGEST_EXACT = 1000


def presence_log_probabilities(phase: DPSGD, *, group_size: int) -> FloatArray:
    """log P(i of the group's k examples are in a round's batch), i = 0, 1, ...

    Poisson:        C(k, i) q^i (1 - q)^(k - i)
    fixed batches:  C(k, i) C(n, B - i) / C(n + k, B)

    In exact rationals up to a population of a thousand; beyond, from sums of logarithms.
    """
    k = group_size
    if isinstance(phase.sampling, FixedBatchSampling):
        batch, ordinary = phase.sampling.batch_size, phase.sampling.dataset_size
        if ordinary + k > LARGEST_EXACT:
            return _hypergeometric_logarithms(batch, ordinary, k)
        whole = math.comb(ordinary + k, batch)
        weights = [Fraction(math.comb(k, i) * math.comb(ordinary, batch - i), whole) for i in range(min(k, batch) + 1)]
    else:
        rate = phase.sampling.values()["sampling_rate"]
        if k > LARGEST_EXACT:
            return _binomial_logarithms(k, rate)
        q = Fraction(rate)
        weights = [math.comb(k, i) * q**i * (1 - q) ** (k - i) for i in range(k + 1)]
    return np.array([_log(weight) for weight in weights])


def log_likelihood_ratio(iterates: FloatArray, instance: WorstCase) -> FloatArray:
    """log p(iterates | with the group) - log p(iterates | without it), for every trial.

    `iterates` has shape (T + 1, trials, 1), as `train_many` releases them. Every round adds
        log sum_i p_i exp((2 x c_i - c_i^2) / (2 sigma^2))
    at x = (theta_i - theta_{i-1}) / (eta L), shifted by B for fixed batches; c_i = i (Poisson) or 2 i
    (fixed).
    """
    moves = np.diff(iterates[:, :, 0], axis=0) / (instance.step_size * instance.clipping_norm)
    ratio = np.zeros(iterates.shape[1])
    start = 0
    for phase in instance.run:
        sigma = phase.noise_multiplier
        if sigma == 0.0:
            raise InvalidArgument("noise_multiplier must be above 0 to attack a run, got 0.0.")
        log_weights = presence_log_probabilities(phase, group_size=instance.group_size)
        unit, shift = 1.0, 0.0
        if isinstance(phase.sampling, FixedBatchSampling):
            unit, shift = 2.0, float(phase.sampling.batch_size)
        for move in moves[start : start + phase.steps]:
            ratio += mixture_log_ratio((move + shift) / sigma, unit / sigma, log_weights)
        start += phase.steps
    return ratio


def mixture_log_ratio(u: FloatArray, unit: float, log_weights: FloatArray) -> FloatArray:
    """log sum_i p_i exp(m_i u - m_i^2 / 2) with m_i = i * unit: one round, in units of the noise."""
    terms = [(i * unit, log_weight) for i, log_weight in enumerate(log_weights.tolist()) if log_weight > -math.inf]
    largest = np.full_like(u, -math.inf)
    for shift, log_weight in terms:
        np.maximum(largest, shift * u + (log_weight - shift * shift / 2.0), out=largest)
    total = np.zeros_like(u)
    for shift, log_weight in terms:
        total += np.exp(shift * u + (log_weight - shift * shift / 2.0) - largest)
    return np.asarray(largest + np.log(total))


def _binomial_logarithms(k: int, rate: float) -> FloatArray:
    if rate == 1.0:
        return np.concatenate([np.full(k, -math.inf), [0.0]])
    i = np.arange(k, dtype=np.float64)
    choices = np.concatenate([[0.0], np.cumsum(np.log((k - i) / (i + 1.0)))])
    present = np.arange(k + 1, dtype=np.float64)
    return np.asarray(choices + present * math.log(rate) + (k - present) * math.log1p(-rate))


def _hypergeometric_logarithms(batch: int, ordinary: int, k: int) -> FloatArray:
    short, long = min(k, batch), max(k, batch)
    # C(n + k - B, k) / C(n + k, k), symmetric in k and B.
    nobody = math.fsum(math.log1p(-long / (ordinary + k - j)) for j in range(short))
    i = np.arange(short, dtype=np.float64)
    ratios = (k - i) * (batch - i) / ((i + 1.0) * (ordinary - batch + i + 1.0))
    return np.asarray(nobody + np.concatenate([[0.0], np.cumsum(np.log(ratios))]))


def _log(weight: Fraction) -> float:
    """log of a rational of any size; near 1, of the complement, which keeps the relative accuracy."""
    if weight == 0:
        return -math.inf
    if 2 * weight > 1:
        return math.log1p(-float(1 - weight))
    nearest = float(weight)
    return math.log(nearest) if nearest > 1e-300 else math.log(weight.numerator) - math.log(weight.denominator)
