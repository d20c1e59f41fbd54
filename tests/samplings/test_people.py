"""People as the unit: P-22 and P-23 against enumeration, the false friend, and what statements and files say."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import groupdp
from groupdp import DPSGD, FixedPeople, InvalidArgument, PoissonPeople, PoissonSampling, TruncatedPeople
from groupdp.audit import attack_scores, check_claim, claimed_curve, worst_case
from groupdp.certificate import certify
from groupdp.certificate.prover import certificate_of
from groupdp.mechanisms.wrappers import OfGroup
from groupdp.question import question_of
from groupdp.run_file import parse_run_file
from groupdp.run_file.run import run_file_text
from groupdp.statement import as_text, make_statement
from samplings import enumeration as every

NOISE = 1.5
EPSILONS = (0.0, 0.4, 1.5)
RATE, KEPT = Fraction(1, 4), Fraction(1, 2)


def person(gradients: tuple[int, ...], most: int, *, together: bool = False) -> dict:
    """The law of what one person adds: sampled, each example kept by a coin of its own, the first `most` used."""
    law: dict = {0: 1 - RATE}
    for kept in itertools.product((0, 1), repeat=len(gradients)):
        chance = RATE
        for coin in kept:
            chance *= KEPT if coin else 1 - KEPT
        used = [gradient for gradient, coin in zip(gradients, kept, strict=True) if coin][:most]
        added = sum(used)
        if together:
            added = max(-1, min(1, added))
        law[added] = law.get(added, Fraction(0)) + chance
    return law


def total(people: tuple[tuple[int, ...], ...], most: int, *, together: bool = False) -> dict:
    law: dict = {0: Fraction(1)}
    for gradients in people:
        law = every.mixed((p, every.shifted(law, by)) for by, p in person(gradients, most, together=together).items())
    return law


def datasets(people: int, held: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every choice of gradients +1, 0, -1; fewer examples than `held` are gradients of 0."""
    return itertools.combinations_with_replacement(itertools.product((1, 0, -1), repeat=held), people)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("adjacency", ["remove", "add", "substitute"])
def test_a_random_number_of_examples_is_convolved(adjacency: str, together: bool):
    """P-23: all gradients of two people with three examples each, of which at most two are used; attained."""
    sampling = PoissonPeople(rate=0.25, examples_per_person=2, clip_person=together, example_rate=0.5, examples_held=3)
    run = DPSGD(sampling, noise_multiplier=NOISE, steps=1)
    first = [total(one, 2, together=together) for one in datasets(2 if adjacency != "substitute" else 1, 3)]
    if adjacency == "substitute":
        pairs = list(itertools.product(first, first))
    else:
        pairs = [(p, {0: Fraction(1)}) for p in first]
    if adjacency == "add":
        pairs = [(q, p) for p, q in pairs]
    size = 1 if adjacency == "substitute" else 2
    for epsilon in EPSILONS:
        bound = groupdp.delta(run, epsilon=epsilon, group_size=size, adjacency=adjacency)
        attained = float(every.hockey_sticks(pairs, NOISE, epsilon).max())
        assert bound.tight
        assert bound.lower * (1 - 1e-8) - 1e-13 <= attained <= bound.upper * (1 + 1e-8) + 1e-13


def test_one_by_one_is_times_m_and_together_is_the_law_itself():
    """P-22: the rounds are those of examples at noise / m, and those of examples."""
    plain = {
        PoissonPeople: groupdp.PoissonSampling(rate=0.1),
        FixedPeople: groupdp.FixedBatchSampling(batch_size=5, dataset_size=50),
        TruncatedPeople: groupdp.TruncatedPoissonSampling(rate=0.1, largest_batch=6, dataset_size=50),
    }
    for kind, one in plain.items():
        fields = {field.attribute: getattr(one, field.attribute) for field in one.fields}
        for together, noise in ((False, 2.0), (True, 8.0)):
            people = DPSGD(kind(**fields, examples_per_person=4, clip_person=together), noise_multiplier=8.0, steps=30)
            asked = {"group_size": 3, "adjacency": "zero-out"}
            assert question_of(people, **asked) == question_of(DPSGD(one, noise_multiplier=noise, steps=30), **asked), (
                "powers of two divide exactly"
            )


def test_epsilon_grows_with_people_and_with_examples():
    def upper(m: int, j: int, **how: float) -> groupdp.Bounds:
        sampling = PoissonPeople(rate=0.02, examples_per_person=m, **how)
        return groupdp.epsilon(DPSGD(sampling, noise_multiplier=6.0, steps=300), delta=1e-5, group_size=j)

    for j in (1, 2, 3):
        for m in (1, 2, 3):
            assert upper(m + 1, j).lower > upper(m, j).upper
            assert upper(m, j + 1).lower > upper(m, j).upper
            assert upper(m, j, example_rate=0.5, examples_held=m + 2).upper < upper(m, j).lower
    few, more = (upper(2, 1, example_rate=0.3, examples_held=held) for held in (3, 6))
    assert few.upper < more.lower


