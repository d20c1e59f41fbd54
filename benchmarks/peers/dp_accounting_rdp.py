"""dp_accounting's Renyi accountant, for one example under Poisson sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dp_accounting
from dp_accounting import dp_event, rdp

from peers import single_example_phases, versions_of


def versions() -> dict[str, str]:
    return versions_of("dp-accounting", "numpy", "scipy")


def prepare(work: dict[str, Any], options: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    delta, phases = float(work["delta"]), single_example_phases(work)

    def event_of(rate: float, noise: float) -> Any:
        return dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(noise))

    def epsilon() -> dict[str, Any]:
        account = rdp.RdpAccountant()
        for rate, noise, steps in phases:
            account.compose(event_of(rate, noise), steps)
        return {"value": float(account.get_epsilon(delta))}

    def noise() -> dict[str, Any]:
        rate, _, steps = phases[0]
        found = dp_accounting.calibrate_dp_mechanism(
            rdp.RdpAccountant,
            lambda sigma: dp_event.SelfComposedDpEvent(event_of(rate, sigma), steps),
            work["target_epsilon"],
            delta,
        )
        return {"value": float(found)}

    return noise if work["question"] == "noise" else epsilon
