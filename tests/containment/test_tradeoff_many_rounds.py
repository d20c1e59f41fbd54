"""Many rounds of the trade-off function: duality from certified deltas (T-6 to T-8), against closed forms."""

from __future__ import annotations

import math
import random

import flint
import numpy as np
import pytest
from flint import arb, fmpq
from hypothesis import given
from hypothesis import strategies as st

import groupdp
import oracle
from containment.balls import assert_contains, ball, tail
from containment.half_line_truth import ZERO, Truth, exact, poisson_side
from groupdp.tradeoff import trade_off
from groupdp.tradeoff.minorant import Minorant, largest_ratio, smallest_sum


def gaussian_rates(alpha: float, mu: arb) -> tuple[arb, arb]:
    """(TPR, FNR) = (Phi(mu - z), Phi(z - mu)) with Phi(-z) = alpha, z by Newton's steps in balls."""
    target = ball(alpha)
    low, high = arb(-60), arb(60)
    for _ in range(260):
        middle = ((low + high) / 2).mid()
        value = (tail(middle) - target) if alpha <= 0.5 else ((1 - target) - tail(-middle))
        low, high = (middle, high) if value > 0 else (low, middle)
    z = low.union(high)
    return tail(z - mu), tail(mu - z)


@pytest.mark.parametrize("seed", range(12))
def test_gaussian_mechanisms_by_duality(seed: int) -> None:
    """Without sampling the composition is a Gaussian: asked for by engine, it goes through delta all the same."""
    generator = random.Random(seed)
    steps = generator.choice([1, 3, 100, 10**5])
    noise = math.sqrt(steps) * 10.0 ** generator.uniform(-1.0, 1.5)
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1.0), noise_multiplier=noise, steps=steps)
    for adjacency in ("add", "remove"):
        function = trade_off(run, group_size=1, adjacency=adjacency, engine="spectral")
        alpha = generator.choice(
            [10.0 ** generator.uniform(-300, -15), generator.random(), 1 - 2.0 ** -generator.uniform(1, 53)]
        )
        with flint.ctx.workprec(300):
            power, miss = gaussian_rates(alpha, arb(steps).sqrt() / ball(noise))
        for bounds, truth in ((function.true_positive_rate(alpha), power), (function.false_negative_rate(alpha), miss)):
            assert_contains(bounds, truth, noise, steps, alpha)
            if bounds.upper > 1e-290:
                assert bounds.upper - bounds.lower <= 1e-8 * bounds.upper


@pytest.mark.thinned(6)
@pytest.mark.parametrize(
    ("rate", "noise", "adjacency", "alpha"),
    [
        (0.020834785048466, 0.26053287032908146, "add", 2.933925080919965e-152),  # a line cut off at 0 is not a line
        (0.3, 1.5, "remove", 1e-40),
        (0.3, 1.5, "add", 1.0 - 2.0**-45),
    ],
)
def test_one_round_by_duality(rate: float, noise: float, adjacency: str, alpha: float) -> None:
    """One round from the values of delta of the lattice engine's closed form: the half-lines are the truth."""
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=1)
    function = trade_off(run, group_size=1, adjacency=adjacency, engine="lattice")
    side = poisson_side(1, rate, noise)
    coin = [(fmpq(1), side, ZERO)] if adjacency == "remove" else [(fmpq(1), ZERO, side)]
    power, miss = Truth(coin).rates(exact(alpha))
    for _ in range(2):  # the second answer starts from the first
        assert_contains(function.true_positive_rate(alpha), power)
        assert_contains(function.false_negative_rate(alpha), miss)


@pytest.mark.thinned
@pytest.mark.parametrize("adjacency", ["add", "remove"])
@pytest.mark.parametrize("alpha", [1e-25, 1.0 - 1e-12])
def test_sampled_rounds_between_exact_lines(adjacency: str, alpha: float) -> None:
    """Lines of exact slopes above, chords of exact deltas below: an enclosure of the truth that shares no code."""
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.05), noise_multiplier=1.0, steps=60)
    function = trade_off(run, group_size=2, adjacency=adjacency)
    composition = oracle.compose([{"sampling_rate": exact(0.05), "noise_multiplier": 1, "steps": 60}], group_size=2)
    bounds, miss = function.true_positive_rate(alpha), function.false_negative_rate(alpha)
    epsilon = float(function.tangent(math.log(alpha))[1]) if alpha < 0.5 else 0.5
    mirrored = {"add": "remove", "remove": "add"}[adjacency]
    with flint.ctx.workprec(256):
        for shift in (0.0, 0.5):
            x = exact(epsilon + shift)
            line = oracle.log_delta(composition, epsilon=x, direction=adjacency, digits=15).exp()
            # TPR <= delta + e^eps alpha for every eps, so the certified lower side must be below it too.
            assert not arb(bounds.lower) > line + arb(x).exp() * ball(alpha)
            # f >= (1 - alpha - delta~) / e^eps for every eps.
            other = oracle.log_delta(composition, epsilon=x, direction=mirrored, digits=15).exp()
            assert not arb(miss.upper) < (1 - ball(alpha) - other) / arb(x).exp()
    assert bounds.upper - bounds.lower <= 1e-7 * bounds.upper
    assert miss.upper - miss.lower <= 1e-7 * miss.upper


