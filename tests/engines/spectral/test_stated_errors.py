"""Charges below what any computation shows: no stated error is below its formula in docs/internals/numerics.md.

Rounding errors add up at random, charges to their worst case: a sum of forty roundings is seldom wrong by four. So the
formulas of the note are evaluated here, from the kernel's own tables, and the errors it states must not be below them
(nor far above, which would prove nothing).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx

import oracle
from engines.spectral_truth import PRECISION, TABULATED, U, branch_of, composition_of, kernel_round, shortened, side_of
from groupdp import pairs
from groupdp.engines.spectral import packed
from kernel_inspect import kernel
from oracle.pairs import Gaussian, Round

#: Sums in another order.
NEARLY = 1.0 - 1e-9


@pytest.fixture(autouse=True)
def precision():
    with ctx.workprec(PRECISION):
        yield


def terms_of(name: str, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shifts, |log p| and the terms p e^{m v - m^2 / 2} of one side, relative to the largest."""
    m, p = (np.array(part)[:, None] for part in TABULATED[name])
    logs = np.log(p / p.sum()) + m * v - 0.5 * m * m
    return m, np.abs(np.log(p / p.sum())), np.exp(logs - logs.max(axis=0))


@pytest.mark.parametrize("name", ["small shifts", "tiny shift"])
def test_s_15_s_1_the_error_of_increments(name):
    """S-15: R - 1 by expm1, ((n + 14) (plain + exponents) + 10 exponents) U / R + 8 U |log R|."""
    step = shortened(0.37)
    found = kernel.table(kernel_round(name, "nothing"), step, -30.0, 60)
    m, p = (np.array(part)[1:, None] for part in TABULATED[name])  # without the shift 0
    v = step * np.arange(-30.0, 30.0)
    ratio = p * np.exp(m * v - 0.5 * m * m)
    exponents = (ratio * (m * np.abs(v) + 0.5 * m * m)).sum(axis=0)
    plain = (p * (m * np.abs(v) + 0.5 * m * m)).sum(axis=0)
    whole = np.exp(np.array(found["log_a"]))
    stated = U * ((len(m) + 14) * (plain + exponents) + 10 * exponents) / whole + 8 * U * np.abs(found["log_a"])
    near = np.abs(whole - 1.0) < 0.49  # beyond, log R is not taken from R - 1
    assert np.count_nonzero(near) > 30
    assert np.all(np.array(found["log_a_error"])[near] >= stated[near] * NEARLY)
    assert np.all(np.array(found["log_a_error"])[near] <= 1.01 * stated[near])


@pytest.mark.parametrize("name", ["three peaks", "rarer than doubles", "evenly spaced, two heaps"])
def test_s_15_s_1_the_error_of_logarithms(name):
    """S-15: (n + 20 + 9 log n + 12 exponents + 3 |top|) U + 8 U |log R|."""
    step = shortened(0.37)
    found = kernel.table(kernel_round(name, "nothing"), step, -120.0, 280)
    v = step * np.arange(-120.0, 160.0)
    m, logs, terms = terms_of(name, v)
    exponents = (terms * (m * np.abs(v) + 0.5 * m * m + logs)).sum(axis=0) / terms.sum(axis=0)
    top = np.array(found["log_a"]) - np.log(terms.sum(axis=0))
    n = len(m)
    stated = U * (n + 20 + 9 * math.log(n) + 12 * exponents + 3 * np.abs(top)) + 8 * U * np.abs(found["log_a"])
    assert np.all(np.array(found["log_a_error"]) >= stated * (1.0 - 1e-6))
    assert np.all(np.array(found["log_a_error"]) <= 1.01 * stated)


