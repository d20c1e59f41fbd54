"""The compiled spectral engine's answers, and what it refuses.

Truths come from the golden tables and the independent oracle's, never from the kernel.
"""

from __future__ import annotations

import json
import math
import threading
from decimal import Decimal

import numpy as np
import pytest

import groupdp
from engines.spectral.test_spectral_golden import CASES, named
from engines.spectral.test_spectral_golden import run_of as golden_run
from engines.spectral_truth import composition_of
from groupdp import pairs
from groupdp.engines import spectral
from groupdp.engines import spectral as engine
from groupdp.engines.spectral import _kernel as kernel  # a suite without the compiled engine is not the suite
from groupdp.engines.spectral import packed
from groupdp.laws import binomial_law
from mixtures import compose_run, pairs_of
from oracle import laws
from paths import DATA
from solve.test_oracle_cases import TABLES
from solve.test_oracle_cases import run_of as oracle_run

PAIRS = [
    case for case in json.loads((DATA / "pairs.json").read_text())["cases"] if case["kind"] != "fixed-batch-substitute"
]


def ceilings(composition: pairs.Composition, target: float) -> list[float]:
    """By Chernoff alone, and by a coarse contour."""
    return [spectral.epsilon_ceiling(composition, log_delta=target, enough=enough) for enough in (math.inf, 0.0)]


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize("case", CASES, ids=named)
def test_golden_epsilon_is_enclosed(case, direction):
    composition = pairs_of(compose_run(golden_run(case), case["group_size"]), direction)
    target, truth = math.log(float(case["delta"])), Decimal(case[f"epsilon_{direction}"])
    bounds = spectral.epsilon(composition, log_delta=target)
    assert Decimal(bounds.lower) <= truth <= Decimal(bounds.upper)
    assert bounds.width <= 1e-10 * max(1.0, bounds.upper)
    assert bounds.provenance.engine == "spectral"
    assert bounds.provenance.implementation == "compiled"
    chernoff, closer = ceilings(composition, target)
    assert truth <= Decimal(closer) <= Decimal(chernoff) <= truth * 2
    assert Decimal(closer) <= truth * Decimal("1.01")


@pytest.mark.parametrize("number", range(len(PAIRS)), ids=[f"{case['kind']}-{i}" for i, case in enumerate(PAIRS)])
def test_golden_epsilon_of_pairs_is_enclosed(number):
    case = PAIRS[number]
    target, tolerance = math.log(float(case["delta"])), 1e-9 if case["kind"] == "poisson-substitute" else 1e-8
    for name, rounds in laws.compositions(case).items():
        composition = composition_of(rounds)
        bounds = spectral.epsilon(composition, log_delta=target)
        truth = Decimal(case[f"epsilon{name}"])
        assert Decimal(bounds.lower) <= truth <= Decimal(bounds.upper)
        assert bounds.width <= tolerance * max(1.0, bounds.upper)
        work = bounds.provenance.evaluations  # 4755, 510 and 6 at most when this was written: milliseconds
        assert work["nodes"] <= 10_000
        assert work["contour steps"] <= 1_000
        assert work["evaluations of delta"] <= 12
        assert all(truth <= Decimal(ceiling) for ceiling in ceilings(composition, target))


@pytest.mark.parametrize("direction", ["add", "remove"])
def test_the_oracle_s_epsilons_are_enclosed(direction):
    declined = 0
    cases = [(compose_run(oracle_run(case), case["group_size"]), case) for case in TABLES["cases"]]
    for case in TABLES["mixtures"]:
        law = groupdp.MixtureOfGaussians(case["sensitivities"], case["probabilities"], case["standard_deviation"])
        cases.append((((law, case["rounds"]),), case))
    for mixtures, case in cases:
        composition = pairs_of(mixtures, direction)
        target, truth = math.log(float(case["delta"])), Decimal(case[f"epsilon_{direction}"])
        try:
            bounds = spectral.epsilon(composition, log_delta=target)
        except groupdp.LimitExceeded:
            declined += 1
            continue
        assert Decimal(bounds.lower) <= truth <= Decimal(bounds.upper)
        assert all(truth <= Decimal(ceiling) for ceiling in ceilings(composition, target))
    assert declined <= 12


