"""Baselines against ball arithmetic: growth, Renyi divergences, Vadhan's lemma, the f-DP group bound."""

from __future__ import annotations

import math
import random

import flint
import pytest
from flint import acb, arb

import groupdp
from containment.balls import assert_contains, ball, gaussian_delta, gaussian_epsilon, smallest_root
from groupdp.baselines import linear_reference, old_tool_epsilon, renyi_vadhan_epsilon, vadhan_epsilon
from groupdp.baselines.fdp import fdp_epsilon
from groupdp.baselines.one_example import ORDERS, log_moments
from groupdp.baselines.smallest_feasible import Growth


def everyone(noise: float, steps: int) -> groupdp.DPSGD:
    """q = 1: the Gaussian mechanism with mu = sqrt(steps) / noise."""
    return groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1.0), noise_multiplier=noise, steps=steps)


def log_growth(form: str, k: int, epsilon: arb) -> arb:
    if form == "lemma":
        return arb(k).log() + k * epsilon
    if epsilon == 0:
        return arb(k).log()
    return ((k * epsilon).expm1() / epsilon.expm1()).log()


@pytest.mark.parametrize("form", ["lemma", "geometric"])
def test_growth_and_its_slope(form: str) -> None:
    generator = random.Random(1)
    with flint.ctx.workprec(400):
        for _ in range(300):
            k, epsilon = generator.choice([2, 3, 50, 100_000]), 10.0 ** generator.uniform(-18.0, 6.0)
            growth = Growth(form, k)  # type: ignore[arg-type]
            value, room = growth.value(epsilon), growth.rounding(epsilon)
            truth = log_growth(form, k, ball(epsilon))
            assert abs(ball(value) - truth) <= ball(room), (form, k, epsilon)
            x = ball(epsilon)
            slope = arb(k) if form == "lemma" else k / -(-k * x).expm1() - 1 / -(-x).expm1()
            assert not ball(growth.least_slope(epsilon)) > slope, (form, k, epsilon)


@pytest.mark.parametrize("seed", range(30))
def test_renyi_moments_of_one_sampled_round(seed: int) -> None:
    """log E[R^alpha], R = 1 - q + q e^{m u - m^2/2}: a finite sum for whole orders, an integral in balls otherwise."""
    generator = random.Random(seed)
    rate, noise = 10.0 ** generator.uniform(-7.0, -0.05), 10.0 ** generator.uniform(-0.8, 2.5)
    order = generator.choice([2.0, 3.0, 17.0, 128.0, 1.1, 2.5, 9.3, generator.choice(ORDERS[:60])])
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=1)
    from mixtures import compose_run

    mixture = compose_run(run, 1)[0][0]
    found = log_moments(mixture, (order,))[0]
    with flint.ctx.workprec(600 if order == int(order) else 160):
        q, m = ball(rate), 1 / ball(noise)
        if order == int(order):
            n = int(order)
            total = sum(
                (
                    arb(math.comb(n, i)) * (1 - q) ** (n - i) * q**i * (m * m * i * (i - 1) / 2).exp()
                    for i in range(n + 1)
                ),
                arb(0),
            )
        else:
            a = ball(order)

            def integrand(u: acb, analytic: bool) -> acb:
                ratio = 1 - q + q * (m * u - m * m / 2).exp()
                return ratio.pow(a, analytic=analytic) * (-u * u / 2).exp()

            reach = 22 + 2 * float(order) / noise
            total = acb.integral(integrand, acb(-reach), acb(reach)).real / (2 * arb.pi()).sqrt()
            # Beyond the reach: R^a <= 2^a (1 + q^a e^{a m u}), a normal tail far below everything else.
            total = total + arb(0, 1e-80)
        truth = total.log()
        if truth.rel_accuracy_bits() >= 40:
            assert_contains(found, truth, rate, noise, order)


@pytest.mark.parametrize("seed", range(4))
def test_vadhan_s_lemma_on_a_gaussian(seed: int) -> None:
    """k eps for the smallest eps with growth(eps) delta_1(eps) <= delta, where delta_1 is known in closed form."""
    generator = random.Random(seed)
    steps, mu, k = generator.choice([1, 100]), 10.0 ** generator.uniform(-1.5, 0.3), generator.choice([2, 3, 8])
    noise, delta = math.sqrt(steps) / mu, 10.0 ** generator.uniform(-60.0, -2.0)
    for form in ("lemma", "geometric"):
        found = vadhan_epsilon(everyone(noise, steps), delta=delta, group_size=k, form=form)  # type: ignore[arg-type]
        with flint.ctx.workprec(500):
            shift = arb(steps).sqrt() / ball(noise)

            def excess(x: arb, form: str = form, shift: arb = shift) -> arb:
                return log_growth(form, k, x) + gaussian_delta(x, shift).log() - ball(delta).log()

            # Not monotone in general: the lower side must be infeasible all the way, the upper side feasible.
            assert found.upper == 0.0 or not excess(ball(found.upper) / k * (1 + arb(10) ** -12)) > 0
            for share in (0.2, 0.6, 0.9, 1.0 - 1e-12):
                assert found.lower == 0.0 or not excess(ball(found.lower) / k * ball(share)) < 0


