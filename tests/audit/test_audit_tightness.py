"""Tightness: real DP-SGD on the worst cases leaks what the certified curve says, no more and no less."""

from __future__ import annotations

import math
import tracemalloc

import pytest

from groupdp.audit import attack_scores, claimed_curve, measured_curve, worst_case
from groupdp.audit.simulation import chunk_size
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.samplings import FixedBatchSampling, PoissonSampling, Sampling

POISSON, FIXED = PoissonSampling(rate=0.2), FixedBatchSampling(batch_size=5, dataset_size=12)


def run_of(sampling: Sampling, *, group_size: int, steps: int, level: float) -> DPSGD:
    """Noise such that the group's mean shift over all rounds is about `level` standard deviations."""
    if isinstance(sampling, FixedBatchSampling):
        shift = 2.0 * group_size * sampling.batch_size / (sampling.dataset_size + group_size)
    else:
        shift = group_size * sampling.rate
    return DPSGD(sampling=sampling, noise_multiplier=max(0.5, shift * math.sqrt(steps) / level), steps=steps)


@pytest.mark.thinned(8)
@pytest.mark.parametrize("level", [0.7, 2.0])
@pytest.mark.parametrize("steps", [1, 40])
@pytest.mark.parametrize("group_size", [1, 9])
@pytest.mark.parametrize("sampling", [POISSON, FIXED], ids=["poisson", "fixed"])
def test_measured_and_certified_delta_agree_wherever_trials_resolve(
    sampling: Sampling, group_size: int, steps: int, level: float
) -> None:
    trials = 100_000 if steps == 1 else 30_000
    run = run_of(sampling, group_size=group_size, steps=steps, level=level)
    scores = attack_scores(worst_case(run, group_size=group_size, ordinary_examples=3), trials=trials, seed=7)
    claim = claimed_curve(run, group_size=group_size, smallest_delta=1.0 / trials, points=20)
    measured = measured_curve(scores, claim, confidence=0.9999)
    assert {one.direction for one in measured} == {"add", "remove"}
    for one in measured:
        assert one.consistent_with(claim.lower_deltas[one.direction], claim.deltas[one.direction])
        assert one.resolved[0]  # at epsilon = 0 at least, the interval is narrower than its value
    assert sum(int(one.resolved.sum()) for one in measured) >= 4


@pytest.mark.thinned
@pytest.mark.parametrize("factor", [0.97, 1.03])
@pytest.mark.parametrize("sampling", [POISSON, FIXED], ids=["poisson", "fixed"])
def test_a_curve_for_three_per_cent_more_or_less_noise_does_not_agree(sampling: Sampling, factor: float) -> None:
    """The agreement above means something: loose bounds are noticed as well as wrong ones."""
    run = run_of(sampling, group_size=4, steps=1, level=2.0)
    other = DPSGD(sampling=sampling, noise_multiplier=factor * run.noise_multiplier, steps=1)
    scores = attack_scores(worst_case(run, group_size=4, ordinary_examples=3), trials=1_000_000, seed=7)
    right, wrong = (claimed_curve(one, group_size=4, points=12) for one in (run, other))
    for claim, agrees in ((right, True), (wrong, False)):
        assert agrees == all(
            one.consistent_with(claim.lower_deltas[one.direction], claim.deltas[one.direction])
            for one in measured_curve(scores, claim, confidence=0.9999)
        )


def test_memory_does_not_grow_with_the_number_of_trials_beyond_their_scores() -> None:
    instance = worst_case(run_of(POISSON, group_size=4, steps=20, level=2.0), group_size=4)

    def peak(trials: int) -> int:
        tracemalloc.start()
        attack_scores(instance, trials=trials, seed=1)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    chunk = chunk_size(instance)
    scores = 2 * 8 * 4 * chunk  # two arrays of doubles, four chunks more
    assert peak(6 * chunk) - peak(2 * chunk) < 1.2 * scores
    iterates = 8 * 21 * 6 * chunk
    assert peak(6 * chunk) < iterates  # all iterates at once would not have fitted
