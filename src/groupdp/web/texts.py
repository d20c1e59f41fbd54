"""What an answer says to people, rounded outward; and the same question as a command line, Python and a run file."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Any

import groupdp
from groupdp import printing
from groupdp.bounds import Bounds
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.mechanisms.named_values import phase_fields
from groupdp.neighbours import ADJACENCIES
from groupdp.printing import given, given_percent, upper_percent
from groupdp.question import neighbours_of
from groupdp.run_file.run import RunFile, stated
from groupdp.web import delta_in, neighbours_in


def as_command(question: RunFile) -> str:
    """The command that prints the same bounds; several phases of several sources go through a run file."""
    phases = [stated(question, index) for index in range(len(question.phases))]
    if len(phases) == 1:
        words = _words(phases[0])
    elif any(isinstance(value, Mapping) for phase in phases for value in phase.values()):
        return "groupdp epsilon run.toml"
    else:
        words = [f"--phase {','.join(f'{name}={_plain(value)}' for name, value in phase.items())}" for phase in phases]
    return " ".join(["groupdp epsilon", *words, *_words(_asked(question))])


def _asked(question: RunFile) -> dict[str, Any]:
    """The arguments besides the run; the usual adjacency is left out."""
    neighbours = {name: value for name, value in neighbours_in(question).items() if value != ADJACENCIES[0]}
    return {"delta": delta_in(question), **neighbours}


def _words(options: Mapping[str, Any]) -> list[str]:
    words, known = [], phase_fields()
    for name, value in options.items():
        option = known[name].option if name in known else f"--{name.replace('_', '-')}"
        if isinstance(value, Mapping) and name in known:
            words += [f"{option} {shlex.quote(f'{source}={rate!r}')}" for source, rate in value.items()]
        elif isinstance(value, Mapping):
            words.append(f"{option} {shlex.quote(','.join(f'{source}={count}' for source, count in value.items()))}")
        else:
            words.append(option if value is True else f"{option} {_plain(value)}")
    return words


def as_python(question: RunFile) -> str:
    """A program that prints the same bounds."""
    lines = ["import groupdp", ""]
    if len(question.phases) == 1:
        lines += [f"run = {_phase(question.phases[0])}"]
    else:
        lines += ["run = [", *(f"    {_phase(phase)}," for phase in question.phases), "]"]
    spelled = ", ".join(f"{name}={value!r}" for name, value in _asked(question).items())
    lines += [f"epsilon = groupdp.epsilon(run, {spelled})", "print(epsilon)"]
    return "\n".join(lines) + "\n"


def _phase(phase: Mechanism) -> str:
    """The call that makes a phase."""
    meant = {field.name: field.default for field in phase.fields}
    arguments = [
        f"{field.attribute}={getattr(phase, field.attribute)!r}"
        for field in phase.fields
        if getattr(phase, field.attribute) != meant[field.name]
    ]
    if isinstance(phase, DPSGD):
        values = phase.sampling.values()
        inner = ", ".join(f"{field.attribute}={values[field.name]!r}" for field in phase.sampling.fields)
        arguments.insert(0, f"sampling={_class(phase.sampling)}({inner})")
    return f"{_class(phase)}({', '.join(arguments)})"


def _class(described: Any) -> str:
    """The name of its class, where programs find it."""
    kind = type(described)
    return f"groupdp.{kind.__name__}" if kind.__module__.startswith("groupdp.") else kind.__qualname__


def _plain(value: Any) -> str:
    """A number as the shortest decimal that is this double."""
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return str(value)


Answer = dict[str, Any]

#: Significant digits of the texts.
DIGITS = 6


def sides(bounds: Bounds) -> Answer:
    """Bounds with both sides, in full and for people."""
    return {
        **printing.sides(bounds),
        "lower_text": printing.lower_text(bounds.lower, DIGITS),
        "upper_text": upper_text(bounds.upper),
        "tight": bounds.tight,
    }


def upper_text(value: float) -> str:
    """An upper bound for people: rounded up."""
    return printing.upper_text(value, DIGITS)


def linear(size: int, single: Bounds) -> tuple[float, str]:
    """k times one example's upper bound, rounded up: a reference, not a guarantee."""
    product = size * single.upper if size else 0.0  # an empty group has epsilon 0
    value = math.nextafter(product, math.inf) if size > 1 and math.isfinite(product) else product
    return value, upper_text(value)


def sentence(question: RunFile, bounds: Bounds) -> str:
    """The guarantee, in one sentence."""
    neighbours = neighbours_of(question.run, **neighbours_in(question))
    delta = repr(delta_in(question)).replace("e-0", "e-")  # 1e-6, not 1e-06
    if bounds.upper == math.inf:
        return f"No finite ε protects {neighbours.whom} at δ = {delta} under {neighbours.label}."
    return (
        f"The run is (ε, δ)-differentially private for {neighbours.whom} under {neighbours.label}, "
        f"with ε = {upper_text(bounds.upper)} and δ = {delta}."
    )


def attack_in_words(risk: Any, question: RunFile) -> list[str]:
    """What the best attacker could do; every probability is an upper bound, rounded up."""
    cases = neighbours_of(question.run, **neighbours_in(question)).cases
    sentences = [
        "The attacker sees every iterate of the run, knows everybody else's examples, and guesses whether "
        f"{cases.first} or {cases.second}."
    ]
    for rate, bounds in risk.true_positive_rate.items():
        odds = _odds(rate)
        sentences.append(cases.detected(odds, upper_percent(bounds.upper) if bounds.upper > rate else odds))
    if risk.prior == 0.5:
        sentences.append(
            f"An attacker who starts from even odds guesses right with probability at most "
            f"{upper_percent(risk.success.upper)}."
        )
    else:
        sentences.append(
            f"If the probability that {cases.first} is {given(risk.prior)} beforehand, a guess is right with "
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


def echo(question: RunFile, *without: str) -> Answer:
    """The question, beside its answer."""
    echo: Answer = {"adjacency": question.adjacency, "version": groupdp.__version__}
    if "group_size" not in without:
        echo.update(neighbours_in(question))
    if "delta" not in without:
        echo["delta"] = delta_in(question)
    return echo
