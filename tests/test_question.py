"""From a run and a group to pairs: the paper's two theorems, by enumeration and by exact laws (P-1, P-4)."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given

import oracle
import strategies
from groupdp import DPSGD, FixedBatchSampling, MixtureOfGaussians, PoissonSampling
from groupdp.compositions import epsilon_of
from groupdp.engines import Options
from groupdp.pairs import ZERO, Composition, Round, Side
from groupdp.question import epsilon_of_question, question_of
from groupdp.samplings import BallsInBinsSampling
from refusals import refused


def compose_run(run, group_size: int, adjacency: str = "remove") -> Composition:
    ((_, composition),) = question_of(run, group_size=group_size, adjacency=adjacency).compositions
    return composition


def side_of_one_round(phase: DPSGD, group_size: int) -> Side:
    """The right side of one round under removal; the left one is 0, and adding is the mirror image."""
    ((one, _),) = compose_run(dataclasses.replace(phase, steps=1), group_size)
    (branch,) = one.branches
    assert branch.left == ZERO
    assert compose_run(dataclasses.replace(phase, steps=1), group_size, "add") == ((Round.of(ZERO, branch.right), 1),)
    return branch.right


def poisson(rate: float = 0.25, **changes) -> DPSGD:
    return DPSGD(**{"sampling": PoissonSampling(rate=rate), "noise_multiplier": 1.5, "steps": 10, **changes})


def fixed(batch_size: int = 3, dataset_size: int = 7, **changes) -> DPSGD:
    sampling = FixedBatchSampling(batch_size=batch_size, dataset_size=dataset_size)
    return DPSGD(**{"sampling": sampling, "noise_multiplier": 1.5, "steps": 10, **changes})


def assert_is(side: Side, law: dict[int, Fraction]) -> None:
    assert side.shifts.tolist() == [c / 1.5 for c in sorted(law)]
    expected = [float(law[sensitivity]) for sensitivity in sorted(law)]
    np.testing.assert_allclose(side.probabilities, expected, rtol=2.3e-16)


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("rate", [0.25, 0.875])
def test_poisson_sampling_by_enumeration(k: int, rate: float):
    """Theorem 3.1, attained by gradients of +1 for the group and 0 for everyone else."""
    law: Counter[int] = Counter()
    for members in itertools.product((0, 1), repeat=k):
        law[sum(members)] += Fraction(rate) ** sum(members) * (1 - Fraction(rate)) ** (k - sum(members))
    assert_is(side_of_one_round(poisson(rate), k), law)


@pytest.mark.parametrize(("batch_size", "dataset_size", "k"), [(1, 1, 1), (3, 7, 2), (3, 7, 5), (5, 5, 3), (2, 6, 6)])
def test_fixed_batches_by_enumeration(batch_size: int, dataset_size: int, k: int):
    """Theorem 3.3, attained by gradients of +1 for the group and -1 for everyone else (section 3.3)."""
    gradients = [-1] * dataset_size + [1] * k
    batches = [sum(batch) for batch in itertools.combinations(gradients, batch_size)]
    without_the_group = -batch_size
    law = {total - without_the_group: Fraction(count, len(batches)) for total, count in Counter(batches).items()}
    assert_is(side_of_one_round(fixed(batch_size, dataset_size), k), law)


def test_one_member_of_a_fixed_batch():
    side = side_of_one_round(fixed(3, 7), 1)
    assert side.shifts.tolist() == [0.0, 2.0 / 1.5]
    assert side.probabilities.tolist() == [1 - 3 / 8, 3 / 8]  # drawn from n + 1 = 8


@given(phase=strategies.phases(), group_size=strategies.group_sizes)
def test_laws_are_the_oracles(phase: DPSGD, group_size: int):
    side = side_of_one_round(phase, group_size)
    described = {"noise_multiplier": phase.noise_multiplier}
    if isinstance(phase.sampling, PoissonSampling):
        described |= {"sampling": "poisson", "sampling_rate": phase.sampling.rate}
    else:
        sizes = {"batch_size": phase.sampling.batch_size, "dataset_size": phase.sampling.dataset_size}
        described |= {"sampling": "fixed", **sizes}
    exact = oracle.mixture_of(described, group_size)
    assert len(exact.shifts) == len(side.shifts)
    with ctx.workprec(200):
        for i, (shift, p) in enumerate(zip(exact.shifts, exact.probabilities, strict=True)):
            assert abs(arb(float(side.shifts[i])) - arb(shift)) <= arb(shift) * 2.0**-53
            assert abs(arb(float(side.probabilities[i])) - arb(p)) <= arb(p) * 2.0**-52


def test_microbatches_double_the_sensitivity_under_poisson_sampling_only():
    plain, averaged = (side_of_one_round(poisson(microbatch_size=size), 3) for size in (1, 4))
    assert averaged.shifts.tolist() == [c / 1.5 for c in (0.0, 2.0, 4.0, 6.0)]
    assert averaged.probabilities.tolist() == plain.probabilities.tolist()
    assert side_of_one_round(fixed(microbatch_size=4), 3) == side_of_one_round(fixed(), 3)


def test_a_rate_of_one_is_a_plain_gaussian():
    assert side_of_one_round(poisson(1.0), 4) == MixtureOfGaussians([4.0], [1.0], 1.5).side


def test_nothing_to_distinguish_is_the_empty_composition():
    assert compose_run(poisson(), 0) == ()
    assert compose_run([poisson(steps=0), fixed(steps=0)], 3) == ()


def test_equal_phases_are_one_entry_with_all_their_rounds():
    run = [poisson(steps=10), fixed(steps=5), poisson(steps=30), poisson(steps=0)]
    composition = {one.branches[0].right: times for one, times in compose_run(run, 2)}
    assert composition == {side_of_one_round(poisson(), 2): 40, side_of_one_round(fixed(), 2): 5}


def test_a_group_larger_than_the_dataset_is_refused():
    """The smaller dataset has n examples; its neighbour at most doubles it."""
    assert compose_run(fixed(3, 7), 7)
    with refused("group_size", value=8):
        compose_run(fixed(3, 7), 8)
    with refused("group_size"):
        compose_run([poisson(), fixed(3, 7)], 8)


@given(phase=strategies.phases(), group_size=strategies.group_sizes)
def test_steps_do_not_change_the_pair(phase: DPSGD, group_size: int):
    longer = dataclasses.replace(phase, steps=phase.steps + 1)
    assert side_of_one_round(phase, group_size) == side_of_one_round(longer, group_size)
    assert compose_run(phase, group_size) == ((Round.of(side_of_one_round(phase, group_size), ZERO), phase.steps),)


def test_coins_that_are_skipped_have_no_smaller_answer() -> None:
    run = DPSGD(BallsInBinsSampling(batches=1000), noise_multiplier=2.0, steps=1000)
    question = question_of(run, group_size=16, adjacency="remove")
    log_delta, options = math.log(1e-6), Options(engine="spectral")
    best = epsilon_of_question(question, log_delta, options).upper
    coins = [
        choice for choice in question.options(0) if any(len(getattr(one, "products", ())) > 8 for one, _ in choice)
    ]
    assert len(coins) == 2
    assert all(epsilon_of(coin, log_delta, options).lower > best for coin in coins)
