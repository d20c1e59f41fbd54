"""groupdp as a training accountant of JAX Privacy, and in its execution plans: equal numbers, refusals."""

from __future__ import annotations

import pytest

import groupdp
from refusals import refused

pytest.importorskip("jax_privacy", reason="needs the extra jax-privacy: make test-integrations")

import dp_accounting
import jax
import jax.numpy as jnp
import numpy as np
from jax_privacy import accounting, batch_selection
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

from groupdp.integrations.dp_accounting import GroupPrivacyAccountant
from groupdp.integrations.jax_privacy import GroupTrainingAccountant, from_batch_selection, from_dp_params, to_dp_params

POISSON, FIXED = accounting.SamplingMethod.POISSON, accounting.SamplingMethod.FIXED_BATCH_SIZE
REPLACE = dp_accounting.NeighboringRelation.REPLACE_ONE
ZERO_OUT = dp_accounting.NeighboringRelation.REPLACE_SPECIAL


def params(**changes):
    usual = {"noise_multipliers": 4.0, "num_samples": 10_000, "delta": 1e-6, "batch_size": 100, "examples_per_user": 8}
    return accounting.DpParams(**{**usual, **changes})


def run_of(sampling, steps=2000, noise=4.0):
    return groupdp.DPSGD(sampling=sampling, noise_multiplier=noise, steps=steps)


@pytest.mark.parametrize("k", [None, 1, 8, 32])
@pytest.mark.parametrize(
    ("changes", "sampling"),
    [
        ({}, lambda k: groupdp.PoissonSampling(rate=0.01)),
        ({"sampling_method": FIXED}, lambda k: groupdp.FixedBatchSampling(batch_size=100, dataset_size=10_000 - k)),
        (
            {"truncated_batch_size": 130},
            lambda k: groupdp.TruncatedPoissonSampling(rate=0.01, largest_batch=130, dataset_size=10_000 - k),
        ),
    ],
    ids=["poisson", "fixed", "truncated"],
)
def test_numbers_are_those_of_groupdp_bit_for_bit(k, changes, sampling):
    found = GroupTrainingAccountant().compute_epsilon(2000, params(examples_per_user=k, **changes))
    size = 1 if k is None else k
    assert found == groupdp.epsilon(run_of(sampling(size)), delta=1e-6, group_size=size).upper


def test_their_own_user_level_accountant_agrees():
    theirs = accounting.DpsgdTrainingUserLevelAccountant(
        accounting.PldAccountantConfig(value_discretization_interval=1e-3)
    )
    for method in (POISSON, FIXED):
        one = params(examples_per_user=3, sampling_method=method, noise_multipliers=8.0)
        ours = GroupTrainingAccountant().compute_epsilon_bounds(500, one)
        found = theirs.compute_epsilon(500, one)
        assert found == pytest.approx(ours.upper, rel=0.01)


@pytest.mark.parametrize("adjacency", ["substitute", "zero-out"])
def test_other_adjacencies(adjacency):
    accountant = GroupTrainingAccountant(adjacency=adjacency)
    poisson = run_of(groupdp.PoissonSampling(rate=0.01))
    expected = groupdp.epsilon(poisson, delta=1e-6, group_size=8, adjacency=adjacency).upper
    assert accountant.compute_epsilon(2000, params()) == expected
    fixed = run_of(groupdp.FixedBatchSampling(batch_size=100, dataset_size=10_000), steps=20)
    expected = groupdp.epsilon(fixed, delta=1e-6, group_size=2, adjacency=adjacency).upper
    assert accountant.compute_epsilon(20, params(sampling_method=FIXED, examples_per_user=2)) == expected
    with refused("adjacency"):
        GroupTrainingAccountant(adjacency="remove")


def test_schedules_become_phases():
    changing = params(noise_multipliers=[(0, 4.0), (1000, 3.0)], batch_size_scale_schedule={500: 2})
    assert from_dp_params(2000, changing) == (
        run_of(groupdp.PoissonSampling(rate=0.01), steps=500),
        run_of(groupdp.PoissonSampling(rate=0.02), steps=500),
        run_of(groupdp.PoissonSampling(rate=0.02), steps=1000, noise=3.0),
    )
    assert len(from_dp_params(400, changing)) == 1
    accountant = GroupTrainingAccountant()
    expected = groupdp.epsilon(from_dp_params(2000, changing), delta=1e-6, group_size=8).upper
    assert accountant.compute_epsilon(2000, changing) == expected


def test_schedules_of_noise_agree_with_theirs():
    # With a schedule of batch sizes their own accountant computes in single precision, and is far off.
    one = params(noise_multipliers=[(0, 4.0), (1000, 3.0)], examples_per_user=None)
    theirs = accounting.DpsgdTrainingAccountant(accounting.PldAccountantConfig(value_discretization_interval=1e-3))
    assert theirs.compute_epsilon(2000, one) == pytest.approx(
        GroupTrainingAccountant().compute_epsilon(2000, one), rel=1e-2
    )


