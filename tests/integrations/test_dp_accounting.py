"""groupdp as an accountant of dp_accounting: the same numbers, its own tests, and what is refused."""

from __future__ import annotations

import copy
import math

import dp_accounting
import pytest
from dp_accounting import dp_event as events
from dp_accounting import privacy_accountant_test

import groupdp
from groupdp.integrations.dp_accounting import GroupPrivacyAccountant, NeighboringRelation, from_dp_event, to_dp_event
from refusals import refused

ADD_OR_REMOVE, REPLACE, ZERO_OUT = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
)
GAUSSIAN = events.GaussianDpEvent(4.0)
POISSON = events.PoissonSampledDpEvent(0.01, GAUSSIAN)
FIXED = events.SampledWithoutReplacementDpEvent(10_000, 100, GAUSSIAN)
TRUNCATED = events.TruncatedSubsampledGaussianDpEvent(10_000, 0.01, 130, 4.0)


class TestTheirOwnContract(privacy_accountant_test.PrivacyAccountantTest):
    """dp_accounting's tests of an accountant, inherited."""

    def _make_test_accountants(self):
        return [GroupPrivacyAccountant(k, relation) for k in (1, 8) for relation in (ADD_OR_REMOVE, REPLACE, ZERO_OUT)]


def run_of(sampling, steps=2000, noise=4.0):
    return groupdp.DPSGD(sampling=sampling, noise_multiplier=noise, steps=steps)


@pytest.mark.parametrize("k", [1, 8, 32])
@pytest.mark.parametrize(
    ("event", "sampling"),
    [
        (POISSON, lambda k: groupdp.PoissonSampling(rate=0.01)),
        (FIXED, lambda k: groupdp.FixedBatchSampling(batch_size=100, dataset_size=10_000 - k)),
        (TRUNCATED, lambda k: groupdp.TruncatedPoissonSampling(rate=0.01, largest_batch=130, dataset_size=10_000 - k)),
    ],
    ids=["poisson", "fixed", "truncated"],
)
def test_numbers_are_those_of_groupdp_bit_for_bit(k, event, sampling):
    accountant = GroupPrivacyAccountant(k).compose(event, 2000)
    run = run_of(sampling(k))
    assert accountant.get_epsilon(1e-6) == groupdp.epsilon(run, delta=1e-6, group_size=k).upper
    assert accountant.get_delta(1.0) == groupdp.delta(run, epsilon=1.0, group_size=k).upper
    assert accountant.get_epsilon_bounds(1e-6) == groupdp.epsilon(run, delta=1e-6, group_size=k)
    assert accountant.get_delta_bounds(1.0) == groupdp.delta(run, epsilon=1.0, group_size=k)
    assert accountant.run == (run,)


def test_full_batches_are_poisson_at_rate_one():
    accountant = GroupPrivacyAccountant(3).compose(events.GaussianDpEvent(50.0), 100)
    run = run_of(groupdp.PoissonSampling(rate=1.0), steps=100, noise=50.0)
    assert accountant.get_epsilon(1e-6) == groupdp.epsilon(run, delta=1e-6, group_size=3).upper
    closed_form = dp_accounting.get_epsilon_gaussian(50.0 / 3.0 / 10.0, 1e-6)
    assert accountant.get_epsilon(1e-6) == pytest.approx(closed_form, rel=1e-9)


def test_replacing_uses_the_pair_of_two_mixtures():
    accountant = GroupPrivacyAccountant(2, REPLACE).compose(POISSON, 500)
    run = run_of(groupdp.PoissonSampling(rate=0.01), steps=500)
    expected = groupdp.epsilon(run, delta=1e-6, group_size=2, adjacency="substitute")
    assert accountant.get_epsilon_bounds(1e-6) == expected
    one = GroupPrivacyAccountant(1, REPLACE).compose(POISSON, 500).get_epsilon_bounds(1e-6)
    theirs = dp_accounting.pld.PLDAccountant(REPLACE, 1e-4).compose(POISSON, 500).get_epsilon(1e-6)
    assert theirs == pytest.approx(one.upper, rel=1e-3)


