"""Sensitivities of strategy matrices against exhaustive search, closed forms and the shares of an outside table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupdp.errors import InvalidArgument
from groupdp.mechanisms.correlated import (
    BandedToeplitz,
    BufferedLinearToeplitz,
    LowerTriangular,
    PrefixSum,
    Tree,
)
from groupdp.mechanisms.correlated.sensitivities import fixed_order, one_example, spread_group, window_factor
from groupdp.mechanisms.correlated.strategies import Strategy
from strategies import examples

entries = st.just(0.0) | st.floats(1e-9, 2.0)


@st.composite
def matrices(draw: st.DrawFn, rounds: int) -> Strategy:
    kind = draw(st.sampled_from(["toeplitz", "square root", "decreasing", "blt", "triangular", "tree", "prefix sums"]))
    if kind == "toeplitz":
        return BandedToeplitz((1.0, *draw(st.lists(entries, max_size=4))))
    if kind == "square root":
        return BandedToeplitz.square_root(draw(st.integers(1, 6)))
    if kind == "decreasing":
        tail = sorted(draw(st.lists(st.floats(1e-9, 1.0), max_size=7)), reverse=True)
        return BandedToeplitz((1.0, *tail))
    if kind == "blt":
        return BufferedLinearToeplitz((draw(st.floats(0.1, 0.99)),), (draw(st.floats(1e-9, 1.0)),))
    if kind == "tree":
        return Tree()
    if kind == "prefix sums":
        return PrefixSum()
    values = draw(st.lists(entries, min_size=rounds * rounds, max_size=rounds * rounds))
    return LowerTriangular.from_matrix(np.tril(np.array(values).reshape(rounds, rounds), -1) + np.eye(rounds))


def separated(rounds: int, separation: int, most: int) -> Iterator[tuple[int, ...]]:
    for pattern in itertools.product((0, 1), repeat=rounds):
        places = [t for t, taken in enumerate(pattern) if taken]
        if len(places) <= most and all(b - a >= separation for a, b in itertools.pairwise(places)):
            yield pattern


def sums_without_common_round(rounds: int, separation: int, most: int, group: int) -> set[tuple[int, ...]]:
    """Sums of admissible patterns, as M-6 defines them: no use of its characterisation."""
    sums = {(0,) * rounds}
    for _ in range(group):
        sums = {
            tuple(a + b for a, b in zip(first, second, strict=True))
            for first in sums
            for second in separated(rounds, separation, most)
            if all(a + b <= 1 for a, b in zip(first, second, strict=True))
        }
    return sums


def largest(strategy: Strategy, rounds: int, patterns: Iterator[tuple[int, ...]] | set[tuple[int, ...]]) -> float:
    matrix = strategy.matrix(rounds)
    return max(float(np.linalg.norm(matrix @ np.array(pattern))) for pattern in patterns)


@examples(60)
@given(st.data(), st.integers(2, 8), st.integers(1, 4), st.integers(1, 4))
def test_one_example_is_never_below_the_worst_pattern(data: st.DataObject, rounds: int, separation: int, most: int):
    """M-4, M-5 and M-9."""
    strategy = data.draw(matrices(rounds))
    truth = largest(strategy, rounds, separated(rounds, separation, most))
    found = one_example(strategy, rounds, separation=separation, participations=most)
    assert found.value >= truth * (1 - 1e-15)
    if found.exact:
        assert found.value <= truth * (1 + 1e-12)


@examples(40)
@given(st.data(), st.integers(2, 7), st.integers(1, 4), st.integers(1, 2), st.integers(1, 3))
def test_a_spread_group_is_never_below_the_worst_sum(
    data: st.DataObject, rounds: int, separation: int, most: int, group: int
):
    """M-6, M-7 and M-9."""
    strategy = data.draw(matrices(rounds))
    truth = largest(strategy, rounds, sums_without_common_round(rounds, separation, most, group))
    found = spread_group(strategy, rounds, separation=separation, participations=most, group=group)
    assert found.value >= truth * (1 - 1e-15)
    if found.exact:
        assert found.value <= truth * (1 + 1e-12)


@examples(40)
@given(st.data(), st.integers(2, 8), st.integers(1, 5))
def test_fixed_order_is_the_worst_batch(data: st.DataObject, rounds: int, batches: int):
    """M-8."""
    strategy = data.draw(matrices(rounds))
    patterns = {tuple(int(t % batches == j) for t in range(rounds)) for j in range(batches)}
    truth = largest(strategy, rounds, patterns)
    found = fixed_order(strategy, rounds, batches=batches)
    assert found.value >= truth * (1 - 1e-15)
    if found.exact:
        assert found.value <= truth * (1 + 1e-12)


def test_one_ones_column_is_square_root_of_the_length():
    norms = BandedToeplitz((1.0, 1.0, 1.0, 1.0)).column_norms(6)
    assert norms == pytest.approx([2.0, 2.0, 2.0, math.sqrt(3.0), math.sqrt(2.0), 1.0], rel=1e-14)


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40))
def test_norms_are_rounded_up(column: list[float]):
    """M-1."""
    norm = Fraction(float(BandedToeplitz(tuple(column)).column_norms(len(column))[0]))
    exact = sum(Fraction(value) ** 2 for value in column)
    assert norm * norm >= exact
    assert norm * norm <= exact * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize(("bands", "ratio"), [(2, 1.184), (4, 1.254), (8, 1.289), (16, 1.310)])
def test_window_factors_reach_those_computed_elsewhere(bands: int, ratio: float):
    """M-3."""
    strategy = BandedToeplitz.square_root(bands)
    factor = window_factor(strategy, 1000, parts=bands) / float(strategy.column_norms(1000)[0])
    assert 1.0 <= factor <= ratio


@given(st.lists(entries, max_size=6), st.integers(0, 3))
def test_the_window_factor_is_between_the_norm_and_its_square_root_of_two_multiple(tail: list[float], idle: int):
    strategy = BandedToeplitz((1.0, *tail))
    norm = float(strategy.column_norms(50)[0])
    factor = window_factor(strategy, 50, parts=len(tail) + 1 + idle)
    assert norm * (1 - 1e-12) <= factor <= math.sqrt(2.0) * norm * (1 + 1e-9)


def test_prefix_errors_against_the_matrix():
    prefix = np.tril(np.ones((12, 12)))
    for strategy in (
        BandedToeplitz.square_root(4),
        BufferedLinearToeplitz((0.9, 0.5), (0.3, 0.2)),
        LowerTriangular.from_matrix(np.tril(np.ones((12, 12))) + np.eye(12)),
    ):
        inverse = np.linalg.inv(strategy.matrix(12))
        assert strategy.prefix_error(12) == pytest.approx(np.sum((prefix @ inverse) ** 2), rel=1e-9)


def test_prefix_error_of_independent_noise_is_a_triangle_number():
    assert BandedToeplitz((1.0,)).prefix_error(10) == pytest.approx(55.0)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: BandedToeplitz(()), "column"),
        (lambda: BandedToeplitz((0.0, 1.0)), "column"),
        (lambda: BandedToeplitz((1.0, math.nan)), "column"),
        (lambda: BandedToeplitz("11"), "column"),  # type: ignore[arg-type]
        (lambda: BufferedLinearToeplitz((1.5,), (0.1,)), "decays"),
        (lambda: BufferedLinearToeplitz((0.5,), ()), "scales"),
        (lambda: LowerTriangular(((1.0,), (1.0, 0.0))), "rows"),
        (lambda: LowerTriangular.from_matrix(np.ones((2, 2))), "matrix"),
    ],
)
def test_what_is_not_a_strategy_is_refused(make, argument: str):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.name == argument
