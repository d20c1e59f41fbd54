"""Every golden epsilon lies inside the spectral engine's bounds, which are narrow."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

import groupdp
from paths import DATA

CASES = json.loads((DATA / "epsilon.json").read_text())["cases"]


def run_of(case: dict[str, Any]) -> groupdp.DPSGD | list[groupdp.DPSGD]:
    if "phases" in case:
        return [one for phase in case["phases"] for one in [run_of({"sampling": case["sampling"], **phase})]]
    if case["sampling"] == "poisson":
        sampling = groupdp.PoissonSampling(rate=float(case["sampling_rate"]))
    else:
        sampling = groupdp.FixedBatchSampling(batch_size=case["batch_size"], dataset_size=case["dataset_size"])
    return groupdp.DPSGD(sampling=sampling, noise_multiplier=float(case["noise_multiplier"]), steps=case["steps"])


def named(case: dict[str, Any]) -> str:
    return f"{case['sampling']}-sigma{case.get('noise_multiplier', 'phases')}-k{case['group_size']}-{case['delta']}"


def test_the_golden_file_is_whole():
    assert len(CASES) == 59


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize("case", CASES, ids=named)
def test_golden_epsilon_is_enclosed(case, direction):
    bounds = groupdp.epsilon(
        run_of(case),
        delta=float(case["delta"]),
        group_size=case["group_size"],
        adjacency=direction,
        engine="spectral",
    )
    truth = Decimal(case[f"epsilon_{direction}"])
    assert Decimal(bounds.lower) <= truth <= Decimal(bounds.upper)
    assert bounds.upper - bounds.lower <= 1e-9 * max(1.0, bounds.upper)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_the_default_is_the_worse_direction(case):
    bounds = groupdp.epsilon(run_of(case), delta=float(case["delta"]), group_size=case["group_size"])
    truth = max(Decimal(case["epsilon_add"]), Decimal(case["epsilon_remove"]))
    assert Decimal(bounds.lower) <= truth <= Decimal(bounds.upper)
    assert bounds.relative_width <= 1e-9


@pytest.mark.parametrize("case", CASES[::7], ids=named)
def test_delta_at_the_golden_epsilon_is_the_delta_it_was_made_for(case):
    run, size = run_of(case), case["group_size"]
    at_truth = groupdp.delta(run, epsilon=float(case["epsilon_remove"]), group_size=size, adjacency="remove")
    # The golden epsilon is rounded to a double: delta moves by about (slope of log delta) * ulp.
    assert at_truth.lower <= float(case["delta"]) * (1 + 1e-11)
    assert at_truth.upper >= float(case["delta"]) * (1 - 1e-11)
