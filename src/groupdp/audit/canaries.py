"""Scores from other people's training loops: two columns of a CSV file, or two arrays.

One row is one independent training run. A run counts once: scores of several canaries of the same run are not
independent, and the audit's confidence would be wrong.
"""

from __future__ import annotations

import csv
import io
import math
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import numpy as np

from groupdp._files import standard_input
from groupdp._validation import shown
from groupdp.audit.simulation import MOST_TRIALS, Scores
from groupdp.errors import InvalidArgument, InWords, LimitExceeded

#: The names of the columns unless told otherwise.
WITH_COLUMN, WITHOUT_COLUMN = "with_group", "without_group"


def read_scores(path: str | Path, *, with_column: str = WITH_COLUMN, without_column: str = WITHOUT_COLUMN) -> Scores:
    """Read a CSV file with a header; empty cells are skipped, so the columns may differ in length.

    Scores may be infinite ("inf", "-inf"); anything else that is not a number is refused with its line.
    """
    if with_column == without_column:
        raise InvalidArgument("with_column and without_column", InWords(f"{shown(with_column)} twice"), "differ")
    columns = {with_column: array("d"), without_column: array("d")}
    try:
        with _opened(path) as file:
            rows = csv.reader(file)
            header = [name.strip() for name in next(rows, [])]
            for name in columns:
                if header.count(name) != 1:
                    raise InvalidArgument(
                        "scores", InWords(f"the columns {shown(header)}"), f"have one column named {shown(name)}"
                    )
            places = {name: header.index(name) for name in columns}
            for row in rows:
                for name, place in places.items():
                    if place < len(row) and row[place].strip():
                        columns[name].append(_score(name, row[place], rows.line_num))
                if rows.line_num > MOST_TRIALS:
                    raise LimitExceeded(f"scores may have at most {MOST_TRIALS} lines.")
    except OSError as error:
        raise InvalidArgument(
            "scores", InWords(f"{shown(str(path))} ({error.strerror or error})"), "be a file that can be read"
        ) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidArgument("scores", InWords(f"{shown(str(path))} ({error})"), "be a CSV file in UTF-8") from None
    return Scores(with_group=np.array(columns[with_column]), without_group=np.array(columns[without_column]))


@contextmanager
def _opened(path: str | Path) -> Iterator[TextIO]:
    """The file, or standard input for "-"; a byte order mark is skipped."""
    if str(path) == "-":
        yield io.TextIOWrapper(io.BytesIO(standard_input().read()), newline="", encoding="utf-8-sig")
        return
    with open(path, newline="", encoding="utf-8-sig") as file:
        yield file


def _score(name: str, cell: str, line: int) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise InvalidArgument(name, InWords(f"{shown(cell)} on line {line}"), "hold numbers")
    return value
