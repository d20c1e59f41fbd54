"""Trade-off curves where the contour does not answer: few rounds, rare losses, profiles. A few lattices do."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import groupdp
from groupdp.engines import Options, lattice
from groupdp.question import question_of
from groupdp.tradeoff.delta_curve import DeltaCurve
from groupdp.tradeoff.risk import risk, success
from strategies import examples


def poisson(rate: float, noise: float, steps: int) -> groupdp.DPSGD:
    return groupdp.DPSGD(groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)


FIXED = groupdp.DPSGD(groupdp.FixedBatchSampling(batch_size=500, dataset_size=50_000), noise_multiplier=2.0, steps=2000)
SHUFFLED = groupdp.DPSGD(groupdp.ShuffledSampling(batch_size=10, dataset_size=100), noise_multiplier=4.0, steps=30)
MICROBATCHES = groupdp.DPSGD(groupdp.PoissonSampling(rate=0.1), noise_multiplier=4.0, steps=50, microbatch_size=4)


@given(
    rate=st.floats(1e-3, 0.6),
    noise=st.floats(0.4, 4.0),
    steps=st.integers(2, 6),
    size=st.integers(1, 4),
    adjacency=st.sampled_from(["add", "remove", "substitute"]),
    made_for=st.floats(-0.5, 3.0),
    asked=st.floats(-1.5, 4.0),
)
@examples(8)
def test_a_lattice_made_for_one_epsilon_encloses_delta_at_every_other(
    rate: float, noise: float, steps: int, size: int, adjacency: str, made_for: float, asked: float
) -> None:
    """L-7: the composed measures dominate and are dominated, whatever epsilon they were refined for."""
    composition = question_of(poisson(rate, noise, steps), group_size=size, adjacency=adjacency).compositions[0][1]
    found, solution = lattice.neighbourhood(composition, epsilon=made_for, tolerance=1e-2)
    for epsilon in (made_for, asked):
        truth = lattice.log_delta(composition, epsilon=epsilon, tolerance=1e-3)
        if epsilon == made_for:
            assert max(found.lower, truth.lower) <= min(found.upper, truth.upper)
        if solution is not None:
            assert solution.below.log_delta_below(epsilon) <= truth.upper
            assert solution.above.log_delta_above(epsilon) >= truth.lower


def test_a_curve_without_contours_is_evaluated_by_few_lattices(monkeypatch) -> None:
    monkeypatch.setattr(DeltaCurve, "_by_contour", lambda *_: None)
    (_, composition), *_ = question_of(poisson(0.001, 1.1, 30), group_size=2, adjacency="remove").compositions
    curve = DeltaCurve(composition, Options())
    for i in range(60):
        epsilon = 0.006 * i
        lower, upper = curve.log_delta(epsilon)
        assert upper - lower <= 1e-4 * max(1.0, abs(upper))
        if i % 30 == 0:
            truth = groupdp.log_delta(poisson(0.001, 1.1, 30), epsilon=epsilon, group_size=2, adjacency="remove")
            assert max(lower, truth.lower) <= min(upper, truth.upper)
    assert curve.is_costly
    assert len(curve.lattices.kept) <= 16
    small = DeltaCurve(composition, Options(memory_budget=1 << 16))
    for i in range(6):  # what does not fit is not kept; what is not known is bounded all the same
        lower, upper = small.log_delta(0.06 * i)
        low, high = curve.log_delta(0.06 * i)
        assert max(lower, low) <= min(upper, high)
    assert sum(one.size for _, one in small.lattices.kept) <= 1 << 13
    assert small.lattices.made <= 16


@pytest.mark.thinned(6)
@pytest.mark.parametrize(("steps", "prior"), [(1, 0.5), (2, 0.5), (3, 0.3), (8, 0.9)])
def test_a_right_guess_is_known_however_few_rounds_there_are(steps: int, prior: float) -> None:
    """At prior 1/2 it is 1/2 + advantage / 2; asked after other questions, too."""
    run = poisson(0.01, 1.0, steps)
    function = groupdp.trade_off(run, group_size=4)
    function.curve([1e-6, 1e-3, 0.1, 0.5])
    level = math.log((1.0 - prior) / prior)
    delta = groupdp.delta(run, epsilon=level, group_size=4) if level >= 0.0 else None
    found = success(function, prior)
    assert found.upper - found.lower < 1e-5
    if delta is not None:
        truth = (1.0 - prior) + prior * delta.upper
        assert found.lower <= truth * (1.0 + 1e-9)
        assert found.upper >= (1.0 - prior) + prior * delta.lower
    else:  # always saying "took part" is right with probability `prior`
        assert found.lower >= prior * (1.0 - 1e-12)


@pytest.mark.thinned
@pytest.mark.parametrize("adjacency", ["zero-out", "substitute"])
def test_fixed_batches_with_examples_replaced_have_a_trade_off(adjacency: str) -> None:
    """A round known by its profile: curves come from the lattice engine, and both engines have an epsilon."""
    function = groupdp.trade_off(FIXED, group_size=1, adjacency=adjacency)
    deltas = {0.4 * i: groupdp.delta(FIXED, epsilon=0.4 * i, group_size=1, adjacency=adjacency) for i in range(0, 9, 2)}
    for rate in (1e-6, 0.01, 0.3):
        detected = function.true_positive_rate(rate)
        chords = [delta.upper + math.exp(epsilon) * rate for epsilon, delta in deltas.items()]
        assert detected.lower <= min(chords) * (1.0 + 1e-12)
        assert detected.upper >= 0.9 * min(chords)
        assert detected.upper - detected.lower <= 1e-3 * detected.upper
        assert not detected.tight
    contour, other = (
        groupdp.epsilon(FIXED, delta=1e-6, group_size=1, adjacency=adjacency, engine=engine)
        for engine in ("spectral", "lattice")
    )
    assert max(contour.lower, other.lower) <= min(contour.upper, other.upper)


@pytest.mark.parametrize(("run", "adjacency"), [(SHUFFLED, "zero-out"), (MICROBATCHES, "remove")])
def test_every_answer_about_a_run_says_the_same_of_its_tightness(run: groupdp.DPSGD, adjacency: str) -> None:
    assert not groupdp.epsilon(run, delta=1e-5, group_size=2, adjacency=adjacency).tight
    function = groupdp.trade_off(run, group_size=2, adjacency=adjacency)
    found = risk(run, group_size=2, adjacency=adjacency, false_positive_rates=(0.01,))
    answers = [
        function.true_positive_rate(0.01),
        function.false_negative_rate(0.01),
        function.log_true_positive_rate(-5.0),
        function.log_delta(0.5),
        found.advantage,
        found.true_positive_rate[0.01],
        found.posterior[0.01],
        found.success,
    ]
    distribution = groupdp.PrivacyLossDistribution.from_run(run, group_size=2, adjacency=adjacency)
    answers += [
        distribution.epsilon(1e-5),
        distribution.delta(0.5),
        distribution.log_delta(0.5),
        distribution.self_compose(2).delta(0.5),
        distribution.mean,
        distribution.cdf(0.5),
        distribution.quantile(0.5),
    ]
    assert not any(answer.tight for answer in answers)
    tight = poisson(0.1, 4.0, 50)
    assert groupdp.trade_off(tight, group_size=2).true_positive_rate(0.01).tight
    assert groupdp.PrivacyLossDistribution.from_run(tight, group_size=2).epsilon(1e-5).tight


def test_a_file_keeps_whether_a_distribution_is_tight(tmp_path) -> None:
    for run, tight in ((MICROBATCHES, False), (poisson(0.1, 4.0, 50), True)):
        distribution = groupdp.PrivacyLossDistribution.from_run(run, group_size=2)
        distribution.save(tmp_path / "distribution.npz")
        assert groupdp.PrivacyLossDistribution.load(tmp_path / "distribution.npz").delta(0.5).tight is tight


@pytest.mark.parametrize(("engine", "most"), [("auto", 16), ("lattice", 32)])
def test_refusals_and_lattices_of_their_own_are_limited_too(monkeypatch, engine: str, most: int) -> None:
    """Each may take as long as a lattice: after a few, what is known on either side is the answer."""
    (_, composition), *_ = question_of(poisson(0.1, 2.0, 3), group_size=2, adjacency="remove").compositions
    monkeypatch.setattr(DeltaCurve, "_by_contour", lambda *_: None)
    curve = DeltaCurve(composition, Options(engine=engine))
    first = curve.log_delta(0.1)
    asked = []

    def refuse(*_: object, **named: object) -> None:
        asked.append(named)
        raise groupdp.LimitExceeded("out of time")

    monkeypatch.setattr(lattice, "neighbourhood", refuse)
    monkeypatch.setattr(lattice, "log_delta", refuse)
    for i in range(60):
        lower, upper = curve.log_delta(5.0 + i)
        assert lower == -math.inf
        assert upper <= first[1]
    assert 0 < len(asked) <= most
