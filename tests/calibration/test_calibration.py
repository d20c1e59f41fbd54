"""Calibration: never above the target, and nothing better meets it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import Phase, assume, given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtr

import groupdp
from groupdp.calibration import (
    Calibration,
    calibrate_batch_size,
    calibrate_group_size,
    calibrate_noise,
    calibrate_rate,
    calibrate_steps,
)
from groupdp.errors import InvalidArgument
from refusals import refused
from strategies import examples

#: Shrinking would repeat seconds of work hundreds of times; the failing example is printed as it is.
GENERATE = (Phase.explicit, Phase.reuse, Phase.generate)

PAPER = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
FIXED = groupdp.DPSGD(
    sampling=groupdp.FixedBatchSampling(batch_size=100, dataset_size=50_000), noise_multiplier=2.0, steps=2000
)
EVERYONE = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1.0), noise_multiplier=1.0, steps=100)


def assert_optimal(found: Calibration, *, better: float) -> None:
    """The certificates in the result, and both repeated from scratch through `groupdp.epsilon`."""
    assert found.proved_optimal
    assert found.epsilon.upper <= found.target_epsilon
    assert found.failing_value == better
    assert found.failing_epsilon is not None
    assert found.failing_epsilon.lower > found.target_epsilon
    again = groupdp.epsilon(found.run, delta=found.delta, group_size=found.group_size, adjacency=found.adjacency)
    assert again.upper <= found.target_epsilon


def gaussian_delta(epsilon: float, mu: float) -> float:
    return float(ndtr(0.5 * mu - epsilon / mu) - math.exp(epsilon) * ndtr(-0.5 * mu - epsilon / mu))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0, 12.0])
def test_without_sampling_the_noise_is_that_of_the_gaussian_mechanism(epsilon: float) -> None:
    """q = 1: a Gaussian mechanism with mu = k sqrt(T) / sigma (Balle and Wang 2018)."""
    found = calibrate_noise(EVERYONE, epsilon=epsilon, delta=1e-6, group_size=3)
    mu = 3 * math.sqrt(100) / found.value
    assert gaussian_delta(epsilon, mu) == pytest.approx(1e-6, rel=1e-6)
    assert gaussian_delta(epsilon, mu * (1 + 1e-7)) > 1e-6


def test_noise_at_the_papers_setting_is_optimal_and_returns_to_its_target() -> None:
    found = calibrate_noise(PAPER, epsilon=40.0, delta=1e-6, group_size=9)
    assert_optimal(found, better=found.value * (1 - 1e-9))
    assert found.epsilon.lower >= 40.0 - 1e-8
    assert found.evaluations <= 10


@pytest.mark.parametrize("epsilon", [0.01, 1000.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-30])
def test_noise_at_extreme_targets(epsilon: float, delta: float) -> None:
    found = calibrate_noise(PAPER, epsilon=epsilon, delta=delta, group_size=8)
    assert_optimal(found, better=found.value * (1 - 1e-9))


@examples(20, phases=GENERATE)
@given(
    rate=st.floats(1e-3, 0.3),
    steps=st.integers(1000, 100_000),
    group_size=st.integers(1, 12),
    epsilon=st.floats(0.05, 20.0),
    log_delta=st.floats(-40.0, -5.0),
    adjacency=st.sampled_from(["add", "remove", "add-or-remove"]),
)
def test_no_smaller_noise_meets_the_target(
    rate: float, steps: int, group_size: int, epsilon: float, log_delta: float, adjacency: str
) -> None:
    assume(rate * steps >= 10.0)
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=0.0, steps=steps)
    found = calibrate_noise(
        run, epsilon=epsilon, delta=math.exp(log_delta), group_size=group_size, adjacency=adjacency, tolerance=1e-6
    )
    assert found.epsilon.upper <= epsilon
    if found.value == 0.0:  # so rarely sampled that no noise is needed
        assert found.failing_value is None
        return
    assert_optimal(found, better=found.value * (1 - 1e-6))


@examples(12, phases=GENERATE)
@given(
    rate=st.floats(1e-3, 0.05),
    noise=st.floats(0.8, 4.0),
    group_size=st.integers(1, 6),
    epsilon=st.floats(2.0, 30.0),
)
def test_one_more_step_exceeds_the_target(rate: float, noise: float, group_size: int, epsilon: float) -> None:
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=1)
    try:
        found = calibrate_steps(run, epsilon=epsilon, delta=1e-6, group_size=group_size)
    except InvalidArgument:
        one = groupdp.epsilon(run, delta=1e-6, group_size=group_size)
        assert one.lower > epsilon
        return
    assert isinstance(found.value, int)
    assert_optimal(found, better=found.value + 1)


def test_one_more_example_in_batch_or_group_exceeds_the_target() -> None:
    batch = calibrate_batch_size(FIXED, epsilon=8.0, delta=1e-6, group_size=9)
    assert_optimal(batch, better=batch.value + 1)
    group = calibrate_group_size(PAPER, epsilon=40.0, delta=1e-6)
    assert group.value == 8
    assert_optimal(group, better=9)


def test_the_largest_rate_is_optimal_and_where_rate_one_passes_it_is_one() -> None:
    found = calibrate_rate(PAPER, epsilon=8.0, delta=1e-6, group_size=4)
    assert_optimal(found, better=found.value * (1 + 1e-9))
    quiet = replace(PAPER, noise_multiplier=1e6)
    whole = calibrate_rate(quiet, epsilon=8.0, delta=1e-6, group_size=4)
    assert whole.value == 1.0
    assert whole.proved_optimal
    assert whole.failing_value is None


def test_phases_share_one_factor() -> None:
    found = calibrate_noise([PAPER, FIXED], epsilon=8.0, delta=1e-6, group_size=4)
    assert_optimal(found, better=found.value * (1 - 1e-9))
    assert found.parameter == "noise_factor"
    assert isinstance(found.run, tuple)
    assert [phase.noise_multiplier for phase in found.run] == [found.value * 1.0, found.value * 2.0]


def test_a_named_phase_is_extended() -> None:
    found = calibrate_steps([PAPER, FIXED], epsilon=48.0, delta=1e-6, group_size=9, phase=1)
    assert_optimal(found, better=found.value + 1)
    assert isinstance(found.run, tuple)
    assert found.run[0] == PAPER
    assert found.run[1].steps == found.value


def test_the_noise_of_the_last_release_that_still_fits() -> None:
    """Gaussian releases with groups of 8 and 3: their squared distances add up to that of the target."""
    earlier, later = groupdp.GaussianRelease(20.0), groupdp.GaussianRelease(1.0)
    found = calibrate_noise([(earlier, 8), (later, 3)], epsilon=2.0, delta=1e-6, phase=-1)

    def excess(mu: float) -> float:
        return float(ndtr(mu / 2 - 2.0 / mu) - math.exp(2.0) * ndtr(-mu / 2 - 2.0 / mu) - 1e-6)

    mu = brentq(excess, 0.1, 2.0, xtol=1e-14)
    assert found.value == pytest.approx(3.0 / math.sqrt(mu**2 - (8 / 20) ** 2), rel=1e-8)
    assert found.proved_optimal
    first, last = found.run
    assert (first.mechanism, first.group, last.group) == (earlier, 8, 3)
    assert groupdp.epsilon([(earlier, 8), (last.mechanism, 3)], delta=1e-6).upper <= 2.0


def test_steps_of_the_last_release_that_still_fit() -> None:
    histogram = groupdp.GaussianRelease(10.0)
    found = calibrate_steps([(histogram, 2), (PAPER, 4)], epsilon=8.0, delta=1e-6, phase=-1)
    fits, too_many = (replace(PAPER, steps=steps) for steps in (found.value, found.value + 1))
    assert groupdp.epsilon([(histogram, 2), (fits, 4)], delta=1e-6).upper <= 8.0
    assert groupdp.epsilon([(histogram, 2), (too_many, 4)], delta=1e-6).lower > 8.0
    with pytest.raises(InvalidArgument) as error:
        calibrate_steps([(PAPER, 4), (histogram, 2)], epsilon=8.0, delta=1e-6, phase=-1)
    assert error.value.argument == "run"


def test_noise_is_zero_where_the_group_is_hardly_ever_sampled() -> None:
    """delta = 1 - (1 - q)^(k T) is reached without noise."""
    rare = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1e-9), noise_multiplier=1.0, steps=100)
    found = calibrate_noise(rare, epsilon=1.0, delta=1e-3, group_size=5)
    assert found.value == 0.0
    assert found.epsilon.upper <= 1.0


@pytest.mark.parametrize(
    ("call", "argument", "value"),
    [
        (lambda: calibrate_group_size(PAPER, epsilon=0.5, delta=1e-6), "epsilon", 0.5),
        (
            lambda: calibrate_steps([PAPER, FIXED], epsilon=8.0, delta=1e-6, group_size=9, phase=1),
            "epsilon",
            8.0,
        ),
        (
            lambda: calibrate_steps(EVERYONE, epsilon=1.0, delta=1e-6, group_size=9),
            "epsilon",
            1.0,
        ),
        (lambda: calibrate_steps([PAPER, FIXED], epsilon=8.0, delta=1e-6, group_size=9), "phase", None),
        (lambda: calibrate_noise(PAPER, epsilon=0.0, delta=1e-6, group_size=9), "epsilon", 0.0),
        (lambda: calibrate_noise(PAPER, epsilon=1.0, delta=1.0, group_size=9), "delta", 1.0),
        (lambda: calibrate_noise(PAPER, epsilon=1.0, delta=0.5, group_size=0), "group_size", 0),
        (
            lambda: calibrate_noise(PAPER, epsilon=1.0, delta=0.5, group_size=1, tolerance=0.0),
            "tolerance",
            0.0,
        ),
        (
            lambda: calibrate_rate(FIXED, epsilon=1.0, delta=0.5, group_size=1),
            "sampling",
            ...,
        ),
        (
            lambda: calibrate_batch_size(PAPER, epsilon=1.0, delta=0.5, group_size=1),
            "sampling",
            ...,
        ),
        (
            lambda: calibrate_noise(
                [PAPER, replace(FIXED, noise_multiplier=0.0)], epsilon=1.0, delta=1e-6, group_size=1
            ),
            "noise_multiplier",
            "0 in one of them",
        ),
    ],
)
def test_impossible_targets_and_bad_arguments_get_a_sentence(call, argument, value) -> None:  # type: ignore[no-untyped-def]
    with refused(argument, value=value) as caught:
        call()
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("group_size", [1, 16])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize(("rate", "steps", "delta"), [(0.002, 20_000, 1e-9), (0.02, 500, 1e-5), (1.0, 60, 1e-4)])
def test_ten_engine_calls_are_enough(rate: float, steps: int, delta: float, epsilon: float, group_size: int) -> None:
    """For a value to nine digits and the proof that the next one fails, far from and near to the central limit."""
    run = groupdp.DPSGD(groupdp.PoissonSampling(rate=rate), noise_multiplier=20.0, steps=steps)
    asked = {"epsilon": epsilon, "delta": delta, "group_size": group_size}
    found = [calibrate_noise(run, **asked), groupdp.calibrate_rate(run, **asked)]
    if 1.0 <= epsilon <= 10.0 and group_size == 1:
        found.append(groupdp.calibrate_steps(run, **asked))
    for one in found:
        assert one.proved_optimal
        assert one.evaluations <= 10


#: The most calls of an engine; the targets below took most of some hundred drawn at random.
_MOST_CALLS = 10


@pytest.mark.parametrize(
    ("calibrate", "rate", "noise", "steps", "size", "epsilon", "delta", "adjacency"),
    [
        (calibrate_noise, 3.1e-5, 1.0, 217, 1, 1.74, 1.2e-6, "remove"),
        (calibrate_noise, 2.3e-5, 1.0, 2, 13, 10.36, 1.4e-4, "add-or-remove"),
        (calibrate_noise, 0.015, 1.0, 1, 2, 3.6, 3.9e-7, "add-or-remove"),
        (calibrate_noise, 0.3, 1.0, 6, 4, 0.02, 1e-8, "add-or-remove"),
        (calibrate_noise, 1e-6, 1.0, 10_000, 8, 0.005, 1.3e-10, "add-or-remove"),
        (calibrate_steps, 0.0029, 0.868, 1, 9, 16.03, 6.5e-5, "add-or-remove"),
        (calibrate_steps, 0.2, 3.0, 1, 2, 4.0, 1e-7, "add"),
        (calibrate_rate, 0.5, 0.695, 12_391, 9, 0.101, 2.9e-6, "remove"),
        (calibrate_rate, 0.5, 0.992, 375, 21, 9.83, 3.7e-10, "add-or-remove"),
        (calibrate_group_size, 0.01, 2.0, 2000, None, 9.0, 1e-6, "add-or-remove"),
        (calibrate_group_size, 1e-5, 1.0, 5000, None, 0.5, 1e-9, "remove"),
    ],
)
def test_a_calibration_asks_an_engine_ten_times_at_most(
    calibrate, rate, noise, steps, size, epsilon, delta, adjacency
) -> None:
    run = groupdp.DPSGD(groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)
    group = {} if size is None else {"group_size": size}
    found = calibrate(run, epsilon=epsilon, delta=delta, adjacency=adjacency, **group)
    assert found.epsilon.upper <= epsilon
    assert found.proved_optimal
    assert 0 < found.evaluations <= _MOST_CALLS


@pytest.mark.parametrize(("batch", "dataset", "size", "epsilon"), [(24, 197_936, 4, 0.1), (119, 21_199, 1, 0.73)])
def test_a_batch_or_noise_for_fixed_batches_takes_ten_calls_at_most(batch, dataset, size, epsilon) -> None:
    sampling = groupdp.FixedBatchSampling(batch_size=batch, dataset_size=dataset)
    run = groupdp.DPSGD(sampling, noise_multiplier=1.4, steps=103)
    for calibrate in (calibrate_noise, calibrate_batch_size):
        found = calibrate(run, epsilon=epsilon, delta=2e-8, group_size=size)
        assert found.proved_optimal
        assert found.evaluations <= _MOST_CALLS
