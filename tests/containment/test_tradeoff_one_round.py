"""One round of the trade-off function against ball arithmetic: T-1 to T-5, at extreme levels, noises and rates."""

from __future__ import annotations

import math
import random

import flint
import numpy as np
import pytest
from flint import arb, fmpq

import groupdp
from containment.balls import assert_contains
from containment.half_line_truth import (
    ZERO,
    Coin,
    Side,
    Truth,
    envelope_rates,
    exact,
    mixture_side,
    poisson_side,
    tail,
)
from groupdp import pairs
from groupdp.floats import Sides, log_normal_tail, log_sum
from groupdp.tradeoff import trade_off
from groupdp.tradeoff.closed_form import Envelope, Levels


def poisson(rate: float, noise: float, steps: int = 1) -> groupdp.DPSGD:
    return groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)


def coin_of(side: Side, adjacency: str) -> Coin:
    return [(fmpq(1), side, ZERO)] if adjacency == "remove" else [(fmpq(1), ZERO, side)]


def level(generator: random.Random) -> float:
    """A false positive rate: astronomically small, small, anywhere, or next to 1."""
    return generator.choice(
        [
            10.0 ** generator.uniform(-300.0, -15.0),
            10.0 ** generator.uniform(-20.0, -0.3),
            generator.random(),
            1.0 - 2.0 ** -generator.uniform(1.0, 53.0),
        ]
    )


def check(function: groupdp.tradeoff.TradeOff, coin: Coin, alpha: float, narrow: float, *context: object) -> None:
    power, miss = Truth(coin).rates(exact(alpha))
    found = function.true_positive_rate(alpha), function.false_negative_rate(alpha)
    assert_contains(found[0], power, alpha, *context)
    assert_contains(found[1], miss, alpha, *context)
    for bounds in found:
        if bounds.upper > 1e-290:
            assert bounds.upper - bounds.lower <= narrow * bounds.upper, (alpha, bounds, *context)


def test_the_true_positive_rate_that_was_above_its_truth() -> None:
    """Issue 16: [4.27e-17, 2.6e-06] where the truth is at most alpha / (1 - q) = 2.587e-19."""
    rate, noise, alpha = 0.005127195258945357, 0.31910443480537565, 2.574192476981099e-19
    function = trade_off(poisson(rate, noise), group_size=1, adjacency="add")
    check(function, coin_of(poisson_side(1, rate, noise), "add"), alpha, 1e-11)
    assert function.true_positive_rate(alpha).upper <= alpha / (1.0 - rate) * (1.0 + 1e-11)


def test_the_false_negative_rate_that_was_below_its_truth() -> None:
    """Issue 16: an upper side of 2.351e-16 where the truth is at least (1 - q)^2 (1 - alpha) = 3.329e-16."""
    rate, noise, alpha = 0.00023644377193613955, 0.2772133867535196, 0.9999999999999997
    function = trade_off(poisson(rate, noise), group_size=2, adjacency="remove")
    check(function, coin_of(poisson_side(2, rate, noise), "remove"), alpha, 1e-11)
    assert function.false_negative_rate(alpha).upper >= (1.0 - rate) ** 2 * (1.0 - alpha)


@pytest.mark.parametrize("adjacency", ["add", "remove"])
def test_the_mixture_that_was_false_at_every_small_level(adjacency: str) -> None:
    """Issue 16: MixtureOfGaussians([0, 5.90, 1.16], [.9, .09, .01], .51) at levels from 1e-20 to 1e-300."""
    law = [0.0, 5.90, 1.16], [0.9, 0.09, 0.01], 0.51
    function = trade_off(groupdp.MixtureOfGaussians(*law), rounds=1, adjacency=adjacency)
    for exponent in (20, 77, 150, 300):
        check(function, coin_of(mixture_side(*law), adjacency), 10.0**-exponent, 1e-10)


