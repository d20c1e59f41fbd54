"""The options that commands share, described once.

All arrive as text, to be read by `values`: every bad value then gets the library's own sentence.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from groupdp.fields import Field
from groupdp.mechanisms import DPSGD, MECHANISMS
from groupdp.mechanisms.dpsgd import EPOCHS
from groupdp.mechanisms.named_values import phase_fields
from groupdp.neighbours import ADJACENCIES
from groupdp.samplings import SAMPLINGS

_RUN = "The run"
_QUESTION = "The question"
_OUTPUT = "Output"
_COMPUTATION = "The computation"


def option(name: str, metavar: str, text: str, panel: str) -> Any:
    """A typer option that arrives as text, in one of the help's panels, with its default."""
    return typer.Option(name, metavar=metavar, help=text, rich_help_panel=panel)


def example(command: str) -> str:
    """The end of a command's help: an example that can be pasted, in lines that fit 60 columns."""
    lines: list[str] = []
    for part in re.split(r" (?=--?[a-z])", command):  # an option stays with its value
        if lines and len(lines[-1]) + 1 + len(part) <= 50:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return "\nExample:\n\n    " + " \\\n        ".join(lines) + "\n"


Steps = Annotated[str | None, option("--steps", "INTEGER", "Number of rounds.", _RUN)]
Epochs = Annotated[
    str | None,
    option("--epochs", "NUMBER", "Instead of --steps: passes over the data (rounded up).", _RUN),
]
Delta = Annotated[str, option("--delta", "NUMBER", "The delta of (epsilon, delta)-DP.", _QUESTION)]
Epsilon = Annotated[str, option("--epsilon", "NUMBER", "The epsilon of (epsilon, delta)-DP.", _QUESTION)]
Adjacency = Annotated[
    str,
    typer.Option(
        "--adjacency",
        metavar="NAME",
        help=f"Which datasets are neighbours: {', '.join(ADJACENCIES)}.",
        rich_help_panel=_QUESTION,
        autocompletion=lambda: list(ADJACENCIES),
    ),
]
Memory = Annotated[str, option("--memory", "SIZE", "Most memory for lattices, such as 512M or 2G.", _COMPUTATION)]
Force = Annotated[
    bool, typer.Option("--force", help="Replace files that exist.", rich_help_panel=_OUTPUT, show_default=False)
]
AsJSON = Annotated[
    bool,
    typer.Option("--json", help="Machine-readable output, in full precision.", rich_help_panel=_OUTPUT),
]


def _text(name: str, metavar: str, text: str, panel: str) -> Any:
    return Annotated[str | None, option(name, metavar, text, panel)]


def _texts(name: str, metavar: str, text: str, panel: str) -> Any:
    return Annotated[list[str] | None, option(name, metavar, text, panel)]


def _flag(name: str, text: str, panel: str) -> Any:
    return Annotated[bool, typer.Option(name, help=text, rich_help_panel=panel, show_default=False)]


def _choice(name: str, choices: tuple[str, ...], text: str, panel: str) -> Any:
    return Annotated[
        str | None,
        typer.Option(
            name,
            metavar="NAME",
            help=text,
            rich_help_panel=panel,
            show_default=False,
            autocompletion=lambda: list(choices),
        ),
    ]


def _of_field(field: Field, *, of: tuple[str, ...]) -> tuple[Any, Any]:
    """The option that a field of a sampling or mechanism is given by; `of` are those that have it, if not most do."""
    text = f"{', '.join(of)}: {field.meaning}" if of else field.meaning
    if field.kind == "flag":
        return _flag(field.option, text, _RUN), False
    if field.kind == "table":
        return _texts(field.option, field.metavar, f"{text} Once for each.", _RUN), None
    text = f"{text.removesuffix('.')}: {field.example}." if "/" in field.example else text
    return _text(field.option, field.metavar, text, _RUN), None


def _of_fields() -> dict[str, tuple[Any, Any]]:
    """An option for every field of every sampling and mechanism that is registered."""
    kinds: list[Any] = [*SAMPLINGS.values(), *(kind for kind in MECHANISMS.values() if kind is not DPSGD)]
    common = {field.name for field in (*DPSGD.fields, EPOCHS)}
    found = {}
    for name, field in phase_fields().items():
        of = tuple(kind.name for kind in kinds if any(one.name == name for one in kind.fields))
        found[name] = _of_field(field, of=() if name in common or field.ratio_of or len(of) > 3 else of)
    return found


def _choice_of(name: str, kinds: Mapping[str, Any], text: str) -> tuple[Any, Any]:
    return _choice(f"--{name}", tuple(kinds), f"{text}: {', '.join(kinds)}.", _RUN), None


#: The type and the default of every option about the run or the question, by the name it has in commands.
_SHARED: dict[str, tuple[Any, Any]] = {
    "run_file": (
        Annotated[
            list[str] | None,
            typer.Argument(
                metavar="RUN.TOML[:K]...",
                help="A run file (- for standard input), which options override; or several, with groups of K in each.",
            ),
        ],
        None,
    ),
    "run_option": (
        _text("--run", "RUN.TOML", "A run file (- for standard input); options override it.", _RUN),
        None,
    ),
    "phases": (
        _texts("--phase", "KEY=VALUE,...", "A whole phase, with the keys of a run file; once for each.", _RUN),
        None,
    ),
    "save": (_text("--save", "RUN.TOML", "Also write the run to this file.", _OUTPUT), None),
    "force": (_flag("--force", "Replace files that exist.", _OUTPUT), False),
    "delta": (
        _text("--delta", "NUMBER", "The delta of (epsilon, delta)-DP; needed here or in the run file.", _QUESTION),
        None,
    ),
    "group_size": (
        _text(
            "--group-size",
            "INTEGER",
            "Examples that one person may have; needed here or in the run file; with sources web=3,books=5.",
            _QUESTION,
        ),
        None,
    ),
    "adjacency": (
        _choice(
            "--adjacency",
            ADJACENCIES,
            f"Which datasets are neighbours (default {ADJACENCIES[0]}): {', '.join(ADJACENCIES)}.",
            _QUESTION,
        ),
        None,
    ),
    "removed": (_text("--removed", "INTEGER", "Instead of a group: so many leave ...", _QUESTION), None),
    "added": (_text("--added", "INTEGER", "... while so many join, in either order.", _QUESTION), None),
}


def run_parameters() -> tuple[str, ...]:
    """What every command that takes a run offers to describe it."""
    return ("run_file", "mechanism", "sampling", *phase_fields(), "phases", "save", "force")


def parameters_of(names: Iterable[str]) -> list[inspect.Parameter]:
    """Parameters of a command for the shared options of these names."""
    options = {
        **_SHARED,
        "mechanism": _choice_of("mechanism", MECHANISMS, "What is released (default dpsgd)"),
        "sampling": _choice_of("sampling", SAMPLINGS, "How batches are chosen"),
        **_of_fields(),
    }
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=options[name][1],
            annotation=options[name][0],
        )
        for name in names
    ]
