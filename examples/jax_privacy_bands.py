"""Correlated noise for whole people in JAX Privacy: banded noise, parts by person, and the epsilon of a person.

    .venv-integrations/bin/python examples/jax_privacy_bands.py

Made-up people have up to three examples each. A linear model is trained with JAX Privacy's banded noise (BandMF) and
with independent noise of the same epsilon. A keyed hash puts all of a person's examples into one part of the cycle, so
that the guarantee for a person is exact. Takes a few seconds.
"""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax_privacy.batch_selection import pad_to_multiple_of
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

import groupdp
from groupdp.correlated import BandedToeplitz
from groupdp.integrations.bandmf import PersonCyclicPoisson, from_bandmf

warnings.filterwarnings("ignore", message="optax.global_norm is deprecated")

CAP, DELTA, TARGET, STEPS, BATCH, FEATURES = 3, 1e-5, 4.0, 400, 0.02, 16


def people(generator: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(whose it is, the features, the label) of every example."""
    whose = np.repeat(np.arange(count), generator.integers(1, CAP + 1, size=count))
    truth = generator.normal(size=FEATURES)
    features = generator.normal(size=(len(whose), FEATURES)).astype(np.float32)
    return whose, features, (features @ truth > 0).astype(np.float32)


def config(bands: int, noise: float) -> BandMFExecutionPlanConfig:
    return BandMFExecutionPlanConfig(
        iterations=STEPS,
        strategy=np.array(BandedToeplitz.square_root(bands).column),
        epsilon=None,
        delta=None,
        noise_multiplier=noise,
        sampling_prob=bands * BATCH,  # a part has 1 / bands of the data: the batch stays the same
        noise_seed=1,
    )


def loss(weights: jax.Array, features: jax.Array, label: jax.Array) -> jax.Array:
    return jnp.mean(jnp.logaddexp(0.0, (1.0 - 2.0 * label) * (features @ weights)))


def trained(
    plan_config: BandMFExecutionPlanConfig, whose: np.ndarray, features: np.ndarray, label: np.ndarray
) -> float:
    """The accuracy after training with this noise, in batches by person."""
    plan = plan_config.plan
    gradient = jax.jit(plan.clipped_grad(loss, batch_argnums=(1, 2)))
    update = jax.jit(plan.noise_addition_transform.update)
    expected = BATCH * len(whose)
    size = int(expected + 8 * np.sqrt(expected))
    weights = jnp.zeros(FEATURES)
    state = plan.noise_addition_transform.init(weights)
    for indices in PersonCyclicPoisson.of(plan_config, key="example").batch_iterator(whose.tolist(), rng=2):
        padded = pad_to_multiple_of(indices, size)  # one shape is compiled once
        total = gradient(weights, features[padded], label[padded], is_padding_example=padded < 0)
        noisy, state = update(total, state)
        weights = weights - 0.5 * noisy / expected
    return float(jnp.mean((features @ weights > 0) == (label > 0.5)))


def main() -> None:
    whose, features, label = people(np.random.default_rng(0), 3000)
    print(f"{len(np.unique(whose))} people, {len(whose)} examples, at most {CAP} of one person.")
    print(f"Target: epsilon {TARGET:g} at delta {DELTA:g} for a whole person, {STEPS} steps.\n")
    print("bands   noise multiplier   epsilon of a person   squared error   accuracy")
    for bands in (1, 2, 4):
        start = config(bands, noise=1.0)
        run = from_bandmf(start, batch_selection=PersonCyclicPoisson.of(start, key="example"))
        noise = groupdp.calibrate_noise(run, epsilon=TARGET, delta=DELTA, group_size=CAP).value * (1.0 + 1e-9)
        chosen = config(bands, noise)
        run = from_bandmf(chosen, batch_selection=PersonCyclicPoisson.of(chosen, key="example"))
        epsilon = groupdp.epsilon(run, delta=DELTA, group_size=CAP).upper
        accuracy = trained(chosen, whose, features, label)
        print(f"{bands:5d}   {noise:16.4f}   {epsilon:19.4f}   {run.prefix_error:13.0f}   {accuracy:7.1%}")
    print("\nSquared error: of all prefix sums of gradients clipped to 1. JAX Privacy's own accountant answers for one")
    print("example; for a person its figure would not be a guarantee.")


if __name__ == "__main__":
    main()
