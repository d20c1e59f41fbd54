"""Worst cases, as datasets and a loss, and the optimal attack on them.

Every example is a slope s with loss l(theta; s) = s theta: its gradient is s everywhere. Each sampling says which
slopes leak most under a change of the dataset (`audited_datasets`). For Poisson sampling ordinary examples have slope 0
and the group's -1, for fixed batches +1 and -1 (Ganesh 2024, section 3.3): with H examples of the group in the batch,
(theta_i - theta_{i-1}) / (eta L) is H, or 2 H - B, plus noise.

The attack is the exact log-likelihood ratio of the released iterates,

    log p(theta_1, ..., theta_T | first dataset) - log p(theta_1, ..., theta_T | second dataset),

the privacy loss of the pair (with, without); its level sets are the most powerful tests. The densities
(samplings/audited.py) share nothing with the accountant. Where batches are released too, the ratio is that of two
Gaussians in every round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from groupdp._validation import require_integer, require_number
from groupdp.errors import InvalidArgument, InWords, LimitExceeded
from groupdp.floats import FloatArray
from groupdp.groups import group_of, is_empty
from groupdp.mechanisms.dpsgd import DPSGD, phases_of
from groupdp.neighbours import BACKWARD, FORWARD, Change, Neighbours
from groupdp.samplings.audited import AuditedDataset, IndependentSums, log_mixture_ratio

#: Most examples a simulated dataset may have.
LARGEST_SIMULATED_DATASET = 1_000_000


def slope_gradient(models: FloatArray, slopes: FloatArray) -> FloatArray:
    """The gradient of l(theta; s) = s theta: s, whatever theta. Shape (1, n, d)."""
    return slopes[np.newaxis, :, :]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorstCase:
    """A pair of neighbouring datasets and a loss that leak as much as is known for a run and an adjacency."""

    run: tuple[DPSGD, ...]
    group_size: Any
    adjacency: str
    datasets: tuple[tuple[AuditedDataset, AuditedDataset], ...]
    """For every phase, what both datasets release."""
    with_group: FloatArray
    """Slopes of the first dataset, of shape (n, 1): the one with the group, or with those who leave."""
    without_group: FloatArray
    """Slopes of the other one."""
    clipping_norm: float = 1.0
    step_size: float = 1.0

    @property
    def steps(self) -> int:
        """Rounds over all phases."""
        return sum(phase.steps for phase in self.run)

    @property
    def title(self) -> str:
        """How the run samples, in prose."""
        return self.run[0].sampling.title


def worst_case(
    run: Any,
    *,
    group_size: Any,
    adjacency: str = "add-or-remove",
    ordinary_examples: int = 1,
    clipping_norm: float = 1.0,
    step_size: float = 1.0,
    steepness: float = 1.0,
) -> WorstCase:
    """The worst case of `run` for a group of `group_size` examples that is removed, replaced or zeroed.

    `ordinary_examples` is how many others there are where the sampling does not say it, and where it does not matter
    to the law of the iterates. Slopes are `steepness` * `clipping_norm`: at 1 or more, clipping leaves the same law.
    """
    phases = phases_of(run)
    norm = require_number("clipping_norm", clipping_norm, above=0.0)
    step = require_number("step_size", step_size, above=0.0)
    slope = norm * require_number("steepness", steepness, at_least=1.0)
    ordinary = require_integer("ordinary_examples", ordinary_examples, at_least=0)
    datasets = _datasets(phases, group_size, adjacency, ordinary)
    size = max(dataset.size for dataset in datasets[0])
    if size > LARGEST_SIMULATED_DATASET:
        raise LimitExceeded(
            f"A simulated dataset may have at most {LARGEST_SIMULATED_DATASET} examples, this one would have {size}."
        )
    first, second = (-slope * dataset.moves[:, np.newaxis] for dataset in datasets[0])
    return WorstCase(
        run=phases,
        group_size=group_size,
        adjacency=adjacency,
        datasets=datasets,
        with_group=first,
        without_group=second,
        clipping_norm=norm,
        step_size=step,
    )


def _datasets(
    phases: tuple[DPSGD, ...], group_size: Any, adjacency: str, ordinary: int
) -> tuple[tuple[AuditedDataset, AuditedDataset], ...]:
    sampling = phases[0].sampling
    for phase in phases:
        if phase.microbatch_size != 1:
            raise InvalidArgument("microbatch_size", phase.microbatch_size, "be 1: no worst case is known for others")
        if phase.sampling.name != sampling.name or phase.sampling.sources != sampling.sources:
            raise InvalidArgument(
                "run", InWords(f"{sampling.title} and {phase.sampling.title}"), "use one kind of sampling throughout"
            )
        phase.sampling.require_adjacency(adjacency)
    if sampling.sources is None:
        require_integer("group_size", group_size, at_least=1)
    group = group_of("group_size", group_size, sampling.sources)
    if is_empty(group):
        raise InvalidArgument("group_size", InWords("0 of every source"), "have somebody in it to be attacked")
    # the other order of an adjacency is the same pair of datasets, looked at from the other side
    change = Neighbours(group, FORWARD if adjacency == BACKWARD else adjacency).changes[0]
    datasets = tuple(phase.sampling.audited_datasets(change, ordinary_examples=ordinary) for phase in phases)
    for phase, pair in zip(phases, datasets, strict=True):
        if [dataset.census for dataset in pair] != [dataset.census for dataset in datasets[0]]:
            raise InvalidArgument(
                "dataset_size",
                InWords(f"{sampling.describe()} and {phase.sampling.describe()}"),
                "be the same in all phases",
            )
    return datasets


def log_likelihood_ratio(iterates: FloatArray, instance: WorstCase) -> FloatArray:
    """log p(iterates | with the group) - log p(iterates | without it), for every trial.

    `iterates` has shape (T + 1, trials, 1), as `train_many` releases them.
    """
    moves = _moves(iterates, instance)
    ratio = np.zeros(iterates.shape[1])
    start = 0
    for phase, datasets in zip(instance.run, instance.datasets, strict=True):
        sums = moves[start : start + phase.steps]
        first, second = (dataset.releases.log_density(sums, _noise(phase)) for dataset in datasets)
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
    first, second = (dataset.releases for dataset in phase.sampling.audited_datasets(change, ordinary_examples=1))
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
