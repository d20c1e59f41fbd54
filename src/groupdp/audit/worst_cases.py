"""DP-SGD as the paper writes it, really run; worst cases as datasets and a loss; and the optimal attack on them.

    theta_i = theta_{i-1} - eta ( sum_{d in D_i} clip(grad l(theta_{i-1}, d), L) + xi_i )
    xi_i ~ N(0, sigma^2 L^2 I),   clip(g, L) = g / max(1, |g| / L)          (Ganesh 2024, equation 1)

In a worst case every example is a slope s with loss l(theta; s) = s theta. Each sampling says which slopes leak most
under a change of the dataset (`audited_datasets`; Ganesh 2024, section 3.3). The attack is the exact log-likelihood
ratio of the released iterates, first dataset over second. Nothing here is taken from the accountant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from groupdp.errors import InvalidArgument, InWords, LimitExceeded, require_integer, require_number
from groupdp.floats import FloatArray
from groupdp.groups import group_of, is_empty
from groupdp.mechanisms.dpsgd import DPSGD, phases_of
from groupdp.neighbours import BACKWARD, FORWARD, Neighbours
from groupdp.samplings.audited import AuditedDataset

BoolArray = npt.NDArray[np.bool_]


class Sampler(Protocol):
    """What says, round after round, who is in the batch; every sampling does."""

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        """An endless iterator: for each round, a (trials, dataset_size) array of inclusion indicators."""


#: (model of shape (d,), one example) -> its gradient, of shape (d,).
Gradient = Callable[[FloatArray, Any], npt.ArrayLike]
#: (models of shape (trials, d), examples of shape (n, ...)) -> gradients, of shape (trials, n, d);
#: (1, n, d) where no gradient depends on the model.
BatchedGradient = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPhase:
    """`rounds` rounds with one sampler and one noise multiplier."""

    sampler: Sampler
    noise_multiplier: float
    rounds: int

    def __post_init__(self) -> None:
        noise = require_number("noise_multiplier", self.noise_multiplier, at_least=0.0)
        object.__setattr__(self, "noise_multiplier", noise)
        object.__setattr__(self, "rounds", require_integer("rounds", self.rounds, at_least=0))


def training_phases(run: Any) -> tuple[TrainingPhase, ...]:
    """The phases that do what a run (a DPSGD or a sequence of them) describes."""
    phases = phases_of(run)
    for phase in phases:
        if phase.microbatch_size != 1:
            raise InvalidArgument("microbatch_size", phase.microbatch_size, "be 1: this trainer clips single examples")
    return tuple(
        TrainingPhase(sampler=phase.sampling, noise_multiplier=phase.noise_multiplier, rounds=phase.steps)
        for phase in phases
    )


def clip(gradients: FloatArray, clipping_norm: float) -> FloatArray:
    """g / max(1, |g| / L) for every gradient along the last axis."""
    norms = np.sqrt(np.sum(np.square(gradients), axis=-1, keepdims=True))
    return np.asarray(gradients / np.maximum(1.0, norms / clipping_norm))


def train(
    gradient: Gradient,
    dataset: Sequence[Any] | FloatArray,
    phases: Sequence[TrainingPhase],
    *,
    generator: np.random.Generator,
    initial_model: npt.ArrayLike,
    clipping_norm: float = 1.0,
    step_size: float = 1.0,
) -> FloatArray:
    """One run of DP-SGD: the released iterates theta_0, ..., theta_T, of shape (T + 1, d).

    The gradient is asked for sampled examples only, one at a time.
    """
    norm, step, model = _start(clipping_norm, step_size, initial_model)
    iterates = [model]
    for phase in phases:
        deviation = phase.noise_multiplier * norm
        batches = phase.sampler.sampled_batches(generator, trials=1, dataset_size=len(dataset))
        for _ in range(phase.rounds):
            batch = np.flatnonzero(next(batches)[0])
            total = np.zeros_like(model)
            for index in batch.tolist():
                example = np.asarray(gradient(model, dataset[index]), dtype=np.float64).reshape(model.shape)
                total = total + clip(example, norm)
            noise = deviation * generator.standard_normal((1, len(model)))[0]
            model = model - step * (total + noise)
            iterates.append(model)
    return np.stack(iterates)


def train_many(
    gradient: BatchedGradient,
    dataset: FloatArray,
    phases: Sequence[TrainingPhase],
    *,
    trials: int,
    generator: np.random.Generator,
    initial_model: npt.ArrayLike,
    clipping_norm: float = 1.0,
    step_size: float = 1.0,
    observer: Callable[[BoolArray], None] | None = None,
) -> FloatArray:
    """Many independent runs of DP-SGD: released iterates of shape (T + 1, trials, d).

    Every trial draws its own batches and its own noise; every example's gradient is clipped by itself. `observer` is
    shown every round's batches, of shape (trials, n).
    """
    norm, step, model = _start(clipping_norm, step_size, initial_model)
    rounds = sum(phase.rounds for phase in phases)
    iterates = np.empty((rounds + 1, trials, len(model)))
    iterates[0] = model
    done = 0
    for phase in phases:
        deviation = phase.noise_multiplier * norm
        batches = phase.sampler.sampled_batches(generator, trials=trials, dataset_size=len(dataset))
        for _ in range(phase.rounds):
            models = iterates[done]
            included = next(batches)
            if observer is not None:
                observer(included)
            clipped, weights = clip(gradient(models, dataset), norm), included.astype(np.float64)
            # gradients shared by all trials: one matrix product
            sums = weights @ clipped[0] if len(clipped) == 1 else np.einsum("tn,tnd->td", weights, clipped)
            noise = deviation * generator.standard_normal(models.shape)
            iterates[done + 1] = models - step * (sums + noise)
            done += 1
    return iterates


def _start(clipping_norm: float, step_size: float, initial_model: npt.ArrayLike) -> tuple[float, float, FloatArray]:
    model = np.atleast_1d(np.asarray(initial_model, dtype=np.float64))
    if model.ndim != 1 or not np.all(np.isfinite(model)):
        raise InvalidArgument("initial_model", InWords(f"shape {model.shape}"), "be a finite vector")
    norm = require_number("clipping_norm", clipping_norm, above=0.0)
    return norm, require_number("step_size", step_size, above=0.0), model


#: Most examples a simulated dataset may have.
LARGEST_SIMULATED_DATASET = 1_000_000


def slope_gradient(models: FloatArray, slopes: FloatArray) -> FloatArray:
    """The gradient of l(theta; s) = s theta: s, whatever theta. Shape (1, n, d)."""
    return slopes[np.newaxis, :, :]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorstCase:
    """A pair of neighbouring datasets and a loss that leak as much as is known for a run and an adjacency."""

    run: tuple[DPSGD, ...]
    datasets: tuple[tuple[AuditedDataset, AuditedDataset], ...]
    """What both datasets release in every phase."""
    with_group: FloatArray
    """Slopes of the first dataset, with the group or with those who leave; shape (n, 1)."""
    without_group: FloatArray
    """Slopes of the second dataset."""
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
        raise InvalidArgument("group_size", InWords("0 of every source"), "have at least one example to attack")
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


def log_likelihood_ratio(iterates: FloatArray, instance: WorstCase, means: FloatArray | None = None) -> FloatArray:
    """log p(iterates | with the group) - log p(iterates | without it), for every trial.

    `iterates` has shape (T + 1, trials, 1), as `train_many` releases them. Where the batches are released as well,
    `means`, of shape (2, T, trials), is what the batch of each round would sum up to in either dataset, without noise.
    """
    moves = np.diff(iterates[:, :, 0], axis=0) / (instance.step_size * instance.clipping_norm)
    ratio = np.zeros(iterates.shape[1])
    start = 0
    for phase, datasets in zip(instance.run, instance.datasets, strict=True):
        noise, part = phase.noise_multiplier, slice(start, start + phase.steps)
        if noise == 0.0:
            raise InvalidArgument("noise_multiplier", InWords("0.0"), "be above 0 to attack a run")
        if means is None:
            first, second = (dataset.releases.log_density(moves[part], noise) for dataset in datasets)
            ratio += first - second
        else:
            first, second = means[0, part], means[1, part]
            ratio += np.sum((2.0 * moves[part] - first - second) * (first - second), axis=0) / (2.0 * noise**2)
        start += phase.steps
    return ratio
