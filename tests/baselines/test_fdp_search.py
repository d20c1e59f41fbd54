"""The chain of the f-DP group bound: few chains wherever log delta lies, and closed forms of Gaussian runs."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import brentq
from scipy.special import log_ndtr

import groupdp
from groupdp.baselines import fdp
from groupdp.baselines.fdp import fdp_epsilon
from groupdp.engines import work_done
from groupdp.tradeoff import TradeOff


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


def poisson(rate, noise, steps):
    return groupdp.DPSGD(groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)


@pytest.mark.parametrize("size", [1, 40, 200])
def test_a_gaussian_run_asks_for_no_tangents(monkeypatch, size):
    # 3 ms for each of up to 400 of them: the composition of its curve is known.
    monkeypatch.setattr(fdp, "_Chain", None)
    run = groupdp.DPSGD(groupdp.FixedOrderSampling(batch_size=1, dataset_size=190), noise_multiplier=1.6, steps=2)
    found = fdp_epsilon(run, delta=1e-6, group_size=size, adjacency="zero-out")
    louder = groupdp.DPSGD(run.sampling, noise_multiplier=1.6 / size, steps=2)
    beside = groupdp.epsilon(louder, delta=1e-6, group_size=1, adjacency="zero-out")
    assert found.lower <= beside.upper
    assert beside.lower <= found.upper
    assert found.relative_width <= 1e-11


@pytest.mark.parametrize(("size", "adjacency"), [(3, "remove"), (60, "remove"), (25, "add")])
def test_any_chain_of_tangents_lies_above_the_bound(size, adjacency):
    # delta_i from the library's own question about one example: the lemma with any eps_i is never below the lower side.
    run, delta = poisson(0.1, 1.5, 300), 1e-7
    found = fdp_epsilon(run, delta=delta, group_size=size, adjacency=adjacency)
    assert found.relative_width <= 1e-7
    for share in (0.97, 1.0, 1.05):
        log_intercept, total = -math.inf, 0.0
        for place in range(size):
            # epsilons that fall along the orbit, from twice the mean
            epsilon = share * 2.0 * found.upper * (size - place) / (size * (size + 1))
            log_delta = groupdp.log_delta(run, epsilon=epsilon, group_size=1, adjacency=adjacency).upper
            log_intercept = max(log_delta, epsilon + log_intercept) + math.log1p(
                math.exp(-abs(log_delta - epsilon - log_intercept)) if log_intercept > -math.inf else 0.0
            )
            total += epsilon
        if log_intercept <= math.log(delta):
            assert total >= found.lower


@pytest.mark.parametrize(
    ("sampling", "steps", "size"),
    [
        (groupdp.BallsInBinsSampling(batches=47), 47, 41),
        (groupdp.AllocationSampling(batches=319, participations=31), 2233, 63),
        (groupdp.BallsInBinsSampling(batches=126), 126, 200),
        (groupdp.PoissonSampling(rate=0.01), 1, 200),
        (groupdp.PoissonSampling(rate=0.01), 2000, 100_000),
    ],
)
def test_every_question_ends_within_its_work(monkeypatch, sampling, steps, size):
    # Balls and allocations waited for minutes: every value had a contour of its own, and tangents had no limit.
    tangents = []
    tangent = TradeOff.tangent
    monkeypatch.setattr(TradeOff, "tangent", lambda self, at, near: tangents.append(at) or tangent(self, at, near))
    begun = work_done()
    found = fdp_epsilon(
        groupdp.DPSGD(sampling, noise_multiplier=1.2, steps=steps), delta=1e-8, group_size=size, adjacency="remove"
    )
    assert 0.0 <= found.lower <= found.upper < math.inf
    assert len(tangents) <= 2 * fdp._MOST_WORK / fdp._WORK_OF_A_TANGENT["contours"]
    assert work_done() - begun <= 3 * fdp._MOST_WORK
    # The Gaussian with the largest shifts is never better.
    largest = TradeOff(groupdp.DPSGD(sampling, noise_multiplier=1.2, steps=steps), group_size=1, adjacency="remove")
    assert found.upper <= fdp._gaussian(size * largest.largest_shift, math.log(1e-8)).upper


def test_without_noise_no_ceiling_is_claimed():
    with pytest.raises(groupdp.LimitExceeded, match="limit"):
        fdp_epsilon(poisson(0.01, 0.0, 5), delta=1e-3, group_size=3, adjacency="remove")
    assert fdp._gaussian(math.inf, -10.0).upper == math.inf
    assert fdp._gaussian(1e101, -10.0).upper == math.inf


def test_where_contours_end_the_bounds_hold_and_say_that_they_are_wide():
    # The gap that a chain cannot close is between the chain of few steps and Gaussian first steps.
    run = groupdp.DPSGD(groupdp.BallsInBinsSampling(batches=126), noise_multiplier=0.448, steps=126)
    found = fdp_epsilon(run, delta=1e-7, group_size=49, adjacency="remove")
    truth = groupdp.epsilon(run, delta=1e-7, group_size=49, adjacency="remove")
    assert found.upper >= truth.lower
    assert not found.provenance.tolerance_met
