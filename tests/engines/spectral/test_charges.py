"""One test for each charge that whole answers do not show: laws and places where the charge is most of its bound.

studies/mutations.py drops every charge in turn and checks that a test of its inequality fails (section 13 of
docs/internals/numerics.md says what each needs). Truths are in ball arithmetic.
"""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from flint import acb, arb, ctx

import oracle
from engines.spectral_truth import (
    PRECISION,
    branch_of,
    composition_of,
    round_moment,
    shortened,
    side_of,
    true_log,
    true_mean,
    true_moment,
)
from groupdp import pairs
from groupdp.engines.spectral import packed
from kernel_inspect import kernel
from oracle import closed
from oracle.pairs import Branch, Gaussian, Round, nothing


@pytest.fixture(autouse=True)
def precision():
    with ctx.workprec(PRECISION):
        yield


def left_only(shifts: list[float], probabilities: list[float]) -> Round:
    return Round([(1, Branch(nothing(), oracle.Mixture(shifts, probabilities, 1)))])


def right_only(shifts: list[float], probabilities: list[float]) -> Round:
    return Round([(1, Branch(oracle.Mixture(shifts, probabilities, 1), nothing()))])


def asked(one: Round, times: int = 1) -> list[object]:
    return packed(composition_of([(one, times)]))


def balanced(tilt: float) -> Round:
    """B = {0, 1} with both terms equal where phi B^-c has its peak: there the strip's bound is attained.

    log(phi B^-c) then falls like (1 + c / 4) v^2 / 2 about its peak, and off the axis it rises like that.
    """
    odds = math.exp(0.5 * tilt + 0.5)
    return left_only([0.0, 1.0], [1.0 / (1.0 + odds), odds / (1.0 + odds)])


def test_s_3_the_largest_loss_is_never_rounded_down():
    """S-3: 60 laws, of which half would be rounded down."""
    for i in range(1, 61):
        one = left_only([0.0, 1.0], [1.0 - i / 64.0, i / 64.0])
        largest = kernel.prepared(asked(one, 1000 + i), -10.0)["largest_loss"]
        assert -(1000 + i) * (1 - arb(i) / 64).log() <= arb(largest)


def test_s_5_kappa_is_never_rounded_down():
    """S-5: with next to no loss, kappa is all there is of a Chernoff level."""
    one = asked(Round([(1, Gaussian("1e-40"))]))
    source = random.Random(5)
    for _ in range(5):
        tilts = [10.0 ** source.uniform(-3.0, 4.0) for _ in range(100)]
        for tilt, level in zip(*(kernel.scan(one, tilts)[name] for name in ("tilt", "level")), strict=True):
            c = arb(tilt)
            assert c * c.log() - (1 + c) * (1 + c).log() <= arb(level)


#: mu, and the multiples of mu^2 at which epsilon is asked for; the second has c' eps = 1e9.
@pytest.mark.parametrize(("mu", "multiples"), [(1.0, (0.6, 9.0)), (4000.0, (6.0, 30.0))])
def test_s_5_aliases_and_periods_are_rounded_to_the_safe_side(mu, multiples):
    """S-5: the sum of both series on the contour's own tilts and levels, in balls."""
    one = packed(((pairs.Round.of(pairs.Side.point(mu), pairs.ZERO), 1),))
    for epsilon in np.linspace(multiples[0] * mu * mu, multiples[1] * mu * mu, 60).tolist():
        found = kernel.contour(one, epsilon, -40.0, -4.0)
        period, c = arb(found["period"]), arb(found["tilt"])
        assert period * arb(found["step"]) <= 2 * arb.pi()
        left, right = 1 / (c * period).expm1(), arb("inf")
        for tilt, level in zip(found["tilts"], found["levels"], strict=True):
            if tilt != found["tilt"]:
                series = 1 / (abs(arb(tilt) - c) * period).expm1()
                bound = (arb(level) - arb(tilt) * arb(epsilon)).exp() * series
                left, right = (left.min(bound), right) if tilt < found["tilt"] else (left, right.min(bound))
        assert (left + right).log() <= arb(found["log_alias"])


