"""The chain of the f-DP group bound: few chains wherever log delta lies, and closed forms of Gaussian runs."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import brentq
from scipy.special import log_ndtr

import groupdp
from groupdp.baselines import fdp
from groupdp.baselines.fdp import fdp_epsilon


@pytest.mark.parametrize("power", [0.15, 0.6, 1.0, 4.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_a_crossing_is_found_in_a_dozen_steps(power, scale):
    # log A = scale - (-log alpha)^power: steps of the size of the excess took sixty and did not end there.
    level = -18.4
    exact = -((scale - level) ** (1.0 / power))
    crossing, log_alpha, steps = fdp._Crossing(level), level, 0
    while abs(log_alpha - exact) > 1e-9 * abs(exact):
        log_alpha = crossing.next(log_alpha, scale - (-log_alpha) ** power)
        steps += 1
        assert crossing.low <= exact * (1.0 - 1e-12)
        assert crossing.high >= exact * (1.0 + 1e-12)
        assert steps <= 3 + math.ceil(math.log(abs(exact) / 18.4, 4.0) if exact < level else 2.0) + 9


@pytest.mark.parametrize("size", [2, 9, 20])
@pytest.mark.parametrize("delta", [1e-3, 1e-12])
def test_the_chain_of_one_gaussian_round_is_a_gaussian_round(size, delta):
    # G_mu composed with itself k times is G_{k mu}. Chains were too few, and nothing near it was found.
    run = groupdp.DPSGD(groupdp.FixedOrderSampling(batch_size=1, dataset_size=190), noise_multiplier=1.6, steps=2)
    mu = size / 1.6

    def excess(epsilon):
        first, second = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        return first + math.log(-math.expm1(second - first)) - math.log(delta)

    expected = brentq(excess, 1e-6, 10 * mu * (mu + 10.0), xtol=1e-12, rtol=1e-14)
    found = fdp_epsilon(run, delta=delta, group_size=size, adjacency="zero-out")
    assert found.lower <= expected * (1.0 + 1e-9)
    assert found.upper >= expected * (1.0 - 1e-9)
    assert found.upper - found.lower <= 1e-6 * expected


def test_an_epsilon_far_from_log_delta_is_found():
    # LimitExceeded: log alpha is 10 000 times log delta here, and doubled at most.
    sampling = groupdp.ShuffledOnceSampling(batch_size=26_054, dataset_size=3_355_144)
    run = groupdp.DPSGD(sampling, noise_multiplier=1.551, steps=84_589)
    found = fdp_epsilon(run, delta=1e-12, group_size=8, adjacency="substitute")
    assert 37_000.0 < found.lower <= found.upper < 38_000.0
    assert found.upper - found.lower <= 1e-6 * found.upper