@pytest.mark.parametrize("direction", ["add", "remove"])
def test_the_oracle_s_log_deltas_are_enclosed(direction):
    answered = 0
    for case in TABLES["log_deltas"]:
        composition = pairs_of(compose_run(oracle_run(case), case["group_size"]), direction)
        try:
            bounds = spectral.log_delta(composition, epsilon=float(case["epsilon"]))
        except groupdp.LimitExceeded:
            continue
        answered += 1
        assert bounds.lower <= Decimal(case[f"log_delta_{direction}"]) <= bounds.upper
    assert answered >= 5


def test_the_two_headline_epsilons_of_substitution():
    for size, truth in ((1, 4.69611473394860), (4, 24.4792429086480)):
        side = pairs.Side.from_sensitivities(np.arange(size + 1.0), binomial_law(size, 0.01), 1.0)
        bounds = spectral.epsilon(((pairs.Round.of(side, side), 2000),), log_delta=math.log(1e-6))
        assert bounds.lower - 1e-13 * truth <= truth <= bounds.upper + 1e-13 * truth


@pytest.mark.parametrize("log_delta", [-1000.0, -2000.0, -5000.0])
@pytest.mark.parametrize("kind", ["remove", "add", "substitute"])
def test_log_deltas_of_minus_thousands_are_within_reach(kind, log_delta):
    side = pairs.Side.from_sensitivities(np.arange(3.0), binomial_law(2, 0.02), 4.0)
    pair = {"remove": (side, pairs.ZERO), "add": (pairs.ZERO, side), "substitute": (side, side)}[kind]
    composition = ((pairs.Round.of(*pair), 20_000),)
    bounds = spectral.epsilon(composition, log_delta=log_delta)
    assert bounds.relative_width <= 1e-9
    at = spectral.log_delta(composition, epsilon=bounds.upper)
    assert math.isclose(at.lower, log_delta, rel_tol=1e-9)


@pytest.mark.parametrize("branches", [1, 2000])
@pytest.mark.parametrize("times", [1, 20])
def test_thousands_of_gaussian_branches_are_answered_even_in_one_round(branches, times):
    r = np.arange(1.0, branches + 1.0)
    log_weights = -0.01 * (r - 1.0)
    log_weights -= math.log(math.fsum(np.exp(log_weights)))
    sides = [pairs.Side.point(math.sqrt(x) / 20.0) for x in r.tolist()]
    one = pairs.Round([pairs.Branch(side, pairs.ZERO) for side in sides], np.minimum(log_weights, 0.0))
    bounds = spectral.epsilon(((one, times),), log_delta=math.log(1e-6))
    assert bounds.relative_width <= 1e-9
    assert bounds.provenance.evaluations["contour steps"] <= 1_200  # 590 when this was written


# Many questions at once, threads, time.


def test_epsilons_answers_what_epsilon_answers():
    questions = [
        (pairs_of(compose_run(golden_run(case), case["group_size"]), "remove"), math.log(float(case["delta"])))
        for case in CASES[:12]
    ]
    questions.append((((pairs.Round.of(pairs.Side.point(1e9), pairs.ZERO), 3),), -5.0))  # declined
    found = spectral.epsilons(questions)
    for (composition, target), one in zip(questions[:-1], found[:-1], strict=True):
        assert isinstance(one, groupdp.Bounds)
        assert one == spectral.epsilon(composition, log_delta=target)
    assert isinstance(found[-1], groupdp.LimitExceeded)
    assert spectral.epsilons([]) == []


def test_epsilon_ceilings_answers_what_epsilon_ceiling_answers():
    cases = [
        (pairs_of(compose_run(golden_run(case), case["group_size"]), "add"), math.log(float(case["delta"])))
        for case in CASES[:12]
    ]
    for enough in (1e-3, 1e6):  # by Chernoff alone, and with a coarse contour
        found = spectral.epsilon_ceilings((composition, target, enough) for composition, target in cases)
        for (composition, target), one in zip(cases, found, strict=True):
            assert one == spectral.epsilon_ceiling(composition, log_delta=target, enough=enough)
    declined = ((pairs.Round.of(pairs.Side.point(1e9), pairs.ZERO), 3),)
    assert spectral.epsilon_ceilings([(declined, -5.0, 1.0)]) == [math.inf]


def test_threads_get_the_same_answers():
    case = CASES[0]
    composition = pairs_of(compose_run(golden_run(case), case["group_size"]), "remove")
    questions = [(composition, -10.0 - 0.1 * i) for i in range(40)]
    alone, results = spectral.epsilons(questions), {}

    def ask(number: int) -> None:
        results[number] = spectral.epsilons(questions)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results[number] == alone for number in range(4))


