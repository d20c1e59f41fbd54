"""A search asks the engines for epsilon ten times at most."""

from __future__ import annotations

import math

import pytest

import groupdp
from groupdp.calibration.search import Goal, Scale, find_root
from groupdp.calibration.target import Trial
from groupdp.losses import LaplaceRound
from groupdp.moments import composed_mu
from groupdp.question import question_of

MOST_CALLS = 10
SHUFFLED = groupdp.ShuffledSampling(batch_size=100, dataset_size=10_000)
IN_ORDER = groupdp.FixedOrderSampling(batch_size=35, dataset_size=4_000)


def training(sampling, noise, steps):
    return groupdp.DPSGD(sampling, noise_multiplier=noise, steps=steps)


def poisson(rate, noise, steps):
    return training(groupdp.PoissonSampling(rate=rate), noise, steps)


@pytest.mark.parametrize("target", [93.0, 860.0])
def test_steps_of_a_phase_in_epochs_beside_another(target):
    # Whole epochs count, so epsilon is a staircase; 19 calls before compositions were remembered.
    run = [training(IN_ORDER, 1.9, 1), training(IN_ORDER, 3.7, 2_000)]
    found = groupdp.calibrate_steps(run, epsilon=target, delta=1e-8, group_size=8, adjacency="zero-out", phase=0)
    assert found.proved_optimal
    assert found.evaluations <= MOST_CALLS


@pytest.mark.parametrize("target", [376.0, 420.0, 1_000.0])
def test_a_rate_beside_phases_that_take_most_of_the_target(target):
    # Rates far too small all have the other phases' epsilon; 36 calls and more before that was taken off.
    run = [poisson(0.1, 0.685, 100), poisson(0.05, 0.6, 20), poisson(0.2, 6.8, 3_000), groupdp.GaussianRelease(1.3)]
    found = groupdp.calibrate_rate(run, epsilon=target, delta=1e-3, group_size=13, adjacency="remove", phase=0)
    assert found.proved_optimal
    assert found.evaluations <= MOST_CALLS


@pytest.mark.parametrize("target", [5.0, 600.0])
def test_noise_in_all_phases_one_of_which_is_laplace(target):
    # The start was the largest noise that is accepted; 13 calls.
    run = [training(SHUFFLED, 0.5, 100), training(SHUFFLED, 12.0, 400), groupdp.LaplaceRelease(2.5)]
    found = groupdp.calibrate_noise(run, epsilon=target, delta=1e-5, group_size=2, adjacency="zero-out")
    assert found.failing_value is not None  # the bounds are a little wider than the tolerance
    assert found.evaluations <= MOST_CALLS


def test_bounds_that_stay_wide_end_the_search():
    # An epoch that has only begun is known to a percent, unevenly; 21 calls and more before straddling ended it.
    roots = find_root(Scale(1.0, 1e-9, 1e9), start=3.0, slope=1.0, goal=Goal(1.0), accuracy=1e-12, again=None)
    root, calls, u = None, 0, next(roots)
    while root is None:
        calls += 1
        middle = math.exp(0.5 * u)
        bounds = groupdp.Bounds(middle * 0.99, middle * 1.01 * (1.0 + 1e-4 * math.sin(1e6 * u)))
        try:
            u = roots.send(Trial(bounds, passes=bounds.upper <= 1.0, fails=bounds.lower > 1.0))
        except StopIteration as ended:
            root = ended.value
    assert calls <= 6
    assert root.u == pytest.approx(0.0, abs=1e-3)
    assert root.above == pytest.approx(0.01, rel=0.1)


def test_a_phase_that_must_have_no_steps_has_an_endless_gap():
    # Dividing by the value failed.
    run = [poisson(0.9, 0.3, 5), poisson(0.01, 2.0, 100)]
    others = groupdp.epsilon(run[1], delta=1e-6, group_size=3).upper
    found = groupdp.calibrate_steps(run, epsilon=others * 1.01, delta=1e-6, group_size=3, phase=0)
    assert (found.value, found.failing_value, found.proved_gap) == (0, 1, math.inf)


def test_what_other_phases_take_is_taken_off():
    def trial(epsilon):
        return Trial(groupdp.Bounds(epsilon, epsilon), passes=False, fails=False)

    goal = Goal.beside(5.0, trial(3.0), 1.0)  # epsilon grows with mu, and squares of mu add up
    assert goal.excess(trial(5.0)) == pytest.approx(0.0, abs=1e-12)
    assert goal.excess(trial(math.hypot(3.0, 2.0))) == pytest.approx(math.log(2.0 / 4.0))
    assert goal.excess(trial(3.0)) == -math.inf
    assert goal.left == pytest.approx(2.0)
    assert Goal.beside(5.0, trial(6.0), 1.0) == Goal(5.0)


def test_starts_measure_gaussian_and_laplace_rounds():
    gaussian = question_of(poisson(1.0, 0.02, 3), group_size=1, adjacency="remove").compositions[0][1]
    assert composed_mu(gaussian) == pytest.approx(math.sqrt(3) * 50.0)
    assert composed_mu(gaussian, 10.0) == pytest.approx(math.sqrt(3) * 5.0)
    exact = math.log(math.fsum((2 / 3 * math.exp(0.5), math.exp(-1.0) / 3)))  # E[P / Q] of Laplace(0.5) and Laplace(0)
    assert composed_mu(((LaplaceRound(1.0), 4),), 2.0) == pytest.approx(math.sqrt(4 * exact))
