"""The options that commands share, described once.

All arrive as text, to be read by `values`: every bad value then gets the library's own sentence.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from groupdp.neighbours import ADJACENCIES

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


_SAMPLING_NAMES = (
    "poisson",
    "fixed-batch",
    "truncated-poisson",
    "shuffled",
    "shuffled-once",
    "fixed-order",
    "balls-in-bins",
    "spread",
    "allocation",
    "poisson-sources",
)

#: The type and the default of every option about the run or the question, by the name it has in commands.
_SHARED: dict[str, tuple[Any, Any]] = {
    "run_file": (
        Annotated[
            str | None,
            typer.Argument(metavar="RUN.TOML", help="A run file (- for standard input); options override it."),
        ],
        None,
    ),
    "run_option": (
        _text("--run", "RUN.TOML", "A run file (- for standard input); options override it.", _RUN),
        None,
    ),
    "sampling": (
        _choice("--sampling", _SAMPLING_NAMES, f"How batches are chosen: {', '.join(_SAMPLING_NAMES)}.", _RUN),
        None,
    ),
    "sampling_rate": (
        _text("--sampling-rate", "NUMBER", "Probability that an example joins a batch: 0.01 or 256/60000.", _RUN),
        None,
    ),
    "batch_size": (_text("--batch-size", "INTEGER", "Examples in a batch (for poisson: on average).", _RUN), None),
    "dataset_size": (
        _text(
            "--dataset-size",
            "INTEGER",
            "Examples in the dataset without the group; for substitute and zero-out, in either.",
            _RUN,
        ),
        None,
    ),
    "largest_batch": (
        _text("--largest-batch", "INTEGER", "truncated-poisson: larger batches are cut to this size.", _RUN),
        None,
    ),
    "batches": (
        _text("--batches", "INTEGER", "balls-in-bins, spread, allocation: batches of an epoch.", _RUN),
        None,
    ),
    "participations": (
        _text("--participations", "INTEGER", "allocation: batches of an epoch that an example is in.", _RUN),
        None,
    ),
    "one_per_batch": (_flag("--one-per-batch", "fixed-order: no batch holds two of one person.", _RUN), False),
    "sources": (
        _texts("--source", "NAME=RATE", "poisson-sources: a source and its rate; once for each.", _RUN),
        None,
    ),
    "noise_multiplier": (
        _text("--noise-multiplier", "NUMBER", "Standard deviation of the noise over the clipping norm.", _RUN),
        None,
    ),
    "steps": (_text("--steps", "INTEGER", "Number of steps.", _RUN), None),
    "epochs": (_text("--epochs", "NUMBER", "Instead of --steps: passes over the data (rounded up).", _RUN), None),
    "microbatch_size": (
        _text("--microbatch-size", "INTEGER", "Examples averaged before clipping (default 1: each is clipped).", _RUN),
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
            "Examples that one person may have (default 1); with sources web=3,books=5.",
            _QUESTION,
        ),
        None,
    ),
    "stated_group_size": (
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
#: What every command that takes a run offers to describe it.
RUN_PARAMETERS = tuple(
    name
    for name in _SHARED
    if name not in ("run_option", "delta", "group_size", "stated_group_size", "adjacency", "removed", "added")
)


def parameters_of(names: Iterable[str]) -> list[inspect.Parameter]:
    """Parameters of a command for the shared options of these names (stated_x is x, without a default)."""
    return [
        inspect.Parameter(
            name.removeprefix("stated_"),
            inspect.Parameter.KEYWORD_ONLY,
            default=_SHARED[name][1],
            annotation=_SHARED[name][0],
        )
        for name in names
    ]
