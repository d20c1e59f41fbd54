"""Which two worlds a sentence is about: the first is the one that is bounded, the second the one it is held against."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

import groupdp
from groupdp import statement as formats
from groupdp.neighbours import ADJACENCIES, Neighbours
from groupdp.run_file import parse_run_file
from groupdp.statement import make_statement
from groupdp.statement.text import _factor, explain

TOOK, NOT = "if a person took part as if they did not", "if a person did not take part as if they did"


def releases(sigma: float, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """P(u > t) with one example of gradient +1 sampled at `rate`, and without it, one round, for many t."""
    t = np.linspace(-8.0, 8.0, 801)
    without = norm.sf(t, scale=sigma)
    return (1.0 - rate) * without + rate * norm.sf(t, loc=1.0, scale=sigma), without


@pytest.mark.parametrize("adjacency", ["add", "remove"])
def test_a_factor_is_about_the_world_that_it_bounds(adjacency):
    """Of one round, by hand: every half-line obeys the sentence said, and some half-line breaks its reverse."""
    sigma, rate, delta = 0.5, 0.2, 0.01
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=sigma, steps=1)
    found = explain(run, delta=delta, group_size=1, adjacency=adjacency)
    present, absent = releases(sigma, rate)
    both = [(present, absent), (1.0 - present, 1.0 - absent)]
    first = {"remove": 0, "add": 1}[adjacency]
    factor = math.exp(found.epsilon.upper)
    excess = {
        TOOK: max(float(np.max(yes - factor * no)) for yes, no in both),
        NOT: max(float(np.max(no - factor * yes)) for yes, no in both),
    }
    said = (TOOK, NOT)[first]
    assert said in found.sentences()[0]
    assert excess[said] <= delta
    if adjacency == "add":  # the bounds on an absence are no bounds on a presence
        assert excess[TOOK] > delta


def test_detection_is_of_what_is_claimed():
    """`add` detects absences: its rate is below the one at which presences are detected."""
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
    said = {one: explain(run, delta=1e-6, group_size=2, adjacency=one).sentences() for one in ("add", "remove")}
    assert said["remove"][1] == (
        "An attacker who claims that a person took part, and is wrong in at most 1 % of the cases in which they did "
        "not, detects at most 12.6 % of the true cases."
    )
    assert said["add"][1] == (
        "An attacker who claims that a person did not take part, and is wrong in at most 1 % of the cases in which "
        "they did, detects at most 11.1 % of the true cases."
    )
    assert "sure beforehand that a person did not take part, and" in said["add"][2]
    assert "add-or-remove adjacency bounds both orders" in said["add"][-1]


@pytest.mark.parametrize(
    ("neighbours", "first", "second"),
    [
        ({"group_size": 2}, "a person took part", "they did not"),
        ({"group_size": 2, "adjacency": "remove"}, "a person took part", "they did not"),
        ({"group_size": 2, "adjacency": "add"}, "a person did not take part", "they did"),
        (
            {"group_size": 2, "adjacency": "substitute"},
            "a person's examples were used",
            "as many others were used in their place",
        ),
        (
            {"group_size": 2, "adjacency": "zero-out"},
            "a person's examples were used",
            "their gradients were replaced by zero",
        ),
        (
            {"group_size": 2, "adjacency": "add-and-remove"},
            "the dataset was the first of two that differ by at most 2 examples added or removed",
            "it was the second",
        ),
        (
            {"removed": 2, "added": 1},
            "2 examples of a person were used",
            "1 example of others was used in their place",
        ),
        (
            {"removed": {"web": 2, "books": 0}, "added": {"web": 0, "books": 3}},
            "2 examples from web of a person were used",
            "3 examples from books of others were used in their place",
        ),
        ({"removed": 0, "added": 2}, "a person took part", "they did not"),
    ],
)
def test_the_worlds_of_every_adjacency(neighbours, first, second):
    by_source = isinstance(neighbours.get("removed"), dict)
    found = Neighbours.of(**neighbours, sources=("web", "books") if by_source else None).cases
    assert (found.first, found.second) == (first, second)
    assert found.either_order == (neighbours.get("adjacency") not in ("add", "remove"))


def run_text(adjacency: str, *, rate: float, noise: float, steps: int) -> str:
    """A run file of two examples of a person."""
    return f"""
delta = 1e-6
group_size = 2
adjacency = "{adjacency}"
[[phase]]
sampling = "poisson"
sampling_rate = {rate}
noise_multiplier = {noise}
steps = {steps}
"""


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_statements_say_the_same_of_the_two_worlds(adjacency):
    made = make_statement(parse_run_file(run_text(adjacency, rate=0.01, noise=1.0, steps=200)))
    cases = Neighbours(2, adjacency).cases
    for render in (formats.as_markdown, formats.as_text, formats.as_latex):
        said = " ".join(render(made).split())
        assert f"times as likely if {cases.first} as if {cases.second}, plus at most" in said
        assert f"claims that {cases.first}, and is wrong in" in said
        if adjacency not in ("remove", "add-or-remove"):
            assert "a person took part" not in said


@pytest.mark.parametrize(
    ("adjacency", "certain"),
    [
        ("add-or-remove", "certain that a person took part."),
        ("add", "certain that a person did not take part."),
        ("substitute", "certain which of two neighbouring datasets was used."),
        ("zero-out", "certain that a person's examples were used."),
    ],
)
def test_what_is_certain_without_noise_is_the_first_world(adjacency, certain):
    text = run_text(adjacency, rate=1.0, noise=0.0, steps=2)
    assert f"becomes {certain}" in formats.as_markdown(make_statement(parse_run_file(text)))


def test_nothing_learned_is_said_to_be_nothing():
    """A factor of exactly 1, and an attack that finds as many as it accuses, are not rounded up."""
    assert _factor(0.0) == "1"
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=0)
    said = explain(run, delta=1e-6, prior=0.1, group_size=1).sentences()
    assert "at most 1 times as likely" in said[0]
    assert "and is wrong in at most 1 % of the cases in which they did not, detects at most 1 % of" in said[1]
    assert "is 10 % sure beforehand" in said[2]
    assert "is at most 10 % sure after an alarm" in said[2]
    assert "is right in 90 % of the cases; with it, in at most 90 %" in said[3]
    assert _factor(60.5) == "10^27"  # e^60.5 is 1.9e26
    assert not any(word in sentence for sentence in said for word in ("epsilon", "delta"))
