"""Every sampling under audit: its batches have its exact law, and the attack is the exact likelihood ratio.

Batches are tallied as patterns of who is in them and compared with exact probabilities by a chi-squared test; a right
sampler fails for fewer than one seed in 10^4. Densities are compared with sums over every allocation.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from groupdp.groups import group_of
from groupdp.neighbours import Neighbours
from groupdp.samplings import (
    SAMPLINGS,
    AllocationSampling,
    BallsInBinsSampling,
    FixedBatchSampling,
    FixedOrderSampling,
    FixedPeople,
    PoissonPeople,
    PoissonSampling,
    PoissonSources,
    Sampling,
    ShuffledOnceSampling,
    ShuffledSampling,
    SpreadSampling,
    TruncatedPeople,
    TruncatedPoissonSampling,
)

TRIALS = 60_000
FALSE_ALARM = 1e-4
Pattern = tuple[Hashable, ...]
Law = dict[Pattern, Fraction]
QUARTER = Fraction(1, 4)


def bits(included: np.ndarray) -> np.ndarray:
    return included @ (1 << np.arange(included.shape[1]))


def tallied(sampling: Sampling, size: int, steps: int, seed: int = 11) -> Counter[Pattern]:
    """Patterns of `steps` consecutive batches."""
    batches = sampling.sampled_batches(np.random.default_rng(seed), trials=TRIALS, dataset_size=size)
    codes = np.stack([bits(next(batches)) for _ in range(steps)])
    patterns, counts = np.unique(codes, axis=1, return_counts=True)
    return Counter({tuple(column): int(count) for column, count in zip(patterns.T.tolist(), counts, strict=True)})


def p_value(counts: Counter[Pattern], law: Law) -> float:
    """Chi-squared; patterns expected fewer than 20 times are pooled. Impossible patterns must not occur."""
    assert sum(law.values()) == 1
    assert set(counts) <= set(law)
    rare = [pattern for pattern, p in law.items() if float(p) * TRIALS < 20]
    cells = [(counts[pattern], float(p) * TRIALS) for pattern, p in law.items() if pattern not in set(rare)]
    if rare:
        cells.append((sum(counts[one] for one in rare), float(sum(law[one] for one in rare)) * TRIALS))
    if len(cells) == 1:
        return 1.0
    seen, expected = zip(*cells, strict=True)
    return float(stats.chisquare(seen, expected, sum_check=False).pvalue)


def code(batch: tuple[int, ...]) -> int:
    return sum(1 << i for i in batch)


def poisson(rates: list[Fraction]) -> Law:
    return {
        (code(tuple(itertools.compress(range(len(rates)), there))),): math.prod(
            (q if one else 1 - q for q, one in zip(rates, there, strict=True)), start=Fraction(1)
        )
        for there in itertools.product((0, 1), repeat=len(rates))
    }


def cut(size: int, rate: Fraction, top: int) -> Law:
    law: Law = {}
    for there in itertools.product((0, 1), repeat=size):
        chance = math.prod((rate if one else 1 - rate for one in there), start=Fraction(1))
        sampled = tuple(itertools.compress(range(size), there))
        kept = list(itertools.combinations(sampled, min(top, len(sampled))))
        for batch in kept:
            law[(code(batch),)] = law.get((code(batch),), Fraction(0)) + chance / len(kept)
    return law


def dealt(size: int, batch: int, steps: int, *, fresh: bool) -> Law:
    """The first `steps` batches, an epoch being ceil(size / batch) of them."""
    length = -(-size // batch)
    orders = list(itertools.permutations(range(size)))
    epochs = []
    for order in orders:
        epochs.append(tuple(code(order[batch * t : batch * (t + 1)]) for t in range(length)))
    one = Counter(epochs)
    law: Law = {}
    for first, count in one.items():
        for second, other in one.items() if fresh and steps > length else [(first, len(orders))]:
            pattern = (first + second)[:steps]
            law[pattern] = law.get(pattern, Fraction(0)) + Fraction(count * other, len(orders) ** 2)
    return law


def thrown(size: int, bins: int) -> Law:
    law: Counter[Pattern] = Counter()
    for places in itertools.product(range(bins), repeat=size):
        law[tuple(code(tuple(i for i, at in enumerate(places) if at == t)) for t in range(bins))] += 1
    return {pattern: Fraction(count, bins**size) for pattern, count in law.items()}


def independent(law: Law) -> Law:
    return {a + b: p * q for (a, p), (b, q) in itertools.product(law.items(), repeat=2)}


def doubled(law: Law) -> Law:
    """Of people with two examples each: example i belongs to person i // 2."""
    return {tuple(sum(3 << 2 * i for i in range(5) if b >> i & 1) for b in pattern): p for pattern, p in law.items()}


