"""Sums of squared counts when a group is dealt or thrown to batches (P-7, P-9, P-20, P-21)."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import groupdp
from groupdp.laws import allocation, allocation_transform
from groupdp.laws.allocation import LARGEST_EXACT_GROUP, dealt_squares_law, thrown_squares_law
from groupdp.laws.allocation_tails import Dealing, Tails
from strategies import examples


def squares(batches: list[int]) -> int:
    return sum(count * count for count in Counter(batches).values())


def mean_of(law) -> float:
    values, (probabilities, _) = law
    return math.fsum(values * probabilities)


@given(b=st.integers(1, 5), n=st.integers(1, 10), k=st.integers(0, 6))
def test_dealt_by_enumeration(b: int, n: int, k: int):
    b, k = min(b, n), min(k, n)
    ways = Counter(squares([place // b for place in places]) for places in itertools.combinations(range(n), k))
    values, (probabilities, logarithms) = dealt_squares_law(k, b, n).upper
    assert values.tolist() == sorted(ways)
    assert probabilities.tolist() == [ways[int(r)] / math.comb(n, k) for r in values]
    np.testing.assert_allclose(np.exp(logarithms), probabilities, rtol=1e-14)


@given(batches=st.integers(1, 6), k=st.integers(0, 5))
def test_thrown_by_enumeration(batches: int, k: int):
    ways = Counter(squares(list(places)) for places in itertools.product(range(batches), repeat=k))
    values, (probabilities, _) = thrown_squares_law(k, batches).upper
    assert values.tolist() == sorted(ways)
    assert probabilities.tolist() == [ways[int(r)] / batches**k for r in values]


@pytest.mark.parametrize("batches", [2, 100, 10**5])
def test_the_mean_of_a_large_group(batches: int):
    """E[r] = k + k (k - 1) P(two share a batch)."""
    k, b = LARGEST_EXACT_GROUP, 500
    assert mean_of(thrown_squares_law(k, batches).upper) == pytest.approx(k + k * (k - 1) / batches, rel=1e-13)
    n = batches * b
    assert mean_of(dealt_squares_law(k, b, n).upper) == pytest.approx(k + k * (k - 1) * (b - 1) / (n - 1), rel=1e-13)


#: (members, batches, places in a batch or 0 if thrown, places in a smaller last batch)
allocations = st.builds(
    lambda k, batches, places, rest: Dealing(k, batches, places, min(rest, max(places - 1, 0))),
    st.integers(2, 24),
    st.integers(1, 40),
    st.one_of(st.just(0), st.integers(1, 30)),
    st.integers(0, 29),
).filter(lambda a: a.places == 0 or a.members <= a.batches * a.places)


def exact(a: Dealing) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of pairs and their probabilities, by whole numbers."""
    if a.places:
        law = dealt_squares_law(a.members, a.places, a.batches * a.places + a.rest)
    else:
        law = thrown_squares_law(a.members, a.batches)
    values, (probabilities, _) = law.upper
    return (values - a.members) / 2.0, probabilities


def survival(pairs: np.ndarray, probabilities: np.ndarray, at: np.ndarray) -> np.ndarray:
    return np.array([math.fsum(probabilities[pairs > w]) for w in at.tolist()])


@given(a=allocations)
@examples(60)
def test_tails_are_nowhere_below_the_exact_ones(a: Dealing):
    """P-9: both tails, for thrown and for dealt groups, with a smaller last batch."""
    pairs, probabilities = exact(a)
    assert a.fewest_pairs <= pairs[0]
    assert pairs[-1] <= a.most_pairs
    tails, above = Tails(a), survival(pairs, probabilities, pairs)
    assert np.all(tails.above(pairs) >= above * (1.0 - 1e-12))
    assert np.all(tails.at_most(pairs) >= (1.0 - above) * (1.0 - 1e-12) - 1e-15)


@given(a=allocations)
@examples(60)
def test_the_exact_law_is_between_the_two(a: Dealing):
    """P-20 or P-21, with P-9 beyond: larger than the exact law, and smaller."""
    pairs, probabilities = exact(a)
    upper, lower = allocation._enclosing(a)
    truth = survival(pairs, probabilities, pairs)
    for (values, (p, logarithms)), sign in ((upper, 1.0), (lower, -1.0)):
        assert np.all(np.diff(values) > 0.0)
        assert math.fsum(p) == pytest.approx(1.0, abs=1e-15)
        np.testing.assert_allclose(np.exp(logarithms), p, rtol=1e-13)
        assert np.all(sign * (survival((values - a.members) / 2.0, p, pairs) - truth) >= -1e-15 * truth)
    seen = survival((upper[0] - a.members) / 2.0, upper[1][0], pairs)
    few = a.members <= a.batches + 1
    likely = truth > (1e-50 if few else 1e-20)
    np.testing.assert_allclose(seen[likely], truth[likely], rtol=1e-12 if few else 1e-3)
    assert mean_of(upper) - mean_of(lower) < (1e-12 if few else 1e-8) * mean_of(upper)


