"""The trade-off function: closed form, duality, shape, tails; what is derived from it."""

from __future__ import annotations

import math
from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import Phase, example, given
from hypothesis import strategies as st
from scipy.special import ndtri

import groupdp
from groupdp.baselines.fdp import fdp_epsilon
from groupdp.bounds import Bounds
from groupdp.engines import Options
from groupdp.question import question_of
from groupdp.tradeoff import trade_off
from groupdp.tradeoff.delta_curve import DeltaCurve
from groupdp.tradeoff.minorant import Minorant, smallest_sum
from groupdp.tradeoff.risk import gaussian_delta, posterior, risk
from refusals import refused
from strategies import examples

PAPER = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
RATES = [1e-12, 1e-9, 1e-6, 1e-3, 0.05, 0.2, 0.5, 0.8, 0.99, 1 - 1e-6, 1 - 2.0**-40]


def everyone(noise: float) -> groupdp.DPSGD:
    """q = 1 over 100 steps: the Gaussian mechanism with mu = 10 / noise."""
    return groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1.0), noise_multiplier=noise, steps=100)


def gaussian_errors(alpha: float, mu: float) -> tuple[float, float]:
    """(FNR, TPR) = Phi(z - mu), Phi(mu - z) with z = Phi^-1(1 - alpha), in 200-bit ball arithmetic."""
    with flint.ctx.workprec(200):
        root, a = flint.arb(2).sqrt(), flint.arb(alpha)
        z = flint.arb(float(-ndtri(alpha)) if alpha < 0.5 else float(ndtri(1.0 - alpha)))
        for _ in range(5):
            density = (-z * z / 2).exp() / (2 * flint.arb.pi()).sqrt()
            z = (z + ((z / root).erfc() / 2 - a) / density).mid()
        return float(((mu - z) / root).erfc() / 2), float(((z - mu) / root).erfc() / 2)


@pytest.mark.parametrize("noise", [4.0, 10.0, 80.0])
@pytest.mark.parametrize("adjacency", ["add", "remove", "add-or-remove"])
def test_without_sampling_it_is_the_gaussian_trade_off(noise: float, adjacency: str) -> None:
    curve = trade_off(everyone(noise), group_size=1, adjacency=adjacency).curve(RATES)
    for i, alpha in enumerate(RATES):
        fnr, tpr = gaussian_errors(alpha, 10.0 / noise)
        one = 1e-15  # the reference is rounded to a double
        assert curve.false_negative_rate_lower[i] <= fnr * (1 + one)
        assert curve.false_negative_rate_upper[i] >= fnr * (1 - one)
        assert curve.true_positive_rate_lower[i] <= tpr * (1 + one)
        assert curve.true_positive_rate_upper[i] >= tpr * (1 - one)
        assert curve.false_negative_rate_upper[i] - curve.false_negative_rate_lower[i] <= 1e-10
        # Tails keep their relative accuracy.
        assert curve.true_positive_rate_upper[i] - curve.true_positive_rate_lower[i] <= 1e-9 * tpr
        assert curve.false_negative_rate_upper[i] - curve.false_negative_rate_lower[i] <= 1e-9 * fnr


@pytest.mark.parametrize("adjacency", ["add", "remove", "add-or-remove"])
@pytest.mark.parametrize("group_size", [1, 9])
def test_delta_is_recovered_by_duality(adjacency: str, group_size: int) -> None:
    """delta(eps) = max over alpha of TPR - e^eps alpha, attained where the tangent has slope e^eps."""
    function = trade_off(PAPER, group_size=group_size, adjacency=adjacency)
    for epsilon in (0.5, 2.0):
        exact = groupdp.delta(PAPER, epsilon=epsilon, group_size=group_size, adjacency=adjacency)
        step = 1e-4
        ahead = groupdp.delta(PAPER, epsilon=epsilon + step, group_size=group_size, adjacency=adjacency)
        behind = groupdp.delta(PAPER, epsilon=epsilon - step, group_size=group_size, adjacency=adjacency)
        alpha = (behind.upper - ahead.upper) / (2 * step) * math.exp(-epsilon)
        tpr = function.true_positive_rate(alpha)
        assert tpr.lower - math.exp(epsilon) * alpha <= exact.upper
        assert tpr.upper - math.exp(epsilon) * alpha >= exact.lower - 1e-6 * exact.lower
        assert tpr.lower - math.exp(epsilon) * alpha >= exact.lower - 1e-6 * exact.lower


