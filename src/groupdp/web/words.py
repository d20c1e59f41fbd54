"""Numbers and guarantees for people: texts rounded outward, and what an answer means in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import groupdp
from groupdp.bounds import Bounds, round_down, round_up
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


def upper_text(value: float, digits: int = DIGITS) -> str:
    """An upper bound for people: rounded up."""
    return round_up(value, digits) if math.isfinite(value) else "infinity"


def lower_text(value: float, digits: int = DIGITS) -> str:
    """A lower bound for people: rounded down."""
    return round_down(value, digits) if math.isfinite(value) else ("infinity" if value > 0 else "-infinity")


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
        odds = f"1 in {round(1.0 / rate):,}".replace(",", "\u202f").replace(" ", "\u00a0")  # one word for line breaks
        sentences.append(cases.detected(odds, _percent(bounds.upper) if bounds.upper > rate else odds))
    if risk.prior == 0.5:
        sentences.append(
            f"Somebody who would otherwise toss a coin guesses right with probability at most "
            f"{_percent(risk.success.upper)}."
        )
    else:
        sentences.append(
            f"Where it is {risk.prior:g} probable beforehand that {cases.first}, a guess is right with probability at "
            f"most {_percent(risk.success.upper)}."
        )
    return [*sentences, cases.order()]


def _percent(share: float) -> str:
    """A share as a percentage, rounded up; below 100 % it has as many nines as it needs."""
    if share >= 1.0:
        return "100 %"
    value = 100.0 * share
    if Fraction(value) != 100 * Fraction(share):
        value *= 1.0 + 2.0**-50
    for digits in (3, 4, 5, 6, 8, 12):
        text = round_up(value, digits)
        if float(text) < 100.0:
            return f"{text} %"
    return "100 %"


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
