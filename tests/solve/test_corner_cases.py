"""Exact corner cases, extremes of valid input, and refusals."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import pytest
from scipy.special import log_ndtr

import groupdp
from groupdp import DPSGD, FixedBatchSampling, MixtureOfGaussians, PoissonSampling
from refusals import refused


def poisson(rate=0.01, noise=1.0, steps=2000):
    return DPSGD(sampling=PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)


@pytest.mark.parametrize("adjacency", ["add", "remove", "add-or-remove"])
def test_an_empty_group_or_no_steps_leaks_nothing(adjacency):
    for run, size in ((poisson(), 0), (poisson(steps=0), 5), ([poisson(steps=0), poisson(steps=0)], 3)):
        bounds = groupdp.epsilon(run, delta=1e-6, group_size=size, adjacency=adjacency)
        assert (bounds.lower, bounds.upper) == (0.0, 0.0)
        assert groupdp.delta(run, epsilon=0.0, group_size=size, adjacency=adjacency).upper == 0.0
        assert groupdp.log_delta(run, epsilon=0.0, group_size=size, adjacency=adjacency).upper == -math.inf


def test_no_noise_has_no_finite_epsilon():
    bounds = groupdp.epsilon(poisson(noise=0.0), delta=1e-6, group_size=1)
    assert bounds.lower == bounds.upper == math.inf


def test_no_noise_but_a_delta_above_the_chance_of_being_sampled():
    # One round, rate 0.01: with probability 0.99 nothing is revealed.
    run = poisson(noise=0.0, steps=1)
    assert groupdp.epsilon(run, delta=0.0101, group_size=1, adjacency="remove").upper == 0.0
    bounds = groupdp.delta(run, epsilon=0.5, group_size=1, adjacency="remove")
    assert bounds.lower <= 0.01 <= bounds.upper
    assert bounds.width < 1e-13
    # Add: (1 - e^eps 0.99)_+, and epsilon = log((1 - delta) / 0.99).
    bounds = groupdp.delta(run, epsilon=0.005, group_size=1, adjacency="add")
    truth = 1 - math.exp(0.005) * 0.99
    assert bounds.lower <= truth * (1 + 1e-12)
    assert bounds.upper >= truth * (1 - 1e-12)
    bounds = groupdp.epsilon(run, delta=0.005, group_size=1, adjacency="add")
    assert math.log(0.995 / 0.99) == pytest.approx(bounds.lower, rel=1e-12)
    assert math.log(0.995 / 0.99) == pytest.approx(bounds.upper, rel=1e-12)


def test_a_noiseless_phase_hides_behind_a_large_delta_only():
    noisy, noiseless = poisson(steps=500), poisson(noise=0.0, steps=1)
    together = groupdp.epsilon([noisy, noiseless], delta=0.02, group_size=1, adjacency="remove")
    # (1 - p) + p delta'(eps - log p) = 0.02 with p = 0.99.
    left = (0.02 - 0.01) / 0.99
    alone = groupdp.epsilon(noisy, delta=left, group_size=1, adjacency="remove")
    assert together.lower <= max(alone.upper + math.log(0.99), 0.0) + 1e-9
    assert together.upper >= max(alone.lower + math.log(0.99), 0.0) - 1e-9
    assert groupdp.epsilon([noisy, noiseless], delta=0.009, group_size=1).upper == math.inf


def test_a_delta_above_total_variation_needs_no_epsilon():
    bounds = groupdp.epsilon(poisson(), delta=0.9, group_size=1)
    assert (bounds.lower, bounds.upper) == (0.0, 0.0)
    at_zero = groupdp.delta(poisson(), epsilon=0.0, group_size=1)
    assert at_zero.upper < 0.9
    just_below = groupdp.epsilon(poisson(), delta=at_zero.lower * (1 - 1e-6), group_size=1)
    assert 0.0 < just_below.upper < 1e-4
    just_above = groupdp.epsilon(poisson(), delta=at_zero.upper * (1 + 1e-9), group_size=1)
    assert just_above.upper == 0.0


def test_beyond_the_largest_loss_of_the_add_direction_delta_is_exactly_zero():
    largest = -2000 * 4 * math.log1p(-0.01)
    beyond = groupdp.log_delta(poisson(), epsilon=largest * (1 + 1e-9), group_size=4, adjacency="add")
    assert beyond.lower == beyond.upper == -math.inf
    assert groupdp.delta(poisson(), epsilon=largest + 1, group_size=4, adjacency="add").upper == 0.0
    before = groupdp.log_delta(poisson(), epsilon=0.9 * largest, group_size=4, adjacency="add")
    assert -math.inf < before.lower <= before.upper < -700.0
    assert groupdp.epsilon(poisson(), delta=1e-300, group_size=4, adjacency="add").upper < largest


def test_a_group_larger_than_the_batch():
    run = DPSGD(sampling=FixedBatchSampling(batch_size=4, dataset_size=1000), noise_multiplier=8.0, steps=3000)
    sizes = [groupdp.epsilon(run, delta=1e-6, group_size=k) for k in (3, 4, 5, 50)]
    assert all(smaller <= larger for smaller, larger in itertools.pairwise(sizes))


@pytest.mark.parametrize("steps", [100, 10**4, 10**6, 10**9])
def test_cost_does_not_grow_with_the_number_of_steps(steps):
    bounds = groupdp.epsilon(poisson(steps=steps, noise=2.0), delta=1e-6, group_size=4, engine="spectral")
    assert bounds.relative_width < 1e-9
    assert bounds.provenance.evaluations["contour steps"] < 10_000


@pytest.mark.parametrize(
    ("run", "group_size", "delta"),
    [
        (poisson(rate=1e-6, steps=10**8), 1, 1e-6),
        (poisson(noise=100.0), 1000, 1e-6),
        (poisson(), 9, 1e-300),
        (poisson(rate=0.001, noise=0.6, steps=20_000), 2, 1e-6),
        (poisson(noise=0.3), 16, 1e-6),
        (poisson(rate=0.125, noise=0.3, steps=1000), 1, 1e-5),
    ],
    ids=["rare", "large group", "tiny delta", "heavy tail", "thousands", "little noise"],
)
def test_extremes_are_still_narrow(run, group_size, delta):
    bounds = groupdp.epsilon(run, delta=delta, group_size=group_size, engine="spectral")
    assert 0.0 < bounds.lower <= bounds.upper < math.inf
    assert bounds.relative_width < 1e-9


def test_log_delta_far_below_the_smallest_double():
    bounds = groupdp.log_delta(poisson(), epsilon=100_000.0, group_size=9)
    assert -110_000.0 < bounds.lower <= bounds.upper < -100_000.0
    assert bounds.width < 1e-6
    underflow = groupdp.delta(poisson(), epsilon=100_000.0, group_size=9)
    assert underflow.lower == 0.0
    assert underflow.upper == 5e-324


def test_a_call_stays_within_its_memory():
    tracemalloc.start()
    try:
        groupdp.epsilon(poisson(rate=0.001, noise=0.6, steps=20_000), delta=1e-6, group_size=2)
        groupdp.epsilon(poisson(rate=0.3, noise=50.0, steps=200), delta=1e-6, group_size=3000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 500e6


def test_two_rounds_are_not_too_few_for_the_contour():
    asked = {"delta": 1e-6, "group_size": 4}
    found = groupdp.epsilon(poisson(rate=0.3, steps=2), engine="spectral", **asked)
    assert found.relative_width <= 1e-9
    assert found.intersects(groupdp.epsilon(poisson(rate=0.3, steps=2), engine="lattice", **asked))


def test_a_mixture_on_its_own():
    mixture = MixtureOfGaussians([0.0, 1.0], [0.99, 0.01], 1.0)
    run = poisson()
    for rounds in (2000,):
        alone = groupdp.epsilon(mixture, delta=1e-6, rounds=rounds)
        assert alone.intersects(groupdp.epsilon(run, delta=1e-6, group_size=1))
    assert groupdp.epsilon(mixture, delta=1e-6, rounds=0).upper == 0.0
    assert groupdp.epsilon(MixtureOfGaussians([0.0], [1.0], 1.0), delta=1e-6, rounds=10).upper == 0.0


def test_splitting_a_run_into_phases_changes_nothing():
    whole = groupdp.epsilon(poisson(steps=2000), delta=1e-6, group_size=3)
    parts = groupdp.epsilon([poisson(steps=700), poisson(steps=1300)], delta=1e-6, group_size=3)
    assert whole == parts
    different = groupdp.epsilon([poisson(steps=1000), poisson(steps=1000, noise=1.0 + 1e-12)], delta=1e-6, group_size=3)
    assert different.upper == pytest.approx(whole.upper, rel=1e-9)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.0, 1.0, 1.5, -1e-6, True, "1e-6", None, 10**400, 1j])
def test_bad_deltas(bad):
    with refused("delta"):
        groupdp.epsilon(poisson(), delta=bad, group_size=1)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, True, "3", None, [1.0]])
def test_bad_epsilons(bad):
    for question in (groupdp.delta, groupdp.log_delta):
        with refused("epsilon"):
            question(poisson(), epsilon=bad, group_size=1)


@pytest.mark.parametrize("bad", [-1, 1.0, math.nan, True, "4", 10**400, 2**70])
def test_bad_group_sizes(bad):
    with refused("group_size"):
        groupdp.epsilon(poisson(), delta=1e-6, group_size=bad)


def test_a_missing_group_size_is_asked_for():
    with refused("group_size"):
        groupdp.epsilon(poisson(), delta=1e-6)


def test_a_group_larger_than_the_dataset_is_refused():
    run = DPSGD(sampling=FixedBatchSampling(batch_size=2, dataset_size=5), noise_multiplier=1.0, steps=10)
    with refused("group_size", value=6):
        groupdp.epsilon(run, delta=1e-6, group_size=6)


@pytest.mark.parametrize("name", ["adjacency", "engine"])
@pytest.mark.parametrize("bad", ["", "both", None, 3, "ADD", ["add"]])
def test_bad_choices(name, bad):
    with refused(name, value=bad):
        groupdp.epsilon(poisson(), delta=1e-6, group_size=1, **{name: bad})


@pytest.mark.parametrize("bad", [None, [], "run", [poisson(), 3], {}, 3.0])
def test_bad_runs(bad):
    with refused("run"):
        groupdp.epsilon(bad, delta=1e-6, group_size=1)


def test_rounds_belong_to_mixtures_and_group_sizes_to_runs():
    mixture = MixtureOfGaussians([0.0, 1.0], [0.5, 0.5], 1.0)
    with refused("rounds"):
        groupdp.epsilon(mixture, delta=1e-6)
    with refused("group_size"):
        groupdp.epsilon(mixture, delta=1e-6, rounds=3, group_size=1)
    with refused("rounds"):
        groupdp.epsilon(poisson(), delta=1e-6, rounds=3, group_size=1)


@pytest.mark.parametrize(
    ("run", "epsilon", "group_size"),
    [(poisson(noise=100.0, steps=10), 8.0, 1), (poisson(rate=1.0, noise=1e5, steps=3), 2.0, 3), (poisson(), 1e308, 1)],
)
def test_an_epsilon_far_outside_of_the_losses_still_gets_a_guarantee(run, epsilon, group_size):
    bounds = groupdp.log_delta(run, epsilon=epsilon, group_size=group_size)
    # Always present is worse: Gaussian with mu^2 = T (k / sigma)^2 and delta <= e^{-(eps / mu - mu / 2)^2 / 2}.
    mu = math.sqrt(run.steps) * group_size / run.noise_multiplier
    assert bounds.lower <= bounds.upper < -0.49 * min(epsilon / mu - mu / 2, 1e150) ** 2
    assert groupdp.delta(run, epsilon=epsilon, group_size=group_size).upper == 5e-324


def test_the_closed_form_ceiling_is_above_the_truth():
    from groupdp.compositions import log_delta_ceiling
    from groupdp.question import question_of

    for rate, noise, steps, size, epsilon in (
        (0.01, 1.0, 2000, 4, 50.0),
        (1.0, 3.0, 10, 1, 8.0),
        (0.5, 2.0, 300, 3, 900.0),
    ):
        run = poisson(rate=rate, noise=noise, steps=steps)
        question = question_of(run, group_size=size)
        ceiling = min(log_delta_ceiling(composition, epsilon) for _, composition in question.compositions)
        assert ceiling >= groupdp.log_delta(run, epsilon=epsilon, group_size=size, engine="spectral").lower


@pytest.mark.parametrize("noise", [1e14, 1e15, 1e18])
@pytest.mark.parametrize("steps", [2, 3, 40])
def test_losses_below_the_roundings_of_their_logarithms(noise, steps):
    """Lattice indices stay exact (L-5): finer steps than the losses' roundings were infinite or not a number."""
    for distance in (0.0, 1.0):
        epsilon = distance * math.sqrt(steps) / noise
        found = groupdp.log_delta(poisson(0.5, noise, steps), epsilon=epsilon, group_size=2, adjacency="remove")
        # So small, the mixture is a Gaussian with its mean: mu (phi(x) - x Phi(-x)), x = epsilon / mu.
        mu = math.sqrt(steps) / noise
        x = epsilon / mu
        tail = 0.5 * math.erfc(x / math.sqrt(2.0))
        truth = math.log(mu * (math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) - x * tail))
        assert found.lower <= truth + 1e-6
        assert found.upper >= truth - 1e-6