def test_add_is_the_inverse_of_remove_and_the_envelope_is_symmetric_and_below_both() -> None:
    functions = {one: trade_off(PAPER, group_size=4, adjacency=one) for one in ("add", "remove", "add-or-remove")}
    for alpha in (1e-5, 1e-2, 0.3):
        forward = functions["remove"].false_negative_rate(alpha)
        back = functions["add"].false_negative_rate(forward.upper)
        assert back.lower <= alpha * (1 + 1e-9)
        assert back.upper >= alpha * (1 - 1e-8)
        envelope = functions["add-or-remove"].false_negative_rate(alpha)
        assert envelope.lower <= min(functions[one].false_negative_rate(alpha).upper for one in ("add", "remove"))
        mirrored = functions["add-or-remove"].false_negative_rate(envelope.upper)
        assert mirrored.lower <= alpha * (1 + 1e-9)
        assert mirrored.upper >= alpha * (1 - 1e-8)


@examples(6, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    rate=st.floats(5e-3, 0.2),
    noise=st.floats(0.9, 5.0),
    steps=st.integers(1000, 10_000),
    group_size=st.integers(1, 6),
    adjacency=st.sampled_from(["add", "remove", "add-or-remove"]),
)
@example(
    rate=0.17878874029492237, noise=1.0589439336740538, steps=8294, group_size=2, adjacency="add-or-remove"
)  # false negatives of 1e-172, of which nothing is known at 1e-9
def test_curves_are_convex_decreasing_and_no_better_than_a_coin(
    rate: float, noise: float, steps: int, group_size: int, adjacency: str
) -> None:
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)
    alpha = np.array([1e-9, 1e-4, 0.01, 0.1, 0.3, 0.6, 0.9, 0.999])
    curve = trade_off(run, group_size=group_size, adjacency=adjacency).curve(alpha)
    lower, upper = curve.false_negative_rate_lower, curve.false_negative_rate_upper
    assert np.all(lower <= upper)
    assert np.all(upper <= 1.0 - alpha + 1e-15)
    assert np.all(np.diff(lower) <= 0.0)
    assert np.all(upper - lower <= 1e-7)
    for i in range(1, len(alpha) - 1):
        share = (alpha[i] - alpha[i - 1]) / (alpha[i + 1] - alpha[i - 1])
        assert lower[i] <= (1 - share) * upper[i - 1] + share * upper[i + 1] + 1e-15


def test_where_the_attacker_nearly_always_wins_small_rates_keep_their_digits() -> None:
    """mu = 30: false negatives of 1e-190 at moderate false positive rates."""
    function = trade_off(everyone(1.0 / 3.0), group_size=1, adjacency="remove")
    for alpha in (0.05, 0.3):
        fnr, _ = gaussian_errors(alpha, 30.0)
        found = function.false_negative_rate(alpha)
        assert found.lower <= fnr * (1 + 1e-12)
        assert found.upper >= fnr * (1 - 1e-12)
        assert found.upper - found.lower <= 1e-6 * fnr


@pytest.mark.thinned
@pytest.mark.parametrize("adjacency", ["add", "remove"])
def test_the_two_engines_agree(adjacency: str) -> None:
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.1), noise_multiplier=2.0, steps=60)
    spectral = trade_off(run, group_size=2, adjacency=adjacency, engine="spectral")
    lattice = trade_off(run, group_size=2, adjacency=adjacency, engine="lattice")
    one, other = spectral.true_positive_rate(1e-3), lattice.true_positive_rate(1e-3)
    assert one.intersects(other)
    assert other.relative_width <= 1e-3


def test_one_round_agrees_with_its_closed_form() -> None:
    """One round by the other engine: the curve of one sampled Gaussian is attained by threshold tests."""
    mixture = groupdp.MixtureOfGaussians([0.0, 1.0], [0.9, 0.1], 1.0)
    function = trade_off(mixture, rounds=1, adjacency="remove")
    for threshold in (0.5, 2.0, 4.0):
        alpha = 0.5 * math.erfc(threshold / math.sqrt(2.0))
        tpr = 0.9 * alpha + 0.1 * 0.5 * math.erfc((threshold - 1.0) / math.sqrt(2.0))
        found = function.true_positive_rate(alpha)
        assert found.lower <= tpr * (1 + 1e-12)
        assert found.upper >= tpr * (1 - 1e-12)
        assert found.relative_width <= 1e-8


