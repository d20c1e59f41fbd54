"""Confidence limits of an audit against the binomial law in ball arithmetic."""

from __future__ import annotations

import math
import random

import flint
import numpy as np
import pytest
from flint import arb

from containment.balls import ball
from groupdp.audit.lower_bounds import (
    delta_lower_bound,
    epsilon_lower_bound,
    lower_limit,
    simultaneous_band,
    upper_limit,
)
from groupdp.audit.simulation import Scores


def at_least(successes: int, trials: int, p: arb) -> arb:
    """P(Binom(n, p) >= s), s >= 1, as the regularised incomplete beta function."""
    return p.beta_lower(arb(successes), arb(trials - successes + 1), regularized=1)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("seed", range(24))
def test_clopper_pearson_limits_keep_their_level(seed: int) -> None:
    """At the limit, what was seen or more (less) has a chance of at most alpha: never more, and not much less."""
    generator = random.Random(seed)
    trials = generator.choice([1, 7, 1000, 10**6, 10**9])
    successes = generator.choice([0, 1, trials, trials // 2, generator.randint(0, trials), min(trials, 1000)])
    alpha = 10.0 ** generator.uniform(-12.0, -0.31)
    low, high = float(lower_limit(successes, trials, alpha)), float(upper_limit(successes, trials, alpha))
    assert 0.0 <= low <= high <= 1.0
    with flint.ctx.workprec(400):
        if successes > 0:
            chance = at_least(successes, trials, ball(low))
            assert not chance > ball(alpha), (successes, trials, alpha, low)
            assert chance >= ball(alpha) * ball(0.95)
        else:
            assert low == 0.0
        if successes < trials:
            # P(Binom(n, p) <= s) = P(Binom(n, 1 - p) >= n - s).
            chance = at_least(trials - successes, trials, 1 - ball(high))
            assert not chance > ball(alpha), (successes, trials, alpha, high)
            assert high > 1.0 - 1e-15 or chance >= ball(alpha) * ball(0.95)
        else:
            assert high == 1.0


@pytest.mark.parametrize(("trials", "alpha"), [(5, 0.1), (60, 1e-6), (300, 1e-3)])
def test_the_band_shares_its_level(trials: int, alpha: float) -> None:
    """The r-th smallest of n uniforms is Beta(r, n + 1 - r): the chances of missing add up to at most alpha."""
    band = simultaneous_band(trials, alpha)
    total = arb(0)
    with flint.ctx.workprec(300):
        for rank, low, high in zip(band.ranks.tolist(), band.lower.tolist(), band.upper.tolist(), strict=True):
            total += at_least(rank, trials, ball(low))
            total += 1 - at_least(rank, trials, ball(high))
        assert not total > ball(alpha)


def test_lower_bounds_follow_from_their_limits_rounded_down() -> None:
    """epsilon >= log((P - delta) / Q) and delta >= P - e^eps Q, at exactly the limits that are reported."""
    generator = np.random.default_rng(5)
    scores = Scores(with_group=generator.normal(3.0, 1.0, 4000), without_group=generator.normal(0.0, 1.0, 4000))
    with flint.ctx.workprec(200):
        for delta in (0.0, 1e-5, 0.1):
            found = epsilon_lower_bound(scores, delta=delta, adjacency="remove")
            hit, alarm = ball(found.operation.hit_rate_lower), ball(found.operation.false_alarm_rate_upper)
            assert found.value > 0.0
            assert not ball(found.value) > ((hit - ball(delta)) / alarm).log()
        for epsilon in (0.0, 0.3, math.log(20.0)):
            found = delta_lower_bound(scores, epsilon=epsilon, adjacency="remove")
            hit, alarm = ball(found.operation.hit_rate_lower), ball(found.operation.false_alarm_rate_upper)
            assert not ball(found.value) > hit - ball(epsilon).exp() * alarm
