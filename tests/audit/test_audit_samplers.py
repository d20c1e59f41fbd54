"""The samplers' own distributions, by exact binomial tests with fixed seeds.

Every count below is binomial if the sampler is right, so its two-sided p-value is exact. A right sampler
fails one of these tests for fewer than one seed in 10^4 (Bonferroni over all counts of a test); the tests
further down show that samplers that are slightly wrong do fail.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats

from broken_trainers import ReusedBatchSampler
from groupdp.samplings import FixedBatchSampling, PoissonSampling
from refusals import refused

TRIALS = 40_000
FALSE_ALARM = 1e-4


def smallest_p_value(counts: list[tuple[int, float]], trials: int) -> float:
    """The Bonferroni-corrected smallest exact p-value of counts that should be Binom(trials, probability)."""
    values = [stats.binomtest(int(count), trials, probability).pvalue for count, probability in counts]
    return min(1.0, min(values) * len(values))


def two_rounds(sampler: object, dataset_size: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    batches: Iterator[np.ndarray] = sampler.sampled_batches(  # type: ignore[attr-defined]
        np.random.default_rng(seed), trials=TRIALS, dataset_size=dataset_size
    )
    return next(batches).copy(), next(batches).copy()


def inclusion(rounds: tuple[np.ndarray, np.ndarray], rate: float) -> float:
    counts = [(int(column.sum()), rate) for one in rounds for column in one.T]
    return smallest_p_value(counts, TRIALS)


def pairwise(one: np.ndarray, probability: float) -> float:
    pairs = itertools.combinations(range(one.shape[1]), 2)
    return smallest_p_value([(int((one[:, i] & one[:, j]).sum()), probability) for i, j in pairs], TRIALS)


def across_rounds(rounds: tuple[np.ndarray, np.ndarray], probability: float) -> float:
    first, second = rounds
    cells = itertools.product(range(first.shape[1]), repeat=2)
    return smallest_p_value([(int((first[:, i] & second[:, j]).sum()), probability) for i, j in cells], TRIALS)


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
def test_poisson_sampling_includes_each_example_independently(rate: float) -> None:
    size = 7
    rounds = two_rounds(PoissonSampling(rate=rate), size)
    assert inclusion(rounds, rate) > FALSE_ALARM
    assert pairwise(rounds[0], rate**2) > FALSE_ALARM
    assert across_rounds(rounds, rate**2) > FALSE_ALARM
    sizes = np.bincount(rounds[0].sum(axis=1), minlength=size + 1)
    law = [math.comb(size, b) * rate**b * (1 - rate) ** (size - b) for b in range(size + 1)]
    assert smallest_p_value(list(zip(sizes, law, strict=True)), TRIALS) > FALSE_ALARM


@pytest.mark.parametrize(("batch_size", "size"), [(1, 5), (3, 6), (5, 6), (6, 6)])
def test_fixed_batches_are_uniform_over_all_subsets_of_their_size(batch_size: int, size: int) -> None:
    rounds = two_rounds(FixedBatchSampling(batch_size=batch_size, dataset_size=100), size)
    for one in rounds:
        assert np.all(one.sum(axis=1) == batch_size)
    rate = batch_size / size
    assert inclusion(rounds, rate) > FALSE_ALARM
    together = batch_size * (batch_size - 1) / (size * (size - 1))
    assert pairwise(rounds[0], together) > FALSE_ALARM
    assert across_rounds(rounds, rate**2) > FALSE_ALARM
    codes = rounds[0] @ (1 << np.arange(size))
    counts = [
        (int((codes == sum(1 << i for i in subset)).sum()), 1 / math.comb(size, batch_size))
        for subset in itertools.combinations(range(size), batch_size)
    ]
    assert sum(count for count, _ in counts) == TRIALS
    assert smallest_p_value(counts, TRIALS) > FALSE_ALARM


def test_a_rate_that_is_off_by_a_twentieth_is_noticed() -> None:
    assert inclusion(two_rounds(PoissonSampling(rate=0.315), 7), 0.3) < FALSE_ALARM


def test_sampling_with_replacement_would_be_noticed() -> None:
    draws = np.random.default_rng(1).integers(0, 6, size=(TRIALS, 3))
    included = np.zeros((TRIALS, 6), dtype=bool)
    np.put_along_axis(included, draws, True, axis=1)
    assert inclusion((included, included), 0.5) < FALSE_ALARM


def test_a_reused_batch_is_uniform_but_its_rounds_are_not_independent() -> None:
    rounds = two_rounds(ReusedBatchSampler(batch_size=3), 6)
    assert inclusion((rounds[0], rounds[0]), 0.5) > FALSE_ALARM
    assert np.array_equal(*rounds)
    assert across_rounds(rounds, 0.25) < FALSE_ALARM


def test_a_seed_decides_everything() -> None:
    for sampler in (
        PoissonSampling(rate=0.3),
        FixedBatchSampling(batch_size=2, dataset_size=100),
    ):
        first, again, other = (two_rounds(sampler, 5, seed) for seed in (4, 4, 5))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)


def test_a_batch_larger_than_the_dataset_is_refused_with_a_sentence() -> None:
    sampler = FixedBatchSampling(batch_size=4, dataset_size=100)
    with refused("batch_size"):
        next(sampler.sampled_batches(np.random.default_rng(0), trials=1, dataset_size=3))
