"""Rows of a sweep as CSV or Parquet; an interrupted sweep goes on where it stopped.

While a sweep runs, finished rows are kept in FILE.partial (JSON lines; the first line says which sweep it is). The
file itself appears whole, at the end, and the partial one goes.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from groupdp._files import NewFiles
from groupdp.errors import GroupDPError, InvalidArgument
from groupdp.sweeps.grid import Grid
from groupdp.sweeps.sweep import Row

SUFFIXES = (".csv", ".parquet")


def check_name(name: str, path: str) -> None:
    """Refuses a file that is neither CSV nor Parquet by its suffix."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise InvalidArgument(name, path, "end in .csv or .parquet")


class PartialRows:
    """The rows of an unfinished sweep, kept beside the file they are for."""

    def __init__(self, path: str, grid: Grid) -> None:
        self._path = Path(f"{path}.partial")
        self._grid = grid
        self._key = _key(grid)
        self._file: TextIO | None = None

    def read(self) -> list[Row]:
        """What an earlier, interrupted run of the same sweep has finished; nothing if there was none or another one."""
        try:
            with open(self._path, encoding="utf-8") as file:
                if json.loads(file.readline() or "null") != self._key:
                    return []
                return list(self._rows(file))
        except (OSError, ValueError):
            return []

    def _rows(self, file: TextIO) -> Iterator[Row]:
        points = self._grid.points()
        for line, point in zip(file, points, strict=False):
            try:
                lower, upper, tight, refused = json.loads(line)
            except ValueError:  # the line that was being written when it was stopped
                return
            values = dict(zip(self._grid.names, point.values, strict=True))
            yield Row(values, _number(lower), _number(upper), tight, refused)

    def write(self, rows: list[Row]) -> None:
        """Appends finished rows."""
        if self._file is None:
            self._file = open(self._path, "w", encoding="utf-8")  # noqa: SIM115
            self._file.write(json.dumps(self._key) + "\n")
        kept = ([_text(row.epsilon_lower), _text(row.epsilon_upper), row.tight, row.refused] for row in rows)
        self._file.write("".join(json.dumps(sides) + "\n" for sides in kept))
        self._file.flush()

    def close(self) -> None:
        """Leaves the partial file for a later run."""
        if self._file is not None:
            self._file.close()

    def remove(self) -> None:
        """The sweep is finished."""
        self.close()
        self._path.unlink(missing_ok=True)


def write_rows(rows: list[Row], path: str) -> None:
    """The rows as a table, by suffix; the file appears whole or not at all."""
    check_name("out", path)
    with NewFiles("out") as files:
        if Path(path).suffix.lower() == ".csv":
            with open(files.temporary(path), "w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(rows[0].as_dict())
                writer.writerows(row.as_dict().values() for row in rows)
        else:
            _parquet(rows, str(files.temporary(path)))


def _parquet(rows: list[Row], path: str) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise GroupDPError("Parquet files need the extra parquet: pip install 'groupdp[parquet]'.") from None
    flat = [row.as_dict() for row in rows]
    table = pyarrow.table({name: [row[name] for row in flat] for name in flat[0]})
    pyarrow.parquet.write_table(table, path)


def _key(grid: Grid) -> str:
    """A digest of the whole question."""
    described: dict[str, Any] = {
        "phases": [phase.values() for phase in grid.phases],
        "delta": grid.delta,
        "group_size": grid.group_size,
        "adjacency": grid.adjacency,
        "vary": [[name, list(values)] for name, values in grid.vary],
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def _text(value: float | None) -> str | None:
    return None if value is None else repr(value)


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)
