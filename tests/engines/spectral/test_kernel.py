"""The compiled spectral engine's answers, and what it refuses.

Truths come from the golden tables and the independent oracle's, never from the kernel.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

import groupdp
from accounting.test_oracle_cases import TABLES
from accounting.test_oracle_cases import run_of as oracle_run
from engines.spectral.test_spectral_golden import CASES, named
from engines.spectral.test_spectral_golden import run_of as golden_run
from groupdp.engines.spectral import _kernel as kernel  # a suite without the compiled engine is not the suite
from groupdp.engines.spectral import compiled, engine
from mixtures import Composition, compose_run
from strategies import directions, fixed_batch_runs, mixtures, poisson_runs, runs


def asked(question: str, phases: list, adding: bool, argument: float):
    """The kernel's answer; a ceiling is asked for the closer way."""
    extra = (0.0,) if question == "epsilon_ceiling" else ()
    return getattr(kernel, question)(phases, adding, argument, *extra)


def ceilings(composition: Composition, direction: str, target: float) -> list[float]:
    """By Chernoff alone, and by a coarse contour; without those that are declined."""
    both = (compiled.epsilon_ceiling(composition, direction, target, enough) for enough in (math.inf, 0.0))
    return [ceiling for ceiling in both if ceiling is not None]


def by_kernel(question: str, composition: Composition, direction: str, argument: float) -> groupdp.Bounds | None:
    found = asked(question, compiled.packed(composition), direction == "add", argument)
    return None if found is None else groupdp.Bounds(found[0], found[1])


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize("case", CASES, ids=named)
def test_golden_epsilon_is_enclosed(case, direction):
    composition, target = compose_run(golden_run(case), case["group_size"]), math.log(float(case["delta"]))
    truth = Decimal(case[f"epsilon_{direction}"])
    bounds = by_kernel("epsilon", composition, direction, target)
    assert bounds is not None  # nothing in this table is unusual
    assert Decimal(bounds.lower) <= truth <= Decimal(bounds.upper)
    chernoff, closer = ceilings(composition, direction, target)
    assert truth <= Decimal(closer) <= Decimal(chernoff) <= truth * 2
    assert Decimal(closer) <= truth * Decimal("1.01")


@pytest.mark.parametrize("direction", ["add", "remove"])
def test_the_oracle_s_epsilons_are_enclosed(direction):
    declined = 0
    cases = [(compose_run(oracle_run(case), case["group_size"]), case) for case in TABLES["cases"]]
    for case in TABLES["mixtures"]:
        law = groupdp.MixtureOfGaussians(case["sensitivities"], case["probabilities"], case["standard_deviation"])
        cases.append((((law, case["rounds"]),), case))
    for composition, case in cases:
        target, truth = math.log(float(case["delta"])), Decimal(case[f"epsilon_{direction}"])
        bounds = by_kernel("epsilon", composition, direction, target)
        declined += bounds is None
        assert bounds is None or Decimal(bounds.lower) <= truth <= Decimal(bounds.upper)
        assert all(truth <= Decimal(ceiling) for ceiling in ceilings(composition, direction, target))
    assert declined <= 12


@pytest.mark.parametrize("direction", ["add", "remove"])
def test_the_oracle_s_log_deltas_are_enclosed(direction):
    answered = 0
    for case in TABLES["log_deltas"]:
        composition = compose_run(oracle_run(case), case["group_size"])
        bounds = by_kernel("log_delta", composition, direction, float(case["epsilon"]))
        if bounds is not None:
            answered += 1
            assert bounds.lower <= Decimal(case[f"log_delta_{direction}"]) <= bounds.upper
    assert answered >= 5


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize("case", CASES[::3], ids=named)
def test_without_the_kernel_golden_epsilons_are_enclosed_too(case, direction, monkeypatch):
    monkeypatch.setattr(compiled, "AVAILABLE", False)
    engine._scanned.cache_clear()
    composition, target = compose_run(golden_run(case), case["group_size"]), math.log(float(case["delta"]))
    bounds = engine.epsilon(composition, direction=direction, log_delta=target)
    truth = Decimal(case[f"epsilon_{direction}"])
    assert Decimal(bounds.lower) <= truth <= Decimal(bounds.upper)
    ceiling = engine.epsilon_ceiling(composition, direction=direction, log_delta=target, enough=0.0)
    assert truth <= Decimal(ceiling)


def test_the_kernel_is_what_answers(monkeypatch):
    composition = compose_run(golden_run(CASES[0]), CASES[0]["group_size"])
    monkeypatch.setattr(engine, "epsilon_by_numpy", None)
    monkeypatch.setattr(engine, "log_delta_by_numpy", None)
    assert compiled.AVAILABLE
    assert engine.epsilon(composition, direction="remove", log_delta=-12.0).upper > 0.0
    assert engine.log_delta(composition, direction="remove", epsilon=1.0).upper < 0.0