@pytest.mark.parametrize(
    ("how", "examples", "rate"), [({}, 8, 0.05), ({"example_rate": 0.5, "examples_held": 12}, 12, 0.025)]
)
def test_the_audit_rejects_people_accounted_as_examples(how: dict, examples: int, rate: float):
    """m Binom(j, q) is not Binom(j m, q): a person's examples come together."""
    run = DPSGD(PoissonPeople(rate=0.05, examples_per_person=8, **how), noise_multiplier=2.0, steps=2)
    friend = DPSGD(PoissonSampling(rate=rate), noise_multiplier=2.0, steps=2)
    scores = attack_scores(worst_case(run, group_size=1), trials=4_000, seed=3)
    for claimed, size, is_false in ((run, 1, False), (friend, examples, True)):
        curve = claimed_curve(claimed, group_size=size, adjacency="add-or-remove", points=6)
        assert check_claim(scores, curve, confidence=0.999).contradicted == is_false


@pytest.mark.parametrize("kind", ["fixed", "truncated"])
def test_the_audit_accepts_the_others(kind: str):
    sampling = (
        FixedPeople(batch_size=2, dataset_size=8, examples_per_person=3)
        if kind == "fixed"
        else TruncatedPeople(rate=0.25, largest_batch=3, dataset_size=8, examples_per_person=3, clip_person=True)
    )
    run = DPSGD(sampling, noise_multiplier=3.0, steps=3)
    scores = attack_scores(worst_case(run, group_size=1), trials=2_000, seed=4)
    curve = claimed_curve(run, group_size=1, adjacency="add-or-remove", points=6)
    assert not check_claim(scores, curve, confidence=0.999).contradicted


def test_batches_hold_whole_people():
    sampling = PoissonPeople(rate=0.3, examples_per_person=3)
    batch = next(sampling.sampled_batches(np.random.default_rng(1), trials=50, dataset_size=30))
    whole = batch.reshape(50, 10, 3)
    assert np.all(whole.any(axis=2) == whole.all(axis=2))
    some = replace(sampling, example_rate=0.5, examples_held=5)
    batch = next(some.sampled_batches(np.random.default_rng(1), trials=400, dataset_size=50))
    counts = batch.reshape(400, 10, 5).sum(axis=2)
    assert set(np.unique(counts)) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "sampling",
    [
        PoissonPeople(rate=0.05, examples_per_person=3),
        PoissonPeople(rate=0.05, examples_per_person=3, clip_person=True),
        PoissonPeople(rate=0.05, examples_per_person=2, example_rate=0.25, examples_held=9),
        FixedPeople(batch_size=2, dataset_size=20, examples_per_person=3),
        TruncatedPeople(rate=0.05, largest_batch=4, dataset_size=20, examples_per_person=3),
    ],
    ids=lambda one: one.name,
)
def test_certificates(sampling: groupdp.samplings.Sampling):
    """C-29: an independent law in exact rationals; a claim about fewer examples is refuted."""
    run = DPSGD(sampling, noise_multiplier=9.0, steps=200)
    made = certify(run, delta=1e-5, group_size=2)
    assert made.verdict.outcome == "verified"
    claim = made.document["claim"]
    assert claim["tight"] == groupdp.epsilon(run, delta=1e-5, group_size=2).tight
    claim["run"][0]["examples_per_person"] += 3
    claim["run"][0]["clip_person"] = False
    assert certificate_of(claim).verdict.outcome == "refuted"


def test_a_run_file_a_statement_and_its_assumptions():
    text = """
    delta = 1e-6
    group_size = 1
    [[phase]]
    sampling_rate = 0.01
    examples_per_person = 8
    noise_multiplier = 10
    steps = 200
    """
    file = parse_run_file(text)
    run = file.phases[0]
    assert run == DPSGD(PoissonPeople(rate=0.01, examples_per_person=8), noise_multiplier=10.0, steps=200)
    assert parse_run_file(run_file_text(file)) == file
    said = as_text(make_statement(file), width=10_000)
    assert "for one person under add-or-remove adjacency" in said
    assert "It holds for every person, whatever the others have." in said
    assert "at most 8 of their examples to a step" in said
    assert "divided by a constant" in said
    assert "example's gradient is clipped" in said
    assert "No person has more than" not in said


def test_what_is_refused():
    people = DPSGD(PoissonPeople(rate=0.01, examples_per_person=8), noise_multiplier=10.0, steps=200)
    examples = DPSGD(PoissonSampling(rate=0.01), noise_multiplier=10.0, steps=200)
    for other in (examples, groupdp.GaussianRelease(noise_multiplier=3.0, per_person=True)):
        with pytest.raises(InvalidArgument) as refused:
            groupdp.epsilon([people, other], delta=1e-6, group_size=1)
        assert refused.value.argument == "run"
    both = groupdp.epsilon([(people, 1), (examples, 8)], delta=1e-6)
    assert both.lower > groupdp.epsilon(people, delta=1e-6, group_size=1).upper
    assert groupdp.epsilon([OfGroup.of(people, 1), OfGroup.of(examples, 8)], delta=1e-6, group_size=1) == both
    with pytest.raises(InvalidArgument) as refused:
        groupdp.epsilon(replace(people, microbatch_size=2), delta=1e-6, group_size=1)
    assert refused.value.argument == "microbatch_size"
    with pytest.raises(InvalidArgument) as refused:
        PoissonPeople(rate=0.01, examples_per_person=8, example_rate=0.5)
    assert refused.value.argument == "examples_held"
    with pytest.raises(InvalidArgument) as refused:
        groupdp.people_view(people, [1, 2, 3], delta=1e-6)
    assert refused.value.argument == "run"
    big = PoissonPeople(rate=0.01, examples_per_person=5000, example_rate=0.5, examples_held=5000)
    with pytest.raises(groupdp.LimitExceeded):
        groupdp.epsilon(replace(people, sampling=big), delta=1e-6, group_size=3)
