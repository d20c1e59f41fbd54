"""What every command shares: printing answers, errors, progress; and the options and readers, re-exported.

Nothing heavy is imported before it is needed: commands start fast.
"""

from __future__ import annotations

import functools
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec

import typer

from groupdp._files import NewFiles
from groupdp._version import VERSION
from groupdp.bounds import Bounds
from groupdp.cli.options import (
    Adjacency,
    AsJSON,
    Delta,
    Epochs,
    Epsilon,
    Force,
    Memory,
    Steps,
    option,
)
from groupdp.cli.table import output_width, table_text, wrapped
from groupdp.cli.values import (
    read_adjacency,
    read_group_sizes,
    read_integer,
    read_memory,
    read_number,
)
from groupdp.errors import GroupDPError, InvalidArgument, InWords
from groupdp.neighbours import ADJACENCIES
from groupdp.printing import given, lower_text, upper_text

if TYPE_CHECKING:
    from groupdp.cli.asked import Asked

__all__ = [
    "ADJACENCIES",
    "NOT_TIGHT",
    "Adjacency",
    "AsJSON",
    "Delta",
    "Epochs",
    "Epsilon",
    "Force",
    "Memory",
    "NewFiles",
    "Steps",
    "bounds_as_json",
    "dump_json",
    "emit_json",
    "emit_run",
    "emit_table",
    "emit_text",
    "fail",
    "handle_errors",
    "lower_text",
    "name_written",
    "option",
    "progress_bar",
    "read_adjacency",
    "read_group_sizes",
    "read_integer",
    "read_memory",
    "read_number",
    "require_new",
    "upper_text",
    "waiting",
]

Parameters = ParamSpec("Parameters")

#: What "at least" means where the analysis is not tight.
NOT_TIGHT = "Valid, not tight: 'at least' bounds this analysis alone, a better one may prove less."


def bounds_as_json(bounds: Bounds | tuple[float, float]) -> dict[str, float]:
    """Both sides of certified bounds."""
    lower, upper = bounds if isinstance(bounds, tuple) else (bounds.lower, bounds.upper)
    return {"lower": lower, "upper": upper}


def dump_json(payload: Mapping[str, Any]) -> str:
    """`payload` with its floats in full precision, infinities as the strings "Infinity" and "-Infinity"."""
    return json.dumps(_valid_json({**payload, "version": VERSION}), indent=2, allow_nan=False)


def _valid_json(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: _valid_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_valid_json(item) for item in value]
    return value


def emit_json(payload: Mapping[str, Any]) -> None:
    """Print a JSON answer; the version is added to it."""
    typer.echo(dump_json(payload))


def emit_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, note: str = "") -> None:
    """Print a readable table: the first column to the left, the others (numbers) to the right."""
    width = output_width()
    heading = wrapped(title, width=width)
    typer.echo(f"\x1b[1m{heading}\x1b[0m" if sys.stdout.isatty() and "NO_COLOR" not in os.environ else heading)
    typer.echo("\n" + table_text(columns, rows, width=width) + "\n")
    if note:
        emit_text(note)


def emit_text(text: str, *, indent: str = "") -> None:
    """Print sentences, wrapped to the terminal."""
    typer.echo(wrapped(text, width=output_width(), indent=indent))


def emit_run(asked: Asked, *, group: bool = True) -> None:
    """Print the run as it was understood, unless without the group, and what is peculiar about the question."""
    for line in (*asked.summary(group=group), *asked.remarks(group=group)):
        emit_text(line, indent="  ")


def name_written(*paths: str | Path | None) -> None:
    """Say on stderr which files were written, one a line."""
    for path in paths:
        if path is not None:
            typer.echo(f"wrote {path}", err=True)


def handle_errors(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """What groupdp refuses becomes its sentence on stderr and exit status 2; a bug keeps its traceback.

    A command about a run gets its options here, when it is added to an application.
    """

    getattr(command, "offer", lambda: None)()

    @functools.wraps(command)
    def guarded(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except GroupDPError as error:
            fail(str(error))

    return guarded


def require_new(path: str | None, name: str, *, force: bool) -> None:
    """Refuses a file that exists, unless it may be replaced, and no name; a device or a pipe is written to."""
    if path == "":
        raise InvalidArgument(name, InWords("an empty one"), "be the name of a file")
    if path is not None and not force and _is_file(path):
        raise InvalidArgument(name, path, "be a new file, or --force be given to replace it")


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # no possible name: refused where it is written
        return False


def fail(sentence: str) -> NoReturn:
    """Print one sentence on stderr and leave with exit status 2."""
    typer.echo(sentence, err=True)
    raise typer.Exit(2)


@contextmanager
def waiting(label: str, limit: float, *, patience: float = 1.0) -> Iterator[None]:
    """Where the fraction done is not known: the seconds gone and the limit, after `patience` seconds, on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    started, over = time.monotonic(), threading.Event()

    def tell() -> None:
        pause = patience
        while not over.wait(pause):
            pause = 0.5
            most = f", at most {given(limit)} s" if limit < math.inf else ""
            sys.stderr.write(f"\r{label}: {time.monotonic() - started:.0f} s{most}\x1b[K")
            sys.stderr.flush()

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
        if time.monotonic() - started >= patience:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextmanager
def progress_bar(label: str, *, patience: float = 1.0) -> Iterator[Callable[[float], None]]:
    """A callable that takes the fraction done; shown after `patience` seconds, and only on a terminal."""
    started = time.monotonic()
    visible = sys.stderr.isatty()
    state = {"shown": False, "last": -1.0}

    def report(fraction: float) -> None:
        now = time.monotonic()
        if not visible or now - started < patience or now - state["last"] < 0.1:
            return
        state["last"], state["shown"] = now, True
        filled = round(30 * min(max(fraction, 0.0), 1.0))
        sys.stderr.write(f"\r{label} [{'#' * filled}{'.' * (30 - filled)}] {fraction:4.0%}")
        sys.stderr.flush()

    try:
        yield report
    finally:
        if state["shown"]:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
