"""What once broke the spectral engine: each test is named after it."""

from __future__ import annotations

import math

import oracle_closed
import pytest
from flint import arb
from oracle import Mixture

import groupdp


def enclosed(bounds: groupdp.Bounds, truth: arb) -> bool:
    return arb(bounds.lower) <= truth <= arb(bounds.upper)


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize(("shift", "rounds", "deviations"), [(0.49, 256, 1000.0), (0.4, 300, 1500.0), (0.3, 256, 2000.0)])
def test_one_plus_expm1_kept_no_digit_of_a_tiny_likelihood_ratio(shift, rounds, deviations, direction):
    # Shifts below 1/2 took R = 1 + expm1(...): log delta was wrong by 18, or log(0) was taken.
    mechanism = groupdp.MixtureOfGaussians([shift], [1.0], 1.0)
    mu = shift * math.sqrt(rounds)
    epsilon = mu * mu / 2 + deviations * mu
    bounds = groupdp.log_delta(mechanism, rounds=rounds, epsilon=epsilon, adjacency=direction, engine="spectral")
    truth = oracle_closed.gaussian_log_delta([(Mixture([shift], [1], 1), rounds)], epsilon=epsilon)
    assert enclosed(bounds, truth)
    assert bounds.width < 1e-12 * abs(bounds.upper)
