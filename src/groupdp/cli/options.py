"""Options of commands: each is declared once, with its help and with how its text is read."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, Literal

import typer

from groupdp import fields
from groupdp.errors import InvalidArgument, require_choice, require_integer
from groupdp.fields import BATCH_SIZE, DATASET_SIZE, LONGEST_NUMBER, SAMPLING_RATE, Field
from groupdp.groups import LARGEST_GROUP
from groupdp.mechanisms import DPSGD, MECHANISMS
from groupdp.mechanisms.dpsgd import EPOCHS
from groupdp.mechanisms.named_values import phase_fields
from groupdp.neighbours import ADJACENCIES
from groupdp.samplings import SAMPLINGS

#: The panels of the help.
RUN, QUESTION, OUTPUT, COMPUTATION = "The run", "The question", "Output", "The computation"
#: Those of fields that few runs have; they come last.
OF_SAMPLINGS, OF_MECHANISMS = "More about the sampling", "Other mechanisms, and searches"
LAST_PANELS = (OUTPUT, COMPUTATION, OF_SAMPLINGS, OF_MECHANISMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option or an argument of a command. Its name is that of the command's parameter, unless it has `names`."""

    text: str
    panel: str = QUESTION
    metavar: str = ""
    read: Callable[[str, str], Any] = lambda _, text: text
    """Reads the value from (name, text)."""
    default: str | None = None
    required: bool = False
    kind: Literal["option", "flag", "argument"] = "option"
    several: bool = False
    names: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    """What a shell offers to complete."""
    writes: Literal["nothing", "whole", "itself"] = "nothing"
    """Whether its value is a file that appears with the answer, or one that the library writes as it goes."""
    hidden: bool = False

    def parameter(self, name: str) -> inspect.Parameter:
        """The parameter that typer makes the option of."""
        names = self.names or (f"--{name.replace('_', '-')}",)
        info = (
            typer.Argument(metavar=self.metavar, help=self.text)
            if self.kind == "argument"
            else typer.Option(
                *names,
                metavar=self.metavar or None,
                help=self.text,
                rich_help_panel=self.panel,
                show_default=self.kind != "flag" and self.names[:1] != ("--out",),
                autocompletion=(lambda: list(self.choices)) if self.choices else None,
                hidden=self.hidden,
            )
        )
        kind: Any = bool if self.kind == "flag" else list[str] if self.several else str
        default = inspect.Parameter.empty if self.required else False if self.kind == "flag" else self.default
        kind = kind | None if default is None else kind
        annotation = Annotated[kind, info]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

    def value(self, name: str, given: Any) -> Any:
        """What was typed, read; None where nothing was."""
        if given is None or self.kind == "flag":
            return given
        name = self.names[0].removeprefix("--").replace("-", "_") if self.names else name
        return [self.read(name, text) for text in given] if self.several else self.read(name, given)


def number(
    text: str, panel: str = QUESTION, *, default: str | None = None, required: bool = False, **limits: Any
) -> Option:
    """An option whose value is a finite number within `limits` (those of `require_number`)."""
    read = partial(fields.number, **limits)
    return Option(text=text, panel=panel, metavar="NUMBER", read=read, default=default, required=required)


def integer(
    text: str,
    panel: str = QUESTION,
    *,
    default: str | None = None,
    required: bool = False,
    at_least: int = 1,
    **limits: Any,
) -> Option:
    """An option whose value is an integer."""
    read = partial(fields.integer, at_least=at_least, **limits)
    return Option(text=text, panel=panel, metavar="INTEGER", read=read, default=default, required=required)


def group(text: str) -> Option:
    """An option whose value is a number of examples, or source=number,source=number."""
    return Option(text=text, metavar="INTEGER", read=_read_group)


def _read_group(name: str, text: str) -> int | dict[str, int]:
    if "=" in text:
        counts = pairs(name, text.split(","))
        return {source: fields.integer(f"{name} of {source}", count, at_least=0) for source, count in counts.items()}
    return fields.integer(name, text, at_least=0, at_most=LARGEST_GROUP)


def pairs(name: str, texts: Iterable[str]) -> dict[str, str]:
    """name=value, each name once."""
    values: dict[str, str] = {}
    for text in texts:
        key, separator, value = (part.strip() for part in text.partition("="))
        if not separator or not key or not value or key in values:
            raise InvalidArgument(name, text, "be written name=value, each name once")
        values[key] = value
    return values


def words(metavar: str, text: str, panel: str = QUESTION, **more: Any) -> Option:
    """An option whose value is the text itself, unless `more` has a reader."""
    return Option(text=text, panel=panel, metavar=metavar, **more)


def choice(choices: Iterable[str], text: str, panel: str = QUESTION, *, metavar: str = "NAME", **more: Any) -> Option:
    """An option whose value is one of a few names."""
    names = tuple(choices)
    return words(metavar, text, panel, read=partial(require_choice, choices=names), choices=names, **more)


def numbers(text: str, default: str, **limits: float) -> Option:
    """An option whose value is a list of numbers, separated by commas."""
    read = lambda name, given: [fields.number(name, part, **limits) for part in given.split(",")]  # noqa: E731
    return Option(text=text, metavar="LIST", read=read, default=default)


def flag(text: str, panel: str = OUTPUT) -> Option:
    """An option without a value."""
    return Option(text=text, panel=panel, kind="flag")


def argument(metavar: str, text: str, *, several: bool = False) -> Option:
    """An argument: typed without the name of an option."""
    return Option(text=text, metavar=metavar, kind="argument", required=True, several=several)


