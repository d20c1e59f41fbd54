"""What once broke the spectral engine: each test is named after it."""

from __future__ import annotations

import math

import pytest
from flint import arb, ctx

import groupdp
from oracle import Mixture
from oracle import closed as oracle_closed


def enclosed(bounds: groupdp.Bounds, truth: arb) -> bool:
    return arb(bounds.lower) <= truth.upper() and truth.lower() <= arb(bounds.upper)


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize(
    ("shift", "rounds", "deviations"), [(0.49, 256, 1000.0), (0.4, 300, 1500.0), (0.3, 256, 2000.0)]
)
def test_one_plus_expm1_kept_no_digit_of_a_tiny_likelihood_ratio(shift, rounds, deviations, direction):
    # Shifts below 1/2 took R = 1 + expm1(...): log delta was wrong by 18, or log(0) was taken.
    mechanism = groupdp.MixtureOfGaussians([shift], [1.0], 1.0)
    mu = shift * math.sqrt(rounds)
    epsilon = mu * mu / 2 + deviations * mu
    bounds = groupdp.log_delta(mechanism, rounds=rounds, epsilon=epsilon, adjacency=direction, engine="spectral")
    truth = oracle_closed.gaussian_log_delta([(Mixture([shift], [1], 1), rounds)], epsilon=epsilon)
    assert enclosed(bounds, truth)
    assert bounds.width < 1e-12 * abs(bounds.upper)


@pytest.mark.parametrize("adjacency", ["add", "remove"])
@pytest.mark.parametrize(
    ("sensitivities", "probabilities", "noise"),
    [
        ([1.0], [1.0], 4e-52),  # the shift overflows when squared
        ([1e80], [1.0], 2.7e-222),  # the shift itself overflows
        ([1e-98, 1e134], [0.5, 0.5], 2e-118),
        ([1e-200, 1.0], [0.5, 0.5], 1e200),  # a shift underflows to 0
        ([1e9, 1e9 + 1.0], [0.66, 0.34], 0.125),  # exponents of 1e20, none of whose digits is right
    ],
)
def test_shifts_beyond_doubles_are_refused_without_a_warning(sensitivities, probabilities, noise, adjacency):
    mechanism = groupdp.MixtureOfGaussians(sensitivities, probabilities, noise)
    with pytest.raises(groupdp.LimitExceeded):
        groupdp.epsilon(mechanism, rounds=1000, delta=1e-5, adjacency=adjacency, engine="spectral")


def test_a_plain_gaussian_with_next_to_no_noise_is_still_within_reach():
    # Exponents of 1e12 have no accurate double; the rounds are divided until shifts are at most 1.
    mechanism = groupdp.MixtureOfGaussians([1.0], [1.0], 1e-5)
    bounds = groupdp.epsilon(mechanism, rounds=1000, delta=1e-5, engine="spectral")
    composition = [(Mixture([1], [1], 1e-5), 1000)]
    target = arb(1e-5).log()
    assert oracle_closed.gaussian_log_delta(composition, epsilon=bounds.upper) <= target
    assert oracle_closed.gaussian_log_delta(composition, epsilon=bounds.lower) >= target
    assert bounds.relative_width < 1e-12


def test_a_phase_of_next_to_no_loss_overflowed_the_height_of_its_density():
    phases = [
        groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)
        for rate, noise, steps in ((5e-324, 5.0, 10**6), (1.0, 0.6, 10**6))
    ]
    bounds = groupdp.log_delta(phases, epsilon=2e6, group_size=1, adjacency="remove", engine="spectral")
    without = groupdp.log_delta(phases[1], epsilon=2e6, group_size=1, adjacency="remove", engine="spectral")
    assert bounds.intersects(without)


NOISELESS = [
    ("add", 0.3, 5, 1.0 - 2.0**-50, 0.0),  # beyond the largest loss: epsilon 0
    ("add", 0.9999, 9, 1.0 - 2.0**-50, None),  # 1 - e^log(delta) kept 3 bits
    ("add", 0.25, 4, 1e-300, None),
]


@pytest.mark.parametrize(("adjacency", "rate", "steps", "delta", "expected"), NOISELESS)
def test_without_noise_epsilon_next_to_a_delta_of_one(adjacency, rate, steps, delta, expected):
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=0.0, steps=steps)
    bounds = groupdp.epsilon(run, delta=delta, group_size=1, adjacency=adjacency)
    # add: delta = 1 - e^eps (1 - q)^T while that is positive.
    truth = (1 - arb(delta)).log() - steps * (1 - arb(rate)).log()
    truth = arb(0) if truth < 0 else truth
    assert enclosed(bounds, truth)
    assert expected is None or bounds.upper == expected


@pytest.mark.parametrize("rate", [1e-300, 5e-324, 1e-9, 0.5])
@pytest.mark.parametrize("steps", [1, 1000, 2**53])
@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 3.0])
def test_without_noise_log_delta_is_enclosed(rate, steps, epsilon):
    # The slack was absolute: less than the last place of a logarithm of -690. And 1 - e^-40 was taken for 1.
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=0.0, steps=steps)
    absent = steps * (1 - arb(rate)).log()
    with ctx.workprec(3000):
        absent = steps * (1 - arb(rate)).log()
        remove = (1 - absent.exp()).log()
        exponent = arb(epsilon) + absent
        add = (1 - exponent.exp()).log() if exponent < 0 else arb.neg_inf()
    assert enclosed(groupdp.log_delta(run, epsilon=epsilon, group_size=1, adjacency="remove"), remove)
    bounds = groupdp.log_delta(run, epsilon=epsilon, group_size=1, adjacency="add")
    assert enclosed(bounds, add) or (add == arb.neg_inf() and bounds.lower == bounds.upper == -math.inf)


@pytest.mark.parametrize("delta", [5e-324, 1e-323, 1e-300])
@pytest.mark.parametrize("rate", [5e-324, 1e-323, 1e-300])
def test_without_noise_a_subnormal_delta_took_the_logarithm_of_zero(rate, delta):
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=0.0, steps=1)
    bounds = groupdp.epsilon(run, delta=delta, group_size=1, adjacency="remove")
    truth = 0.0 if rate <= delta else math.inf  # delta(eps) = q for every eps
    assert bounds.lower <= truth <= bounds.upper


@pytest.mark.parametrize(
    ("sensitivity", "noise", "rounds", "epsilon"),
    [(82.587, 0.15236, 1, 416749.6), (138.87, 0.13027, 2, 2512683.0), (905.7116, 1.0, 255, 109670130.5)],
)
def test_a_thinned_round_whose_every_component_peaks_beyond_the_edge_had_no_nodes(sensitivity, noise, rounds, epsilon):
    mechanism = groupdp.MixtureOfGaussians([sensitivity, sensitivity * (1 + 1e-15)], [0.5, 0.5], noise)
    try:
        bounds = groupdp.log_delta(mechanism, rounds=rounds, epsilon=epsilon, adjacency="remove", engine="spectral")
    except groupdp.LimitExceeded:
        return  # an honest answer; a ValueError was not
    composition = [(Mixture([sensitivity], [1], noise), rounds)]
    truth = oracle_closed.gaussian_log_delta(composition, epsilon=epsilon)
    assert abs(truth - bounds.upper) < 1e-6 + bounds.width
