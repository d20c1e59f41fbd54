"""Numbers of examples per person from a file: a column of a CSV or Parquet table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from groupdp._validation import shown
from groupdp.errors import GroupDPError, InvalidArgument
from groupdp.people.view import MOST_PEOPLE, IntArray, counts_of


def read_counts(path: str, column: str | None = None) -> IntArray:
    """The column named, or the only one; a CSV file may do without a header if it has one column of integers."""
    try:
        return counts_of(_parquet(path, column) if Path(path).suffix.lower() == ".parquet" else _csv(path, column))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidArgument(f"counts must be a readable file, got {shown(path)} ({reason}).") from None


def parse_counts(text: str, column: str | None = None) -> IntArray:
    """The counts in the text of a CSV file, as `read_counts` reads them from one."""
    try:
        return counts_of(_rows(io.StringIO(text.removeprefix("\ufeff"), newline=""), column, name="text"))
    except csv.Error as error:
        raise InvalidArgument(f"counts must be CSV, and the text is not ({error}).") from None


def _csv(path: str, column: str | None) -> Any:
    with open(path, newline="", encoding="utf-8-sig") as file:
        return _rows(file, column, name=shown(path))


def _rows(lines: Iterable[str], column: str | None, *, name: str) -> Any:
    rows = csv.reader(lines)
    header = next(rows, None)
    if header is None:
        raise InvalidArgument(f"counts must be a file with at least one row, got the empty {name}.")
    values: list[int] = []
    if column is None and len(header) == 1 and header[0].strip().isdecimal():
        index = 0
        values.append(int(header[0][:30]))
    else:
        index = _position(header, column)
    blank = 0
    for number, row in enumerate(rows, start=2):
        if not row:  # allowed at the end of the file only: elsewhere it may be a missing value
            blank = blank or number
            continue
        if blank:
            raise InvalidArgument(f"counts must be integers of at least 1, got an empty line {blank}.")
        text = row[index].strip() if index < len(row) else ""
        if not (text.isdecimal() and len(text) <= 18):
            raise InvalidArgument(f"counts must be integers of at least 1, got {shown(text)} in line {number}.")
        values.append(int(text))
        if len(values) > MOST_PEOPLE:
            raise InvalidArgument(f"counts must be of at most {MOST_PEOPLE} people, got more.")
    return np.array(values, dtype=np.int64)


def _parquet(path: str, column: str | None) -> Any:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise GroupDPError("Parquet files need pyarrow: pip install 'groupdp[parquet]'.") from None
    try:
        names = parquet.read_schema(path).names
        chosen = names[_position(names, column)]
        table = parquet.read_table(path, columns=[chosen])
    except arrow.ArrowInvalid as error:
        raise InvalidArgument(f"counts must be a Parquet file, got {shown(path)} ({shown(str(error))}).") from None
    values = table.column(0)
    if values.null_count:
        raise InvalidArgument(f"counts must not be missing, got {values.null_count} missing in {shown(chosen)}.")
    return values.to_numpy()


def _position(names: list[str], column: str | None) -> int:
    stripped = [name.strip() for name in names]
    if column is None:
        if len(stripped) == 1:
            return 0
        raise InvalidArgument(f"column must name one of {shown(', '.join(stripped))}, got None.")
    if stripped.count(column) > 1:
        raise InvalidArgument(f"column must name a single column, got {shown(column)} more than once.")
    if column not in stripped:
        raise InvalidArgument(f"column must be one of {shown(', '.join(stripped))}, got {shown(column)}.")
    return stripped.index(column)
