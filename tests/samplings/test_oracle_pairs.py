"""Every case of the independent oracle's table (tests/golden/oracle_pairs.json) inside the package's bounds."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

import groupdp
from groupdp import samplings
from paths import DATA
from revealed_allocation import RevealedBallsInBins

CASES = json.loads((DATA / "oracle_pairs.json").read_text())["cases"]


def sampling_of(case: dict[str, Any]) -> samplings.Sampling:
    kind = case["kind"]
    rate = float(case.get("sampling_rate", "nan"))
    if kind == "poisson-substitute":
        return samplings.PoissonSampling(rate=rate)
    if kind.startswith("truncated"):
        sizes = {name: case[name] for name in ("largest_batch", "dataset_size")}
        return samplings.TruncatedPoissonSampling(rate=rate, **sizes)
    if kind.startswith("shuffled"):
        made = samplings.ShuffledOnceSampling if "once" in kind else samplings.ShuffledSampling
        return made(batch_size=case["batch_size"], dataset_size=case["batch_size"] * case["batches"])
    if kind.startswith("balls"):
        return RevealedBallsInBins(batches=case["batches"])
    if kind.startswith("sources"):
        return samplings.PoissonSources(
            rates={f"source {i}": float(rate) for i, (rate, _) in enumerate(case["counts"])}
        )
    return samplings.FixedBatchSampling(batch_size=case["batch_size"], dataset_size=case["dataset_size"])


def asked_of(case: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Arguments that describe the group, and the ordered change of each answer in the table."""
    kind = case["kind"]
    if kind == "poisson-substitute":
        removed, added = case["removed"], case["added"]
        return {"removed": removed, "added": added}, {"": f"remove {removed}, add {added}"}
    group = case.get("group_size")
    if kind.startswith("sources"):
        group = {f"source {i}": count for i, (_, count) in enumerate(case["counts"])}
    if "substitute" in kind:
        return {"group_size": group, "adjacency": "substitute"}, {"": "substitute"}
    if kind.startswith("shuffled"):
        return {"group_size": group, "adjacency": "zero-out"}, {"": "zero-out"}
    if kind.startswith("balls"):
        return {"group_size": group, "adjacency": "remove"}, {"": "remove"}
    if kind.endswith("zero-out"):
        names = {"_remove": "zero-out", "_add": "zero-out, reversed"}
        return {"group_size": group, "adjacency": "zero-out"}, names
    return {"group_size": group}, {"_remove": "remove", "_add": "add"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["kind"])
def test_the_oracle_s_values_are_enclosed(case: dict[str, Any]):
    steps = case["steps"] if "steps" in case else case["epochs"] * case["batches"]
    run = groupdp.DPSGD(sampling_of(case), noise_multiplier=float(case["noise_multiplier"]), steps=steps)
    asked, names = asked_of(case)
    if "delta" in case:
        quantity, found = "epsilon", groupdp.epsilon(run, delta=float(case["delta"]), every_change=True, **asked)
    else:
        quantity, found = (
            "log_delta",
            groupdp.log_delta(run, epsilon=float(case["epsilon"]), every_change=True, **asked),
        )
    for suffix, name in names.items():
        lower, upper = found.provenance.directions[name]
        truth = Decimal(case[quantity + suffix])
        if not truth.is_finite():
            assert lower == upper == float(truth)
            continue
        room = abs(truth) * Decimal(10) ** (1 - case.get("digits", 19))
        assert Decimal(lower) - room <= truth <= Decimal(upper) + room
        # lattices answer for the envelope and for a few rounds, contours for everything else
        wide = 1e-5 if case["kind"] == "fixed-batch-substitute" or case.get("steps", 50) < 10 else 2e-8
        assert upper - lower <= wide * max(1.0, abs(upper))
