"""Samplers in place of shuffling: exact combinatorial facts, their laws at fixed seeds, resuming and ranks."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, chisquare

import groupdp
from groupdp.loading import BallsInBinsBatches, MaskedDataset, PoissonBatches, SpreadBatches

OWNERS = [0, 0, 0, 1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 4]  # person 3 has more examples than there are batches


def makers():
    return {
        "poisson": lambda **other: PoissonBatches(50, rate=0.1, seed=5, **other),
        "poisson people": lambda **other: PoissonBatches(owners=OWNERS, rate=0.25, seed=5, **other),
        "balls in bins": lambda **other: BallsInBinsBatches(50, batches=7, seed=5, **other),
        "balls in bins people": lambda **other: BallsInBinsBatches(owners=OWNERS, batches=4, seed=5, **other),
        "spread": lambda **other: SpreadBatches(OWNERS, batches=5, seed=5, **other),
    }


every_sampler = pytest.mark.parametrize("make", makers().values(), ids=makers().keys())


def epochs(batches, count):
    return [[batch.tolist() for batch in batches.arrays()] for _ in range(count)]


@pytest.mark.parametrize("name", ["balls in bins", "balls in bins people", "spread"])
def test_an_epoch_has_every_example_exactly_once(name):
    batches = makers()[name]()
    for epoch in epochs(batches, 20):
        assert len(epoch) == len(batches)
        assert sorted(itertools.chain(*epoch)) == list(range(batches.dataset_size))


def test_spread_never_puts_two_examples_of_a_person_into_one_batch_unless_it_must():
    for batch in itertools.chain(*epochs(SpreadBatches(OWNERS, batches=5, seed=1), 200)):
        held = Counter(OWNERS[index] for index in batch)
        assert all(times == 1 for person, times in held.items() if person != 3)
        assert held[3] in (1, 2)  # 7 examples in 5 batches, as evenly as possible


def test_people_are_drawn_with_all_their_examples():
    whole = Counter(OWNERS)
    for name in ("poisson people", "balls in bins people"):
        for batch in itertools.chain(*epochs(makers()[name](), 50)):
            held = Counter(OWNERS[index] for index in batch)
            assert all(times == whole[person] for person, times in held.items())


@every_sampler
def test_resuming_gives_exactly_the_batches_that_were_left(make):
    whole = list(itertools.chain(*epochs(make(), 3)))
    for stop in (0, 1, len(make()), len(make()) + 2):
        before = make()
        taken = []
        while len(taken) < stop:  # breaking off an epoch and going on continues it
            taken += [batch.tolist() for batch in itertools.islice(before.arrays(), stop - len(taken))]
        after = make()
        after.load_state_dict(before.state_dict())
        left = []
        while len(left) < len(whole) - stop:
            left += [batch.tolist() for batch in after.arrays()]
        assert taken == whole[:stop]
        assert left == whole[stop:]


@every_sampler
def test_a_loader_that_asked_ahead_is_resumed_at_the_steps_that_were_trained(make):
    whole = list(itertools.chain(*epochs(make(), 2)))
    ahead = make()
    list(ahead.arrays())
    after = make()
    after.load_state_dict(ahead.state_dict(steps=2))
    assert next(after.arrays()).tolist() == whole[2]


@every_sampler
def test_ranks_partition_the_batch_of_one_process(make):
    alone = epochs(make(), 2)
    shares = [epochs(make(rank=rank, world_size=3), 2) for rank in range(3)]
    for epoch, of_epoch in enumerate(alone):
        for step, batch in enumerate(of_epoch):
            parts = [share[epoch][step] for share in shares]
            assert sorted(itertools.chain(*parts)) == batch  # disjoint: the batch has no repeated index
    fingerprints = {make(rank=rank, world_size=3).fingerprint for rank in range(3)}
    assert len(fingerprints) == 1


def test_a_person_stays_on_one_rank():
    shares = [PoissonBatches(owners=OWNERS, rate=0.5, seed=2, rank=rank, world_size=2) for rank in range(2)]
    for one, other in zip(*(itertools.chain(*epochs(share, 30)) for share in shares), strict=True):
        assert not {OWNERS[index] for index in one} & {OWNERS[index] for index in other}


@every_sampler
def test_global_seeds_have_no_effect(make):
    np.random.seed(1)  # noqa: NPY002 - the point of the test
    first = epochs(make(), 2)
    np.random.seed(2)  # noqa: NPY002
    assert epochs(make(), 2) == first
    assert first[0] != first[1]


def test_without_a_seed_every_sampler_draws_its_own():
    assert BallsInBinsBatches(50, batches=7).seed != BallsInBinsBatches(50, batches=7).seed


@every_sampler
def test_padding_masks_and_loses_nothing(make):
    plain, padded = make(), make(padding=40)
    for batch, (indices, mask) in zip(plain.arrays(), padded.padded(), strict=True):
        assert indices.shape == mask.shape == (40,)
        assert indices[mask].tolist() == batch.tolist()
        assert set(indices[~mask].tolist()) <= {plain.dataset_size}
    with pytest.raises(groupdp.InvalidArgument) as refused:
        list(make(padding=1))
    assert refused.value.argument == "padding"


@every_sampler
@pytest.mark.parametrize("world_size", [1, 2])
def test_the_padding_that_the_epochs_need_is_known_beforehand(make, world_size):
    for rank in range(world_size):
        share = {"rank": rank, "world_size": world_size}
        needed = make(**share).largest_batch(epochs=6)
        assert needed == max(len(batch) for epoch in epochs(make(**share), 6) for batch in epoch)
        padded = make(padding=needed, **share)
        assert all(len(indices) == needed for _ in range(6) for indices, _ in padded.padded())
        assert padded.steps_done == 6 * len(padded)


def test_padding_fails_in_a_plain_dataset_and_is_masked_in_a_masked_one():
    examples = list("abcdefghijklmn")
    batch = next(iter(SpreadBatches(OWNERS, batches=5, seed=3, padding=8)))
    with pytest.raises(IndexError):
        [examples[index] for index in batch]
    items = [MaskedDataset(examples)[index] for index in batch]
    shown = [item for item, inside in items if inside]
    assert shown == [examples[index] for index in batch if index < len(examples)]
    assert len(items) == 8


def test_poisson_batches_are_independent_coins():
    """1000 steps of 40 examples at rate 1/8: counts of batch sizes, of examples and of pairs against their laws."""
    batches = PoissonBatches(40, rate=0.125, steps=1000, seed=11)
    included = np.zeros((1000, 40), dtype=bool)
    for step, batch in enumerate(batches.arrays()):
        included[step, batch] = True
    sizes = np.bincount(np.minimum(included.sum(axis=1), 10), minlength=11)
    law = binom.pmf(np.arange(11), 40, 0.125)
    law[10] = binom.sf(9, 40, 0.125)
    assert chisquare(sizes, 1000 * law).pvalue > 1e-4
    for count, trials, chance in (
        (included.sum(), 40_000, 0.125),
        ((included[::2] & included[1::2]).sum(), 20_000, 0.125**2),
        ((included[:, ::2] & included[:, 1::2]).sum(), 20_000, 0.125**2),
    ):
        assert 1e-4 < binom.cdf(count, trials, chance) < 1 - 1e-4


def test_balls_in_bins_are_uniform_and_anew():
    batches = BallsInBinsBatches(3, batches=4, seed=7)
    seen = Counter()
    for epoch in epochs(batches, 4000):
        place = {index: step for step, batch in enumerate(epoch) for index in batch}
        seen[place[0], place[1], place[2]] += 1
    assert len(seen) == 64
    assert chisquare(list(seen.values())).pvalue > 1e-4


@pytest.mark.parametrize("batches", [4, 10])
def test_spread_places_are_uniform_over_ordered_choices(batches):
    """Both ways of drawing: 3 * 3 > 4 sorts a table, 2 * 2 <= 10 draws again what collides."""
    owners = [0, 0, 0] if batches == 4 else [0, 0]
    sampler = SpreadBatches(owners, batches=batches, seed=9)
    seen = Counter()
    for epoch in epochs(sampler, 6000):
        place = {index: step for step, batch in enumerate(epoch) for index in batch}
        seen[tuple(place[index] for index in range(len(owners)))] += 1
    expected = len(list(itertools.permutations(range(batches), len(owners))))
    assert len(seen) == expected
    assert chisquare(list(seen.values())).pvalue > 1e-4


def test_more_examples_than_batches_leave_the_extra_places_uniform():
    extra = Counter()
    for epoch in epochs(SpreadBatches([0] * 6, batches=4, seed=4), 3000):
        extra[tuple(step for step, batch in enumerate(epoch) if len(batch) == 2)] += 1
    assert len(extra) == 6
    assert chisquare(list(extra.values())).pvalue > 1e-4


def test_they_carry_what_is_accounted_for():
    spread = SpreadBatches(OWNERS, batches=5, seed=0)
    evenly = groupdp.SpreadSampling(batches=5, evenly=True)  # person 3 has 7 examples
    assert spread.sampling == evenly
    assert SpreadBatches(OWNERS, batches=7, seed=0).sampling == groupdp.SpreadSampling(batches=7)
    run = spread.run(noise_multiplier=4.0, epochs=20)
    assert run == groupdp.DPSGD(evenly, noise_multiplier=4.0, steps=100)
    assert groupdp.epsilon(run, delta=1e-6, group_size=7).upper > 0.0
    poisson = PoissonBatches(1000, rate=0.01, seed=0)
    assert len(poisson) == 100
    assert poisson.run(noise_multiplier=1.0, epochs=Fraction(5, 2)).steps == 250
    assert BallsInBinsBatches(10, batches=3, seed=0).sampling == groupdp.BallsInBinsSampling(batches=3)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: PoissonBatches(10, rate=1.5), "rate"),
        (lambda: PoissonBatches(0, rate=0.5), "dataset_size"),
        (lambda: PoissonBatches(rate=0.5), "dataset_size"),
        (lambda: PoissonBatches(3, rate=0.5, owners=[1, 2]), "dataset_size"),
        (lambda: PoissonBatches(3, rate=0.5, steps=0), "batches"),
        (lambda: BallsInBinsBatches(10, batches=0), "batches"),
        (lambda: BallsInBinsBatches(10, batches=2, world_size=2), "seed"),
        (lambda: BallsInBinsBatches(10, batches=2, seed=0, rank=2, world_size=2), "rank"),
        (lambda: BallsInBinsBatches(10, batches=2, seed=-1), "seed"),
        (lambda: BallsInBinsBatches(10, batches=2, padding=0), "padding"),
        (lambda: SpreadBatches([], batches=2), "owners"),
        (lambda: SpreadBatches([[1], [2]], batches=2), "owners"),
        (lambda: SpreadBatches([0.5, 1.5], batches=2), "owners"),
        (lambda: next(BallsInBinsBatches(10, batches=2).padded()), "padding"),
        (lambda: BallsInBinsBatches(10, batches=2).load_state_dict({}), "state"),
        (
            lambda: BallsInBinsBatches(10, batches=2, seed=1).load_state_dict(
                BallsInBinsBatches(11, batches=2, seed=1).state_dict()
            ),
            "state",
        ),
    ],
)
def test_bad_arguments_are_named(make, argument):
    with pytest.raises(groupdp.InvalidArgument) as refused:
        make()
    assert refused.value.argument == argument


def test_a_refused_state_changes_nothing():
    sampler = BallsInBinsBatches(10, batches=2, seed=1)
    with pytest.raises(groupdp.InvalidArgument):
        sampler.load_state_dict({**sampler.state_dict(), "seed": 2})
    assert sampler.seed == 1