def test_zeroing_out_and_replacing_in_batches_of_one_size_keep_the_dataset_size():
    for relation, adjacency in ((REPLACE, "substitute"), (ZERO_OUT, "zero-out")):
        accountant = GroupPrivacyAccountant(2, relation).compose(FIXED, 20)
        run = run_of(groupdp.FixedBatchSampling(batch_size=100, dataset_size=10_000), steps=20)
        expected = groupdp.epsilon(run, delta=1e-6, group_size=2, adjacency=adjacency)
        assert accountant.get_epsilon_bounds(1e-6) == expected


def test_phases_compose_in_any_nesting():
    other = events.PoissonSampledDpEvent(0.02, events.GaussianDpEvent(3.0))
    nested = events.ComposedDpEvent(
        [
            events.SelfComposedDpEvent(events.ComposedDpEvent([POISSON, other]), 50),
            events.NoOpDpEvent(),
            events.SelfComposedDpEvent(POISSON, 10),
        ]
    )
    accountant = GroupPrivacyAccountant(4).compose(nested, 2)
    runs = [
        run_of(groupdp.PoissonSampling(rate=0.01), steps=120),
        run_of(groupdp.PoissonSampling(rate=0.02), steps=100, noise=3.0),
    ]
    assert accountant.get_epsilon(1e-6) == groupdp.epsilon(runs, delta=1e-6, group_size=4).upper
    assert accountant.ledger == events.SelfComposedDpEvent(nested, 2)


def test_mixtures_compose_with_everything_at_group_size_one():
    mixture = events.MixtureOfGaussiansDpEvent(4.0, [0.0, 1.0], [0.99, 0.01])
    single = GroupPrivacyAccountant(1).compose(mixture, 2000).get_epsilon_bounds(1e-6)
    assert single == groupdp.epsilon(groupdp.MixtureOfGaussians([0.0, 1.0], [0.99, 0.01], 4.0), delta=1e-6, rounds=2000)
    both = GroupPrivacyAccountant(1).compose(mixture, 1000).compose(POISSON, 1000).get_epsilon_bounds(1e-6)
    assert both.upper == pytest.approx(single.upper, rel=1e-9)  # the same mixture, in other roundings


def test_extremes_of_the_interface():
    accountant = GroupPrivacyAccountant(2).compose(POISSON, 10)
    assert accountant.get_epsilon(0) == math.inf
    assert accountant.get_epsilon(1) == 0.0
    assert accountant.get_delta(math.inf) == 0.0
    noiseless = GroupPrivacyAccountant(2).compose(events.PoissonSampledDpEvent(0.01, events.GaussianDpEvent(0.0)))
    assert noiseless.get_epsilon(1e-6) == math.inf
    assert noiseless.get_delta(math.inf) == pytest.approx(1 - 0.99**2, rel=1e-9)
    assert GroupPrivacyAccountant(2).compose(events.PoissonSampledDpEvent(0.0, GAUSSIAN), 10).get_epsilon(1e-6) == 0.0
    for bad in (-0.1, 1.5, math.nan):
        with refused("target_delta"):
            accountant.get_epsilon(bad)
    with refused("target_epsilon"):
        accountant.get_delta(-1.0)


def test_their_calibration_works():
    noise = dp_accounting.calibrate_dp_mechanism(
        lambda: GroupPrivacyAccountant(8),
        lambda sigma: events.SelfComposedDpEvent(
            events.PoissonSampledDpEvent(0.01, events.GaussianDpEvent(sigma)), 2000
        ),
        target_epsilon=4.0,
        target_delta=1e-6,
    )
    assert noise == pytest.approx(4.374531, abs=2e-6)
    assert groupdp.epsilon(run_of(groupdp.PoissonSampling(rate=0.01), noise=noise), delta=1e-6, group_size=8) <= 4.0


def test_an_accountant_can_be_copied_while_it_counts():
    accountant = GroupPrivacyAccountant(8).compose(POISSON, 100)
    other = copy.deepcopy(accountant).compose(POISSON, 100)
    assert accountant.get_epsilon(1e-6) < other.get_epsilon(1e-6)
    assert GroupPrivacyAccountant(8).compose(POISSON, 200).get_epsilon(1e-6) == other.get_epsilon(1e-6)