def test_a_ceiling_of_shifts_whose_squares_underflow():
    """P-11: the square of 2.71e-162 is the smallest double, a third too small."""
    shift = 2.71e-162
    mixture = MixtureOfGaussians([shift], [1.0], 1.0)
    found = groupdp.log_delta(mixture, epsilon=2000.0 * shift, rounds=1, adjacency="remove")
    # log of shift (phi(x) - x Phi(-x)) at x = 2000, next to 0: at least -x^2 / 2 - 3 log x - 1 + log shift.
    assert -2.0e6 - 3.0 * math.log(2000.0) - 1.0 + math.log(shift) <= found.upper <= -1.99e6


@pytest.mark.parametrize(
    ("shift", "asked"),
    [
        (1e149, {"epsilon": 3.0}),
        pytest.param(1e149, {"delta": 1e-3}, marks=pytest.mark.whole),
        *((shift, asked) for shift in (1e154, 1e300) for asked in ({"epsilon": 3.0}, {"delta": 1e-3})),
    ],
)
def test_shifts_whose_squares_overflow_are_refused_or_bounded_at_once(shift, asked):
    mixture = MixtureOfGaussians([0.0, shift], [0.5, 0.5], 1.0)
    question = groupdp.log_delta if "epsilon" in asked else groupdp.epsilon
    if shift > 1e150:
        with pytest.raises(groupdp.LimitExceeded, match="times the noise"):
            question(mixture, rounds=1, adjacency="remove", **asked)
    else:
        assert question(mixture, rounds=1, adjacency="remove", **asked).upper >= math.log(0.5)


@pytest.mark.parametrize(("batches", "epochs", "noise", "delta"), [(10, 1, 3.0, 1e-100), (100, 5, 2.0, 1e-60)])
def test_where_no_engine_bounds_epsilon_a_closed_form_does(batches, epochs, noise, delta):
    """P-11: infinity was the answer. One epoch's first place beyond z is more than delta allows for no z."""
    run = groupdp.DPSGD(groupdp.BallsInBinsSampling(batches=batches), noise_multiplier=noise, steps=batches * epochs)
    upper = groupdp.epsilon(run, delta=delta, group_size=1, adjacency="remove").upper
    mu = math.sqrt(epochs) / noise
    assert upper <= 1.1 * mu * (mu / 2 + math.sqrt(-2 * math.log(delta)))
    for z in range(5, 30):
        present, absent = log_ndtr(1 / noise - z) - math.log(batches), log_ndtr(-z) + upper
        assert absent >= present or present + math.log1p(-math.exp(absent - present)) <= math.log(delta)
