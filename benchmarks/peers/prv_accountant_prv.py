"""prv_accountant: lower bound, estimate and upper bound by FFT, for one example under Poisson sampling.

delta_error is a thousandth of delta, as its documentation advises. eps_error has no default in PRVAccountant; 0.1
is the default of its DP-SGD accountant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant
from prv_accountant.dpsgd import find_noise_multiplier

from peers import single_example_phases, versions_of


def versions() -> dict[str, str]:
    return versions_of("prv-accountant", "numpy", "scipy")


def prepare(work: dict[str, Any], options: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    delta, phases = float(work["delta"]), single_example_phases(work)

    def epsilon() -> dict[str, Any]:
        steps = [count for _, _, count in phases]
        accountant = PRVAccountant(
            prvs=[
                PoissonSubsampledGaussianMechanism(sampling_probability=rate, noise_multiplier=noise)
                for rate, noise, _ in phases
            ],
            max_self_compositions=steps,
            eps_error=options["eps_error"],
            delta_error=delta / 1000.0,
        )
        lower, _, upper = accountant.compute_epsilon(delta=delta, num_self_compositions=steps)
        return {"value": float(upper), "lower": float(lower)}

    def noise() -> dict[str, Any]:
        rate, _, steps = phases[0]
        found = find_noise_multiplier(
            sampling_probability=rate,
            num_steps=steps,
            target_epsilon=work["target_epsilon"],
            target_delta=delta,
            eps_error=options["eps_error"],
        )
        return {"value": float(found)}

    return noise if work["question"] == "noise" else epsilon