@pytest.mark.parametrize(
    ("event", "k", "relation", "reason"),
    [
        (events.LaplaceDpEvent(1.0), 2, ADD_OR_REMOVE, "Laplace noise has no group-level law"),
        (events.PoissonSampledDpEvent(0.1, events.LaplaceDpEvent(1.0)), 2, ADD_OR_REMOVE, "only a GaussianDpEvent"),
        (events.PoissonSampledDpEvent(0.1, POISSON), 2, ADD_OR_REMOVE, "only a GaussianDpEvent"),
        (events.SampledWithReplacementDpEvent(100, 10, GAUSSIAN), 2, ADD_OR_REMOVE, "drawn with replacement"),
        (events.SingleEpochTreeAggregationDpEvent(1.0, 10), 2, ADD_OR_REMOVE, "correlated noise"),
        (events.RepeatAndSelectDpEvent(GAUSSIAN, 1.0, 0.0), 2, ADD_OR_REMOVE, "selection over a random number"),
        (events.ZCDpEvent(0.1), 2, ADD_OR_REMOVE, "zCDP"),
        (events.RandomizedResponseDpEvent(0.1, 3), 2, REPLACE, "randomized response"),
        (events.MixtureOfGaussiansDpEvent(1.0, [0, 1], [0.5, 0.5]), 2, ADD_OR_REMOVE, "group_size=1"),
        (events.MixtureOfGaussiansDpEvent(1.0, [0, 1], [0.5, 0.5]), 1, REPLACE, "about adding and removing"),
        (events.SampledWithoutReplacementDpEvent(8, 4, GAUSSIAN), 8, ADD_OR_REMOVE, "must be above group_size=8"),
        (TRUNCATED, 2, REPLACE, "adjacency must be"),
        (events.PoissonSampledDpEvent(1.7, GAUSSIAN), 2, ADD_OR_REMOVE, r"rate must be in \(0, 1\], got 1.7"),
        (events.GaussianDpEvent(-1.0), 2, ADD_OR_REMOVE, "noise_multiplier must be"),
        (events.GaussianDpEvent(math.nan), 2, ADD_OR_REMOVE, "noise_multiplier must be"),
        (events.SelfComposedDpEvent(GAUSSIAN, -3), 2, ADD_OR_REMOVE, "count must be"),
        (events.SelfComposedDpEvent(GAUSSIAN, 2.5), 2, ADD_OR_REMOVE, "count must be"),
    ],
)
def test_what_has_no_law_is_refused_with_the_reason(event, k, relation, reason):
    accountant = GroupPrivacyAccountant(k, relation)
    assert not accountant.supports(event)
    with pytest.raises(dp_accounting.UnsupportedEventError, match=reason):
        accountant.compose(events.ComposedDpEvent([event]), 3)
    assert accountant.get_epsilon(1e-6) == 0.0  # nothing half composed


def test_more_steps_than_can_be_counted_are_refused():
    nested = events.SelfComposedDpEvent(events.SelfComposedDpEvent(GAUSSIAN, 2**40), 2**40)
    with pytest.raises(dp_accounting.UnsupportedEventError, match="count must be an integer of at most"):
        GroupPrivacyAccountant(2).compose(nested)


def test_wrong_arguments_get_a_sentence():
    with refused("group_size", value=0):
        GroupPrivacyAccountant(0)
    with refused("neighboring_relation"):
        GroupPrivacyAccountant(1, "add")
    with refused("event"):
        from_dp_event("poisson", group_size=1)


@pytest.mark.parametrize("k", [1, 5])
def test_runs_become_events_and_come_back(k):
    runs = (
        run_of(groupdp.PoissonSampling(rate=0.01), steps=7),
        run_of(groupdp.FixedBatchSampling(batch_size=10, dataset_size=1000), steps=9, noise=2.0),
        run_of(groupdp.TruncatedPoissonSampling(rate=0.01, largest_batch=20, dataset_size=1000), steps=3),
    )
    event = to_dp_event(runs, group_size=k)
    assert from_dp_event(event, group_size=k) == runs
    assert (
        GroupPrivacyAccountant(k).compose(event).get_epsilon(1e-5)
        == groupdp.epsilon(runs, delta=1e-5, group_size=k).upper
    )
    with pytest.raises(groupdp.InvalidArgument, match="there is no event for"):
        to_dp_event(run_of(groupdp.ShuffledSampling(batch_size=10, dataset_size=100)), group_size=k)
    with refused("microbatch_size"):
        to_dp_event(
            groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.1), noise_multiplier=1.0, steps=1, microbatch_size=2),
            group_size=k,
        )
