"""One round in closed form (S-71) and weights of no account (S-70), beside ball arithmetic and the lattice engine."""

from __future__ import annotations

import math

import pytest
from flint import arb, ctx

from groupdp import DPSGD, PoissonSampling
from groupdp.engines import lattice, spectral
from groupdp.pairs import Branch, Composition, Side
from groupdp.question import question_of


def _compositions(rate: float, noise: float, steps: int, group: int) -> tuple[tuple[str, Composition], ...]:
    run = DPSGD(PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)
    return question_of(run, group_size=group).compositions


def _density(side: Side, v: arb) -> arb:
    total = arb(0)
    for shift, log_p in zip(side.shifts, side.log_probabilities, strict=True):
        total += (arb(float(log_p)) + arb(float(shift)) * v - arb(float(shift)) ** 2 / 2).exp()
    return total


def _tail(side: Side, sign: int, u: arb) -> arb:
    total = arb(0)
    for shift, log_p in zip(side.shifts, side.log_probabilities, strict=True):
        total += arb(float(log_p)).exp() * ((u - sign * arb(float(shift))) / arb(2).sqrt()).erfc() / 2
    return total


def _delta(branch: Branch, epsilon: float) -> float:
    """sup_u P(U > u) - e^eps Q(U > u), attained where the loss is epsilon, by bisection in 300 bits."""
    before, ctx.prec = ctx.prec, 300
    try:
        low, high = arb(-60), arb(60)
        for _ in range(250):
            middle = ((low + high) / 2).mid()
            loss = _density(branch.right, middle).log() - _density(branch.left, -middle).log()
            low, high = (low, middle) if loss > arb(epsilon) else (middle, high)
        value = _tail(branch.right, 1, low) - arb(epsilon).exp() * _tail(branch.left, -1, low)
        return float(value)
    finally:
        ctx.prec = before


@pytest.mark.parametrize("rate", [1e-5, 0.01, 0.3, 0.9])
@pytest.mark.parametrize("noise", [0.4, 1.0, 5.0])
@pytest.mark.parametrize("group", [1, 8])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-25])
def test_one_round_is_enclosed(rate: float, noise: float, group: int, delta: float) -> None:
    """S-71: the exact delta is at most the target at the upper side, and at least the target at the lower one."""
    for _, composition in _compositions(rate, noise, 1, group):
        branch = composition[0][0].branches[0]
        found = spectral.epsilon(composition, log_delta=math.log(delta))
        assert _delta(branch, found.upper) <= delta * (1.0 + 1e-13)
        if found.lower > 0.0:
            assert _delta(branch, found.lower) >= delta * (1.0 - 1e-13)
            assert found.width <= 1e-9 * found.upper
            below = 0.9 * found.lower
            log_delta = spectral.log_delta(composition, epsilon=below)
            exact = math.log(_delta(branch, below))
            assert log_delta.width <= 1e-6
            assert log_delta.lower <= exact + 1e-13 * abs(exact)
            assert log_delta.upper >= exact - 1e-13 * abs(exact)


def test_one_round_without_privacy_loss_beyond_delta() -> None:
    """S-71: epsilon is 0 where delta(0) is below the target."""
    for _, composition in _compositions(1e-3, 1.0, 1, 1):
        found = spectral.epsilon(composition, log_delta=math.log(0.01))
        assert (found.lower, found.upper) == (0.0, 0.0)


def test_far_tilts_lose_weights_that_do_not_matter() -> None:
    """S-70: tilts of 1e10, where exponents far from what matters are not known to 0.5 per cent."""
    compositions = dict(_compositions(1e-6, 0.5, 3, 32))
    found = spectral.epsilon(compositions["add"], log_delta=math.log(1e-30))
    other = lattice.epsilon(compositions["add"], log_delta=math.log(1e-30))
    assert found.width <= 1e-8 * found.upper
    assert max(found.lower, other.lower) <= min(found.upper, other.upper)
