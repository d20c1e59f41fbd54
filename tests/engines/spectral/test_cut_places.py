"""Allocations whose places are cut, beside exact moments and integrals (docs/internals/numerics.md, S-43 to S-46)."""

from __future__ import annotations

import cmath
import itertools
import math

import numpy as np
import pytest
from flint import acb, arb, arb_series, ctx
from scipy.stats import norm

from groupdp.engines import spectral
from groupdp.engines.spectral import packed
from groupdp.pairs import Allocation, AllocationRound
from kernel_inspect import kernel
from oracle import allocation as oracle


def packed_round(places: int, shift: float, p: float = 1.0):
    product = ((Allocation(places, shift, math.log(p)), 1),)
    return packed(((AllocationRound((product, product), (math.log(0.5),) * 2), 1),))


def phi_below(z: acb) -> acb:
    return (1 + (z / acb(2).sqrt()).erf()) / 2


@pytest.mark.parametrize(("places", "shift", "p"), [(1, 0.5, 1.0), (1000, 1.0, 1.0), (300, 2.0, 1e-4), (2, 5.0, 1e-9)])
def test_s_43_what_a_cut_costs(places, shift, p):
    for z in (1.0, 4.5, 6.0, 9.0):
        found = kernel.transform(packed_round(places, shift, p), z, 1e-9, 0.0, 1e-9, -20.0)
        none = norm.logcdf(z)
        exact = -np.expm1((places - 1) * none + np.log1p(p * np.expm1(norm.logcdf(z - shift) - none)) + none)
        assert math.exp(found["log_cut_off"]) >= exact * (1.0 - 1e-9)


@pytest.mark.parametrize(
    ("places", "shift", "cut", "theta"),
    [
        (10**6, 1.0, 9.0, 1500 + 2000j),
        (10**4, 1.0, 9.0, 60 + 900j),
        (500, 1.5, 5.5, 2 + 700j),
        (100, 0.3, 8.0, 40 + 0j),
        (3, 2.0, 2.5, 1 + 30j),
    ],
)
@pytest.mark.parametrize("p", [1.0, 0.01])
def test_s_44_the_transform_of_a_cut_allocation(places, shift, cut, theta, p):
    """S-44: moments up to Z = z', and a path above the axis beyond, beside the integral in ball arithmetic."""
    found = kernel.transform(packed_round(places, shift, p), cut, theta.real, theta.imag, 1000.0 + theta.imag, -32.0)
    with ctx.workprec(160):
        s, unit = arb(shift), arb(math.log(p)).exp() / places

        def integrand(z, _):
            return (-z * z / 2 + acb(theta) * unit * (s * z - s * s / 2).exp()).exp()

        ends = np.linspace(-14.0, cut, 24)
        whole = sum((acb.integral(integrand, a, b) for a, b in itertools.pairwise(ends)), acb(0))
        place = whole / (2 * arb.pi()).sqrt()
        turned = cmath.exp(1j * found["angle"])
        exact = place.log() * places + acb(theta) * (1 - unit * places)
        rest = (exact - acb(found["log_modulus"])).exp() / acb(turned.real, turned.imag)
        difference = abs(complex(rest) - 1.0)
    assert difference <= 1.1 * found["error"] + 1e-13 * places * norm.cdf(-14.0)
    assert found["error"] < 1e-8


@pytest.mark.parametrize(
    ("places", "shift", "p"), [(2000, 0.5, 1.0), (10**5, 1.0, 1.0), (10**5, 1.0, 0.3), (40, 0.1, 1.0)]
)
@pytest.mark.parametrize("w", [24, 61])
def test_s_45_whole_moments_of_a_cut_allocation(places, shift, p, w):
    """S-45: w! times the coefficient of t^w of e^{(1 - p) t} (sum m_k t^k / k!)^M."""
    cut = 6.5
    found = kernel.line(packed_round(places, shift, p), cut, w - 1.0, 0.0, 100.0, -30.0)
    with ctx.workprec(300):
        s, unit, before = arb(shift), arb(math.log(p)).exp() / places, ctx.cap
        ctx.cap = w + 1
        try:
            terms = [
                unit**k
                * (s * s * k * (k - 1) / 2).exp()
                * phi_below(acb(cut - k * s)).real
                / arb(k).gamma()
                / max(k, 1)
                if k
                else phi_below(acb(cut)).real
                for k in range(w + 1)
            ]
            series = (arb_series(terms).log() * places + arb_series([0, 1 - unit * places])).exp()
            exact = float((series[w] * arb(w + 1).gamma()).log())
        finally:
            ctx.cap = before
    assert abs(found["log_moment"] - exact) <= found["log_moment_error"] + 1e-15 * abs(exact)
    assert found["log_moment_error"] < 1e-9
    assert exact - 1e-12 <= found["log_upper"] <= exact + 0.2


