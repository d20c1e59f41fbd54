"""One round: the closed form (L-14) against 40-digit tables and ball arithmetic."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

import groupdp
import oracle
from engines.lattice_balls import binomial_mixture, composed, exact_mixture
from groupdp.engines import lattice
from groupdp.mechanisms.mixture import MixtureOfGaussians
from oracle import closed as oracle_closed
from paths import DATA
from strategies import examples

CASES = json.loads((DATA / "one_round_delta.json").read_text())["cases"]


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"k{case['group_size']}-eps{case['epsilon']}")
def test_golden_deltas_to_twelve_digits(case, direction):
    run = groupdp.DPSGD(
        sampling=groupdp.PoissonSampling(rate=float(case["sampling_rate"])),
        noise_multiplier=float(case["noise_multiplier"]),
        steps=1,
    )
    found = groupdp.delta(
        run, epsilon=float(case["epsilon"]), group_size=case["group_size"], adjacency=direction, engine="lattice"
    )
    truth = float(case[f"delta_{direction}"])
    assert found.lower <= truth * (1 + 1e-15)
    assert found.upper >= truth * (1 - 1e-15)
    assert max(found.upper - truth, truth - found.lower) <= 1e-12 * truth


@examples(60)
@given(
    group_size=st.integers(1, 6),
    rate=st.floats(1e-5, 1.0),
    noise=st.floats(0.2, 30.0),
    epsilon=st.floats(-3.0, 12.0),
    direction=st.sampled_from(["add", "remove"]),
)
def test_the_exact_delta_is_enclosed(group_size, rate, noise, epsilon, direction):
    found = lattice.log_delta(
        composed((binomial_mixture(group_size, rate, noise), 1), direction=direction), epsilon=epsilon
    )
    truth = oracle_closed.one_round_log_delta(
        exact_mixture(group_size, rate, noise), epsilon=epsilon, direction=direction
    )
    assert not arb(found.lower) > truth
    assert not arb(found.upper) < truth


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1e-7])
def test_tiny_sensitivities_keep_their_digits(direction, epsilon):
    # delta is about 4e-8: subtracting normal probabilities would leave eight digits of it
    mixture = MixtureOfGaussians([0.0, 1e-7], [0.0, 1.0], 1.0)
    found = lattice.log_delta(composed((mixture, 1), direction=direction), epsilon=epsilon)
    truth = oracle_closed.one_round_log_delta(oracle.Mixture([1e-7], [1], 1), epsilon=epsilon, direction=direction)
    assert arb(found.lower) <= truth <= arb(found.upper)
    assert found.width < 1e-7


@pytest.mark.parametrize("log_delta", [-1e-3, -1.0, -14.0, -300.0, -5000.0])
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_epsilon_inverts_delta(log_delta, direction):
    composition = composed((binomial_mixture(3, 0.2, 1.5), 1), direction=direction)
    found = lattice.epsilon(composition, log_delta=log_delta)
    if found.upper > 0.0:
        assert lattice.log_delta(composition, epsilon=found.upper).upper <= log_delta
    if found.lower > 0.0:
        assert lattice.log_delta(composition, epsilon=found.lower).lower >= log_delta - 1e-9
    assert found.relative_width <= 1e-11


def test_beyond_the_largest_loss_delta_is_exactly_zero():
    mixture = binomial_mixture(2, 0.1, 1.0)
    largest = -2.0 * math.log(0.9)
    beyond = lattice.log_delta(composed((mixture, 1), direction="add"), epsilon=largest * (1 + 1e-12))
    assert beyond.lower == beyond.upper == -math.inf
    just_below = lattice.log_delta(composed((mixture, 1), direction="add"), epsilon=largest * (1 - 1e-9))
    assert -math.inf < just_below.lower <= just_below.upper < -100.0
    no_delta = lattice.epsilon(composed((mixture, 1), direction="add"), log_delta=-math.inf)
    assert no_delta.lower <= largest <= no_delta.upper
    assert no_delta.relative_width < 1e-13


def test_below_the_smallest_loss_delta_is_one_minus_e_to_epsilon():
    found = lattice.log_delta(composed((binomial_mixture(2, 0.1, 1.0), 1), direction="remove"), epsilon=-0.5)
    assert math.log(-math.expm1(-0.5)) in found
    assert found.width < 1e-13


def test_thousands_of_components():
    mixture = MixtureOfGaussians(np.arange(5001.0), np.full(5001, 1 / 5001), 1000.0)
    exact = oracle.Mixture(list(range(5001)), [1] * 5001, 1000)
    found = lattice.log_delta(composed((mixture, 1), direction="remove"), epsilon=2.0)
    truth = oracle_closed.one_round_log_delta(exact, epsilon=2.0, direction="remove")
    assert arb(found.lower) <= truth <= arb(found.upper)
    assert found.width < 1e-10
