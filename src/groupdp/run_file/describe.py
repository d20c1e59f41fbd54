"""A run's description in JSON answers, and back."""

from __future__ import annotations

from typing import Any

from groupdp.mechanisms.dpsgd import DPSGD


def run_as_json(run: DPSGD) -> dict[str, Any]:
    """The run's description, under the names of the options and of the run file."""
    return {
        "sampling": run.sampling.name,
        **run.sampling.values(),
        "noise_multiplier": run.noise_multiplier,
        "steps": run.steps,
        "microbatch_size": run.microbatch_size,
    }
