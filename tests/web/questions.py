"""Questions that the tests of the API ask."""

from __future__ import annotations

from typing import Any

PAPER = {"sampling": "poisson", "sampling_rate": 0.01, "noise_multiplier": 1, "steps": 2000}
FIXED = {"sampling": "fixed-batch", "batch_size": 500, "dataset_size": 50_000, "noise_multiplier": 2, "epochs": 20}


def question(*phases: dict[str, Any], **also: Any) -> dict[str, Any]:
    """The paper's setting unless told otherwise."""
    return {"phases": list(phases) or [PAPER], "delta": 1e-6, "group_size": 9, **also}


def without_group(*phases: dict[str, Any], **also: Any) -> dict[str, Any]:
    """The same, for questions about many group sizes."""
    asked = question(*phases, **also)
    del asked["group_size"]
    return asked