compositions = st.one_of(
    st.tuples(poisson_runs(least_steps=20), st.integers(1, 12)).map(lambda drawn: compose_run(*drawn)),
    st.tuples(fixed_batch_runs(least_steps=20), st.integers(1, 12)).map(lambda drawn: compose_run(*drawn)),
    st.tuples(runs(least_steps=20), st.integers(1, 12)).map(lambda drawn: compose_run(*drawn)),
    st.tuples(mixtures(), st.integers(20, 10**6)).map(lambda drawn: () if drawn[0].is_trivial else (drawn,)),
)


@settings(max_examples=300)
@given(compositions, directions, st.floats(-150.0, -0.5))
def test_epsilons_agree_with_the_numpy_engine_and_stay_below_the_ceiling(composition, direction, target):
    assume(composition)
    bounds = by_kernel("epsilon", composition, direction, target)
    above = ceilings(composition, direction, target)
    assume(bounds is not None or above)
    try:
        other = engine.epsilon_by_numpy(composition, direction, target)
    except groupdp.LimitExceeded:
        assume(False)
    event("declined" if bounds is None else "answered")
    assert bounds is None or bounds.intersects(other)
    assert all(other.lower <= ceiling for ceiling in above)


@settings(max_examples=200)
@given(compositions, directions, st.floats(0.05, 1.2))
def test_log_deltas_agree_with_the_numpy_engine(composition, direction, share):
    assume(composition)
    ceiling = compiled.epsilon_ceiling(composition, direction, -20.0, math.inf)
    assume(ceiling is not None)
    bounds = by_kernel("log_delta", composition, direction, share * ceiling)
    assume(bounds is not None)
    try:
        other = engine.log_delta_by_numpy(composition, direction, share * ceiling)
    except groupdp.LimitExceeded:
        assume(False)
    assert bounds.intersects(other)


# What is not a mixture.

ONE = (np.array([0.0, 1.0]), np.array([0.75, 0.25]), np.log([0.75, 0.25]), 1.0, 100.0)


def changed(position, value):
    return (*ONE[:position], value, *ONE[position + 1 :])


@pytest.mark.parametrize("question", ["epsilon", "log_delta", "epsilon_ceiling"])
@pytest.mark.parametrize(
    "phase",
    [
        changed(0, np.array([0, 1])),
        changed(0, np.array([0.0, 1.0], dtype=">f8")),
        changed(0, np.array([0.0, 1.0, 2.0])),
        changed(0, np.array([])),
        changed(0, np.array([1.0, 0.0])),
        changed(0, np.array([-1.0, 1.0])),
        changed(0, np.array([0.0, math.nan])),
        changed(1, np.array([math.nan, 0.25])),
        changed(1, np.array([0.75, 1.25])),
        changed(2, np.array([-0.3, -math.inf])),
        changed(2, np.array([-0.3, math.nan])),  # was dropped without a trace: no comparison with it is true
        changed(2, np.array([-0.3])),
        changed(4, 0.0),
        changed(4, math.nan),
    ],
)
def test_a_buffer_that_is_no_mixture_is_refused(phase, question):
    with pytest.raises(ValueError, match=r"a mixture must"):
        asked(question, [phase], False, -10.0)


@pytest.mark.parametrize(
    "composition", [None, 1.0, [None], [list(ONE)], [ONE[:4]], [changed(0, [0.0, 1.0])], [changed(3, "one")]]
)
def test_what_is_no_composition_is_refused(composition):
    with pytest.raises((TypeError, ValueError)):
        kernel.epsilon(composition, False, -10.0)


@pytest.mark.parametrize("strided", [np.arange(4.0)[::2], np.zeros((2, 2)).T])
def test_a_buffer_with_gaps_is_refused(strided):
    with pytest.raises((BufferError, ValueError)):
        kernel.epsilon([changed(0, strided)], False, -10.0)


@pytest.mark.parametrize("question", ["epsilon", "log_delta", "epsilon_ceiling"])
@pytest.mark.parametrize("deviation", [0.0, -1.0, math.nan, math.inf, 1e-300, 5e-324])
def test_noise_that_gives_no_shift_is_declined(question, deviation):
    assert asked(question, [changed(3, deviation)], False, -10.0) is None


@pytest.mark.parametrize("question", ["epsilon", "log_delta", "epsilon_ceiling"])
@pytest.mark.parametrize("argument", [math.nan, math.inf, -math.inf])
def test_an_argument_that_is_no_number_is_declined(question, argument):
    assert asked(question, [ONE], False, argument) is None


@pytest.mark.parametrize("composition", [[], [changed(4, 1e300)], [changed(4, math.inf)]])
def test_nothing_and_too_many_rounds_are_declined(composition):
    assert kernel.epsilon(composition, False, -10.0) is None


def test_a_shift_that_underflows_is_not_taken_for_an_absent_group():
    phase = (np.array([1e-310, 1.0]), np.array([0.5, 0.5]), np.log([0.5, 0.5]), 1e14, 1e15)
    assert kernel.epsilon([phase], True, -10.0) is None


@pytest.mark.parametrize("nodes", [0, -1, -(2**31)])
def test_a_table_of_no_nodes_is_refused(nodes):
    with pytest.raises(ValueError, match="at least one node"):
        kernel.table(ONE, 0.25, 0.0, nodes)