def tables(right: str, left: str, tilt: float, frequency: float, log_tolerance: float) -> dict[str, np.ndarray]:
    """The quadrature of a tilted branch (S-17 asks for a finer one by 1 + c), and the error of each weight."""
    found = kernel.quadrature(
        kernel_round(right, left), 0.0, 0.0, tilt, frequency, log_tolerance - math.log1p(1.0 + tilt)
    )
    table = {name: np.array(found[name]) for name in ("u", "psi", "log_a", "psi_error", "log_a_error", "log_weight")}
    exponent = table["log_weight"] + table["log_a"] + tilt * table["psi"]
    size = 0.5 * table["u"] ** 2 + np.abs(table["log_a"]) + np.abs(tilt * table["psi"]) + abs(exponent.max())
    step = table["u"][1] - table["u"][0]
    weight = np.exp(exponent - exponent.max())
    table["weight"] = weight / weight.sum()
    table["doubt"] = table["log_a_error"] + tilt * table["psi_error"] + 6 * U * size
    table["doubt"] += U * (4 * abs(math.log(step)) + 20)
    table["trapezoid"] = np.array(math.exp(found["log_error"]))
    return table


@pytest.mark.parametrize(("right", "left"), [("always present", "nothing"), ("powers", "always present")])
def test_s_17_s_1_the_error_of_log_g(right, left):
    """S-17: the weighted mean of the weights' errors, 64 U, 4 U |log G| and the trapezoid rule."""
    tilt = 3.0
    found = kernel.tilted(kernel_round(right, left), tilt, 2.0, -40.0, [])
    table = tables(right, left, tilt, 2.0, -40.0)
    assert found["log_moment"] > 0.5  # below, S-23 is used
    stated = float((table["weight"] * table["doubt"]).sum()) + 64 * U + 4 * U * abs(found["log_moment"])
    assert stated * NEARLY <= found["log_moment_error"] <= 1.2 * stated + 2.0 * float(table["trapezoid"])


def test_s_18_the_errors_of_gaussian_branches():
    """S-18: 24 U v in an exponent, 8 U |log w| of a weight."""
    coin = Round([("0.5", Gaussian(4)), ("0.25", Gaussian(9)), ("0.25", Gaussian(16))])
    tilt = 6.0
    found = kernel.tilted(packed(composition_of([(coin, 1)])), tilt, 1.0, -40.0, [])
    v = 0.5 * tilt * (tilt + 1.0) * np.array([4.0, 9.0, 16.0])
    logs = np.log([0.5, 0.25, 0.25])
    stated = float((np.array(found["omega"]) * (24 * v - 8 * logs)).sum()) * U + 4 * U * found["log_moment"]
    assert stated * NEARLY <= found["log_moment_error"] <= 2.0 * stated


def test_s_18_the_errors_of_weights_of_a_coin():
    """S-18: where log G is small, a branch's G - 1 carries U (16 + 8 |log w|) of its weight."""
    tilt, weight = 1.0, 1e-100
    coin = Round([(1 - oracle.exact(weight), Gaussian("1e-250")), (weight, branch_of("powers", "nothing"))])
    found = kernel.tilted(packed(composition_of([(coin, 1)])), tilt, 1.0, -40.0, [])
    one = kernel.quadrature(kernel_round("powers", "nothing"), 0.0, 0.0, tilt, 1.0, -40.0 - math.log1p(1.0 + tilt))
    charge = one["excess_error"] + one["excess"] * U * (16 - 8 * math.log(weight))
    assert found["log_moment_error"] >= weight * charge * NEARLY
    assert one["excess"] * U * 8 * -math.log(weight) > 0.1 * charge