@pytest.mark.parametrize("seed", range(4))
def test_vadhan_s_lemma_on_a_renyi_guarantee_of_a_gaussian(seed: int) -> None:
    """D_alpha = alpha mu^2 / 2 exactly, so the smallest over the orders is a minimum of roots in balls."""
    generator = random.Random(50 + seed)
    mu, k, delta = 10.0 ** generator.uniform(-1.5, 0.0), generator.choice([2, 3, 6]), 10.0 ** generator.uniform(-40, -3)
    found = renyi_vadhan_epsilon(everyone(1.0 / mu, 1), delta=delta, group_size=k)
    best = None
    with flint.ctx.workprec(200):
        shift = 1 / ball(1.0 / mu)
        for order in ORDERS:
            a = ball(order)
            r = a * shift**2 / 2
            offset = (a - 1) * (r + (1 - 1 / a).log()) - a.log()
            if (1 - (-r).exp()).sqrt() * k <= ball(delta):
                best = arb(0)
                break
            if order <= k + 0.5:
                continue

            def falling(x: arb, a: arb = a, offset: arb = offset) -> arb:
                return log_growth("geometric", k, x) + offset - (a - 1) * x - ball(delta).log()

            root = smallest_root(falling)
            best = root if best is None or root < best else best
        assert best is not None
        assert not ball(found.upper) < k * best, (mu, k, delta)
        assert not ball(found.lower) > k * best, (mu, k, delta)


@pytest.mark.parametrize(("mu", "k", "delta"), [(0.2, 2, 1e-6), (0.1, 3, 1e-30), (0.05, 2, 1e-200), (1.0, 2, 1e-5)])
def test_the_f_dp_group_bound_of_a_gaussian(mu: float, k: int, delta: float) -> None:
    """A Gaussian trade-off function composed with itself k times is the one with k mu: the bound is exact there."""
    found = fdp_epsilon(everyone(1.0 / mu, 1), delta=delta, group_size=k, adjacency="remove")
    with flint.ctx.workprec(300):
        truth = gaussian_epsilon(ball(delta), k / ball(1.0 / mu))
    assert_contains(found, truth)
    assert found.upper - found.lower <= 1e-6 * found.upper


@pytest.mark.parametrize("adjacency", ["add", "remove"])
def test_the_f_dp_group_bound_of_one_sampled_round_covers_the_group(adjacency: str) -> None:
    """A black-box bound is never below the group's own epsilon, known from its closed form."""
    import oracle
    from containment.half_line_truth import exact

    rate, noise, delta = 0.02, 0.8, 1e-9
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=1)
    found = fdp_epsilon(run, delta=delta, group_size=2, adjacency=adjacency)
    composition = oracle.compose(
        [{"sampling_rate": exact(rate), "noise_multiplier": exact(noise), "steps": 1}], group_size=2
    )
    truth = oracle.epsilon(composition, delta=exact(delta), direction=adjacency)
    assert not arb(found.upper) < truth


def test_the_linear_reference_is_a_multiple() -> None:
    found = linear_reference(everyone(5.0, 10), delta=1e-8, group_size=7)
    with flint.ctx.workprec(200):
        assert_contains(found, 7 * gaussian_epsilon(ball(1e-8), arb(10).sqrt() / 5))


def test_the_model_of_the_old_tool_is_its_formula() -> None:
    """For one example it is the smallest over orders of r + log(1 - 1/a) - log(delta a) / (a - 1): not a bound."""
    mu, delta = 0.5, 1e-7
    with flint.ctx.workprec(100):
        values = []
        for order in ORDERS:
            a = ball(order)
            values.append(a * ball(mu) ** 2 / 2 + (1 - 1 / a).log() - (ball(delta) * a).log() / (a - 1))
        truth = min(float(value.mid()) for value in values)
    assert old_tool_epsilon(everyone(2.0, 1), delta=delta, group_size=1) == pytest.approx(truth, rel=1e-12)
