"""Sums of squared counts when a group is dealt or thrown to batches (P-7, P-9)."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupdp.laws import allocation
from groupdp.laws.allocation import LARGEST_EXACT_GROUP, dealt_squares_law, thrown_squares_law


def squares(batches: list[int]) -> int:
    return sum(count * count for count in Counter(batches).values())


def mean_of(law) -> float:
    values, (probabilities, _) = law
    return math.fsum(values * probabilities)


@given(b=st.integers(1, 5), n=st.integers(1, 10), k=st.integers(0, 6))
def test_dealt_by_enumeration(b: int, n: int, k: int):
    b, k = min(b, n), min(k, n)
    ways = Counter(squares([place // b for place in places]) for places in itertools.combinations(range(n), k))
    values, (probabilities, logarithms) = dealt_squares_law(k, b, n)
    assert values.tolist() == sorted(ways)
    assert probabilities.tolist() == [ways[int(r)] / math.comb(n, k) for r in values]
    np.testing.assert_allclose(np.exp(logarithms), probabilities, rtol=1e-14)


@given(batches=st.integers(1, 6), k=st.integers(0, 5))
def test_thrown_by_enumeration(batches: int, k: int):
    ways = Counter(squares(list(places)) for places in itertools.product(range(batches), repeat=k))
    values, (probabilities, _) = thrown_squares_law(k, batches)
    assert values.tolist() == sorted(ways)
    assert probabilities.tolist() == [ways[int(r)] / batches**k for r in values]


@pytest.mark.parametrize("batches", [2, 100, 10**5])
def test_the_mean_of_a_large_group(batches: int):
    """E[r] = k + k (k - 1) P(two share a batch)."""
    k, b = LARGEST_EXACT_GROUP, 500
    assert mean_of(thrown_squares_law(k, batches)) == pytest.approx(k + k * (k - 1) / batches, rel=1e-13)
    n = batches * b
    assert mean_of(dealt_squares_law(k, b, n)) == pytest.approx(k + k * (k - 1) * (b - 1) / (n - 1), rel=1e-13)


@given(batches=st.integers(1, 60), k=st.integers(2, 12), exact=st.integers(1, 12))
@settings(max_examples=40)
def test_beyond_the_exact_law_a_larger_one_stands(batches: int, k: int, exact: int):
    """P-9: the bound's survival function is nowhere below the exact one, for thrown and for dealt groups."""
    b = exact
    n = batches * b
    laws = [(thrown_squares_law(k, batches), allocation._larger_law(k, 1.0 / batches, 1.0 / batches, batches))]
    if n >= k:
        joining = (b - 1) / (n - k + 1)
        laws.append((dealt_squares_law(k, b, n), allocation._larger_law(k, joining, b / n, batches)))
    for (values, (p, _)), (larger, (p_larger, _)) in laws:
        for r in values.tolist():
            truth = math.fsum(p[values > r])
            assert math.fsum(p_larger[larger > r]) >= truth * (1.0 - 1e-11)


def test_groups_beyond_the_exact_ones():
    for k, batches in ((65, 100_000), (1000, 100_000), (1000, 100), (100_000, 10**6), (70, 1)):
        values, (probabilities, logarithms) = thrown_squares_law(k, batches)
        assert math.fsum(probabilities) == pytest.approx(1.0, abs=1e-12)
        assert np.all(np.diff(values) > 0.0)
        assert values[-1] == k**2
        assert mean_of((values, (probabilities, logarithms))) >= k + k * (k - 1) / batches
    assert mean_of(thrown_squares_law(1000, 100_000)) < 1020.0  # the truth is 1009.99