def test_ends_nothing_to_tell_and_rounds_without_noise() -> None:
    function = trade_off(PAPER, group_size=3)
    assert function.false_negative_rate(1.0).upper == 0.0
    assert function.false_negative_rate(0.0).lower == 1.0
    nothing = trade_off(PAPER, group_size=0)
    assert nothing.true_positive_rate(0.25).upper == pytest.approx(0.25)
    silent = groupdp.MixtureOfGaussians([0.0, 1.0], [0.75, 0.25], 0.0)
    revealed = trade_off(silent, rounds=1, adjacency="remove")
    assert revealed.true_positive_rate(0.0).upper == pytest.approx(0.25)
    # Claim presence whenever the sensitive output shows, and toss a coin otherwise: TPR = 1/4 + 3/4 alpha.
    half = revealed.true_positive_rate(0.5)
    assert half.lower <= 0.25 + 0.75 * 0.5 <= half.upper
    everybody = groupdp.DPSGD(groupdp.PoissonSampling(rate=1.0), noise_multiplier=0.0, steps=2)
    certain = trade_off(everybody, group_size=2)
    assert certain.true_positive_rate(0.0).upper == certain.true_positive_rate(1e-9).upper == 1.0
    assert certain.curve([0.0, 0.1, 1.0], tolerance=1e-3).false_negative_rate_upper.max() <= 1e-300
    assert certain.log_true_positive_rate(-50.0).lower > -1e-15
    with refused("false_positive_rate"):
        function.true_positive_rate(1.5)


@given(st.lists(st.floats(0.01, 5.0), min_size=2, max_size=6, unique=True), st.floats(0.01, 3.0))
def test_the_minorant_stays_below(points: list[float], weight: float) -> None:
    """For d(x) = e^-x the minimum of d(x) + a x is known; a few values of d bound it from below."""
    x = sorted(points)
    if min(np.diff(x)) < 1e-3:
        return
    at = np.array(x)
    values = np.exp(-at)[None] * np.array([[1.0 - 1e-15], [1.0 + 1e-15]])
    bound = smallest_sum(Minorant(at, at, values[:1], values[1:]), np.array([weight]))[0]
    exact = weight * (1.0 - math.log(weight)) if weight < 1.0 else 1.0
    assert bound <= exact + 1e-12


@pytest.mark.parametrize("prior", [0.5, 0.3, 1e-12])
@pytest.mark.parametrize("rate", [1.0, 0.1, 1e-300])
def test_the_posterior_contains_the_exact_one_and_is_the_prior_where_nothing_is_told_apart(prior, rate) -> None:
    assert posterior(Bounds(rate, rate), rate, prior=prior) == Bounds(prior, prior)
    for power in (rate, math.nextafter(rate, 0.0), 0.7 * rate, 0.0):
        found = posterior(Bounds(power, power), rate, prior=prior)
        true, false = Fraction(prior) * Fraction(power), (1 - Fraction(prior)) * Fraction(rate)
        assert Fraction(found.lower) <= true / (true + false) <= Fraction(found.upper)


def test_risk_of_a_gaussian_is_its_closed_form() -> None:
    found = risk(everyone(10.0), group_size=1, false_positive_rates=(1e-3,), prior=0.2)
    assert found.advantage.lower <= math.erf(0.5 / math.sqrt(2.0)) <= found.advantage.upper
    assert found.gaussian.mu == pytest.approx(1.0, abs=1e-4)
    assert found.gaussian.error <= 1e-3
    _, tpr = gaussian_errors(1e-3, 1.0)
    assert found.true_positive_rate[1e-3].lower <= tpr <= found.true_positive_rate[1e-3].upper
    expected = 0.2 * tpr / (0.2 * tpr + 0.8 * 1e-3)
    assert found.posterior[1e-3].lower <= expected * (1 + 1e-12)
    assert found.posterior[1e-3].upper >= expected * (1 - 1e-12)
    # Bayes: the right guess with prior 1/5 is the likelihood-ratio test at 4.
    z = math.log(4.0) + 0.5
    best = 0.2 * 0.5 * math.erfc((z - 1.0) / math.sqrt(2.0)) + 0.8 * (1.0 - 0.5 * math.erfc(z / math.sqrt(2.0)))
    assert found.success.lower <= best + 1e-12
    assert found.success.upper >= best - 1e-12


@pytest.mark.parametrize("adjacency", ["remove", "add-or-remove"])
def test_the_certified_error_of_the_gaussian_fit_covers_what_is_seen(adjacency: str) -> None:
    found = risk(PAPER, group_size=2, false_positive_rates=(1e-3,), adjacency=adjacency)
    # The reversed pair too: its epsilons above 0 are this one's below 0.
    for direction in {adjacency, "add" if adjacency == "remove" else adjacency}:
        for epsilon in np.linspace(0.0, 6.0, 25):
            exact = groupdp.delta(PAPER, epsilon=float(epsilon), group_size=2, adjacency=direction)
            gap = abs(exact.upper - gaussian_delta(float(epsilon), found.gaussian.mu)) / (1.0 + math.exp(epsilon))
            assert gap <= found.gaussian.error
    assert found.gaussian.error <= 0.01


