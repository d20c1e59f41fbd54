"""Baselines from Renyi divergences: certified in log space, and the old tool's arithmetic in doubles."""

from __future__ import annotations

import math
from fractions import Fraction

import flint
import pytest

from groupdp import DPSGD, PoissonSampling
from groupdp.baselines import old_tool_epsilon, renyi_vadhan_epsilon
from groupdp.baselines.one_example import ORDERS, log_moments, renyi_divergences
from groupdp.baselines.smallest_feasible import Growth
from mixtures import compose_run

PAPER = DPSGD(sampling=PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
QUIET = DPSGD(sampling=PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=2000)


def full_batch(noise: float, steps: int = 1) -> DPSGD:
    """A Gaussian mechanism: everything has a closed form."""
    return DPSGD(sampling=PoissonSampling(rate=1.0), noise_multiplier=noise, steps=steps)


def exact_log_moment(order: float, shift: float, rate: float) -> flint.arb:
    """log E[R^alpha] by rigorous integration in ball arithmetic."""
    with flint.ctx.workprec(160):
        alpha, m, q = (flint.arb(Fraction(x).numerator) / Fraction(x).denominator for x in (order, shift, rate))

        def integrand(u: flint.acb, _: object) -> flint.acb:
            ratio = 1 - q + q * (m * u - m * m / 2).exp()
            return (alpha * ratio.log() - u * u / 2).exp() / (2 * flint.acb.pi()).sqrt()

        total = flint.acb(0)
        for left in range(-22, 23 + math.ceil(order * shift)):
            total += flint.acb.integral(integrand, flint.acb(left), flint.acb(left + 1))
        return total.real.log()


@pytest.mark.parametrize(
    ("rate", "noise"), [(0.01, 1.0), (0.01, 0.5), (1e-4, 2.0), (0.3, 5.0), (0.5, 0.4), (0.01, 50.0)]
)
def test_moments_contain_the_integral(rate, noise):
    run = DPSGD(sampling=PoissonSampling(rate=rate), noise_multiplier=noise, steps=1)
    ((mixture, _),) = compose_run(run, 1)
    for order in (ORDERS[0], 1.5, 2.0, ORDERS[22], 10.0 + 0.9, 11.0):
        bounds = log_moments(mixture, (order,))[0]
        exact = exact_log_moment(order, 1.0 / noise, rate)
        assert bounds.lower <= exact.upper()
        assert bounds.upper >= exact.lower()
        assert bounds.width < 1e-7 * bounds.upper


def test_moments_with_almost_no_noise_are_looser_but_still_contain_the_integral():
    run = DPSGD(sampling=PoissonSampling(rate=0.01), noise_multiplier=0.02, steps=1)
    ((mixture, _),) = compose_run(run, 1)
    bounds = log_moments(mixture, (2.5,))[0]  # too many nodes: chords of whole orders
    # For such a shift A = q^alpha e^{m^2 alpha(alpha-1)/2} up to a factor of (1-q)^-alpha and 1 + tiny.
    value = 2.5 * math.log(0.01) + 50.0**2 * 2.5 * 1.5 / 2
    assert bounds.lower <= value <= bounds.upper


def test_divergences_of_a_gaussian_mechanism():
    for order, bounds in zip(ORDERS, renyi_divergences(compose_run(full_batch(2.0, steps=7), 1)), strict=True):
        assert bounds.lower <= 7 * order / 8 <= bounds.upper


def test_moments_are_a_convex_function_of_the_order():
    ((mixture, _),) = compose_run(QUIET, 1)
    for low in (1.5, 3.25, 10.5):
        left, middle, right = (log_moments(mixture, (low + step,))[0] for step in (0.0, 0.5, 1.0))
        assert 2 * middle.lower <= left.upper + right.upper


# --------------------------------------------------------------------------------------------------- the old tool


def test_the_old_tool_s_published_example_level_numbers():
    """Outputs that TensorFlow Privacy's own tests record, with twelve digits."""
    for examples, batch, noise, epochs, delta, reported in (
        (60_000, 150, 1.3, 15, 1e-5, 0.7242234026109595),
        (100_000, 100, 1.0, 30, 1e-7, 1.4154988495444845),
    ):
        sampling = PoissonSampling(rate=batch / examples)
        run = DPSGD(sampling=sampling, noise_multiplier=noise, steps=epochs * examples // batch)
        assert old_tool_epsilon(run, delta=delta, group_size=1) == pytest.approx(reported, rel=1e-11)


def test_the_old_tool_s_published_group_level_numbers():
    """Its tests also record a statement for 5 epochs of batches of 64 out of 10000, with microbatching."""
    every = DPSGD(sampling=PoissonSampling(rate=1.0), noise_multiplier=2.0, steps=5, microbatch_size=2)
    sampled = DPSGD(sampling=PoissonSampling(rate=0.0064), noise_multiplier=2.0, steps=782, microbatch_size=2)
    for run, k, reported in ((every, 1, 13.376), (sampled, 1, 1.616), (every, 3, 85.940), (sampled, 3, 6.425)):
        assert old_tool_epsilon(run, delta=1e-6, group_size=k) == pytest.approx(reported, abs=5.001e-4)
    for run in (every, sampled):
        assert old_tool_epsilon(run, delta=1e-6, group_size=10) == math.inf


def test_the_old_tool_is_finite_up_to_8_and_infinite_from_9_as_the_paper_reports():
    for k in range(1, 9):
        assert old_tool_epsilon(PAPER, delta=1e-6, group_size=k) < math.inf
    for k in (9, 10, 20, 32):
        assert old_tool_epsilon(PAPER, delta=1e-6, group_size=k) == math.inf


def test_without_the_underflow_the_same_analysis_is_finite():
    for k in (9, 10, 32, 500):
        bounds = renyi_vadhan_epsilon(PAPER, delta=1e-6, group_size=k)
        assert bounds.upper < math.inf
        # The intermediate delta' there: log target - log growth, below the logarithm of the smallest double.
        assert math.log(1e-6) - Growth("geometric", k).value(bounds.upper / k) < math.log(5e-324)


@pytest.mark.parametrize("run", [PAPER, QUIET, full_batch(3.0)])
@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_log_space_and_doubles_agree_where_doubles_suffice(run, k):
    bounds = renyi_vadhan_epsilon(run, delta=1e-6, group_size=k)
    old = old_tool_epsilon(run, delta=1e-6, group_size=k)
    assert bounds.lower * (1 - 1e-9) <= old <= bounds.upper * (1 + 1e-9)


def test_the_lemma_form_in_log_space_is_its_closed_form_for_one_order():
    # A Gaussian mechanism with mu = 1: the optimum over orders of (log k - log delta + offset) / (alpha - 1 - k).
    k, log_delta = 3, math.log(1e-6)
    best = min(
        (math.log(k) - log_delta + (a - 1) * (a / 2 + math.log1p(-1 / a)) - math.log(a)) / (a - 1 - k)
        for a in ORDERS
        if a > k + 1
    )
    bounds = renyi_vadhan_epsilon(full_batch(1.0), delta=1e-6, group_size=k, form="lemma")
    assert bounds.lower <= k * best <= bounds.upper
    assert bounds.relative_width < 1e-9
