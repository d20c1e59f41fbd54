"""The lattice engine encloses the golden epsilons of substitution and of public coins."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import numpy as np
import pytest

from engines.coins import balls_in_bins, truncated_poisson
from groupdp.engines import lattice
from groupdp.laws import binomial_law
from groupdp.pairs import Round, Side
from paths import DATA

CASES = json.loads((DATA / "pairs.json").read_text())["cases"]


def of_kind(kind):
    return [case for case in CASES if case["kind"] == kind]


def side(count: int, rate: float, noise: float) -> Side:
    return Side.from_sensitivities(np.arange(count + 1.0), binomial_law(count, rate), noise)


def assert_enclosed(one, rounds, case, key="epsilon", tolerance=1e-5):
    found = lattice.epsilon(((one, rounds),), log_delta=math.log(float(case["delta"])), tolerance=tolerance)
    assert Decimal(found.lower) <= Decimal(case[key]) <= Decimal(found.upper)
    assert found.relative_width <= tolerance


@pytest.mark.thinned(8)
@pytest.mark.parametrize(
    "case", of_kind("poisson-substitute"), ids=lambda c: f"{c['removed']}-{c['added']}-{c['delta']}"
)
def test_substitution_is_enclosed(case):
    rate, noise = float(case["sampling_rate"]), float(case["noise_multiplier"])
    one = Round.of(side(case["removed"], rate, noise), side(case["added"], rate, noise))
    assert_enclosed(one, case["steps"], case)


@pytest.mark.parametrize("case", of_kind("balls-in-bins"), ids=lambda c: f"k{c['group_size']}")
def test_balls_in_bins_are_enclosed(case):
    one = balls_in_bins(case["group_size"], case["batches"], float(case["noise_multiplier"]))
    assert_enclosed(one, case["epochs"], case)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize(
    "case", of_kind("truncated-poisson")[:2], ids=lambda c: f"k{c['group_size']}-{c['largest_batch']}"
)
def test_truncated_poisson_is_enclosed(case, direction):
    one = truncated_poisson(
        case["group_size"],
        float(case["sampling_rate"]),
        case["dataset_size"],
        case["largest_batch"],
        float(case["noise_multiplier"]),
        remove=direction == "remove",
    )
    assert_enclosed(one, case["steps"], case, f"epsilon_{direction}")
