"""groupdp: certified bounds. Its caches are emptied before every call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import groupdp
from groupdp import calibration
from groupdp.mechanisms.named_values import phase_of
from peers import versions_of


def versions() -> dict[str, str]:
    return versions_of("groupdp", "numpy", "scipy")


def prepare(work: dict[str, Any], options: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    delta, k = float(work["delta"]), work["group_size"]
    _forget()

    def bounds() -> dict[str, Any]:
        runs = [_phase(p) for p in work["phases"]]
        found = groupdp.epsilon(runs, delta=delta, group_size=k, adjacency=work["adjacency"], **options)
        provenance = found.provenance
        return {
            "value": found.upper,
            "lower": found.lower,
            "engine": provenance.engine,
            "evaluations": dict(provenance.evaluations),
        }

    def noise() -> dict[str, Any]:
        run = _phase({**work["phases"][0], "noise_multiplier": 1.0})
        found = calibration.calibrate_noise(run, epsilon=work["target_epsilon"], delta=delta, group_size=k, **options)
        return {"value": found.value, "lower": found.failing_value}

    return noise if work["question"] == "noise" else bounds


def _phase(phase: dict[str, Any]) -> Any:
    if phase.get("sampling") not in ("poisson", "fixed"):
        return phase_of(phase)
    sampling: groupdp.PoissonSampling | groupdp.FixedBatchSampling
    if phase["sampling"] == "poisson":
        sampling = groupdp.PoissonSampling(rate=float(phase["sampling_rate"]))
    else:
        sampling = groupdp.FixedBatchSampling(batch_size=phase["batch_size"], dataset_size=phase["dataset_size"])
    return groupdp.DPSGD(sampling=sampling, noise_multiplier=float(phase["noise_multiplier"]), steps=phase["steps"])


def _forget() -> None:
    """Empty every cache of the package, so that a repeated call does all of its work again."""
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == "groupdp"]
    for module in modules:
        for value in list(vars(module).values()):
            if callable(getattr(value, "cache_clear", None)):
                value.cache_clear()