SAMPLED: dict[str, tuple[Sampling, int, int, Law]] = {
    "poisson": (PoissonSampling(rate=0.25), 4, 2, independent(poisson([QUARTER] * 4))),
    "poisson-sources": (
        PoissonSources(rates={"web": 0.25, "books": 0.5}),
        4,
        2,
        independent(poisson([QUARTER, Fraction(1, 2)] * 2)),
    ),
    "fixed-batch": (
        FixedBatchSampling(batch_size=2, dataset_size=5),
        5,
        2,
        independent({(code(one),): Fraction(1, 10) for one in itertools.combinations(range(5), 2)}),
    ),
    "truncated-poisson": (
        TruncatedPoissonSampling(rate=0.25, largest_batch=2, dataset_size=4),
        5,
        2,
        independent(cut(5, QUARTER, 2)),
    ),
    "shuffled": (ShuffledSampling(batch_size=2, dataset_size=4), 4, 4, dealt(4, 2, 4, fresh=True)),
    "shuffled, a smaller last batch": (
        ShuffledSampling(batch_size=2, dataset_size=5),
        5,
        3,
        dealt(5, 2, 3, fresh=True),
    ),
    "shuffled-once": (ShuffledOnceSampling(batch_size=2, dataset_size=4), 4, 4, dealt(4, 2, 4, fresh=False)),
    "fixed-order": (FixedOrderSampling(batch_size=2, dataset_size=4), 4, 4, {(3, 12, 3, 12): Fraction(1)}),
    "balls-in-bins": (BallsInBinsSampling(batches=2), 3, 4, independent(thrown(3, 2))),
    "spread": (SpreadSampling(batches=2), 2, 4, independent({(1, 2): Fraction(1, 2), (2, 1): Fraction(1, 2)})),
    "allocation": (
        AllocationSampling(batches=3, participations=2),
        1,
        6,
        independent({pattern: Fraction(1, 3) for pattern in ((1, 1, 0), (1, 0, 1), (0, 1, 1))}),
    ),
    "poisson-people": (
        PoissonPeople(rate=0.25, examples_per_person=2),
        4,
        2,
        doubled(independent(poisson([QUARTER] * 2))),
    ),
    "fixed-people": (
        FixedPeople(batch_size=1, dataset_size=3, examples_per_person=2),
        6,
        2,
        doubled(independent({(code((i,)),): Fraction(1, 3) for i in range(3)})),
    ),
    "truncated-people": (
        TruncatedPeople(rate=0.25, largest_batch=2, dataset_size=2, examples_per_person=2),
        6,
        2,
        doubled(independent(cut(3, QUARTER, 2))),
    ),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_batches_have_their_exact_law(name: str):
    sampling, size, steps, law = SAMPLED[name]
    assert p_value(tallied(sampling, size, steps), law) > FALSE_ALARM


def test_every_sampling_is_tallied():
    assert {sampling.name for sampling, *_ in SAMPLED.values()} == set(SAMPLINGS)


def test_samplers_that_are_slightly_wrong_are_noticed():
    """A rate of 0.26 for 0.25; a cap that keeps the first examples; an order that is reused."""
    assert p_value(tallied(PoissonSampling(rate=0.26), 4, 2), SAMPLED["poisson"][3]) < FALSE_ALARM

    class KeepsTheFirst(TruncatedPoissonSampling):
        def sampled_batches(self, generator, *, trials, dataset_size):
            while True:
                sampled = generator.random((trials, dataset_size)) < self.rate
                yield sampled & (sampled.cumsum(axis=1) <= self.largest_batch)

    wrong = KeepsTheFirst(rate=0.25, largest_batch=2, dataset_size=4)
    assert p_value(tallied(wrong, 5, 2), SAMPLED["truncated-poisson"][3]) < FALSE_ALARM
    reused = tallied(ShuffledOnceSampling(batch_size=2, dataset_size=4), 4, 4)
    assert p_value(reused, SAMPLED["shuffled"][3]) < FALSE_ALARM


# --------------------------------------------------------------------------------------- densities of releases

WORLDS: dict[str, tuple[Sampling, str, int, int]] = {
    "poisson": (PoissonSampling(rate=0.25), "substitute", 2, 2),
    "fixed-batch": (FixedBatchSampling(batch_size=2, dataset_size=5), "remove", 2, 2),
    "fixed-batch substitute": (FixedBatchSampling(batch_size=2, dataset_size=5), "substitute", 2, 2),
    "fixed-batch zero-out": (FixedBatchSampling(batch_size=2, dataset_size=5), "zero-out", 2, 2),
    "truncated": (TruncatedPoissonSampling(rate=0.25, largest_batch=2, dataset_size=3), "remove", 2, 2),
    "truncated, usually cut": (TruncatedPoissonSampling(rate=0.75, largest_batch=2, dataset_size=3), "remove", 2, 2),
    "truncated zero-out": (TruncatedPoissonSampling(rate=0.75, largest_batch=2, dataset_size=3), "zero-out", 2, 2),
    "shuffled": (ShuffledSampling(batch_size=2, dataset_size=4), "substitute", 2, 4),
    "shuffled, cut short": (ShuffledSampling(batch_size=2, dataset_size=5), "zero-out", 3, 5),
    "shuffled-once": (ShuffledOnceSampling(batch_size=2, dataset_size=4), "substitute", 3, 3),
    "fixed-order": (FixedOrderSampling(batch_size=2, dataset_size=5), "substitute", 3, 4),
    "one per batch": (FixedOrderSampling(batch_size=2, dataset_size=5, one_per_batch=True), "zero-out", 2, 4),
    "balls-in-bins": (BallsInBinsSampling(batches=2), "substitute", 2, 3),
}


def law_of(sampling: Sampling, size: int, steps: int) -> Law:
    """Of what a sampling does in `steps` steps, by enumeration."""
    if isinstance(sampling, PoissonSampling):
        return independent(poisson([Fraction(sampling.rate)] * size))
    if isinstance(sampling, FixedBatchSampling):
        batches = list(itertools.combinations(range(size), sampling.batch_size))
        return independent({(code(one),): Fraction(1, len(batches)) for one in batches})
    if isinstance(sampling, TruncatedPoissonSampling):
        return independent(cut(size, Fraction(sampling.rate), sampling.largest_batch))
    if isinstance(sampling, FixedOrderSampling):
        length = -(-size // sampling.batch_size)
        cycle = [code(tuple(range(size))[2 * t : 2 * t + 2]) for t in range(length)]
        return {tuple(cycle[t % length] for t in range(steps)): Fraction(1)}
    if isinstance(sampling, BallsInBinsSampling):
        law: Law = {}
        for pattern, p in independent(thrown(size, 2)).items():
            law[pattern[:steps]] = law.get(pattern[:steps], Fraction(0)) + p
        return law
    assert isinstance(sampling, ShuffledSampling)
    return dealt(size, sampling.batch_size, steps, fresh=not isinstance(sampling, ShuffledOnceSampling))


@pytest.mark.parametrize("name", WORLDS)
def test_densities_are_sums_over_all_batches(name: str):
    sampling, adjacency, group, steps = WORLDS[name]
    noise, sums = 0.8, np.random.default_rng(3).normal(size=(steps, 6)) * 2.0
    change = Neighbours(group_of("group_size", group, sampling.sources), adjacency).changes[0]
    for dataset in sampling.audited_datasets(change, ordinary_examples=2):
        moves = dataset.moves
        total = np.zeros(sums.shape[1])
        for pattern, p in law_of(sampling, len(moves), steps).items():
            means = np.array([sum(m for i, m in enumerate(moves) if batch >> i & 1) for batch in pattern])[:, None]
            total += float(p) * np.exp(np.sum((2 * sums - means) * means, axis=0) / (2 * noise**2))
        np.testing.assert_allclose(dataset.releases.log_density(sums, noise), np.log(total), rtol=1e-9, atol=1e-9)


def test_the_density_of_several_sources():
    sampling = PoissonSources(rates={"web": 0.25, "books": 0.5})
    group = group_of("group_size", {"web": 1, "books": 2}, sampling.sources)
    (change,) = Neighbours(group, "substitute").changes
    sums = np.random.default_rng(3).normal(size=(1, 6))
    for dataset in sampling.audited_datasets(change, ordinary_examples=0):
        rates = [Fraction(1, 4), Fraction(1, 2)] * 2
        total = np.zeros(6)
        for (batch,), p in poisson(rates).items():
            mean = sum(m for i, m in enumerate(dataset.moves) if batch >> i & 1)
            total += float(p) * np.exp((2 * sums[0] - mean) * mean / 2)
        np.testing.assert_allclose(dataset.releases.log_density(sums, 1.0), np.log(total), rtol=1e-9)
