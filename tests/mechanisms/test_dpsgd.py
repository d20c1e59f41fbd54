"""Descriptions of runs: they validate themselves, stay what they are, and compute nothing."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest
from hypothesis import given

import strategies
from groupdp import DPSGD, FixedBatchSampling, PoissonSampling
from groupdp.mechanisms.dpsgd import phases_of
from refusals import refused

POISSON = PoissonSampling(rate=0.01)
FIXED = FixedBatchSampling(batch_size=5, dataset_size=100)
RUN = DPSGD(sampling=POISSON, noise_multiplier=1.0, steps=10)


@pytest.mark.parametrize("description", [POISSON, FIXED, RUN], ids=lambda d: type(d).__name__)
def test_descriptions_cannot_be_changed(description):
    for field in dataclasses.fields(description):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(description, field.name, 1)
    with pytest.raises((AttributeError, TypeError)):
        description.extra = 1


@pytest.mark.parametrize(
    ("kind", "values"),
    [(PoissonSampling, (0.1,)), (FixedBatchSampling, (5, 100)), (DPSGD, (POISSON, 1.0, 10))],
)
def test_arguments_are_given_by_name(kind, values):
    """DPSGD(sampling, 1000, 1.0) would be an easy and silent mistake; the sampling alone may go without its name."""
    with pytest.raises(TypeError):
        kind(*values)
    assert kind(**dict(zip((field.name for field in dataclasses.fields(kind)), values, strict=False)))


@given(run=strategies.phases())
def test_equal_descriptions_are_interchangeable(run):
    for duplicate in (dataclasses.replace(run), copy.deepcopy(run), pickle.loads(pickle.dumps(run))):
        assert duplicate == run
        assert hash(duplicate) == hash(run)
    assert dataclasses.replace(run, steps=run.steps + 1) != run
    assert dataclasses.replace(run, noise_multiplier=run.noise_multiplier * 2) != run


def test_values_are_kept_as_plain_numbers():
    run = DPSGD(sampling=PoissonSampling(rate=1), noise_multiplier=2, steps=3)
    assert (type(run.sampling.rate), type(run.noise_multiplier), type(run.steps)) == (float, float, int)
    assert run == DPSGD(sampling=PoissonSampling(rate=1.0), noise_multiplier=2.0, steps=3, microbatch_size=1)


def test_replacing_a_value_validates_again():
    with refused("steps", value=-1):
        dataclasses.replace(RUN, steps=-1)


def test_no_noise_and_no_steps_can_be_described():
    assert DPSGD(sampling=POISSON, noise_multiplier=0.0, steps=0).noise_multiplier == 0.0


def test_a_batch_may_be_the_whole_dataset_but_not_more():
    assert FixedBatchSampling(batch_size=10, dataset_size=10).batch_size == 10
    with refused("batch_size", value=11):
        FixedBatchSampling(batch_size=11, dataset_size=10)


def test_a_run_is_one_phase_or_several():
    other = dataclasses.replace(RUN, steps=20)
    assert phases_of(RUN) == (RUN,)
    assert phases_of([RUN, other]) == (RUN, other)
    assert phases_of((other, RUN, other)) == (other, RUN, other)


@pytest.mark.parametrize("run", [[], (), None, POISSON, "run", [RUN, None], [[RUN]], {RUN}, iter([RUN])])
def test_anything_else_is_no_run(run):
    with refused("run"):
        phases_of(run)
