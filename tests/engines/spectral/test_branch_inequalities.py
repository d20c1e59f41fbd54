"""One branch on its nodes: what is claimed of densities, slopes, quadratures and tails (docs/internals/numerics.md).

Every test compares a bound that the kernel computes (tests/shared/kernel_inspect) with the true quantity it bounds, in
ball arithmetic.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import acb, arb, ctx

import oracle
from engines.spectral_truth import (
    BRANCHES,
    PRECISION,
    TABULATED,
    U,
    assert_within_four_units,
    binomial,
    branch_of,
    composition_of,
    kernel_round,
    shortened,
    true_log,
    true_mean,
    true_moment,
)
from groupdp.engines.spectral import packed
from kernel_inspect import kernel
from oracle.pairs import Branch, Round, nothing

ELEMENTARY = {
    "exp": (arb.exp, (-700.0, 700.0)),
    "expm1": (arb.expm1, (-40.0, 40.0)),
    "expm1 near 0": (arb.expm1, (-1e-3, 1e-3)),
    "log": (arb.log, (1e-3, 1e3)),
    "log next to 1": (arb.log, (0.99, 1.01)),
    "log1p": (arb.log1p, (-0.5, 0.5)),
    "sin": (arb.sin, (-1e3, 1e3)),
    "cos": (arb.cos, (-1e3, 1e3)),
    "sin near 0": (arb.sin, (-1e-3, 1e-3)),
}


@pytest.fixture(autouse=True)
def precision():
    with ctx.workprec(PRECISION):
        yield


@pytest.mark.parametrize("name", ELEMENTARY)
def test_s_1_the_c_library_is_within_four_units_in_the_last_place(name):
    """S-1."""
    exact, (low, high) = ELEMENTARY[name]
    x = np.random.default_rng(5).uniform(low, high, 2000).tolist()
    assert_within_four_units(exact, x, map(getattr(math, name.split()[0]), x))


def test_s_1_normal_tails_and_arguments_are_within_four_units_in_the_last_place():
    """S-1."""
    generator = np.random.default_rng(6)
    x = generator.uniform(-6.0, 26.0, 2000).tolist()
    assert_within_four_units(arb.erfc, x, map(math.erfc, x))
    for real, imaginary in generator.normal(size=(2000, 2)).tolist():
        truth = acb(real, imaginary).arg()
        assert abs(truth - arb(math.atan2(imaginary, real))) <= 8 * U * abs(truth)


def test_s_1_log_phi_is_within_what_is_charged_for_it():
    """S-1: 20 U (1 + |log Phi|)."""
    for t in [*np.linspace(-60.0, 12.0, 901).tolist(), -35.0, -35.000001, 0.0, 9.0, -1e4]:
        truth = ((-arb(t) / arb(2).sqrt()).erfc() / 2).log()
        assert abs(truth - arb(kernel.log_normal_cdf(t))) <= 20 * U * (1 + abs(truth))


@pytest.mark.parametrize(("right", "left"), BRANCHES)
def test_s_2_the_loss_increases_and_its_slope_changes_slowly(right, left):
    """S-2: |Psi''| <= span Psi', so Psi' changes by at most e^{span h} over a step h."""
    branch, step = branch_of(right, left), 0.0625
    span = max(np.ptp(branch.right.float_shifts), np.ptp(branch.left.float_shifts))
    before = None
    for n in range(-100, 160):
        u = arb(step) * n
        slope = true_mean(branch.right, u) + true_mean(branch.left, -u)
        assert slope > 0
        if before is not None:
            assert abs((slope / before).log()) <= span * step * (1 + arb(1e-30)) + arb(1e-30)
        before = slope


WIDE = {
    name: law for name, law in TABULATED.items() if np.ptp(law[0]) > 12.0
} | {
    "coarse": binomial(30, 0.5, 2.5),
    "far apart": ([0.0, 1.0, 2.0, 30.0, 31.0], [0.2, 0.2, 0.2, 0.2, 0.2]),
    "hardly ever": binomial(200, 0.0078125, 1.0),
    "uneven": ([0.3, 0.9, 4.0, 5.5, 5.6, 9.0, 12.0, 14.0], [0.3, 0.1, 0.2, 0.05, 0.05, 0.1, 0.1, 0.1]),
}  # fmt: skip


@pytest.mark.parametrize("name", WIDE)
def test_s_27_no_outcome_leaves_more_variance_than_is_said(name):
    """S-27, at outcomes all over the line, those between two shifts among them."""
    mixture = oracle.Mixture(*WIDE[name], 1)
    composition = packed(composition_of([(Round([(1, Branch(mixture, nothing()))]), 1)]))
    bound, _ = kernel.variances(composition)
    shifts = np.array(WIDE[name][0])
    outcomes = [*np.linspace(-80.0, 1.6 * shifts[-1] + 80.0, 400), *(0.5 * (shifts[1:] + shifts[:-1]))]
    truth = max((variance_at(mixture, float(v)) for v in outcomes), key=lambda ball: float(ball.mid()))
    assert truth <= bound
    assert bound <= 0.25 * np.ptp(shifts) ** 2 * (1 + 1e-12)


def test_s_27_a_law_of_many_shifts_varies_as_little_as_the_noise():
    """S-27: the use of it. The span is 40, the posterior deviation about 1."""
    bound, _ = kernel.variances(kernel_round("wide", "nothing"))
    assert bound < 1.5


def variance_at(mixture, v):
    weights = [p * (m * arb(v) - m * m / 2).exp() for m, p in zip(mixture.shifts, mixture.probabilities, strict=True)]
    total = sum(weights, arb(0))
    mean = sum((w * m for w, m in zip(weights, mixture.shifts, strict=True)), arb(0)) / total
    return sum((w * (m - mean) ** 2 for w, m in zip(weights, mixture.shifts, strict=True)), arb(0)) / total


@pytest.mark.parametrize("name", ["wide", "wide and fine", "far apart", "coarse"])
def test_s_7_a_side_has_no_zero_where_its_variance_says_so(name):
    """S-7: |R(v + id)| >= (1 - V d^2 / 2) R(v), and its argument is within (pi / 4) V d^2 of d times the mean."""
    mixture = oracle.Mixture(*WIDE[name], 1)
    composition = packed(composition_of([(Round([(1, Branch(mixture, nothing()))]), 1)]))
    variance, _ = kernel.variances(composition)
    for d in np.linspace(0.1, 0.98, 5) * math.sqrt(2.0 / variance):
        for v in np.linspace(-10.0, WIDE[name][0][-1] + 10.0, 60):
            centres = zip(mixture.shifts, mixture.probabilities, strict=True)
            terms = [p * (m * acb(v, d) - m * m / 2).exp() for m, p in centres]
            weights = [abs(term) for term in terms]
            mean = sum((w * m for w, m in zip(weights, mixture.shifts, strict=True)), arb(0)) / sum(weights, arb(0))
            turned = sum(terms, acb(0)) * acb(0, -mean * arb(d)).exp()
            assert abs(turned) >= (1 - arb(variance) * arb(d) ** 2 / 2) * sum(weights, arb(0))
            assert abs(turned.arg()) <= arb.pi() / 4 * arb(variance) * arb(d) ** 2


@pytest.mark.thinned(3)
@pytest.mark.parametrize("left_too", [False, True])
@pytest.mark.parametrize("name", [name for name in TABULATED if name != "nothing"])
def test_s_15_psi_is_within_its_stated_error(name, left_too):
    """S-15."""
    right, left = (name, "small shifts") if not left_too else ("small shifts", name)
    branch, step = branch_of(right, left), shortened(0.37)
    columns = kernel.table(kernel_round(right, left), step, -120.0, 280)
    for place, n in enumerate(range(-120, 160)):
        u = arb(step) * n
        with ctx.workprec(1200):
            log_a, log_b = true_log(branch.right, u), true_log(branch.left, -u)
        assert abs(log_a - arb(columns["log_a"][place])) <= arb(columns["log_a_error"][place])
        assert abs(log_b - arb(columns["log_b"][place])) <= arb(columns["log_b_error"][place])
        assert abs(log_a - log_b - arb(columns["psi"][place])) <= arb(columns["psi_error"][place])
    assert np.median(columns["psi_error"]) < 1e-11


@pytest.mark.parametrize("name", [name for name in TABULATED if name != "nothing"])
def test_s_16_slopes_are_right_to_what_they_are_rounded_by(name):
    """S-16."""
    step, one = shortened(0.37), kernel_round(name, "small shifts")
    right = branch_of(name, "small shifts").right
    found = kernel.table(one, step, -80.0, 160)
    for place, n in enumerate(range(-80, 80)):
        with ctx.workprec(1200):
            truth = true_mean(right, arb(step) * n)
        bound = kernel.slope_errors(one, step * n)[0]
        assert abs(truth - arb(found["mean_a"][place])) <= truth * bound + 1e-285
        assert bound < 1e-9


def assert_quadrature(right, left, tilt, frequency, log_tolerance, thinning=None):
    branch = branch_of(right, left)
    edge, width = (0.0, 0.0) if thinning is None else thinning
    # Coarse on purpose: the error is then far above the rounding, and the bound has something to bound.
    found = kernel.quadrature(kernel_round(right, left), edge, width, tilt, frequency, log_tolerance)
    psi, log_a, log_weight = (np.array(found[name]) for name in ("psi", "log_a", "log_weight"))
    sums = np.exp(log_weight + log_a + tilt * psi)
    size = true_moment(branch, tilt, 0.0, thinning).real
    assert found["log_error"] < math.log(0.1)
    for s in (0.0, -frequency, frequency):
        value = complex(np.sum(sums * np.exp(1j * s * psi)))
        truth = true_moment(branch, tilt, s, thinning)
        assert abs(acb(value) - truth) <= arb(found["log_error"]).exp() * size
    ones = float(np.sum(np.exp(log_weight + log_a))), float(np.sum(np.exp(log_weight + log_a - psi)))
    for value, exponent, name in zip(ones, (0.0, -1.0), ("right_error", "left_error"), strict=True):
        truth = true_moment(branch, exponent, 0.0, thinning).real
        assert abs(arb(value) - truth) <= arb(found[name]).exp() + 1e-13


@pytest.mark.thinned(3)
@pytest.mark.parametrize("tilt", [0.4, 3.0])
@pytest.mark.parametrize(("right", "left"), BRANCHES)
def test_s_7_the_quadrature_is_within_its_stated_error(right, left, tilt):
    """S-7, S-8 and S-9 together."""
    assert_quadrature(right, left, tilt, 3.0, -6.0)


@pytest.mark.thinned(6)
@pytest.mark.parametrize(
    ("right", "left", "tilt"),
    [
        ("wide", "nothing", 0.01),
        ("nothing", "wide", 0.2),
        ("wide and fine", "wide", 0.01),
    ],
)
def test_s_7_the_quadrature_of_many_shifts_is_within_its_stated_error(right, left, tilt):
    """S-7 with variances: the strip is far beyond what the span allows."""
    assert_quadrature(right, left, tilt, 0.25, -6.0)
    found = kernel.quadrature(kernel_round(right, left), 0.0, 0.0, tilt, 0.25, -6.0)
    assert found["strip"] > 2.0 * math.pi / 40.0


#: Sides, tilt, frequency, (edge, width) and cut, 0 for none. S-7 would have a step of 2 pi / frequency.
RARE = {
    "add": ("nothing", "one in 10 000", 30.0, 5000.0, (0.0, 0.0), 0.0),
    "remove": ("one in 10 000", "nothing", 200.0, 1500.0, (4.5, 0.08), 5.4),
    "remove, cut only": ("one in 10 000", "nothing", 20.0, 4000.0, (0.0, 0.0), 4.5),
    "remove, cut in the middle": ("one in 10 000", "nothing", 20.0, 300.0, (0.0, 0.0), 2.0),
    "both": ("one in 10 000", "one in 10 000", 200.0, 900.0, (4.5, 0.08), 5.4),
    "groups": ("groups of four", "nothing", 100.0, 400.0, (4.0, 0.05), 4.6),
}


def moment_up_to(branch, z, edge, width, end):
    """E[chi A^{1+z} B^{-z}; U < end] by adaptive quadrature in ball arithmetic."""

    def density(side, v):
        return sum((arb(p) * (arb(m) * v - arb(m) ** 2 / 2).exp() for m, p in zip(*side, strict=True)), acb(0))

    def integrand(u, _):
        value = (-u * u / 2 + (1 + z) * density(branch[0], u).log() - z * density(branch[1], -u).log()).exp()
        return value if width == 0.0 else value * ((u - arb(edge)) / (arb(width) * arb(2).sqrt())).erfc() / 2

    with ctx.workprec(90):
        pieces = [acb.integral(integrand, acb(-14), acb(0)), acb.integral(integrand, acb(0), acb(end))]
        return sum(pieces, acb(0)) / (2 * arb.pi()).sqrt()


@pytest.mark.parametrize("name", RARE)
def test_s_37_the_quadrature_of_a_rare_shift_is_within_its_stated_error(name):
    """S-37, also where the lines end at a cut (S-38): far fewer nodes than S-7 asks for, and within what is stated."""
    laws = {
        "nothing": ([0.0], [1.0]),
        "one in 10 000": ([0.0, 1.0], [1.0 - 2.0**-13, 2.0**-13]),
        "groups of four": binomial(4, 2.0**-12, 1.25),
    }
    right, left, tilt, frequency, (edge, width), cut = RARE[name]
    branch = laws[right], laws[left]
    one = Round([(1, Branch(oracle.Mixture(*branch[0], 1), oracle.Mixture(*branch[1], 1)))])
    found = kernel.quadrature(packed(composition_of([(one, 1)])), edge, width, tilt, frequency, -6.0, cut)
    assert found["cells"] > 0
    psi, log_a, log_weight = (np.array(found[key]) for key in ("psi", "log_a", "log_weight"))
    assert len(psi) < 0.5 * 12.0 * frequency / (2.0 * math.pi)
    sums, end = np.exp(log_weight + log_a + tilt * psi), found["end"] if cut else 14.0
    assert not cut or abs(end - cut) <= (width or 0.25)
    size = moment_up_to(branch, acb(tilt), edge, width, end).real
    for s in (0.0, frequency):
        truth = moment_up_to(branch, acb(tilt, s), edge, width, end)
        assert abs(acb(complex(np.sum(sums * np.exp(1j * s * psi)))) - truth) <= arb(found["log_error"]).exp() * size


@pytest.mark.parametrize("tilt", [0.5, 2.0])
@pytest.mark.parametrize("left", ["nothing", "small shifts", "always present"])
def test_s_13_the_quadrature_of_a_thinned_branch_is_within_its_stated_error(left, tilt):
    """S-13."""
    assert_quadrature("one in a hundred", left, tilt, 2.0, -5.0, (2.5, 0.4))


@pytest.mark.parametrize("tilt", [-1.0, 0.0, 0.3, 5.0])
@pytest.mark.parametrize(
    ("right", "left"), [*BRANCHES, ("three peaks", "nothing"), ("three peaks", "three peaks"), ("nothing", "products")]
)
def test_s_8_the_tails_of_the_sum_are_within_their_bound(right, left, tilt):
    """S-8, S-9."""
    branch, step = branch_of(right, left), shortened(0.05)
    far = 45.0 + (1.0 + abs(tilt)) * branch.reach
    everywhere = np.arange(-math.ceil(far / step), math.ceil(far / step) + 1.0)
    u = step * everywhere
    terms = branch.float_exponent(u, tilt) - 0.5 * math.log(2 * math.pi) + math.log(step)
    closest = math.inf
    for low, high in ((-1.0, 1.0), (-4.0, 6.0), (-3.0, -1.0), (2.0, 12.0)):
        first, last = math.floor(low / step), math.ceil(high / step)
        bound = kernel.tails(kernel_round(right, left), step, float(first), last - first + 1, tilt)
        outside = (everywhere < first) | (everywhere > last)
        truth = np.logaddexp.reduce(terms[outside])
        assert truth <= bound
        closest = min(closest, bound - truth)
    assert closest < 5.0  # a bound that is far too large proves nothing


@pytest.mark.parametrize("tilt", [0.3, 3.0])
def test_s_9_one_component_s_tail_is_met_to_a_factor_of_three(tilt):
    """S-9: with one shift, the line and the sum are the same function."""
    step = shortened(0.05)
    bound = kernel.tails(kernel_round("one point", "one in a hundred"), step, -200.0, 440, tilt)
    branch = branch_of("one point", "one in a hundred")
    u = step * np.arange(-1200.0, 1200.0)
    outside = (u < -200.0 * step) | (u > 239.0 * step)
    terms = branch.float_exponent(u, tilt) - 0.5 * math.log(2 * math.pi) + math.log(step)
    truth = np.logaddexp.reduce(terms[outside])
    assert truth <= bound <= truth + 3.0


def test_s_13_the_thinning_off_the_real_axis_is_below_its_bound():
    """S-13: |chi(u + iy)| <= e^{y^2 / (2 w^2)} chi(u)."""
    edge, width = arb(2), arb(0.3)
    for u in np.linspace(-4.0, 6.0, 41).tolist():
        for y in (0.05, 0.3, 0.9):
            value = abs(((acb(u, y) - edge) / width / arb(2).sqrt()).erfc() / 2)
            on_axis = ((arb(u) - edge) / width / arb(2).sqrt()).erfc() / 2
            assert value <= on_axis * (arb(y) ** 2 / (2 * width**2)).exp() * (1 + arb(1e-30))


@pytest.mark.parametrize("tilt", [0.25, 4.0, 60.0])
@pytest.mark.parametrize(
    ("right", "left"),
    [
        ("one in a hundred", "nothing"),
        ("nothing", "one in a hundred"),
        ("one in a hundred", "one in a hundred"),
        ("small shifts", "small shifts"),
        ("tiny shift", "tiny shift"),
        ("rare", "nothing"),
        ("nothing", "tiny shift"),
        ("powers", "small shifts"),
    ],
)
def test_s_23_the_small_loss_sum_is_within_its_stated_error(right, left, tilt):
    """S-23: on the kernel's own nodes, so that rounding alone is left; and against G(c) - 1 with the identities."""
    branch = branch_of(right, left)
    found = kernel.quadrature(kernel_round(right, left), 0.0, 0.0, tilt, 1.0, -60.0)
    if not math.isfinite(found["excess_error"]):
        pytest.skip("a term overflows: the plain sum is used")
    total = arb(0)
    step = arb(found["u"][1]) - arb(found["u"][0])
    with ctx.workprec(400):
        for u in found["u"]:
            log_a, log_b = true_log(branch.right, u), true_log(branch.left, -arb(u))
            psi = log_a - log_b
            a, b, y = log_a.exp(), log_b.exp(), psi * arb(tilt)
            total += (a * (y.expm1() - y) + arb(tilt) * (a * psi - a + b)) * (-(arb(u) ** 2) / 2).exp()
        total = total * step / (2 * arb.pi()).sqrt()
        assert abs(total - arb(found["excess"])) <= arb(found["excess_error"])
        assert found["excess_error"] <= 1e-9 * found["excess"]
        moment = true_moment(branch, tilt, 0.0).real - 1
        trapezoid = arb(found["log_error"]).exp() * (1 + moment) + found["identity_error"]
        assert abs(moment - arb(found["excess"])) <= arb(found["excess_error"]) + trapezoid + arb(1e-28) * (1 + moment)