def test_the_default_curve_holds_where_it_was_false() -> None:
    """Issue 16: points of `curve()` were false for the first example; now every one is checked."""
    rate, noise = 0.005127195258945357, 0.31910443480537565
    curve = trade_off(poisson(rate, noise), group_size=1, adjacency="add").curve()
    truth = Truth(coin_of(poisson_side(1, rate, noise), "add"))
    for i in range(0, len(curve.false_positive_rate), 7):
        power, miss = truth.rates(exact(float(curve.false_positive_rate[i])))
        rates = curve.true_positive_rate_lower[i], curve.true_positive_rate_upper[i]
        assert_contains(groupdp.Bounds(*map(float, rates)), power)
        misses = curve.false_negative_rate_lower[i], curve.false_negative_rate_upper[i]
        assert_contains(groupdp.Bounds(*map(float, misses)), miss)


@pytest.mark.parametrize("seed", range(16))
def test_sampled_gaussians(seed: int) -> None:
    """T-3: half-lines, at any level."""
    generator = random.Random(seed)
    rate = 10.0 ** generator.uniform(-6.0, 0.0) if generator.random() < 0.9 else 1.0
    noise, size = 10.0 ** generator.uniform(-1.2, 1.5), generator.choice([1, 1, 2, 3, 8])
    side = poisson_side(size, rate, noise)
    for adjacency in ("add", "remove"):
        function = trade_off(poisson(rate, noise), group_size=size, adjacency=adjacency)
        check(function, coin_of(side, adjacency), level(generator), 1e-8, rate, noise, size, adjacency)


@pytest.mark.parametrize("seed", range(16))
def test_mixtures(seed: int) -> None:
    generator = random.Random(1000 + seed)
    shifts = [0.0] * (generator.random() < 0.8) + [generator.uniform(0.0, 8.0) for _ in range(generator.randint(1, 4))]
    weights = [10.0 ** generator.uniform(-8.0, 0.0) for _ in shifts]
    law = [weight / math.fsum(weights) for weight in weights]
    noise = 10.0 ** generator.uniform(-1.0, 1.0)
    side = mixture_side(shifts, law, noise)
    mixture = groupdp.MixtureOfGaussians(shifts, law, noise)
    for adjacency in ("add", "remove"):
        function = trade_off(mixture, rounds=1, adjacency=adjacency)
        check(function, coin_of(side, adjacency), level(generator), 1e-8, shifts, law, noise, adjacency)


@pytest.mark.parametrize("seed", range(2))
def test_add_or_remove_is_the_envelope(seed: int) -> None:
    """T-4 and T-5: tangents above both curves, chords between them."""
    generator = random.Random(2000 + seed)
    rate, noise = 10.0 ** generator.uniform(-3.0, -0.3), 10.0 ** generator.uniform(-0.5, 0.7)
    size = 1
    side = poisson_side(size, rate, noise)
    function = trade_off(poisson(rate, noise), group_size=size)
    for alpha in (10.0 ** generator.uniform(-30.0, -2.0), generator.random()):
        truths = [Truth(coin_of(side, one), 130) for one in ("add", "remove")]
        power, miss = envelope_rates(truths, exact(alpha))
        assert_contains(function.true_positive_rate(alpha), power, rate, noise, size, alpha)
        assert_contains(function.false_negative_rate(alpha), miss, rate, noise, size, alpha)
        assert function.true_positive_rate(alpha).relative_width <= 1e-6


