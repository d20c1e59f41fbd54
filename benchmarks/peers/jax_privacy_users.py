"""JAX Privacy's training accountant for users with several examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax_privacy import accounting

from peers import Unsupported, versions_of


def versions() -> dict[str, str]:
    return versions_of("jax_privacy", "dp-accounting", "jax", "numpy", "scipy")


def prepare(work: dict[str, Any], options: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    k = work["group_size"]
    if work["adjacency"] != "add-or-remove" or work["question"] != "epsilon" or len(work["phases"]) != 1:
        raise Unsupported("epsilon of one phase, adding and removing only")
    phase = work["phases"][0]
    fixed = phase["sampling"] == "fixed"
    # Its rate is batch size / number of examples: of a million examples, every rate of the benchmark is a whole batch.
    examples = phase["dataset_size"] + k if fixed else 1_000_000
    batch_size = phase["batch_size"] if fixed else round(float(phase["sampling_rate"]) * examples)
    if not fixed and batch_size / examples != float(phase["sampling_rate"]):
        raise Unsupported("a rate that is a whole batch of a million examples")
    methods = accounting.SamplingMethod
    params = accounting.DpParams(
        noise_multipliers=float(phase["noise_multiplier"]),
        num_samples=examples,
        batch_size=batch_size,
        delta=float(work["delta"]),
        examples_per_user=k,
        sampling_method=methods.FIXED_BATCH_SIZE if fixed else methods.POISSON,
    )
    accountant = accounting.DpsgdTrainingUserLevelAccountant(accounting.PldAccountantConfig(**options))
    return lambda: {"value": float(accountant.compute_epsilon(phase["steps"], params))}