@pytest.mark.parametrize("log_planned", [-1.5, -3.0])
def test_s_5_the_lower_side_is_without_the_aliases(log_planned):
    """S-5: on coarse contours aliases are most of the error; without them the lower side would be above delta."""
    rounds = [(Round([(1, Gaussian(1))]), 1)]
    for epsilon in np.linspace(0.3, 6.0, 40).tolist():
        found = kernel.contour(packed(composition_of(rounds)), epsilon, -40.0, log_planned)
        if found is not None:
            assert arb(found["lower"]) <= closed.one_round_log_delta(rounds[0][0], epsilon=epsilon)


@pytest.mark.parametrize("tilt", [3.0, 20.0])
def test_s_7_the_strip_of_a_law_that_attains_its_bound(tilt):
    """S-7: without the cosine the bound would be e^{c d^2 / 8} below the error."""
    one = balanced(tilt)
    closest = math.inf
    for moved in np.linspace(0.97, 1.03, 12).tolist():
        found = kernel.quadrature(asked(one), 0.0, 0.0, tilt * moved, 0.0, -5.0)
        psi, log_weight = np.array(found["psi"]), np.array(found["log_weight"])
        total = float(np.sum(np.exp(log_weight + tilt * moved * psi)))
        truth = true_moment(one.coin[0][1], tilt * moved, 0.0).real
        off = abs(arb(total) / truth - 1)
        assert off <= arb(found["log_error"]).exp()
        closest = min(closest, found["log_error"] - float(off.log()))
    assert closest < 3.0


def test_s_7_the_strip_of_a_thinned_law():
    """S-7, S-13: chi grows off the axis like e^{y^2 / (2 w^2)}; most of the law is far beyond its edge."""
    branch = branch_of("next to equal", "nothing")
    closest = math.inf
    for edge in np.linspace(3.0, 3.5, 6).tolist():
        found = kernel.quadrature(asked(Round([(1, branch)])), edge, 0.25, 40.0, 0.0, -14.0)
        log_a, log_weight = np.array(found["log_a"]), np.array(found["log_weight"])
        total = float(np.sum(np.exp(log_weight + 41.0 * log_a)))
        off = abs(arb(total) / true_moment(branch, 40.0, 0.0, (edge, 0.25)).real - 1)
        assert off <= arb(found["log_error"]).exp()
        closest = min(closest, found["log_error"] - float(off.log()))
    assert closest < 4.0


@pytest.mark.parametrize("step", [1.0, 4.0])
def test_s_8_a_peak_on_a_node_beyond_the_end_is_in_the_tails(step):
    """S-8: with long steps the largest term is more than the integral."""
    branch = branch_of("next to equal", "nothing")
    for peak in (1.0, 2.0):  # nodes beyond the last one
        tilt = peak * step / 0.75 - 1.0
        if tilt <= 0.0:
            continue
        bound = kernel.tails(asked(Round([(1, branch)])), step, -30.0, 31, tilt)
        u = step * np.arange(1.0, 40.0)
        terms = branch.float_exponent(u, tilt) - 0.5 * math.log(2 * math.pi) + math.log(step)
        assert np.logaddexp.reduce(terms) <= bound


def test_s_9_many_equal_terms_need_the_factor_of_the_power_mean():
    """S-9: at the end n terms of A are equal, so that A^{1+c} is n^c times the sum of their powers."""
    g, count, tilt, step = 0.01, 9, 30.0, shortened(0.01)
    weights = [math.exp((i * g) ** 2 / 2) for i in range(count)]
    branch = Branch(oracle.Mixture([i * g for i in range(count)], [w / sum(weights) for w in weights], 1), nothing())
    bound = kernel.tails(asked(Round([(1, branch)])), step, -2000.0, 2001, tilt)
    u = step * np.arange(1.0, 4000.0)
    terms = branch.float_exponent(u, tilt) - 0.5 * math.log(2 * math.pi) + math.log(step)
    assert np.logaddexp.reduce(terms) <= bound


def test_s_10_a_shift_trimmed_for_a_larger_delta_is_in_the_bounds():
    """S-10: trimmed for e^-3; whether some outcome is above 15 shows that delta(30) is above 10 eta (1 - 1e-5)."""
    eta = 1e-21
    one = right_only([0.75, 0.75 + 2.0**-30, 20.0], [0.5, 0.5, eta])
    found = kernel.contour(asked(one, 10), 30.0, -3.0, -5.0)
    truth = math.log(10 * eta * (1.0 - 1e-5))
    assert found["upper"] < truth <= found["corrected_upper"]  # the contour alone would be wrong


