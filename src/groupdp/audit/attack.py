"""The optimal attack on a worst case: the exact log-likelihood ratio of the released iterates.

    log p(theta_1, ..., theta_T | first dataset) - log p(theta_1, ..., theta_T | second dataset)

Its level sets are the most powerful tests (Neyman and Pearson), so for the pair (with, without) the
privacy loss is this ratio, and for the pair (without, with) its negative.

The densities are those each sampling states for its audit (samplings/worlds.py), computed from binomial coefficients;
they share nothing with the accountant. Where batches are released too, everybody knows whose gradients a sum has, and
the ratio is that of two Gaussians in every round.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from groupdp.audit.worst_cases import WorstCase
from groupdp.errors import InvalidArgument, InWords
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.neighbours import FORWARD, Change
from groupdp.samplings.worlds import IndependentSums, log_mixture_ratio

FloatArray = npt.NDArray[np.float64]


def log_likelihood_ratio(iterates: FloatArray, instance: WorstCase) -> FloatArray:
    """log p(iterates | with the group) - log p(iterates | without it), for every trial.

    `iterates` has shape (T + 1, trials, 1), as `train_many` releases them.
    """
    moves = _moves(iterates, instance)
    ratio = np.zeros(iterates.shape[1])
    start = 0
    for phase, worlds in zip(instance.run, instance.worlds, strict=True):
        sums = moves[start : start + phase.steps]
        first, second = (world.releases.log_density(sums, _noise(phase)) for world in worlds)
        ratio += first - second
        start += phase.steps
    return ratio


def revealed_log_likelihood_ratio(iterates: FloatArray, means: FloatArray, instance: WorstCase) -> FloatArray:
    """The same where the batches are released as well.

    `means` has shape (2, T, trials): what the batch of each round would sum up to in either dataset, without noise.
    """
    moves = _moves(iterates, instance)
    ratio = np.zeros(iterates.shape[1])
    start = 0
    for phase in instance.run:
        part = slice(start, start + phase.steps)
        first, second = means[0, part], means[1, part]
        ratio += np.sum((2.0 * moves[part] - first - second) * (first - second), axis=0) / (2.0 * _noise(phase) ** 2)
        start += phase.steps
    return ratio


def presence_log_probabilities(phase: DPSGD, *, group_size: int) -> FloatArray:
    """log P(i of the group's k examples are in a round's batch), i = 0, 1, ..."""
    return presence_of(phase, group_size=group_size)[1]


def presence_of(phase: DPSGD, *, group_size: int) -> tuple[float, FloatArray]:
    """How far one member moves the sum, and log P(i members are in a batch): rounds of one mixture against a Gaussian.

    Where the other dataset's sum is itself random, or depends on other rounds, there is no such law.
    """
    phase.sampling.require_adjacency(FORWARD)
    change = Change(FORWARD, group_size, 0)
    first, second = (world.releases for world in phase.sampling.audited_worlds(change, ordinary_examples=1))
    if not (isinstance(first, IndependentSums) and isinstance(second, IndependentSums) and len(second.values) == 1):
        raise InvalidArgument(
            "run", InWords(phase.sampling.title), "be one mixture against one Gaussian in every round"
        )
    unit = float(first.values[1] - first.values[0]) if len(first.values) > 1 else 1.0
    places = np.rint((first.values - second.values[0]) / unit).astype(int)
    logs = np.full(int(places[-1]) + 1, -np.inf)
    logs[places] = first.log_weights
    return unit, logs


def mixture_log_ratio(u: FloatArray, unit: float, log_weights: FloatArray) -> FloatArray:
    """log sum_i p_i exp(m_i u - m_i^2 / 2) with m_i = i * unit: one round, in units of the noise."""
    return log_mixture_ratio(u, unit * np.arange(len(log_weights), dtype=np.float64), log_weights)


def _moves(iterates: FloatArray, instance: WorstCase) -> FloatArray:
    return np.asarray(np.diff(iterates[:, :, 0], axis=0) / (instance.step_size * instance.clipping_norm))


def _noise(phase: DPSGD) -> float:
    if phase.noise_multiplier == 0.0:
        raise InvalidArgument("noise_multiplier", InWords("0.0"), "be above 0 to attack a run")
    return phase.noise_multiplier
