"""What every sampling says about itself: exhaustively, for each of them and each adjacency."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

import groupdp
from groupdp import DPSGD, InvalidArgument
from groupdp.neighbours import ADJACENCIES
from groupdp.pairs import ZERO, Round
from groupdp.question import question_of
from groupdp.samplings import SAMPLINGS, Sampling
from refusals import refused
from revealed_allocation import RevealedBallsInBins

EXAMPLES: dict[str, Sampling] = {
    "poisson": groupdp.PoissonSampling(rate=0.1),
    "fixed-batch": groupdp.FixedBatchSampling(batch_size=10, dataset_size=100),
    "truncated-poisson": groupdp.TruncatedPoissonSampling(rate=0.1, largest_batch=12, dataset_size=100),
    "shuffled": groupdp.ShuffledSampling(batch_size=10, dataset_size=105),
    "shuffled-once": groupdp.ShuffledOnceSampling(batch_size=10, dataset_size=105),
    "fixed-order": groupdp.FixedOrderSampling(batch_size=10, dataset_size=105),
    "balls-in-bins": groupdp.BallsInBinsSampling(batches=10),
    "spread": groupdp.SpreadSampling(batches=10),
    "allocation": groupdp.AllocationSampling(batches=10, participations=2),
    "poisson-people": groupdp.PoissonPeople(rate=0.1, examples_per_person=2),
    "fixed-people": groupdp.FixedPeople(batch_size=10, dataset_size=100, examples_per_person=2),
    "truncated-people": groupdp.TruncatedPeople(
        rate=0.1, largest_batch=12, dataset_size=100, examples_per_person=2, clip_person=True
    ),
    "poisson-sources": groupdp.PoissonSources(rates={"web": 0.1, "books": 0.02}),
}
EVERY = pytest.mark.parametrize("sampling", EXAMPLES.values(), ids=EXAMPLES.keys())


def group(sampling: Sampling, size: int = 3):
    return size if sampling.sources is None else {"web": size, "books": 1}


def test_every_sampling_has_an_example_here():
    assert set(EXAMPLES) == set(SAMPLINGS)
    assert all(type(EXAMPLES[name]) is kind for name, kind in SAMPLINGS.items())


@EVERY
def test_descriptions_compare_copy_and_describe_themselves(sampling: Sampling):
    again = pickle.loads(pickle.dumps(sampling))
    assert again == sampling
    assert hash(again) == hash(sampling)
    values = sampling.values()
    attributes = {field.name: field.attribute for field in sampling.fields}
    assert set(values) == set(attributes)
    assert type(sampling)(**{attributes[name]: value for name, value in values.items()}) == sampling
    assert sampling.title in sampling.describe()
    assert all(sentence.endswith(".") for sentence in sampling.assumptions(microbatches=True))


@EVERY
@pytest.mark.parametrize("adjacency", [*ADJACENCIES, "exchange"])
def test_every_adjacency_is_supported_or_refused_with_a_reason(sampling: Sampling, adjacency: str):
    run = DPSGD(sampling, noise_multiplier=2.0, steps=20)
    asked = (
        {"removed": group(sampling), "added": group(sampling, 2)}
        if adjacency == "exchange"
        else {"group_size": group(sampling), "adjacency": adjacency}
    )
    assert (adjacency in sampling.adjacencies) != (adjacency in sampling.refusals)
    if adjacency in sampling.adjacencies and not (sampling.name in PROFILES and adjacency in FROM_A_PROFILE):
        question = question_of(run, **asked)
        assert all(composition for _, composition in question.compositions)
    elif adjacency not in sampling.adjacencies:
        with refused("adjacency"):
            question_of(run, **asked)


FROM_A_PROFILE = ("substitute", "zero-out")
PROFILES = ("fixed-batch", "fixed-people")


@EVERY
def test_nobody_and_nothing_leave_the_empty_composition(sampling: Sampling):
    adjacency = "zero-out"
    if sampling.name in PROFILES:
        adjacency = "remove"
    nobody = 0 if sampling.sources is None else {}
    assert question_of(DPSGD(sampling, noise_multiplier=2.0, steps=20), group_size=nobody, adjacency=adjacency).is_empty
    assert question_of(
        DPSGD(sampling, noise_multiplier=2.0, steps=0), group_size=group(sampling), adjacency=adjacency
    ).is_empty


@EVERY
def test_batches_are_what_the_sampling_says(sampling: Sampling):
    generator = np.random.default_rng(1)
    stream = sampling.sampled_batches(generator, trials=200, dataset_size=100)
    batches = np.array([next(stream) for _ in range(10)])  # (steps, trials, examples)
    assert batches.shape == (10, 200, 100)
    if sampling.name in ("fixed-batch", "shuffled", "shuffled-once", "fixed-order"):
        assert np.all(batches.sum(axis=2) == 10)
    if sampling.name in ("shuffled", "shuffled-once", "fixed-order", "balls-in-bins"):
        assert np.all(batches.sum(axis=0) == 1)  # everybody once an epoch
    if sampling.name == "truncated-poisson":
        assert batches.sum(axis=2).max() == 12


def right_and_left(run: DPSGD, **asked) -> list[tuple[list[float], list[float]]]:
    ((_, composition), *_) = question_of(run, **asked).compositions
    ((one, _),) = composition
    assert isinstance(one, Round)
    return [(branch.right.shifts.tolist(), branch.left.shifts.tolist()) for branch in one.branches]


def test_the_pairs_of_poisson_sampling():
    """P-2: a removed and b added are (Binom(a, q), Binom(b, q)); substitution is its own mirror image."""
    run = DPSGD(EXAMPLES["poisson"], noise_multiplier=1.0, steps=7)
    assert right_and_left(run, removed=2, added=1) == [([0.0, 1.0, 2.0], [0.0, 1.0])]
    assert right_and_left(run, group_size=2, adjacency="substitute") == [([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])]
    assert len(question_of(run, group_size=2, adjacency="substitute").compositions) == 1
    assert [name for name, _ in question_of(run, removed=2, added=1).compositions] == [
        "remove 2, add 1",
        "remove 1, add 2",
    ]
    splits = question_of(run, group_size=3, adjacency="add-and-remove").compositions
    assert [name for name, _ in splits] == [f"remove {a}, add {3 - a}" for a in (3, 2, 1, 0)]
    assert (
        question_of(run, group_size=3, adjacency="zero-out").compositions[0][1]
        == question_of(run, group_size=3, adjacency="remove").compositions[0][1]
    )


def test_sources_are_convolved():
    """P-3: with one source it is Poisson sampling; two of one rate are one of their sum."""
    one = DPSGD(groupdp.PoissonSources(rates={"a": 0.1}), noise_multiplier=1.0, steps=7)
    two = DPSGD(groupdp.PoissonSources(rates={"a": 0.1, "b": 0.1}), noise_multiplier=1.0, steps=7)
    plain = DPSGD(EXAMPLES["poisson"], noise_multiplier=1.0, steps=7)
    expected = question_of(plain, group_size=5).compositions
    assert question_of(one, group_size={"a": 5}).compositions == expected
    assert question_of(two, group_size={"a": 2, "b": 3}).compositions == expected
    law = np.convolve([0.9, 0.1], np.convolve([0.98, 0.02], [0.98, 0.02]))
    run = DPSGD(EXAMPLES["poisson-sources"], noise_multiplier=1.0, steps=7)
    ((_, ((round_, _),)), *_) = question_of(run, group_size={"web": 1, "books": 2}).compositions
    np.testing.assert_allclose(round_.branches[0].right.probabilities, law, rtol=1e-14)


def test_shuffled_epochs_give_the_allocation_away():
    """P-7: two of ten batches' members share a batch with probability (B - 1)/(n - 1)."""
    run = DPSGD(groupdp.ShuffledSampling(batch_size=10, dataset_size=100), noise_multiplier=4.0, steps=21)
    for adjacency, unit in (("zero-out", 1.0), ("substitute", 2.0)):
        ((_, ((coin, epochs),)),) = question_of(run, group_size=2, adjacency=adjacency).compositions
        assert epochs == 3  # begun
        assert [branch.right.shifts.tolist() for branch in coin.branches] == [
            [unit * math.sqrt(2.0) / 4.0],
            [unit * 2.0 / 4.0],
        ]
        assert all(branch.left == ZERO for branch in coin.branches)
        assert math.exp(coin.log_weights[1]) == pytest.approx(9 / 99, rel=1e-14)


