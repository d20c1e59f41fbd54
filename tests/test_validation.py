"""Every argument against every kind of bad value: one sentence with the name, the value and what would be right."""

from __future__ import annotations

import decimal
import fractions
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import groupdp
from groupdp import DPSGD, FixedBatchSampling, InvalidArgument, LimitExceeded, MixtureOfGaussians, PoissonSampling
from groupdp.errors import (
    LARGEST_COUNT,
    LARGEST_DATASET,
    GroupDPError,
    require_choice,
    require_integer,
    require_number,
    shown,
)
from groupdp.groups import LARGEST_GROUP
from groupdp.mechanisms.mechanism import LARGEST_NOISE, SMALLEST_NOISE
from groupdp.question import question_of

NOT_NUMBERS: list[Any] = [
    None,
    "0.5",
    b"1",
    True,
    False,
    np.True_,
    [1],
    (1,),
    {},
    {1},
    1 + 0j,
    object(),
    int,
    decimal.Decimal("0.5"),
    np.array([1]),
    np.array(1.0),
    np.datetime64("2020-01-01"),
]
NOT_FINITE: list[Any] = [math.nan, math.inf, -math.inf, np.float64("nan"), np.float32("inf"), 10**400, -(10**400)]
NOT_INTEGERS: list[Any] = [1.0, 2.5, np.float64(3.0), fractions.Fraction(2), *NOT_NUMBERS, *NOT_FINITE[:5]]


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def refuse(name: str, call: Any, *arguments: Any, **keywords: Any) -> str:
    """The one sentence of an InvalidArgument about `name`."""
    with pytest.raises(InvalidArgument) as caught:
        call(*arguments, **keywords)
    sentence = str(caught.value)
    assert sentence.startswith(f"{name} must ")
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 250
    return sentence


MIXTURE = MixtureOfGaussians([0.0, 1.0], [0.75, 0.25], 3.0)


def compose_run(run, group_size):
    return question_of(run, group_size=group_size)


RUN = {"sampling": PoissonSampling(rate=0.01), "noise_multiplier": 1.0, "steps": 10}
NUMBERS = [  # name, call with a value, good values, values out of range
    ("delta", lambda v: groupdp.epsilon(DPSGD(**RUN), delta=v, group_size=1), [1e-6, 0.5], [0, -1e-9, 1, 1.5]),
    ("epsilon", lambda v: groupdp.delta(DPSGD(**RUN), epsilon=v, group_size=1), [0, 1.5], [-1, -1e-300]),
    (
        "tolerance",
        lambda v: groupdp.epsilon(DPSGD(**RUN), delta=1e-6, group_size=1, tolerance=v),
        [1e-3, 1],
        [0, -0.1, 1.5],
    ),
    ("rate", lambda v: PoissonSampling(rate=v), [1e-300, 0.5, 1, 1.0], [0, 0.0, -0.0, -0.1, 1.7, math.nextafter(1, 2)]),
    (
        "noise_multiplier",
        lambda v: DPSGD(**{**RUN, "noise_multiplier": v}),
        [0, 0.0, SMALLEST_NOISE, 1, LARGEST_NOISE],
        [-1, -1e-300, 1e-300, SMALLEST_NOISE / 2, math.nextafter(LARGEST_NOISE, math.inf)],
    ),
]
INTEGERS = [
    (
        "batch_size",
        lambda v: FixedBatchSampling(batch_size=v, dataset_size=LARGEST_DATASET),
        [1, LARGEST_DATASET],
        [0, -1, LARGEST_DATASET + 1, 10**400],
    ),
    (
        "dataset_size",
        lambda v: FixedBatchSampling(batch_size=1, dataset_size=v),
        [1, LARGEST_DATASET],
        [0, -1, LARGEST_DATASET + 1, 10**400],
    ),
    ("rounds", lambda v: groupdp.epsilon(MIXTURE, delta=1e-6, rounds=v), [0, 1, 50], [-1, LARGEST_COUNT + 1, 10**400]),
    ("steps", lambda v: DPSGD(**{**RUN, "steps": v}), [0, 1, LARGEST_COUNT], [-1, LARGEST_COUNT + 1, 10**400]),
    ("microbatch_size", lambda v: DPSGD(**{**RUN, "microbatch_size": v}), [1, 7], [0, -1, LARGEST_COUNT + 1, 10**400]),
    ("group_size", lambda v: compose_run(DPSGD(**RUN), v), [0, 1, 50], [-1, LARGEST_GROUP + 1, 10**400, -(10**400)]),
]


