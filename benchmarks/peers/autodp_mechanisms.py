"""autodp: Renyi accounting, and its analytical Fourier accountant (AFA), for one example under Poisson sampling.

AFA integrates with a SciPy function that newer versions of SciPy no longer have; it is asked once and its answer
reported. It takes the worse of the two directions, as its documentation says one should.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autodp.mechanism_zoo import SubsampleGaussianMechanism

from peers import Unsupported, single_example_phases, versions_of


def versions() -> dict[str, str]:
    return versions_of("autodp", "numpy", "scipy")


def prepare(work: dict[str, Any], options: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    delta, phases = float(work["delta"]), single_example_phases(work)
    if len(phases) != 1 or work["question"] != "epsilon":
        raise Unsupported("one phase only")
    rate, noise, steps = phases[0]
    parameters = {"prob": rate, "sigma": noise, "coeff": steps}

    def by_renyi() -> dict[str, Any]:
        return {"value": float(SubsampleGaussianMechanism(parameters).get_approxDP(delta))}

    def by_characteristic_function() -> dict[str, Any]:
        found = []
        for neighbouring in ("remove_only", "add_only"):
            mechanism = SubsampleGaussianMechanism(parameters, phi_off=False, RDP_off=True, neighboring=neighbouring)
            mechanism.params["gamma"] = rate
            found.append(float(mechanism.get_approxDP(delta)))
        return {"value": max(found)}

    return by_renyi if options["route"] == "rdp" else by_characteristic_function