def test_a_smaller_last_batch_may_have_been_dropped():
    """Epochs of floor(n / B) steps: counting ceil(n / B) would understate how often an example was used."""
    run = DPSGD(groupdp.ShuffledSampling(batch_size=10, dataset_size=105), noise_multiplier=4.0, steps=100)
    ((_, ((_, epochs),)),) = question_of(run, group_size=2, adjacency="zero-out").compositions
    assert epochs == 10


def test_one_shuffled_order_is_one_coin_for_all_epochs():
    run = DPSGD(groupdp.ShuffledOnceSampling(batch_size=10, dataset_size=100), noise_multiplier=4.0, steps=40)
    ((_, ((coin, times),)),) = question_of(run, group_size=2, adjacency="zero-out").compositions
    assert times == 1
    assert [branch.right.largest for branch in coin.branches] == [math.sqrt(2.0) * 2.0 / 4.0, 2.0 * 2.0 / 4.0]


@pytest.mark.parametrize(
    ("alone", "size", "squares"), [(False, 3, 9), (True, 3, 3), (False, 23, 4 * 25 + 9), (True, 20, 20)]
)
def test_a_fixed_order_is_one_gaussian(alone: bool, size: int, squares: int):
    """P-8: the worst allocation fills whole batches of 5."""
    sampling = groupdp.FixedOrderSampling(batch_size=5, dataset_size=100, one_per_batch=alone)
    run = DPSGD(sampling, noise_multiplier=2.0, steps=40)
    question = question_of(run, group_size=size, adjacency="zero-out")
    ((_, ((one, epochs),)),) = question.compositions
    assert question.tight
    assert epochs == 2
    assert one.branches[0].right.shifts.tolist() == [math.sqrt(squares) / 2.0]


