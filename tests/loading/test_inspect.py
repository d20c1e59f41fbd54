"""`groupdp.inspect` without any training framework: groupdp's samplers, unknown objects, bad arguments."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import groupdp
from groupdp.loading import BallsInBinsBatches, PoissonBatches, SpreadBatches
from groupdp.run_file import read_run_file

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


#: Modules of real objects of tools that are not installed here, and a part of what has to be checked by hand.
PIPELINES = {
    "tensorflow.python.data.ops.shuffle_op": "buffer_size",
    "tensorflow.python.data.ops.iterator_ops": "buffer_size",
    "grain._src.python.data_loader": "32 bits",
    "grain._src.python.dataset.transformations.batch": "32 bits",
    "datasets.iterable_dataset": "fixed order",
    "somebody.code": "in its code",
}


@pytest.mark.parametrize("module", PIPELINES)
def test_what_is_not_known_is_refused_with_a_reason_and_with_what_to_check(module, tmp_path):
    found = groupdp.inspect(stand_in(module), claim="shuffled")
    assert not found.passes
    assert found.sampling is None
    assert len(found.problems) == 1
    assert "groupdp doctor" in found.problems[0]
    assert len(found.check) == 2
    assert PIPELINES[module] in found.check[0]
    with pytest.raises(groupdp.InvalidArgument):
        found.run_file(tmp_path / "run.toml", noise_multiplier=1.0, epochs=1)
    assert not (tmp_path / "run.toml").exists()


def test_a_stream_that_never_ends_is_refused(monkeypatch):
    class Endless:
        def __iter__(self):
            return itertools.repeat([0, 1])

    monkeypatch.setattr("groupdp.loading.inspection._MOST_BATCHES", 1000)
    found = groupdp.inspect(Endless(), claim=SHUFFLED, draw=200)
    assert any("does not end within 1000 batches" in problem for problem in found.problems)


def test_a_rank_says_its_share():
    of_rank = groupdp.inspect(SpreadBatches(np.arange(SIZE) // 3, batches=10, seed=1, rank=1, world_size=3))
    assert any("Rank 1 of 3 takes the examples number 1, 4, 7, ..." in one for one in of_rank.evidence)
    people = groupdp.inspect(PoissonBatches(owners=np.arange(SIZE) // 2, rate=0.1, seed=1, rank=0, world_size=2))
    assert any("Rank 0 of 2 takes the people number 0, 2, 4, ..." in one for one in people.evidence)


@pytest.mark.parametrize("kind", ["poisson", "balls-in-bins", "spread"])
def test_the_run_file_of_our_samplers_is_their_run(kind, tmp_path):
    batches = {
        "poisson": PoissonBatches(SIZE, rate=0.1, seed=1),
        "balls-in-bins": BallsInBinsBatches(owners=np.arange(SIZE) // 2, batches=10, seed=1),
        "spread": SpreadBatches(np.arange(SIZE) // 3, batches=10, seed=1),
    }[kind]
    found = groupdp.inspect(batches, draw=200)
    assert found.sampling.name == kind
    found.run_file(tmp_path / "run.toml", noise_multiplier=2.0, epochs=3, delta=1e-6, group_size=2)
    assert read_run_file(tmp_path / "run.toml").phases == (batches.run(noise_multiplier=2.0, epochs=3),)


def test_a_claim_of_spread_allocation_is_held_against_its_batches():
    crowded = SpreadBatches([0] * 12 + list(range(1, 49)), batches=10, seed=1)  # one person has 12 of 60
    assert crowded.sampling == groupdp.SpreadSampling(batches=10, evenly=True)
    assert groupdp.inspect(crowded, claim=groupdp.SpreadSampling(batches=10), draw=50).passes
    assert not groupdp.inspect(crowded, claim=groupdp.SpreadSampling(batches=12)).passes


def test_a_custom_sampler_is_tested_and_not_passed():
    wrong = groupdp.inspect(OwnBatches(), claim=groupdp.BallsInBinsSampling(batches=10), draw=60, owners=range(SIZE))
    assert wrong.test.contradicted
    right = groupdp.inspect(OwnBatches(), claim=SHUFFLED, draw=60)
    assert not right.test.contradicted
    assert not right.passes
    assert any("in its code" in one for one in right.check)


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
