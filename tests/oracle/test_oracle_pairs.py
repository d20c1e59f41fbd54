"""The oracle of pairs and coins against golden values, brute enumeration and identities between laws."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy.special import ndtr, ndtri

import oracle
from oracle import closed as oracle_closed
from oracle import envelope, few_rounds, laws
from paths import DATA

GOLDEN = json.loads((DATA / "pairs.json").read_text())["cases"]
# Every kind, few and many changes; studies/oracle_golden.py has all of them.
SELECTION = [0, 17, 21, 23, 30, 31, 33, 36]


def fraction(value) -> Fraction:
    return Fraction(int(value.p), int(value.q))


def law_of(side: oracle.Mixture) -> dict[Fraction, Fraction]:
    return {fraction(m): fraction(p) for m, p in zip(side.shifts, side.probabilities, strict=True)}


@pytest.mark.thinned(6)
@pytest.mark.parametrize("number", SELECTION)
def test_golden_epsilons_of_pairs(number: int):
    case = GOLDEN[number]
    for name, rounds in laws.compositions(case).items():
        value = oracle.epsilon(rounds, delta=case["delta"])
        with ctx.workprec(200):
            assert abs(value / arb(case[f"epsilon{name}"]) - 1) < 1e-15


def test_golden_epsilon_of_the_envelope():
    case = GOLDEN[37]
    one = envelope.Envelope(case["batch_size"], case["dataset_size"], case["group_size"], case["noise_multiplier"])
    value = envelope.epsilon(one, case["steps"], delta=float(case["delta"]))
    assert math.isclose(value, float(case["epsilon"]), rel_tol=5e-9)


@pytest.mark.parametrize(
    ("n", "k", "top", "rate"), [(3, 2, 2, "0.3"), (4, 2, 3, "0.4"), (2, 3, 2, "0.25"), (0, 2, 1, "0.5")]
)
def test_the_law_of_truncated_batches_counts_every_outcome(n: int, k: int, top: int, rate: str):
    """Every sample of the common part and the group, every batch kept of it, enumerated."""
    q = Fraction(rate)
    expected: dict[object, Counter[tuple[int, int]]] = {}
    for sampled in itertools.product((0, 1), repeat=n + k):
        chance = math.prod((q if one else 1 - q for one in sampled), start=Fraction(1))
        chosen = [i for i, one in enumerate(sampled) if one]
        s = sum(sampled[:n])
        batches = list(itertools.combinations(chosen, min(top, len(chosen))))
        for batch in batches:
            m = sum(i >= n for i in batch)
            displaced = min(s, top) - (len(batch) - m)  # of the common sample, cut to the batch's size
            place = "below" if s <= top - k else "above" if s >= top else s
            expected.setdefault(place, Counter())[m + displaced, displaced] += chance / len(batches)
    ((one, _),) = laws.truncated_poisson(rate, n, top, k, 1, 1, zero_out=True)
    remaining = list(expected.values())
    assert len(one.coin) == len(remaining)
    for weight, branch in one.coin:
        (match,) = (law for law in remaining if abs(fraction(weight) - sum(law.values())) < Fraction(1, 10**300))
        for side, place in ((branch.right, 0), (branch.left, 1)):
            marginal: Counter[int] = Counter()
            for outcome, p in match.items():
                marginal[outcome[place]] += p / sum(match.values())
            found = law_of(side)
            assert found.keys() == {shift for shift, p in marginal.items() if p}
            assert all(abs(found[shift] - marginal[shift]) < Fraction(1, 10**300) for shift in found)


@pytest.mark.parametrize(("batch_size", "batches", "k"), [(2, 3, 3), (3, 2, 4), (1, 4, 2), (4, 2, 4)])
def test_the_law_of_collisions_counts_every_shuffle_and_every_throw(batch_size: int, batches: int, k: int):
    def squares(bins: tuple[int, ...]) -> int:
        return sum(count**2 for count in Counter(bins).values())

    slots = [slot // batch_size for slot in range(batch_size * batches)]
    dealt = Counter(squares(chosen) for chosen in itertools.permutations(slots, k))
    thrown = Counter(squares(chosen) for chosen in itertools.product(range(batches), repeat=k))
    for law, counted in (
        (laws.collisions({batch_size: batches}, k), dealt),
        (laws.collisions({None: batches}, k), thrown),
    ):
        assert {r: fraction(p) for r, p in law.items()} == {
            r: Fraction(count, counted.total()) for r, count in counted.items()
        }


def test_sources_of_one_rate_are_one_source():
    ((parts, _),) = laws.sources(["0.1", "0.1"], 1, 1, removed=[2, 3], added=[1, 1])
    ((whole, _),) = laws.poisson("0.1", 1, 1, removed=5, added=2)
    assert law_of(parts.coin[0][1].right) == law_of(whole.coin[0][1].right)
    assert law_of(parts.coin[0][1].left) == law_of(whole.coin[0][1].left)


def test_opposed_gaussians_are_one_gaussian_of_the_sum():
    """N(x) against N(-y) is N(x + y) against N(0): by the contour, in closed form, as a Gaussian branch."""
    opposed = oracle.Round.of(oracle.Mixture([2], [1], 5), oracle.Mixture([1], [1], 5))
    truth = oracle_closed.gaussian_log_delta([(oracle.Mixture([3], [1], 5), 30)], epsilon=2)
    with ctx.workprec(200):
        assert abs(oracle.log_delta([(opposed, 30)], epsilon=2) - truth) < 1e-18
        assert abs(oracle.log_delta([(oracle.Round([(1, oracle.Gaussian("0.36"))]), 30)], epsilon=2) - truth) < 1e-18
        one = oracle_closed.gaussian_log_delta([(oracle.Mixture([3], [1], 5), 1)], epsilon="0.25")
        assert abs(oracle.log_delta([(opposed, 1)], epsilon="0.25") - one) < 1e-25


def test_a_coin_averages_one_round():
    """H of a public coin is the average of H: not that of the averaged law."""
    mixtures = [oracle.Mixture([0, c], ["0.5", "0.5"], 1) for c in (1, 2)]
    branches = [oracle.Branch(mixture, oracle.Mixture([0, 1], ["0.75", "0.25"], 1)) for mixture in mixtures]
    coin = oracle.Round([("0.25", branches[0]), ("0.75", branches[1])])
    alone = [oracle.log_delta([(oracle.Round([(1, branch)]), 1)], epsilon="0.5").exp() for branch in branches]
    average = (alone[0] + 3 * alone[1]) / 4
    assert abs(oracle.log_delta([(coin, 1)], epsilon="0.5").exp() / average - 1) < 1e-14
    pooled = oracle.Mixture([0, 1, 2], ["0.5", "0.125", "0.375"], 1)
    understated = oracle.log_delta([(oracle.Round.of(pooled, branches[0].left), 1)], epsilon="0.5").exp()
    assert understated < average * 0.996


def test_two_rounds_with_a_coin_by_lattice_and_by_plain_integration():
    """delta of a Gaussian round and a coin's round: E[delta_1(epsilon - L)] over the Gaussian's loss L."""
    ((coin, _),) = laws.truncated_poisson("0.3", 6, 3, 2, 2, 1, zero_out=True)
    shift, epsilon, nodes = Fraction(1), Fraction(1, 2), 16
    with ctx.workprec(128):
        total = arb(0)
        for n in range(-8 * nodes, 8 * nodes + 1):
            u = Fraction(n, nodes)
            loss = shift * (u + shift) - shift**2 / 2
            inner = oracle_closed.one_round_log_delta(coin, epsilon=epsilon - loss)
            total += inner.exp() * (-(arb(float(u)) ** 2) / 2).exp()
        truth = (total / nodes / (2 * arb.pi()).sqrt()).log()
    rounds = [(oracle.Round([(1, oracle.Gaussian(1))]), 1), (coin, 1)]
    assert abs(few_rounds.log_delta(rounds, epsilon=epsilon, step=0.05) - truth) < 1e-8


def test_mirrored_pairs_have_the_same_total_variation():
    rounds = laws.truncated_poisson("0.3", 20, 8, 3, 4, 100)
    forth, back = (oracle.log_delta(pair, epsilon=0) for pair in (rounds, laws.mirrored(rounds)))
    assert float(abs(forth - back)) < 1e-19


def test_a_cap_that_never_cuts_is_plain_poisson():
    ((one, _),) = laws.truncated_poisson("0.2", 10, 13, 3, 2, 1)
    ((plain, _),) = laws.poisson("0.2", 2, 1, removed=3, added=0)
    ((_, branch),) = one.coin
    assert law_of(branch.right) == law_of(plain.coin[0][1].right)


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 3.0])
def test_the_envelope_s_profile_is_the_supremum_it_says(epsilon: float):
    """By maximising over g_0 and every g_i <= g_0 on fine grids."""
    one, alpha = envelope.Envelope(30, 100, 3, 2.0), math.exp(epsilon)
    g = ndtr(np.linspace(-9.0, 9.0, 40_001))
    value = (1 - alpha) * one.law[0] * g
    for h, mu in zip(one.law[1:], one.shifts[1:], strict=True):
        value += h * np.maximum.accumulate(ndtr(ndtri(g) + mu) - alpha * g)
    assert one.profile(epsilon) == pytest.approx(max(value.max(), 0.0), rel=1e-6)
    assert one.profile(epsilon) >= value.max() * (1 - 1e-12)


def test_the_envelope_of_the_whole_dataset_is_a_gaussian():
    """B = n: all k are always there, and the profile is N(2k/sigma) against N(0)."""
    one = envelope.Envelope(5, 5, 2, 8.0)
    truth = oracle_closed.gaussian_log_delta([(oracle.Mixture([4], [1], 8), 20)], epsilon="1.5")
    assert envelope.log_delta(one, 20, epsilon=1.5) == pytest.approx(float(truth), rel=1e-9)
