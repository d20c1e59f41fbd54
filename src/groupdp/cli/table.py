"""Tables and notes as text that fits the terminal: a column is wrapped or put below, never cut off."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence

#: Lines of this length are assumed where the output is no terminal and COLUMNS is not set: nothing is wrapped.
UNLIMITED = 10_000
_GAP = "  "
_NARROWEST_LABEL = 16


def output_width() -> int:
    """The columns there are to print in."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return max(20, shutil.get_terminal_size().columns)
    return UNLIMITED


def wrapped(text: str, *, width: int, indent: str = "") -> str:
    """Every line of `text` broken between words; what follows a break begins with `indent`."""
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )


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
    named = any(columns)  # rows that speak for themselves have no headings, and no line below them
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
