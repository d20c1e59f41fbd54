"""Privacy loss distributions against ball arithmetic: probabilities and quantiles of the loss, and delta."""

from __future__ import annotations

import math
import random

import flint
import pytest
from flint import arb, fmpq

import groupdp
from containment.balls import assert_contains, ball, gaussian_delta, tail
from containment.half_line_truth import ZERO, Truth, exact, mixture_side
from groupdp.pld import PrivacyLossDistribution


@pytest.mark.thinned(6)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_one_round(seed: int, direction: str) -> None:
    generator = random.Random(seed)
    rate, noise = 10.0 ** generator.uniform(-3.0, -0.2), 10.0 ** generator.uniform(-0.5, 0.6)
    law = [0.0, 1.0, 2.5], [1.0 - rate, 0.75 * rate, 0.25 * rate], noise
    distribution = PrivacyLossDistribution.from_mixture(
        groupdp.MixtureOfGaussians(*law), direction=direction, grid_step=10.0 ** generator.uniform(-3.0, -1.0)
    )
    side = mixture_side(*law)
    truth = Truth([(fmpq(1), side, ZERO)] if direction == "remove" else [(fmpq(1), ZERO, side)], 250)
    spread = math.sqrt(distribution.variance.upper)
    with flint.ctx.workprec(250):
        for place in (-3.0, -0.3, 0.1, 2.0, 8.0):
            loss = distribution.mean.upper + place * spread
            larger, smaller = truth.tests(ball(loss))
            below = truth._mass(1, larger, False).union(truth._mass(1, smaller, False))
            assert_contains(distribution.cdf(loss), below, law, loss)
            delta = truth.delta(ball(loss))
            if delta > 0 and delta.rel_accuracy_bits() > 60:
                assert_contains(distribution.delta(loss), delta, law, loss)
        for probability in (1e-6, 0.2, 0.97, 1.0 - 1e-9):
            found = distribution.quantile(probability)
            # P(L <= x) is below p to the left of the quantile, and at least p to its right.
            for place, sign in ((found.lower, -1), (found.upper, 1)):
                if math.isfinite(place):
                    larger, smaller = truth.tests(ball(place))
                    below = truth._mass(1, larger, False).union(truth._mass(1, smaller, False))
                    assert not sign * (below - ball(probability)) < 0, (law, probability, found)


@pytest.mark.parametrize(("mu", "rounds"), [(0.1, 60), (0.5, 3), (2.0, 30)])
def test_composed_gaussians(mu: float, rounds: int) -> None:
    """The loss of T rounds of N(mu) against N(0) is N(T mu^2 / 2, T mu^2)."""
    mixture = groupdp.MixtureOfGaussians([mu], [1.0], 1.0)
    distribution = PrivacyLossDistribution.from_mixture(mixture, direction="remove", grid_step=mu / 64.0)
    distribution = distribution.self_compose(rounds)
    with flint.ctx.workprec(200):
        square = rounds * ball(mu) ** 2
        assert_contains(distribution.mean, square / 2)
        assert_contains(distribution.variance, square)
        for place in (-4.0, -0.5, 0.7, 3.0):
            loss = float((square / 2).mid()) + place * float(square.sqrt().mid())
            assert_contains(distribution.cdf(loss), tail(-(ball(loss) - square / 2) / square.sqrt()), mu, loss)
            assert_contains(distribution.delta(loss), gaussian_delta(ball(loss), square.sqrt()))
        for probability in (1e-4, 0.5, 0.9999):
            found = distribution.quantile(probability)
            for end, sign in ((found.lower, -1), (found.upper, 1)):
                below = tail(-(arb(exact(end)) - square / 2) / square.sqrt())
                assert not sign * (below - ball(probability)) < 0, (mu, probability, found)
