"""Confidence limits cover, exactly; bands cover everywhere at once."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from groupdp.audit import lower_limit, simultaneous_band, upper_limit
from groupdp.audit.lower_bounds import rank_grid, require_confidence
from refusals import refused
from strategies import examples


def tail(trials: int, successes: int, probability: Fraction) -> Fraction:
    """P(Binom(trials, probability) >= successes), exactly."""
    q = 1 - probability
    return sum(
        (comb(trials, s) * probability**s * q ** (trials - s) for s in range(successes, trials + 1)),
        Fraction(0),
    )


@examples(60)
@given(
    trials=st.integers(1, 60),
    data=st.data(),
    alpha=st.sampled_from([0.25, 0.05, 1e-3, 1e-6, 1e-9]),
)
def test_limits_invert_the_binomial_tail_in_exact_arithmetic(trials: int, data: st.DataObject, alpha: float) -> None:
    successes = data.draw(st.integers(0, trials))
    low = float(lower_limit(successes, trials, alpha))
    high = float(upper_limit(successes, trials, alpha))
    assert 0.0 <= low <= successes / trials <= high <= 1.0
    if successes > 0:  # at the limit, so many successes or more have a chance of alpha, and hardly less
        chance = tail(trials, successes, Fraction(low))
        assert Fraction(alpha) * Fraction(98, 100) <= chance <= Fraction(alpha) * (1 + Fraction(1, 10**12))
    else:
        assert low == 0.0
    if successes < trials:
        chance = 1 - tail(trials, successes + 1, Fraction(high))
        assert Fraction(alpha) * Fraction(98, 100) <= chance <= Fraction(alpha) * (1 + Fraction(1, 10**12))
    else:
        assert high == 1.0


@pytest.mark.parametrize("probability", [Fraction(1, 100), Fraction(3, 10), Fraction(1, 2), Fraction(99, 100)])
def test_coverage_is_at_least_as_stated_for_every_probability(probability: Fraction) -> None:
    trials, alpha = 50, 0.05
    counts = np.arange(trials + 1)
    weights = [comb(trials, s) * probability**s * (1 - probability) ** (trials - s) for s in range(trials + 1)]
    too_high = lower_limit(counts, trials, alpha) > float(probability)
    too_low = upper_limit(counts, trials, alpha) < float(probability)
    for missed in (too_high, too_low):
        assert sum((weights[s] for s in np.flatnonzero(missed)), Fraction(0)) <= Fraction(alpha)


@pytest.mark.parametrize("trials", [10**4, 10**6, 10**9])
@pytest.mark.parametrize("share", [0.0, 1e-6, 1e-3, 0.5, 0.999, 1.0])  # 1e-6 of 10^9: SciPy's inverse is wrong
@pytest.mark.parametrize("alpha", [0.05, 1e-4, 1e-10])
def test_limits_of_large_samples_invert_the_tail(trials: int, share: float, alpha: float) -> None:
    successes = round(trials * share)
    low = float(lower_limit(successes, trials, alpha))
    high = float(upper_limit(successes, trials, alpha))
    if successes > 0:
        assert stats.binom.sf(successes - 1, trials, low) == pytest.approx(alpha, rel=1.5e-2)
        assert stats.binom.sf(successes - 1, trials, low) <= alpha * (1 + 1e-12)
    if successes < trials:
        assert stats.binom.cdf(successes, trials, high) == pytest.approx(alpha, rel=1.5e-2)
        assert stats.binom.cdf(successes, trials, high) <= alpha * (1 + 1e-12)


@pytest.mark.parametrize("discrete", [False, True])
def test_the_band_covers_the_whole_distribution_function_as_often_as_stated(discrete: bool) -> None:
    trials, alpha, repetitions = 150, 0.2, 1500
    band = simultaneous_band(trials, alpha)
    generator = np.random.default_rng(17)
    misses = 0
    for _ in range(repetitions):
        if discrete:  # heavy ties
            sample = np.sort(generator.binomial(6, 0.4, size=trials).astype(float))
            points = np.arange(7.0)
            below, truth = points, stats.binom.cdf(points, 6, 0.4)
        else:  # check just before and at every observation: the extremes of a step function's error
            sample = np.sort(generator.random(trials))
            below = np.concatenate([sample, np.nextafter(sample, 0.0)])
            truth = below
        lower, upper = band.limits(np.searchsorted(sample, below, side="right"))
        misses += bool(np.any(lower > truth) or np.any(upper < truth))
    assert stats.binomtest(misses, repetitions, alpha, alternative="greater").pvalue > 1e-4
    if not discrete:
        assert misses > 0  # a band that never misses would be too wide to mean anything


def test_the_band_is_narrow_in_the_tails_where_a_uniform_one_is_not() -> None:
    trials = 100_000
    band = simultaneous_band(trials, 1e-3)
    lower, upper = band.limits(np.array([0, 100, trials - 100, trials]))
    assert upper[1] < 2.0e-3  # 100 seen: 1e-3; the Kolmogorov band would add 6e-3
    assert lower[1] > 3.0e-4
    assert upper[0] < 3e-4
    assert (lower[0], upper[3]) == (0.0, 1.0)
    np.testing.assert_allclose(1.0 - lower[2], upper[1], rtol=0.2)


@given(trials=st.integers(1, 5000))
def test_the_grid_of_ranks_is_sorted_symmetric_and_inside(trials: int) -> None:
    ranks = rank_grid(trials)
    assert ranks[0] == 1
    assert ranks[-1] == trials
    assert np.all(np.diff(ranks) > 0)
    assert np.array_equal(trials + 1 - ranks[::-1], ranks)


@pytest.mark.parametrize("confidence", [0.2, 1.0, float("nan"), "0.9", True])
def test_a_confidence_must_make_sense(confidence: object) -> None:
    with refused("confidence"):
        require_confidence(confidence)
