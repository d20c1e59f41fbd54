"""What commands print: tables, sentences and JSON that fit the terminal; progress on stderr."""

from __future__ import annotations

import importlib
import json
import math
import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from groupdp._files import NewFiles
from groupdp._version import VERSION
from groupdp.drawing import check_picture_name, save_figure, title_lines
from groupdp.errors import InvalidArgument, InWords, shown
from groupdp.printing import given, grouped, json_ready

#: Lines of this length are assumed where the output is not a terminal and COLUMNS is not set: nothing is wrapped.
UNLIMITED = 10_000
_GAP = "  "
_NARROWEST_LABEL = 16


def output_width() -> int:
    """The columns there are to print in."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return max(20, shutil.get_terminal_size().columns)
    return UNLIMITED


def wrapped(text: str, *, width: int, indent: str = "") -> str:
    """Every line of `text` broken between words, with thousands apart.

    What follows a break begins with `indent`, in a list or an indented line with two spaces more than the line.
    """
    filled = []
    for line in grouped(text, space="\u00a0").split("\n"):
        own = indent or {"- ": _GAP, _GAP: 2 * _GAP}.get(line[:2], "")
        filled.append(textwrap.fill(line, width, subsequent_indent=own, break_long_words=False, break_on_hyphens=False))
    return "\n".join(filled).replace("\u00a0", " ")


def table_text(columns: Sequence[str], rows: Sequence[Sequence[str]], *, width: int) -> str:
    """The first column to the left, the others (numbers) to the right, in lines of at most `width`.

    Headings are wrapped first, then the labels of the first column; if that is not enough, a row becomes a block of
    lines, one for each column.
    """
    cells = [max((len(row[i]) for row in rows), default=0) for i in range(len(columns))]
    widths = [max(len(name), cell) for name, cell in zip(columns, cells, strict=True)]
    if _total(widths) > width:
        least = [max(cell, *map(len, name.split()), 0) for name, cell in zip(columns, cells, strict=True)]
        widths = _spread(least, widths, width)
    if _total(widths) > width:
        label = width - _total(widths) + widths[0]
        longest = max((len(word) for row in rows for word in row[0].split()), default=0)
        if label < max(_NARROWEST_LABEL, longest):
            return _stacked(columns, rows, width)
        widths[0] = label
    named = any(columns)  # without headings there is no line below them
    lines = [*_lines(columns, widths), _rule() * min(_total(widths), width)] if named else []
    for row in rows:
        lines += _lines(row, widths)
    return "\n".join(line.rstrip() for line in lines)


def _rule() -> str:
    """A line below the headings, where the output's encoding has one."""
    try:
        "─".encode(sys.stdout.encoding or "utf-8")
    except (LookupError, UnicodeEncodeError):
        return "-"
    return "─"


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _spread(least: list[int], wanted: list[int], width: int) -> list[int]:
    """Between the least and the wanted widths: as close to the wanted ones as the line allows."""
    widths = list(least)
    while _total(widths) < width:
        short = [i for i in range(len(widths)) if widths[i] < wanted[i]]
        if not short:
            break
        widest = max(short, key=lambda i: wanted[i] - widths[i])
        widths[widest] += 1
    return widths


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """One row, in as many lines as its tallest cell needs."""
    parts = [
        textwrap.wrap(cell, size, break_long_words=False, break_on_hyphens=False) or [""]
        if len(cell) > size
        else [cell]
        for cell, size in zip(row, widths, strict=True)
    ]
    height = max(map(len, parts))
    lines = []
    for k in range(height):
        texts = [part[k] if k < len(part) else "" for part in parts]
        first = texts[0].ljust(widths[0])
        lines.append(_GAP.join([first, *(text.rjust(size) for text, size in zip(texts[1:], widths[1:], strict=True))]))
    return lines


