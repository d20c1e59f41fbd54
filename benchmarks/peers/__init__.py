"""One small adapter per tool.

Each runs in a process of its own (worker.py) and has two functions:

    versions()               names and versions of what is used
    prepare(work, options)   a function without arguments that does the work and returns {"value": ...}, and
                             {"lower": ...} where the tool states a lower bound; only calling it is timed

`work["question"]` is "epsilon", or "noise" with a `work["target_epsilon"]`.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any


class Unsupported(Exception):
    """The tool has no way to do this work."""


def versions_of(*names: str) -> dict[str, str]:
    return {name: metadata.version(name) for name in names}


def single_example_phases(work: dict[str, Any]) -> list[tuple[float, float, int]]:
    """(sampling rate, noise multiplier, steps) of every phase, for tools that know Poisson sampling of one example.

    The noise multiplier is NaN where it is what is asked for.
    """
    if work["adjacency"] != "add-or-remove":
        raise Unsupported("adding and removing only")
    if work["group_size"] != 1 or any(phase["sampling"] != "poisson" for phase in work["phases"]):
        raise Unsupported("one example under Poisson sampling only")
    return [
        (float(phase["sampling_rate"]), float(phase.get("noise_multiplier", "nan")), phase["steps"])
        for phase in work["phases"]
    ]
