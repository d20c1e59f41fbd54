"""The oracle against golden tables, closed forms and facts; it is only worth what these say."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest
from flint import arb, ctx

import oracle
from oracle import closed as oracle_closed
from paths import DATA

GOLDEN = json.loads((DATA / "epsilon.json").read_text())["cases"]
ONE_ROUND = json.loads((DATA / "one_round_delta.json").read_text())["cases"]
# Both samplings, small and middling groups, a schedule; studies/oracle_golden.py has all of them.
SELECTION = [0, 33, 51, 56, 58]
DIRECTIONS = ("remove", "add")


def relative_error(value: arb, truth: str) -> float:
    with ctx.workprec(200):
        return float(abs(value / arb(truth) - 1).upper())


@pytest.mark.thinned(6)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("number", SELECTION)
def test_golden_epsilons(number: int, direction: str):
    case = GOLDEN[number]
    composition = oracle.compose(case.get("phases", [case]), case["group_size"])
    epsilon = oracle.epsilon(composition, delta=case["delta"], direction=direction)
    # The table says 1e-13 and turns out to hold 2e-16.
    assert relative_error(epsilon, case[f"epsilon_{direction}"]) < 1e-15


@pytest.mark.thinned(8)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("case", ONE_ROUND, ids=lambda case: f"k={case['group_size']},eps={case['epsilon']}")
def test_golden_deltas_of_one_round(case: dict, direction: str):
    composition = oracle.compose([case], case["group_size"])
    log_delta = oracle.log_delta(composition, epsilon=case["epsilon"], direction=direction)
    if float(case[f"delta_{direction}"]) == 0.0:
        assert log_delta == arb.neg_inf()
        return
    with ctx.workprec(200):
        delta = log_delta.exp()
    assert relative_error(delta, case[f"delta_{direction}"]) < 1e-19
    back = oracle.epsilon(composition, delta=case[f"delta_{direction}"], direction=direction)
    assert relative_error(back, case["epsilon"]) < 1e-18


@pytest.mark.thinned(3)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("epsilon", ["0", "0.25", "2", "40", "150"])
def test_the_contour_reproduces_composed_gaussians(epsilon: str, direction: str):
    composition = [(oracle.Mixture([3], [1], "5"), 30), (oracle.Mixture(["0.5"], [1], "2"), 100)]
    truth = oracle_closed.gaussian_log_delta(composition, epsilon=epsilon)
    value = oracle.log_delta(composition, epsilon=epsilon, direction=direction)
    with ctx.workprec(200):
        assert abs(value - truth) < 1e-19 * max(1.0, abs(float(truth)))


def test_one_round_is_a_gaussian_when_the_group_is_always_there():
    composition = [(oracle.Mixture([3], [1], 2), 1)]
    for epsilon in ("0", "1", "30"):
        truth = oracle_closed.gaussian_log_delta(composition, epsilon=epsilon)
        for direction in DIRECTIONS:
            value = oracle.log_delta(composition, epsilon=epsilon, direction=direction)
            assert relative_error(value, truth.str(40, radius=False)) < 1e-25


@pytest.mark.whole
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_two_rounds_by_plain_integration(direction: str):
    """delta of a Gaussian round and a mixture round: E[delta_1(epsilon - L)] over the Gaussian's loss L."""
    mixture = oracle.mixture_of({"sampling_rate": "0.2", "noise_multiplier": "1.25"}, 3)
    shift, epsilon, nodes = Fraction(3, 2), Fraction(1, 2), 128
    with ctx.workprec(128):
        total = arb(0)
        for n in range(-8 * nodes, 8 * nodes + 1):
            u = Fraction(n, nodes)
            loss = shift * (u + shift) - shift**2 / 2 if direction == "remove" else shift**2 / 2 - shift * u
            inner = oracle_closed.one_round_log_delta(mixture, epsilon=epsilon - loss, direction=direction).exp()
            total += inner * (-(arb(float(u)) ** 2) / 2).exp()
        truth = (total / nodes / (2 * arb.pi()).sqrt()).log()
    composition = [(oracle.Mixture([shift], [1], 1), 1), (mixture, 1)]
    value = oracle.log_delta(composition, epsilon=epsilon, direction=direction, digits=12)
    assert float(abs(value - truth)) < 1e-11  # the plain integration is good to 1e-12


def test_a_phase_may_be_cut_in_two():
    mixture = oracle.mixture_of({"sampling_rate": "0.05", "noise_multiplier": "1.5"}, 2)
    whole = oracle.epsilon([(mixture, 500)], delta="1e-7", direction="remove")
    parts = oracle.epsilon([(mixture, 130), (mixture, 370)], delta="1e-7", direction="remove")
    assert float(abs(whole - parts)) < 1e-19


def test_total_variation_is_symmetric():
    """At epsilon = 0 add and remove are the same number, from different halves of the plane."""
    composition = oracle.compose([{"sampling_rate": "0.03", "noise_multiplier": "0.9", "steps": 200}], 3)
    add, remove = (oracle.log_delta(composition, epsilon=0, direction=direction) for direction in ("add", "remove"))
    assert float(abs(add - remove)) < 1e-19


def test_epsilon_inverts_log_delta():
    composition = oracle.compose([{"sampling_rate": "0.001", "noise_multiplier": "0.6", "steps": 20000}], 2)
    for direction in DIRECTIONS:
        epsilon = oracle.epsilon(composition, delta="1e-6", direction=direction)
        # an exact decimal near the answer; delta's slope in epsilon is about -c, between 1 and 10 here
        rounded = epsilon.str(30, radius=False)
        log_delta = oracle.log_delta(composition, epsilon=rounded, direction=direction, digits=18)
        with ctx.workprec(200):
            assert abs(log_delta - arb("1e-6").log()) < 1e-17


def test_beyond_the_largest_loss_delta_is_zero():
    composition = oracle.compose([{"sampling_rate": "0.5", "noise_multiplier": "1", "steps": 10}], 1)
    assert oracle.log_delta(composition, epsilon=10 * math.log(2) + 1e-9, direction="add") == arb.neg_inf()


def test_epsilon_is_zero_where_delta_exceeds_the_total_variation():
    composition = oracle.compose([{"sampling_rate": "0.001", "noise_multiplier": "10", "steps": 100}], 1)
    assert all(oracle.epsilon(composition, delta="0.01", direction=direction) == 0 for direction in DIRECTIONS)


def test_the_oracle_says_so_when_it_does_not_know():
    composition = oracle.compose([{"sampling_rate": "0.01", "noise_multiplier": "1", "steps": 2000}], 2)
    with pytest.raises(oracle.Disagreement):  # 256 bits do not hold 76 digits
        oracle.epsilon(composition, delta="1e-6", direction="remove", digits=76)


def test_doubles_are_taken_at_their_exact_binary_value():
    assert oracle.exact(0.1) == oracle.exact("0.1000000000000000055511151231257827021181583404541015625")
    assert oracle.exact("0.1") * 10 == 1
