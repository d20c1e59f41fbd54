"""Plans: the audit really sees the gap after the planned number of runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from groupdp.audit import lower_limit, runs_to_contradict, runs_to_see_gap, upper_limit
from refusals import refused


@pytest.mark.parametrize(
    ("hit_rate", "false_alarm_rate", "epsilon", "claimed_delta"),
    [(0.5, 0.1, 1.0, 1e-3), (0.02, 1e-3, 2.0, 1e-5), (0.9, 0.4, 0.0, 0.4), (0.3, 0.0, 3.0, 0.0)],
)
@pytest.mark.parametrize("power", [0.5, 0.9])
def test_a_plan_delivers_its_power_and_is_not_wasteful(
    hit_rate: float, false_alarm_rate: float, epsilon: float, claimed_delta: float, power: float
) -> None:
    confidence = 0.99
    planned = runs_to_contradict(
        hit_rate=hit_rate,
        false_alarm_rate=false_alarm_rate,
        epsilon=epsilon,
        claimed_delta=claimed_delta,
        confidence=confidence,
        power=power,
    )
    assert planned is not None

    def success_rate(runs: int) -> float:
        generator = np.random.default_rng(7)
        hits = generator.binomial(runs // 2, hit_rate, 4000)
        false_alarms = generator.binomial(runs // 2, false_alarm_rate, 4000)
        low = lower_limit(hits, runs // 2, (1 - confidence) / 2)
        high = upper_limit(false_alarms, runs // 2, (1 - confidence) / 2)
        return float(np.mean(low - math.exp(epsilon) * high > claimed_delta))

    seen = success_rate(planned)
    assert stats.binomtest(round(seen * 4000), 4000, power, alternative="less").pvalue > 1e-4
    if false_alarm_rate > 0.0:
        assert success_rate(max(2, planned // 3)) < seen


def test_what_cannot_be_seen_is_said_so() -> None:
    assert runs_to_contradict(hit_rate=0.1, false_alarm_rate=0.1, epsilon=0.5, claimed_delta=0.0) is None
    assert runs_to_see_gap(claimed_epsilon=1.0, delta=0.1, gap=0.5, hit_rate=0.05) is None
    assert runs_to_see_gap(claimed_epsilon=40.0, delta=1e-6, gap=0.1, hit_rate=0.5) is None  # above 10^15


def test_smaller_gaps_and_higher_confidence_take_more_runs() -> None:
    def runs(gap: float, confidence: float) -> int:
        planned = runs_to_see_gap(claimed_epsilon=1.0, delta=1e-5, gap=gap, hit_rate=0.3, confidence=confidence)
        assert planned is not None
        return planned

    assert runs(0.1, 0.95) > 5 * runs(0.4, 0.95)
    assert runs(0.2, 0.999) > runs(0.2, 0.95)


def test_bad_plans_are_refused_with_a_sentence() -> None:
    with refused("gap"):
        runs_to_see_gap(claimed_epsilon=1.0, delta=1e-5, gap=0.0, hit_rate=0.3)
    with refused("power"):
        runs_to_contradict(hit_rate=0.5, false_alarm_rate=0.1, epsilon=0.1, claimed_delta=0.0, power=1.0)
