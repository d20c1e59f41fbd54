"""The lower bound by a single large loss (L-16): below the truth, and close to it where losses are rare and large."""

from __future__ import annotations

import math

import pytest

import oracle
from engines.lattice_balls import binomial_mixture, composed
from groupdp import pairs
from groupdp.engines import lattice
from groupdp.engines.lattice.one_round import single_loss_epsilon, single_loss_log_delta
from groupdp.mechanisms.mixture import MixtureOfGaussians
from oracle import closed as oracle_closed

DIRECTIONS = ["add", "remove"]


@pytest.mark.parametrize("rounds", [2, 10, 1000])
@pytest.mark.parametrize("epsilon", [-0.5, 0.0, 0.7, 5.0])
def test_below_the_gaussian_mechanism(rounds, epsilon):
    composition = composed((MixtureOfGaussians([0.0, 1.0], [0.0, 1.0], 2.0), rounds), direction="remove")
    exact = oracle_closed.gaussian_log_delta([(oracle.Mixture([1], [1], 2), rounds)], epsilon=epsilon)
    bound = single_loss_log_delta(composition, epsilon)
    assert -math.inf < bound
    assert exact >= bound


@pytest.mark.thinned(6)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_below_a_narrow_bracket(direction, share):
    composition = composed(
        (binomial_mixture(2, 0.01, 1.0), 8), (binomial_mixture(1, 0.1, 3.0), 40), direction=direction
    )
    epsilon = share * min(pairs.largest_loss(composition), 2.0)
    found = lattice.log_delta(composition, epsilon=epsilon, tolerance=1e-5)
    assert single_loss_log_delta(composition, epsilon) <= found.upper


def test_close_where_losses_are_rare_and_large():
    composition = composed((binomial_mixture(1, 1e-4, 0.7), 10), direction="remove")
    found = lattice.log_delta(composition, epsilon=6.0, tolerance=1e-4)
    bound = single_loss_log_delta(composition, 6.0)
    assert found.relative_width <= 1e-4
    assert found.upper - 0.01 < bound <= found.upper
    epsilon = single_loss_epsilon(composition, found.upper, start=5.0, resolution=1e-9)
    assert 5.99 < epsilon <= 6.0


def test_where_no_tilt_reaches_the_tail_it_says_most_of_what_is_known():
    composition = composed((binomial_mixture(1, 1e-4, 3.1), 36_000), direction="remove")
    found = lattice.log_delta(composition, epsilon=0.23, memory_budget=10**7)
    assert not found.provenance.tolerance_met
    assert -320.0 < found.lower < found.upper < -240.0  # -257 with all the memory
