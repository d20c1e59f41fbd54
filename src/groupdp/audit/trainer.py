"""DP-SGD as the paper writes it, releasing every iterate, with batches that are really sampled.

    theta_i = theta_{i-1} - eta ( sum_{d in D_i} clip(grad l(theta_{i-1}, d), L) + xi_i )
    xi_i ~ N(0, sigma^2 L^2 I),   clip(g, L) = g / max(1, |g| / L)          (Ganesh 2024, equation 1)

`train` is the equation, one run at a time, for any per-example gradient; `train_many` is the same for many independent
runs at once. Given the same generator, one trial of `train_many` is `train`. Nothing here knows about accounting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from groupdp._validation import require_integer, require_number
from groupdp.errors import InvalidArgument, InWords
from groupdp.floats import FloatArray
from groupdp.mechanisms.dpsgd import phases_of
from groupdp.samplings import Sampling
from groupdp.samplings.fixed_batch import uniform_subsets

BoolArray = npt.NDArray[np.bool_]


class Sampler(Protocol):
    """Anything that can say, round after round, who is in the batch."""

    def batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        """An endless iterator: for each round, a (trials, dataset_size) array of inclusion indicators."""


@dataclass(frozen=True, slots=True)
class DescribedSampler:
    """Does what a sampling describes."""

    sampling: Sampling

    def batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        return self.sampling.sampled_batches(generator, trials=trials, dataset_size=dataset_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusedBatchSampler:
    """A broken trainer: draws one batch of `batch_size` examples and uses it in every round.

    No theorem covers it; it exists so that an audit has something to catch.
    """

    batch_size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", require_integer("batch_size", self.batch_size, at_least=1))

    def batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        batch = uniform_subsets(generator, self.batch_size, trials, dataset_size)
        while True:
            yield batch


def sampler_of(sampling: Sampling) -> DescribedSampler:
    """The sampler that does what `sampling` describes."""
    return DescribedSampler(sampling)


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
        TrainingPhase(sampler=sampler_of(phase.sampling), noise_multiplier=phase.noise_multiplier, rounds=phase.steps)
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
        batches = phase.sampler.batches(generator, trials=1, dataset_size=len(dataset))
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
    observer: Callable[[npt.NDArray[np.bool_]], None] | None = None,
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
        batches = phase.sampler.batches(generator, trials=trials, dataset_size=len(dataset))
        for _ in range(phase.rounds):
            models = iterates[done]
            included = next(batches)
            if observer is not None:
                observer(included)
            clipped = clip(gradient(models, dataset), norm)
            noise = deviation * generator.standard_normal(models.shape)
            iterates[done + 1] = models - step * (_sum_over_batch(included, clipped) + noise)
            done += 1
    return iterates


def _sum_over_batch(included: npt.NDArray[np.bool_], clipped: FloatArray) -> FloatArray:
    """sum_{d in D_i} of the clipped gradients, for every trial."""
    weights = included.astype(np.float64)
    if clipped.shape[0] == 1:  # gradients shared by all trials: one matrix product
        return np.asarray(weights @ clipped[0])
    return np.asarray(np.einsum("tn,tnd->td", weights, clipped))


def _start(clipping_norm: float, step_size: float, initial_model: npt.ArrayLike) -> tuple[float, float, FloatArray]:
    model = np.atleast_1d(np.asarray(initial_model, dtype=np.float64))
    if model.ndim != 1 or not np.all(np.isfinite(model)):
        raise InvalidArgument("initial_model", InWords(f"shape {model.shape}"), "be a finite vector")
    norm = require_number("clipping_norm", clipping_norm, above=0.0)
    return norm, require_number("step_size", step_size, above=0.0), model
