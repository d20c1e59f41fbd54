"""P-0, P-10, P-11, P-12: what holds of every pair of opposed mixtures, attacked directly."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

import groupdp
from groupdp.compositions import _log_distance, epsilon_of, log_delta_ceiling, log_delta_of
from groupdp.engines import Options
from groupdp.pairs import ZERO, Branch, Round, Side, compose
from strategies import examples

seeds = st.integers(0, 10**6)


def side(generator: np.random.Generator, size: int) -> Side:
    shifts = np.sort(np.concatenate(([0.0], generator.uniform(0.05, 3.0, size - 1)))) if size > 1 else np.zeros(1)
    p = generator.dirichlet(np.ones(size))
    return Side(shifts, (p, np.log(p)))


@given(seed=seeds)
@examples(40)
def test_vectors_are_dominated_by_their_norms(seed: int):
    """P-0: half-planes and strips in the plane never beat the half-line on the line."""
    generator = np.random.default_rng(seed)
    right, left = side(generator, 3), side(generator, 2)
    angles = [generator.uniform(0.0, 2.0 * math.pi, len(one.shifts)) for one in (right, left)]
    vectors = [
        one.shifts[:, None] * np.column_stack((np.cos(angle), np.sin(angle)))
        for one, angle in zip((right, left), angles, strict=True)
    ]
    alpha = math.exp(generator.uniform(-1.0, 3.0))
    best = 0.0
    for _ in range(60):
        direction = generator.uniform(0.0, 2.0 * math.pi)
        normal = np.array([math.cos(direction), math.sin(direction)])
        low, high = np.sort(generator.uniform(-4.0, 6.0, 2))
        high = high if generator.random() < 0.5 else math.inf
        masses = [
            float(one.probabilities @ (ndtr(high - points @ normal) - ndtr(low - points @ normal)))
            for one, points in zip((right, left), vectors, strict=True)
        ]
        best = max(best, masses[0] - alpha * masses[1])
    upper = log_delta_of(compose([(Round.of(right, left), 1)]), math.log(alpha), Options()).upper
    assert best <= math.exp(upper) * (1.0 + 1e-12) + 1e-15


@given(seed=seeds, epsilon=st.floats(0.0, 4.0))
@examples(40)
def test_rounds_without_noise_in_closed_form(seed: int, epsilon: float):
    """P-10: outcomes of the noiseless round enumerated, the noisy one in closed form."""
    generator = np.random.default_rng(seed)
    a, b = generator.uniform(0.05, 0.95, 2)
    silent = Round.of(*(Side(np.array([0.0, math.inf]), (np.array([p, 1 - p]), np.log([p, 1 - p]))) for p in (a, b)))
    mu = generator.uniform(0.1, 2.0)
    gaussian = Round.of(Side.point(mu), ZERO)
    found = log_delta_of(compose([(silent, 1), (gaussian, 1)]), epsilon, Options())
    shifted = epsilon + math.log(b / a)
    noisy = ndtr(mu / 2 - shifted / mu) - math.exp(shifted) * ndtr(-mu / 2 - shifted / mu)
    truth = (1.0 - a) + a * float(noisy)
    assert math.exp(found.lower) <= truth * (1.0 + 1e-10)
    assert math.exp(found.upper) >= truth * (1.0 - 1e-10)
    assert found.upper - found.lower < 1e-9
    if truth < 0.9:
        back = epsilon_of(compose([(silent, 1), (gaussian, 1)]), math.log(truth), Options())
        assert back.lower <= epsilon + 1e-6
        assert back.upper >= epsilon - 1e-6


def test_a_noiseless_coin_is_bounded_on_both_sides():
    """P-10: with a public coin the loss at 0 is random; the truth is a sum over the coin's outcomes."""
    sides = [Side(np.array([0.0, math.inf]), (np.array([p, 1 - p]), np.log([p, 1 - p]))) for p in (0.9, 0.5)]
    coin = Round([Branch(one, ZERO) for one in sides], [math.log(0.25), math.log(0.75)])
    for epsilon in (0.0, 0.3):
        found = log_delta_of(((coin, 1),), epsilon, Options())
        truth = 0.25 * (0.1 + max(0.9 - math.exp(epsilon), 0.0)) + 0.75 * (0.5 + max(0.5 - math.exp(epsilon), 0.0))
        assert math.exp(found.lower) <= truth * (1 + 1e-12)
        assert math.exp(found.upper) >= truth * (1 - 1e-12)


@pytest.mark.parametrize(("rate", "size", "largest"), [(7e-15, 10**15, 9), (3e-15, 10**15, 5), (1e-6, 10**6, 2)])
def test_what_a_noiseless_coin_reveals_is_right_next_to_nothing(rate: float, size: int, largest: int):
    """P-10: 1 - p is the chance that one sampled member is kept, in rationals; the coin has several likely outcomes."""
    q = Fraction(rate)
    weight, total, revealed = Fraction(1), Fraction(0), Fraction(0)  # of s others, relative to that of none
    for s in range(90):
        total += weight
        revealed += weight * min(Fraction(largest, s + 1), Fraction(1))
        weight = Fraction(float(weight * (size - s) * q / ((s + 1) * (1 - q))))
    revealed *= q / total
    run = groupdp.DPSGD(
        groupdp.TruncatedPoissonSampling(rate=rate, largest_batch=largest, dataset_size=size),
        noise_multiplier=0.0,
        steps=1,
    )
    found = groupdp.delta(run, epsilon=1.0, group_size=1, adjacency="remove")
    assert found.lower <= float(revealed) * (1.0 + 1e-12)
    assert found.upper >= float(revealed) * (1.0 - 1e-12)
    assert found.upper / found.lower < 1.0 + 1e-11
    assert groupdp.epsilon(run, delta=float(revealed) * 0.9999, group_size=1, adjacency="remove").lower == math.inf
    assert groupdp.epsilon(run, delta=float(revealed) * 1.0001, group_size=1, adjacency="remove").upper == 0.0


@given(seed=seeds)
@examples(20)
def test_the_closed_form_ceiling_and_the_distance(seed: int):
    """P-11 and P-12: above what the engines certify from below, for random pairs and coins."""
    generator = np.random.default_rng(seed)
    weights = generator.dirichlet(np.ones(2))
    coin = Round([Branch(side(generator, 2), side(generator, 2)) for _ in range(2)], np.log(weights).tolist())
    composition = compose([(coin, int(generator.integers(1, 60)))])
    epsilon = float(generator.uniform(0.0, 60.0))
    assert log_delta_ceiling(composition, epsilon) >= log_delta_of(composition, epsilon, Options()).lower
    assert min(_log_distance(composition), 0.0) >= log_delta_of(composition, 0.0, Options()).lower


@pytest.mark.parametrize("adjacency", ["add", "remove", "substitute"])
def test_a_run_without_noise_has_no_privacy_once_it_must_be_seen(adjacency: str):
    run = groupdp.DPSGD(groupdp.PoissonSampling(rate=1.0), noise_multiplier=0.0, steps=3)
    assert groupdp.epsilon(run, delta=0.1, group_size=2, adjacency=adjacency).lower == math.inf