@pytest.mark.parametrize(("name", "call", "good", "outside"), NUMBERS, ids=[case[0] for case in NUMBERS])
def test_numbers(name, call, good, outside):
    for value in good:
        call(value)
    for value in outside:
        refuse(name, call, value)
    for value in (*NOT_NUMBERS, *NOT_FINITE, Unprintable()):
        if not (value is None and name == "tolerance"):  # None there means: no particular one
            refuse(name, call, value)


@pytest.mark.parametrize(("name", "call", "good", "outside"), INTEGERS, ids=[case[0] for case in INTEGERS])
def test_integers(name, call, good, outside):
    for value in good:
        call(value)
        call(np.int64(value))
    for value in outside:
        refuse(name, call, value)
    for value in (*NOT_INTEGERS, Unprintable()):
        refuse(name, call, value)


def test_the_sentence_has_the_value_and_what_would_be_right():
    assert refuse("rate", PoissonSampling, rate=1.7) == "rate must be in (0, 1], got 1.7."
    assert refuse("steps", DPSGD, **{**RUN, "steps": 2.5}) == "steps must be an integer of at least 0, got 2.5."
    assert (
        refuse("steps", DPSGD, **{**RUN, "steps": 10**30})
        == "steps must be an integer of at most 9007199254740992, got 1000000000000000000000000000000."
    )
    assert refuse("batch_size", FixedBatchSampling, batch_size=11, dataset_size=10) == (
        "batch_size must be at most dataset_size=10, got 11."
    )
    assert refuse("noise_multiplier", DPSGD, **{**RUN, "noise_multiplier": 1e-7}) == (
        "noise_multiplier must be 0 or at least 1e-06, got 1e-07."
    )


def test_steps_of_all_phases_together_are_limited():
    half = DPSGD(**{**RUN, "steps": LARGEST_COUNT // 2 + 1})
    assert refuse("steps", compose_run, [half, half], 1).endswith(f"got {LARGEST_COUNT + 2}.")


@pytest.mark.parametrize("question", [{"delta": 1e-6}, {"epsilon": 1.0}], ids=["epsilon", "delta"])
def test_a_group_is_for_runs_and_rounds_are_for_mixtures(question):
    ask = groupdp.epsilon if "delta" in question else groupdp.delta
    refuse("group_size", ask, MIXTURE, group_size=2, rounds=10, **question)
    refuse("group_size", ask, DPSGD(**RUN), **question)
    refuse("rounds", ask, MIXTURE, **question)
    refuse("rounds", ask, DPSGD(**RUN), group_size=1, rounds=3, **question)
    refuse("rounds", ask, [MIXTURE], group_size=1, rounds=3, **question)


@pytest.mark.parametrize("name", ["adjacency", "engine"])
@pytest.mark.parametrize("value", ["Remove", "", "fft", None, 1, ["add"]])
def test_named_choices_of_the_questions(name, value):
    refuse(name, groupdp.epsilon, DPSGD(**RUN), delta=1e-6, group_size=1, **{name: value})
    refuse(name, groupdp.log_delta, DPSGD(**RUN), epsilon=1.0, group_size=1, **{name: value})


@pytest.mark.parametrize("sampling", [None, 0.01, "poisson", PoissonSampling, {"rate": 0.1}])
def test_a_sampling_must_be_one_of_ours(sampling):
    assert "one of groupdp's samplings" in refuse("sampling", DPSGD, **{**RUN, "sampling": sampling})


@pytest.mark.parametrize("run", [None, 3, "run", [], (), {}, [None], PoissonSampling(rate=0.1)])
def test_a_run_must_be_phases(run):
    refuse("run", compose_run, run, 1)


@pytest.mark.parametrize("value", [np.float64(0.25), np.float32(0.25), np.float16(0.25), fractions.Fraction(1, 4)])
def test_real_numbers_of_other_types_become_floats(value):
    rate = PoissonSampling(rate=value).rate
    assert type(rate) is float
    assert rate == 0.25


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64])
def test_integers_of_other_types_become_ints(kind):
    run = DPSGD(**{**RUN, "steps": kind(12), "noise_multiplier": kind(3)})
    assert type(run.steps) is int
    assert type(run.noise_multiplier) is float
    assert (run.steps, run.noise_multiplier) == (12, 3.0)


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({}, "a finite number"),
        ({"at_least": 0.0}, "a finite number of at least 0"),
        ({"above": 0.0}, "a finite number above 0"),
        ({"at_most": 2.5}, "a finite number of at most 2.5"),
        ({"below": 2.5}, "a finite number below 2.5"),
        ({"at_least": 0.0, "below": 1.0}, "in [0, 1)"),
        ({"above": 0.0, "at_most": 1.0}, "in (0, 1]"),
        ({"above": 0.0, "below": 1.0}, "in (0, 1)"),
        ({"at_least": -1.0, "at_most": 1.0}, "in [-1, 1]"),
    ],
)
def test_ranges_are_spelled_out(limits, wanted):
    assert refuse("x", require_number, "x", math.nan, **limits) == f"x must be {wanted}, got nan."


