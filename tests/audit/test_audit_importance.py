"""Importance sampling: exact laws, valid error bars, and agreement with tables and closed forms."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

import groupdp
from groupdp.audit import importance_delta
from groupdp.audit.importance import CappedTilt, RoundLaw, TiltedRound, _bernstein, log_normaliser
from groupdp.errors import LimitExceeded
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.samplings import FixedBatchSampling, PoissonSampling, Sampling
from paths import DATA
from refusals import refused

ONE_ROUND = json.loads((DATA / "one_round_delta.json").read_text())["cases"]
LAW = RoundLaw(0.8 * np.arange(3), np.log(np.array([0.5, 0.3, 0.2])))


def run_of(case: dict[str, str]) -> DPSGD:
    return DPSGD(
        sampling=PoissonSampling(rate=float(case["sampling_rate"])),
        noise_multiplier=float(case["noise_multiplier"]),
        steps=1,
    )


@pytest.mark.parametrize("case", [case for case in ONE_ROUND if case["sampling"] == "poisson"])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_one_round_agrees_with_the_table(case: dict[str, str], direction: str) -> None:
    truth = float(case[f"delta_{direction}"])
    estimate = importance_delta(
        run_of(case),
        group_size=int(case["group_size"]),
        epsilon=float(case["epsilon"]),
        direction=direction,
        samples=50_000,
        confidence=0.9999,
        seed=1,
    )
    assert estimate.lower <= truth <= estimate.upper
    if truth == 0.0:
        assert estimate.upper == 0.0
    else:
        assert estimate.upper / estimate.lower < 1.2


@pytest.mark.parametrize("epsilon", [2.0, 20.0, 60.0])
def test_the_gaussian_mechanism_agrees_with_its_closed_form(epsilon: float) -> None:
    """Everyone always sampled: sensitivity k, down to deltas that no trial would ever show."""
    k, noise, steps = 3, 4.0, 5
    run = DPSGD(sampling=PoissonSampling(rate=1.0), noise_multiplier=noise, steps=steps)
    shift = k * math.sqrt(steps) / noise
    truth = stats.norm.logcdf(shift / 2 - epsilon / shift)
    truth += math.log1p(-math.exp(epsilon + stats.norm.logcdf(-shift / 2 - epsilon / shift) - truth))
    for direction in ("add", "remove"):
        estimate = importance_delta(
            run, group_size=k, epsilon=epsilon, direction=direction, samples=50_000, confidence=0.9999
        )
        assert estimate.log_lower <= truth <= estimate.log_upper
        assert estimate.log_upper - estimate.log_lower < 0.3


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("rate", [0.3, 1.0, 2.5])
def test_normalisers_agree_with_plain_quadrature_and_with_algebra(direction: str, rate: float) -> None:
    for cap in (math.inf, 0.7) if direction == "remove" else (math.inf,):
        tilt = CappedTilt(direction=direction, rate=rate, cap=cap)
        u = np.linspace(-25.0, 25.0, 2_000_001)
        density = np.exp(tilt.log_density(LAW.log_ratio(u), u)) / math.sqrt(2.0 * math.pi)
        assert log_normaliser(LAW, tilt) == pytest.approx(math.log(float(density.sum() * (u[1] - u[0]))), abs=1e-9)
    # E[R^2] = sum_ij p_i p_j exp(m_i m_j), E[R] = 1.
    shifts, p = 0.8 * np.arange(3), np.array([0.5, 0.3, 0.2])
    second = float(p @ np.exp(np.outer(shifts, shifts)) @ p)
    assert log_normaliser(LAW, CappedTilt(direction="remove", rate=1.0)) == pytest.approx(math.log(second), abs=1e-13)
    assert log_normaliser(LAW, CappedTilt(direction="remove", rate=0.0)) == pytest.approx(0.0, abs=1e-13)


@pytest.mark.parametrize(
    "tilt",
    [
        CappedTilt(direction="remove", rate=1.5),
        CappedTilt(direction="remove", rate=6.0, cap=0.9),
        CappedTilt(direction="add", rate=4.0),
    ],
)
def test_draws_follow_the_tilted_law(tilt: CappedTilt) -> None:
    u = np.linspace(-20.0, 20.0, 400_001)
    log_ratio = LAW.log_ratio(u)
    weights = np.exp(tilt.log_density(log_ratio, u) - log_normaliser(LAW, tilt)) / math.sqrt(2.0 * math.pi)
    cdf = np.concatenate([[0.0], np.cumsum((weights[1:] + weights[:-1]) / 2.0 * (u[1] - u[0]))])
    draws = TiltedRound(LAW, tilt).draw(np.random.default_rng(3), 100_000)
    levels = log_ratio if tilt.direction == "remove" else -log_ratio[::-1]
    law = cdf if tilt.direction == "remove" else 1.0 - cdf[::-1]
    assert stats.kstest(draws, lambda loss: np.interp(loss, levels, law)).pvalue > 1e-4
    assert stats.kstest(draws + 0.1, lambda loss: np.interp(loss, levels, law)).pvalue < 1e-4


def test_the_error_bar_covers_as_often_as_stated() -> None:
    run = DPSGD(sampling=PoissonSampling(rate=0.3), noise_multiplier=1.5, steps=2)
    truth = groupdp.delta(run, epsilon=2.0, group_size=2, adjacency="remove").upper
    misses = 0
    for seed in range(60):
        estimate = importance_delta(
            run, group_size=2, epsilon=2.0, direction="remove", samples=2000, confidence=0.6, seed=seed
        )
        misses += not estimate.lower <= truth <= estimate.upper
        assert estimate.lower <= estimate.delta <= estimate.upper
    assert stats.binomtest(misses, 60, 0.4, alternative="greater").pvalue > 1e-3
    assert _bernstein(0.25, 10**6, 1e-3) < 0.002  # and it shrinks like a standard error


@pytest.mark.thinned(6)
@pytest.mark.parametrize("group_size", [1, 9])
@pytest.mark.parametrize(
    ("sampling", "noise", "steps", "samples"),
    [
        (PoissonSampling(rate=0.1), 1.0, 4, 1_000_000),
        (PoissonSampling(rate=0.02), 2.0, 40, 100_000),
        (FixedBatchSampling(batch_size=4, dataset_size=40), 2.0, 4, 1_000_000),
        (FixedBatchSampling(batch_size=10, dataset_size=30), 6.0, 40, 100_000),
    ],
    ids=["poisson", "poisson, rare", "fixed", "fixed, long"],
)
def test_at_one_in_a_million_it_is_within_one_per_cent_of_the_certified_value(
    sampling: Sampling, noise: float, steps: int, samples: int, group_size: int
) -> None:
    """A million samples have a standard error of about a quarter of a per cent, a tenth of that three times it."""
    run = DPSGD(sampling=sampling, noise_multiplier=noise, steps=steps)
    epsilon = groupdp.epsilon(run, delta=1e-6, group_size=group_size, tolerance=1e-6)
    direction = epsilon.provenance.adjacency
    assert direction is not None
    certified = groupdp.delta(run, epsilon=epsilon.upper, group_size=group_size, adjacency=direction)
    assert certified.upper == pytest.approx(1e-6, rel=1e-4)
    estimate = importance_delta(
        run,
        group_size=group_size,
        epsilon=epsilon.upper,
        direction=direction,
        samples=samples,
        confidence=0.9999,
        seed=2,
    )
    assert estimate.lower <= certified.upper
    assert certified.lower <= estimate.upper
    assert estimate.delta == pytest.approx(1e-6, rel=0.01 if samples == 1_000_000 else 0.03)


def test_beyond_the_largest_loss_delta_is_exactly_zero() -> None:
    run = DPSGD(sampling=PoissonSampling(rate=0.5), noise_multiplier=1.0, steps=2)
    largest = -2 * math.log(0.5)
    beyond = importance_delta(run, group_size=1, epsilon=largest, direction="add", samples=100)
    assert (beyond.delta, beyond.upper, beyond.log_upper) == (0.0, 0.0, -math.inf)
    just_below = importance_delta(run, group_size=1, epsilon=0.9 * largest, direction="add", samples=1000)
    assert just_below.upper > 0.0
    idle = DPSGD(sampling=PoissonSampling(rate=0.5), noise_multiplier=1.0, steps=0)
    assert importance_delta(idle, group_size=1, epsilon=0.1, direction="remove").upper == 0.0


def test_it_is_reproducible_and_reports_progress() -> None:
    run = DPSGD(sampling=PoissonSampling(rate=0.1), noise_multiplier=1.0, steps=3)
    seen: list[float] = []
    settings = {"group_size": 2, "epsilon": 3.0, "direction": "remove", "samples": 70_000}
    first = importance_delta(run, seed=5, progress=seen.append, **settings)  # type: ignore[arg-type]
    again = importance_delta(run, seed=5, **settings)  # type: ignore[arg-type]
    other = importance_delta(run, seed=6, **settings)  # type: ignore[arg-type]
    assert first == again
    assert first.log_delta != other.log_delta
    assert len(seen) == 3
    assert seen[-1] == 1.0


def test_what_cannot_be_sampled_is_refused_with_a_sentence() -> None:
    run = DPSGD(sampling=PoissonSampling(rate=0.1), noise_multiplier=1.0, steps=3)
    silent = DPSGD(sampling=PoissonSampling(rate=0.1), noise_multiplier=0.0, steps=3)
    with refused("direction"):
        importance_delta(run, group_size=1, epsilon=1.0, direction="both")
    with refused("run"):
        importance_delta(silent, group_size=1, epsilon=1.0, direction="add")
    with pytest.raises(LimitExceeded, match="samples x steps x components"):
        importance_delta(run, group_size=1, epsilon=1.0, direction="remove", samples=10**12)
    with pytest.raises(LimitExceeded, match="components of a mixture"):
        importance_delta(run, group_size=20_000, epsilon=1.0, direction="remove", samples=2)
