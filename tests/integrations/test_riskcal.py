"""groupdp's trade-off curves as evaluators for riskcal."""

from __future__ import annotations

import pytest

import groupdp
from refusals import refused

pytest.importorskip("riskcal", reason="needs the extra riskcal: make test-integrations")

from riskcal import calibration

from groupdp.integrations.riskcal import calibrate, evaluator

RUN = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=4.0, steps=500)


def test_metrics_are_the_guaranteed_sides():
    metrics = evaluator(RUN, group_size=8, alpha=0.05, delta=1e-6)(4.0)
    assert metrics.advantage == groupdp.delta(RUN, epsilon=0.0, group_size=8).upper
    assert metrics.epsilon == groupdp.epsilon(RUN, delta=1e-6, group_size=8).upper
    assert metrics.beta == groupdp.trade_off(RUN, group_size=8).false_negative_rate(0.05).lower
    assert (metrics.alpha, metrics.delta) == (0.05, 1e-6)
    single = evaluator(RUN, group_size=1)(4.0)
    theirs = calibration.create_dpsgd_evaluator(0.01, 500, grid_step=1e-3)(4.0)
    assert single.advantage == pytest.approx(theirs.advantage, rel=3e-2)
    assert single.beta is None
    assert single.epsilon is None


def test_their_search_takes_the_evaluator():
    target = calibration.CalibrationTarget(kind="epsilon_delta", epsilon=2.0, delta=1e-6)
    config = calibration.CalibrationConfig(increasing=False, param_min=0.5, param_max=20.0)
    found = calibration.calibrate_parameter(evaluator(RUN, group_size=8, delta=1e-6), target, config)
    assert 1.998 <= found.achieved_epsilon <= 2.0
    least = groupdp.calibrate_noise(RUN, epsilon=2.0, delta=1e-6, group_size=8).value
    assert least <= found.parameter_value <= least + 1e-3


@pytest.mark.parametrize(
    "target",
    [
        calibration.CalibrationTarget(kind="advantage", advantage=0.1),
        calibration.CalibrationTarget(kind="err_rates", alpha=0.05, beta=0.9),
        calibration.CalibrationTarget(kind="epsilon_delta", epsilon=2.0, delta=1e-6),
    ],
    ids=lambda target: target.kind,
)
def test_targets_are_met_and_closely(target):
    config = calibration.CalibrationConfig(param_min=0.5, param_max=40.0, target_tol=2e-3, param_tol=1e-3)
    found = calibrate(RUN, target, group_size=8, config=config)
    noisy = groupdp.DPSGD(sampling=RUN.sampling, noise_multiplier=found.parameter_value, steps=500)
    if target.kind == "advantage":
        assert 0.097 <= groupdp.delta(noisy, epsilon=0.0, group_size=8).upper <= 0.1
    elif target.kind == "err_rates":
        assert 0.9 <= groupdp.trade_off(noisy, group_size=8).false_negative_rate(0.05).lower <= 0.905
    else:
        assert 1.997 <= groupdp.epsilon(noisy, delta=1e-6, group_size=8).upper <= 2.0


def test_phases_share_the_parameter_and_wrong_arguments_get_a_sentence():
    twice = (RUN, groupdp.DPSGD(sampling=RUN.sampling, noise_multiplier=2.0, steps=100))
    doubled = [
        groupdp.DPSGD(sampling=RUN.sampling, noise_multiplier=2 * p.noise_multiplier, steps=p.steps) for p in twice
    ]
    assert (
        evaluator(twice, group_size=2, delta=1e-6)(2.0).epsilon
        == groupdp.epsilon(doubled, delta=1e-6, group_size=2).upper
    )
    with refused("target"):
        calibrate(RUN, 0.1, group_size=8)
    with refused("alpha"):
        evaluator(RUN, group_size=8, alpha=1.5)
