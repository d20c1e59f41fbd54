"""User-level privacy in JAX Privacy: plan, train, report per user, stop, resume.

    .venv-integrations/bin/python examples/jax_privacy_users.py

Made-up patients wear a sensor; each of them sent in several recordings, some many. A small network learns to tell rest
from movement. Every patient keeps at most six recordings, and what is protected is a whole patient. JAX Privacy makes
the plan (sampling, clipping, noise), groupdp is its accountant. Takes under a minute on a laptop's processor.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax_privacy.batch_selection import PartitionType, pad_to_multiple_of
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

import groupdp
from groupdp.integrations.dp_accounting import GroupPrivacyAccountant, from_dp_event

warnings.filterwarnings("ignore", message="optax.global_norm is deprecated")

CAP, DELTA, TARGET, STEPS, RATE = 6, 1e-5, 3.0, 300, 0.02
CHANNELS = 24


def recordings(generator: np.random.Generator, patients: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(whose it is, the signal, whether it is movement) of every recording."""
    counts = np.minimum(1 + generator.geometric(0.25, size=patients), 40)
    whose = np.repeat(np.arange(patients), counts)
    moving = generator.random(len(whose)) < 0.5
    shape = np.sin(np.arange(CHANNELS) / 3.0)
    own = generator.normal(size=(patients, CHANNELS))[whose] * 0.4
    signal = own + generator.normal(size=(len(whose), CHANNELS)) + np.outer(moving - 0.5, shape)
    return whose, signal.astype(np.float32), moving.astype(np.float32)


def capped(generator: np.random.Generator, whose: np.ndarray) -> np.ndarray:
    """Which recordings stay: a random choice of at most CAP for every patient."""
    order = generator.permutation(len(whose))
    by_person = order[np.argsort(whose[order], kind="stable")]
    _, first, counts = np.unique(whose[by_person], return_index=True, return_counts=True)
    position = np.arange(len(whose)) - np.repeat(first, counts)
    return np.sort(by_person[position < CAP])


def loss(params: dict[str, jax.Array], signal: jax.Array, moving: jax.Array) -> jax.Array:
    hidden = jnp.tanh(signal @ params["in"] + params["bias"])
    return jnp.mean(optax.sigmoid_binary_cross_entropy(hidden @ params["out"], moving))


def start() -> dict[str, jax.Array]:
    keys = jax.random.split(jax.random.key(0), 2)
    return {
        "in": jax.random.normal(keys[0], (CHANNELS, 8)) / 5.0,
        "bias": jnp.zeros(8),
        "out": jax.random.normal(keys[1], (8,)) / 3.0,
    }


def config(group_size: int, bands: int = 1) -> BandMFExecutionPlanConfig:
    return BandMFExecutionPlanConfig(
        iterations=STEPS,
        strategy=np.eye(1, bands)[0],
        epsilon=TARGET,
        delta=DELTA,
        sampling_prob=RATE,
        partition_type=PartitionType.INDEPENDENT,
        accountant=GroupPrivacyAccountant(group_size),
        noise_seed=1,
    )


def main() -> None:
    started = time.perf_counter()
    generator = np.random.default_rng(3)
    whose, signal, moving = recordings(generator, 5000)
    kept = capped(generator, whose)
    test = np.setdiff1d(np.arange(len(whose)), kept)[:2000]
    counts = np.bincount(whose)
    usual, most = int(np.median(counts)), counts.max()
    print(f"{len(counts)} patients sent {len(whose)} recordings: {usual} is usual, {most} the most.")
    print(f"With at most {CAP} of each patient {len(kept)} stay ({len(kept) / len(whose):.0%}).\n")

    made = config(CAP).plan
    (run,) = from_dp_event(made.dp_event, group_size=CAP)
    print(f"Target: epsilon {TARGET:g} at delta {DELTA:g} for a whole patient, after {STEPS} steps.")
    print(
        f"The plan's noise: {run.noise_multiplier:.4f}; for single recordings "
        f"{groupdp.calibrate_noise(run, epsilon=TARGET, delta=DELTA, group_size=1).value:.4f} would do.\n"
    )

    train_signal, train_moving = signal[kept], moving[kept]
    gradient = jax.jit(made.clipped_grad(loss, batch_argnums=(1, 2)))
    expected = RATE * len(kept)
    size = int(expected + 6 * np.sqrt(expected))
    update = jax.jit(made.noise_addition_transform.update)

    def accuracy(params: dict[str, jax.Array]) -> float:
        hidden = jnp.tanh(signal[test] @ params["in"] + params["bias"])
        return float(jnp.mean((hidden @ params["out"] > 0) == (moving[test] > 0.5)))

    def steps(params, noise, batches):
        for indices in batches:
            padded = pad_to_multiple_of(indices, size)  # one shape, so that everything is compiled once
            total = gradient(params, train_signal[padded], train_moving[padded], is_padding_example=padded < 0)
            noisy, noise = update(total, noise)
            params = jax.tree.map(lambda p, g: p - 2.0 * g / expected, params, noisy)
        return params, noise

    print("steps   accuracy   epsilon, one recording   epsilon, one patient")

    def report(done: int, params: dict[str, jax.Array]) -> None:
        so_far = groupdp.DPSGD(sampling=run.sampling, noise_multiplier=run.noise_multiplier, steps=done)
        one, all_of_them = (groupdp.epsilon(so_far, delta=DELTA, group_size=k).upper for k in (1, CAP))
        print(f"{done:5d}   {accuracy(params):8.1%}   {one:22.3f}   {all_of_them:20.3f}")

    params = start()
    noise = made.noise_addition_transform.init(params)
    batches = list(made.batch_selection_strategy.batch_iterator(len(kept), rng=5))
    with tempfile.TemporaryDirectory() as folder:
        half = Path(folder) / "halfway.npz"
        for done in range(0, STEPS // 2, 50):
            params, noise = steps(params, noise, batches[done : done + 50])
            report(done + 50, params)
        leaves, structure = jax.tree.flatten((params, noise))
        keys = [jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
        np.savez(half, *(jax.random.key_data(leaf) if key else leaf for leaf, key in zip(leaves, keys, strict=True)))
        print(f"        saved to {half.name}, everything forgotten, resumed")
        with np.load(half) as saved:
            arrays = [jnp.asarray(saved[name]) for name in saved.files]
        arrays = [jax.random.wrap_key_data(one) if key else one for one, key in zip(arrays, keys, strict=True)]
        params, noise = jax.tree.unflatten(structure, arrays)
        for done in range(STEPS // 2, STEPS, 50):
            params, noise = steps(params, noise, batches[done : done + 50])
            report(done + 50, params)

    bounds = groupdp.epsilon(run, delta=DELTA, group_size=CAP)
    print(
        f"\nA patient's epsilon lies in {bounds:10}: the upper end is the guarantee, and no analysis of all steps can"
    )
    print("go below the lower end.")
    try:
        config(CAP, bands=4)
    except ValueError as refusal:
        sentence = next(line for line in str(refusal).splitlines() if "num_bands" in line)
        print(f"Correlated noise of four bands is refused:\n  {sentence.split(', ', 1)[-1].split(' [')[0]}")
    print(f"\n{time.perf_counter() - started:.0f} seconds in all.")


if __name__ == "__main__":
    main()
