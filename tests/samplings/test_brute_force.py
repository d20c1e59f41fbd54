"""Every batch of small datasets, gradients +1, 0 and -1: no hockey stick exceeds the bound of the sampling's law.

Truth is enumerated (enumeration.py). Bounds are those of docs/internals/laws.md by the independent oracle. Adversaries
choose the gradients of the common part and of the group, in both worlds; all choices are tried for one round,
some for two.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

import oracle
from oracle import envelope as oracle_envelope
from oracle import few_rounds, laws
from samplings import enumeration as every
from samplings.enumeration import Population, populations

EPSILONS = (0.0, 0.3, 1.0, 2.5)
#: Relative to the bound: sums of doubles, and in two dimensions the trapezoid rule. And doubles cancel: absolute.
ONE, TWO, ROUNDING = 1e-9, 1e-5, 1e-14
NOTHING = Population(0, 0, 0)
Pair = tuple[every.Law, every.Law]


def bound(rounds: oracle.Rounds, epsilon: float) -> float:
    if sum(times for _, times in rounds) == 1:
        return math.exp(float(oracle.log_delta(rounds, epsilon=epsilon)))
    return math.exp(float(few_rounds.log_delta(rounds, epsilon=epsilon, step=0.1)))


def worlds(common: int, with_group: int, without_group: int):
    """Gradients of the common part and of the group in either world: every choice."""
    return itertools.product(*map(populations, (common, with_group, without_group)))


def largest(pairs: list[Pair], noise: float, epsilon: float) -> float:
    return float(every.hockey_sticks(pairs, noise, epsilon).max())


# --------------------------------------------------------------------------------------------- what is enumerated


def test_subsets_are_all_subsets():
    population, gradients = Population(2, 1, 2), (1, 1, 0, -1, -1)
    for size in range(6):
        sums = [sum(batch) for batch in itertools.combinations(gradients, size)]
        assert every.subsets(population, size) == {x: Fraction(sums.count(x), len(sums)) for x in sums}


def test_truncated_samples_are_all_samples_and_all_cuts():
    gradients, rate = (1, 0, -1, 1), Fraction(1, 3)
    law: dict[int, Fraction] = {}
    for sampled in itertools.product((0, 1), repeat=4):
        chosen = [g for g, there in zip(gradients, sampled, strict=True) if there]
        chance = math.prod(rate if there else 1 - rate for there in sampled)
        cuts = list(itertools.combinations(chosen, min(2, len(chosen))))
        for cut in cuts:
            law[sum(cut)] = law.get(sum(cut), Fraction(0)) + chance / len(cuts)
    assert every.truncated(Population(2, 1, 1), rate, 2) == law


def test_hockey_sticks_of_gaussians():
    law, zero = {3: Fraction(1)}, {0: Fraction(1)}
    truth = math.exp(float(oracle.log_delta(laws.fixed_order(3, 3, 2, 1), epsilon=0.5)))
    assert largest([(law, zero)], 2.0, 0.5) == pytest.approx(truth, rel=1e-12)
    joint = every.joint_hockey_stick({(3, 1): Fraction(1)}, {(0, 1): Fraction(1)}, 2.0, 0.5)
    assert joint == pytest.approx(truth, rel=1e-6)


# ------------------------------------------------------------------------------------------------------ one round


@pytest.mark.parametrize("noise", [1, 3])
@pytest.mark.parametrize(("removed", "added"), [(1, 1), (2, 1), (1, 2), (2, 2), (3, 0), (0, 3)])
def test_poisson_substitution(removed: int, added: int, noise: int):
    """P-2."""
    rate = Fraction(3, 10)
    pairs = [
        (every.poisson([(c + here, rate)]), every.poisson([(c + there, rate)]))
        for c, here, there in worlds(3, removed, added)
    ]
    for epsilon in EPSILONS:
        allowed = bound(laws.poisson(rate, noise, 1, removed=removed, added=added), epsilon)
        assert largest(pairs, noise, epsilon) == pytest.approx(allowed, rel=ONE, abs=ROUNDING)  # attained: tight


@pytest.mark.parametrize("k", [1, 2, 3])
def test_poisson_zero_out(k: int):
    """P-1."""
    rate, noise = Fraction(3, 10), 1
    pairs = [
        (every.poisson([(c + here, rate)]), every.poisson([(c + Population(0, k, 0), rate)]))
        for c, here, _ in worlds(3, k, 0)
    ]
    rounds = laws.poisson(rate, noise, 1, removed=k, added=0)
    for epsilon in EPSILONS:
        assert largest(pairs, noise, epsilon) == pytest.approx(bound(rounds, epsilon), rel=ONE, abs=ROUNDING)
        back = [(q, p) for p, q in pairs]
        assert largest(back, noise, epsilon) == pytest.approx(
            bound(laws.mirrored(rounds), epsilon), rel=ONE, abs=ROUNDING
        )


def test_poisson_sources():
    """P-3."""
    rates, noise = (Fraction(1, 5), Fraction(1, 2)), 1
    pairs = [
        (every.poisson([(c + a, rates[0]), (b, rates[1])]), every.poisson([(c, rates[0])]))
        for c in populations(2)
        for a in populations(2)
        for b in populations(1)
    ]
    rounds = laws.sources(rates, noise, 1, removed=(2, 1), added=(0, 0))
    for epsilon in EPSILONS:
        assert largest(pairs, noise, epsilon) == pytest.approx(bound(rounds, epsilon), rel=ONE, abs=ROUNDING)
        back = [(q, p) for p, q in pairs]
        assert largest(back, noise, epsilon) == pytest.approx(
            bound(laws.mirrored(rounds), epsilon), rel=ONE, abs=ROUNDING
        )


FIXED = [(8, 3, 1), (8, 3, 2), (8, 3, 3), (6, 3, 3), (20, 5, 1), (20, 5, 2), (5, 1, 2)]


@pytest.mark.thinned(8)
@pytest.mark.parametrize("noise", [1, 3])
@pytest.mark.parametrize(("n", "batch", "k"), FIXED)
def test_fixed_batch_substitution_and_zero_out(n: int, batch: int, k: int, noise: int):
    """P-5."""
    common = populations(n - k) if n < 10 else [Population(n - k - j, 0, j) for j in range(n - k + 1)]
    here_and_there = list(itertools.product(populations(k), repeat=2))
    pairs = [
        (every.subsets(c + here, batch), every.subsets(c + there, batch))
        for c in common
        for here, there in here_and_there
    ]
    one = oracle_envelope.Envelope(batch, n, k, noise)
    for epsilon in EPSILONS:
        found, allowed = largest(pairs, noise, epsilon), one.profile(epsilon)
        assert found <= allowed * (1 + ONE) + ROUNDING
        assert found > 0.4 * allowed - ROUNDING  # the enumeration is near what the envelope is about


@pytest.mark.parametrize(("n", "batch", "k"), [(7, 3, 1), (6, 3, 2), (4, 4, 3), (18, 5, 2)])
def test_fixed_batch_remove_and_add(n: int, batch: int, k: int):
    """P-4."""
    common = list(populations(n) if n < 10 else [Population(n - j, 0, j) for j in range(n + 1)])
    pairs = [(every.subsets(c + here, batch), every.subsets(c, batch)) for c in common for here in populations(k)]
    for noise, epsilon in itertools.product((1, 3), EPSILONS):
        rounds = laws.fixed_batch(batch, n, k, noise, 1)
        assert largest(pairs, noise, epsilon) == pytest.approx(bound(rounds, epsilon), rel=ONE, abs=ROUNDING)
        back = [(q, p) for p, q in pairs]
        assert largest(back, noise, epsilon) == pytest.approx(
            bound(laws.mirrored(rounds), epsilon), rel=ONE, abs=ROUNDING
        )


TRUNCATED = [
    (5, 2, 3, "0.4"),
    (4, 3, 2, "0.5"),
    (5, 1, 5, "0.3"),
    (6, 2, 4, "0.9"),
    (0, 3, 2, "0.5"),
    (17, 2, 6, "0.3"),
]


@pytest.mark.thinned(8)
@pytest.mark.parametrize("noise", [1, 3])
@pytest.mark.parametrize(("n", "k", "top", "rate"), TRUNCATED)
@pytest.mark.parametrize("zero_out", [False, True], ids=["remove and add", "zero out"])
def test_truncated_poisson(n: int, k: int, top: int, rate: str, noise: int, zero_out: bool):
    """P-6."""
    q = Fraction(rate)
    common = list(populations(n) if n < 10 else [Population(n - j, 0, j) for j in range(n + 1)])
    gone = Population(0, k, 0) if zero_out else NOTHING
    pairs = [
        (every.truncated(c + here, q, top), every.truncated(c + gone, q, top))
        for c in common
        for here in populations(k)
    ]
    rounds = laws.truncated_poisson(rate, n, top, k, noise, 1, zero_out=zero_out)
    for epsilon in EPSILONS:
        assert largest(pairs, noise, epsilon) <= bound(rounds, epsilon) * (1 + ONE) + ROUNDING
        back = [(b, a) for a, b in pairs]
        assert largest(back, noise, epsilon) <= bound(laws.mirrored(rounds), epsilon) * (1 + ONE) + ROUNDING


# ------------------------------------------------------------------------ two rounds, and epochs of two batches


def extremes(size: int) -> list[Population]:
    return sorted({Population(size, 0, 0), Population(0, size, 0), Population(0, 0, size), Population(size - 1, 0, 1)})


def joint_worst(pairs: list[Pair], noise: float, epsilon: float, most: int = 40) -> float:
    """The largest, of a random choice where there are many."""
    if len(pairs) > most:
        pairs = [pairs[i] for i in np.random.default_rng(len(pairs)).choice(len(pairs), size=most, replace=False)]
    return max(every.joint_hockey_stick(p, q, noise, epsilon) for p, q in pairs)


def two_rounds(pairs: list[Pair], seed: int, count: int = 12) -> list[Pair]:
    """The worst pair twice, and random choices of gradients that differ from round to round."""
    sticks = every.hockey_sticks(pairs, 2.0, 0.5)
    rng = np.random.default_rng(seed)
    chosen = [(int(sticks.argmax()),) * 2, *map(tuple, rng.integers(len(pairs), size=(count, 2)))]
    return [
        (every.independent(pairs[i][0], pairs[j][0]), every.independent(pairs[i][1], pairs[j][1])) for i, j in chosen
    ]


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_two_rounds_of_poisson_substitution(epsilon: float):
    rate, noise = Fraction(3, 10), 2
    pairs = [
        (every.poisson([(c + here, rate)]), every.poisson([(c + there, rate)])) for c, here, there in worlds(2, 2, 1)
    ]
    allowed = bound(laws.poisson(rate, noise, 2, removed=2, added=1), epsilon)
    assert joint_worst(two_rounds(pairs, 1), noise, epsilon) == pytest.approx(allowed, rel=TWO)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize(("n", "batch", "k"), [(6, 3, 1), (8, 3, 2)])
def test_two_rounds_of_fixed_batches(n: int, batch: int, k: int, epsilon: float):
    noise = 3
    pairs = [
        (every.subsets(c + here, batch), every.subsets(c + there, batch))
        for c, here, there in itertools.product(extremes(n - k), extremes(k), extremes(k))
    ]
    allowed = math.exp(oracle_envelope.log_delta(oracle_envelope.Envelope(batch, n, k, noise), 2, epsilon=epsilon))
    assert joint_worst(two_rounds(pairs, 2), noise, epsilon) <= allowed * (1 + TWO)


@pytest.mark.thinned
@pytest.mark.parametrize("zero_out", [False, True], ids=["remove and add", "zero out"])
def test_two_rounds_of_truncated_poisson(zero_out: bool):
    (n, k, top), rate, noise, epsilon = (5, 2, 3), Fraction(2, 5), 2, 0.5
    gone = Population(0, k, 0) if zero_out else NOTHING
    pairs = [
        (every.truncated(c + here, rate, top), every.truncated(c + gone, rate, top))
        for c, here in itertools.product(extremes(n), extremes(k))
    ]
    rounds = laws.truncated_poisson(rate, n, top, k, noise, 2, zero_out=zero_out)
    assert joint_worst(two_rounds(pairs, 3), noise, epsilon) <= bound(rounds, epsilon) * (1 + TWO)
    back = [(b, a) for a, b in pairs]
    assert joint_worst(two_rounds(back, 3), noise, epsilon) <= bound(laws.mirrored(rounds), epsilon) * (1 + TWO)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("epsilon", [0.3, 1.5])
@pytest.mark.parametrize(("batch", "k"), [(1, 1), (2, 1), (2, 2), (3, 2), (4, 3), (10, 2)])
def test_one_epoch_shuffled_into_two_batches(batch: int, k: int, epsilon: float):
    """P-7."""
    noise, law = 2, laws.collisions({batch: 2}, k)
    common = list(populations(2 * batch - k)) if batch < 3 else extremes(2 * batch - k)
    for unit, others in ((1, [Population(0, k, 0)]), (2, list(populations(k)))):
        allowed = bound(laws.allocated(law, noise, 1, unit=unit), epsilon)
        pairs = [
            (every.dealt(c + here), every.dealt(c + there))
            for c, here, there in itertools.product(common, populations(k), others)
        ]
        found = max(joint_worst(some, noise, epsilon) for some in (pairs, [(b, a) for a, b in pairs]))
        assert found <= allowed * (1 + TWO)


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
@pytest.mark.parametrize(("common", "k"), [(0, 1), (0, 3), (3, 1), (3, 2), (6, 3)])
def test_one_epoch_of_balls_in_two_bins(common: int, k: int, epsilon: float):
    """P-7."""
    noise, law = 2, laws.collisions({None: 2}, k)
    allowed = bound(laws.allocated(law, noise, 1), epsilon)
    pairs = [
        (every.thrown(c + here), every.thrown(c + gone))
        for c, here, gone in itertools.product(extremes(common), populations(k), (NOTHING, Population(0, k, 0)))
        if min(c) >= 0
    ]
    found = max(joint_worst(some, noise, epsilon) for some in (pairs, [(b, a) for a, b in pairs]))
    assert found <= allowed * (1 + TWO)


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
@pytest.mark.parametrize(("removed", "added"), [(1, 1), (2, 1), (2, 2)])
def test_one_epoch_of_balls_in_two_bins_that_leave_and_join(removed: int, added: int, epsilon: float):
    """Those who leave and those who join, thrown independently: a coin over both together."""
    noise, law = 2, laws.collisions({None: 2}, removed + added)
    pairs = [
        (every.thrown(c + here), every.thrown(c + there))
        for c, here, there in itertools.product(extremes(3), populations(removed), populations(added))
    ]
    found = max(joint_worst(some, noise, epsilon) for some in (pairs, [(b, a) for a, b in pairs]))
    assert found <= bound(laws.allocated(law, noise, 1), epsilon) * (1 + TWO)


# ------------------------------------------------------- what looks right and is false: the enumeration exceeds it


def test_opposed_hypergeometrics_are_not_a_bound_for_fixed_batch_substitution():
    """N(i) against N(-i): one replaced of 20, a quarter of them in the batch."""
    side = laws.counting(laws.hypergeometric(5, 20, 1), 1)
    claimed = math.exp(float(oracle.log_delta([(oracle.Round.of(side, side), 1)], epsilon=math.log(2))))
    pairs = [
        (every.subsets(Population(0, 0, 19) + a, 5), every.subsets(Population(0, 0, 19) + b, 5))
        for a, b in itertools.permutations(populations(1), 2)
    ]
    assert largest(pairs, 1, math.log(2)) > 3 * claimed


def test_single_hypergeometrics_are_not_a_bound_for_fixed_batch_zero_out():
    rounds = [(oracle.Round.of(laws.counting(laws.hypergeometric(5, 20, 2), 1), oracle.pairs.nothing()), 1)]
    pairs = [
        (every.subsets(c + Population(2, 0, 0), 5), every.subsets(c + Population(0, 2, 0), 5)) for c in populations(18)
    ]
    assert largest(pairs, 1, 1.0) > 1.2 * bound(rounds, 1.0)


def test_plain_poisson_is_not_a_bound_for_a_tight_cap():
    pairs = [
        (every.truncated(c + Population(1, 0, 0), Fraction(3, 10), 1), every.truncated(c, Fraction(3, 10), 1))
        for c in populations(10)
    ]
    assert largest(pairs, 1, 2.0) > 10 * bound(laws.poisson("0.3", 1, 1, removed=1, added=0), 2.0)


def test_poisson_is_not_a_bound_for_shuffled_batches():
    """The loss of adding to a Poisson sample is at most -T log(1 - q) = 1.39; shuffled, somebody is always there."""
    pair = every.dealt(Population(0, 2, 0)), every.dealt(Population(1, 1, 0))
    assert bound(laws.poisson("0.5", 1, 1, removed=0, added=1), 1.4) == 0.0  # one round's largest loss is 0.69
    assert oracle.log_delta(laws.poisson("0.5", 1, 2, removed=0, added=1), epsilon=1.4) == arb.neg_inf()
    assert every.joint_hockey_stick(*pair, 1, 1.4) > 1e-3
