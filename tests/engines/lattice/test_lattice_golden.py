"""The lattice engine encloses the golden epsilons, also at deltas far below the rounding of a plain transform."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

import groupdp
from paths import DATA

CASES = [
    case
    for case in json.loads((DATA / "epsilon.json").read_text())["cases"]
    if case["sampling"] == "poisson" and case.get("noise_multiplier") == "1" and case["group_size"] in (1, 4, 9)
]


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("case", "direction"),
    [
        pytest.param(case, direction, id=f"k{case['group_size']}-{case['delta']}-{direction}")
        for case in CASES
        for direction in ("add", "remove")
        if (case["group_size"], case["delta"], direction) != (4, "1e-300", "remove")  # five seconds: make study
    ],
)
def test_golden_epsilon_is_enclosed(case, direction):
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=case["steps"])
    question = {"delta": float(case["delta"]), "group_size": case["group_size"], "adjacency": direction}
    bounds = groupdp.epsilon(run, engine="lattice", tolerance=1e-4, **question)
    assert Decimal(bounds.lower) <= Decimal(case[f"epsilon_{direction}"]) <= Decimal(bounds.upper)
    assert bounds.relative_width <= 1e-4
    assert bounds.provenance.engine == "lattice"


def test_the_golden_selection_is_whole():
    assert {case["delta"] for case in CASES} >= {"1e-6", "1e-30", "1e-100"}


@pytest.mark.parametrize("rounds", [2, 7, 30, 100])
@pytest.mark.parametrize("group_size", [1, 16])
def test_few_rounds_are_answered_narrowly_without_being_asked(rounds, group_size):
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=rounds)
    assert groupdp.epsilon(run, delta=1e-6, group_size=group_size).relative_width <= 1e-5
