"""The privacy statement: its numbers are upper bounds, rounded up, and it says what it assumes."""

from __future__ import annotations

import json
import re
from decimal import Decimal

import pytest

import groupdp
from groupdp._version import VERSION
from groupdp.run_file.read import parse_run_file
from groupdp.statement import text as statement

TWO_PHASES = """
title = "Two phases"
delta = 1e-6
group_size = 4
[[phase]]
sampling = "poisson"
sampling_rate = 0.01
noise_multiplier = 2.0
steps = 500
[[phase]]
sampling = "fixed-batch"
batch_size = 100
dataset_size = 10000
noise_multiplier = 5.0
epochs = 3
"""


@pytest.fixture(scope="module")
def made():
    return statement.make_statement(parse_run_file(TWO_PHASES))


def test_the_guarantee_is_the_run_s_upper_bound_rounded_up(made):
    exact = groupdp.epsilon(list(made.run.phases), delta=1e-6, group_size=4)
    assert made.epsilon.intersects(exact)
    (stated,) = re.findall(r"epsilon = ([0-9.]+) and delta = 1e-06", statement.guarantee(made))
    assert Decimal(made.epsilon.upper) <= Decimal(stated) < Decimal(made.epsilon.upper) * Decimal("1.0002")


@pytest.mark.parametrize("render", [statement.as_markdown, statement.as_text])
def test_it_says_what_a_reviewer_asks(made, render):
    text = " ".join(render(made).split())
    for wanted in (
        "Two phases",
        "any group of up to 4 examples",
        "add-or-remove adjacency",
        "at most 4 examples",
        "No person has more than 4 examples",
        "independently with the stated probability",
        "uniformly without replacement",
        "at least 10000 examples",
        "clipped to the clipping norm on its own",
        "Every iterate may be released",
        f"groupdp {VERSION}",
        "Vadhan's lemma",
        "Poisson, rate 0.01",
        "fixed, 100 of 10000",
        "300",
    ):
        assert wanted in text, wanted
    assert "microbatch" not in text.lower()


def test_every_epsilon_in_the_words_is_rounded_up(made):
    text = statement.method(made) + statement.old_analysis(made)
    for value in (made.add.upper, made.remove.upper, made.one_example.upper, made.vadhan.upper):
        digits = groupdp.bounds.round_up(value, statement.DIGITS)
        assert digits in text
        assert Decimal(digits) >= Decimal(value)


def test_text_fits_in_80_columns(made):
    assert max(len(line) for line in statement.as_text(made).splitlines()) <= 80


def test_json_is_complete(made):
    answer = json.loads(json.dumps(statement.as_json(made)))
    assert answer["epsilon"] == {"lower": made.epsilon.lower, "upper": made.epsilon.upper}
    assert answer["add"]["upper"] <= answer["epsilon"]["upper"]
    assert [phase["steps"] for phase in answer["phases"]] == [500, 300]
    assert answer["old_analysis"]["old_tool"] > answer["epsilon"]["upper"]
    assert len(answer["assumptions"]) >= 6


def test_microbatching_is_said_and_doubles_the_sensitivity():
    text = TWO_PHASES.replace("steps = 500", "steps = 500\nmicrobatch_size = 8")
    made = statement.make_statement(parse_run_file(text))
    words = statement.as_markdown(made)
    assert "microbatches of 8" in words
    assert "the sensitivity is doubled" in words
    assert "Some loss and some dataset attain it" not in words
    halved = parse_run_file(TWO_PHASES.replace("noise_multiplier = 2.0", "noise_multiplier = 1.0"))
    same = groupdp.epsilon(list(halved.phases), delta=1e-6, group_size=4)
    assert made.epsilon.intersects(same)


def test_one_direction_is_described_as_such():
    text = TWO_PHASES.replace("group_size = 4", 'group_size = 1\nadjacency = "remove"')
    made = statement.make_statement(parse_run_file(text))
    assert made.add is None
    words = statement.as_markdown(made)
    assert "the first is the second plus at most 1 example," in words
    assert "for one example under remove adjacency" in words


def test_no_privacy_is_said_plainly():
    text = TWO_PHASES.replace("noise_multiplier = 2.0", "noise_multiplier = 0")
    made = statement.make_statement(parse_run_file(text))
    words = statement.as_markdown(made)
    assert "No finite epsilon protects" in words
    assert "inf " not in words
    assert "differentially private for" not in words


def test_the_old_tool_s_infinity_is_explained():
    text = """
delta = 1e-6
group_size = 9
[[phase]]
sampling = "poisson"
sampling_rate = 0.01
noise_multiplier = 1
steps = 2000
"""
    made = statement.make_statement(parse_run_file(text))
    assert "epsilon = infinity, because an intermediate delta underflows" in statement.as_markdown(made)
    assert "epsilon = 40.802 and" in statement.guarantee(made)  # 40.80104..., rounded up