def test_s_12_a_branch_trimmed_for_a_larger_delta_is_in_the_bounds():
    """S-12: the same with a public coin; a branch N(20) against N(0)."""
    weight = 1e-21
    coin = Round([(1 - oracle.exact(weight), Gaussian("0.25")), (weight, Gaussian(400))])
    found = kernel.contour(asked(coin, 10), 20.0, -3.0, -5.0)
    truth = math.log(10 * weight * (1.0 - 1e-5))
    assert found["upper"] < truth <= found["corrected_upper"]


def test_s_13_what_was_thinned_for_a_larger_delta_is_in_the_bounds():
    """S-13: thinned for e^-30; that all outcomes are above `a` shows that delta(T Psi(a) - 1) is above (1 - 1/e) P."""
    one, times = right_only([0.0, 2.0], [0.9, 0.1]), 30
    edge = kernel.prepared(asked(one, times), -30.0)["edge"]
    assert math.isfinite(edge)
    a = arb(edge + 2.0)
    mixture = one.coin[0][1].right
    epsilon = float((times * true_log(mixture, a) - 1).lower())
    truth = times * (arb("0.1") * ((a - 2) / arb(2).sqrt()).erfc() / 2).log() + (1 - arb(-1).exp()).log()
    found = kernel.contour(asked(one, times), epsilon, -30.0, -2.0)
    assert arb(found["upper"]) < truth <= arb(found["corrected_upper"])


def test_s_11_s_10_epsilon_is_moved_and_delta_raised_by_what_was_left_out():
    """S-10, S-11: as if an epsilon of 0.01 and a delta of e^-9 had been lost; a Gaussian has a closed form."""
    one = Round([(1, Gaussian(1))])
    for epsilon in (0.5, 2.0, 4.0):
        found = kernel.contour(asked(one), epsilon, -40.0, -30.0, 0.01, -9.0)
        most = closed.one_round_log_delta(one, epsilon=epsilon - 0.01).exp() + arb(-9).exp()
        assert most.log() <= arb(found["corrected_upper"])
        assert arb(found["corrected_upper"]) <= most.log() + 1e-9


def test_s_12_a_coin_that_has_lost_branches_has_a_smaller_moment():
    """S-12, S-18: G - 1 is summed from the branches kept and what was lost."""
    coin = Round([("0.7", branch_of("small shifts", "nothing")), ("0.2999", Gaussian("1e-4")), ("1e-4", Gaussian(1))])
    one = asked(coin)
    count, branches, mu, log_weights = one[0]
    kept = [(count, branches, mu[:1].copy(), log_weights[:1].copy())]
    for tilt in (0.01, 0.5):
        found = kernel.tilted(kept, tilt, 1.0, -40.0, [], 1e-4)
        lost = coin.coin[2]
        truth = round_moment(coin, tilt).real - arb(lost[0]) * (arb(tilt) * (arb(tilt) + 1) / 2).exp()
        assert abs(truth.log() - arb(found["log_moment"])) <= arb(found["log_moment_error"])


@pytest.mark.parametrize("tilt", [0.3, 1.0])
def test_s_13_a_thinned_moment_is_within_what_was_discarded(tilt):
    """S-13, S-23: E[chi A] and E[chi B] are taken to be 1."""
    edge, width = 3.6, 0.4
    branch = branch_of("one in a hundred", "nothing")
    spread = (1 + arb(width) ** 2).sqrt() * arb(2).sqrt()
    eta = sum(arb(p) * ((arb(edge) - x) / spread).erfc() / 2 for x, p in ((0, 0.99), (1, 0.01)))
    log_discarded = float(eta.log()) + 1e-9
    found = kernel.tilted(asked(Round([(1, branch)])), tilt, 1.0, -30.0, [], 0.0, edge, width, log_discarded)
    truth = true_moment(branch, tilt, 0.0, (edge, width)).real
    assert found["log_moment"] < 0.5
    assert abs(truth.log() - arb(found["log_moment"])) <= arb(found["log_moment_error"])
    assert found["log_moment_error"] <= 4.0 * (1.0 + tilt) * math.exp(log_discarded)