def test_an_epoch_cut_short_is_called_tight_only_where_it_is():
    """With one member a batch and one step, only one member can have taken part: k = 3 is not attained."""
    alone = groupdp.FixedOrderSampling(batch_size=5, dataset_size=100, one_per_batch=True)
    together = groupdp.FixedOrderSampling(batch_size=5, dataset_size=100)
    for sampling, steps, size, tight in (
        (alone, 1, 3, False),
        (alone, 20, 3, True),
        (alone, 1, 1, True),
        (together, 1, 3, True),
        (together, 1, 7, False),
    ):
        run = DPSGD(sampling, noise_multiplier=2.0, steps=steps)
        assert question_of(run, group_size=size, adjacency="zero-out").tight is tight


def test_those_who_leave_and_those_who_join_are_thrown_together():
    run = DPSGD(RevealedBallsInBins(batches=10), noise_multiplier=2.0, steps=20)
    ((_, both),) = question_of(run, group_size=2, adjacency="substitute").compositions
    ((_, four),) = question_of(run, group_size=4, adjacency="remove").compositions
    assert both == four


def test_tight_or_merely_valid():
    expected = {
        ("poisson", "substitute"): True,
        ("poisson-sources", "add-and-remove"): True,
        ("fixed-batch", "remove"): True,
        ("truncated-poisson", "remove"): False,
        ("shuffled", "zero-out"): False,
        ("shuffled-once", "substitute"): False,
        ("fixed-order", "substitute"): True,
        ("balls-in-bins", "add"): False,
    }
    for (name, adjacency), tight in expected.items():
        run = DPSGD(EXAMPLES[name], noise_multiplier=2.0, steps=20)
        assert question_of(run, group_size=group(EXAMPLES[name]), adjacency=adjacency).tight is tight


