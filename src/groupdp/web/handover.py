"""The same question elsewhere: as a command line, as Python, as a run file. Each gives the same answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupdp.run_file.describe import run_as_json
from groupdp.web.description import Question
from groupdp.web.fields import SAMPLINGS, SamplingChoice


def as_command(question: Question, described: Any) -> str:
    """The command that prints the same bounds; several phases go through a run file."""
    if len(question.phases) > 1:
        return "groupdp statement run.toml --json"
    fields = run_as_json(question.phases[0])
    fields.pop("sampling")
    if fields.get("microbatch_size") == 1:
        fields.pop("microbatch_size")
    options = {**fields, "delta": described.delta, "group_size": described.group_size}
    if described.adjacency != "add-or-remove":
        options["adjacency"] = described.adjacency
    words = [f"--{name.replace('_', '-')} {_plain(value)}" for name, value in options.items()]
    return " ".join(["groupdp epsilon", *words])


def as_python(question: Question) -> str:
    """A program that prints the same bounds."""
    lines = ["import groupdp", ""]
    if len(question.phases) == 1:
        lines += [f"run = {_phase(question.phases[0])}"]
    else:
        lines += ["run = [", *(f"    {_phase(phase)}," for phase in question.phases), "]"]
    group = question.group["group_size"]
    arguments = [f"delta={question.delta!r}", f"group_size={group!r}"]
    if question.adjacency != "add-or-remove":
        arguments.append(f'adjacency="{question.adjacency}"')
    lines += [f"epsilon = groupdp.epsilon(run, {', '.join(arguments)})", "print(epsilon)"]
    return "\n".join(lines) + "\n"


def as_toml(described: Any) -> str:
    """The run file that asks the same."""
    lines = [
        f"title = {_text(described.title)}",
        f"delta = {_plain(described.delta)}",
        f"group_size = {_toml(described.group_size)}",
        f'adjacency = "{described.adjacency}"',
    ]
    for phase in described.phases:
        lines += ["", "[[phase]]"]
        lines += [f"{name} = {_toml(value)}" for name, value in run_as_json(phase).items()]
    return "\n".join(lines) + "\n"


def _phase(phase: Any) -> str:
    choice = _choice_of(phase.sampling)
    inner = ", ".join(f"{argument}={getattr(phase.sampling, argument)!r}" for argument in choice.arguments.values())
    micro = f", microbatch_size={phase.microbatch_size}" if phase.microbatch_size != 1 else ""
    return (
        f"groupdp.DPSGD(sampling=groupdp.{choice.class_name}({inner}), "
        f"noise_multiplier={phase.noise_multiplier!r}, steps={phase.steps}{micro})"
    )


def _choice_of(sampling: Any) -> SamplingChoice:
    for choice in SAMPLINGS.values():
        if choice.class_name == type(sampling).__name__:
            return choice
    raise AssertionError(f"{type(sampling).__name__} is not in the table of samplings")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_text(str(key))} = {_plain(item)}" for key, item in value.items()) + " }"
    return _plain(value)


def _text(value: str) -> str:
    """A printable line as a TOML string."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _plain(value: Any) -> str:
    """A number as the shortest decimal that is this double."""
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return str(value)