def test_a_hard_question_is_declined_for_its_work_or_answered_within_the_limits():
    # 7.5 seconds once.
    slow = [
        ((0.0135, 9.1, 3), (0.0458, 6.0, 2), (0.00057, 8.42, 8)),
        ((0.0386, 0.2238, 78),),
        ((1e-6, 0.2, 10**9),),
    ]
    for phases in slow:
        runs = [
            groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)
            for rate, noise, steps in phases
        ]
        for direction in ("remove", "add"):
            composition = pairs_of(compose_run(runs, 50), direction)
            found = kernel.epsilon(packed(composition), -130.0)
            if isinstance(found, str):
                assert found in ("nodes", "work", "rounding")
            else:
                _, _, nodes, samples, evaluations = found
                assert nodes <= 150_000
                assert samples <= 50_000
                assert evaluations <= 12


def test_without_the_extension_the_reason_is_said(monkeypatch):
    monkeypatch.setattr(engine, "AVAILABLE", False)
    composition = ((pairs.Round.of(pairs.Side.point(0.5), pairs.ZERO), 3),)
    for ask in (
        lambda: spectral.epsilon(composition, log_delta=-5.0),
        lambda: spectral.log_delta(composition, epsilon=1.0),
        lambda: spectral.epsilon_ceiling(composition, log_delta=-5.0, enough=0.0),
        lambda: spectral.epsilons([(composition, -5.0)]),
        lambda: spectral.neighbourhood(composition, 1.0),
    ):
        with pytest.raises(groupdp.LimitExceeded, match="no compiler"):
            ask()


# What is not a composition.

ONE = (np.array([0.0, 1.0]), np.array([0.75, 0.25]), np.log([0.75, 0.25]))
NONE = np.zeros(0)


def composed(*, count=100.0, weight=0.0, right=ONE, left=ONE, mu=NONE, log_weights=NONE):
    return [(count, [(weight, *right, *left)], mu, log_weights)]


def law_of(probabilities):
    return np.array(probabilities), np.log(probabilities)


def changed(position, value):
    return (*ONE[:position], value, *ONE[position + 1 :])


def asked(question: str, composition, argument: float):
    extra = {"epsilon_ceiling": (0.0,)}.get(question, ())
    return getattr(kernel, question)(composition, argument, *extra)


QUESTIONS = ["epsilon", "log_delta", "epsilon_ceiling", "neighbourhood"]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "side",
    [
        changed(0, np.array([0, 1])),
        changed(0, np.array([0.0, 1.0], dtype=">f8")),
        changed(0, np.array([0.0, 1.0, 2.0])),
        changed(0, np.array([])),
        changed(0, np.array([1.0, 0.0])),
        changed(0, np.array([1.0, 1.0])),
        changed(0, np.array([-1.0, 1.0])),
        changed(0, np.array([0.0, math.nan])),
        changed(0, np.array([0.0, math.inf])),
        changed(1, np.array([math.nan, 0.25])),
        changed(1, np.array([0.75, 1.25])),
        changed(2, np.array([-0.3, -math.inf])),
        changed(2, np.array([-0.3, math.nan])),  # was dropped without a trace: no comparison with it is true
        changed(2, np.array([-0.3])),
    ],
)
def test_a_side_that_is_no_law_is_refused(side, question):
    for composition in (composed(right=side), composed(left=side)):
        with pytest.raises(ValueError, match=r"a law must"):
            asked(question, composition, -10.0)


@pytest.mark.parametrize(
    "composition",
    [
        composed(count=0.0),
        composed(count=math.nan),
        composed(weight=1.0),
        composed(weight=math.nan),
        composed(weight=-math.inf),
        composed(mu=np.array([-1.0]), log_weights=np.array([0.0])),
        composed(mu=np.array([math.nan]), log_weights=np.array([0.0])),
        composed(mu=np.array([1.0]), log_weights=np.array([math.nan])),
        composed(mu=np.array([1.0]), log_weights=NONE),
        [(1.0, [], NONE, NONE)],
    ],
)
def test_a_coin_that_is_none_is_refused(composition):
    with pytest.raises(ValueError, match=r"a law must"):
        kernel.epsilon(composition, -10.0)


@pytest.mark.parametrize(
    "composition",
    [
        None,
        1.0,
        [None],
        [[1.0, [], NONE, NONE]],
        [(1.0, [])],
        composed(right=changed(0, [0.0, 1.0])),
        composed(count="x"),
    ],
)
def test_what_is_no_composition_is_refused(composition):
    with pytest.raises((TypeError, ValueError)):
        kernel.epsilon(composition, -10.0)


