"""Rows of a sweep as CSV or Parquet; an interrupted sweep goes on where it stopped.

While a sweep runs, every finished chunk is a file of its own in FILE.parts, in the format of FILE, and appears there
whole; manifest.json says which sweep it is. At the end the parts, in order, are the file, and the folder goes. One part
is in memory at a time.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from groupdp._files import NewFiles
from groupdp.errors import GroupDPError, InvalidArgument
from groupdp.sweeps.grid import Grid
from groupdp.sweeps.sweep import Row

SUFFIXES = (".csv", ".parquet")
_RESULTS = ("epsilon_lower", "epsilon_upper", "tight", "refused")


def check_name(name: str, path: str) -> None:
    """Refuse a name that ends in neither .csv nor .parquet."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise InvalidArgument(name, path, "end in .csv or .parquet")


class Parts:
    """The finished chunks of a sweep, beside the file that they become."""

    def __init__(self, path: str, grid: Grid) -> None:
        check_name("out", path)
        self._path, self._grid = Path(path), grid
        self._folder = Path(f"{path}.parts")
        self._suffix = Path(path).suffix.lower()
        self._schema = _schema(grid) if self._suffix == ".parquet" else None

    def begin(self) -> set[int]:
        """The first points of the chunks that an earlier run of the same sweep has finished; parts of another sweep are
        removed."""
        manifest, key = self._folder / "manifest.json", _key(self._grid)
        try:
            same = json.loads(manifest.read_text(encoding="utf-8")) == key
        except (OSError, ValueError):
            same = False
        if not same:
            self.remove()
            with NewFiles() as files:
                files.write_text(manifest, json.dumps(key) + "\n")
        starts = range(0, len(self._grid), self._grid.chunk)
        return {start for start in starts if self._part(start).exists()}

    def write(self, start: int, rows: list[Row]) -> None:
        """Write one chunk; its file appears whole."""
        with NewFiles() as files:
            path = files.temporary(self._part(start))
            if self._schema is None:
                with open(path, "w", encoding="utf-8", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows(row.as_dict().values() for row in rows)
            else:
                import pyarrow.parquet

                flat = [row.as_dict() for row in rows]
                pyarrow.parquet.write_table(pyarrow.Table.from_pylist(flat, self._schema), path)

    def assemble(self) -> None:
        """The whole file, in order; it appears at once, and the parts go."""
        starts = range(0, len(self._grid), self._grid.chunk)
        with NewFiles() as files:
            path = files.temporary(self._path)
            if self._schema is None:
                with open(path, "w", encoding="utf-8", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerow((*self._grid.names, *_RESULTS))
                    for start in starts:
                        file.write(self._part(start).read_text(encoding="utf-8"))
            else:
                import pyarrow.parquet

                with pyarrow.parquet.ParquetWriter(path, self._schema) as writer:
                    for start in starts:
                        writer.write_table(pyarrow.parquet.read_table(self._part(start), schema=self._schema))
        self.remove()

    def rows(self) -> Iterator[Row]:
        """The rows of the file, from its parts."""
        for start in range(0, len(self._grid), self._grid.chunk):
            chosen = self._grid.values(start, start + self._grid.chunk)
            for values, results in zip(chosen, self._results(start), strict=True):
                yield Row(dict(zip(self._grid.names, values, strict=True)), *results)

    def _results(self, start: int) -> Iterator[tuple[Any, ...]]:
        if self._schema is not None:
            import pyarrow.parquet

            columns = pyarrow.parquet.read_table(self._part(start)).select(_RESULTS).to_pydict()
            yield from zip(*columns.values(), strict=True)
            return
        with open(self._part(start), encoding="utf-8", newline="") as file:
            for line in csv.reader(file):
                lower, upper, tight, refused = line[-len(_RESULTS) :]
                known = (None, None, None) if refused else (float(lower), float(upper), tight == "True")
                yield *known, refused or None

    def remove(self) -> None:
        """Delete the parts, and their folder if nothing else is in it."""
        for pattern in ("manifest.json", "part-*.csv", "part-*.parquet"):
            for path in self._folder.glob(pattern):
                path.unlink(missing_ok=True)
        try:
            self._folder.rmdir()
        except OSError:  # it is not there, or somebody put something into it
            return

    def _part(self, start: int) -> Path:
        return self._folder / f"part-{start:07}{self._suffix}"


def _schema(grid: Grid) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise GroupDPError("Parquet files need the extra parquet: pip install 'groupdp[parquet]'.") from None
    varied = [(name, pyarrow.array(values).type) for name, values in grid.vary]
    types = (pyarrow.float64(), pyarrow.float64(), pyarrow.bool_(), pyarrow.string())
    return pyarrow.schema([*varied, *zip(_RESULTS, types, strict=True)])


def _key(grid: Grid) -> str:
    """A digest of the whole question."""
    described: dict[str, Any] = {
        "phases": [phase.values() for phase in grid.phases],
        "delta": grid.delta,
        "group_size": grid.group_size,
        "adjacency": grid.adjacency,
        "vary": [[name, list(values)] for name, values in grid.vary],
        "chunk": grid.chunk,
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
