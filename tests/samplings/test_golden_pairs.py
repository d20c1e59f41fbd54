"""Golden epsilons of rounds beyond the paper's two theorems (tests/golden/pairs.json), each inside narrow bounds."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

import groupdp
from groupdp import DPSGD, Bounds
from paths import DATA
from revealed_allocation import RevealedBallsInBins

CASES = json.loads((DATA / "pairs.json").read_text())["cases"]


def sampling_of(case: dict[str, Any]) -> groupdp.samplings.Sampling:
    kind = case["kind"]
    if kind == "poisson-substitute":
        return groupdp.PoissonSampling(rate=float(case["sampling_rate"]))
    if kind == "truncated-poisson":
        return groupdp.TruncatedPoissonSampling(
            rate=float(case["sampling_rate"]), largest_batch=case["largest_batch"], dataset_size=case["dataset_size"]
        )
    if kind == "shuffled":
        size = case["batch_size"]
        return groupdp.ShuffledSampling(batch_size=size, dataset_size=size * case["batches"])
    if kind == "balls-in-bins":
        return RevealedBallsInBins(batches=case["batches"])
    if kind == "sources":
        return groupdp.PoissonSources(rates={str(i): float(rate) for i, (rate, _) in enumerate(case["counts"])})
    assert kind == "fixed-batch-substitute"
    return groupdp.FixedBatchSampling(batch_size=case["batch_size"], dataset_size=case["dataset_size"])


def run_of(case: dict[str, Any]) -> DPSGD:
    steps = case["steps"] if "steps" in case else case["epochs"] * case["batches"]
    return DPSGD(sampling_of(case), noise_multiplier=float(case["noise_multiplier"]), steps=steps)


def questions(case: dict[str, Any]) -> list[tuple[dict[str, Any], str, str]]:
    """(arguments, name of the ordered change, the golden epsilon)"""
    if case["kind"] == "poisson-substitute":
        removed, added = case["removed"], case["added"]
        asked = {"removed": removed, "added": added, "every_change": True}
        return [(asked, f"remove {removed}, add {added}", case["epsilon"])]
    group = case.get("group_size")
    if case["kind"] == "sources":
        group = {str(i): count for i, (_, count) in enumerate(case["counts"])}
    if "epsilon" in case:
        adjacency = {"shuffled": "zero-out", "balls-in-bins": "remove", "fixed-batch-substitute": "substitute"}
        name = adjacency[case["kind"]]
        return [({"group_size": group, "adjacency": name}, name, case["epsilon"])]
    return [({"group_size": group, "adjacency": name}, name, case[f"epsilon_{name}"]) for name in ("remove", "add")]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_epsilons_lie_inside_narrow_bounds(case: dict[str, Any]):
    width = 1e-9 if case["kind"] == "poisson-substitute" else 1e-8
    width = 1e-5 if case["kind"] == "fixed-batch-substitute" else width
    for asked, name, golden in questions(case):
        found = groupdp.epsilon(run_of(case), delta=float(case["delta"]), **asked)
        bounds = Bounds(*found.provenance.directions[name])
        # The table has so many digits, and its decimals are taken at their nearest doubles here.
        room = Decimal(golden) * Decimal(10) ** -(case.get("digits", 15) - 1)
        assert Decimal(bounds.lower) - room <= Decimal(golden) <= Decimal(bounds.upper) + room
        assert bounds.width <= width * max(1.0, bounds.upper)


def test_the_first_digits_of_the_issue():
    run = DPSGD(groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
    for size, digits in ((1, "4.69611473394860"), (4, "24.4792429086480")):
        found = groupdp.epsilon(run, delta=1e-6, group_size=size, adjacency="substitute")
        assert found.lower <= float(digits) * (1 + 1e-14)
        assert found.upper >= float(digits) * (1 - 1e-14)
        assert found.tight
