"""The audit catches wrong claims about real DP-SGD, and leaves true ones alone."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from broken_trainers import ReusedBatchSampler
from groupdp.audit import (
    TrainingPhase,
    attack_scores,
    audit_worst_case,
    check_claim,
    claimed_curve,
    runs_to_see_gap,
    worst_case,
)
from groupdp.guarantees import delta
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mixture import MixtureOfGaussians
from groupdp.samplings import FixedBatchSampling, PoissonSampling

CONFIDENCE = 0.999
TRIALS = 20_000
SEEDS = range(5)
STEPS = 40


def fixed(batch_size: int, dataset_size: int, noise: float, steps: int = STEPS) -> DPSGD:
    sampling = FixedBatchSampling(batch_size=batch_size, dataset_size=dataset_size)
    return DPSGD(sampling=sampling, noise_multiplier=noise, steps=steps)


def poisson(rate: float, noise: float, steps: int = STEPS) -> DPSGD:
    return DPSGD(sampling=PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)


def test_sensitivity_one_instead_of_two_is_caught() -> None:
    """With fixed batches an example of the group displaces another one: 2 x Hypergeom, not 1 x Hypergeom."""
    n, k, batch, noise = 8, 1, 4, 8.0
    run = fixed(batch, n, noise)
    weights = [math.comb(k, i) * math.comb(n, batch - i) / math.comb(n + k, batch) for i in range(k + 1)]
    halved = MixtureOfGaussians([float(i) for i in range(k + 1)], weights, noise)
    wrong, right = claimed_curve(halved, rounds=STEPS), claimed_curve(run, group_size=k)
    for seed in SEEDS:
        scores = attack_scores(worst_case(run, group_size=k), trials=TRIALS, seed=seed)
        assert check_claim(scores, wrong, confidence=CONFIDENCE, seed=seed).contradicted
        assert not check_claim(scores, right, confidence=CONFIDENCE, seed=seed).contradicted


def test_the_larger_datasets_size_instead_of_the_smaller_ones_is_caught() -> None:
    """Population n + 2 k instead of n + k: it matters where n is small."""
    n, k, batch, noise = 4, 4, 4, 14.0
    run = fixed(batch, n, noise)
    wrong, right = claimed_curve(fixed(batch, n + k, noise), group_size=k), claimed_curve(run, group_size=k)
    for seed in SEEDS:
        scores = attack_scores(worst_case(run, group_size=k), trials=TRIALS, seed=seed)
        assert check_claim(scores, wrong, confidence=CONFIDENCE, seed=seed).contradicted
        assert not check_claim(scores, right, confidence=CONFIDENCE, seed=seed).contradicted


def test_a_poisson_claim_for_a_trainer_that_reuses_one_fixed_batch_is_caught() -> None:
    """The trainer draws a tenth of its ten examples once, and declares Poisson sampling at that rate."""
    run = poisson(0.1, 2.0)
    instance = worst_case(run, group_size=1, ordinary_examples=9)
    declared = claimed_curve(run, group_size=1)
    reused = [TrainingPhase(sampler=ReusedBatchSampler(batch_size=1), noise_multiplier=2.0, rounds=STEPS)]
    for seed in SEEDS:
        scores = attack_scores(instance, trials=TRIALS, seed=seed, phases=reused)
        assert check_claim(scores, declared, confidence=CONFIDENCE, seed=seed).contradicted
        honest = attack_scores(instance, trials=TRIALS, seed=seed)
        assert not check_claim(honest, declared, confidence=CONFIDENCE, seed=seed).contradicted


def test_a_claim_for_one_example_is_caught_when_the_group_has_four() -> None:
    run = poisson(0.2, 6.0)
    wrong, right = claimed_curve(run, group_size=1), claimed_curve(run, group_size=4)
    for seed in SEEDS:
        scores = attack_scores(worst_case(run, group_size=4), trials=TRIALS, seed=seed)
        assert check_claim(scores, wrong, confidence=CONFIDENCE, seed=seed).contradicted
        assert not check_claim(scores, right, confidence=CONFIDENCE, seed=seed).contradicted


@pytest.mark.thinned
@pytest.mark.parametrize("run", [poisson(0.2, 0.5, steps=1), fixed(3, 9, 1.0, steps=1)], ids=["poisson", "fixed"])
def test_true_claims_raise_false_alarms_at_most_as_often_as_stated(run: DPSGD) -> None:
    """The claims are tight, the attack optimal: no true claim is easier to mistake for a wrong one."""
    seeds, confidence = 400, 0.8
    instance, claim = worst_case(run, group_size=2), claimed_curve(run, group_size=2)
    alarms = 0
    for seed in range(seeds):
        scores = attack_scores(instance, trials=500, seed=seed)
        alarms += check_claim(scores, claim, confidence=confidence, seed=seed).contradicted
    assert stats.binomtest(alarms, seeds, 1.0 - confidence, alternative="greater").pvalue > 1e-3


def test_a_report_says_what_was_claimed_measured_and_missing() -> None:
    run = poisson(0.2, 4.0)
    fractions: list[float] = []
    audit = audit_worst_case(
        run, group_size=4, trials=TRIALS, delta=1e-2, confidence=0.99, gap=0.5, seed=3, progress=fractions.append
    )
    report = audit.report
    assert audit.consistent
    assert not report.verdict.contradicted
    assert 0.5 * report.claimed_epsilon.lower < report.epsilon_lower.value <= report.claimed_epsilon.upper
    assert report.delta_lower.value <= report.verdict.claimed_delta
    assert report.runs_with_group == report.runs_without_group == TRIALS
    assert report.runs_for_gap is not None
    assert report.more_runs_for_gap == max(0, report.runs_for_gap - TRIALS)
    assert fractions == sorted(fractions)
    assert fractions[-1] == pytest.approx(1.0)
    again = audit_worst_case(run, group_size=4, trials=TRIALS, delta=1e-2, confidence=0.99, gap=0.5, seed=3)
    assert again.report == report
    smaller = audit_worst_case(
        run, group_size=4, claimed_group_size=1, trials=TRIALS, delta=1e-2, confidence=0.99, seed=3
    )
    assert smaller.report.verdict.contradicted
    assert not smaller.consistent


def test_the_plan_to_see_a_gap_is_kept_by_a_real_audit() -> None:
    """A claim that is too small by a known gap is contradicted after the planned number of runs."""
    run, delta = poisson(0.3, 3.0), 1e-2
    claim = claimed_curve(run, group_size=1)
    true = audit_worst_case(run, group_size=2, trials=TRIALS, delta=delta, seed=1).report
    claimed = audit_worst_case(run, group_size=1, trials=2, delta=delta, seed=1).report.claimed_epsilon.upper
    operation = true.epsilon_lower.operation
    runs = runs_to_see_gap(
        claimed_epsilon=claimed,
        delta=delta,
        gap=true.claimed_epsilon.lower - claimed,
        hit_rate=operation.hits / operation.hit_trials,
        confidence=0.99,
        power=0.9,
    )
    assert runs is not None
    caught = 0
    for seed in range(20):
        scores = attack_scores(worst_case(run, group_size=2), trials=runs, seed=seed)
        caught += check_claim(scores, claim, confidence=0.99, seed=seed).contradicted
    assert stats.binomtest(caught, 20, 0.9, alternative="less").pvalue > 1e-3


def test_each_direction_is_claimed_its_own_delta():
    """A change that does not decide the adjacency was not evaluated, and the other one's delta was claimed for it."""
    run = DPSGD(PoissonSampling(rate=0.2), noise_multiplier=4.0, steps=20)
    claim = claimed_curve(run, group_size=4, points=4)
    for direction in ("add", "remove"):
        for epsilon, lower, upper in zip(
            claim.epsilons, claim.lower_deltas[direction], claim.deltas[direction], strict=True
        ):
            exact = delta(run, epsilon=float(epsilon), group_size=4, adjacency=direction)
            assert lower <= exact.upper, (direction, epsilon)
            assert exact.lower <= upper <= exact.upper * (1.0 + 1e-4), (direction, epsilon)