@pytest.mark.parametrize(("right", "left"), [("always present", "nothing"), ("powers", "always present")])
def test_s_19_s_20_s_1_the_errors_of_the_characteristic_function(right, left):
    """S-19: to first and second order in s; S-20: 64 U of the logarithm beside them."""
    tilt, step, samples = 3.0, shortened(0.2), 8
    one = kernel_round(right, left, 7)
    found = kernel.tilted(one, tilt, step * samples, -40.0, [])
    table = tables(right, left, tilt, step * samples, -40.0)
    loss, weight = np.array(found["loss"]), np.array(found["weight"])
    away = np.abs(loss - found["centre"])
    error = table["psi_error"] + 4 * U * (np.abs(loss) + abs(found["centre"]))
    doubt = table["doubt"] + float((weight * table["doubt"]).sum()) + 64 * U
    first = float((weight * (error + doubt * away)).sum())
    assert first * NEARLY <= found["first_order_error"] <= 1.1 * first
    sampled = kernel.characteristic(one, tilt, step, -40.0, samples)
    first = found["first_order_error"] + (94 + 128) * U * float((weight * away).sum())
    second = 3 * (len(loss) + 60) * U * float((weight * away**2).sum()) / 4
    for i in range(1, samples):
        s, log_modulus, angle = step * i, sampled["log_modulus"][i] / 7, sampled["angle"][i] / 7
        relative = (s * first + s * s * second) / math.exp(log_modulus)
        rounding = 65 * U * (abs(log_modulus) + abs(angle))
        assert sampled["log_error"][i] >= 7 * (rounding - math.log1p(-relative)) * NEARLY
        assert sampled["log_largest"][i] >= 7 * (log_modulus + rounding + math.log1p(relative)) - 1e-17
        assert sampled["log_error"][i] <= 8 * (rounding - math.log1p(-relative)) + 7 * 3.0 * float(table["trapezoid"])


#: mu, rounds, epsilon; the angles of the last are large.
@pytest.mark.parametrize(("mu", "rounds", "epsilon"), [(0.25, 16, 0.5), (0.25, 16, 9.0), (200.0, 1, 20000.0)])
def test_s_21_s_20_s_1_the_errors_of_the_sum(mu, rounds, epsilon):
    """S-21: from the sums over the samples that the kernel keeps, both sides in balls."""
    one = packed(((pairs.Round.of(pairs.Side.point(mu), pairs.ZERO), rounds),))
    found = kernel.contour(one, epsilon, -60.0, -32.0)
    # log G = mu^2 c (c + 1) / 2 to 24 U, T times, and the roundings of T log G.
    k = rounds * mu * mu * found["tilt"] * (found["tilt"] + 1) / 2
    assert (24 + 4 + 1) * U * k * NEARLY <= found["log_scale_error"] <= 32 * U * k
    exponent = arb(found["log_scale"]) - arb(found["tilt"]) * arb(epsilon)
    total = (arb(found["logarithm"]) - exponent).exp()
    error = found["error_plain"] + found["error_angle"] * (40 + 8 + 64) * U
    error += found["error_frequency"] * 4 * U * (abs(epsilon) + found["centre_size"])
    error = arb(error) / arb(found["period"])
    slack = found["log_scale_error"] + 6 * U * (abs(found["log_scale"]) + abs(found["tilt"] * epsilon))
    assert arb(found["upper"]) >= (total + error).log() + exponent + slack * NEARLY
    assert arb(found["lower"]) <= (total - error).log() + exponent - slack * NEARLY


@pytest.mark.parametrize(("right", "left"), [("one in a hundred", "nothing"), ("nothing", "powers")])
def test_s_7_s_8_the_error_is_relative_to_the_moment(right, left):
    """S-7 to S-9: relative to the sum, times 2."""
    tilt, frequency = 2.0, 1.5
    found = kernel.quadrature(kernel_round(right, left), 0.0, 0.0, tilt, frequency, -8.0)
    branch, strip, step = branch_of(right, left), arb(found["strip"]), arb(found["u"][1] - found["u"][0])
    growth = strip**2 / 2 - tilt * (arb(float(np.ptp(branch.left.float_shifts))) * strip / 2).cos().log()
    lines = 1 + (frequency * arb(branch.reach) * strip).exp()
    rule = growth.exp() * lines / (2 * arb.pi() * strip / step).expm1()
    total = np.exp(np.array(found["log_weight"]) + np.array(found["log_a"]) + tilt * np.array(found["psi"])).sum()
    stated = (2 * (rule + arb(found["log_tails"]).exp() / total)).log()
    assert stated - 1e-9 <= arb(found["log_error"]) <= stated + 0.01


