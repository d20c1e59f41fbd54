"""A run's description in JSON answers."""

from __future__ import annotations

from typing import Any

from groupdp.dpsgd import DPSGD, PoissonSampling


def run_as_json(run: DPSGD) -> dict[str, Any]:
    """The run's description, under the names of the options and of the run file."""
    sampling: dict[str, Any] = (
        {"sampling": "poisson", "sampling_rate": run.sampling.rate}
        if isinstance(run.sampling, PoissonSampling)
        else {
            "sampling": "fixed-batch",
            "batch_size": run.sampling.batch_size,
            "dataset_size": run.sampling.dataset_size,
        }
    )
    return {
        **sampling,
        "noise_multiplier": run.noise_multiplier,
        "steps": run.steps,
        "microbatch_size": run.microbatch_size,
    }
