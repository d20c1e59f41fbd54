"""False accounts of random allocations: each is rejected, by the audit or by exact likelihoods."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import groupdp
from groupdp import DPSGD, BallsInBinsSampling, PoissonSampling, SpreadSampling
from groupdp.audit import attack_scores, check_claim, claimed_curve, worst_case
from groupdp.engines import spectral
from groupdp.errors import InvalidArgument
from groupdp.pairs import AllocationRound

NOISE = 1.0


def gaussian_delta(mu: float, epsilon: float) -> float:
    """N(mu, 1) against N(0, 1)."""
    lower, upper = ((mu / 2.0 + sign * epsilon / mu) / math.sqrt(2.0) for sign in (-1.0, 1.0))
    return 0.5 * math.erfc(-lower) - 0.5 * math.exp(epsilon) * math.erfc(upper)


def grid_delta(with_group: dict, without: dict, epsilon: float) -> float:
    """A lower bound on delta, but for the rule's error of 1e-6: two batches, sums with these laws of their means."""
    axis = np.linspace(-9.0, 9.0, 721)

    def density(law: dict) -> np.ndarray:
        parts = (
            p * np.exp(-0.5 * np.add.outer((axis - a) ** 2, (axis - b) ** 2)) / (2.0 * math.pi)
            for (a, b), p in law.items()
        )
        return sum(parts)

    cell = (axis[1] - axis[0]) ** 2
    return float(np.maximum(density(with_group) - math.exp(epsilon) * density(without), 0.0).sum() * cell)


def test_poisson_accounting_of_balls_in_bins_is_rejected():
    """Exact likelihoods attack two batches: one of them surely holds the example."""
    run = DPSGD(BallsInBinsSampling(batches=2), noise_multiplier=0.7, steps=2)
    instance = worst_case(run, group_size=1, adjacency="add-or-remove")
    scores = attack_scores(instance, trials=30_000, seed=5)
    pretended = DPSGD(PoissonSampling(rate=0.5), noise_multiplier=0.7, steps=2)
    for claimed, is_false in ((pretended, True), (run, False)):
        curve = claimed_curve(claimed, group_size=1, adjacency="add-or-remove", points=12)
        assert check_claim(scores, curve, confidence=0.999).contradicted == is_false


def test_poisson_accounting_is_too_small_where_one_example_joins():
    """The golden values 0.4864 and 0.3795: exact both, at N = 100, one epoch, sigma = 1."""
    balls = DPSGD(BallsInBinsSampling(batches=100), noise_multiplier=1.0, steps=100)
    poisson = DPSGD(PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=100)
    true, pretended = (groupdp.epsilon(run, delta=1e-6, group_size=1, adjacency="add") for run in (balls, poisson))
    assert true.tight
    assert pretended.upper < true.lower
    assert true.upper == pytest.approx(0.4864, abs=1e-4)


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_one_block_too_few_is_too_small(epsilon):
    """Two examples in distinct batches of two: N(sqrt 2), nothing is random. Blocks of N / (k - 1) = 2 overlap."""
    exact = gaussian_delta(math.sqrt(2.0) / NOISE, epsilon)
    overlapping = ((AllocationRound.of(2, 1.0 / NOISE), 2),)
    assert math.exp(spectral.log_delta(overlapping, epsilon=epsilon).upper) < exact
    run = DPSGD(SpreadSampling(batches=2), noise_multiplier=NOISE, steps=2)
    bounds = groupdp.delta(run, epsilon=epsilon, group_size=2, adjacency="remove")
    assert bounds.lower <= exact * (1.0 + 1e-12)
    assert bounds.upper >= exact * (1.0 - 1e-12)


def test_capped_batches_have_no_such_bound():
    """Two batches of at most one example; four others pull by -1, the group's example displaces whoever is there."""
    with_group: dict = {}
    without: dict = {}
    for places in itertools.product((0, 1), repeat=4):
        others = tuple(-1.0 if batch in places else 0.0 for batch in (0, 1))
        without[others] = without.get(others, 0.0) + 1.0 / 16.0
        for own in (0, 1):
            moved = tuple(1.0 if batch == own else others[batch] for batch in (0, 1))
            with_group[moved] = with_group.get(moved, 0.0) + 1.0 / 32.0
    run = DPSGD(BallsInBinsSampling(batches=2), noise_multiplier=1.0, steps=2)
    for epsilon in (0.5, 1.5):
        claimed = groupdp.delta(run, epsilon=epsilon, group_size=1, adjacency="remove").upper
        assert grid_delta(with_group, without, epsilon) > 1.2 * claimed
    kept = {(1.0, 0.0): 0.5, (0.0, 1.0): 0.5}
    exact = groupdp.delta(run, epsilon=0.5, group_size=1, adjacency="remove")
    assert grid_delta(kept, {(0.0, 0.0): 1.0}, 0.5) == pytest.approx(exact.upper, abs=1e-5)


def test_batches_that_must_stay_secret_are_not_released():
    run = DPSGD(BallsInBinsSampling(batches=4), noise_multiplier=2.0, steps=4)
    instance = worst_case(run, group_size=1, adjacency="zero-out")
    with pytest.raises(InvalidArgument) as caught:
        attack_scores(instance, trials=10, seed=1, reveal_batches=True)
    assert caught.value.argument == "reveal_batches"
