"""Lower bounds from scores: valid for the threshold actually chosen, and not by being useless."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from groupdp.audit import (
    Scores,
    check_claim,
    claimed_point,
    delta_lower_bound,
    empirical_tradeoff,
    epsilon_lower_bound,
    measured_delta,
)
from groupdp.audit.lower_bounds import Rates, candidate_thresholds
from refusals import refused
from strategies import examples

SHIFT = 1.0  # N(SHIFT, 1) against N(0, 1): a Gaussian mechanism


def gaussian_scores(runs: int, seed: int, shift: float = SHIFT) -> Scores:
    generator = np.random.default_rng([seed, 99])
    return Scores(with_group=generator.normal(shift, 1.0, runs), without_group=generator.normal(0.0, 1.0, runs))


def gaussian_delta(epsilon: float, shift: float = SHIFT) -> float:
    """Closed form (Balle and Wang 2018)."""
    return float(
        stats.norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * stats.norm.cdf(-shift / 2 - epsilon / shift)
    )


def test_bounds_miss_the_truth_at_most_as_often_as_stated() -> None:
    repetitions, confidence = 600, 0.8
    truth_delta = gaussian_delta(1.0)
    wrong_delta = wrong_epsilon = caught = 0
    for seed in range(repetitions):
        scores = gaussian_scores(400, seed)
        wrong_delta += delta_lower_bound(scores, epsilon=1.0, confidence=confidence, seed=seed).value > truth_delta
        bound = epsilon_lower_bound(scores, delta=truth_delta, confidence=confidence, seed=seed)
        wrong_epsilon += bound.value > 1.0
        claim = claimed_point(epsilon=1.0, delta=truth_delta)
        caught += check_claim(scores, claim, confidence=confidence, seed=seed).contradicted
    for misses in (wrong_delta, wrong_epsilon, caught):
        assert stats.binomtest(misses, repetitions, 1.0 - confidence, alternative="greater").pvalue > 1e-4
        assert misses > 0  # the bound is not valid by being useless


def test_choosing_and_confirming_on_the_same_runs_would_miss_too_often() -> None:
    """Why the runs are cut in two: a free choice among equal distributions raises too many alarms."""
    repetitions, alpha = 300, 0.2
    unsplit = split = 0
    for seed in range(repetitions):
        scores = gaussian_scores(1000, seed, shift=0.0)
        for direction in ("add", "remove"):
            thresholds = candidate_thresholds(scores, direction)
            seen = Rates(scores, direction, thresholds, alpha)
            if np.any(seen.hit_rate_lower > seen.false_alarm_rate_upper):
                unsplit += 1
                break
        split += delta_lower_bound(scores, epsilon=0.0, confidence=1.0 - alpha, seed=seed).value > 0.0
    assert stats.binomtest(unsplit, repetitions, alpha, alternative="greater").pvalue < 1e-4
    assert stats.binomtest(split, repetitions, alpha, alternative="greater").pvalue > 1e-4


def test_bounds_approach_the_truth_from_below() -> None:
    scores = gaussian_scores(400_000, 3)
    delta = delta_lower_bound(scores, epsilon=1.0)
    assert 0.93 * gaussian_delta(1.0) < delta.value <= gaussian_delta(1.0)
    epsilon = epsilon_lower_bound(scores, delta=gaussian_delta(1.0))
    assert 0.9 < epsilon.value <= 1.0
    assert epsilon.operation.hit_trials == epsilon.operation.false_alarm_trials == 200_000
    assert epsilon.confidence == 0.999


@pytest.mark.parametrize("adjacency", ["add", "remove"])
def test_each_direction_looks_at_its_own_tail(adjacency: str) -> None:
    """A loss that is only large in one direction: present in one run of ten, and then unmistakable."""
    generator = np.random.default_rng(5)
    present = np.where(generator.random(20_000) < 0.1, 50.0, 0.0)
    noise = generator.normal(0.0, 1e-3, (2, 20_000))
    scores = Scores(with_group=present + noise[0], without_group=noise[1])
    value = epsilon_lower_bound(scores, delta=0.0, adjacency=adjacency).value
    # Seen with the group only: no finite epsilon in one direction, log(10 / 9) at most in the other.
    assert value > 3.0 if adjacency == "remove" else value <= math.log(10.0 / 9.0)
    assert epsilon_lower_bound(scores, delta=0.0).operation.direction == "remove"


def test_useless_scores_prove_nothing() -> None:
    scores = Scores(with_group=np.zeros(1000), without_group=np.zeros(1000))
    assert epsilon_lower_bound(scores, delta=1e-3).value == 0.0
    assert delta_lower_bound(scores, epsilon=0.0).value == 0.0
    assert not check_claim(scores, claimed_point(epsilon=0.0, delta=0.0)).contradicted


def test_perfect_scores_prove_what_their_number_allows() -> None:
    runs, confidence = 10_000, 0.99
    scores = Scores(with_group=np.ones(runs), without_group=np.zeros(runs))
    bound = epsilon_lower_bound(scores, delta=0.0, confidence=confidence)
    half = runs // 2
    unseen = 1.0 - 0.005 ** (1.0 / half)  # no false alarm in half the runs, at half of alpha
    assert bound.value == pytest.approx(math.log((1.0 - unseen) / unseen), rel=1e-6)
    infinite = Scores(with_group=np.full(runs, np.inf), without_group=np.full(runs, -np.inf))
    assert epsilon_lower_bound(infinite, delta=0.0, confidence=confidence).value == pytest.approx(bound.value)


@examples(25)
@given(seed=st.integers(0, 10**6), scale=st.floats(0.01, 100.0), order=st.booleans())
def test_only_the_order_of_scores_matters(seed: int, scale: float, order: bool) -> None:
    scores = gaussian_scores(300, seed)
    stretched = Scores(
        with_group=np.exp(scale * scores.with_group / 50.0),
        without_group=np.exp(scale * scores.without_group / 50.0),
    )
    first = epsilon_lower_bound(scores, delta=1e-2, confidence=0.9)
    second = epsilon_lower_bound(stretched, delta=1e-2, confidence=0.9)
    assert first.value == pytest.approx(second.value, rel=1e-12)


def test_sorted_scores_are_as_good_as_shuffled_ones() -> None:
    scores = gaussian_scores(50_000, 8)
    ordered = Scores(with_group=np.sort(scores.with_group), without_group=np.sort(scores.without_group))
    truth = gaussian_delta(1.0)
    assert 0.75 * truth < delta_lower_bound(ordered, epsilon=1.0).value <= truth


def test_measured_delta_has_a_two_sided_interval_that_covers_jointly() -> None:
    repetitions, confidence = 400, 0.8
    epsilons = np.linspace(0.0, 2.0, 5)
    truth = np.array([gaussian_delta(epsilon) for epsilon in epsilons])
    misses = 0
    for seed in range(repetitions):
        raw = gaussian_scores(500, seed)
        losses = Scores(  # the log-likelihood ratio of the Gaussian mechanism
            with_group=SHIFT * raw.with_group - SHIFT**2 / 2,
            without_group=SHIFT * raw.without_group - SHIFT**2 / 2,
        )
        for direction in ("add", "remove"):
            measured = measured_delta(losses, epsilons, direction=direction, confidence=0.9)
            misses += not measured.consistent_with(truth, truth)
    assert stats.binomtest(misses, 2 * repetitions, 1.0 - confidence, alternative="greater").pvalue > 1e-4
    wide = measured_delta(losses, epsilons, direction="remove", confidence=0.9)
    assert not wide.consistent_with(truth + 0.5, truth + 0.5)
    assert not wide.consistent_with(truth * 0.0, truth * 0.0)


def test_the_tradeoff_band_contains_the_true_curve() -> None:
    runs = 20_000
    for direction in ("add", "remove"):
        curve = empirical_tradeoff(gaussian_scores(runs, 4), direction=direction, confidence=0.999)
        null, other = (0.0, SHIFT) if direction == "remove" else (-SHIFT, 0.0)
        false_alarm = stats.norm.sf(curve.thresholds, null)
        miss = stats.norm.cdf(curve.thresholds, other)
        assert np.all((curve.false_alarm_lower <= false_alarm) & (false_alarm <= curve.false_alarm_upper))
        assert np.all((curve.miss_lower <= miss) & (miss <= curve.miss_upper))
        assert np.max(curve.miss_upper - curve.miss_lower) < 0.05
        lower_misses = stats.norm.cdf(curve.thresholds, other - 0.1)
        assert not np.all((curve.miss_lower <= lower_misses) & (lower_misses <= curve.miss_upper))


def test_bad_scores_and_targets_are_refused_with_a_sentence() -> None:
    scores = gaussian_scores(10, 0)
    with refused("with_group"):
        Scores(with_group=np.array([0.0, np.nan]), without_group=np.zeros(2))
    with refused("without_group"):
        Scores(with_group=np.zeros(2), without_group=np.zeros(0))
    with refused("without_group"):
        Scores(with_group=np.zeros(2), without_group=np.array(["a"]))
    with refused("with_group", value=1):
        epsilon_lower_bound(Scores(with_group=np.zeros(1), without_group=np.zeros(5)), delta=0.1)
    with refused("delta"):
        epsilon_lower_bound(scores, delta=1.0)
    with refused("epsilon"):
        delta_lower_bound(scores, epsilon=-1.0)
    with refused("adjacency"):
        epsilon_lower_bound(scores, delta=0.1, adjacency="replace")
    with refused("claim"):
        check_claim(scores, (1.0, 1e-5))  # type: ignore[arg-type]