def test_posterior_without_evidence_is_the_prior() -> None:
    assert posterior(groupdp.Bounds(0.3, 0.3), 0.3, prior=0.4).upper == pytest.approx(0.4)


def test_the_fdp_group_bound_is_exact_for_gaussians_and_loose_for_sampling() -> None:
    """Composing a Gaussian trade-off with itself k times is the Gaussian with k mu (Dong, Roth and Su 2022)."""
    for size in (2, 3):
        exact = groupdp.epsilon(everyone(10.0), delta=1e-6, group_size=size)
        bound = fdp_epsilon(everyone(10.0), delta=1e-6, group_size=size, adjacency="remove")
        assert bound.lower <= exact.upper
        assert exact.lower <= bound.upper <= exact.upper * (1 + 1e-7)
    exact = groupdp.epsilon(PAPER, delta=1e-6, group_size=4)
    bound = fdp_epsilon(PAPER, delta=1e-6, group_size=4, adjacency="remove")
    assert exact.lower <= bound.upper
    assert bound.lower > exact.upper * 1.05
    assert bound.relative_width <= 1e-7


@pytest.mark.parametrize("adjacency", ["add", "remove"])
def test_sampled_by_few_contours_delta_is_enclosed_as_narrowly_as_asked(adjacency: str) -> None:
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
    ((_, composition),) = question_of(run, group_size=4, adjacency=adjacency).compositions
    sampled, alone = (DeltaCurve(composition, Options()) for _ in range(2))
    epsilons = np.linspace(-3.0, 25.0, 141)
    sampled.sample(epsilons, 1e-7)
    assert len(sampled._seen) > 120
    for epsilon, (lower, upper) in sampled._seen.items():
        least, most = alone.log_delta(epsilon)
        assert upper - lower <= 1e-7
        assert lower <= most
        assert least <= upper


def test_members_replaced_in_fixed_batches_have_a_trade_off_function() -> None:
    """Beside other rounds it has no contour: delta comes from the lattice, and the duality holds for every epsilon."""
    run = groupdp.DPSGD(groupdp.FixedBatchSampling(batch_size=5, dataset_size=50), noise_multiplier=2.0, steps=30)
    other = groupdp.DPSGD(groupdp.FixedBatchSampling(batch_size=5, dataset_size=50), noise_multiplier=3.0, steps=2)
    asked = {"group_size": 2, "adjacency": "substitute"}
    found = trade_off(run, **asked).true_positive_rate(0.1)
    tangents = [groupdp.delta(run, epsilon=eps, **asked) for eps in (1.0, 1.5, 2.0)]
    assert found.lower <= min(
        one.upper + 0.1 * math.exp(eps) for one, eps in zip(tangents, (1.0, 1.5, 2.0), strict=True)
    )
    assert 0.5 < found.lower <= found.upper < 0.6
    for question in (groupdp.epsilon, groupdp.log_delta):
        given = {"delta": 1e-3} if question is groupdp.epsilon else {"epsilon": 1.0}
        with pytest.raises(groupdp.LimitExceeded, match="lattice engine"):
            question([run, other], engine="spectral", **asked, **given)


@pytest.mark.parametrize("steps", [1, 100])
def test_what_is_no_rate_is_refused(steps: int) -> None:
    run = groupdp.DPSGD(groupdp.PoissonSampling(rate=0.1), noise_multiplier=1.0, steps=steps)
    function = trade_off(run, group_size=2)
    assert function.log_true_positive_rate(0.0) == Bounds(0.0, 0.0)
    for wrong in (1.0, math.nan, math.inf, "0.1", None, True):
        with refused("log_false_positive_rate"):
            function.log_true_positive_rate(wrong)  # type: ignore[arg-type]
    for wrong in (math.nan, math.inf, "1", None):
        with refused("epsilon"):
            function.log_delta(wrong)  # type: ignore[arg-type]
    for rates in ([], 0.1, "0.1", None):
        if rates is not None:
            with refused("false_positive_rates"):
                function.curve(rates)
        with refused("false_positive_rate" if rates is None else "false_positive_rates"):
            risk(run, group_size=2, false_positive_rates=[math.nan] if rates is None else rates)  # type: ignore[arg-type]
    for tolerance in (0.0, -1.0, math.nan, "1e-3"):
        with refused("tolerance"):
            function.curve([0.1], tolerance=tolerance)  # type: ignore[arg-type]
