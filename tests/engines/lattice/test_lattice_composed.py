"""Composition by the lattice engine (L-7, L-9, L-20): a few rounds in balls, tables, closed forms, identities."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import pytest
from flint import arb

import groupdp
import oracle
from engines.lattice_balls import binomial_mixture, composed, exact_mixture
from engines.spectral.test_spectral_golden import named, run_of
from groupdp import pairs
from groupdp.bounds import Bounds
from groupdp.engines import Work, lattice
from groupdp.mechanisms.mixture import MixtureOfGaussians
from oracle import closed as oracle_closed
from oracle import few_rounds as oracle_few_rounds
from paths import DATA

ORACLE = json.loads((DATA / "oracle_cases.json").read_text())
DIRECTIONS = ["add", "remove"]
#: Mechanisms (group size, rate, noise) with their rounds, an epsilon, the oracle's step.
FEW_ROUNDS = [
    ([((1, 0.1, 1.0), 2)], 0.1, 0.005),
    ([((2, 0.3, 1.5), 2)], 0.4, 0.02),
    ([((1, 0.5, 2.0), 1), ((3, 0.2, 2.0), 1)], 0.5, 0.02),
    ([((2, 0.2, 1.0), 3)], 0.75, 0.02),
    ([((1, 0.5, 2.0), 2), ((1, 0.3, 1.0), 1)], 0.5, 0.02),
    ([((4, 0.25, 2.0), 5)], 1.0, 0.02),
    ([((1, 0.5, 1.0), 5)], 1.5, 0.02),
]


@pytest.mark.parametrize(
    ("rounds", "epsilon"),
    [(1, 0.5), (3, 1.0), (5, 2.0)],
)
def test_the_oracle_of_a_few_rounds_knows_the_gaussian_mechanism(rounds, epsilon):
    composition = [(oracle.Mixture([1], [1], 2), rounds)]
    found = oracle_few_rounds.log_delta(composition, epsilon=epsilon, direction="remove")
    truth = oracle_closed.gaussian_log_delta(composition, epsilon=epsilon)
    assert found.contains(truth)
    assert found.rel_accuracy_bits() > 25


@pytest.mark.thinned
@pytest.mark.parametrize(("phases", "epsilon", "step"), FEW_ROUNDS)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_few_rounds_against_ball_arithmetic(phases, epsilon, step, direction):
    truth = oracle_few_rounds.log_delta(
        [(exact_mixture(*law), rounds) for law, rounds in phases], epsilon=epsilon, direction=direction, step=step
    )
    composition = composed(*((binomial_mixture(*law), rounds) for law, rounds in phases), direction=direction)
    for tolerance in (1e-4, 1e-6):
        found = lattice.log_delta(composition, epsilon=epsilon, tolerance=tolerance)
        assert found.relative_width <= tolerance
        # the oracle's ball is within the interval, and the interval is not much wider than the ball would notice
        assert arb(found.lower) <= truth <= arb(found.upper)
    assert float(truth.rad()) < 0.3 * found.width


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("law", "rounds", "epsilon", "step"), [((1, 1e-3, 1.0), 2, 1.0, 0.002), ((1, 1e-2, 1.0), 5, 3.0, 0.005)]
)
def test_a_group_that_is_rarely_sampled_against_ball_arithmetic(law, rounds, epsilon, step):
    # epsilon lies in a trough of the composed law: far beyond no sample, far below what tilting to it makes likely
    truth = oracle_few_rounds.log_delta([(exact_mixture(*law), rounds)], epsilon=epsilon, direction="remove", step=step)
    for tolerance in (1e-4, 1e-6):
        found = lattice.log_delta(
            composed((binomial_mixture(*law), rounds), direction="remove"), epsilon=epsilon, tolerance=tolerance
        )
        assert found.relative_width <= tolerance
        assert arb(found.lower) <= truth <= arb(found.upper)
    assert float(truth.rad()) < 0.3 * found.width


@pytest.mark.thinned
@pytest.mark.parametrize(("phases", "about", "step"), [FEW_ROUNDS[1], FEW_ROUNDS[6]])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_epsilons_of_a_few_rounds_against_ball_arithmetic(phases, about, step, direction):
    exact = [(exact_mixture(*law), rounds) for law, rounds in phases]
    composition = composed(*((binomial_mixture(*law), rounds) for law, rounds in phases), direction=direction)
    target = lattice.log_delta(composition, epsilon=about, tolerance=1e-2).lower
    found = lattice.epsilon(composition, log_delta=target, tolerance=1e-6)
    assert found.width <= 1e-6 * max(1.0, found.upper)  # the lattice's own rule
    above = oracle_few_rounds.log_delta(exact, epsilon=found.lower, direction=direction, step=step)
    below = oracle_few_rounds.log_delta(exact, epsilon=found.upper, direction=direction, step=step)
    assert below <= arb(target) <= above


@pytest.mark.thinned(8)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("case", [case for case in ORACLE["cases"] if case.get("steps", 10**9) <= 400], ids=named)
def test_oracle_epsilons_are_enclosed(case, direction):
    question = {"delta": float(case["delta"]), "group_size": case["group_size"], "adjacency": direction}
    bounds = groupdp.epsilon(run_of(case), engine="lattice", tolerance=1e-5, **question)
    assert Decimal(bounds.lower) <= Decimal(case[f"epsilon_{direction}"]) <= Decimal(bounds.upper)
    # A delta of 5e-16 with rare, large losses takes more than the memory allowed: said, and not far off.
    assert bounds.relative_width <= (1e-5 if float(case["delta"]) > 1e-15 else 1e-4)
    assert bounds.provenance.tolerance_met == (bounds.relative_width <= 1e-5)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("case", ORACLE["mixtures"], ids=lambda case: f"{case['sensitivities']}-{case['rounds']}")
def test_oracle_epsilons_of_arbitrary_mixtures_are_enclosed(case, direction):
    mixture = MixtureOfGaussians(case["sensitivities"], case["probabilities"], case["standard_deviation"])
    bounds = groupdp.epsilon(
        mixture, rounds=case["rounds"], delta=case["delta"], adjacency=direction, engine="lattice", tolerance=1e-5
    )
    assert Decimal(bounds.lower) <= Decimal(case[f"epsilon_{direction}"]) <= Decimal(bounds.upper)


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("rounds", "log_delta", "direction"),
    [
        *((2, -5.0, one) for one in DIRECTIONS),
        (3, -70.0, "add"),
        (5, -2000.0, "remove"),
        (100, -5.0, "add"),
        (100, -2000.0, "remove"),
        (10**5, -70.0, "remove"),
    ],
)
def test_a_group_that_is_always_present_is_a_gaussian_mechanism(rounds, log_delta, direction):
    composition = composed((MixtureOfGaussians([0.0, 2.0], [0.0, 1.0], 3.0), rounds), direction=direction)
    exact = [(oracle.Mixture([2], [1], 3), rounds)]
    found = lattice.epsilon(composition, log_delta=log_delta, tolerance=1e-6)
    assert found.relative_width <= 1e-6
    assert oracle_closed.gaussian_log_delta(exact, epsilon=found.lower) >= log_delta
    assert oracle_closed.gaussian_log_delta(exact, epsilon=found.upper) <= log_delta


@pytest.mark.thinned
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_order_of_phases_does_not_matter(direction):
    parts = ((binomial_mixture(1, 0.2, 1.0), 7), (binomial_mixture(3, 0.1, 2.0), 40))
    one = lattice.epsilon(composed(*parts, direction=direction), log_delta=-12.0)
    other = lattice.epsilon(composed(*parts[::-1], direction=direction), log_delta=-12.0)
    assert one.intersects(other)
    assert one.relative_width <= 1e-6


def test_epsilon_and_delta_at_the_ends():
    add, remove = (composed((binomial_mixture(2, 0.1, 1.0), 5), direction=direction) for direction in DIRECTIONS)
    largest = -10.0 * math.log(0.9)
    assert lattice.log_delta(add, epsilon=largest + 1e-9).upper == -math.inf
    at_zero_delta = lattice.epsilon(add, log_delta=-math.inf)
    assert at_zero_delta.lower <= largest <= at_zero_delta.upper
    assert lattice.epsilon(remove, log_delta=-math.inf).lower == math.inf
    assert lattice.epsilon(remove, log_delta=0.0) == Bounds(0.0, 0.0)
    assert lattice.epsilon(remove, log_delta=-0.01) == Bounds(0.0, 0.0)
    near_the_end = lattice.epsilon(add, log_delta=-3000.0)
    assert near_the_end.lower <= near_the_end.upper <= largest * (1 + 1e-14)
    assert near_the_end.relative_width <= 1e-6


@pytest.mark.thinned
@pytest.mark.parametrize("epsilon", [-5.0, -1.2, -0.2])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_negative_epsilons_by_duality(epsilon, direction):
    # H_a(P, Q) = 1 - a + a H_{1/a}(Q, P)
    composition = composed((binomial_mixture(2, 0.3, 1.0), 10), direction=direction)
    here = lattice.log_delta(composition, epsilon=epsilon, tolerance=1e-7)
    there = lattice.log_delta(pairs.mirrored(composition), epsilon=-epsilon, tolerance=1e-7)
    dual = [-math.expm1(epsilon) + math.exp(epsilon + value) for value in (there.lower, there.upper)]
    assert math.log(dual[0]) - 1e-15 <= here.upper
    assert here.lower <= math.log(dual[1]) + 1e-15
    assert here.width < 1e-6


def test_many_components_and_few_rounds():
    composition = composed((binomial_mixture(2000, 0.01, 5.0), 3), direction="remove")
    found = lattice.epsilon(composition, log_delta=-12.0, tolerance=1e-5)
    assert found.relative_width <= 1e-5
    # no epsilon beyond what three times the largest likely group gives
    assert 0.0 < found.lower < 3 * 60.0**2 / 25.0


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("law", "rounds", "log_delta"),
    [
        ((1, 1e-300, 0.3), 10**9, -690.0),
        ((1, 0.2415, 0.01), 10**6, -690.0),
        ((5, 1.0, 1e-6), 2**53, -14.0),
        ((1, 1e-12, 1.0), 10**12, -18.0),
        ((4, 0.01, 1e18), 2, -14.0),
    ],
)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_extreme_compositions_get_valid_bounds(law, rounds, log_delta, direction):
    composition = composed((binomial_mixture(*law), rounds), direction=direction)
    found = lattice.epsilon(composition, log_delta=log_delta, memory_budget=10**7)
    assert 0.0 <= found.lower <= found.upper
    assert found.upper <= pairs.largest_loss(composition)


def test_a_shift_beyond_double_precision_is_refused_by_name():
    with pytest.raises(groupdp.LimitExceeded, match=r"1e\+09 times the noise; the lattice engine takes at most 1e\+08"):
        lattice.epsilon(composed((binomial_mixture(1000, 0.5, 1e-6), 2), direction="remove"), log_delta=-14.0)


def test_an_epsilon_that_no_loss_reaches_leaves_nothing_to_refine():
    # the first solve sees no mass beyond epsilon at all
    composition = composed((MixtureOfGaussians([0.0, 2.2e-6], [1.0, 6e-49], 579.0), 5), direction="remove")
    found = lattice.log_delta(composition, epsilon=0.02)
    assert found.lower <= found.upper < -50.0
    assert not found.provenance.tolerance_met


def test_work_beyond_the_limit_is_refused():
    composition = composed((binomial_mixture(4, 0.01, 1.0), 2000), direction="remove")
    with pytest.raises(groupdp.LimitExceeded, match="limit of 0 operations"):
        lattice.epsilon(composition, log_delta=-14.0, work=Work(0))
    told = []
    found = lattice.epsilon(composition, log_delta=-14.0, tolerance=1e-2, progress=told.append)
    assert found.provenance.tolerance_met
    assert told[-1] == 1.0
    assert all(0.0 <= fraction <= 1.0 for fraction in told)


def test_an_epsilon_above_every_loss_of_an_allocation_gives_delta_0_without_a_warning():
    """One example joins one of 20 batches, of which one is seen: no loss exceeds -log(1 - 1/20) (P-13)."""
    run = groupdp.DPSGD(groupdp.SpreadSampling(batches=20), noise_multiplier=5.647, steps=1)
    found = groupdp.log_delta(run, epsilon=0.5, group_size=1, adjacency="add", engine="lattice", tolerance=1e-4)
    assert (found.lower, found.upper) == (-math.inf, -math.inf)
