"""The same question elsewhere: as a command line, as Python, as a run file. Each gives the same answer."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from groupdp.errors import InvalidArgument
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.mechanisms.named_values import phase_fields
from groupdp.neighbours import ADJACENCIES
from groupdp.question import question_of
from groupdp.web.description import Question


def as_command(question: Question) -> str:
    """The command that prints the same bounds; several phases of several sources go through a run file."""
    phases = [phase.stated() for phase in question.phases]
    if len(phases) == 1:
        words = _words(phases[0])
    elif any(isinstance(value, Mapping) for phase in phases for value in phase.values()):
        return "groupdp epsilon run.toml"
    else:
        words = [f"--phase {','.join(f'{name}={_plain(value)}' for name, value in phase.items())}" for phase in phases]
    asked = {"delta": question.delta, **question.group}
    if question.adjacency != ADJACENCIES[0]:
        asked["adjacency"] = question.adjacency
    return " ".join(["groupdp epsilon", *words, *_words(asked)])


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


def as_python(question: Question) -> str:
    """A program that prints the same bounds."""
    lines = ["import groupdp", ""]
    if len(question.phases) == 1:
        lines += [f"run = {_phase(question.phases[0])}"]
    else:
        lines += ["run = [", *(f"    {_phase(phase)}," for phase in question.phases), "]"]
    arguments = {"delta": question.delta, **question.group}
    if question.adjacency != ADJACENCIES[0]:
        arguments["adjacency"] = question.adjacency
    spelled = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
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


def run_file_of(question: Question) -> Any:
    """The question as the run file that would ask it."""
    from groupdp.run_file import RunFile

    title = question.document.get("title", "DP-SGD run")
    question_of(question.phases, **question.neighbour)  # refuses a group that the run has no answer for
    if not isinstance(title, str) or not title.strip() or len(title) > 200 or not title.isprintable():
        raise InvalidArgument("title", title, "be one line of at most 200 characters")
    return RunFile(title=title.strip(), phases=question.phases, delta=question.delta, **question.neighbour)


def statement_formats() -> dict[str, Callable[[Any], str]]:
    """The formats of a statement in this version of the library."""
    from groupdp.statement import text as statements

    names = {"markdown": "as_markdown", "text": "as_text", "latex": "as_latex"}
    return {name: getattr(statements, function) for name, function in names.items() if hasattr(statements, function)}
