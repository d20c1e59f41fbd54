"""The worst cases go through DP-SGD, and the attack on them is the exact likelihood ratio."""

from __future__ import annotations

import ast
import itertools
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import groupdp.audit
from groupdp.audit import (
    attack_scores,
    log_likelihood_ratio,
    slope_gradient,
    train_many,
    training_phases,
    worst_case,
)
from groupdp.audit.importance import law_of
from groupdp.errors import LimitExceeded
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.samplings import FixedBatchSampling, PoissonSampling, Sampling
from refusals import refused
from strategies import examples


def run_of(sampling: Sampling, *, noise: float = 1.0, steps: int = 1) -> DPSGD:
    return DPSGD(sampling=sampling, noise_multiplier=noise, steps=steps)


def moves(run: DPSGD, group_size: int, *, with_group: bool, trials: int, seed: int, **shape: float) -> np.ndarray:
    """(theta_i - theta_{i-1}) / (eta L) of every trial and round."""
    instance = worst_case(run, group_size=group_size, ordinary_examples=3, **shape)  # type: ignore[arg-type]
    iterates = train_many(
        slope_gradient,
        instance.with_group if with_group else instance.without_group,
        training_phases(run),
        trials=trials,
        generator=np.random.default_rng(seed),
        initial_model=0.0,
        clipping_norm=instance.clipping_norm,
        step_size=instance.step_size,
    )
    return np.diff(iterates[:, :, 0], axis=0) / (instance.step_size * instance.clipping_norm)


@pytest.mark.parametrize("group_size", [1, 4, 9])
@pytest.mark.parametrize("with_group", [False, True])
@pytest.mark.parametrize(
    "sampling",
    [PoissonSampling(rate=0.2), FixedBatchSampling(batch_size=5, dataset_size=11)],
    ids=["poisson", "fixed"],
)
def test_without_noise_the_iterates_move_by_the_theorems_sensitivities(
    sampling: Sampling, with_group: bool, group_size: int
) -> None:
    trials = 30_000
    seen = moves(run_of(sampling, noise=0.0), group_size, with_group=with_group, trials=trials, seed=8)[0]
    if isinstance(sampling, FixedBatchSampling):
        seen = (seen + sampling.batch_size) / 2.0
        law = stats.hypergeom(11 + group_size, group_size, 5)
    else:
        law = stats.binom(group_size, 0.2)
    if not with_group:
        assert np.all(seen == 0.0)
        return
    values = range(group_size + 1)
    counts = [int(np.sum(seen == value)) for value in values]
    assert sum(counts) == trials
    p_values = [
        stats.binomtest(count, trials, min(1.0, float(law.pmf(value)))).pvalue
        for value, count in zip(values, counts, strict=True)
    ]
    assert min(p_values) * len(p_values) > 1e-4


def test_steeper_losses_are_clipped_to_the_same_iterates() -> None:
    run = run_of(FixedBatchSampling(batch_size=2, dataset_size=6), noise=0.5, steps=3)
    gentle = moves(run, 2, with_group=True, trials=50, seed=1)
    steep = moves(run, 2, with_group=True, trials=50, seed=1, steepness=7.0, clipping_norm=3.0, step_size=0.1)
    np.testing.assert_allclose(steep, gentle, rtol=1e-9, atol=1e-9)