def out(metavar: str, text: str, *, writes: Literal["nothing", "whole", "itself"] = "whole", **more: Any) -> Option:
    """The option --out, which every command has in the same panel."""
    return words(metavar, text, OUTPUT, names=("--out", "-o"), writes=writes, **more)


def read_memory(_: str, text: str) -> int:
    """The bytes that a size such as 512M, 1.5G or 64000000 spells; K, M, G and T are powers of a thousand."""
    from groupdp.engines import SMALLEST_MEMORY

    match = _SIZE.fullmatch(text.strip()) if len(text) <= LONGEST_NUMBER else None
    size = int(Fraction(match[1]) * _BYTES[match[2].upper()]) if match else 0
    if size < SMALLEST_MEMORY:
        least = f"{SMALLEST_MEMORY // 10**6}M"
        raise InvalidArgument("memory", text, f"be a size of at least {least}, such as 512M or 2G")
    return size


_SIZE = re.compile(r"(\d{1,15}(?:\.\d{0,15})?)\s*([KMGT]?)B?", re.ASCII | re.IGNORECASE)
_BYTES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
#: Most points of one curve.
LARGEST_CURVE = 1000


def read_counts(name: str, text: str) -> list[int]:
    """The group sizes, or other counts, that `first:last[:step]` or a list `1,2,4` spells, in increasing order."""
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


_NEIGHBOURS = f"Which datasets are neighbours (default {ADJACENCIES[0]}): {', '.join(ADJACENCIES)}."
_IN_FILE = "needed here or in the run file"
# The options that several commands have.
EPSILON = number("The epsilon of (epsilon, delta)-DP.", required=True)
DELTA = number(f"The delta of (epsilon, delta)-DP; {_IN_FILE}.")
ADJACENCY = choice(ADJACENCIES, _NEIGHBOURS)
RUN_FILE = words("RUN.TOML", "A run file (- for standard input); options override it.", RUN)
STEPS = integer("Number of steps, each with one batch.", RUN)
EPOCHS_OF_RUN = number("Instead of --steps: passes over the data, rounded up to whole steps.", RUN)
LATTICE_MEMORY = words(
    "SIZE", "Memory limit for lattices, such as 512M or 2G.", COMPUTATION, default="1G", read=read_memory
)
PLOT = words("FILE", "Write a picture: PNG, PDF or SVG by suffix.", OUTPUT, writes="whole")
FORCE = flag("Replace files that exist.")
AS_JSON = replace(flag("Machine-readable output, in full precision."), names=("--json",))

#: The options about a run and its question: `asked_of` takes them together.
_ABOUT_RUN: dict[str, Option] = {
    "run_file": Option(
        text="A run file (- for standard input); options override it. Several are composed, each with its own K.",
        metavar="RUN.TOML[:K]",
        kind="argument",
        several=True,
    ),
    "run_option": replace(RUN_FILE, names=("--run",)),
    "data": words("FILE", "The table that groupdp bound wrote: fills in group size and dataset size.", RUN),
    "phases": words(
        "KEY=VALUE,...",
        "A whole phase, with the keys of a run file; repeat for each phase.",
        RUN,
        names=("--phase",),
        several=True,
    ),
    "save": words("RUN.TOML", "Also write the run to this file.", OUTPUT),
    "force": FORCE,
    "delta": number(f"The delta of (epsilon, delta)-DP; {_IN_FILE}.", above=0.0, below=1.0),
    "group_size": group(f"Examples that one person may have (web=3,books=5 for several sources); {_IN_FILE}."),
    "adjacency": ADJACENCY,
    "removed": group("Instead of --group-size: examples that leave (none if only --added is given)."),
    "added": group("Instead of --group-size: examples that join. The reverse change is covered, too."),
}


def about_run(question: Iterable[str], *, run_as_option: bool) -> dict[str, Option]:
    """The options of a command about a run: one for every field of the samplings and mechanisms registered by now."""
    options = {
        **_ABOUT_RUN,
        "mechanism": _kinds("What is released (default dpsgd)", MECHANISMS),
        "sampling": _kinds("How batches are chosen", SAMPLINGS),
    }
    others = [kind for kind in MECHANISMS.values() if kind is not DPSGD]
    common = {field.name for field in (*DPSGD.fields, EPOCHS, SAMPLING_RATE, BATCH_SIZE, DATASET_SIZE)}
    for name, field in phase_fields().items():
        samplings, mechanisms = (
            [kind.name for kind in kinds if any(own.name == name for own in kind.fields)]
            for kinds in (SAMPLINGS.values(), others)
        )
        of = [*samplings, *mechanisms]
        panel = RUN if name in common else OF_SAMPLINGS if samplings else OF_MECHANISMS
        options[name] = _of_field(field, panel, [] if name in common or len(of) > 3 else of)
    file = "run_option" if run_as_option else "run_file"
    names = (file, "mechanism", "sampling", *phase_fields(), "data", "phases", "save", "force", *question)
    return {name: options[name] for name in names}


def _kinds(text: str, kinds: Mapping[str, Any]) -> Option:
    return words("NAME", f"{text}: {', '.join(kinds)}.", RUN, choices=tuple(kinds))


def _of_field(field: Field, panel: str, of: Sequence[str]) -> Option:
    """The option that sets a field; `of` are the samplings or mechanisms that have it, unless most do."""
    text = f"{', '.join(of)}: {field.meaning[0].lower()}{field.meaning[1:]}" if of else field.meaning
    if field.kind == "flag":
        return replace(flag(text, panel), names=(field.option,))
    if field.kind == "table":
        return words(field.metavar, f"{text} Once for each source.", panel, names=(field.option,), several=True)
    text = f"{text.removesuffix('.')}: {field.example}." if "/" in field.example else text
    return words(field.metavar, text, panel, names=(field.option,))
