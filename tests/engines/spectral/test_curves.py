"""One allocation of a group that joins on nodes of its loss (S-95 to S-97), beside exact laws and the oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.special import log_ndtr

from engines.one_allocation_balls import of, two_places
from groupdp.engines import spectral
from groupdp.pairs import Allocation, AllocationRound
from kernel_inspect import kernel
from oracle import allocation as oracle
from oracle import few_places as truth

CASES = [(2, 0.3, 12.0), (3, 0.4, 8.0), (2, 0.25, 12.0)]


def curve(places: int, shift: float, c: float, s: float = 1.0, beyond: float = 8.0):
    """The curve for tilts up to 1.4 c, whose step is that of the frequency beyond / t."""
    t = shift / math.sqrt(places)
    return kernel.curve(of(places, shift, True), 1.4 * c, beyond / t, c, s / t, c * (math.exp(shift**2) - 1) / places)


@pytest.mark.parametrize(("places", "shift", "c"), CASES)
@pytest.mark.parametrize("s", [0.1, 1.0, 2.5, 4.0])
def test_s_97_the_characteristic_function_is_right_to_its_error(places, shift, c, s):
    """S-97: G and its characteristic function beside sums over all places, exact to 1e-12."""
    found = curve(places, shift, c, s)
    whole = truth.moment(places, shift, 1.0, -c).real
    assert abs(found["log_moment"] - math.log(whole)) <= found["log_moment_error"] + 1e-12
    assert found["log_moment_error"] <= 1e-9
    at = s * math.sqrt(places) / shift
    exact = truth.moment(places, shift, 1.0, complex(-c, -at)) / whole * np.exp(-1j * at * found["centre"])
    here = np.exp(complex(found["log_modulus"], found["angle"]))
    assert abs(here - exact) <= abs(here) * math.expm1(min(found["log_error"], 600.0)) + 1e-12
    assert math.log(abs(exact)) <= found["log_most"] + 1e-9
    assert s > 3.0 or abs(here) * math.expm1(found["log_error"]) <= 1e-7


@pytest.mark.parametrize(("places", "shift", "c"), [(2, 0.3, 12.0), (2, 0.25, 12.0)])
@pytest.mark.parametrize("beyond", [-2.6, -2.2, -1.6])
def test_s_95_what_a_long_step_costs(places, shift, c, beyond):
    """S-95: with a step that is too long most of the error is the step's, and the bound is not below it."""
    found = curve(places, shift, c, 1e-3, beyond)
    true = math.log(truth.moment(places, shift, 1.0, -c).real)
    assert 1e-13 < abs(found["log_moment"] - true) <= found["log_moment_error"] + 1e-13


@pytest.mark.parametrize(("shift", "c"), [(0.3, 12.0), (0.6, 5.0)])
def test_s_95_values_on_the_nodes(shift, c):
    """S-95: H(l) - K(l) of two places, where the other integral is exact."""
    found = curve(2, shift, c)
    mp.dps = 30
    t = mpf(shift) / mp.sqrt(2)
    for j in range(0, len(found["value"]), max(len(found["value"]) // 4, 1)):
        loss = mpf(found["step"]) * int(found["first"] + j)
        true = stick(shift, loss) - of_lognormal(t, loss)
        assert abs(mpf(found["value"][j]) / mpf(found["step"]) - true) <= found["doubt"][j] / found["step"] + 1e-16


def stick(shift: float, loss: mpf) -> mpf:
    """E[(1 - e^l X)_+] of two places."""
    return two_places(shift, mp.exp(-loss), True) * mp.exp(loss)


def of_lognormal(t: mpf, loss: mpf) -> mpf:
    return mp.ncdf(-loss / t + t / 2) - mp.exp(loss) * mp.ncdf(-loss / t - t / 2)


@pytest.mark.parametrize(("shift", "c"), [(0.3, 12.0), (0.6, 5.0)])
def test_s_96_the_ends_are_bounded(shift, c):
    """S-96: the sums beyond both ends, over the nodes next to them."""
    found = curve(2, shift, c)
    mp.dps = 60
    t, step = mpf(shift) / mp.sqrt(2), mpf(found["step"])
    total = mpf(0)
    first, last = int(found["first"]), int(found["first"]) + len(found["value"]) - 1
    for index in (first - 1, last + 1, last + 2):
        loss = step * index
        total += step * mp.exp(c * loss) * abs(stick(shift, loss) - of_lognormal(t, loss))
    assert total == 0 or float(mp.log(total)) <= found["log_ends"]
    assert found["log_ends"] <= -15.0


@pytest.mark.parametrize("shift", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("places", [20, 10_000])
def test_s_96_a_place_that_is_large(places, shift):
    """S-96: above 1, E[(X - a)_+] is at least that of one place beside the mean of the others, which Jensen gives."""
    for a in (1.5, 3.0, 20.0):
        gap = a - 1.0 + 1.0 / places
        z = math.log(gap * places) / shift + shift / 2
        least = places * (math.exp(log_ndtr(shift - z)) / places - gap * math.exp(log_ndtr(-z)))
        assert least <= 0.0 or math.log(least / places) <= kernel.curve_call(of(places, shift, True), a)


@pytest.mark.parametrize(
    ("places", "shift", "epochs", "delta"), [(3000, 1.0, 2, 1e-6), (4000, 2.0, 3, 1e-5), (6000, 0.5, 4, 1e-8)]
)
def test_whole_answers_hold_the_oracles(places, shift, epochs, delta):
    """S-95 to S-97: few rounds of many places, narrow, and around what an independent contour says."""
    coin = ((1.0, (((places, shift, 1.0), 1),)),)
    true = float(oracle.epsilon([(coin, epochs, True)], delta=delta, digits=7))
    rounds = ((AllocationRound((((Allocation(places, shift, 0.0), 1),),), (0.0,), True), epochs),)
    found = spectral.epsilon(rounds, log_delta=math.log(delta))
    assert found.lower - 2e-7 <= true <= found.upper + 2e-7
    assert found.width <= 1e-8
