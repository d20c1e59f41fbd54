"""Histograms of counts and the blocks that hide a group, against enumeration in exact rationals.

P-14 and P-15 (blocks), P-16 (rare and nested histograms), P-17 (hidden collisions).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import pytest

from groupdp.laws import histograms
from groupdp.laws.blocks import (
    JOINING_ORDERS,
    LEAVING_ORDERS,
    _occupied,
    allocated_blocks,
    hidden_collisions,
    spread_blocks,
    thrown_blocks,
)
from groupdp.laws.histograms import allocated_histograms, nested_histograms, thrown_histograms


def histogram_of(counts) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(Counter(c for c in counts if c).items(), reverse=True))


def is_below(histogram, roof) -> bool:
    """Whether the roof has at least as many batches with at least c members, for every c."""
    return all(
        sum(m for d, m in histogram if d >= c) <= sum(m for d, m in roof if d >= c) for c, _ in (*histogram, (1, 0))
    )


def enumerated(group_size: int, batches: int, participations: int = 1) -> dict:
    """Every choice of every member."""
    choices = list(itertools.combinations(range(batches), participations))
    law: Counter = Counter()
    for chosen in itertools.product(choices, repeat=group_size):
        held = Counter(itertools.chain(*chosen))
        law[histogram_of(held.values())] += 1
    return {key: Fraction(ways, len(choices) ** group_size) for key, ways in law.items()}


@pytest.mark.parametrize(("k", "n"), [(1, 1), (3, 1), (2, 2), (5, 3), (4, 6), (6, 4)])
def test_p_15_thrown_histograms_are_exact(k, n):
    law = thrown_histograms(k, n)
    exact = enumerated(k, n)
    assert law.left_out == 0
    assert dict(law.histograms).keys() == exact.keys()
    for histogram, probability in law.histograms:
        assert abs(Fraction(probability) - exact[histogram]) <= Fraction(1, 10**35)


@pytest.mark.parametrize(("k", "e", "n"), [(1, 2, 5), (2, 2, 4), (3, 2, 4), (2, 3, 5)])
def test_p_15_allocated_histograms_are_exact(k, e, n):
    exact = enumerated(k, n, e)
    found = dict(allocated_histograms(k, e, n).histograms)
    assert found.keys() == exact.keys()
    assert all(abs(Fraction(found[key]) - exact[key]) <= Fraction(1, 10**35) for key in exact)


@pytest.mark.parametrize(("k", "n"), [(40, 1000), (100, 10**6), (1000, 10**6)])
def test_p_16_what_is_left_out_is_bounded(k, n):
    law = thrown_histograms(k, n)
    assert 0 < law.left_out < 1e-20
    assert sum((Fraction(share) for _, share in law.histograms), Fraction(law.left_out)) >= 1 - Fraction(1, 10**30)
    assert all(sum(c * m for c, m in histogram) >= k for histogram, _ in law.histograms)


@pytest.mark.parametrize(("k", "n"), [(10, 20), (12, 9), (14, 9)])
def test_p_16_merged_histograms_are_larger_than_those_they_replace(k, n, monkeypatch):
    """A transport from the exact law to the merged one that only goes up: likeliest ones stay, others go to a roof."""
    exact = dict(thrown_histograms(k, n).histograms)
    monkeypatch.setattr(histograms, "MOST_HISTOGRAMS", 3 + len(exact) * 2 // 3)
    monkeypatch.setattr(histograms, "_LIKELIEST", 3)
    monkeypatch.setattr(histograms, "_CELLS", len(exact) // 2)
    merged = histograms._merged(list(exact.items()))
    assert len(merged) < len(exact)
    assert sum(Fraction(p) for _, p in merged) == pytest.approx(float(sum(map(Fraction, exact.values()))), abs=1e-30)
    for histogram, p in exact.items():  # all that is above it has at least its probability
        above = [q for roof, q in merged if is_below(histogram, roof)]
        assert sum(map(Fraction, above)) >= Fraction(p) * (1 - Fraction(1, 10**30))
    kept = {histogram for histogram, _ in merged[:3]}
    assert kept == set(sorted(exact, key=exact.__getitem__, reverse=True)[:3])


@pytest.mark.parametrize("grid", [1, 2, 3, 8])
@pytest.mark.parametrize(("k", "n"), [(12, 9), (14, 9), (15, 40)])
def test_p_16_histograms_that_are_rounded_by_their_larger_counts_are_larger(k, n, grid):
    """Every event that grows with the histogram is at least as likely: those of all histograms above one or two."""
    exact = {histogram: Fraction(p) for histogram, p in thrown_histograms(k, n).histograms}
    search = histograms._Search(k, n, Decimal(0), 10**6)
    rounded = [(roof, Fraction(p)) for roof, p in histograms._rounded_prefixes(search, grid)]
    assert search.left_out == 0
    assert len(rounded) < len(exact) or grid == 8
    for some in itertools.pairwise(exact):
        true, larger = (
            sum(p for one, p in law if any(is_below(low, one) for low in some)) for law in (exact.items(), rounded)
        )
        assert larger >= true - Fraction(1, 10**30)


@pytest.mark.parametrize(("k", "n"), [(4, 3), (5, 4), (6, 3), (6, 4)])
def test_p_16_nested_histograms_have_the_tails_they_claim(k, n):
    exact = enumerated(k, n)
    law = nested_histograms(k, n)
    tail, before = Fraction(1), None
    for histogram, probability in law.histograms:
        assert before is None or is_below(before, histogram)
        before = histogram
        tail -= Fraction(probability)
        beyond = sum(p for one, p in exact.items() if not is_below(one, histogram))
        assert beyond <= tail + Fraction(1, 10**30)


@pytest.mark.parametrize(("k", "n"), [(2, 5), (4, 6), (5, 7), (6, 7)])
def test_p_17_no_conditional_probability_of_a_collision_is_larger(k, n):
    """P(m_c >= i | m_c >= i - 1 and the numbers of all larger counts), for every condition."""
    exact = enumerated(k, n)
    for c in range(2, k + 1):
        larger: dict = {}
        for histogram, p in exact.items():
            key = tuple(one for one in histogram if one[0] > c)
            larger.setdefault(key, []).append((dict(histogram).get(c, 0), p))
        for i in range(1, k // c + 1):
            for law in larger.values():
                before = sum(p for m, p in law if m >= i - 1)
                if before:
                    assert sum(p for m, p in law if m >= i) / before <= Fraction(_occupied(k, n, c, i))


@pytest.mark.parametrize("order", [*LEAVING_ORDERS, *JOINING_ORDERS])
@pytest.mark.parametrize(
    ("k", "n", "shift"), [(2, 10, 0.5), (4, 100, 1.0), (16, 1000, 1.0), (8, 40, 3.0), (30, 200, 8.0)]
)
def test_p_17_blocks_fit(k, n, shift, order):
    one = hidden_collisions(k, n, shift, order)
    if one is None:
        assert k + sum(k // c for c in range(2, k + 1)) > n
        return
    assert sum(factor.places * times for factor, times in one.products[0]) <= n
    assert one.products[0][0][1] == k
    assert math.fsum(map(math.exp, one.log_weights)) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("k", "n"), [(1, 7), (3, 20), (7, 7), (9, 100)])
def test_p_14_blocks_use_every_batch(k, n):
    (product,) = spread_blocks(k, n, 0.5).products
    assert sum(factor.places * times for factor, times in product) == n
    assert sum(times for _, times in product) == k
    assert {factor.shift for factor, _ in product} == {0.5}


@pytest.mark.thinned(6)
@pytest.mark.parametrize(("k", "n"), [(2, 2), (4, 6), (8, 100), (40, 1000), (200, 300), (500, 100)])
def test_p_15_blocks_fit_and_weights_add_up(k, n):
    one = thrown_blocks(k, n, 1.0)
    assert math.fsum(map(math.exp, one.log_weights)) == pytest.approx(1.0, abs=1e-12)
    for product in one.products:
        # A histogram that replaced others may have more blocks than there are members: any k of them fit.
        sizes = sorted((factor.places for factor, times in product for _ in range(times)), reverse=True)
        assert sum(sizes[:k]) <= max(n, min(len(sizes), k))


def test_p_15_one_member_in_several_batches_is_a_person_spread():
    assert allocated_blocks(1, 3, 20, 0.7) == spread_blocks(3, 20, 0.7)
