"""A round under its tilted law: moments, characteristic functions, their decay, Chernoff levels (numerics.md).

Coins of branches with a quadrature, of Gaussian ones, and of both, against ball arithmetic.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import acb, arb, ctx

from engines.spectral_truth import PRECISION, branch_of, composition_of, round_moment, shortened
from groupdp.engines.spectral import packed
from kernel_inspect import kernel
from oracle.pairs import Gaussian, Round

ROUNDS = {
    "remove": Round([(1, branch_of("one in a hundred", "nothing"))]),
    "add": Round([(1, branch_of("nothing", "one in a hundred"))]),
    "substitute": Round([(1, branch_of("small shifts", "small shifts"))]),
    "uneven": Round([(1, branch_of("powers", "always present"))]),
    "peaks": Round([(1, branch_of("two peaks", "nothing"))]),
    "wide": Round([(1, branch_of("wide", "nothing"))]),
    "wide on both sides": Round([(1, branch_of("wide and fine", "wide"))]),
    "tiny": Round([(1, branch_of("tiny shift", "nothing"))]),
    "coin": Round([("0.7", branch_of("one in a hundred", "nothing")), ("0.3", branch_of("powers", "small shifts"))]),
    "rare branch": Round([("0.999999", branch_of("small shifts", "nothing")), ("1e-6", branch_of("powers", "powers"))]),
    "gaussian": Round([(1, Gaussian("0.36"))]),
    "gaussians": Round([("0.9", Gaussian("0.25")), ("0.09", Gaussian("0.5")), ("0.01", Gaussian("1"))]),
    "small gaussians": Round([("0.5", Gaussian("1e-10")), ("0.5", Gaussian("4e-10"))]),
    "both": Round([("0.8", Gaussian("0.25")), ("0.2", branch_of("small shifts", "one in a hundred"))]),
    "an atom": Round([("0.5", Gaussian(0)), ("0.5", Gaussian("0.25"))]),
}

#: Those whose losses are a few units, so that roundings can be compared with 1e-15.
NOT_WIDE = [name for name in ROUNDS if not name.startswith("wide")]


def kernel_rounds(name: str, times: int = 1) -> list[object]:
    return packed(composition_of([(ROUNDS[name], times)]))


@pytest.fixture(autouse=True)
def precision():
    with ctx.workprec(PRECISION):
        yield


@pytest.mark.thinned(6)
@pytest.mark.parametrize(
    ("name", "tilt"),
    [(name, tilt) for name in ROUNDS for tilt in (0.25, 3.0) if (name, tilt) != ("wide on both sides", 3.0)],
)
def test_s_17_s_18_log_moments_are_within_their_stated_error(name, tilt):
    """S-17 for one branch, S-18 for coins and Gaussian branches."""
    found = kernel.tilted(kernel_rounds(name), tilt, 2.0, -40.0, [])
    truth = round_moment(ROUNDS[name], tilt).real.log()
    assert abs(truth - arb(found["log_moment"])) <= arb(found["log_moment_error"])
    assert found["log_moment_error"] <= 1e-11 * max(found["log_moment"], 1e-2)


@pytest.mark.parametrize("tilt", [0.5, 4.0])
@pytest.mark.parametrize("name", NOT_WIDE)
def test_s_19_the_characteristic_function_is_within_its_stated_error(name, tilt):
    """S-19, S-20: T log phi(s) for one and for many rounds."""
    deviation = math.sqrt(kernel.tilted(kernel_rounds(name), tilt, 1.0, -40.0, [])["variance"])
    step, samples = shortened(0.35 / max(deviation, 1e-9)), 9
    size = round_moment(ROUNDS[name], tilt)
    for times in (1, 1000):
        found = kernel.characteristic(kernel_rounds(name, times), tilt, step, -70.0, samples)
        for i in (1, 3, 8):
            s = arb(step) * i
            phi = round_moment(ROUNDS[name], tilt, step * i) / size * acb(0, -s * arb(found["centre"])).exp()
            value = acb(found["log_modulus"][i], found["angle"][i])
            ratio = (value - times * phi.log()).exp() - 1
            assert abs(ratio) <= arb(found["log_error"][i]).expm1()
            assert times * abs(phi).log() <= arb(found["log_largest"][i])
            assert found["log_error"][i] <= 1e-8 * times


@pytest.mark.parametrize("tilt", [0.5, 4.0])
@pytest.mark.parametrize("name", NOT_WIDE)
def test_s_19_the_error_of_low_frequencies_is_proportional_to_them(name, tilt):
    """S-19: where s^2 is negligible beside s, the first-order charge alone has to cover the rounding."""
    variance = kernel.tilted(kernel_rounds(name), tilt, 1.0, -40.0, [])["variance"]
    step = shortened(1e-5 / math.sqrt(variance))
    found = kernel.characteristic(kernel_rounds(name), tilt, step, -100.0, 4)
    size = round_moment(ROUNDS[name], tilt)
    for i in (1, 2, 3):
        turn = acb(0, -arb(step) * i * arb(found["centre"])).exp()
        phi = round_moment(ROUNDS[name], tilt, step * i) / size * turn
        ratio = (acb(found["log_modulus"][i], found["angle"][i]) - phi.log()).exp() - 1
        assert abs(ratio) <= arb(found["log_error"][i]).expm1() + arb(1e-32)
        assert found["log_error"][i] <= 1e-15  # 1e-5 of what it is at frequencies of the size of 1 / deviation


@pytest.mark.parametrize("tilt", [0.3, 2.0, 20.0])
@pytest.mark.parametrize("name", ROUNDS)
def test_s_22_the_characteristic_function_is_below_its_certificate_at_every_later_frequency(name, tilt):
    """S-22."""
    reach = max(one.reach for _, one in ROUNDS[name].coin)
    longest = min(60.0 / max(reach, 1e-3), 3e4)
    found = kernel.tilted(kernel_rounds(name), tilt, longest, -25.0, [])
    frequencies = longest * np.geomspace(1e-3, 1.0, 100)
    logs = kernel.tilted(kernel_rounds(name), tilt, longest, -25.0, frequencies.tolist())["decay"]
    # In doubles: the quadrature is good to 1e-10, the certificate is not that tight.
    loss, weight = np.array(found["loss"], dtype=complex), np.array(found["weight"], dtype=complex)
    if found["loss_imaginary"]:  # nodes off the axis (S-51)
        loss += 1j * np.array(found["loss_imaginary"])
        weight += 1j * np.array(found["weight_imaginary"])
    waves = np.exp(1j * np.multiply.outer(frequencies, loss - found["centre"]))
    phi = waves @ weight
    squares = [float(arb(one.square)) for _, one in ROUNDS[name].coin if isinstance(one, Gaussian)]
    for omega, square in zip(found["omega"], squares, strict=True):
        mean = (tilt + 0.5) * square - found["centre"]
        phi = phi + omega * np.exp(1j * frequencies * mean - 0.5 * frequencies**2 * square)
    later = np.maximum.accumulate(np.abs(phi)[::-1])[::-1]
    bound = np.exp(logs)
    assert np.all(later <= bound + 1e-9)
    assert bound[-1] <= bound[0] <= 1.0


@pytest.mark.parametrize("name", ["gaussian", "gaussians"])
def test_s_22_gaussian_branches_decay_as_they_do_even_in_one_round(name):
    """S-22: to e^-36 and beyond, where 1 - captured would have stopped at 1e-15."""
    found = kernel.tilted(kernel_rounds(name), 1.0, 20.0, -25.0, [12.0, 16.0])
    # The widest branch decays slowest: mu^2 = 0.36, or 0.25.
    square = 0.36 if name == "gaussian" else 0.25
    for frequency, level in zip((12.0, 16.0), found["decay"], strict=True):
        assert -0.5 * frequency**2 * square - 2.0 <= level <= -0.5 * frequency**2 * square + 0.1


@pytest.mark.thinned(6)
@pytest.mark.parametrize("times", [100, 10**7])
@pytest.mark.parametrize("name", [name for name in ROUNDS if name != "tiny"])
def test_s_24_the_scan_bounds_the_cumulants_from_above(name, times):
    """S-5, S-24: level >= log kappa(c) + K(c), and not by much."""
    tilts = [0.01, 0.5, 2.0]
    found = kernel.scan(kernel_rounds(name, times), tilts)
    for tilt, k, level in zip(found["tilt"], found["k"], found["level"], strict=True):
        c = arb(tilt)
        truth = times * round_moment(ROUNDS[name], tilt).real.log() + c * c.log() - (1 + c) * (1 + c).log()
        assert truth <= arb(level)
        assert level - float(truth) <= 1e-3 * (1.0 + abs(k))


def test_s_5_kappa_is_the_supremum():
    """S-5: sup_v (1 - e^-v)_+ e^{-cv} = c^c / (1 + c)^{1 + c}, attained at v = log(1 + 1/c)."""
    for c in (arb(0.01), arb(1), arb(30)):
        kappa = (c * c.log() - (1 + c) * (1 + c).log()).exp()
        at = (1 + 1 / c).log()
        assert ((1 - (-at).exp()) * (-c * at).exp() - kappa).contains(0)
        for v in np.linspace(0.001, 12.0, 400).tolist():
            assert (1 - (-arb(v)).exp()) * (-c * arb(v)).exp() <= kappa * (1 + arb(1e-30))