def _stacked(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """A block of lines for each row: what its first column says, then the other columns, each with its name."""
    blocks = []
    for row in rows:
        lines = [wrapped(f"{columns[0]} {row[0]}".strip(), width=width, indent=_GAP)]
        for name, cell in zip(columns[1:], row[1:], strict=True):
            line = f"{_GAP}{name}: {cell}" if name else f"{_GAP}{cell}"
            lines.append(wrapped(line, width=width, indent=2 * _GAP))
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


#: What "at least" means if the analysis is not tight.
NOT_TIGHT = "Valid, not tight: a better analysis may prove a smaller value than this 'at least'."


def dump_json(payload: Mapping[str, Any]) -> str:
    """`payload` with its floats in full precision, infinities as the strings "Infinity" and "-Infinity"."""
    return json.dumps(json_ready({**payload, "version": VERSION}), indent=2, allow_nan=False)


def values_of(thing: Any, names: Iterable[str]) -> dict[str, Any]:
    """The attributes of these names, for JSON."""
    return {name: getattr(thing, name) for name in names}


def emit_text(text: str, *, indent: str = "", err: bool = False) -> None:
    """Print sentences, wrapped to the terminal."""
    typer.echo(wrapped(text, width=output_width(), indent=indent), err=err)


@dataclass(frozen=True, slots=True)
class Table:
    """A title, a row of headings, rows, and sentences below, of which empty ones are left out."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def emit(self) -> None:
        """Print it."""
        width = output_width()
        heading = wrapped(self.title, width=width)
        typer.echo(f"\x1b[1m{heading}\x1b[0m" if sys.stdout.isatty() and "NO_COLOR" not in os.environ else heading)
        typer.echo("\n" + table_text(self.columns, self.rows, width=width) + "\n")
        for note in self.notes:
            if note:
                emit_text(note)


class Verbatim(str):
    """A text that is printed as it is, without a line break at its end."""

    __slots__ = ()


#: What writes a file: its text, or a function of the path to write to.
Content = str | Callable[[Path], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command answers, as JSON and for people, and what it writes to the files that its options name."""

    json: Mapping[str, Any] | None = None
    """What --json prints; None if that prints the text, too."""
    about: Sequence[str] = ()
    """Lines about the run and the question, before the text."""
    text: Sequence[str | Table] = ()
    files: Mapping[str, Content] = field(default_factory=dict)
    """Writers by the names of their options; options that were not given are left out."""
    status: int = 0
    """The exit status."""

    def emit(self) -> None:
        """Print it for people."""
        for line in self.about:
            emit_text(line, indent=_GAP)
        for part in self.text:
            if isinstance(part, Table):
                part.emit()
            elif isinstance(part, Verbatim):
                typer.echo(part, nl=False)
            else:
                emit_text(part)


def drawn(picture: str, *what: Any, title: list[str], width: int = 95, **more: Any) -> Content:
    """Draws `what` by a function of `groupdp.figures`, or "module.function" of it, once a picture is asked for."""
    module, _, function = f"groupdp.figures.{picture}".rpartition(".")

    def draw(path: Path) -> None:
        make = getattr(importlib.import_module(module), function)
        save_figure(make(*what, title=title_lines(title, width), **more), path)

    return draw


def name_written(*paths: str | Path | None) -> None:
    """Say on stderr which files were written, one a line."""
    for path in paths:
        if path is not None:
            typer.echo(f"wrote {path}", err=True)


def require_new(path: str | None, name: str, *, force: bool) -> None:
    """Refuse an existing file without `force`, and an empty name; a device or a pipe is written to."""
    if path == "":
        raise InvalidArgument(name, InWords("an empty one"), "be the name of a file")
    if path is not None and not force and _is_file(path):
        raise InvalidArgument(name, path, "be a new file, or be given with --force to be replaced")


@contextmanager
def new_files(paths: Mapping[str, str | None], *, force: bool) -> Iterator[NewFiles]:
    """The files that a command writes, by their options' names.

    Refused before any work: a file that exists or cannot be written, one name twice, a picture with an unknown suffix.
    """
    given_paths = {name: path for name, path in paths.items() if path is not None}
    if "plot" in given_paths:
        check_picture_name("plot", given_paths["plot"])
    for name, path in given_paths.items():
        require_new(path, name, force=force)
    with NewFiles(next(iter(paths), "out")) as files:
        taken: dict[Path, str] = {}
        for name, path in given_paths.items():
            first = taken.setdefault(files.temporary(path, name=name), name)
            if first != name:
                raise InvalidArgument(name, InWords(f"{shown(path)} for both"), f"be another file than {first}")
        yield files


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # not a valid name: refused when it is written
        return False


#: The progress bars that are open; the last one is shown.
_BARS: list[threading.Event] = []


@contextmanager
def progress_bar(label: str, limit: float = math.inf, *, patience: float = 1.0) -> Iterator[Callable[[float], None]]:
    """A callable that takes the fraction done, where that is known.

    After `patience` seconds a terminal shows the elapsed seconds, the `limit` and the fraction. A bar inside of another
    one is shown in its place.
    """
    if not sys.stderr.isatty():
        yield lambda fraction: None
        return
    started, over = time.monotonic(), threading.Event()
    reported: list[float] = []
    most = f", at most {given(limit)} s" if limit < math.inf else ""

    def show() -> None:
        pause = patience
        while not over.wait(pause):
            pause = 0.25
            if _BARS[-1:] != [over]:
                continue
            bar = ":"
            if reported:
                fraction = min(max(reported[0], 0.0), 1.0)
                bar = f" [{'#' * round(30 * fraction):.<30}] {fraction:4.0%},"
            sys.stderr.write(f"\r{label}{bar} {time.monotonic() - started:.0f} s{most}\x1b[K")
            sys.stderr.flush()

    def report(fraction: float) -> None:
        reported[:] = [fraction]

    shower = threading.Thread(target=show, daemon=True)
    _BARS.append(over)
    shower.start()
    try:
        yield report
    finally:
        over.set()
        shower.join()
        _BARS.remove(over)
        if time.monotonic() - started >= patience:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
