"""Calibrations against ball arithmetic: what is returned meets the target, what is said to fail exceeds it."""

from __future__ import annotations

import random

import flint
import pytest
from flint import arb

import groupdp
import oracle
from containment.balls import ball, gaussian_delta
from containment.half_line_truth import exact
from groupdp.calibration import calibrate_group_size, calibrate_noise, calibrate_rate, calibrate_steps


@pytest.mark.parametrize("seed", range(6))
def test_noise_of_a_gaussian_mechanism(seed: int) -> None:
    """Without sampling: delta at the target epsilon is at most the target at the value, and above it beyond."""
    generator = random.Random(seed)
    epsilon, delta = 10.0 ** generator.uniform(-2.0, 2.0), 10.0 ** generator.uniform(-280.0, -2.0)
    steps, size = generator.choice([1, 50, 10_000]), generator.choice([1, 4])
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1.0), noise_multiplier=1.0, steps=steps)
    found = calibrate_noise(run, epsilon=epsilon, delta=delta, group_size=size)
    with flint.ctx.workprec(1200):
        for value, sign in ((found.value, 1), (found.failing_value, -1)):
            if value is None:
                continue
            truth = gaussian_delta(ball(epsilon), size * arb(steps).sqrt() / ball(value))
            assert not sign * (truth - ball(delta)) > 0, (found, truth.str(20))
    assert found.proved_optimal


@pytest.mark.thinned
@pytest.mark.parametrize("seed", [1, 0])
def test_noise_and_rate_of_one_sampled_round(seed: int) -> None:
    generator = random.Random(100 + seed)
    delta, epsilon = 10.0 ** generator.uniform(-30.0, -4.0), 10.0 ** generator.uniform(-1.0, 1.0)
    rate, noise = 10.0 ** generator.uniform(-3.0, -0.5), 10.0 ** generator.uniform(-0.3, 0.7)
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=1)
    question = {"epsilon": epsilon, "delta": delta, "group_size": 1, "adjacency": "remove"}
    for found, name in (
        (calibrate_noise(run, **question), "noise_multiplier"),
        (calibrate_rate(run, **question), "sampling_rate"),
    ):
        for value, sign in ((found.value, 1), (found.failing_value, -1)):
            if value is None:
                continue
            description = {"sampling_rate": exact(rate), "noise_multiplier": exact(noise), "steps": 1}
            description[name] = exact(value)
            composition = oracle.compose([description], group_size=1)
            truth = oracle.log_delta(composition, epsilon=exact(epsilon), direction="remove")
            assert not sign * (truth - ball(delta).log()) > 0, (found, truth.str(20))


@pytest.mark.parametrize("seed", range(4))
def test_steps_and_groups_of_a_gaussian_mechanism(seed: int) -> None:
    generator = random.Random(200 + seed)
    epsilon, delta = generator.uniform(0.5, 20.0), 10.0 ** generator.uniform(-100.0, -3.0)
    noise = generator.uniform(20.0, 300.0)
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1.0), noise_multiplier=noise, steps=1)
    question = {"epsilon": epsilon, "delta": delta}
    with flint.ctx.workprec(800):
        steps = calibrate_steps(run, **question, group_size=1)
        size = calibrate_group_size(run, **question)
        for found, shift in ((steps, lambda n: arb(n).sqrt()), (size, arb)):
            assert found.value >= 1
            for value, sign in ((found.value, 1), (found.failing_value, -1)):
                if value is not None:
                    truth = gaussian_delta(ball(epsilon), shift(int(value)) / ball(noise))
                    assert not sign * (truth - ball(delta)) > 0, (found, truth.str(20))
