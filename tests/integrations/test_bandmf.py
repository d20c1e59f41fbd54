"""JAX Privacy's BandMF for groups: configurations read as they are, partitions by person, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import groupdp
from groupdp.correlated import BandedToeplitz, CyclicPoisson, part_of
from refusals import refused

pytest.importorskip("jax_privacy", reason="needs the extra jax_privacy: make test-integrations")

import dp_accounting
from jax_privacy import batch_selection
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

from groupdp.integrations.bandmf import PersonCyclicPoisson, from_bandmf

COLUMN = (1.0, 0.5, 0.375, 0.3125)
INDEPENDENT, EQUAL = batch_selection.PartitionType.INDEPENDENT, batch_selection.PartitionType.EQUAL_SPLIT


def config(**changes):
    usual = {
        "iterations": 2000,
        "strategy": np.array(COLUMN),
        "epsilon": None,
        "delta": None,
        "noise_multiplier": 2.0,
        "sampling_prob": 0.04,
        "partition_type": INDEPENDENT,
        "accountant": dp_accounting.pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE),
    }
    return BandMFExecutionPlanConfig(**{**usual, **changes})


def test_a_configuration_is_read_as_it_is():
    run = from_bandmf(config())
    assert run.strategy == BandedToeplitz(COLUMN)
    assert run.participation == CyclicPoisson(parts=4, rate=0.04, assigned="example")
    assert (run.steps, run.normalisation) == (2000, "unit-columns")
    assert run.noise_multiplier == pytest.approx(2.0, rel=1e-12)


def test_one_example_agrees_with_their_accountant():
    """Theirs counts a shortened last column as a whole one: 2000 is a multiple of the bands, so that there is none."""
    made = config()
    theirs = made.accountant.compose(made.plan.dp_event).get_epsilon(1e-6)
    ours = groupdp.epsilon(from_bandmf(made), delta=1e-6, group_size=1)
    assert ours.tight
    assert ours.upper == pytest.approx(theirs, rel=2e-3)


def test_the_noise_they_add_is_the_standard_deviation_of_the_run():
    """Measured: with one round the noise is z / c_0 for z of deviation noise multiplier x norm of the strategy."""
    import jax
    import jax.numpy as jnp

    made = config(noise_seed=0)
    nothing = {"weights": jnp.zeros(200_000)}
    transform = made.plan.noise_addition_transform
    noise, _ = transform.update(nothing, transform.init(nothing))
    deviation = float(jnp.std(jax.tree.leaves(noise)[0]))
    assert deviation == pytest.approx(from_bandmf(made).standard_deviation, rel=0.01)


def test_a_group_by_person_is_far_better_than_independent_examples():
    made = config()
    person = from_bandmf(made, batch_selection=PersonCyclicPoisson.of(made, key="2026"))
    by_person, by_example = (groupdp.epsilon(run, delta=1e-6, group_size=3) for run in (person, from_bandmf(made)))
    assert by_person.tight
    assert not by_example.tight
    assert by_person.upper < 0.8 * by_example.upper


def test_batches_by_person_keep_a_person_in_one_part():
    persons = np.repeat(np.arange(50), 4)
    batches = list(PersonCyclicPoisson(0.5, 200, 4, "key").batch_iterator(persons.tolist(), rng=0))
    for i, batch in enumerate(batches):
        assert {part_of(int(person), 4, "key") for person in persons[batch]} <= {i % 4}
    included = np.bincount(np.concatenate(batches), minlength=len(persons)) / 50
    assert 0.4 < included.mean() < 0.6
    others = persons[persons != 7]  # whoever is removed moves nobody
    for i, batch in enumerate(PersonCyclicPoisson(0.5, 8, 4, "key").batch_iterator(others.tolist(), rng=1)):
        seen = set(persons[np.concatenate(batches[i % 4 :: 4])].tolist())
        assert set(others[batch].tolist()) <= seen


def test_parts_of_equal_size_are_refused_where_people_move():
    run = from_bandmf(
        config(
            partition_type=EQUAL,
            accountant=dp_accounting.pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_SPECIAL),
        )
    )
    with refused("adjacency"):
        groupdp.epsilon(run, delta=1e-6, group_size=3)
    assert groupdp.epsilon(run, delta=1e-6, group_size=3, adjacency="zero-out").upper > 0.0


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"noise_multiplier": None, "epsilon": 4.0, "delta": 1e-6}, "noise_multiplier"),
        ({"column_normalize": True}, "column_normalize"),
    ],
)
def test_what_is_not_covered_is_refused(changes, argument):
    with pytest.raises(groupdp.InvalidArgument) as refused:
        from_bandmf(config(**changes))
    assert refused.value.argument == argument


def test_other_batches_are_refused():
    made = config()
    for selection, argument in (
        (PersonCyclicPoisson(0.04, 2000, 5, "key"), "batch_selection"),
        (batch_selection.BallsInBinsSampling(iterations=2000, cycle_length=4), "batch_selection"),
        (
            batch_selection.CyclicPoissonSampling(
                sampling_prob=0.1, iterations=2000, cycle_length=4, truncated_batch_size=8
            ),
            "truncated_batch_size",
        ),
    ):
        with pytest.raises(groupdp.InvalidArgument) as refused:
            from_bandmf(made, batch_selection=selection)
        assert refused.value.argument == argument
