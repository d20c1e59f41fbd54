"""Numbers of examples per person from a file: a column of a CSV or Parquet table.

A file of one column that looks like identifiers is refused with a question. Each person's epsilon is written as a
table with one row per person: do not publish it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from groupdp.data.manifest import Counts
from groupdp.errors import NOT_SHOWN, GroupDPError, InvalidArgument, InWords, shown
from groupdp.people import MOST_PEOPLE, PeopleView, histogram_of_parts

_DELIMITERS = (",", ";", "\t", "|")
#: A name that identifiers have: user_id, customer, ownerId; and one that counts have, whatever else is in it.
_NAME_OF_IDS = re.compile(
    r"(?i:(.*[_\W])?(id|uid|uuid|guid|user|person|name|customer|account|member|patient|client|author|owner|email)s?)"
    r"|.*[a-z]I[dD]s?"
)
_NAME_OF_COUNTS = re.compile(r"(?i)count|number|examples|rows|(^|[_\W])(n|num|per)([_\W]|$)")
#: What a file of several columns needs, on the command line and on the page.
_COLUMN_TYPED = "be a column (say --counts NAME, or --by NAME where rows are examples)"
_COLUMN_ENTERED = "be a column, whose name is entered beside the file"
#: Rows of a Parquet file that are counted at once.
_ROWS = 1 << 20
#: Fewer numbers than this are not judged by their values.
_FEW = 20


def read_counts(path: str, column: str | None = None) -> Counts:
    """How many people have how many examples, by the column named or the only one.

    A CSV file may do without a header if it has one column of integers.
    """
    try:
        if Path(path).suffix.lower() == ".parquet":
            name, parts = _parquet(path, column)
        else:
            read = _digits(path, column)
            if read is None:
                with open(path, newline="", encoding="utf-8-sig") as file:
                    read = _rows(file, column, name=shown(path))
            name, parts = read[0], iter([read[1]])
        return _counts(name, parts, column)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidArgument("counts", InWords(f"{shown(path)} ({reason})"), "be a readable file") from None


def _counts(name: str, parts: Iterable[Any], column: str | None, *, typed: bool = True) -> Counts:
    """The histogram of a column; one that was not named and looks like identifiers is refused with a question.

    Among many people, some have the same number of examples, and some have few.
    """
    values, people = histogram_of_parts(parts)
    counts = Counts(examples=values, people_with=people)
    odd = counts.people >= _FEW and (int(values[0]) >= 1000 or values.size > counts.people / 2)
    if column is None and ((_NAME_OF_IDS.fullmatch(name) and not _NAME_OF_COUNTS.search(name)) or odd):
        what = f"the column {shown(name)}" if name else "a column without a name"
        called = name or "NAME (after adding a line with that name)"
        options = (
            f"is every row an example (then say --by {called}), or a person with that many examples "
            f"(then say --counts {called})?"
        )
        entered = f"if they are the numbers of examples of people, enter {called} as the column"
        got, reason = InWords(f"{what} that looks like identifiers"), options if typed else entered
        raise InvalidArgument("counts", got, "be numbers of examples", reason)
    return counts


def _digits(path: str, column: str | None) -> tuple[str, Any] | None:
    """A CSV file of one column that has digits only, at the speed of reading; None for any other."""
    body = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf")
    if b"\r" in body:
        body = body.replace(b"\r\n", b"\n")
    header, _, rest = body.partition(b"\n")
    name = header.decode("utf-8").strip()
    if name.isdecimal():
        if column is not None:
            return None
        name, rest = "", body
    elif '"' in name or any(sign in name for sign in _DELIMITERS) or column not in (None, name):
        return None
    rest = rest.rstrip(b"\n")
    if not rest or rest[:1] == b"\n" or rest.translate(None, b"0123456789\n"):
        return None
    lines = 1 + np.count_nonzero(np.frombuffer(rest, dtype=np.uint8) == ord("\n"))
    values = np.fromstring(rest.decode("ascii"), dtype=np.int64, sep="\n")
    # Of empty lines nothing is read. Numbers too long for 64 bits are there the largest; the slow reader says in which
    # line a zero is.
    if values.size != lines or not 1 <= int(values.min()) <= int(values.max()) < 10**18:
        return None
    return name, values


def parse_counts(text: str, column: str | None = None) -> Counts:
    """The counts in the text of a CSV file, as `read_counts` reads them from one."""
    file = io.StringIO(text.removeprefix("\ufeff"), newline="")
    try:
        name, values = _rows(file, column, name="text", which=_COLUMN_ENTERED)
    except csv.Error as error:
        raise InvalidArgument("counts", NOT_SHOWN, f"be CSV, and the text is not ({error})") from None
    return _counts(name, [values], column, typed=False)


def _rows(file: TextIO, column: str | None, *, name: str, which: str = _COLUMN_TYPED) -> tuple[str, Any]:
    first = file.readline()
    if not first:
        raise InvalidArgument("counts", InWords(f"the empty {name}"), "be a file with at least one row")
    file.seek(0)
    rows = csv.reader(file, delimiter=max(_DELIMITERS, key=first.count), strict=True)
    header = next(rows, [])
    values: list[int] = []
    if column is None and len(header) == 1 and header[0].strip().isdecimal():
        index, title = 0, ""
        values.append(_count_of(header[0], 1))
    else:
        index = _position(header, column, which)
        title = header[index].strip()
    blank = 0
    for row in rows:
        number = rows.line_num
        if not row:  # allowed at the end of the file only: elsewhere it may be a missing value
            blank = blank or number
            continue
        if blank:
            raise InvalidArgument("counts", InWords(f"an empty line {blank}"), "be integers of at least 1")
        if len(row) != len(header):
            got, needed = InWords(f"{len(row)} in line {number}"), f"be in rows of {len(header)} columns like the first"
            raise InvalidArgument("counts", got, needed)
        values.append(_count_of(row[index], number))
        if len(values) > MOST_PEOPLE:
            raise InvalidArgument("counts", InWords("more"), f"be of at most {MOST_PEOPLE} people")
    return title, np.array(values, dtype=np.int64)


def _count_of(text: str, line: int) -> int:
    digits = text.strip()
    if not (digits.isdecimal() and len(digits) <= 18 and int(digits) >= 1):
        raise InvalidArgument("counts", InWords(f"{shown(digits)} in line {line}"), "be integers of at least 1")
    return int(digits)


def _parquet(path: str, column: str | None) -> tuple[str, Iterator[Any]]:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise GroupDPError("Parquet files need pyarrow: pip install 'groupdp[parquet]'.") from None
    try:
        file = parquet.ParquetFile(path)  # read_table would import pandas, which takes half a second
    except arrow.ArrowInvalid as error:
        raise InvalidArgument("counts", InWords(f"{shown(path)} ({shown(str(error))})"), "be a Parquet file") from None
    names = file.schema_arrow.names
    chosen = names[_position(names, column, _COLUMN_TYPED)]

    def parts() -> Iterator[Any]:
        with file:
            for batch in file.iter_batches(_ROWS, columns=[chosen], use_threads=False):
                values = batch.column(0)
                if values.null_count:
                    missing = InWords(f"{values.null_count} missing in {shown(chosen)}")
                    raise InvalidArgument("counts", missing, "not be missing")
                # to_numpy would import pandas, too
                yield np.from_dlpack(values) if arrow.types.is_integer(values.type) else values.to_numpy(False)

    return chosen, parts()


def _position(names: list[str], column: str | None, which: str) -> int:
    stripped = [name.strip() for name in names]
    if column is None:
        if len(stripped) == 1:
            return 0
        raise InvalidArgument("counts", InWords("several"), which, shown(", ".join(stripped)))
    if stripped.count(column) > 1:
        raise InvalidArgument("counts", InWords(f"{shown(column)} more than once"), "name a single column")
    if column not in stripped:
        raise InvalidArgument("counts", column, f"be one of the columns {shown(', '.join(stripped))}")
    return stripped.index(column)


def write_people(counted: Any, view: PeopleView, destination: Path) -> None:
    """`counted` (a pyarrow table: person, examples) with the bounds of each person's epsilon, in a file."""
    from groupdp.data import bounding
    from groupdp.data.duckdb_engine import Engine

    place = np.searchsorted(np.array(view.counts), counted.column(1).to_numpy())
    for side in ("lower", "upper"):
        bounds = np.array([getattr(bounds, side) for bounds in view.epsilon])
        counted = counted.append_column(f"epsilon_{side}", [bounds[place]])
    with Engine() as engine:
        engine.connection.register("people_table", counted)
        bounding.write_people(engine, "SELECT * FROM people_table", counted.column_names[0], destination)