@pytest.mark.parametrize(("right", "left"), [("wide", "nothing"), ("nothing", "wide"), ("wide and fine", "wide")])
def test_s_7_by_variances_the_modulus_and_the_turn_are_charged(right, left):
    """S-7 with S-27: 1 - V d^2 / 2 in place of the cosine, and (pi / 4) V d^2 of the frequency for each such side."""
    tilt, frequency = 0.2, 0.25
    found = kernel.quadrature(kernel_round(right, left), 0.0, 0.0, tilt, frequency, -8.0)
    variances = kernel.variances(kernel_round(right, left))
    branch, strip, step = branch_of(right, left), arb(found["strip"]), arb(found["u"][1] - found["u"][0])
    growth = strip**2 / 2
    for variance, side in zip(variances, (branch.right, branch.left), strict=True):
        if float(np.ptp(side.float_shifts)) * found["strip"] > 0.98 * math.pi:
            growth += frequency * arb.pi() / 4 * variance * strip**2
            growth -= (tilt if side is branch.left else 0.0) * (1 - arb(variance) * strip**2 / 2).log()
    lines = 1 + (frequency * arb(branch.reach) * strip).exp()
    rule = growth.exp() * lines / (2 * arb.pi() * strip / step).expm1()
    total = np.exp(np.array(found["log_weight"]) + np.array(found["log_a"]) + tilt * np.array(found["psi"])).sum()
    stated = (2 * (rule + arb(found["log_tails"]).exp() / total)).log()
    assert stated - 1e-9 <= arb(found["log_error"]) <= stated + 0.01


@pytest.mark.parametrize(("right", "left"), [("one in a hundred", "nothing"), ("powers", "powers")])
def test_s_22_the_certificate_of_decay_is_about_every_later_frequency(right, left):
    """S-22: the share on grids less sum of mass (1 - env(s W / 2)), env sin(x)/x up to pi/2 and 1/x beyond."""
    frequencies = np.geomspace(0.1, 6.0, 30)  # beyond, S-40 is closer
    found = kernel.tilted(kernel_round(right, left), 2.0, 6.0, -25.0, frequencies.tolist())
    widths, masses = (np.array(found[name]) for name in ("widths", "masses"))
    x = 0.5 * np.multiply.outer(frequencies, widths)
    envelope = np.where(x < 0.5 * math.pi, np.sinc(x / math.pi), 1.0 / x)
    stated = found["on_grids"] - (1.0 - envelope) @ masses
    assert np.all(np.exp(found["decay"]) >= np.maximum(stated, 1e-15) * NEARLY)
    assert np.all(np.exp(found["decay"]) <= stated + 1e-6)


def test_s_23_s_1_the_errors_of_the_small_loss_sum():
    """S-23: what an error of Psi carries over, beside the rounding of the terms; with B = 1."""
    tilt = 4.0
    found = kernel.quadrature(kernel_round("small shifts", "nothing"), 0.0, 0.0, tilt, 1.0, -60.0)
    psi, error, log_weight = (np.array(found[name]) for name in ("psi", "psi_error", "log_weight"))
    y, ratio, density = tilt * psi, np.exp(psi), np.exp(log_weight)
    terms = np.maximum(ratio * (np.expm1(y) - y) + tilt * (psi * ratio - np.expm1(psi)), 0.0)
    scaled = (1.0 + tilt) * error
    carried = ratio * (scaled * np.abs(np.expm1(y)) + scaled**2 * (np.expm1(y) + 2.0))
    rounding = U * (150 + 32 * np.abs(log_weight) + 4 * np.abs(y) + 64)
    stated = float((density * (terms * rounding + carried)).sum())
    assert stated * (1.0 - 1e-6) <= found["excess_error"] <= 1.02 * stated
    assert float((density * carried).sum()) > 0.02 * stated