def test_nothing_and_no_guarantee():
    accountant = GroupTrainingAccountant()
    assert accountant.compute_epsilon(0, params()) == 0.0
    assert accountant.compute_epsilon(10, params(is_finite_guarantee=False)) == float("inf")
    assert accountant.compute_epsilon(jnp.array(10), params()) == accountant.compute_epsilon(10, params())
    cached = accounting.CachedExperimentAccountant(accountant, max_num_updates=100, num_cached_points=4)
    assert cached.compute_epsilon(30, params(), allow_approximate_cache=True) == accountant.compute_epsilon(
        50, params()
    )


def test_their_calibrations_work():
    accountant = GroupTrainingAccountant()
    usual = {"accountant": accountant, "num_samples": 10_000, "target_delta": 1e-6, "examples_per_user": 8}
    noise = accounting.calibrate_noise_multiplier(
        target_epsilon=4.0, batch_sizes=100, num_updates=2000, tol=1e-6, **usual
    )
    assert noise == pytest.approx(4.374531, abs=3e-6)
    assert accountant.compute_epsilon(2000, params(noise_multipliers=noise)) <= 4.0
    updates = accounting.calibrate_num_updates(target_epsilon=4.0, noise_multipliers=noise, batch_sizes=100, **usual)
    assert 1999 <= updates <= 2000
    size = accounting.calibrate_batch_size(target_epsilon=4.0, noise_multipliers=noise, num_updates=2000, **usual)
    assert 99 <= size <= 100


def test_one_example_may_have_several_bands():
    banded = params(examples_per_user=None, cycle_length=4, batch_size=50)
    assert from_dp_params(2001, banded) == (run_of(groupdp.PoissonSampling(rate=0.02), steps=501),)
    theirs = accounting.DpsgdTrainingAccountant(accounting.PldAccountantConfig()).compute_epsilon(2001, banded)
    assert GroupTrainingAccountant().compute_epsilon(2001, banded) == pytest.approx(theirs, rel=1e-3)


# --- execution plans -------------------------------------------------------------------------------------------------


def plan(k=8, bands=1, relation=dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, **changes):
    usual = {
        "iterations": 2000,
        "strategy": np.eye(1, bands)[0],
        "epsilon": 4.0,
        "delta": 1e-6,
        "sampling_prob": 0.01,
        "partition_type": batch_selection.PartitionType.INDEPENDENT,
        "accountant": GroupPrivacyAccountant(k, relation),
    }
    return BandMFExecutionPlanConfig(**{**usual, **changes})


def test_plans_take_our_accountant():
    made = plan().plan
    assert made.dp_event.event.event.noise_multiplier == pytest.approx(4.374531, abs=2e-6)
    assert GroupPrivacyAccountant(8).compose(made.dp_event).get_epsilon(1e-6) <= 4.0
    run = from_batch_selection(made.batch_selection_strategy, num_examples=500, noise_multiplier=4.374533, group_size=8)
    assert run == run_of(groupdp.PoissonSampling(rate=0.01), noise=4.374533)


@pytest.mark.filterwarnings("ignore:optax.global_norm is deprecated")
def test_a_plan_trains():
    made = plan(epsilon=None, delta=None, noise_multiplier=2.0, iterations=5, sampling_prob=0.2, noise_seed=0).plan
    features = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    gradient = jax.jit(made.clipped_grad(lambda weights, x: jnp.mean((x @ weights) ** 2), batch_argnums=1))
    weights = jnp.ones(3)
    state = made.noise_addition_transform.init(weights)
    accountant = GroupPrivacyAccountant(3)
    for indices in made.batch_selection_strategy.batch_iterator(50, rng=0):
        padded = batch_selection.pad_to_multiple_of(indices, 50)  # one shape is compiled once
        total = gradient(weights, features[padded], is_padding_example=padded < 0)
        noisy, state = made.noise_addition_transform.update(total, state)
        weights = weights - 0.1 * noisy
    assert bool(jnp.all(jnp.isfinite(weights)))
    accountant.compose(made.dp_event)
    run = run_of(groupdp.PoissonSampling(rate=0.2), steps=5, noise=2.0)
    assert accountant.get_epsilon(1e-5) == groupdp.epsilon(run, delta=1e-5, group_size=3).upper
    assert isinstance(weights, jax.Array)


@pytest.mark.parametrize("target", [{}, {"epsilon": None, "delta": None, "noise_multiplier": 2.0}])
def test_several_bands_are_refused_for_groups_when_a_plan_is_made(target):
    with pytest.raises(ValueError, match="num_bands must be 1 for a group of 8, got 4"):  # passed on by pydantic
        plan(bands=4, **target)


def test_several_bands_are_fine_for_one_example():
    assert plan(k=1, bands=4).plan.dp_event.count == 500


def test_several_bands_are_refused_for_groups_by_the_training_accountant():
    with refused("cycle_length"):
        GroupTrainingAccountant().compute_epsilon(2000, params(cycle_length=4))