def enumerated_ratio(run: DPSGD, group_size: int, ordinary: int, path: np.ndarray) -> float:
    """log p(path | with) - log p(path | without), by summing over every possible batch of every round."""
    sampling, sigma = run.sampling, run.noise_multiplier
    fixed = isinstance(sampling, FixedBatchSampling)

    def density(move: float, slopes: list[float]) -> float:
        batches: list[tuple[float, tuple[float, ...]]] = []
        if isinstance(sampling, FixedBatchSampling):
            every = list(itertools.combinations(slopes, sampling.batch_size))
            batches = [(1.0 / len(every), batch) for batch in every]
        else:
            for included in itertools.product([False, True], repeat=len(slopes)):
                weight = math.prod(sampling.rate if inside else 1.0 - sampling.rate for inside in included)
                batches.append((weight, tuple(itertools.compress(slopes, included))))
        return math.fsum(weight * math.exp(-((move + sum(batch)) ** 2) / (2.0 * sigma**2)) for weight, batch in batches)

    without = [1.0 if fixed else 0.0] * ordinary
    both = [*without, *([-1.0] * group_size)]
    return math.fsum(math.log(density(move, both)) - math.log(density(move, without)) for move in path)


@examples(40)
@given(
    group_size=st.integers(1, 4),
    ordinary=st.integers(1, 5),
    batch_size=st.integers(1, 5),
    rate=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    noise=st.sampled_from([0.7, 1.0, 3.0]),
    fixed=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_the_attack_is_the_exact_likelihood_ratio_by_enumeration_of_all_batches(
    group_size: int, ordinary: int, batch_size: int, rate: float, noise: float, fixed: bool, seed: int
) -> None:
    sampling: Sampling = PoissonSampling(rate=rate)
    if fixed:
        sampling = FixedBatchSampling(batch_size=min(batch_size, ordinary), dataset_size=ordinary)
    run = run_of(sampling, noise=noise, steps=2)
    instance = worst_case(run, group_size=group_size, ordinary_examples=ordinary, step_size=0.5)
    iterates = train_many(
        slope_gradient,
        instance.with_group if seed % 2 else instance.without_group,
        training_phases(run),
        trials=2,
        generator=np.random.default_rng(seed),
        initial_model=1.0,
        step_size=0.5,
    )
    ratios = log_likelihood_ratio(iterates, instance)
    for trial in range(2):
        path = np.diff(iterates[:, trial, 0]) / 0.5
        expected = enumerated_ratio(run, group_size, ordinary, path)
        assert ratios[trial] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_phases_add_up() -> None:
    first, second = (run_of(PoissonSampling(rate=0.3), noise=noise, steps=2) for noise in (1.0, 2.0))
    both = worst_case([first, second], group_size=2)
    iterates = train_many(
        slope_gradient,
        both.with_group,
        training_phases([first, second]),
        trials=5,
        generator=np.random.default_rng(4),
        initial_model=0.0,
    )
    parts = log_likelihood_ratio(iterates[:3], worst_case(first, group_size=2)) + log_likelihood_ratio(
        iterates[2:], worst_case(second, group_size=2)
    )
    np.testing.assert_allclose(log_likelihood_ratio(iterates, both), parts, rtol=1e-12)


def test_far_out_and_with_tiny_weights_the_ratio_stays_finite() -> None:
    run = run_of(PoissonSampling(rate=1e-200), noise=1e-2)
    instance = worst_case(run, group_size=3)
    assert law_of(run, group_size=3).log_weights[3] == pytest.approx(3 * math.log(1e-200), rel=1e-12)
    ratio = log_likelihood_ratio(np.array([[[0.0]], [[3.0]]]), instance)
    assert ratio[0] == pytest.approx(3 * math.log(1e-200) + 9.0 / 2.0e-4, rel=1e-12)


@pytest.mark.parametrize("rate", [1e-9, 0.3, 1.0])
def test_large_populations_have_the_right_weights_too(rate: float) -> None:
    poisson = run_of(PoissonSampling(rate=rate))
    fixed = run_of(FixedBatchSampling(batch_size=300, dataset_size=10**6))
    seen = law_of(poisson, group_size=3000).log_weights
    expected = stats.binom.logpmf(np.arange(3001), 3000, rate)
    if rate == 1.0:  # what is impossible is not listed
        expected = expected[-1:]
    np.testing.assert_allclose(seen[expected > -700.0], expected[expected > -700.0], rtol=1e-9, atol=1e-9)
    seen = law_of(fixed, group_size=500).log_weights
    # C(k, i) C(n, B - i) / C(n + k, B), by exact integers at a few places.
    for i in (0, 1, 7, 300):
        weight = Fraction(math.comb(500, i) * math.comb(10**6, 300 - i), math.comb(10**6 + 500, 300))
        exact = math.log(weight.numerator) - math.log(weight.denominator)
        assert seen[i] == pytest.approx(exact, rel=1e-10, abs=1e-10)


def test_scores_are_reproducible_and_independent_of_the_report_of_progress() -> None:
    instance = worst_case(run_of(PoissonSampling(rate=0.2), steps=2), group_size=2)
    reports: list[float] = []
    trials = 200_000  # several chunks
    first = attack_scores(instance, trials=trials, seed=1, progress=reports.append)
    again = attack_scores(instance, trials=trials, seed=1)
    other = attack_scores(instance, trials=trials, seed=2)
    assert np.array_equal(first.with_group, again.with_group)
    assert np.array_equal(first.without_group, again.without_group)
    assert not np.array_equal(first.with_group, other.with_group)
    assert len(reports) > 2
    assert reports == sorted(reports)
    assert reports[-1] == 1.0


def test_an_exception_in_progress_stops_the_simulation() -> None:
    def stop(fraction: float) -> None:
        raise KeyboardInterrupt

    instance = worst_case(run_of(PoissonSampling(rate=0.2)), group_size=2)
    with pytest.raises(KeyboardInterrupt):
        attack_scores(instance, trials=10, seed=1, progress=stop)


def test_what_cannot_be_simulated_is_refused_with_a_sentence() -> None:
    poisson, fixed = PoissonSampling(rate=0.2), FixedBatchSampling(batch_size=2, dataset_size=6)
    with refused("run", value="Poisson sampling and fixed-size batches"):
        worst_case([run_of(poisson), run_of(fixed)], group_size=1)
    other = run_of(FixedBatchSampling(batch_size=2, dataset_size=7))
    with refused("dataset_size"):
        worst_case([run_of(fixed), other], group_size=1)
    with refused("group_size"):
        worst_case(run_of(poisson), group_size=0)
    with pytest.raises(LimitExceeded, match="at most 1000000 examples"):
        worst_case(run_of(FixedBatchSampling(batch_size=2, dataset_size=10**9)), group_size=1)
    with pytest.raises(LimitExceeded, match="inclusion indicators"):
        attack_scores(worst_case(run_of(poisson, steps=10**6), group_size=10), trials=10**6, seed=0)
    with pytest.raises(LimitExceeded, match="at most 1000000 steps"):
        attack_scores(worst_case(run_of(poisson, steps=10**9), group_size=1), trials=1, seed=0)
    with refused("noise_multiplier"):
        attack_scores(worst_case(run_of(poisson, noise=0.0), group_size=1), trials=5, seed=0)


def test_the_simulation_shares_nothing_with_the_accountant() -> None:
    folder = Path(groupdp.audit.__file__).parent
    allowed = {
        "groupdp._files",
        "groupdp.errors",
        "groupdp.floats",  # the types of arrays
        "groupdp.mechanisms.correlated",  # descriptions, and a strategy's own matrix
        "groupdp.mechanisms.dpsgd",
        "groupdp.groups",
        "groupdp.neighbours",
    }
    allowed |= {"groupdp.samplings.audited"}
    datasets = (folder.parent / "samplings" / "audited.py").read_text()
    assert "import groupdp" not in datasets
    assert re.findall(r"from (groupdp\S*)", datasets) == ["groupdp.errors", "groupdp.floats"]
    simulation = {"worst_cases", "simulation"}
    allowed |= {f"groupdp.audit.{name}" for name in simulation}
    for name in simulation:
        imported: set[str] = set()
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0
                imported.add(node.module or "")
        assert {module for module in imported if module.startswith("groupdp")} <= allowed
