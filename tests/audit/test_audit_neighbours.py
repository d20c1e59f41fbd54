"""The audit under every sampling and adjacency: what is proved survives it, what only looks right does not.

False friends must be rejected at 99.9 %; right claims are rejected for fewer than one seed in a thousand, and the seeds
are fixed. Attacks believe nothing but the sampling's own description.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import command_line
import groupdp
from groupdp import DPSGD
from groupdp.audit import (
    Scores,
    Verdict,
    attack_scores,
    audit_worst_case,
    check_claim,
    claimed_curve,
    importance_delta,
    measured_delta,
    worst_case,
)
from groupdp.samplings import (
    SAMPLINGS,
    AllocationSampling,
    BallsInBinsSampling,
    FixedBatchSampling,
    FixedOrderSampling,
    FixedPeople,
    PoissonPeople,
    PoissonSampling,
    PoissonSources,
    Sampling,
    ShuffledOnceSampling,
    ShuffledSampling,
    SpreadSampling,
    TruncatedPeople,
    TruncatedPoissonSampling,
)
from refusals import refused
from revealed_allocation import RevealedBallsInBins

FIXED = FixedBatchSampling(batch_size=5, dataset_size=20)
TRUNCATED = TruncatedPoissonSampling(rate=0.5, largest_batch=10, dataset_size=30)
SHUFFLED = ShuffledSampling(batch_size=2, dataset_size=20)
ORDER = FixedOrderSampling(batch_size=2, dataset_size=6)


def scores_of(run: DPSGD, group_size: object, adjacency: str, trials: int = 30_000, **how: bool) -> Scores:
    return attack_scores(worst_case(run, group_size=group_size, adjacency=adjacency), trials=trials, seed=1, **how)


def rejected(scores: Scores, *claim: object, **asked: object) -> Verdict:
    return check_claim(scores, claimed_curve(*claim, points=12, **asked), confidence=0.999)


# ---------------------------------------------------------------------------------------- what is proved survives


AUDITED: list[tuple[Sampling, object, str, int, float]] = [
    (PoissonSampling(rate=0.2), 2, "substitute", 40, 9.0),
    (PoissonSampling(rate=0.2), 2, "zero-out", 40, 9.0),
    (PoissonSources(rates={"web": 0.1, "books": 0.4}), {"web": 2, "books": 1}, "add-or-remove", 40, 9.0),
    (PoissonSources(rates={"web": 0.1, "books": 0.4}), {"web": 2, "books": 1}, "substitute", 40, 9.0),
    (FIXED, 2, "substitute", 4, 3.0),
    (FIXED, 2, "zero-out", 4, 3.0),
    (TRUNCATED, 2, "add-or-remove", 1, 3.0),
    (TRUNCATED, 2, "zero-out", 1, 3.0),
    (SHUFFLED, 2, "zero-out", 15, 3.0),
    (SHUFFLED, 2, "substitute", 10, 3.0),
    (ShuffledOnceSampling(batch_size=2, dataset_size=12), 2, "substitute", 12, 3.0),
    (ORDER, 3, "substitute", 6, 3.0),
    (ORDER, 3, "zero-out", 6, 3.0),
    (BallsInBinsSampling(batches=5), 2, "add-or-remove", 10, 3.0),
    (BallsInBinsSampling(batches=5), 1, "substitute", 10, 3.0),
    (BallsInBinsSampling(batches=5), 2, "zero-out", 10, 3.0),
    (SpreadSampling(batches=5), 2, "add-or-remove", 10, 3.0),
    (AllocationSampling(batches=4, participations=2), 1, "add-or-remove", 8, 3.0),
    (PoissonPeople(rate=0.2, examples_per_person=2), 2, "add-or-remove", 40, 18.0),
    (FixedPeople(batch_size=5, dataset_size=20, examples_per_person=2), 2, "substitute", 4, 6.0),
    (TruncatedPeople(rate=0.5, largest_batch=10, dataset_size=30, examples_per_person=2), 2, "zero-out", 1, 6.0),
]


@pytest.mark.thinned
@pytest.mark.parametrize(("sampling", "group", "adjacency", "steps", "noise"), AUDITED, ids=str)
def test_what_is_proved_is_not_contradicted(
    sampling: Sampling, group: object, adjacency: str, steps: int, noise: float
):
    run = DPSGD(sampling, noise_multiplier=noise, steps=steps)
    audit = audit_worst_case(run, group_size=group, adjacency=adjacency, trials=8000, delta=1e-2, seed=5)
    assert not audit.report.verdict.contradicted
    assert audit.consistent  # from both sides where the claim is tight, from above where it is only valid
    assert audit.report.epsilon_lower.value <= audit.report.claimed_epsilon.upper
    assert np.mean(audit.scores.with_group) > np.mean(audit.scores.without_group)


def test_every_sampling_is_audited():
    assert {sampling.name for sampling, *_ in AUDITED} | {"poisson"} == set(SAMPLINGS)


@pytest.mark.parametrize(
    ("sampling", "adjacency", "steps"),
    [(SHUFFLED, "zero-out", 10), (SHUFFLED, "substitute", 20), (RevealedBallsInBins(batches=4), "add-or-remove", 8)],
    ids=["zeroed", "replaced", "balls"],
)
def test_with_the_allocation_released_the_analysis_of_epochs_is_attained(
    sampling: Sampling, adjacency: str, steps: int
):
    """P-7 gives the allocation away, and is exact then: measured from both sides. Without it, less is to be seen."""
    run = DPSGD(sampling, noise_multiplier=2.0, steps=steps)
    scores = scores_of(run, 2, adjacency, reveal_batches=True)
    at = np.array([0.0, 0.5, 1.0])
    for direction in ("remove", "add"):
        measured = measured_delta(scores, at, direction=direction, confidence=0.999)
        bounds = [groupdp.delta(run, epsilon=float(one), group_size=2, adjacency=adjacency) for one in at]
        assert measured.consistent_with(
            np.array([one.lower for one in bounds]), np.array([one.upper for one in bounds])
        )
        assert np.all(measured.resolved)
    hidden = measured_delta(scores_of(run, 2, adjacency), at, direction="remove", confidence=0.999)
    assert np.all(hidden.estimate < np.array([one.lower for one in bounds]))


# --------------------------------------------------------------------------- false friends are rejected at 99.9 %


def test_opposed_hypergeometrics_for_fixed_batches_with_replaced_members_are_rejected():
    """N(+i) against N(-i)."""
    run = DPSGD(FIXED, noise_multiplier=2.0, steps=4)
    scores = scores_of(run, 1, "substitute", trials=60_000)
    claimed = groupdp.MixtureOfGaussians([0.0, 1.0], stats.hypergeom(20, 1, 5).pmf([0, 1]), 2.0)
    assert rejected(scores, claimed, rounds=4, adjacency="substitute").contradicted
    assert not rejected(scores, run, group_size=1, adjacency="substitute").contradicted


def test_single_hypergeometrics_for_fixed_batches_with_zeroed_members_are_rejected():
    run = DPSGD(FIXED, noise_multiplier=2.0, steps=8)
    scores = scores_of(run, 2, "zero-out")
    claimed = groupdp.MixtureOfGaussians([0.0, 1.0, 2.0], stats.hypergeom(20, 2, 5).pmf([0, 1, 2]), 2.0)
    assert rejected(scores, claimed, rounds=8).contradicted
    assert not rejected(scores, run, group_size=2, adjacency="zero-out").contradicted


@pytest.mark.parametrize("reveal", [False, True], ids=["sums alone", "allocation released"])
def test_poisson_accounting_of_a_shuffled_run_is_rejected(reveal: bool):
    """Two batches: nobody of a Poisson sample is ever surely there, of a shuffled epoch everybody is."""
    run = DPSGD(ShuffledSampling(batch_size=2, dataset_size=4), noise_multiplier=0.7, steps=2)
    scores = scores_of(run, 1, "zero-out", reveal_batches=reveal)
    pretended = DPSGD(PoissonSampling(rate=0.5), noise_multiplier=0.7, steps=2)
    assert rejected(scores, pretended, group_size=1, adjacency="zero-out").contradicted
    assert not rejected(scores, run, group_size=1, adjacency="zero-out").contradicted


def test_plain_poisson_accounting_of_a_tightly_cut_run_is_rejected():
    run = DPSGD(TRUNCATED, noise_multiplier=3.0, steps=6)
    scores = scores_of(run, 1, "add-or-remove")
    pretended = DPSGD(PoissonSampling(rate=0.5), noise_multiplier=3.0, steps=6)
    assert rejected(scores, pretended, group_size=1).contradicted
    assert not rejected(scores, run, group_size=1).contradicted


def test_the_command_line_audits_other_samplings():
    run = "--sampling shuffled --batch-size 2 --dataset-size 10 --noise-multiplier 2 --steps 5"
    asked = "--adjacency zero-out --group-size 2 --trials 500 --delta 0.01 --json"
    told = command_line.groupdp(f"audit worst-case {run} {asked} --reveal-batches").json
    assert (told["adjacency"], told["group_size"], told["run"]["sampling"]) == ("zero-out", 2, "shuffled")
    refused = command_line.groupdp(f"audit worst-case {run} {asked} --importance-samples 10")
    assert refused.status == 2
    assert "importance_samples must be 0 for adjacency 'zero-out', got 10." in " ".join(refused.errors.split())


# ------------------------------------------------------------------------------------------------------- refusals


def test_what_cannot_be_attacked_is_refused_with_a_sentence():
    with refused("adjacency", value="'remove'"):
        worst_case(DPSGD(SHUFFLED, noise_multiplier=1.0, steps=1), group_size=1, adjacency="remove")
    with refused("reveal_batches"):
        scores_of(DPSGD(FIXED, noise_multiplier=1.0, steps=1), 1, "remove", reveal_batches=True)
    run = DPSGD(BallsInBinsSampling(batches=2), noise_multiplier=1.0, steps=2)
    with refused("run"):
        importance_delta(run, group_size=1, epsilon=1.0, direction="remove", samples=10)
    with refused("group_size"):
        worst_case(DPSGD(PoissonSources(rates={"a": 0.5}), noise_multiplier=1.0, steps=1), group_size={"a": 0})
