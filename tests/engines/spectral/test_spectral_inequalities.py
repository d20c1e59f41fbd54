"""The inequalities behind the spectral engine's bounds (docs/numerics.md), checked against ball arithmetic.

Every test compares a bound the engine computes with the true quantity it bounds.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import acb, arb, ctx

from engines.spectral_truth import ELEMENTARY, MIXTURES, PRECISION, U, assert_within_four_units, true_moment, true_psi
from groupdp import MixtureOfGaussians
from groupdp.engines.spectral.decay import certify
from groupdp.engines.spectral.moments import log_tails, plan
from groupdp.engines.spectral.ratio import short, tabulate
from groupdp.engines.spectral.rounds import Round, trimmed
from groupdp.engines.spectral.saddle import Scanner
from groupdp.engines.spectral.thinning import Thinning, discard, log_normal_cdf
from groupdp.engines.spectral.tilted import tilt_round
from oracle import Mixture


def round_of(name: str, count: int = 1000) -> tuple[Round, Mixture]:
    sensitivities, probabilities, noise = MIXTURES[name]
    mechanism = MixtureOfGaussians(sensitivities, probabilities, noise)
    return trimmed(mechanism, count, log_budget=-math.inf), Mixture(sensitivities, probabilities, noise)


@pytest.fixture(autouse=True)
def precision():
    with ctx.workprec(PRECISION):
        yield


@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions_are_within_four_units_in_the_last_place(name):
    exact, (low, high) = ELEMENTARY[name]
    x = np.random.default_rng(1).uniform(low, high, 4000)
    values = getattr(np, name.split()[0])(x)
    assert_within_four_units(exact, x.tolist(), values.tolist())


def test_the_argument_of_a_complex_number_is_within_four_units_in_the_last_place():
    generator = np.random.default_rng(2)
    y, x = generator.normal(size=2000), generator.normal(size=2000)
    for real, imaginary, value in zip(x.tolist(), y.tolist(), np.arctan2(y, x).tolist(), strict=True):
        truth = acb(real, imaginary).arg()
        assert abs(truth - arb(value)) <= 8 * U * abs(truth)


def test_the_normal_tail_is_within_what_is_charged_for_it():
    t = np.concatenate((np.linspace(-60.0, 12.0, 1201), [-35.0, -35.000001, 0.0, 9.0, -1e4]))
    for argument, value in zip(t.tolist(), log_normal_cdf(t).tolist(), strict=True):
        truth = ((-arb(argument) / arb(2).sqrt()).erfc() / 2).log()
        # tilted.py charges 6 U (8 |log chi| + 8), of which 4 |log chi| covers the argument.
        assert abs(truth - arb(value)) <= 20 * U * (1 + abs(truth))


@pytest.mark.parametrize("name", MIXTURES)
def test_psi_and_the_excess_are_within_their_stated_errors(name):
    one, mixture = round_of(name)
    step = short(0.37)
    table = tabulate(one, step * np.arange(-120.0, 160.0))
    for i in range(len(table.u)):
        truth = true_psi(mixture, float(table.u[i]))
        assert abs(truth - arb(float(table.psi[i]))) <= arb(float(table.psi_error[i]))
        if math.isfinite(table.excess_error[i]):
            assert abs(truth.expm1() - arb(float(table.excess[i]))) <= arb(float(table.excess_error[i]))


@pytest.mark.parametrize("exponent", [-3.0, -0.4, 1.0, 1.7, 4.0])
@pytest.mark.parametrize("name", ["one in a hundred", "small shifts", "two peaks", "always present"])
def test_the_quadrature_is_within_its_stated_error(name, exponent):
    one, mixture = round_of(name)
    frequency = 3.0
    exponents = np.array([exponent])
    # Coarse on purpose: the error is then far above the rounding, and the bound has something to bound.
    quadrature = plan(one, exponents, frequency=frequency, log_tolerance=-6.0, with_identity=False)
    size = true_moment(mixture, exponent, 0.0).real
    sums = np.exp(quadrature.log_weight + exponent * quadrature.table.psi)
    bound = math.exp(float(quadrature.log_error(exponents, np.log([sums.sum()]), frequency)[0]))
    assert bound < 0.1
    for s in (0.0, 1.0, -3.0, 3.0):
        value = complex(np.sum(sums * np.exp(1j * s * quadrature.table.psi)))
        truth = true_moment(mixture, exponent, s)
        assert abs(acb(value) - truth) <= arb(bound) * size


@pytest.mark.parametrize("exponent", [1.5, 3.0])
def test_the_quadrature_of_a_thinned_round_is_within_its_stated_error(exponent):
    one, mixture = round_of("one in a hundred")
    thinning = Thinning(edge=2.5, width=0.4, log_discarded=0.0)
    thinned = Round(one.m, one.p, one.log_p, one.count, one.log_dropped, thinning)
    exponents, frequency = np.array([exponent]), 2.0
    quadrature = plan(thinned, exponents, frequency=frequency, log_tolerance=-5.0, with_identity=False)
    size = true_moment(mixture, exponent, 0.0, thinning).real
    sums = np.exp(quadrature.log_weight + exponent * quadrature.table.psi)
    bound = math.exp(float(quadrature.log_error(exponents, np.log([sums.sum()]), frequency)[0]))
    assert bound < 0.1
    for s in (0.0, 2.0, -2.0):
        value = complex(np.sum(sums * np.exp(1j * s * quadrature.table.psi)))
        assert abs(acb(value) - true_moment(mixture, exponent, s, thinning)) <= arb(bound) * size


@pytest.mark.parametrize("exponent", [-5.0, -0.2, 1.0, 1.3, 6.0])
@pytest.mark.parametrize("name", ["one in a hundred", "small shifts", "three peaks", "always present"])
def test_the_tails_of_the_sum_are_within_their_bound(name, exponent):
    one, mixture = round_of(name)
    step = short(0.05)
    for low, high in ((-1.0, 1.0), (-4.0, 6.0), (-3.0, -1.0), (2.0, 12.0)):
        nodes = step * np.arange(math.floor(low / step), math.ceil(high / step) + 1.0)
        table = tabulate(one, nodes)
        bound = float(log_tails(one, table, step, np.array([exponent]))[0])
        far = 45.0 + abs(exponent) * float(one.m[-1])
        outside = np.concatenate(
            (np.arange(-far, nodes[0] - step / 2, step), nodes[-1] + step * np.arange(1.0, far / step))
        )
        outside = outside[np.abs(outside) < far]
        terms = exponent * mixture.float_loss(outside) - outside**2 / 2 - 0.5 * math.log(2 * math.pi) + math.log(step)
        assert np.logaddexp.reduce(terms) <= bound


@pytest.mark.parametrize("tilt", [0.3, 2.0, 20.0])
@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize("name", MIXTURES)
def test_the_characteristic_function_is_below_its_certificate_at_every_later_frequency(name, direction, tilt):
    one, _ = round_of(name, count=1)
    longest = min(30.0, 300.0 / one.largest_shift)
    tilted = tilt_round(one, direction=direction, tilt=tilt, frequency=longest, log_tolerance=-25.0)
    decay = certify(tilted)
    deviation = math.sqrt(tilted.variance)
    frequencies = longest * np.geomspace(1e-3, 1.0, 120) / max(deviation, 1.0)
    offset = tilted.loss - tilted.centre
    # In doubles: the quadrature is good to 1e-10, the certificate is not that tight.
    modulus = np.abs(np.exp(1j * np.multiply.outer(frequencies, offset)) @ tilted.weight)
    later = np.maximum.accumulate(modulus[::-1])[::-1]
    bound = np.exp(decay.log_bound(frequencies))
    assert np.all(later <= bound + 1e-9)
    assert bound[-1] <= bound[0] <= 1.0


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize("name", ["one in a hundred", "small shifts", "two peaks", "always present", "tiny shift"])
def test_log_moments_are_within_their_stated_error(name, direction):
    one, mixture = round_of(name)
    for tilt in (0.25, 3.0):
        tilted = tilt_round(one, direction=direction, tilt=tilt, frequency=2.0, log_tolerance=-40.0)
        truth = true_moment(mixture, 1.0 + tilt if direction == "remove" else -tilt, 0.0).real.log()
        assert abs(truth - arb(tilted.log_moment)) <= arb(tilted.log_moment_error)
        assert tilted.log_moment_error <= 1e-11 * max(tilted.log_moment, 1e-30) + 1e-11


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize("count", [100, 10**7])
@pytest.mark.parametrize("name", ["one in a hundred", "small shifts", "always present"])
def test_the_scan_bounds_the_cumulants_from_above(name, count, direction):
    one, mixture = round_of(name, count)
    scanner = Scanner((one,), direction, 2.0)
    tilts = np.array([0.01, 0.5, 2.0])
    scan = scanner.scan(tilts)
    for tilt, upper, k in zip(tilts.tolist(), scan.upper.tolist(), scan.k.tolist(), strict=True):
        truth = count * true_moment(mixture, 1.0 + tilt if direction == "remove" else -tilt, 0.0).real.log()
        assert truth <= arb(upper)
        assert upper - k <= 1e-3 * (1.0 + abs(k))


@pytest.mark.parametrize("width", [1.0, 0.1])
def test_thinning_discards_no_more_than_it_says(width):
    m, p = np.array([0.0, 1.0, 3.0]), np.array([0.7, 0.2, 0.1])
    thinning = discard(m, np.log(p), width=width, log_budget=-20.0)
    spread = (1 + arb(width) ** 2).sqrt()
    eta = sum(
        arb(q) * ((arb(thinning.edge) - arb(x)) / spread / arb(2).sqrt()).erfc() / 2
        for x, q in zip(m.tolist(), p.tolist(), strict=True)
    )
    assert eta.log() <= thinning.log_discarded <= -20.0 + 1e-3
    # E[1 - chi] really is that: by quadrature, under the mixture.
    u = np.arange(-10.0, 20.0, 0.01)
    density = sum(q * np.exp(-0.5 * (u - x) ** 2) for x, q in zip(m, p, strict=True)) / math.sqrt(2 * math.pi)
    discarded = float(np.sum(density * -np.expm1(thinning.log_keep(u))) * 0.01)
    assert math.isclose(discarded, float(eta), rel_tol=1e-6)


def test_the_thinning_off_the_real_axis_is_below_its_bound():
    thinning = Thinning(edge=2.0, width=0.3, log_discarded=0.0)
    for u in np.linspace(-4.0, 6.0, 41).tolist():
        for y in (0.05, 0.3, 0.9):
            z = acb(u, y)
            value = abs(((z - arb(thinning.edge)) / arb(thinning.width) / arb(2).sqrt()).erfc() / 2)
            on_axis = ((arb(u) - arb(thinning.edge)) / arb(thinning.width) / arb(2).sqrt()).erfc() / 2
            assert value <= on_axis * (arb(y) ** 2 / (2 * arb(thinning.width) ** 2)).exp() * (1 + arb(1e-30))
