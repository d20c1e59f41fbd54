"""The options that commands share, described once, and reading the text that each arrives as."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any

import typer

from groupdp._validation import require_choice, require_integer, require_number
from groupdp.errors import InvalidArgument
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


def out_option(metavar: str, text: str) -> Any:
    """The option --out of a command, in the panel of its output."""
    return typer.Option("--out", "-o", metavar=metavar, help=text, rich_help_panel=_OUTPUT, show_default=False)


Plot = Annotated[str | None, option("--plot", "FILE", "Draw it: PNG, PDF or SVG by suffix.", _OUTPUT)]
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


def _text_option(name: str, metavar: str, text: str, panel: str) -> Any:
    return Annotated[str | None, option(name, metavar, text, panel)]


def _texts(name: str, metavar: str, text: str, panel: str) -> Any:
    return Annotated[list[str] | None, option(name, metavar, text, panel)]


def _flag_option(name: str, text: str, panel: str) -> Any:
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
        return _flag_option(field.option, text, _RUN), False
    if field.kind == "table":
        return _texts(field.option, field.metavar, f"{text} Once for each.", _RUN), None
    text = f"{text.removesuffix('.')}: {field.example}." if "/" in field.example else text
    return _text_option(field.option, field.metavar, text, _RUN), None


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
        _text_option("--run", "RUN.TOML", "A run file (- for standard input); options override it.", _RUN),
        None,
    ),
    "data": (
        _text_option(
            "--data", "FILE", "The table that groupdp bound wrote: fills in group size and dataset size.", _RUN
        ),
        None,
    ),
    "phases": (
        _texts("--phase", "KEY=VALUE,...", "A whole phase, with the keys of a run file; once for each.", _RUN),
        None,
    ),
    "save": (_text_option("--save", "RUN.TOML", "Also write the run to this file.", _OUTPUT), None),
    "force": (_flag_option("--force", "Replace files that exist.", _OUTPUT), False),
    "delta": (
        _text_option(
            "--delta", "NUMBER", "The delta of (epsilon, delta)-DP; needed here or in the run file.", _QUESTION
        ),
        None,
    ),
    "group_size": (
        _text_option(
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
    "removed": (
        _text_option("--removed", "INTEGER", "Instead of a group: this many examples leave ...", _QUESTION),
        None,
    ),
    "added": (_text_option("--added", "INTEGER", "... and this many join, in either order.", _QUESTION), None),
}


def run_parameters() -> tuple[str, ...]:
    """What every command that takes a run offers to describe it."""
    return ("run_file", "mechanism", "sampling", *phase_fields(), "data", "phases", "save", "force")


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


#: Longer texts are not numbers anybody means.
LONGEST_NUMBER = 100
#: Most points of one curve.
LARGEST_CURVE = 1000

_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{0,15})?)\s*([KMGT]?)B?", re.ASCII | re.IGNORECASE)
_BYTES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def read_number(name: str, text: str, **limits: float | None) -> float:
    """The finite number that `text` spells, within `limits` (those of `require_number`)."""
    return require_number(name, _finite(name, text), **limits)


def read_integer(name: str, text: str, *, at_least: int = 0, **limits: int) -> int:
    """The integer that `text` spells."""
    if len(text) > LONGEST_NUMBER or not _INTEGER.fullmatch(text.strip()):
        raise InvalidArgument(name, text, f"be an integer of at least {at_least}")
    return require_integer(name, int(text), at_least=at_least, **limits)


def read_memory(text: str) -> int:
    """The bytes that a size such as 512M, 1.5G or 64000000 spells; K, M, G and T are powers of a thousand."""
    from groupdp.engines.interface import SMALLEST_MEMORY

    found = _SIZE.fullmatch(text.strip()) if len(text) <= LONGEST_NUMBER else None
    size = int(Fraction(found[1]) * _BYTES[found[2].upper()]) if found else 0
    if size < SMALLEST_MEMORY:
        least = f"{SMALLEST_MEMORY // 10**6}M"
        raise InvalidArgument("memory", text, f"be a size of at least {least}, such as 512M or 2G")
    return size


def read_adjacency(text: str) -> str:
    """One of the adjacencies."""
    return require_choice("adjacency", text, ADJACENCIES)


def read_group_sizes(text: str, *, name: str = "group_sizes") -> list[int]:
    """The group sizes (or other counts) that `first:last[:step]` or a list `1,2,4` spells, in increasing order."""
    from groupdp.groups import LARGEST_GROUP

    sizes: Sequence[int] = ()
    if re.fullmatch(r"\d{1,9}:\d{1,9}(:\d{1,9})?", text, re.ASCII):
        first, last, *step = (int(part) for part in text.split(":"))
        if step != [0]:
            sizes = range(first, last + 1, *step)
    elif len(text) <= 100_000 and re.fullmatch(r"\d{1,9}(,\d{1,9})*", text, re.ASCII):
        sizes = sorted({int(part) for part in text.split(",")})
    if not sizes:
        raise InvalidArgument(name, text, "look like 1:32, 1:32:4 or 1,2,4")
    if len(sizes) > LARGEST_CURVE:
        raise InvalidArgument(name, len(sizes), f"be at most {LARGEST_CURVE} in number")
    for size in (sizes[0], sizes[-1]):
        require_integer(name, size, at_least=1, at_most=LARGEST_GROUP)
    return list(sizes)


def _finite(name: str, text: str) -> float:
    stripped = text.strip()
    number = float(stripped) if len(text) <= LONGEST_NUMBER and _DECIMAL.fullmatch(stripped) else math.nan
    if not math.isfinite(number):
        raise InvalidArgument(name, text, "be a finite number")
    return number
