"""The oracle of hidden allocations against golden values, which other code computed."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from oracle import allocation
from paths import TESTS

CASES = json.loads((TESTS / "golden" / "participation.json").read_text(encoding="utf-8"))["cases"]
#: Those that take the oracle less than a second.
QUICK = [
    case
    for case in CASES
    if case["kind"] in ("balls-in-bins", "spread")
    and case["group_size"] <= 2
    and case["batches"] == 2
    and float(case["noise_multiplier"]) >= 2.0
]


def name_of(case: dict[str, Any]) -> str:
    keys = ("kind", "batches", "epochs", "noise_multiplier", "group_size", "adjacency")
    return "-".join(str(case[key]) for key in (*keys, "bound") if key in case)


@pytest.mark.parametrize("case", QUICK, ids=name_of)
def test_the_oracle_has_the_golden_value(case):
    size, batches, noise = case["group_size"], case["batches"], float(case["noise_multiplier"])
    if case["kind"] == "spread":
        coin = allocation.spread(size, batches, noise)
    else:
        coin = allocation.thrown(size, batches, noise, ceil=not case.get("bound", "").endswith("floor"))
    found = allocation.epsilon(
        [(coin, case["epochs"], case["adjacency"] == "add")], delta=float(case["delta"]), digits=7
    )
    assert found == pytest.approx(float(case["epsilon"]), rel=3e-7)


def test_one_place_is_a_gaussian():
    """E[X^w] in closed form, and by the transform with two places that are almost one (p of one of them)."""
    w = complex(1.7, 0.4)
    assert allocation.log_moment((1, 0.6, 1.0), w) == pytest.approx(w * (w - 1) * 0.18)
    second = allocation.log_moment((2, 0.6, 1.0), 2.0 + 0j).real  # E[X^2] = 1 + (e^{s^2} - 1) / 2
    assert second == pytest.approx(math.log1p(math.expm1(0.36) / 2.0), rel=1e-9)