@given(a=allocations)
@examples(40)
def test_the_exact_law_is_between_bounds_on_the_tails_alone(a: Dealing):
    """P-9, as for groups whose law would take too long."""
    pairs, probabilities = exact(a)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocation, "_MOST_PRODUCTS", 0.0)
        patch.setattr(allocation_transform, "_MOST_VALUES", 0)
        upper, lower = allocation._enclosing(a)
    truth = survival(pairs, probabilities, pairs)
    for (values, (p, _)), sign in ((upper, 1.0), (lower, -1.0)):
        assert np.all(sign * (survival((values - a.members) / 2.0, p, pairs) - truth) >= -1e-15 * truth)


def test_groups_beyond_the_exact_ones():
    for k, batches in ((65, 100_000), (1000, 100_000), (1000, 100), (100_000, 10**6), (70, 1)):
        upper, lower = thrown_squares_law(k, batches)
        for values, (probabilities, _) in (upper, lower):
            assert math.fsum(probabilities) == pytest.approx(1.0, abs=1e-12)
            assert np.all(np.diff(values) > 0.0)
        truth = k + k * (k - 1) / batches
        assert mean_of(lower) <= truth * (1.0 + 1e-9)
        assert truth * (1.0 - 1e-9) <= mean_of(upper)
        assert mean_of(upper) <= 1.1 * mean_of(lower)


def test_shuffled_epochs_do_not_jump_beyond_64():
    """A coarser law served both sides beyond 64: 4.9295, then 6.0947. Expected: the oracle in ball arithmetic of
    test_certificate_laws, and 4.98265 and 6.80244 of an outside computation."""
    run = groupdp.DPSGD(
        sampling=groupdp.ShuffledSampling(batch_size=256, dataset_size=60_000), noise_multiplier=40.0, steps=20 * 234
    )
    for k, expected in ((65, 4.98265), (100, 6.80244)):
        found = groupdp.epsilon(run, delta=1e-6, group_size=k, adjacency="zero-out")
        assert expected - 1e-5 < found.lower <= found.upper < expected + 1e-5
        assert found.upper - found.lower < 1e-10
    # P-21: few batches. 68.494 to 72.863 with bounds on the tails alone; sqrt(r) at its mean would have 70.46
    found = groupdp.epsilon(run, delta=1e-6, group_size=1000, adjacency="zero-out")
    assert 70.0 < found.lower <= found.upper < 71.0
    assert found.upper - found.lower < 1e-8


@pytest.mark.parametrize(
    "a",
    [
        Dealing(24, 2),
        Dealing(24, 5, 9),
        Dealing(24, 5, 9, 4),
        Dealing(20, 19, 3, 2),
        Dealing(64, 12),
        Dealing(60, 3, 40, 7),
    ],
)
def test_p_21_every_probability_is_enclosed(a: Dealing):
    """P-21 against whole numbers, at every number of pairs; the deviation of the enclosure is rounding."""
    pairs, probabilities = exact(a)
    truth = dict(zip(pairs.tolist(), probabilities.tolist(), strict=True))
    found = allocation_transform.transformed(a)
    for w, (least, most) in enumerate(zip(found.least, found.most, strict=True), start=found.first):
        p = truth.get(float(w), 0.0)
        assert least <= p * (1.0 + 1e-15)
        assert p * (1.0 - 1e-15) <= most + found.crowded
    assert math.fsum(found.most - found.least) < 1e-9


@pytest.mark.thinned(6)
@pytest.mark.parametrize("a", [Dealing(1000, 234, 256, 96), Dealing(1500, 100), Dealing(3000, 700, 64)])
def test_p_21_the_mean_of_large_groups_in_few_batches(a: Dealing):
    """P-21: E[r] = k + k (k - 1) P(two share a batch), and a simulation's quantiles."""
    n, k = a.batches * a.places + a.rest, a.members
    both = a.batches * a.places * (a.places - 1) + a.rest * (a.rest - 1)
    truth = k + k * (k - 1) * (both / (n * (n - 1)) if a.places else 1.0 / a.batches)
    upper, lower = allocation._enclosing(a)
    assert mean_of(lower) <= truth * (1.0 + 1e-13)
    assert truth * (1.0 - 1e-13) <= mean_of(upper)
    assert mean_of(upper) - mean_of(lower) < 1e-8 * truth
    generator = np.random.default_rng(21)
    sizes = [a.places] * a.batches + [a.rest] * (a.rest > 0)
    if a.places:
        counts = generator.multivariate_hypergeometric(sizes, k, size=4000)
    else:
        counts = generator.multinomial(k, [1.0 / a.batches] * a.batches, size=4000)
    drawn = (counts**2).sum(axis=1)
    for values, (p, _) in (upper, lower):
        for share in (0.05, 0.5, 0.95):
            quantile = values[np.searchsorted(np.cumsum(p), share)]
            assert abs(np.mean(drawn <= quantile) - share) < 5.0 * math.sqrt(share * (1.0 - share) / 4000) + 0.01