@given(
    value=st.floats(),
    low=st.floats(-1e9, 0.0),
    high=st.floats(0.5, 1e9),
    open_below=st.booleans(),
    open_above=st.booleans(),
)
def test_a_number_is_taken_exactly_when_it_lies_inside(value, low, high, open_below, open_above):
    limits = {"above" if open_below else "at_least": low, "below" if open_above else "at_most": high}
    inside = (low < value if open_below else low <= value) and (value < high if open_above else value <= high)
    if inside:
        assert require_number("x", value, **limits) == value
    else:
        refuse("x", require_number, "x", value, **limits)


@given(value=st.integers(), low=st.integers(-100, 100), size=st.integers(0, 1000))
def test_an_integer_is_taken_exactly_when_it_lies_inside(value, low, size):
    if low <= value <= low + size:
        assert require_integer("x", value, at_least=low, at_most=low + size) == value
    else:
        refuse("x", require_integer, "x", value, at_least=low, at_most=low + size)


@pytest.mark.parametrize("value", ["Add", "", "add ", None, 0, ["add"], b"add", Unprintable()])
def test_choices(value):
    assert require_choice("adjacency", "add", ("add", "remove")) == "add"
    sentence = refuse("adjacency", require_choice, "adjacency", value, ("add", "remove"))
    assert "one of add, remove" in sentence


def test_shown_values_fit_on_a_line():
    values = ["x" * 10_000, list(range(100_000)), np.zeros((50, 50)), 10**4000, 10**5000, Unprintable(), "two\nlines"]
    for value in values:
        text = shown(value)
        assert len(text) < 100
        assert "\n" not in text


def test_enormous_integers_are_shown_by_their_size():
    """Python refuses to print integers of more than 4300 digits."""
    assert refuse("steps", DPSGD, **{**RUN, "steps": 10**5000}).endswith("got about 2^16609.")
    assert refuse("steps", DPSGD, **{**RUN, "steps": -(10**5000)}).endswith("got about -2^16609.")


def test_errors_can_be_caught_as_their_builtin_kin():
    assert issubclass(InvalidArgument, GroupDPError)
    assert issubclass(InvalidArgument, ValueError)
    assert issubclass(LimitExceeded, GroupDPError)
    assert issubclass(LimitExceeded, RuntimeError)
    assert not issubclass(LimitExceeded, InvalidArgument)


@pytest.mark.parametrize(
    "call",
    [
        lambda: groupdp.epsilon(DPSGD(**RUN), delta=1e-6),
        lambda: groupdp.delta(DPSGD(**RUN), epsilon=1.0),
        lambda: groupdp.log_delta(DPSGD(**RUN), epsilon=1.0),
        lambda: groupdp.trade_off(DPSGD(**RUN)),
        lambda: groupdp.risk(DPSGD(**RUN)),
        lambda: groupdp.calibrate_noise(DPSGD(**RUN), epsilon=1.0, delta=1e-6),
        lambda: groupdp.calibrate_steps(DPSGD(**RUN), epsilon=1.0, delta=1e-6),
        lambda: groupdp.PrivacyLossDistribution.from_run(DPSGD(**RUN), group_size=None),
    ],
)
def test_a_group_size_that_was_not_said_is_asked_for(call):
    sentence = refuse("group_size", call)
    assert sentence.startswith("group_size must be given, like group_size=9")
    assert "None" not in sentence


def test_a_group_of_sources_that_was_not_said_is_asked_for():
    sampling = groupdp.PoissonSources(rates={"web": 0.1, "mail": 0.2})
    run = DPSGD(sampling=sampling, noise_multiplier=1.0, steps=2)
    sentence = refuse("group_size", groupdp.epsilon, run, delta=1e-6)
    assert 'like group_size={"web": 1, "mail": 1}' in sentence


def test_a_wrong_type_is_not_called_a_wrong_range():
    assert "a number (not a text) in (0, 1], got '256/60000'" in refuse("rate", PoissonSampling, rate="256/60000")
    decimal_rate = decimal.Decimal("0.01")
    wanted = "a number (a float, an int or a Fraction) in (0, 1], got Decimal('0.01')"
    assert wanted in refuse("rate", PoissonSampling, rate=decimal_rate)
    assert "a number (not a text) of at least 0, got '1'" in refuse("x", require_number, "x", "1", at_least=0.0)
    assert PoissonSampling(rate=fractions.Fraction(1, 8)).rate == 0.125
    assert refuse("rate", PoissonSampling, rate=2) == "rate must be in (0, 1], got 2."