def test_groups_are_checked_against_the_run():
    poisson, sources = (
        DPSGD(EXAMPLES[name], noise_multiplier=2.0, steps=20) for name in ("poisson", "poisson-sources")
    )
    for run, bad in (
        (poisson, {"group_size": {"web": 1}}),
        (sources, {"group_size": 3}),
        (sources, {"group_size": {"films": 3}}),
        (sources, {"group_size": {"web": -1}}),
        (poisson, {"group_size": 3, "removed": 1}),
        (poisson, {"removed": 1, "added": -1}),
        (poisson, {"removed": 1, "added": 1, "adjacency": "add"}),
        ([poisson, sources], {"group_size": 1}),
        (DPSGD(EXAMPLES["shuffled"], noise_multiplier=2.0, steps=20), {"group_size": 106, "adjacency": "zero-out"}),
        (
            DPSGD(EXAMPLES["truncated-poisson"], noise_multiplier=2.0, steps=20, microbatch_size=2),
            {"group_size": 1},
        ),
    ):
        with pytest.raises(InvalidArgument):
            question_of(run, **bad)


def test_epochs_become_steps():
    for inverse in (49, 64, 93, 100, 10**6):  # doubles above, at and below the fractions that are meant
        sampling = groupdp.PoissonSampling(rate=1 / inverse)
        assert DPSGD.from_epochs(sampling, noise_multiplier=1.0, epochs=20).steps == 20 * inverse
    assert groupdp.PoissonSampling(rate=0.03).share_of_data() == Fraction(3, 100)
    assert DPSGD.from_epochs(EXAMPLES["fixed-batch"], noise_multiplier=1.0, epochs="3/2").steps == 15
    with refused("epochs"):
        DPSGD.from_epochs(EXAMPLES["poisson-sources"], noise_multiplier=1.0, epochs=1)


def test_a_fixed_order_is_not_attained_by_those_left_over():
    """P-8: 2 full batches of 2 hold 4 of 5 examples."""
    run = groupdp.DPSGD(groupdp.FixedOrderSampling(batch_size=2, dataset_size=5), noise_multiplier=3.0, steps=4)
    assert groupdp.epsilon(run, delta=1e-5, group_size=4, adjacency="zero-out").tight
    assert not groupdp.epsilon(run, delta=1e-5, group_size=5, adjacency="zero-out").tight


def test_more_examples_than_batches_are_spread_only_if_it_is_said_how():
    def asked(**how):
        sampling = groupdp.SpreadSampling(batches=3, **how)
        return groupdp.epsilon(DPSGD(sampling, noise_multiplier=2.0, steps=6), delta=1e-6, group_size=4)

    with pytest.raises(InvalidArgument) as caught:
        asked()
    assert caught.value.argument == "group_size"
    revealed = groupdp.MixtureOfGaussians([math.sqrt(6.0)], [1.0], 2.0)  # counts 2, 1, 1
    assert asked(evenly=True).upper == pytest.approx(groupdp.epsilon(revealed, rounds=2, delta=1e-6).upper, rel=1e-9)
    with pytest.raises(InvalidArgument) as caught:
        asked(evenly=1)
    assert caught.value.argument == "evenly"


@pytest.mark.thinned
@pytest.mark.parametrize(("batches", "noise", "members"), [(100, 1.0, 4), (100, 4.0, 8)])
def test_a_trade_off_is_that_of_the_smaller_bound(batches, noise, members):
    """At most what delta = 1e-6 at its epsilon implies: TPR <= e^eps FPR + delta."""
    run = DPSGD(groupdp.BallsInBinsSampling(batches=batches), noise_multiplier=noise, steps=batches)
    epsilon = groupdp.epsilon(run, delta=1e-6, group_size=members, adjacency="remove").upper
    rate = 1e-6
    told = groupdp.TradeOff(run, group_size=members, adjacency="remove").log_true_positive_rate(math.log(rate))
    assert told.upper <= math.log(math.exp(epsilon) * rate + 1e-6) + 1e-6


def test_a_distribution_of_balls_in_bins_is_that_of_the_revealed_allocation():
    run = DPSGD(groupdp.BallsInBinsSampling(batches=5), noise_multiplier=3.0, steps=5)
    one = groupdp.PrivacyLossDistribution.from_run(run, group_size=1, adjacency="remove")
    assert not one.tight
    assert one.delta(1.0).upper >= groupdp.delta(run, epsilon=1.0, group_size=1, adjacency="remove").lower
