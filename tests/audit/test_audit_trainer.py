"""DP-SGD as the paper's equation says, one run at a time and many at once."""

from __future__ import annotations

import numpy as np
from scipy import stats

from groupdp.audit import (
    TrainingPhase,
    clip,
    train,
    train_many,
    training_phases,
)
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.samplings import FixedBatchSampling, PoissonSampling
from refusals import refused

# Least squares: the gradient of (x . theta - y)^2 / 2 depends on the model, on every coordinate.
FEATURES = np.random.default_rng(5).normal(size=(12, 3)) * 2.0
TARGETS = np.random.default_rng(6).normal(size=12)
EXAMPLES = np.concatenate([FEATURES, TARGETS[:, None]], axis=1)
PHASES = (
    TrainingPhase(sampler=PoissonSampling(rate=0.4), noise_multiplier=0.7, rounds=5),
    TrainingPhase(sampler=FixedBatchSampling(batch_size=5, dataset_size=100), noise_multiplier=0.3, rounds=4),
)


def gradient_of_one(model: np.ndarray, example: np.ndarray) -> np.ndarray:
    return (example[:3] @ model - example[3]) * example[:3]


def gradient_of_many(models: np.ndarray, examples: np.ndarray) -> np.ndarray:
    residuals = models @ examples[:, :3].T - examples[:, 3]
    return residuals[:, :, None] * examples[None, :, :3]


def test_one_trial_of_the_batched_version_is_the_plain_equation() -> None:
    settings = {"initial_model": [0.5, -1.0, 2.0], "clipping_norm": 1.5, "step_size": 0.1}
    plain = train(gradient_of_one, EXAMPLES, PHASES, generator=np.random.default_rng(9), **settings)
    batched = train_many(gradient_of_many, EXAMPLES, PHASES, trials=1, generator=np.random.default_rng(9), **settings)
    assert plain.shape == (10, 3)
    assert batched.shape == (10, 1, 3)
    np.testing.assert_allclose(batched[:, 0], plain, rtol=1e-12, atol=1e-12)


def test_without_noise_and_with_everyone_the_update_is_the_sum_of_clipped_gradients() -> None:
    phase = TrainingPhase(sampler=PoissonSampling(rate=1.0), noise_multiplier=0.0, rounds=1)
    slopes = np.array([[3.0, 4.0], [0.3, 0.4], [-6.0, 8.0]])  # norms 5, 0.5 and 10, clipped to 1, 0.5 and 1
    iterates = train_many(
        lambda models, examples: examples[None],
        slopes,
        [phase],
        trials=2,
        generator=np.random.default_rng(0),
        initial_model=[10.0, 20.0],
        clipping_norm=1.0,
        step_size=0.5,
    )
    expected = [10.0 - 0.5 * (0.6 + 0.3 - 0.6), 20.0 - 0.5 * (0.8 + 0.4 + 0.8)]
    np.testing.assert_allclose(iterates[1], [expected, expected], rtol=1e-15)


def test_the_noise_has_deviation_sigma_times_the_clipping_norm_and_no_more_structure() -> None:
    phase = TrainingPhase(sampler=FixedBatchSampling(batch_size=1, dataset_size=100), noise_multiplier=0.8, rounds=3)
    iterates = train_many(
        lambda models, examples: examples[None],
        np.zeros((2, 1)),
        [phase],
        trials=30_000,
        generator=np.random.default_rng(2),
        initial_model=0.0,
        clipping_norm=2.0,
        step_size=0.25,
    )
    noise = np.diff(iterates[:, :, 0], axis=0) / 0.25 / (0.8 * 2.0)
    total = float(np.sum(noise**2))  # chi-square with 90 000 degrees of freedom
    assert stats.chi2.cdf(total, noise.size) > 1e-5
    assert stats.chi2.sf(total, noise.size) > 1e-5
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-5
    across = float(np.sum(noise[0] * noise[1])) / np.sqrt(noise.shape[1])
    assert abs(across) < 4.5


def test_gradients_are_asked_for_sampled_examples_only() -> None:
    asked: list[int] = []

    def gradient(model: np.ndarray, example: int) -> list[float]:
        asked.append(example)
        return [0.0]

    phase = TrainingPhase(sampler=FixedBatchSampling(batch_size=2, dataset_size=100), noise_multiplier=1.0, rounds=4)
    train(gradient, range(6), [phase], generator=np.random.default_rng(3), initial_model=0.0)
    assert len(asked) == 8
    assert all(len(set(asked[i : i + 2])) == 2 for i in range(0, 8, 2))


def test_a_zero_gradient_stays_zero_when_clipped() -> None:
    assert np.array_equal(clip(np.zeros((2, 3)), 1.0), np.zeros((2, 3)))


def test_a_description_becomes_its_phases() -> None:
    run = [
        DPSGD(sampling=PoissonSampling(rate=0.1), noise_multiplier=1.0, steps=3),
        DPSGD(
            sampling=FixedBatchSampling(batch_size=2, dataset_size=9),
            noise_multiplier=2.0,
            steps=4,
        ),
    ]
    assert training_phases(run) == (
        TrainingPhase(sampler=PoissonSampling(rate=0.1), noise_multiplier=1.0, rounds=3),
        TrainingPhase(sampler=FixedBatchSampling(batch_size=2, dataset_size=9), noise_multiplier=2.0, rounds=4),
    )
    microbatched = DPSGD(sampling=PoissonSampling(rate=0.1), noise_multiplier=1.0, steps=3, microbatch_size=4)
    with refused("microbatch_size"):
        training_phases(microbatched)


def test_bad_settings_are_refused_with_a_sentence() -> None:
    phase = TrainingPhase(sampler=PoissonSampling(rate=0.5), noise_multiplier=1.0, rounds=1)
    generator = np.random.default_rng(0)
    with refused("clipping_norm"):
        train(gradient_of_one, EXAMPLES, [phase], generator=generator, initial_model=0.0, clipping_norm=0.0)
    with refused("step_size"):
        train(gradient_of_one, EXAMPLES, [phase], generator=generator, initial_model=0.0, step_size=-1.0)
    with refused("initial_model"):
        train(gradient_of_one, EXAMPLES, [phase], generator=generator, initial_model=[np.nan])
    with refused("rounds"):
        TrainingPhase(sampler=PoissonSampling(rate=0.5), noise_multiplier=1.0, rounds=-1)