def test_equal_parts_are_refused_for_adding_and_removing():
    with pytest.raises(ValueError, match="INDEPENDENT"):
        plan(partition_type=batch_selection.PartitionType.EQUAL_SPLIT)
    for relation in (REPLACE, ZERO_OUT):
        made = plan(relation=relation, partition_type=batch_selection.PartitionType.EQUAL_SPLIT)
        assert made.plan.dp_event.count == 2000


class TheirConfig(accounting.DpAccountantConfig):
    """Our accountant inside their own training accountant, which passes events only."""

    def create_accountant(self):
        return GroupPrivacyAccountant(8)


def test_their_training_accountant_may_use_ours_for_poisson_sampling():
    theirs = accounting.DpsgdTrainingAccountant(TheirConfig())
    expected = groupdp.epsilon(run_of(groupdp.PoissonSampling(rate=0.01)), delta=1e-6, group_size=8).upper
    assert theirs.compute_epsilon(2000, params(examples_per_user=None)) == expected


def test_fixed_batches_disguised_as_poisson_are_refused():
    theirs = accounting.DpsgdTrainingAccountant(TheirConfig())
    with pytest.raises(groupdp.InvalidArgument, match=r"sampling_method must be POISSON.*half the noise"):
        theirs.compute_epsilon(2000, params(examples_per_user=None, sampling_method=FIXED))


def test_bands_disguised_as_fewer_steps_are_refused():
    theirs = accounting.DpsgdTrainingAccountant(TheirConfig())
    with refused("cycle_length"):
        theirs.compute_epsilon(2000, params(examples_per_user=None, cycle_length=4))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"noise_multipliers": [(5, 1.0)]}, "noise_multipliers must begin with update 0"),
        ({"sampling_method": FIXED, "truncated_batch_size": 120}, "truncated_batch_size must be None for fixed"),
        ({"sampling_method": FIXED, "cycle_length": 2, "examples_per_user": 1}, "cycle_length must be 1 for fixed"),
        ({"batch_size": 20_000}, r"rate must be in \(0, 1\]"),
        ({"examples_per_user": 0}, "examples_per_user must be"),
        ({"sampling_method": FIXED, "examples_per_user": 10_000}, "num_samples must be above examples_per_user"),
        ({"noise_multipliers": -1.0}, "noise_multiplier must be"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, sentence):
    with pytest.raises(groupdp.InvalidArgument, match=sentence):
        GroupTrainingAccountant().compute_epsilon(100, params(**changes))


def test_batch_selection_strategies_become_runs():
    fixed = from_batch_selection(
        batch_selection.FixedBatchSampling(batch_size=10, iterations=7),
        num_examples=500,
        noise_multiplier=1.0,
        group_size=4,
    )
    assert fixed == run_of(groupdp.FixedBatchSampling(batch_size=10, dataset_size=496), steps=7, noise=1.0)
    truncated = from_batch_selection(
        batch_selection.CyclicPoissonSampling(sampling_prob=0.1, iterations=7, truncated_batch_size=60),
        num_examples=500,
        noise_multiplier=1.0,
        group_size=4,
    )
    assert truncated.sampling == groupdp.TruncatedPoissonSampling(rate=0.1, largest_batch=60, dataset_size=496)
    once = from_batch_selection(
        batch_selection.BallsInBinsSampling(iterations=5, cycle_length=5),
        num_examples=500,
        noise_multiplier=1.0,
        group_size=4,
    )
    assert once.sampling == groupdp.BallsInBinsSampling(batches=5)


def test_balls_thrown_once_are_not_balls_thrown_anew():
    strategy = batch_selection.BallsInBinsSampling(iterations=10, cycle_length=5)
    batches = list(strategy.batch_iterator(50, rng=0))
    assert all(np.array_equal(a, b) for a, b in zip(batches[:5], batches[5:], strict=True))
    for given, argument in (
        (strategy, "iterations"),
        (batch_selection.CyclicPoissonSampling(sampling_prob=0.1, iterations=10, cycle_length=5), "cycle_length"),
        (batch_selection.FixedBatchSampling(batch_size=10, iterations=7, replace=True), "replace"),
        ("poisson", "strategy"),
    ):
        with refused(argument):
            from_batch_selection(given, num_examples=500, noise_multiplier=1.0, group_size=4)


@pytest.mark.parametrize(
    "sampling",
    [
        groupdp.PoissonSampling(rate=0.01),
        groupdp.FixedBatchSampling(batch_size=100, dataset_size=9992),
    ],
)
def test_runs_become_parameters_and_come_back(sampling):
    runs = (run_of(sampling, steps=30), run_of(sampling, steps=20, noise=2.0))
    updates, made = to_dp_params(runs, num_samples=10_000, delta=1e-6, group_size=8)
    assert updates == 50
    assert from_dp_params(updates, made) == runs
    with pytest.raises(groupdp.InvalidArgument, match="to be DpParams"):
        to_dp_params(run_of(groupdp.PoissonSampling(rate=0.01234)), num_samples=10_001, delta=1e-6, group_size=8)
