"""`groupdp.inspect` without any training framework: groupdp's samplers, unknown objects, bad arguments."""

from __future__ import annotations

import numpy as np
import pytest

import groupdp
from groupdp.loading import BallsInBinsBatches, PoissonBatches, SpreadBatches

SIZE = 60
SHUFFLED = groupdp.ShuffledSampling(batch_size=6, dataset_size=SIZE)


class OwnBatches:
    """A user's sampler for NumPy that shuffles."""

    def __init__(self):
        self.generator = np.random.default_rng(1)

    def __iter__(self):
        yield from self.generator.permutation(SIZE).reshape(-1, 6)


def stand_in(module):
    """An object of a package that is not installed."""
    return type("Pipeline", (), {"__module__": module})()


def test_our_samplers_say_what_they_are():
    for batches in (
        PoissonBatches(SIZE, rate=0.1, seed=1),
        PoissonBatches(owners=np.arange(SIZE) // 2, rate=0.1, seed=1),
        BallsInBinsBatches(SIZE, batches=10, seed=1),
        SpreadBatches(np.arange(SIZE) // 3, batches=10, seed=1),
        SpreadBatches(np.arange(SIZE) // 3, batches=10, seed=1, rank=1, world_size=3),
    ):
        found = groupdp.inspect(batches, claim=batches.sampling, draw=50)
        assert found.passes, str(found)
        assert found.run(noise_multiplier=2.0, epochs=3) == batches.run(noise_multiplier=2.0, epochs=3)


def test_a_subclass_of_ours_is_refused():
    class Changed(PoissonBatches):
        def arrays(self):
            yield from ()

    assert not groupdp.inspect(Changed(SIZE, rate=0.1)).passes


@pytest.mark.parametrize("module", ["tensorflow.data", "grain.python", "datasets.iterable_dataset", "somebody.code"])
def test_what_is_not_known_is_refused_with_a_reason(module):
    found = groupdp.inspect(stand_in(module))
    assert not found.passes
    assert found.sampling is None
    assert len(found.problems) == 1


def test_a_custom_sampler_is_tested_and_not_passed():
    wrong = groupdp.inspect(OwnBatches(), claim=groupdp.BallsInBinsSampling(batches=10), draw=60, owners=range(SIZE))
    assert wrong.test.contradicted
    right = groupdp.inspect(OwnBatches(), claim=SHUFFLED, draw=60)
    assert not right.test.contradicted
    assert not right.passes


@pytest.mark.parametrize("environment", ["2", "1"])
def test_the_launcher_says_how_many_processes_train(monkeypatch, environment):
    monkeypatch.setenv("WORLD_SIZE", environment)
    assert groupdp.inspect(PoissonBatches(SIZE, rate=0.1)).passes is (environment == "1")


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"claim": "nothing"}, "claim"),
        ({"claim": 3}, "claim"),
        ({"draw": 1}, "draw"),
        ({"world_size": 0}, "world_size"),
        ({"accumulation": 0}, "accumulation"),
        ({"draw": 5, "false_alarm": 2.0}, "false_alarm"),
    ],
)
def test_bad_arguments_are_named(arguments, argument):
    with pytest.raises(groupdp.InvalidArgument) as refused:
        groupdp.inspect(BallsInBinsBatches(SIZE, batches=10, seed=1), **arguments)
    assert refused.value.argument == argument


def test_a_custom_sampler_needs_a_claim_to_be_drawn_from():
    with pytest.raises(groupdp.InvalidArgument) as refused:
        groupdp.inspect(OwnBatches(), draw=5)
    assert refused.value.argument == "claim"


def test_a_report_can_be_read():
    text = str(groupdp.inspect(BallsInBinsBatches(SIZE, batches=10, seed=1), claim="poisson", draw=20))
    assert "Problem: The accounting assumes Poisson sampling" in text
    assert "Check: " in text
    assert "Test: " in text
