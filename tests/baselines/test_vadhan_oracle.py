"""Vadhan's lemma against direct bisection on the oracle's curve of one example (studies/vadhan_oracle.py)."""

from __future__ import annotations

import json

import pytest

import groupdp
import oracle
from groupdp.baselines import compare, vadhan_epsilon
from oracle.one_example import OneExample
from oracle.one_example_law import OneExampleLaw
from paths import TESTS
from refusals import refused

CASES = json.loads((TESTS / "golden" / "vadhan.json").read_text(encoding="utf-8"))


@pytest.mark.thinned(6)
@pytest.mark.parametrize("case", CASES, ids=[f"{case['rate']:.3g}-{case['steps']}-{case['size']}" for case in CASES])
def test_the_smallest_feasible_value_agrees_with_bisection(case):
    sampling = groupdp.PoissonSampling(rate=case["rate"])
    run = groupdp.DPSGD(sampling, noise_multiplier=case["noise"], steps=case["steps"])
    found = vadhan_epsilon(run, delta=case["delta"], group_size=case["size"], form=case["form"])
    assert found.provenance.tolerance_met
    assert found.lower == pytest.approx(case["epsilon"], rel=1e-6)
    assert found.upper == pytest.approx(case["epsilon"], rel=1e-6)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(
    ("rate", "noise", "steps", "epsilon"),
    [(0.01, 1.0, 2000, 1.0), (0.1, 2.0, 50, 1.0), (0.05, 0.8, 300_000, 2000.0), (0.2, 5.0, 100_000, 30.0)],
)
def test_the_oracle_in_doubles_agrees_with_balls(rate, noise, steps, epsilon, direction):
    phase = {"sampling_rate": rate, "noise_multiplier": noise, "steps": steps}
    truth = oracle.log_delta(oracle.compose([phase], group_size=1), epsilon=epsilon, direction=direction, digits=14)
    found = OneExample(rate, noise, steps, direction).log_delta(epsilon)
    assert found == pytest.approx(float(truth.mid()), rel=1e-9, abs=1e-11)


@pytest.mark.thinned
@pytest.mark.parametrize(("direction", "epsilon"), [("remove", 1.0), ("add", 1.0)])
def test_the_oracle_by_densities_agrees_with_balls(direction, epsilon):
    phase = {"sampling_rate": 0.2, "noise_multiplier": 2.0, "steps": 20}
    truth = oracle.log_delta(oracle.compose([phase], group_size=1), epsilon=epsilon, direction=direction, digits=14)
    found = OneExampleLaw(0.2, 2.0, 20).log_delta(epsilon, direction)
    assert found == pytest.approx(float(truth.mid()), rel=1e-9, abs=1e-9)


def test_a_bad_argument_is_not_taken_for_a_missing_baseline(monkeypatch):

    def refuse(*_, **__):
        raise groupdp.InvalidArgument("delta", 0.5, "be another one")

    monkeypatch.setattr("groupdp.baselines.vadhan_epsilons", refuse)
    run = groupdp.DPSGD(groupdp.PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=100)
    with refused("delta"):
        compare(run, delta=1e-6, group_sizes=[1, 2])
