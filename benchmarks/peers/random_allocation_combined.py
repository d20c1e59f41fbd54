"""Feldman and Shenfeld's random_allocation: the smallest of its bounds, which its authors call the combined method.

Its values are upper bounds in floating point, without a lower side. The orders of the direct method are those of the
authors' own experiments, 2 to 60; without them its `remove` raises. Its discretization is left at the default.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from random_allocation.comparisons.structs import Direction, PrivacyParams, SchemeConfig
from random_allocation.random_allocation_scheme.combined import allocation_epsilon_combined

from peers import Unsupported, versions_of

DIRECTIONS = {"remove": Direction.REMOVE, "add": Direction.ADD, "add-or-remove": Direction.BOTH}


def versions() -> dict[str, str]:
    return versions_of("random-allocation", "numpy", "scipy")


def prepare(work: dict[str, Any], options: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    phase, *others = work["phases"]
    if others or phase["sampling"] != "balls-in-bins" or work["group_size"] != 1 or work["question"] != "epsilon":
        raise Unsupported("one example in one of the batches of every epoch only")
    if work["adjacency"] not in DIRECTIONS or phase["steps"] % phase["batches"] != 0:
        raise Unsupported("adding and removing, whole epochs only")
    parameters = PrivacyParams(
        sigma=float(phase["noise_multiplier"]),
        num_steps=phase["batches"],
        num_selected=1,
        num_epochs=phase["steps"] // phase["batches"],
        delta=float(work["delta"]),
    )
    config = SchemeConfig(allocation_direct_alpha_orders=list(range(2, options["largest_order"] + 1)))

    def epsilon() -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {"value": float(allocation_epsilon_combined(parameters, config, DIRECTIONS[work["adjacency"]]))}

    return epsilon
