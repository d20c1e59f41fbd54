"""The budget while training goes on."""

from __future__ import annotations

import groupdp
from groupdp.sweeps.spend import prefix, spend
from refusals import refused

FIRST = groupdp.DPSGD(groupdp.PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=300)
SECOND = groupdp.DPSGD(groupdp.PoissonSampling(rate=0.02), noise_multiplier=3.0, steps=100)


def test_epsilon_rises_and_ends_where_the_run_does():
    found = spend([FIRST, SECOND], delta=1e-6, group_size=2, points=8)
    steps = [one.steps for one in found.points]
    assert steps == sorted(set(steps))
    assert {100, 200, 300, 350, 400} <= set(steps)  # ends of epochs, of the phase, of the run
    uppers = [one.epsilon.upper for one in found.points]
    assert uppers == sorted(uppers)
    assert found.points[-1].epsilon.intersects(groupdp.epsilon([FIRST, SECOND], delta=1e-6, group_size=2))
    assert (found.target, found.last_step_within) == (None, None)


def test_the_prefix_of_a_run_is_the_run_stopped_there():
    assert [phase.steps for phase in prefix([FIRST, SECOND], 299)] == [299]
    assert [phase.steps for phase in prefix([FIRST, SECOND], 300)] == [300]
    assert [phase.steps for phase in prefix([FIRST, SECOND], 301)] == [300, 1]
    assert [phase.steps for phase in prefix([FIRST, SECOND], 0)] == [0]


def test_the_last_step_within_a_target_is_the_last():
    target = 0.5
    last = spend(FIRST, delta=1e-6, target=target, group_size=2, points=4).last_step_within
    assert last is not None
    assert 0 < last < FIRST.steps
    assert groupdp.epsilon(prefix([FIRST], last), delta=1e-6, group_size=2).upper <= target
    assert groupdp.epsilon(prefix([FIRST], last + 1), delta=1e-6, group_size=2).upper > target


def test_targets_beyond_either_end():
    assert spend(SECOND, delta=1e-6, target=1e-3, group_size=2, points=2).last_step_within is None
    assert spend(SECOND, delta=1e-6, target=1e3, group_size=2, points=2).last_step_within == SECOND.steps


def test_a_run_without_steps_spends_nothing():
    empty = groupdp.DPSGD(groupdp.PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=0)
    with refused("steps"):
        spend(empty, delta=1e-6)
    with refused("target"):
        spend(FIRST, delta=1e-6, target=0.0, group_size=1, points=2)


def test_epochs_go_on_across_phases_that_end_within_one():
    """150 steps of 100 per epoch, then 200: the second epoch ends 50 steps into the second phase."""
    first = groupdp.DPSGD(groupdp.PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=150)
    found = spend([first, groupdp.DPSGD(first.sampling, noise_multiplier=3.0, steps=200)], delta=1e-5, group_size=1)
    assert {one.steps: one.epoch for one in found.points if one.epoch} == {100: 1, 200: 2, 300: 3}


def test_a_budget_that_is_spent_by_the_epoch_rises_right_after_its_end():
    """A line between the points drawn is never below the bound: there is a point on either side of every jump."""
    sampling = groupdp.ShuffledSampling(batch_size=10, dataset_size=1000)
    run = groupdp.DPSGD(sampling, noise_multiplier=4.0, steps=350)
    found = spend(run, delta=1e-6, group_size=2, adjacency="zero-out")
    by_step = {one.steps: one.epsilon.upper for one in found.points}
    for end in (100, 200, 300):
        assert by_step[end] < by_step[end + 1]
    for before, after in zip(found.points, found.points[1:], strict=False):
        assert after.steps == before.steps + 1 or after.epsilon == before.epsilon