#: Two terms of R that are equal where their exponents are large: a side by each way of tabulating it, and nodes there.
CROSSINGS = {
    "directly": (([0.0, 5.3], [1.0, 1e-200]), 89.2),
    "by logarithms": (([0.0, 5.3], [1.0, 1e-300]), 132.9),
    "by logarithms, far apart": (([0.0, 30.3], [1.0, 1e-300]), 37.9),
    "by products": (([0.0, 2.7, 5.4], [1.0, 1e-100, 1e-230]), 86.6),
}


@pytest.mark.parametrize("name", CROSSINGS)
def test_s_15_s_16_exponents_that_cancel_are_charged_for_their_size(name):
    """S-15, S-16: log R is small, its exponents are not, and shifts fill their mantissas."""
    law, crossing = CROSSINGS[name]
    mixture = oracle.Mixture(*law, 1)
    one = packed(((pairs.Round.of(side_of(mixture), pairs.ZERO), 1),))
    step = shortened(0.0173)
    first = math.floor((crossing - 1.5) / step)
    # Nodes farther out decide how a side is tabulated.
    nodes = 175 if name != "by products" else math.ceil(150.0 / step) - first
    found = kernel.table(one, step, float(first), nodes)
    for place in range(175):
        u = arb(step) * (first + place)
        with ctx.workprec(1200):
            log_a, mean = true_log(mixture, u), true_mean(mixture, u)
        assert abs(log_a - arb(found["log_a"][place])) <= arb(found["log_a_error"][place])
        bound = kernel.slope_errors(one, step * (first + place))[0]
        assert abs(mean - arb(found["mean_a"][place])) <= mean * arb(bound)


@pytest.mark.parametrize("tilt", [4.0, 20.0])
@pytest.mark.parametrize("name", ["balanced", "powers"])
def test_s_17_s_19_s_20_coarse_quadratures_are_within_their_stated_error(name, tilt):
    """S-17, S-19, S-20: the trapezoid rule's error in log G, in phi and in its modulus, far above all rounding."""
    for moved in np.linspace(0.97, 1.03, 7).tolist():
        c = tilt * moved
        one = balanced(tilt) if name == "balanced" else Round([(1, branch_of(name, "small shifts"))])
        coarse = -6.5 + math.log1p(1.0 + c)
        found = kernel.tilted(asked(one), c, 0.01, coarse, [])
        size = round_moment(one, c)
        assert abs(size.real.log() - arb(found["log_moment"])) <= arb(found["log_moment_error"])
        step, samples = shortened(0.05), 6
        sampled = kernel.characteristic(asked(one), c, step, coarse, samples)
        for i in range(1, samples):
            phi = round_moment(one, c, step * i) / size * acb(0, -arb(step) * i * arb(sampled["centre"])).exp()
            ratio = (acb(sampled["log_modulus"][i], sampled["angle"][i]) - phi.log()).exp() - 1
            assert abs(ratio) <= arb(sampled["log_error"][i]).expm1()
            assert abs(phi).log() <= arb(sampled["log_largest"][i])


#: right, left, tilt, (edge, width) of a thinning.
CELLS = [
    ("rare", "nothing", 0.5, (0.0, 0.0)),
    ("one in a hundred", "nothing", 2.0, (0.0, 0.0)),
    ("nothing", "powers", 1.0, (0.0, 0.0)),
    ("powers", "powers", 1.0, (0.0, 0.0)),
    ("one in a hundred", "nothing", 3.0, (2.0, 0.5)),
]


