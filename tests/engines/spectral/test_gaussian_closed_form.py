"""With the group always present the mechanism is Gaussian, and everything is known in closed form."""

from __future__ import annotations

import math

import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

import groupdp
from strategies import examples


def gaussian_delta(mu: arb, epsilon: float) -> arb:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), in ball arithmetic (Balle and Wang 2018, Theorem 8)."""
    ctx.prec = 400
    eps = arb(epsilon)

    def phi(x: arb) -> arb:
        return (-x / arb(2).sqrt()).erfc() / 2

    return phi(mu / 2 - eps / mu) - eps.exp() * phi(-mu / 2 - eps / mu)


def gaussian_mu(noise: float, steps: int, sensitivity: int) -> arb:
    ctx.prec = 400
    return arb(sensitivity) * arb(steps).sqrt() / arb(noise)


@examples(60)
@given(
    noise=st.floats(0.5, 200.0),
    steps=st.integers(1, 10**7),
    group_size=st.integers(1, 30),
    position=st.floats(-2.0, 12.0),
)
def test_log_delta_encloses_the_closed_form(noise, steps, group_size, position):
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1.0), noise_multiplier=noise, steps=steps)
    mu = gaussian_mu(noise, steps, group_size)
    # `position` deviations to the right of the loss's mean mu^2 / 2.
    epsilon = max(0.0, float(mu) ** 2 / 2 + position * float(mu))
    truth = gaussian_delta(mu, epsilon).log()
    for direction in ("add", "remove"):
        bounds = groupdp.log_delta(run, epsilon=epsilon, group_size=group_size, adjacency=direction)
        assert bounds.lower <= truth.upper()
        assert bounds.upper >= truth.lower()
        assert bounds.width <= 1e-10 * max(1.0, epsilon)


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-30, 1e-300])
@pytest.mark.parametrize(
    ("noise", "steps", "group_size"), [(1.0, 1, 1), (1.0, 2000, 1), (5.0, 1, 3), (1000.0, 10**9, 7)]
)
def test_epsilon_is_enclosed_to_eleven_digits(noise, steps, group_size, delta):
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1.0), noise_multiplier=noise, steps=steps)
    mu = gaussian_mu(noise, steps, group_size)
    bounds = groupdp.epsilon(run, delta=delta, group_size=group_size)
    assert gaussian_delta(mu, bounds.upper) <= arb(delta)
    assert gaussian_delta(mu, bounds.lower) >= arb(delta)
    assert bounds.width <= 1e-11 * max(1.0, bounds.upper)


def test_a_full_batch_never_sampled_apart_is_gaussian_only_when_the_group_is_certain():
    # B = n: the batch is the whole smaller dataset, so with the group some of it is displaced at random.
    whole = groupdp.FixedBatchSampling(batch_size=40, dataset_size=40)
    run = groupdp.DPSGD(sampling=whole, noise_multiplier=20.0, steps=500)
    bounds = groupdp.epsilon(run, delta=1e-6, group_size=3)
    at_most = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1.0), noise_multiplier=10.0, steps=500)
    assert bounds <= groupdp.epsilon(at_most, delta=1e-6, group_size=3)
    assert bounds.lower > 0.0


def test_phases_of_gaussians_add_their_squares():
    phases = [
        groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1.0), noise_multiplier=noise, steps=steps)
        for noise, steps in ((3.0, 10), (4.0, 7), (50.0, 1000))
    ]
    mu = (arb(10) / 9 + arb(7) / 16 + arb(1000) / 2500).sqrt()
    bounds = groupdp.epsilon(phases, delta=1e-5, group_size=1)
    assert gaussian_delta(mu, bounds.upper) <= arb(1e-5) <= gaussian_delta(mu, bounds.lower)
    assert bounds.width <= 1e-11 * max(1.0, bounds.upper)


def test_tiny_noise_to_signal_has_an_epsilon_of_order_1e_minus_9():
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1.0), noise_multiplier=1e10, steps=100)
    mu = gaussian_mu(1e10, 100, 1)
    bounds = groupdp.epsilon(run, delta=1e-12, group_size=1)
    assert 1e-10 < bounds.lower < bounds.upper < 1e-8
    assert gaussian_delta(mu, bounds.upper) <= arb(1e-12) <= gaussian_delta(mu, bounds.lower)
    assert math.isclose(bounds.lower, bounds.upper, rel_tol=1e-9)
