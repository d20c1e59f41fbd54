"""Rounds without noise, alone and beside others, against formulas that are written out here (C-26, C-4)."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from flint import arb, ctx, fmpq
from scipy.special import ndtr

from groupdp.certificate.checker import delta_of, verify
from groupdp.certificate.checker.closed_forms import one_round
from groupdp.certificate.checker.laws import Change, Mixtures
from groupdp.certificate.checker.reading import Clock, NotACertificate
from groupdp.certificate.checker.runs import composition

QUIET = {"sampling": "poisson", "sampling_rate": "0.01", "noise_multiplier": "0", "steps": 3}
GAUSSIAN = {"sampling": "fixed-order", "batch_size": 1, "dataset_size": 2, "noise_multiplier": "2", "steps": 2}


def gaussian(epsilon: float, mu: float) -> float:
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def found(run: list[Any], change: Change, epsilon: float) -> tuple[float, float]:
    with ctx.workprec(128):
        lower, upper = delta_of(composition(run, change), None, Clock(60))(arb(epsilon))
        return float(lower), float(upper)


def document(run: list[Any], lower: str, upper: str, **claim: Any) -> str:
    asked = {"run": run, "epsilon": {"lower": lower, "upper": upper}, "tight": False, **claim}
    return json.dumps({"format": "groupdp certificate", "version": 1, "claim": asked, "hints": {}})


def test_noiseless_rounds_alone_reveal_or_tell_that_nobody_was_there():
    # C-26: removed: 1 - (1 - q)^{kT} + (1 - q)^{kT} (1 - e^eps / (1 - q)^{kT})_+; added: the loss is -kT log(1 - q)
    p = 0.99 ** (3 * 2)
    for epsilon in (0.0, 0.03, 0.0603, 1.0):
        expected = max(1 - p, 1 - math.exp(epsilon))
        assert found([QUIET], Change("remove", 2, 0), epsilon) == pytest.approx((expected,) * 2, abs=1e-14)
        expected = max(0.0, 1 - math.exp(epsilon) * p)
        assert found([QUIET], Change("add", 0, 2), epsilon) == pytest.approx((expected,) * 2, abs=1e-14)


def test_noiseless_rounds_beside_a_gaussian_one():
    # C-26: mu = 1/2 from one member in one epoch; those replaced have mu = 1, and Poisson 3 rounds of (1 - q) each side
    epsilon = 0.7
    for change, p, loss, mu in (
        (Change("zero-out", 1, 0, True), 0.99**3, 3 * math.log(0.99), 0.5),
        (Change("zero-out, reversed", 0, 1, True), 1.0, -3 * math.log(0.99), 0.5),
        (Change("substitute", 1, 1), 0.99**3, 0.0, 1.0),
    ):
        expected = 1 - p + p * gaussian(epsilon - loss, mu)
        assert found([QUIET, GAUSSIAN], change, epsilon) == pytest.approx((expected,) * 2, rel=1e-12)


def test_a_public_coin_of_noiseless_rounds_is_between_its_largest_loss_and_all_merged():
    # C-26: truncated batches of 6 others, cut to 3
    phase = {"sampling": "truncated-poisson", "sampling_rate": "0.25", "largest_batch": 3, "dataset_size": 6}
    phase |= {"noise_multiplier": "0", "steps": 2}
    with ctx.workprec(128):
        one = composition([{**phase, "noise_multiplier": "1"}], Change("add", 0, 2))[0][0]
        branches = [(float(arb(right[0])), float(arb(left[0]))) for right, left in one.branches]
    merged = sum(b for _, b in branches) ** 2
    most = 2 * max(math.log(a / b) for a, b in branches)
    for epsilon in (0.3, 0.4 * most - 0.6 * math.log(merged)):
        lower, upper = found([phase], Change("add", 0, 2), epsilon)
        terms = (a * c - math.exp(epsilon) * b * d for a, b in branches for c, d in branches)  # both coins, written out
        every = sum(max(0.0, term) for term in terms)
        assert lower == pytest.approx(max(0.0, 1 - math.exp(epsilon) * merged), abs=1e-12)
        assert lower - 1e-12 <= every <= upper + 1e-12
    assert lower <= 0.0 < every


def test_shuffled_rounds_and_envelopes_without_noise():
    # C-26: dealt members are always seen; of replaced ones a batch has none with probability h_0
    shuffled = {"sampling": "shuffled", "batch_size": 2, "dataset_size": 8, "noise_multiplier": "0", "steps": 4}
    assert found([shuffled], Change("zero-out", 2, 0, True), 5.0) == (1.0, 1.0)
    batches = {"sampling": "fixed-batch", "batch_size": 2, "dataset_size": 8, "noise_multiplier": "0", "steps": 3}
    expected = 1 - (15 / 28) ** 3  # C(6, 2) / C(8, 2)
    assert found([batches], Change("substitute", 2, 2), 5.0) == pytest.approx((expected,) * 2, abs=1e-14)


@pytest.mark.parametrize(("delta", "outcome"), [("0.0296", "verified"), ("0.0298", "refuted")])
def test_that_no_epsilon_is_enough_is_a_claim(delta, outcome):
    # C-26: 1 - 0.99^3 = 0.029701; one member
    text = document([QUIET], "infinity", "infinity", adjacency="remove", group_size=1, delta=delta)
    assert verify(text).outcome == outcome
    text = document([QUIET], "infinity", "5", adjacency="remove", group_size=1, delta=delta)
    with pytest.raises(NotACertificate):
        verify(text)


def test_with_noise_some_epsilon_is_always_enough():
    run = [{**QUIET, "noise_multiplier": "1"}]
    assert verify(document(run, "infinity", "infinity", adjacency="remove", group_size=1, delta="1e-300")).outcome == (
        "refuted"
    )


@pytest.mark.parametrize(("moved", "outcome"), [("0.1095", "verified"), ("0.1096", "refuted")])
def test_the_least_loss_of_a_removed_group_is_known_below_zero(moved, outcome):
    # C-4: one noisy round beside noiseless ones, at an epsilon below the noisy round's smallest loss 2 log 0.9
    one = Mixtures([([fmpq(81, 100), fmpq(18, 100), fmpq(1, 100)], [fmpq(1)])], fmpq(1))
    with ctx.workprec(128):
        for x in ("-0.3", "-1"):
            lower, upper = one_round(one, arb(x))
            assert abs(lower - 1 + arb(x).exp()) < arb("1e-30")
            assert abs(upper - 1 + arb(x).exp()) < arb("1e-30")
    # C-26: added without noise, delta is 1 - e^epsilon 0.96 0.9
    run = [{**QUIET, "sampling_rate": "0.04", "steps": 1}, {**QUIET, "sampling_rate": "0.1", "steps": 1}]
    delta = 1 - math.exp(0.1095 + 1e-6) * 0.96 * 0.9
    text = document(run, moved, "5", adjacency="add", group_size=1, delta=f"{delta:.12f}")
    assert verify(text).outcome == outcome


def test_a_threshold_in_the_very_middle_is_enclosed():
    # C-4: epsilon = 0 for N(1) against N(0): u = 1/2, which bisection meets exactly
    one = Mixtures([([fmpq(99, 100), fmpq(1, 100)], [fmpq(1)])], fmpq(1))
    with ctx.workprec(128):
        lower, upper = one_round(one, arb(0))
        assert upper - lower < arb("1e-30")
        assert abs(lower - arb(0.01) * arb(0.3829249225480262)) < arb("1e-12")


def test_where_delta_is_flat_equality_is_no_lower_side():
    """C-17: removed, one step without noise: delta is 1/4 at every epsilon, so that epsilon 0 has it."""
    run = [{**QUIET, "sampling_rate": "0.25", "steps": 1}]
    about = {"adjacency": "remove", "group_size": 1, "delta": "0.25"}
    for lower, upper in (("infinity", "infinity"), ("5", "infinity"), ("5", "7")):
        assert verify(document(run, lower, upper, **about)).outcome == "undecided"
    assert verify(document(run, "0", "0", **about)).outcome == "verified"
    assert verify(document(run, "5", "infinity", **{**about, "delta": "0.2499999"})).outcome == "verified"