@pytest.mark.parametrize(("places", "shift", "p"), [(60, 0.3, 1.0), (200, 0.3, 1.0), (90, 0.4, 0.5)])
@pytest.mark.parametrize("frequency", [3.0, 20.0, 70.0])
def test_s_45_moments_off_the_axis(places, shift, p, frequency):
    """S-45: a cut at 9 leaves out less than 1e-15, and the oracle has moments by tables of its own."""
    c, factor = 40.0, (places, shift, p)
    found = kernel.line(packed_round(places, shift, p), 9.0, c, frequency, 80.0, -28.0)
    exact = np.exp(oracle.log_moment(factor, 1.0 + c + 1j * frequency) - oracle.log_moment(factor, 1.0 + c))
    exact *= cmath.exp(-1j * frequency * found["centre"])
    assert abs(complex(found["real"], found["imaginary"]) - exact) <= found["error"] + 3e-9
    assert found["error"] < 1e-9


@pytest.mark.parametrize("frequency", [90.0, 130.0])
@pytest.mark.parametrize("cut", [1.0, 2.0])
def test_s_46_decay_with_cut_places(cut, frequency):
    """S-46: a cut through likely outcomes, and one place with enough of them: the Gaussian part alone is no bound."""
    places, shift = 12, 0.6
    found = kernel.line(packed_round(places, shift), cut, 60.0, frequency, 140.0, -28.0)
    modulus = abs(complex(found["real"], found["imaginary"]))
    assert modulus > 100.0 * found["error"]
    assert -0.5 * frequency**2 * shift**2 / places < math.log(modulus - found["error"]) <= found["log_decay"]


#: Epsilons at delta = 1e-8 by the oracle, to seven digits.
SMALL_LOSSES = [(140, 1 / 4.656, 5, 0.194219083), (100, 0.25, 4, 0.242656946)]


@pytest.mark.parametrize(("places", "shift", "epochs", "exact"), SMALL_LOSSES)
def test_the_oracle_is_between_the_sides_of_small_losses(places, shift, epochs, exact):
    """[0, 0.222] was the answer for 140 batches, 5 epochs and noise 4.656; the truth is 0.194."""
    found = spectral.epsilon(((AllocationRound.of(places, shift), epochs),), log_delta=math.log(1e-8))
    assert found.lower - 3e-7 <= exact <= found.upper + 3e-7
    assert found.width <= 1e-8


@pytest.mark.whole
@pytest.mark.parametrize(("places", "shift", "epochs", "exact"), SMALL_LOSSES)
def test_the_values_of_small_losses_are_the_oracle_s(places, shift, epochs, exact):
    made = oracle.epsilon([(oracle.spread(1, places, 1 / shift), epochs, False)], delta=1e-8, digits=7)
    assert made == pytest.approx(exact, abs=2e-9)


@pytest.mark.parametrize(("places", "shift"), [(137, 0.151), (10**5, 0.5), (10**6, 1.0)])
def test_one_epoch_is_the_inverse_of_the_laplace_transform(places, shift):
    """delta = E(X - alpha)_+ from E[e^{theta X}] alone: one epoch of 137 batches and shift 0.151 was declined."""
    target = 1e-6
    found = spectral.epsilon(((AllocationRound.of(places, shift), 1),), log_delta=math.log(target))
    z = np.linspace(-9.0, 9.0, 721)
    weight = np.full(z.size, z[1] - z[0]) * norm.pdf(z)
    x = np.expm1(shift * z - shift * shift / 2) / places
    deviation = math.sqrt(math.expm1(shift * shift) / places)
    theta = min(4.0 / deviation, 12.0 / x[-1])
    step = 2.0 * math.pi / (60.0 * deviation + 40.0 / theta)
    at = theta + 1j * step * np.arange(int(9.0 / deviation / step))
    log_v = np.array([places * np.log1p(np.sum(weight * np.expm1(one * x))) for one in at])
    for epsilon, sign in ((found.lower, 1.0), (found.upper, -1.0)):
        terms = np.real(np.exp(log_v - at * math.expm1(epsilon)) / at**2)
        delta = step / math.pi * (terms.sum() - 0.5 * terms[0])
        assert sign * (delta - target) >= -1e-6 * target
    assert found.width <= 1e-8 * found.upper
