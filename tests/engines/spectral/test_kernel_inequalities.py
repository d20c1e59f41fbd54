"""The inequalities behind the compiled engine's bounds (docs/numerics.md), checked against ball arithmetic.

Every test compares a bound that the kernel computes (kernel/inspect.c) with the true quantity it bounds.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import acb, arb, ctx

import groupdp
from engines.spectral_truth import ELEMENTARY, MIXTURES, PRECISION, U, assert_within_four_units, true_moment, true_psi
from groupdp.engines.spectral import _kernel as kernel
from groupdp.engines.spectral import compiled
from groupdp.engines.spectral.ratio import short
from groupdp.engines.spectral.thinning import Thinning
from oracle import Mixture


def binomial(trials: int, rate: float, noise: float) -> tuple[list[float], list[float], float]:
    """Dyadic rates: the probabilities are rounded once."""
    weights = [math.comb(trials, i) * rate**i * (1.0 - rate) ** (trials - i) for i in range(trials + 1)]
    return [float(i) for i in range(trials + 1)], weights, noise


def unevenly(values: list[float]) -> list[float]:
    """Off by the 4 U that an even spacing may be."""
    return [value * (1.0 + (-1.0) ** i * 2.0**-51) if i > 1 else value for i, value in enumerate(values)]


#: Every branch of the table (kernel/ratio.c), on nodes from -44 to 59.
BRANCHES = MIXTURES | {
    "powers": binomial(4, 0.125, 2.0),
    "many powers": binomial(60, 0.03125, 20.0),
    "powers, not quite evenly spaced": (unevenly([0.0, 1.5, 3.0, 4.5]), [0.75, 0.125, 0.0625, 0.0625], 1.0),
    "powers of rare components": ([0.0, 2.0, 4.0], [1.0, 1e-250, 1e-280], 1.0),
    "products": binomial(20, 0.25, 1.0),
    "many products": binomial(90, 0.5, 3.0),
    "products, not quite evenly spaced": (unevenly([0.0, 9.0, 18.0, 27.0]), [0.25, 0.25, 0.25, 0.25], 1.0),
    "evenly spaced, far apart": binomial(40, 0.25, 1.0),
    "evenly spaced, two heaps": ([0.0, 8.0, 16.0], [0.5, 1e-30, 0.5], 1.0),
}


def case_of(name: str) -> tuple[object, Mixture, float]:
    """A phase for the kernel, the same mixture for the oracle, and its largest shift."""
    sensitivities, probabilities, noise = BRANCHES[name]
    (phase,) = compiled.packed(((groupdp.MixtureOfGaussians(sensitivities, probabilities, noise), 1),))
    return phase, Mixture(sensitivities, probabilities, noise), sensitivities[-1] / noise


@pytest.fixture(autouse=True)
def precision():
    with ctx.workprec(PRECISION):
        yield


@pytest.mark.parametrize("name", ELEMENTARY)
def test_the_c_library_is_within_four_units_in_the_last_place(name):
    exact, (low, high) = ELEMENTARY[name]
    x = np.random.default_rng(5).uniform(low, high, 2000).tolist()
    assert_within_four_units(exact, x, map(getattr(math, name.split()[0]), x))


def test_the_c_library_s_normal_tail_and_arguments_are_within_four_units_in_the_last_place():
    generator = np.random.default_rng(6)
    x = generator.uniform(-6.0, 26.0, 2000).tolist()
    assert_within_four_units(arb.erfc, x, map(math.erfc, x))
    for real, imaginary in generator.normal(size=(2000, 2)).tolist():
        truth = acb(real, imaginary).arg()
        assert abs(truth - arb(math.atan2(imaginary, real))) <= 8 * U * abs(truth)


@pytest.mark.parametrize("name", BRANCHES)
def test_psi_and_the_excess_are_within_their_stated_errors(name):
    phase, mixture, _ = case_of(name)
    step = short(0.37)
    columns = kernel.table(phase, step, -120.0, 280)
    for n, psi, slope, excess, psi_error, excess_error in zip(range(-120, 160), *columns, strict=True):
        with ctx.workprec(1200):  # R - 1 may be of size 1e-280
            truth = true_psi(mixture, step * n)
            true_excess = truth.expm1()
        assert abs(truth - arb(psi)) <= arb(psi_error)
        assert mixture.float_shifts[0] * (1 - 1e-12) <= slope <= mixture.float_shifts[-1] * (1 + 1e-12)
        if math.isfinite(excess_error):
            assert abs(true_excess - arb(excess)) <= arb(excess_error)
    assert np.median(columns[3]) < 1e-11


@pytest.mark.parametrize("name", ["one in a hundred", "small shifts", "powers", "products", "evenly spaced, two heaps"])
def test_slopes_are_right_to_what_they_are_rounded_by(name):
    # Tails and decay take 1e-9 and 1e-7 off.
    phase, mixture, _ = case_of(name)
    step = short(0.37)
    slopes = kernel.table(phase, step, -80.0, 160)[1]
    for n, slope in zip(range(-80, 80), slopes, strict=True):
        terms = [
            arb(p) * (arb(m) * step * n - arb(m) ** 2 / 2).exp()
            for m, p in zip(mixture.shifts, mixture.probabilities, strict=True)
        ]
        first = sum((term * arb(m) for term, m in zip(terms, mixture.shifts, strict=True)), arb(0))
        truth = first / sum(terms, arb(0))
        assert abs(truth - arb(slope)) <= truth * 1e-11 + 1e-290


def assert_quadrature(phase, mixture, exponent, frequency, log_tolerance, thinning=None):
    edge, width = (0.0, 0.0) if thinning is None else (thinning.edge, thinning.width)
    # Coarse on purpose: the error is then far above the rounding, and the bound has something to bound.
    psi, log_weight, log_error = kernel.quadrature(phase, edge, width, exponent, frequency, log_tolerance)
    sums = np.exp(np.array(log_weight) + exponent * np.array(psi))
    size = true_moment(mixture, exponent, 0.0, thinning).real
    assert log_error < math.log(0.1)
    for s in (0.0, -frequency, frequency):
        value = complex(np.sum(sums * np.exp(1j * s * np.array(psi))))
        assert abs(acb(value) - true_moment(mixture, exponent, s, thinning)) <= arb(log_error).exp() * size


@pytest.mark.parametrize("exponent", [-3.0, -0.4, 1.0, 4.0])
@pytest.mark.parametrize("name", ["one in a hundred", "small shifts", "two peaks", "always present", "powers"])
def test_the_quadrature_is_within_its_stated_error(name, exponent):
    phase, mixture, _ = case_of(name)
    assert_quadrature(phase, mixture, exponent, 3.0, -6.0)


@pytest.mark.parametrize("exponent", [1.5, 3.0])
def test_the_quadrature_of_a_thinned_round_is_within_its_stated_error(exponent):
    phase, mixture, _ = case_of("one in a hundred")
    assert_quadrature(phase, mixture, exponent, 2.0, -5.0, Thinning(edge=2.5, width=0.4, log_discarded=0.0))


@pytest.mark.parametrize("exponent", [-5.0, -0.2, 1.0, 1.3, 6.0])
@pytest.mark.parametrize("name", ["one in a hundred", "small shifts", "three peaks", "always present", "products"])
def test_the_tails_of_the_sum_are_within_their_bound(name, exponent):
    phase, mixture, largest = case_of(name)
    step = short(0.05)
    far = 45.0 + abs(exponent) * largest
    everywhere = np.arange(-math.ceil(far / step), math.ceil(far / step) + 1.0)
    u = step * everywhere
    terms = exponent * mixture.float_loss(u) - u**2 / 2 - 0.5 * math.log(2 * math.pi) + math.log(step)
    for low, high in ((-1.0, 1.0), (-4.0, 6.0), (-3.0, -1.0), (2.0, 12.0)):
        first, last = math.floor(low / step), math.ceil(high / step)
        bound = kernel.tails(phase, step, float(first), last - first + 1, exponent)
        outside = (everywhere < first) | (everywhere > last)
        assert np.logaddexp.reduce(terms[outside]) <= bound


@pytest.mark.parametrize("tilt", [0.3, 2.0, 20.0])
@pytest.mark.parametrize("adding", [True, False])
@pytest.mark.parametrize("name", [*MIXTURES, "powers", "products", "evenly spaced, two heaps"])
def test_the_characteristic_function_is_below_its_certificate_at_every_later_frequency(name, adding, tilt):
    phase, _, largest = case_of(name)
    longest = min(30.0, 300.0 / largest)
    weight, loss, centre, variance, *_ = kernel.tilted(phase, adding, tilt, longest, -25.0, [])
    frequencies = longest * np.geomspace(1e-3, 1.0, 100) / max(math.sqrt(variance), 1.0)
    logs = kernel.tilted(phase, adding, tilt, longest, -25.0, frequencies.tolist())[-1]
    # In doubles: the quadrature is good to 1e-10, the certificate is not that tight.
    waves = np.exp(1j * np.multiply.outer(frequencies, np.array(loss) - centre))
    modulus = np.abs(waves @ np.array(weight))
    later = np.maximum.accumulate(modulus[::-1])[::-1]
    bound = np.exp(logs)
    assert np.all(later <= bound + 1e-9)
    assert bound[-1] <= bound[0] <= 1.0


@pytest.mark.parametrize("adding", [True, False])
@pytest.mark.parametrize("name", ["one in a hundred", "small shifts", "two peaks", "tiny shift", "powers", "products"])
def test_log_moments_are_within_their_stated_error(name, adding):
    phase, mixture, _ = case_of(name)
    for tilt in (0.25, 3.0):
        *_, log_moment, error, _ = kernel.tilted(phase, adding, tilt, 2.0, -40.0, [])
        truth = true_moment(mixture, -tilt if adding else 1.0 + tilt, 0.0).real.log()
        assert abs(truth - arb(log_moment)) <= arb(error)
        assert error <= 1e-11 * max(log_moment, 1.0)
