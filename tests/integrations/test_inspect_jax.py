"""`groupdp.inspect` on JAX Privacy's batch selections, and on objects of tools that are not installed."""

from __future__ import annotations

import pytest

batch_selection = pytest.importorskip("jax_privacy.batch_selection")

import groupdp


def test_right_selections_pass():
    poisson = batch_selection.CyclicPoissonSampling(sampling_prob=0.05, iterations=40)
    found = groupdp.inspect(poisson, claim=groupdp.PoissonSampling(rate=0.05))
    assert found.passes
    assert found.run(noise_multiplier=1.0, epochs=1).steps == 40
    thrown = batch_selection.BallsInBinsSampling(iterations=10, cycle_length=10)
    assert groupdp.inspect(thrown).sampling == groupdp.BallsInBinsSampling(batches=10)


@pytest.mark.parametrize(
    "make",
    [
        lambda: batch_selection.CyclicPoissonSampling(sampling_prob=0.05, iterations=40, cycle_length=4),
        lambda: batch_selection.CyclicPoissonSampling(sampling_prob=0.05, iterations=40, truncated_batch_size=5),
        lambda: batch_selection.BallsInBinsSampling(iterations=40, cycle_length=10),
        lambda: batch_selection.FixedBatchSampling(batch_size=5, iterations=40, replace=True),
        lambda: batch_selection.FixedBatchSampling(batch_size=5, iterations=40, replace=False),
        lambda: batch_selection.BMinSepSampling(sampling_prob=0.05, iterations=40, min_sep=4),
    ],
)
def test_wrong_or_unknown_selections_do_not_pass(make):
    assert not groupdp.inspect(make()).passes


def test_another_rate_does_not_pass():
    poisson = batch_selection.CyclicPoissonSampling(sampling_prob=0.05, iterations=40)
    assert not groupdp.inspect(poisson, claim=groupdp.PoissonSampling(rate=0.04)).passes