@pytest.mark.parametrize(("right", "left", "tilt", "thinning"), CELLS)
def test_s_22_s_13_cells_are_narrower_and_lower_than_the_density_of_the_loss(right, left, tilt, thinning):
    """S-22, S-13: on coarse cells; width against the image, height against the density at both ends and between."""
    branch = branch_of(right, left)
    found = kernel.cells(asked(Round([(1, branch)])), *thinning, tilt, 0.5, -7.0)
    half, edge, width = arb(found["step"]) / 2, arb(thinning[0]), arb(thinning[1] or 1)
    moment = true_moment(branch, tilt, 0.0, thinning if thinning[1] else None).real
    tightest = [math.inf, math.inf]
    for u, cell, height in zip(*(found[name] for name in ("u", "width", "height")), strict=True):
        if height == 0.0 or not -8.0 < u < 30.0:
            continue
        ends = [true_log(branch.right, arb(u) + x) - true_log(branch.left, -(arb(u) + x)) for x in (-half, half)]
        assert arb(cell) <= ends[1] - ends[0]
        tightest[0] = min(tightest[0], float((ends[1] - ends[0]) / arb(cell)))
        for x in (-half, -half / 2, arb(0), half / 2, half):
            v = arb(u) + x
            log_a, log_b = true_log(branch.right, v), true_log(branch.left, -v)
            density = ((1 + tilt) * log_a - tilt * log_b - v * v / 2).exp() / (2 * arb.pi()).sqrt() / moment
            if thinning[1]:
                density *= ((v - edge) / width / arb(2).sqrt()).erfc() / 2
            density /= true_mean(branch.right, v) + true_mean(branch.left, -v)
            assert arb(height) <= density
            tightest[1] = min(tightest[1], float(density / arb(height)))
    assert tightest[0] < 1.5
    assert tightest[1] < 2.5


@pytest.mark.parametrize("coin", [False, True])
@pytest.mark.parametrize("tilt", [3.0, 20.0])
def test_s_24_levels_are_above_the_truth_where_the_sum_is_below_it(coin, tilt):
    """S-24: of a law whose trapezoid error is as large as its bound, about half of the sums are too small."""
    for moved in np.linspace(0.97, 1.03, 25).tolist():
        c = tilt * moved
        one = balanced(tilt)
        if coin:
            one = Round([("0.5", one.coin[0][1]), ("0.5", Gaussian("1e-4"))])
        (level,) = kernel.scan(asked(one), [c])["level"]
        x = arb(c)
        truth = round_moment(one, c).real.log() + x * x.log() - (1 + x) * (1 + x).log()
        assert truth <= arb(level)


@pytest.mark.parametrize(
    ("shift", "rounds", "log_delta"),
    [
        (0.25, 16, -1.5),
        (0.25, 16, -20.0),
        (0.25, 16, -700.0),
        # next to epsilon = 0, where all other charges are smaller than this one
        (5.832954497870643e-06, 16, -11.706500399503817),
        (2.6062067303682005e-05, 4, -10.796487427734643),
        (8.295458942591075e-07, 4, -14.228893409080733),
        (4.890773229027876e-13, 16, -27.879005175168437),
    ],
)
def test_s_25_each_side_is_certified_against_the_worse_neighbour_of_its_target(shift, rounds, log_delta):
    """S-25: the target is a rounded logarithm, and is moved by 4 U of itself (itself rounded: half of it is sure)."""
    one = packed(((pairs.Round.of(pairs.Side.point(shift), pairs.ZERO), rounds),))
    found = kernel.root(one, log_delta)
    slack = 2 * 2.0**-53 * abs(log_delta)
    assert arb(found["log_delta_at_upper"]) <= arb(log_delta) - arb(slack)
    assert arb(found["log_delta_at_lower"]) >= arb(log_delta) + arb(slack)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_s_26_the_exchange_of_p_and_q_is_rounded_outward(sign):
    """S-26."""
    source = random.Random(26)
    for _ in range(300):
        epsilon = sign * 10.0 ** source.uniform(-4.0, 1.0)
        # delta' = 1 - e^-eps + e^-eps delta, for a delta of any size.
        delta = arb(10.0 ** source.uniform(-3.0, -0.01))
        exchanged = (
            float((1 - arb(-epsilon).exp() + arb(-epsilon).exp() * delta).log().mid())
            if sign > 0
            else (math.log(source.uniform(1e-6, 0.999)))
        )
        truth = 1 - arb(epsilon).exp() + arb(epsilon).exp() * arb(exchanged).exp()
        if not truth > 0:
            continue
        below, above = (kernel.from_exchanged(epsilon, exchanged, direction) for direction in (-1.0, 1.0))
        assert arb(below) <= truth.log() <= arb(above)