@pytest.mark.parametrize("strided", [np.arange(4.0)[::2], np.zeros((2, 2)).T])
def test_a_buffer_with_gaps_is_refused(strided):
    with pytest.raises((BufferError, ValueError)):
        kernel.epsilon(composed(right=changed(0, strided)), -10.0)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("argument", [math.nan, math.inf, -math.inf])
def test_an_argument_that_is_no_number_is_declined(question, argument):
    assert asked(question, composed(), argument) == "argument"


@pytest.mark.parametrize("composition", [[], composed(count=1e300), composed(count=math.inf)])
def test_nothing_and_too_many_rounds_are_declined(composition):
    assert kernel.epsilon(composition, -10.0) == "memory"


@pytest.mark.parametrize("shift", [1e-300, 5e-324, 1e8])
def test_shifts_outside_of_the_limits_are_declined(shift):
    for composition in (
        composed(right=changed(0, np.array([0.0, shift]))),
        composed(weight=math.log(0.5), mu=np.array([shift]), log_weights=np.log([0.5])),
    ):
        assert kernel.epsilon(composition, -10.0) == "shifts"


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "composition",
    [
        composed(right=(ONE[0], *law_of([0.75, 0.25 + 1e-13]))),
        composed(left=(ONE[0], *law_of([0.75 - 1e-13, 0.25]))),
        composed(right=(ONE[0], *law_of([0.75, 0.3]))),
        composed(right=(ONE[0], *law_of([1e-3, 1e-4]))),
        composed(right=changed(2, np.log([0.75, 0.25 + 1e-13]))),
        composed(right=changed(2, np.array([math.log(0.75), -700.0]))),
        composed(left=(np.arange(3.0), np.array([0.75, 0.25, 0.0]), np.log([0.75, 0.25, 1e-3]))),
        composed(weight=math.log(0.5)),
        composed(weight=-1e-13),
        composed(weight=math.log(0.5), mu=np.ones(1), log_weights=np.log([0.5 + 1e-13])),
        composed(weight=math.log(0.5), mu=np.ones(2), log_weights=np.log([0.5, 0.1])),
    ],
)
def test_s_28_a_law_that_does_not_sum_to_1_is_refused(composition, question):
    """S-28: these were answered, and some with a lower side above the upper one."""
    with pytest.raises(ValueError, match=r"a law must .*sum to 1"):
        asked(question, composition, -3.0)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("weights", [[0.5], [1.0 - 1e-13], [0.5, 0.5 + 1e-13], [0.5, 0.1], [1.0, 1.0]])
def test_s_28_weights_of_allocations_that_do_not_sum_to_1_are_refused(weights, question):
    """S-28: products of one allocation to 5 places."""
    allocated = (False, np.array([5.0]), np.ones(1), np.zeros(1), np.log(weights), np.ones(len(weights)))
    with pytest.raises(ValueError, match=r"an allocation must .*sum to 1"):
        asked(question, [(3.0, (), NONE, NONE, allocated)], -3.0)


@pytest.mark.parametrize("size", [1, 2, 3, 17, 1000, 100_000])
def test_s_28_a_law_that_is_right_to_its_last_places_is_taken(size):
    """S-28: every probability may be wrong by 4 U, with the sign that adds most."""
    generator = np.random.default_rng(size)
    for sign in (-1.0, 1.0):
        drawn = generator.gamma(0.05, size=size)
        probabilities = drawn / math.fsum(drawn) * (1.0 + sign * 3.0 * 2.0**-53)
        logs = np.log(np.maximum(probabilities, 5e-324)) * (1.0 + sign * 2.0**-52)
        mixture = (np.arange(size) * 1e-3, probabilities, logs)
        assert kernel.epsilon([(3.0, [(0.0, *mixture, *ONE)], NONE, NONE)], math.nan) == "argument"
        drawn = generator.gamma(5.0, size=size)
        weights = np.log(drawn / math.fsum(drawn)) * (1.0 + sign * 3.0 * 2.0**-53)
        assert kernel.epsilon([(3.0, [], np.ones(size), weights)], math.nan) == "argument"


def test_a_batch_that_is_none_is_refused():
    for questions in (None, [1.0], [(composed(),)], [(composed(), "x")], [(composed(right=changed(0, NONE)), -3.0)]):
        with pytest.raises((TypeError, ValueError)):
            kernel.epsilons(questions)
