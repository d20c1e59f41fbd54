"""A distribution from the description of a run."""

from __future__ import annotations

import pytest

import groupdp
from refusals import refused

POISSON = groupdp.DPSGD(groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=200)
FIXED = groupdp.DPSGD(
    groupdp.FixedBatchSampling(batch_size=10, dataset_size=1000), noise_multiplier=3.0, steps=20, microbatch_size=2
)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("adjacency", ["remove", "add"])
@pytest.mark.parametrize("run", [POISSON, [POISSON, FIXED]], ids=["one phase", "two phases"])
def test_it_encloses_what_the_accountant_says(run, adjacency):
    made = groupdp.PrivacyLossDistribution.from_run(run, group_size=3, adjacency=adjacency)
    exact = groupdp.epsilon(run, delta=1e-6, group_size=3, adjacency=adjacency)
    found = made.epsilon(1e-6)
    assert found.lower <= exact.upper
    assert found.upper >= exact.lower
    assert found.width < 1e-3
    assert made.direction == adjacency
    assert made.rounds == (200 if run is POISSON else 220)


def test_what_is_no_single_pair_is_refused():
    make = groupdp.PrivacyLossDistribution.from_run
    for given, argument in (
        ({"run": POISSON, "adjacency": "add-or-remove"}, "adjacency"),
        ({"run": POISSON, "group_size": 0}, "run"),
        ({"run": 3}, "run"),
        ({"run": POISSON, "grid_step": 0.0}, "grid_step"),
    ):
        with refused(argument):
            make(**given)


def test_what_is_printed_can_be_read():
    assert repr(POISSON) == "DPSGD(PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=200)"
    assert repr(FIXED).endswith("steps=20, microbatch_size=2)")
    assert repr(groupdp.Bounds(1.0, 2.0)) == "Bounds(lower=1.0, upper=2.0)"
    assert repr(groupdp.Bounds(1.0, 2.0, tight=False)) == "Bounds(lower=1.0, upper=2.0, tight=False)"
