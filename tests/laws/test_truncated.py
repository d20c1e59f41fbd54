"""Truncated Poisson batches (P-6): every class of s by exact enumeration in rationals."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import groupdp
from groupdp import LimitExceeded
from groupdp.laws import binomial_law
from groupdp.laws.truncated import LARGEST_GROUP_TRUNCATED, RevealedClass, truncated_classes
from strategies import examples

Law = dict[int, Fraction]


def exact_classes(rate: float, b: int, n: int, k: int) -> list[tuple[Fraction, Law, Law]]:
    """(weight, law of m + d, law of d) of each class, straight from the definition."""
    q = Fraction(rate)
    found: dict[object, tuple[list[Fraction], Law, Law]] = {}
    for s in range(n + 1):
        name: object = "room for all" if s <= b - k else s if s < b else "full"
        for h in range(k + 1):
            sampled = math.comb(n, s) * q**s * (1 - q) ** (n - s) * math.comb(k, h) * q**h * (1 - q) ** (k - h)
            kept = min(b, s + h)
            for m in range(max(0, kept - s), min(h, kept) + 1):
                p = sampled * Fraction(math.comb(h, m) * math.comb(s, kept - m), math.comb(s + h, kept))
                if p:
                    d = max(0, m - max(0, b - s))
                    weights, sensitivity, displaced = found.setdefault(name, ([], {}, {}))
                    weights.append(p)
                    sensitivity[m + d] = sensitivity.get(m + d, Fraction(0)) + p
                    displaced[d] = displaced.get(d, Fraction(0)) + p
    result = []
    for weights, sensitivity, displaced in found.values():
        whole = sum(weights, Fraction(0))
        result.append((whole, *({value: p / whole for value, p in law.items()} for law in (sensitivity, displaced))))
    return result


def assert_same(one: RevealedClass, exact: tuple[Fraction, Law, Law]) -> None:
    weight, sensitivity, displaced = exact
    assert one.log_weight == pytest.approx(math.log(weight) if weight < 1 else 0.0, rel=1e-14, abs=1e-15)
    for values, (probabilities, logarithms), law in (
        (one.sensitivities, one.law, sensitivity),
        (one.displaced, one.displaced_law, displaced),
    ):
        assert [int(value) for value in values] == sorted(law)
        for value, p, log_p in zip(values.tolist(), probabilities.tolist(), logarithms.tolist(), strict=True):
            assert abs(Fraction(p) / law[int(value)] - 1) <= Fraction(2) ** -52
            assert log_p == pytest.approx(math.log(p), rel=1e-14, abs=1e-15)


@given(
    rate=st.one_of(st.floats(0.01, 0.99), st.just(1.0)),
    b=st.integers(1, 14),
    n=st.integers(1, 12),
    k=st.integers(1, 5),
)
@examples(60)
def test_every_class_is_exact(rate: float, b: int, n: int, k: int):
    exact = sorted(exact_classes(rate, b, n, k), key=lambda one: (max(one[2]), -min(one[1])))
    found = sorted(
        truncated_classes(rate, b, n, k), key=lambda one: (float(one.displaced[-1]), -float(one.sensitivities[0]))
    )
    # Classes are told apart by what they can displace; equal keys (rate 1) cannot occur twice.
    assert len(found) == len(exact)
    for one in found:
        assert_same(one, min(exact, key=lambda other: distance(one, other)))


def distance(one: RevealedClass, exact: tuple[Fraction, Law, Law]) -> float:
    """Classes of the same weight differ in what they displace."""
    sizes = abs(len(one.sensitivities) - len(exact[1])) + abs(float(one.displaced[-1]) - max(exact[2]))
    return abs(one.log_weight - math.log(exact[0])) + sizes


def test_without_a_cap_that_binds_it_is_plain_poisson_sampling():
    (only,) = truncated_classes(0.01, 1000, 900, 5)
    assert only.log_weight == 0.0
    assert only.law[0].tolist() == binomial_law(5, 0.01)[0].tolist()
    assert only.displaced.tolist() == [0.0]


def test_the_classes_are_a_probability():
    for question in ((0.01, 550, 50_000, 4), (0.01, 100_000, 10**7, 8), (0.01, 50_000, 10**7, 8), (0.3, 8, 20, 3)):
        classes = truncated_classes(*question)
        assert math.fsum(math.exp(one.log_weight) for one in classes) == pytest.approx(1.0, abs=1e-14)
        for one in classes:
            assert math.fsum(one.law[0]) == pytest.approx(1.0, abs=1e-14)
            assert math.fsum(one.displaced_law[0]) == pytest.approx(1.0, abs=1e-14)


def test_batch_sizes_that_are_too_rare_are_one_class_with_the_largest_sensitivity():
    classes = truncated_classes(0.01, 50_000, 10**7, 3)  # some 160 deviations below the mean
    assert classes[-1].log_weight < -700.0
    assert classes[-1].sensitivities.tolist() == [6.0]
    assert classes[-1].displaced.tolist() == [3.0]


def test_what_is_beyond_the_stated_limits_is_refused():
    with pytest.raises(LimitExceeded, match=f"groups of up to {LARGEST_GROUP_TRUNCATED}"):
        truncated_classes(0.01, 500, 50_000, LARGEST_GROUP_TRUNCATED + 1)
    with pytest.raises(LimitExceeded, match="standard deviation"):
        truncated_classes(0.5, 500, 10**15, 1)


def test_sizes_that_are_not_told_apart_count_as_nothing_on_the_lower_side():
    """P-6: a batch of 5000 is 182 deviations above the mean of 600. The catch-all class, of probability e^-737 and with
    the largest shifts, was part of the lower side: log delta of zeroed examples of at least -834.5 at epsilon 100,
    where examples removed, which no zeroed ones exceed by more than these sizes, have -905.5."""
    sampling = groupdp.TruncatedPoissonSampling(rate=0.01, largest_batch=5000, dataset_size=60_000)
    run = groupdp.DPSGD(sampling=sampling, noise_multiplier=2.0, steps=100)
    poisson = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=100)
    found = groupdp.log_delta(run, epsilon=100.0, group_size=4, adjacency="zero-out")
    without_a_cap = groupdp.log_delta(poisson, epsilon=100.0, group_size=4, adjacency="zero-out")
    assert found.lower <= without_a_cap.upper + 1e-6
    assert found.upper >= without_a_cap.lower


def test_sizes_that_are_not_told_apart_join_their_class_where_it_is_likely():
    """P-6: with a cap near the mean both ends belong to classes that are there."""
    assert not any(one.is_catch_all for one in truncated_classes(0.01, 650, 60_000, 4))
    assert truncated_classes(0.01, 5000, 60_000, 4)[-1].is_catch_all