def test_bounded_losses_bound_the_rates() -> None:
    """T-8: adding is (-T log(1 - q))-DP without any delta: TPR <= alpha / (1-q)^T; removing, f >= (1-q)^T gamma."""
    rate, steps = 1e-3, 2000
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=1.0, steps=steps)
    with flint.ctx.workprec(200):
        factor = (1 - ball(rate)) ** steps
        for alpha in (1e-250, 1e-30, 1e-8):
            found = trade_off(run, group_size=1, adjacency="add").true_positive_rate(alpha)
            assert not arb(found.lower) > ball(alpha) / factor
            assert arb(found.upper) <= ball(alpha) / factor * (1 + arb(10) ** -10)
        for gamma in (2.0**-50, 2.0**-20):
            found = trade_off(run, group_size=1, adjacency="remove").false_negative_rate(1.0 - gamma)
            assert arb(found.lower) >= ball(gamma) * factor * (1 - arb(10) ** -10)
            assert not arb(found.upper) < ball(gamma) * factor


@given(
    st.lists(st.floats(-12.0, 3.0), min_size=2, max_size=7, unique=True),
    st.floats(-30.0, 1.0),
    st.floats(0.0, 1e-3),
    st.floats(0.0, 1e-9),
)
def test_minorants_of_functions_whose_extremes_are_known(
    logs: list[float], log_weight: float, width: float, blur: float
) -> None:
    """T-6 and T-7: d(x) = (1 - x)_+^2, known at blurred places; min d + w x and max (c - d) / x are known exactly."""
    x = np.sort(10.0 ** np.array(logs))
    high = x * (1.0 + blur) * (1.0 + 1e-15)
    low = x * (1.0 - blur) * (1.0 - 1e-15)
    if np.any(low[1:] <= high[:-1]):
        return
    # The function anywhere within the blur, widened by a few roundings and by `width`.
    lower = np.maximum(1.0 - high, 0.0) ** 2 * (1.0 - 1e-15)
    upper = np.maximum(1.0 - low, 0.0) ** 2 * (1.0 + 1e-15) + width
    minorant = Minorant(low, high, lower[None], upper[None])
    w = 10.0**log_weight
    with flint.ctx.workprec(200):
        exact_w = ball(w)
        smallest = exact_w - exact_w**2 / 4 if w < 2.0 else arb(1)
        assert not arb(float(smallest_sum(minorant, np.array([w]))[0])) > smallest
        c = ball(min(w, 0.75))
        # (c - (1 - x)^2) / x is largest at x = sqrt(1 - c).
        largest = 2 * (1 - (1 - c).sqrt())
        assert not arb(float(largest_ratio(minorant, np.array([min(w, 0.75)]))[0])) < largest


def test_a_sketch_holds_too() -> None:
    """The bounds of a picture contain the narrow ones at every point."""
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.02), noise_multiplier=0.8, steps=500)
    for adjacency in ("add", "remove"):
        rates = [1e-12, 1e-7, 1e-3, 0.1, 0.5, 0.9, 1 - 1e-6]
        rough = trade_off(run, group_size=3, adjacency=adjacency).curve(rates, tolerance=1e-2)
        fine = trade_off(run, group_size=3, adjacency=adjacency).curve(rates)
        for name in ("true_positive_rate", "false_negative_rate"):
            outer = getattr(rough, f"{name}_lower"), getattr(rough, f"{name}_upper")
            inner = getattr(fine, f"{name}_lower"), getattr(fine, f"{name}_upper")
            assert np.all(outer[0] <= inner[1])
            assert np.all(outer[1] >= inner[0])
            assert np.all(outer[1] - outer[0] <= 0.1 * outer[1])