@pytest.mark.parametrize(("right", "left"), [("one in a hundred", "nothing"), ("small shifts", "small shifts")])
def test_s_23_the_identities_are_charged_for_their_trapezoid_errors(right, left):
    """S-23: on a coarse grid E[A] and E[B] are not 1; (1 + c) and c times their errors come on top of that of G."""
    tilt, tolerance = 2.0, -9.0
    one = kernel_round(right, left)
    found = kernel.tilted(one, tilt, 0.5, tolerance, [])
    grid = kernel.quadrature(one, 0.0, 0.0, tilt, 0.5, tolerance - math.log1p(1.0 + tilt))
    assert found["log_moment"] < 0.5
    of_g = math.exp(grid["log_error"] + found["log_moment"])
    stated = (grid["excess_error"] + of_g + grid["identity_error"]) / max(1.0, math.exp(found["log_moment"]))
    assert found["log_moment_error"] >= stated * NEARLY
    assert grid["identity_error"] > of_g


def test_s_24_the_errors_of_psi_in_a_level():
    """S-24: (1 + c) times the largest error of Psi, and 32 U of the largest |log weight|, here those at the peak."""
    tilt = 2000.0
    one = kernel_round("small shifts", "nothing", 10_000)
    found = kernel.scan(one, [tilt])
    peak = 0.3 * (1.0 + tilt)
    table = kernel.table(one, 1.0, math.floor(peak), 1)
    of_psi, of_weights = (1.0 + tilt) * table["psi_error"][0], 32 * U * math.floor(peak) ** 2 / 2
    kappa = float((arb(tilt) * arb(tilt).log() - (1 + arb(tilt)) * (1 + arb(tilt)).log()).mid())
    assert of_psi > 0.1 * of_weights
    stated = 1e4 * (of_psi + of_weights) + 1e-12 * found["k"][0]
    assert found["level"][0] - kappa - found["k"][0] >= stated - 1e-6  # the subtraction's own rounding
    assert 1e4 * of_psi > 3e-6


#: Shifts and probabilities, rounds, log delta, epsilon.
DISCARDED = [(([0.0, 1.25], [0.99, 0.01]), 2, -8.0, 1.0), (([0.0, 1.0], [0.9, 0.1]), 3, -6.0, 0.8)]


@pytest.mark.parametrize(("law", "rounds", "log_delta", "epsilon"), DISCARDED)
def test_s_14_the_part_discarded_is_within_its_errors(law, rounds, log_delta, epsilon):
    """S-14: p - e^eps q, less its errors; and from above, with them and e^eps times the remainder."""
    one = packed(((pairs.Round.of(side_of(oracle.Mixture(*law, 1)), pairs.ZERO), rounds),))
    found = kernel.discarded(one, log_delta, epsilon)
    p, q, rest = (arb(found[name]).exp() for name in ("log_p", "log_q", "log_remainder"))
    level, p_error, q_error = arb(epsilon).exp(), arb(found["p_error"]), arb(found["q_error"])
    assert arb(found["log_least"]).exp() <= p * (1 - p_error) - level * q * (1 + q_error)
    assert arb(found["log_most"]).exp() >= p * (1 + p_error) - level * q * (1 - q_error) + level * rest
    # zeta is Q(D) of one round: what may be undone beyond u_0, and below it.
    ((_, _, _, log_zeta, _),) = found["branches"]
    assert rest >= rounds * arb(-30).exp() * arb(log_zeta).exp()
    assert level * rest / p > 1e-12  # far above the rounding


def test_s_14_beyond_the_farthest_epsilon_only_p_is_known():
    """S-14: prepared for one epsilon, asked at a larger one; P(D) alone is certain there."""
    side = oracle.Mixture([0.0, 1.25], [0.99, 0.01], 1)
    one = packed(((pairs.Round.of(side_of(side), pairs.ZERO), 2),))
    found = kernel.discarded(one, -8.0, 1.0, 1.5)
    assert found["farthest"] < 1.5
    assert arb(found["log_p"]) <= arb(found["log_most"])
