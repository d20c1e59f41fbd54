"""Pairs of opposed mixtures and public coins against ball arithmetic: one round, measures, a few rounds."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from engines.lattice.test_lattice_measures import measure_of
from engines.lattice_balls import ExactCurve
from engines.pair_balls import BITS, Pair, coin_delta, few_rounds_log_delta
from groupdp.engines import lattice
from groupdp.pairs import Round, mirrored
from strategies import examples


@pytest.fixture(autouse=True)
def _precise():
    with ctx.workprec(BITS):
        yield


@st.composite
def laws(draw, *, tiny=False):
    """Exact laws of shifts >= 0; probabilities may be as small as 1e-250."""
    size = draw(st.integers(1, 4))
    exponents = st.floats(-6.0, 3.0) if tiny else st.floats(-2.0, 1.0)
    shifts = {0.0} if draw(st.booleans()) else set()
    shifts |= {10.0 ** draw(exponents) for _ in range(size)}
    smallest = -250 if tiny else -4
    weights = [Fraction(10) ** draw(st.integers(smallest, 0)) for _ in shifts]
    total = sum(weights)
    return {shift: weight / total for shift, weight in zip(sorted(shifts), weights, strict=True)}


@st.composite
def pairs_drawn(draw, *, tiny=False):
    zero = {0.0: Fraction(1)}
    kind = draw(st.sampled_from(["both", "both", "right", "left"]))
    right = zero if kind == "left" else draw(laws(tiny=tiny))
    left = zero if kind == "right" else draw(laws(tiny=tiny))
    return Pair(right, left)


@st.composite
def coins_drawn(draw, *, tiny=False):
    count = draw(st.integers(1, 3))
    weights = [Fraction(draw(st.integers(1, 100))) for _ in range(count)]
    return [(draw(pairs_drawn(tiny=tiny)), weight / sum(weights)) for weight in weights]


def round_of(coin) -> Round:
    return Round([pair.branch for pair, _ in coin], [math.log(weight) for _, weight in coin])


def enclosed(found, truth: arb) -> bool:
    """Whether the ball of delta meets the bounds of log delta (it must; balls are narrow)."""
    if not truth > 0:  # the ball cannot tell it from 0
        return bool(not truth < arb(found.lower).exp()) if found.lower > -math.inf else True
    log = truth.log()
    above = found.upper == math.inf or not arb(found.upper) < log
    return bool(above and (found.lower == -math.inf or not arb(found.lower) > log))


@examples(50)
@given(coin=coins_drawn(), epsilon=st.floats(-3.0, 12.0))
def test_one_round_of_any_coin_is_enclosed(coin, epsilon):
    # tries to break L-1, L-8, L-14 and L-15
    found = lattice.log_delta(((round_of(coin), 1),), epsilon=epsilon)
    truth = coin_delta(coin, epsilon)
    assert enclosed(found, truth)
    if truth > 1e-30 and found.upper < -1e-9:
        assert found.relative_width < 1e-6


@examples(30)
@given(
    coin=coins_drawn(tiny=True), epsilon=st.one_of(st.floats(-3.0, 12.0), st.floats(-8.0, 5.0).map(lambda e: 10.0**e))
)
def test_one_round_at_extreme_shifts_and_probabilities_is_enclosed(coin, epsilon):
    # tries to break L-14 and L-15: shifts from 1e-6 to 1e3, probabilities down to 1e-250
    with ctx.workprec(1200):
        truth = coin_delta(coin, epsilon)
    found = lattice.log_delta(((round_of(coin), 1),), epsilon=epsilon)
    assert enclosed(found, truth)


@examples(8)
@given(coin=coins_drawn(), log_delta=st.floats(-60.0, -0.5))
def test_the_epsilon_of_one_round_is_enclosed(coin, log_delta):
    found = lattice.epsilon(((round_of(coin), 1),), log_delta=log_delta)
    if found.lower > 0.0:
        assert not coin_delta(coin, found.lower).log() < log_delta
    if found.upper < math.inf:
        assert not coin_delta(coin, found.upper) > arb(log_delta).exp()
    assert found.relative_width < 1e-6


@examples(10)
@given(
    coin=coins_drawn(),
    step=st.sampled_from([1e-3, 1e-2, 0.1]),
    tilt=st.sampled_from([0.5, 3.0, 20.0]),
    up=st.booleans(),
    seed=st.integers(0, 99),
)
def test_measures_of_any_coin_bracket_it_at_every_order(coin, step, tilt, up, seed):
    # tries to break L-3 to L-6 and L-8
    largest = max(max(pair.laws[0]) + max(pair.laws[1]) for pair, _ in coin)
    step = max(step, 1e-4 * largest**2)
    mass, dots = measure_of(((round_of(coin), 1000),), step, tilt / (1.0 + largest), up)
    curve = ExactCurve(mass)
    rng = np.random.default_rng(seed)
    chosen = rng.choice(dots, size=6)
    for epsilon in np.concatenate((chosen, np.nextafter(chosen, 1e9), chosen + step * rng.random(6))).tolist():
        truth, bound = coin_delta(coin, epsilon), curve.delta(epsilon)
        assert not (bound < truth if up else bound > truth)


FEW = [
    ([(Pair({0.0: Fraction(9, 10), 1.0: Fraction(1, 10)}, {0.0: Fraction(9, 10), 1.0: Fraction(1, 10)}), 1)], 2, 0.25),
    ([(Pair({0.0: Fraction(1, 2), 0.5: Fraction(1, 2)}, {0.0: Fraction(3, 4), 1.0: Fraction(1, 4)}), 1)], 3, 1.0),
    (
        [
            (Pair({0.5: Fraction(1)}, {0.0: Fraction(1)}), Fraction(3, 4)),
            (Pair({1.0: Fraction(1)}, {0.0: Fraction(1)}), Fraction(1, 4)),
        ],
        2,
        0.5,
    ),
    (
        [
            (Pair({0.0: Fraction(3, 4), 1.0: Fraction(1, 4)}, {0.0: Fraction(1)}), Fraction(1, 2)),
            (Pair({0.0: Fraction(1)}, {0.0: Fraction(1, 2), 0.75: Fraction(1, 2)}), Fraction(1, 2)),
        ],
        2,
        0.25,
    ),
]


@pytest.mark.thinned
@pytest.mark.parametrize(("coin", "rounds", "epsilon"), FEW)
def test_a_few_rounds_of_pairs_and_coins_against_ball_arithmetic(coin, rounds, epsilon):
    # tries to break L-7, L-8 and L-9
    truth = few_rounds_log_delta(coin, rounds, epsilon, 0.03)
    found = lattice.log_delta(((round_of(coin), rounds),), epsilon=epsilon, tolerance=1e-6)
    assert found.relative_width <= 1e-6
    assert not arb(found.lower) > truth
    assert not arb(found.upper) < truth
    assert float(truth.rad()) < 1e-4


@pytest.mark.thinned
@pytest.mark.parametrize("epsilon", [-1.5, -0.2, 0.3])
def test_negative_epsilons_by_duality_of_pairs(epsilon):
    # H_a(P, Q) = 1 - a + a H_{1/a}(Q, P)
    composition = ((round_of(FEW[1][0]), 7),)
    here = lattice.log_delta(composition, epsilon=epsilon, tolerance=1e-7)
    there = lattice.log_delta(mirrored(composition), epsilon=-epsilon, tolerance=1e-7)
    dual = [-math.expm1(epsilon) + math.exp(epsilon + value) for value in (there.lower, there.upper)]
    assert math.log(dual[0]) - 1e-15 <= here.upper
    assert here.lower <= math.log(dual[1]) + 1e-15
