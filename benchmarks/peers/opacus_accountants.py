"""opacus: its PRV and its Renyi accountant, for one example under Poisson sampling.

The history is set at once instead of step by step, which is to its advantage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opacus.accountants import create_accountant
from opacus.accountants.utils import get_noise_multiplier

from peers import single_example_phases, versions_of


def versions() -> dict[str, str]:
    return versions_of("opacus", "torch", "numpy", "scipy")


def prepare(work: dict[str, Any], options: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    delta, phases = float(work["delta"]), single_example_phases(work)

    def epsilon() -> dict[str, Any]:
        accountant = create_accountant(mechanism=options["accountant"])
        accountant.history = [(noise, rate, steps) for rate, noise, steps in phases]
        return {"value": float(accountant.get_epsilon(delta))}

    def noise() -> dict[str, Any]:
        rate, _, steps = phases[0]
        found = get_noise_multiplier(
            target_epsilon=work["target_epsilon"],
            target_delta=delta,
            sample_rate=rate,
            steps=steps,
            accountant=options["accountant"],
        )
        return {"value": float(found)}

    return noise if work["question"] == "noise" else epsilon
