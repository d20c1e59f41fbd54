"""What the lattice engine assumes of NumPy and SciPy (L-21), and the bounds it derives (L-9, L-15), against balls."""

from __future__ import annotations

import numpy as np
import pytest
from flint import acb, arb, arb_poly, ctx
from numpy import fft
from scipy.special import erfcx

from groupdp.engines.lattice.compose import convolution_power
from groupdp.engines.lattice.loss import FOUR_POINTS
from groupdp.engines.lattice.round_terms import mills_difference
from groupdp.floats import ELEMENTARY, UNIT, fft_error, fft_error_in_norm

RNG = np.random.default_rng(20240611)


@pytest.fixture(autouse=True)
def _precise():
    with ctx.workprec(256):
        yield


def norm(values) -> arb:
    return sum((abs(value) ** 2 for value in values), arb(0)).sqrt()


def worst(function, exact, arguments) -> float:
    pairs = zip(arguments, function(arguments), strict=True)
    errors = (abs((arb(float(y)) - exact(arb(float(x)))) / exact(arb(float(x)))) for x, y in pairs)
    return max(float(error.mid()) for error in errors)


@pytest.mark.parametrize(
    ("function", "exact", "arguments"),
    [
        (np.exp, arb.exp, RNG.uniform(-700.0, 700.0, 2000)),
        (np.expm1, arb.expm1, np.concatenate((RNG.uniform(-40.0, 2.0, 1000), -(10.0 ** RNG.uniform(-18, -1, 1000))))),
        (np.log, arb.log, 10.0 ** RNG.uniform(-300.0, 300.0, 2000)),
        (np.log1p, arb.log1p, np.concatenate((10.0 ** RNG.uniform(-18, 3, 1000), RNG.uniform(-0.99, -1e-9, 1000)))),
    ],
)
def test_elementary_functions_are_within_four_units(function, exact, arguments):
    assert worst(function, exact, arguments) <= ELEMENTARY


def test_erfcx_is_within_sixteen_units():
    arguments = np.concatenate((RNG.uniform(-3.6, 6.0, 2000), 10.0 ** RNG.uniform(-10.0, 8.0, 1000)))
    assert worst(erfcx, lambda x: (x * x).exp() * x.erfc(), arguments) <= 32 * UNIT


def test_the_quadrature_rule_is_right_to_a_few_roundings():
    for i, (own_node, own_weight) in enumerate(zip(*FOUR_POINTS, strict=True)):
        node, weight = arb.legendre_p_root(4, 3 - i, weight=True)
        assert abs(node - arb(float(own_node))) <= 4 * UNIT
        assert abs(weight / arb(float(own_weight)) - 1) <= 4 * UNIT


@pytest.mark.parametrize("length", [640, 1024, 1536])
@pytest.mark.parametrize("power", [1, 12])
def test_transforms_are_within_their_bound(length, power):
    values = RNG.random(length) ** power
    exact = acb.dft([acb(float(x)) for x in values])
    errors = [abs(exact[i] - acb(complex(y))) for i, y in enumerate(fft.rfft(values))]
    assert max(errors) <= fft_error(length) * float(values.sum())
    mirrored = errors + errors[1 : (length + 1) // 2]
    assert norm(mirrored) <= fft_error_in_norm(length) * norm(exact)


@pytest.mark.parametrize("length", [640, 1024, 1536])
@pytest.mark.parametrize("decay", [0.0, 0.02])
def test_inverse_transforms_are_within_their_bound(length, decay):
    half = np.exp(-decay * np.arange(length // 2 + 1) + 2j * np.pi * RNG.random(length // 2 + 1))
    half[[0, -1]] = half[[0, -1]].real
    balls = [acb(complex(x)) for x in half]
    exact = acb.dft(balls + [x.conjugate() for x in balls[-2:0:-1]], inverse=True)
    errors = [abs(x - acb(float(y))) for x, y in zip(exact, fft.irfft(half, n=length), strict=True)]
    assert norm(errors) <= fft_error_in_norm(length) * norm(exact)


@pytest.mark.parametrize(("length", "power"), [(640, 3), (1024, 50), (768, 1000)])
def test_convolution_powers_are_within_their_bound(length, power):
    values = RNG.random(length) * np.exp(-(((np.arange(length) - 150.0) / 8.0) ** 2))
    values /= values.sum()
    computed, bound, bound_of_norm = convolution_power([(values, power)])

    def folded(polynomial):
        sums = [arb(0)] * length
        for i, coefficient in enumerate(polynomial.coeffs()):
            sums[i % length] += coefficient
        return arb_poly(sums)

    exact, square, left = arb_poly([1]), arb_poly([arb(float(x)) for x in values]), power
    while left:
        exact = folded(exact * square) if left & 1 else exact
        square, left = folded(square * square), left >> 1
    coefficients = exact.coeffs() + [arb(0)] * (length - exact.length())
    errors = [coefficient - arb(float(value)) for coefficient, value in zip(coefficients, computed, strict=True)]
    assert max(abs(error) for error in errors) <= bound
    assert norm(errors) <= bound_of_norm
    # and the bounds are useful: far below the entries, and the norm's below what the single entries' implies
    assert bound < 1e-10 * computed.max()
    assert bound_of_norm < bound * length**0.5


def test_a_product_of_two_laws_is_within_its_bound():
    first, second = RNG.random(256), RNG.random(256)
    arrays = [np.concatenate((array / array.sum(), np.zeros(256))) for array in (first, second)]
    computed, bound, _ = convolution_power([(arrays[0], 1), (arrays[1], 2)])
    a, b = (arb_poly([arb(float(x)) for x in array[:256]]) for array in arrays)
    coefficients = (a * b * b).coeffs()
    exact = [sum((coefficients[j] for j in range(i, len(coefficients), 512)), arb(0)) for i in range(512)]
    assert all(abs(x - arb(float(y))) <= bound for x, y in zip(exact, computed, strict=True))


def test_mills_differences_are_within_their_bound():
    # tries to break L-15, the series far out included
    a = np.concatenate((RNG.uniform(-5.0, 5.0, 300), RNG.uniform(0.0, 60.0, 300), 10.0 ** RNG.uniform(1.6, 2.8, 300)))
    width = 10.0 ** np.concatenate((RNG.uniform(-14.0, 1.5, 600), RNG.uniform(-6.0, 3.0, 300)))
    values, errors = mills_difference(a, width)

    def mills(x: arb) -> arb:
        return (arb.pi() / 2).sqrt() * (x * x / 2).exp() * (x / arb(2).sqrt()).erfc()

    for x, w, value, error in zip(a, width, values, errors, strict=True):
        if np.isfinite(error):
            exact = mills(arb(float(x))) - mills(arb(float(x)) + arb(float(w)))
            assert abs(arb(float(value)) / exact - 1) <= arb(float(error))
    # where the two are close together, subtracting would lose everything: at a >= -0.5 it does not
    assert np.all(errors[(a >= -0.5) & (a < 10.0)] < 1e-11)
    assert np.all(errors[(a >= 50.0) & (width <= 0.25 * a)] < 1e-13)
