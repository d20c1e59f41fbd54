"""Numbers and guarantees for people: texts rounded outward, and what an answer means in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import groupdp
from groupdp import printing
from groupdp.bounds import Bounds
from groupdp.printing import given, given_percent, upper_percent
from groupdp.web.description import Question
from groupdp.web.handover import run_file_of

Answer = dict[str, Any]

#: Significant digits of the texts.
DIGITS = 6


def sides(bounds: Bounds) -> Answer:
    """Bounds with both sides, in full and for people."""
    return {
        "lower": bounds.lower,
        "upper": bounds.upper,
        "lower_text": lower_text(bounds.lower),
        "upper_text": upper_text(bounds.upper),
        "tight": bounds.tight,
    }


def upper_text(value: float) -> str:
    """An upper bound for people: rounded up."""
    return printing.upper_text(value, DIGITS)


def lower_text(value: float) -> str:
    """A lower bound for people: rounded down."""
    return printing.lower_text(value, DIGITS)


def linear(size: int, one: Bounds) -> tuple[float, str]:
    """k times one example's upper bound, rounded up: a reference, not a guarantee."""
    product = size * one.upper if size else 0.0  # of nobody, whatever one example's is
    value = math.nextafter(product, math.inf) if size > 1 and math.isfinite(product) else product
    return value, upper_text(value)


def sentence(question: Question, bounds: Bounds) -> str:
    """The guarantee, in one sentence."""
    whom = _whom(question)
    if bounds.upper == math.inf:
        return f"No finite ε protects {whom} at δ = {_number(question.delta)} under {_adjacency_text(question)}."
    return (
        f"The run is (ε, δ)-differentially private for {whom} under {_adjacency_text(question)}, "
        f"with ε = {upper_text(bounds.upper)} and δ = {_number(question.delta)}."
    )


def _number(value: float) -> str:
    """A parameter as people write it: 1e-6, not 1e-06."""
    return repr(value).replace("e-0", "e-")


def _whom(question: Question) -> str:
    group = question.group
    if "group_size" not in group:
        return f"{_count(group.get('removed', 0))} removed and {_count(group.get('added', 0))} added"
    size = group["group_size"]
    return "one example" if size == 1 else f"any group of up to {_count(size)} examples"


def _count(size: Any) -> str:
    if isinstance(size, Mapping):
        return " and ".join(f"{count} {name}" for name, count in size.items())
    return str(size)


def _adjacency_text(question: Question) -> str:
    return f"{question.adjacency} adjacency" if "group_size" in question.group else "exchange"


def assumptions_of(question: Question) -> list[str]:
    """What must be true of the training for the guarantee to hold."""
    from groupdp.statement.text import assumptions

    return assumptions(run_file_of(question))


def attack_in_words(risk: Any, question: Question) -> list[str]:
    """What the best attacker could do; every probability is an upper bound, rounded up."""
    from groupdp.question import neighbours_of

    cases = neighbours_of(question.run, **question.neighbour).cases
    sentences = [
        "The attacker sees every iterate of the run, knows everybody else's examples, and guesses whether "
        f"{cases.first} or {cases.second}."
    ]
    for rate, bounds in risk.true_positive_rate.items():
        odds = _odds(rate)
        sentences.append(cases.detected(odds, upper_percent(bounds.upper) if bounds.upper > rate else odds))
    if risk.prior == 0.5:
        sentences.append(
            f"Somebody who would otherwise toss a coin guesses right with probability at most "
            f"{upper_percent(risk.success.upper)}."
        )
    else:
        sentences.append(
            f"Where it is {given(risk.prior)} probable beforehand that {cases.first}, a guess is right with "
            f"probability at most {upper_percent(risk.success.upper)}."
        )
    return [*sentences, cases.order()]


def _odds(rate: float) -> str:
    """A rate that was given: "1 in 1 000" if it is that exactly, else a percentage; one word for line breaks."""
    inverse = round(1.0 / rate) if rate > 0.0 else 0
    exact = 0 < inverse <= 10**15 and 1.0 / inverse == rate
    text = f"1 in {inverse:,}".replace(",", "\u202f") if exact else given_percent(rate)
    return text.replace(" ", "\u00a0")


def pair(lower: Any, upper: Any) -> Answer:
    return {"lower": float(lower), "upper": float(upper)}


def echo(question: Question, *without: str) -> Answer:
    """The question, beside its answer."""
    echo: Answer = {"adjacency": question.adjacency, "version": groupdp.__version__}
    if "group_size" not in without:
        echo.update(question.group)
    if "delta" not in without:
        echo["delta"] = question.delta
    return echo
