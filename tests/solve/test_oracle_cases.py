"""The product against tables made by the independent oracle (`oracle/make_cases.py`), never by the product."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest

import groupdp
from paths import DATA

TABLES = json.loads((DATA / "oracle_cases.json").read_text())
DIRECTIONS = ("add", "remove")


def run_of(case: dict[str, Any]) -> groupdp.DPSGD | list[groupdp.DPSGD]:
    if "phases" in case:
        return [one for phase in case["phases"] if isinstance(one := run_of(phase), groupdp.DPSGD)]
    sampling: groupdp.PoissonSampling | groupdp.FixedBatchSampling
    if case["sampling"] == "poisson":
        sampling = groupdp.PoissonSampling(rate=float(case["sampling_rate"]))
    else:
        sampling = groupdp.FixedBatchSampling(batch_size=case["batch_size"], dataset_size=case["dataset_size"])
    noise = float(case["noise_multiplier"])
    return groupdp.DPSGD(sampling=sampling, noise_multiplier=noise, steps=case["steps"])


def contour(question: Any, *arguments: Any, **more: Any) -> groupdp.Bounds:
    try:
        return question(*arguments, engine="spectral", **more)
    except groupdp.LimitExceeded:
        pytest.skip("beyond the stated limits of the spectral engine")


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("case", TABLES["cases"], ids=str)
def test_epsilon(case, direction):
    bounds = contour(
        groupdp.epsilon,
        run_of(case),
        delta=float(case["delta"]),
        group_size=case["group_size"],
        adjacency=direction,
    )
    truth = Decimal(case[f"epsilon_{direction}"])
    assert Decimal(bounds.lower) <= truth <= Decimal(bounds.upper)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("case", TABLES["log_deltas"], ids=str)
def test_log_delta(case, direction):
    bounds = contour(
        groupdp.log_delta,
        run_of(case),
        epsilon=float(case["epsilon"]),
        group_size=case["group_size"],
        adjacency=direction,
    )
    truth = case[f"log_delta_{direction}"]
    if truth == "-inf":
        assert bounds.lower == bounds.upper == -math.inf
    else:
        assert bounds.lower <= Decimal(truth) <= bounds.upper


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("case", TABLES["mixtures"], ids=str)
def test_mixtures(case, direction):
    mixture = groupdp.MixtureOfGaussians(case["sensitivities"], case["probabilities"], case["standard_deviation"])
    bounds = contour(groupdp.epsilon, mixture, delta=case["delta"], rounds=case["rounds"], adjacency=direction)
    assert bounds.lower <= Decimal(case[f"epsilon_{direction}"]) <= bounds.upper


def test_most_of_the_table_is_within_the_contour_and_narrow():
    narrow = refused = 0
    for case in TABLES["cases"]:
        try:
            bounds = groupdp.epsilon(
                run_of(case), delta=float(case["delta"]), group_size=case["group_size"], engine="spectral"
            )
        except groupdp.LimitExceeded:
            refused += 1
            continue
        narrow += bounds.relative_width <= 1e-8
    assert refused <= 3
    assert narrow >= 58
