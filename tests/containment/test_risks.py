"""Risks against ball arithmetic: advantage, right guesses, posteriors, the distance from the closest Gaussian."""

from __future__ import annotations

import random

import flint
import pytest
from flint import arb, fmpq

import groupdp
from containment.balls import assert_contains, ball, gaussian_delta
from containment.half_line_truth import ZERO, Truth, exact, poisson_side
from groupdp.tradeoff import trade_off
from groupdp.tradeoff.risk import posterior, risk, success


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("adjacency", ["add", "remove"])
def test_right_guesses_on_one_round(seed: int, adjacency: str) -> None:
    """max over tests of p TPR + (1 - p)(1 - FPR) = (1 - p) + p delta(log((1 - p) / p)), for extreme priors."""
    generator = random.Random(seed)
    rate, noise = 10.0 ** generator.uniform(-4.0, -0.1), 10.0 ** generator.uniform(-0.5, 1.0)
    prior = generator.choice([10.0 ** generator.uniform(-200.0, -1.0), generator.random(), 1.0 - 2.0**-50])
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=1)
    side = poisson_side(1, rate, noise)
    truth = Truth([(fmpq(1), side, ZERO)] if adjacency == "remove" else [(fmpq(1), ZERO, side)], 700)
    with flint.ctx.workprec(700):
        p = ball(prior)
        delta = truth.delta(((1 - p) / p).log())
        right = (1 - p) + p * delta
        right = right if right.rad() < 1e-30 else right.intersection(arb(1 - exact(prior)).union(arb(1)))
    found = success(trade_off(run, group_size=1, adjacency=adjacency), prior)
    assert_contains(found, right, rate, noise, prior)


def test_posteriors_of_rates_next_to_underflow() -> None:
    """prior x rate underflows: the quotient of the rates does not."""
    with flint.ctx.workprec(200):
        for rate, false, prior in ((3e-320, 1e-320, 0.3), (2e-310, 1e-312, 1e-8), (1e-300, 1e-305, 1e-12)):
            r, f, p = ball(rate), ball(false), ball(prior)
            found = posterior(groupdp.Bounds(rate, rate), false, prior=prior)
            assert_contains(found, p * r / (p * r + (1 - p) * f))
            assert found.upper - found.lower <= 1e-12 * found.upper


@pytest.mark.parametrize(("rate", "noise", "steps"), [(0.3, 2.0, 1), (1.0, 20.0, 400)])
def test_the_distance_from_the_closest_gaussian(rate: float, noise: float, steps: int) -> None:
    """T-9, T-10: kappa is at least |delta - delta_mu| / (1 + e^eps) at every epsilon, here at many."""
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)
    found = risk(run, group_size=1, adjacency="remove", false_positive_rates=(1e-3,)).gaussian
    side = poisson_side(1, rate, noise)
    with flint.ctx.workprec(200):
        mu = ball(found.mu)
        for i in range(-6, 7):
            epsilon = arb(i) / 2
            if rate == 1.0:
                delta = gaussian_delta(epsilon, arb(steps).sqrt() / ball(noise))
            else:
                delta = Truth([(fmpq(1), side, ZERO)], 200).delta(epsilon)
            gap = abs(delta - gaussian_delta(epsilon, mu)) / (1 + epsilon.exp())
            assert not gap > ball(found.error)


def test_the_advantage_of_one_round() -> None:
    for rate, noise in ((1e-5, 0.3), (0.5, 30.0)):
        run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=1)
        truth = Truth([(fmpq(1), poisson_side(1, rate, noise), ZERO)], 300).delta(arb(0))
        found = risk(run, group_size=1, adjacency="remove", false_positive_rates=(1e-9,))
        assert_contains(found.advantage, truth)
        power, _ = Truth([(fmpq(1), poisson_side(1, rate, noise), ZERO)], 300).rates(exact(1e-9))
        assert_contains(found.true_positive_rate[1e-9], power)
        assert_contains(found.posterior[1e-9], power / (power + ball(1e-9)))