@pytest.mark.parametrize("seed", range(2))
def test_opposed_mixtures_and_coins(seed: int) -> None:
    """Any pair: substitution (law, law), and a coin of two branches, whose tests share a threshold in the loss."""
    generator = random.Random(3000 + seed)

    def random_side() -> tuple[pairs.Side, Side]:
        shifts = sorted([0.0, generator.uniform(0.1, 4.0), generator.uniform(4.1, 6.0)])
        law = [2.0**-1, 2.0**-2, 2.0**-2]
        made = pairs.Side(np.array(shifts), (np.array(law), np.log(np.array(law))))
        return made, [(exact(x), exact(p)) for x, p in zip(shifts, law, strict=True)]

    sides = [random_side() for _ in range(4)]
    one = pairs.Round.of(sides[0][0], sides[1][0])
    two = pairs.Round(
        (pairs.Branch(sides[0][0], sides[1][0]), pairs.Branch(sides[2][0], sides[3][0])),
        (math.log(0.25), math.log(0.75)),
    )
    coins: list[Coin] = [
        [(fmpq(1), sides[0][1], sides[1][1])],
        [(fmpq(1, 4), sides[0][1], sides[1][1]), (fmpq(3, 4), sides[2][1], sides[3][1])],
    ]
    for made, coin in zip((one, two), coins, strict=True):
        alpha = 10.0 ** generator.uniform(-12.0, -0.5)
        levels = Levels(np.log(np.array([alpha])), np.log1p(-np.array([alpha])))
        power, miss, _ = Envelope([made]).rates(levels)
        true_power, true_miss = Truth(coin, 110).rates(exact(alpha))
        assert_contains(groupdp.Bounds(float(power.lower[0]), float(power.upper[0])), true_power.log())
        assert_contains(groupdp.Bounds(float(miss.lower[0]), float(miss.upper[0])), true_miss.log())
        assert power.upper[0] - power.lower[0] <= 1e-8


@pytest.mark.parametrize("adjacency", ["add", "remove"])
def test_rounds_without_noise_beside_one_with_noise(adjacency: str) -> None:
    """Three rounds that give the group away with probability q each, and one with noise: still one half-line."""
    rate, noise = 0.125, 0.75
    run = [poisson(rate, noise), poisson(rate, 0.0, steps=3)]
    function = trade_off(run, group_size=1, adjacency=adjacency)
    hidden = (1 - exact(rate)) ** 3
    side = poisson_side(1, rate, noise)
    for alpha in (1e-200, 1e-9, 0.3, 0.9, 1.0 - 2.0**-40):
        with flint.ctx.workprec(300):
            if adjacency == "remove":
                # P shows itself with probability 1 - hidden, whatever the level.
                power, miss = Truth(coin_of(side, "remove")).rates(exact(alpha))
                power, miss = arb(1 - hidden) + arb(hidden) * power, arb(hidden) * miss
            elif exact(alpha) >= hidden:
                power, miss = arb(1), arb(0)
            else:
                # Q is beaten without a test unless it hides: alpha is a share of that.
                power, miss = Truth(coin_of(side, "add")).rates(exact(alpha) / hidden)
        assert_contains(function.true_positive_rate(alpha), power, alpha)
        assert_contains(function.false_negative_rate(alpha), miss, alpha)


def test_normal_tails_and_their_sums() -> None:
    """T-1 and T-2: places of any size, off by any amount; sums of a thousand terms."""
    generator = random.Random(4)
    z = np.array([generator.choice([-1, 1]) * 10.0 ** generator.uniform(-20.0, 5.0) for _ in range(400)])
    error = np.abs(z) * 10.0 ** np.array([generator.uniform(-17.0, 0.5) for _ in z])
    found = log_normal_tail(z, error)
    with flint.ctx.workprec(200):
        for i in range(len(z)):
            for place in (exact(float(z[i])) - exact(float(error[i])), exact(float(z[i])) + exact(float(error[i]))):
                truth = tail(arb(place)).log()
                if truth.is_finite():
                    assert_contains(groupdp.Bounds(float(found.lower[i]), float(found.upper[i])), truth, z[i], error[i])
        for count in (1, 7, 40, 1000):
            terms = np.array([generator.uniform(-800.0, 0.0) for _ in range(count)])
            total = log_sum(Sides(terms, terms))
            truth = sum((arb(exact(float(term))).exp() for term in terms), arb(0)).log()
            assert_contains(groupdp.Bounds(float(total.lower), float(total.upper)), truth)


def test_half_lines_of_a_shift_beyond_doubles_squared() -> None:
    """Noise of 1e-170: the two worlds are told apart with certainty, and nothing overflows."""
    function = trade_off(groupdp.MixtureOfGaussians([0.0, 1.0], [0.5, 0.5], 1e-170), rounds=1, adjacency="remove")
    found = function.true_positive_rate(0.25)
    assert found.lower <= 0.5 + 0.5 * 0.25 <= found.upper
    assert found.relative_width <= 1e-6
