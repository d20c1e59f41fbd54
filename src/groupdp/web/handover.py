"""The same question elsewhere: as a command line, as Python, as a run file. Each gives the same answer."""

from __future__ import annotations

from typing import Any

from groupdp.adjacency import ADJACENCIES
from groupdp.dpsgd import DPSGD
from groupdp.run_file.describe import run_as_json
from groupdp.run_file.read import RunFile
from groupdp.web.description import Question


def as_command(question: Question, described: RunFile) -> str:
    """The command that prints the same bounds; what it has no options for goes through a run file."""
    if not can_be_a_command(question):
        return "groupdp statement run.toml --json"
    fields = run_as_json(question.phases[0])
    fields.pop("sampling")
    if fields.get("microbatch_size") == 1:
        fields.pop("microbatch_size")
    options = {**fields, "delta": described.delta, "group_size": described.group_size}
    if described.adjacency != ADJACENCIES[0]:
        options["adjacency"] = described.adjacency
    words = [f"--{name.replace('_', '-')} {_plain(value)}" for name, value in options.items()]
    return " ".join(["groupdp epsilon", *words])


def can_be_a_command(question: Question) -> bool:
    """Whether the options of `groupdp epsilon` can say it."""
    return (
        len(question.phases) == 1
        and question.phases[0].sampling.name in ("poisson", "fixed-batch")
        and question.adjacency in ("add-or-remove", "add", "remove")
        and question.has_one_size
    )


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


def _phase(phase: DPSGD) -> str:
    sampling = phase.sampling
    values = sampling.values()
    inner = ", ".join(f"{attribute}={values[name]!r}" for name, attribute in sampling.fields.items())
    micro = f", microbatch_size={phase.microbatch_size}" if phase.microbatch_size != 1 else ""
    return (
        f"groupdp.DPSGD(sampling=groupdp.{type(sampling).__name__}({inner}), "
        f"noise_multiplier={phase.noise_multiplier!r}, steps={phase.steps}{micro})"
    )


def _plain(value: Any) -> str:
    """A number as the shortest decimal that is this double."""
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return str(value)
