"""dp_accounting's PLD accountant: connect the dots on a grid of losses, then FFT.

One example under Poisson sampling goes through the specialised subsampled Gaussian, everything else through
MixtureOfGaussiansDpEvent. Probabilities are computed before the clock starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dp_accounting
import numpy as np
from dp_accounting import dp_event, pld
from scipy import stats

from peers import Unsupported, versions_of


def versions() -> dict[str, str]:
    return versions_of("dp-accounting", "numpy", "scipy")


def prepare(work: dict[str, Any], options: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    delta, k = float(work["delta"]), work["group_size"]
    mixture_only = options.get("always_mixture", False)

    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    if work["adjacency"] == "substitute":
        if k != 1 or any(phase["sampling"] != "poisson" for phase in work["phases"]):
            raise Unsupported("one example replaced under Poisson sampling only")
        relation = dp_accounting.NeighboringRelation.REPLACE_ONE

    def accountant() -> Any:
        return pld.PLDAccountant(relation, value_discretization_interval=options["grid"])

    laws = [_law(phase, k) for phase in work["phases"]]

    def event_of(phase: dict[str, Any], law: tuple[list[float], list[float]], noise: float) -> Any:
        if k == 1 and phase["sampling"] == "poisson" and not mixture_only:
            return dp_event.PoissonSampledDpEvent(float(phase["sampling_rate"]), dp_event.GaussianDpEvent(noise))
        return dp_event.MixtureOfGaussiansDpEvent(noise, *law)

    def epsilon() -> dict[str, Any]:
        account = accountant()
        for phase, law in zip(work["phases"], laws, strict=True):
            account.compose(event_of(phase, law, float(phase["noise_multiplier"])), phase["steps"])
        return {"value": float(account.get_epsilon(delta))}

    def noise() -> dict[str, Any]:
        if len(laws) != 1:
            raise Unsupported("one phase only")
        phase = work["phases"][0]
        found = dp_accounting.calibrate_dp_mechanism(
            accountant,
            lambda sigma: dp_event.SelfComposedDpEvent(event_of(phase, laws[0], sigma), phase["steps"]),
            work["target_epsilon"],
            delta,
        )
        return {"value": float(found)}

    return noise if work["question"] == "noise" else epsilon


def _law(phase: dict[str, Any], k: int) -> tuple[list[float], list[float]]:
    count = np.arange(k + 1)
    if phase["sampling"] == "poisson":
        sensitivities, probabilities = count, stats.binom.pmf(count, k, float(phase["sampling_rate"]))
    else:
        population = phase["dataset_size"] + k
        sensitivities, probabilities = 2 * count, stats.hypergeom.pmf(count, population, k, phase["batch_size"])
    keep = probabilities > 0.0
    return sensitivities[keep].astype(float).tolist(), probabilities[keep].tolist()
