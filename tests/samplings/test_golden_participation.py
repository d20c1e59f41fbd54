"""Golden epsilons of balls in bins and spread allocation (P-13 to P-17), and simulated exact values that no bound is
below. The table was computed by other code."""

from __future__ import annotations

import json
from typing import Any

import pytest

import groupdp
from paths import TESTS

TABLE = json.loads((TESTS / "golden" / "participation.json").read_text(encoding="utf-8"))
SAMPLINGS = {"balls-in-bins": groupdp.BallsInBinsSampling, "spread": groupdp.SpreadSampling}
CASES = [case for case in TABLE["cases"] if case["kind"] in SAMPLINGS]
EXACT = [case for case in CASES if case["kind"] == "spread" or case["exact"]]
BOUNDS = [case for case in CASES if case not in EXACT]
SIMULATED = TABLE["simulated_exact"]


def name_of(case: dict[str, Any]) -> str:
    return "-".join(str(case[key]) for key in ("batches", "epochs", "noise_multiplier", "group_size", "adjacency"))


def answer(case: dict[str, Any]) -> groupdp.Bounds:
    sampling = SAMPLINGS[case.get("kind", "balls-in-bins")](batches=case["batches"])
    steps = case["epochs"] * case["batches"]
    run = groupdp.DPSGD(sampling, noise_multiplier=float(case["noise_multiplier"]), steps=steps)
    return groupdp.epsilon(
        run, group_size=case["group_size"], adjacency=case["adjacency"], delta=float(case["delta"]), engine="spectral"
    )


@pytest.mark.parametrize("case", EXACT, ids=name_of)
def test_the_interval_contains_the_exact_value(case):
    value, bounds = float(case["epsilon"]), answer(case)
    digit = 10.0 ** (len(case["epsilon"].partition(".")[0].lstrip("0")) - case["digits"])
    assert bounds.lower - digit <= value <= bounds.upper + digit
    assert bounds.width <= 1e-8 * max(1.0, value)
    assert bounds.tight == (case["group_size"] == 1)


@pytest.mark.parametrize("case", BOUNDS, ids=name_of)
def test_no_answer_is_above_theorem_b(case):
    assert answer(case).upper <= float(case["epsilon"]) * (1.0 + 1e-6)


@pytest.mark.parametrize("case", SIMULATED, ids=name_of)
def test_no_answer_is_below_what_was_simulated(case):
    assert answer(case).upper >= case["epsilon"] - 3.0 * case["standard_error"]
