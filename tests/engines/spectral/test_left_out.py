"""What is left out of a composition and what is charged for it: shifts, branches, outcomes (numerics.md).

Two or three rounds are few enough to integrate (dP - e^eps dQ)_+ over the discarded outcomes as it stands.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx
from scipy.special import log_ndtr

import groupdp
from engines.spectral_truth import composition_of, enclosed, true_log
from groupdp import pairs
from groupdp.engines import spectral
from groupdp.engines.spectral import packed
from groupdp.laws import binomial_law
from kernel_inspect import kernel
from oracle import Mixture, exact
from oracle.closed import one_round_log_delta
from oracle.pairs import Branch, Gaussian, Round, nothing


def side(shifts, probabilities):
    p = np.array(probabilities)
    return pairs.Side(np.array(shifts), (p, np.minimum(np.log(p), 0.0)))


LAW = side([0.0, 1.0, 2.0, 3.0], [1.0 - 1e-6 - 1e-30 - 1e-31, 1e-6, 1e-30, 1e-31])


def test_s_3_the_largest_loss_is_where_delta_ends():
    """S-3: -sum T log b_0 where A is {0}; at it delta is 0, just below it is not."""
    left = side([0.0, 1.0], [0.75, 0.25])
    composition = ((pairs.Round.of(pairs.ZERO, left), 40),)
    largest = kernel.prepared(packed(composition), -10.0)["largest_loss"]
    assert -40 * arb(0.75).log() <= arb(largest) <= -40 * arb(0.75).log() * (1 + arb(1e-13))
    assert spectral.log_delta(composition, epsilon=largest).upper == -math.inf
    below = spectral.log_delta(composition, epsilon=0.97 * largest)
    assert -math.inf < below.lower < below.upper < 0.0
    for unbounded in (pairs.Round.of(left, pairs.ZERO), pairs.Round.of(left, left)):
        assert kernel.prepared(packed(((unbounded, 40),)), -10.0)["largest_loss"] == math.inf


@pytest.mark.parametrize("times", [100, 10**6])
def test_s_10_dropped_shifts_of_the_right_side_are_charged_to_delta(times):
    """S-10: at least T eta, and no more than twice that."""
    found = kernel.prepared(packed(((pairs.Round.of(LAW, pairs.ZERO), times),)), -3.0)
    assert found["right"] == 2
    truth = math.log(times * 1.1e-30)
    assert truth <= found["log_dropped"]
    assert found["shift"] == 0.0


def test_s_11_dropped_shifts_of_the_left_side_are_charged_to_epsilon():
    """S-11: at least -T log(1 - eta)."""
    found = kernel.prepared(packed(((pairs.Round.of(pairs.ZERO, LAW), 1000),)), -3.0)
    assert found["left"] == 2
    assert 1000 * 1.1e-30 <= found["shift"] <= 3000 * 1.1e-30
    assert found["log_dropped"] == -math.inf


def test_s_12_dropped_branches_are_charged_to_delta():
    """S-12: T times their probability, of both kinds of branches."""
    usual, rare = pairs.Branch(LAW, pairs.ZERO), pairs.Branch(pairs.Side.point(1.0), pairs.ZERO)
    small = math.log(1e-30)
    coin = pairs.Round((usual, pairs.Branch(LAW, LAW), rare), (math.log1p(-2e-30), small, small))
    found = kernel.prepared(packed(((coin, 50),)), -2.0)
    assert (found["branches"], found["gaussians"]) == (1, 0)
    assert 2e-30 * (1 - 1e-9) <= found["lost"] <= 2e-30 * (1 + 1e-9)
    assert found["log_dropped"] >= math.log(50 * (2e-30 + 1.1e-30))


def test_s_12_a_rare_branch_of_large_losses_is_in_the_bounds_whether_it_is_dropped_or_not():
    """S-12: one round has a closed form. Where the branch matters it must not be dropped."""
    for weight in ("1e-3", "1e-9", "1e-40"):
        coin = Round([(1 - exact(weight), Gaussian("0.25")), (weight, Gaussian("100"))])
        for epsilon in (0.5, 3.0, 20.0):
            truth = one_round_log_delta(coin, epsilon=epsilon)
            try:
                found = spectral.log_delta(composition_of([(coin, 1)]), epsilon=epsilon)
            except groupdp.LimitExceeded:
                continue
            assert enclosed((found.lower, found.upper), truth)


@pytest.mark.parametrize("width", [1.0, 0.1])
def test_s_13_thinning_discards_no_more_than_it_says(width):
    """S-13."""
    m, p = [0.0, 1.0, 3.0], [0.7, 0.2, 0.1]
    one = packed(((pairs.Round.of(side(m, p), pairs.ZERO), 1),))
    edge, log_discarded, steepness = kernel.thinning(one, width, -20.0, 2.0)
    spread = (1 + arb(width) ** 2).sqrt()
    eta = sum(arb(q) * ((arb(edge) - arb(x)) / spread / arb(2).sqrt()).erfc() / 2 for x, q in zip(m, p, strict=True))
    assert eta.log() <= log_discarded <= -20.0 + 1e-3
    # E[1 - chi] really is that: by quadrature, under the mixture.
    u = np.arange(-10.0, 20.0, 0.01)
    density = sum(q * np.exp(-0.5 * (u - x) ** 2) for x, q in zip(m, p, strict=True)) / math.sqrt(2 * math.pi)
    discarded = float(np.sum(density * -np.expm1(log_ndtr((edge - u) / width))) * 0.01)
    assert math.isclose(discarded, float(eta), rel_tol=1e-6)
    # |d log chi / du| at u = 2, by differences.
    slope = (log_ndtr((edge - 2.0 - 1e-6) / width) - log_ndtr((edge - 2.0 + 1e-6) / width)) / 2e-6
    assert -slope <= steepness * (1 + 1e-6) + 1e-9


def test_s_13_a_composition_that_is_thinned_says_what_it_discards():
    """S-13: charged to delta with its multiplicity."""
    one = packed(((pairs.Round.of(side([0.0, 2.0], [0.9, 0.1]), pairs.ZERO), 30),))
    found = kernel.prepared(one, -30.0)
    assert math.isfinite(found["edge"])
    spread = (1 + arb(found["width"]) ** 2).sqrt() * arb(2).sqrt()
    eta = sum(arb(p) * ((arb(found["edge"]) - x) / spread).erfc() / 2 for x, p in ((0, 0.9), (2, 0.1)))
    assert (30 * eta).log() <= arb(found["log_dropped"])


#: right shifts, probabilities, left shifts, probabilities, rounds, log delta, epsilon
CASES = {
    "one in a hundred": ([0.0, 1.25], [0.99, 0.01], [0.0], [1.0], 2, -8.0, 1.0),
    "two sizes": ([0.0, 1.5, 3.0], [0.97, 0.025, 0.005], [0.0], [1.0], 2, -10.0, 2.0),
    "one in ten": ([0.0, 1.0], [0.9, 0.1], [0.0], [1.0], 3, -6.0, 0.8),
    "both sides": ([0.0, 1.25], [0.99, 0.01], [0.0, 1.25], [0.98, 0.02], 2, -8.0, 1.0),
}


def ratios(name: str, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    shifts, weights, left_shifts, left_weights, *_ = CASES[name]
    a = sum(w * np.exp(x * u - 0.5 * x * x) for x, w in zip(shifts, weights, strict=True))
    b = sum(w * np.exp(-x * u - 0.5 * x * x) for x, w in zip(left_shifts, left_weights, strict=True))
    return a, b


def discarded(name: str) -> dict:
    shifts, weights, left_shifts, left_weights, rounds, log_delta, epsilon = CASES[name]
    one = pairs.Round.of(side(shifts, weights), side(left_shifts, left_weights))
    found = kernel.discarded(packed(((one, rounds),)), log_delta, epsilon)
    assert found is not None
    return found


@pytest.mark.parametrize("name", CASES)
def test_s_14_what_is_discarded_is_known_to_its_stated_error(name):
    """S-14: eta and zeta of one round, P(D) and Q(D) of all."""
    shifts, weights, left_shifts, left_weights, rounds, _, _ = CASES[name]
    found = discarded(name)
    ((edge, width, log_eta, log_zeta, relative_error),) = found["branches"]
    with ctx.workprec(200):
        spread = (1 + arb(width) ** 2).sqrt() * arb(2).sqrt()
        total, left_total = sum(map(arb, weights)), sum(map(arb, left_weights))
        eta = sum(
            arb(p) / total * ((arb(edge) - arb(m)) / spread).erfc() / 2 for m, p in zip(shifts, weights, strict=True)
        )
        zeta = sum(
            arb(p) / left_total * ((arb(edge) + arb(m)) / spread).erfc() / 2
            for m, p in zip(left_shifts, left_weights, strict=True)
        )
        assert abs(eta.log() - arb(log_eta)) <= relative_error
        assert abs(zeta.log() - arb(log_zeta)) <= relative_error
        assert abs((1 - (1 - eta) ** rounds) / arb(found["log_p"]).exp() - 1) <= found["p_error"]
        assert abs((1 - (1 - zeta) ** rounds) / arb(found["log_q"]).exp() - 1) <= found["q_error"]
    assert relative_error < 2e-12


@pytest.mark.parametrize("name", CASES)
def test_s_14_their_part_of_delta_is_enclosed(name):
    """S-14."""
    *_, rounds, log_delta, epsilon = CASES[name]
    found = discarded(name)
    ((edge, width, *_),) = found["branches"]
    step = 0.02 if rounds == 2 else 0.06
    u = np.arange(-9.0, 16.0, step)
    a, b = ratios(name, u)
    density = np.exp(-0.5 * u * u) * step / math.sqrt(2.0 * math.pi)
    kept = np.exp(log_ndtr((edge - u) / width))
    d2, k2, a2, b2 = (np.multiply.outer(x, x) for x in (density, kept, a, b))
    firsts = [(1.0, 1.0, 1.0, 1.0)] if rounds == 2 else list(zip(density, kept, a, b, strict=True))
    factor = math.exp(epsilon)
    part = math.fsum(
        d * float(np.sum(d2 * (1.0 - k * k2) * np.maximum(x * a2 - factor * y * b2, 0.0))) for d, k, x, y in firsts
    )
    least, most = math.exp(found["log_least"]), math.exp(found["log_most"])
    # The integrand has a kink, where what is discarded is next to nothing: the sums are good to about 1e-11.
    assert least <= part * (1.0 + 1e-10)
    assert part * (1.0 - 1e-10) <= most
    assert most - least <= 1e-6 * most + 1e-12 * math.exp(log_delta)
    if name != "both sides":  # where the loss that is discarded lies so far out that P(D) is all there is to it
        assert most < 0.9999 * math.exp(found["log_p"])  # closer than the plain P(D)
        expected = math.exp(found["log_p"]) - factor * math.exp(found["log_q"])
        assert math.isclose(least, expected, rel_tol=1e-9)


@pytest.mark.parametrize("name", ["one in a hundred", "two sizes", "both sides"])
def test_s_14_what_may_be_undone_is_within_the_remainder(name):
    """S-14, two rounds: sum over them of E_Q[(1 - chi(U)) delta_rev(Psi(U) - eps)], delta_rev that of the other one."""
    shifts, weights, left_shifts, left_weights, rounds, _, epsilon = CASES[name]
    found = discarded(name)
    ((edge, width, *_),) = found["branches"]
    right = Mixture(shifts, weights, 1)
    left = nothing() if left_shifts == [0.0] else Mixture(left_shifts, left_weights, 1)
    exchanged = Round([(1, Branch(left, right))])
    total, step = arb(0), arb(0.1)
    with ctx.workprec(120):
        for n in range(-30, 100):
            u = step * n
            log_b = true_log(left, -u)
            psi = true_log(right, u) - log_b
            given_up = ((arb(edge) - u) / arb(width) / arb(2).sqrt()).erfc() / 2
            log_delta = one_round_log_delta(exchanged, epsilon=float(psi - arb(epsilon)))
            undone = log_delta.exp() if log_delta.is_finite() else arb(0)
            total += step * given_up * (log_b - u * u / 2).exp() / (2 * arb.pi()).sqrt() * undone
    remainder = math.exp(found["log_remainder"])
    assert 0 < rounds * float(total) <= remainder
    assert rounds * 1e-300 < remainder < 1e-9


@pytest.mark.parametrize(
    ("shift", "weight", "rounds", "log_delta", "epsilon"),
    [(2.0, 0.0027, 226, -49.0, 1.34), (1.2, 0.03, 10, -43.5, 0.27), (1.25, 0.01, 2, -8.0, 1.0)],
)
def test_s_14_beyond_u_0_the_rest_is_charged_the_unlikely_curve(shift, weight, rounds, log_delta, epsilon):
    """S-14: the remainder has T e^-30 zeta, in the first two cases nearly all of it."""
    one = pairs.Round.of(side([0.0, shift], [1.0 - weight, weight]), pairs.ZERO)
    found = kernel.discarded(packed(((one, rounds),)), log_delta, epsilon)
    ((_, _, _, log_zeta, _),) = found["branches"]
    assert found["log_remainder"] >= math.log(rounds) + log_zeta - 30.0


def test_s_14_nothing_underflows_beyond_forty_deviations():
    """S-14: zeta of e^-1300 was 0, uncharged; it is kept as a logarithm."""
    one = packed(((pairs.Round.of(side([0.0, 0.15], [0.93, 0.07]), pairs.ZERO), 36),))
    found = kernel.discarded(one, -1300.0, 24.0)
    ((edge, width, log_eta, log_zeta, relative_error),) = found["branches"]
    with ctx.workprec(200):
        truth = ((arb(edge) / (1 + arb(width) ** 2).sqrt() / arb(2).sqrt()).erfc() / 2).log()
        assert abs(truth - arb(log_zeta)) <= relative_error
    assert log_zeta < -800.0
    assert math.isfinite(log_eta)


@pytest.mark.parametrize("epochs", [1, 10])
@pytest.mark.parametrize(
    ("kind", "rate"), [("remove", 1e-3), ("add", 1e-3), ("remove", 1e-5), ("add", 1e-5), ("substitute", 1e-3)]
)
def test_about_an_epoch_of_training_gets_many_digits(rate, epochs, kind):
    # Once these took a second each, and the sides were 1e-3 apart.
    law = binomial_law(4, rate)
    one = pairs.Side.from_sensitivities(np.arange(5.0), law, 0.8)
    pair = {"remove": (one, pairs.ZERO), "add": (pairs.ZERO, one), "substitute": (one, one)}[kind]
    composition = ((pairs.Round.of(*pair), round(epochs / rate)),)
    bounds = spectral.epsilon(composition, log_delta=math.log(1e-9))
    assert bounds.relative_width <= 1e-7
    assert spectral.log_delta(composition, epsilon=bounds.upper).lower <= math.log(1e-9)
    assert spectral.log_delta(composition, epsilon=bounds.lower).upper >= math.log(1e-9)
