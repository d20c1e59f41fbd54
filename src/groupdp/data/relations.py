"""Files, standard input and tables in memory as one DuckDB relation.

CSV columns are read as text: 007 stays 007. Every row must have the header's columns; another one is refused with its
line. The delimiter is the one that occurs most often in the header; nothing else is guessed.

Lines are measured before DuckDB reads them: it silently loses a row whose line is longer than its buffer. A file with
lines that end in different ways, which DuckDB refuses, is copied, with a line feed at the end of every row.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import mmap
import os
import re
import shutil
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from groupdp._files import read_file, standard_input
from groupdp.data.choice import literal, names_of, quoted
from groupdp.data.duckdb_engine import Engine
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, require_choice, shown

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
FORMATS = ("csv", "parquet", "jsonl")
_DELIMITERS = (",", ";", "\t", "|")
#: Longest line of a CSV file, and of its header.
_LONGEST_LINE = 16 * 2**20
#: The error about files and tables without rows.
NO_ROWS = ("the files or table", InWords("none"), "have at least one row of data besides a header")
#: Columns with this prefix are ours.
PREFIX = "__groupdp_"


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows to read, as often as needed: a table expression, and the columns with their types."""

    sql: str
    columns: Mapping[str, str]


def open_relation(engine: Engine, source: Any, *, kind: str | None = None) -> Relation:
    """The relation of paths (files, globs, directories, - for standard input) or of a table in memory."""
    if isinstance(source, str | os.PathLike) or (
        isinstance(source, Sequence) and source and all(isinstance(path, str | os.PathLike) for path in source)
    ):
        paths = [source] if isinstance(source, str | os.PathLike) else list(source)
        return _files(engine, *find_files([os.fspath(path) for path in paths], kind, engine.folder))
    if isinstance(source, list | tuple):
        raise InvalidArgument("source", source, "be paths or a table")
    return _table(engine, source)


def find_files(paths: Sequence[str], kind: str | None, folder: Path) -> tuple[list[str], str]:
    """The files that the paths mean, in order, and their common format; standard input is stored in `folder`."""
    if kind is not None:
        require_choice("format", kind, FORMATS)
    files: list[str] = []
    for path in paths:
        if path == "-":
            kind = kind or "csv"
            files.append(str(folder / f"stdin.{kind}"))  # it is read more than once
            try:
                with open(files[-1], "wb") as stored:
                    shutil.copyfileobj(standard_input(), stored)
            except OSError as error:
                needed = f"fit into TMPDIR ({error.strerror})"
                raise InvalidArgument("standard input", NOT_SHOWN, needed) from None
        elif os.path.isdir(path):
            inside = [os.path.join(root, name) for root, _, names in os.walk(path) for name in names]
            matches = [name for name in inside if _kind_of(name) and not os.path.basename(name).startswith((".", "_"))]
            if not matches:
                needed = "be CSV, Parquet or JSONL"
                raise InvalidArgument("files", InWords(f"none in the directory {shown(path)}"), needed)
            files += sorted(matches)
        elif os.path.exists(path):
            files.append(path)
        else:
            matches = sorted(glob.glob(path, recursive=True))
            if not matches:
                raise InvalidArgument("files", InWords(f"{shown(path)}, which matches nothing"), "exist")
            files += matches
    if len(set(map(os.path.realpath, files))) < len(files):
        raise InvalidArgument("files", InWords("one of them more than once"), "be different files")
    kinds = {kind or _kind_of(file) for file in files}
    if None in kinds:
        unknown = next(file for file in files if not _kind_of(file))
        raise InvalidArgument("files", unknown, "end in .csv, .csv.gz, .parquet or .jsonl (or give a format)")
    if len(kinds) > 1:
        raise InvalidArgument("files", InWords(" and ".join(sorted(map(str, kinds)))), "have one format")
    return files, str(kinds.pop())


def _kind_of(path: str) -> str | None:
    name = path.lower()
    kind = _SUFFIXES.get(os.path.splitext(name.removesuffix(".gz"))[1])
    return None if kind == "parquet" and name.endswith(".gz") else kind


def _files(engine: Engine, files: list[str], kind: str) -> Relation:
    for file in files:
        if not read_file("files", file, most=0, requirement="be readable"):
            raise InvalidArgument("files", InWords(f"the empty {shown(file)}"), "have at least one row")
    relation = {"csv": _csv, "parquet": _parquet, "jsonl": _jsonl}[kind](engine, files)
    _check_names(relation.columns)
    return relation


def _check_names(names: Collection[str]) -> None:
    folded = Counter(name.casefold() for name in names)
    for name in names:
        if not name or name.startswith(PREFIX) or folded[name.casefold()] > 1:
            raise InvalidArgument("columns", name, "have names that differ in more than case")


def _csv(engine: Engine, files: list[str]) -> Relation:
    header, delimiter = read_header(files[0])
    for file in files[1:]:
        if read_header(file) != (header, delimiter):
            raise InvalidArgument("files", InWords(f"{shown(files[0])} and {shown(file)}"), "have the same header")
    if len(set(header)) < len(header):
        raise InvalidArgument("columns", InWords(names_of(header)), "have different names")
    _check_names(header)
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header)
    files = [readable_lines(file, delimiter=delimiter, longest=_LONGEST_LINE, folder=engine.folder) for file in files]
    sql = (
        f"read_csv({_list(files)}, auto_detect = false, header = true, columns = {{{columns}}}, "
        f"delim = {literal(delimiter)}, quote = '\"', escape = '\"', strict_mode = true, null_padding = false, "
        f"ignore_errors = false, max_line_size = {_LONGEST_LINE})"
    )
    return Relation(sql, dict.fromkeys(header, "VARCHAR"))


def read_header(file: str) -> tuple[list[str], str]:
    """The names in a CSV file's first line, and its delimiter: of , ; | and tab the one between most names."""
    try:
        with opened(file) as content:
            first = content.readline(_LONGEST_LINE)
            while first.count(b'"') % 2 and len(first) < _LONGEST_LINE and (more := content.readline(_LONGEST_LINE)):
                first += more  # a name may have a line end between its quotes
        line = first.decode("utf-8-sig")
        unquoted = re.split(r"[\r\n]", re.sub(r'"(?:[^"]++|"")*+"', "", line))[0]
        delimiter = max(_DELIMITERS, key=unquoted.count)
        names = next(csv.reader(io.StringIO(line, newline=""), delimiter=delimiter, strict=True), [])
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidArgument("files", InWords(f"{shown(file)} ({error})"), "be CSV in UTF-8") from None
    if not names:
        raise InvalidArgument("files", file, "begin with a line of column names")
    return [name.strip() for name in names], delimiter


def _parquet(engine: Engine, files: list[str]) -> Relation:
    import pyarrow.parquet

    for file in files:
        try:
            names = pyarrow.parquet.read_schema(file).names
        except (pyarrow.ArrowException, OSError):
            continue  # DuckDB says what is wrong with it
        _check_names(names)  # DuckDB would call the second of a and A a_1
    first = _described(engine, f"read_parquet({_list(files[:1])}, hive_partitioning = false)")
    for file in files[1:]:
        if _described(engine, f"read_parquet({_list([file])}, hive_partitioning = false)") != first:
            raise InvalidArgument("files", InWords(f"{shown(files[0])} and {shown(file)}"), "have the same columns")
    return Relation(f"read_parquet({_list(files)}, hive_partitioning = false)", first)


def _jsonl(engine: Engine, files: list[str]) -> Relation:
    # All of it is read to find the columns: a field that appears late must not be dropped.
    types = _described(engine, f"read_json({_list(files)}, format = 'newline_delimited', sample_size = -1)")
    if any(re.search(r"_\d+$", name) for name in types):  # perhaps a_1 is what DuckDB calls the second of a and A
        objects = f"read_json_objects({_list(files)}, format = 'newline_delimited')"
        names = engine.rows(f"SELECT DISTINCT unnest(json_keys(json)) FROM {objects}")
        _check_names([str(name) for (name,) in names])
    # Texts that look like dates or UUIDs stay the texts that they are; so do identifiers of mixed types.
    texts = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID", "JSON")
    kinds = {name: "VARCHAR" if kind in texts else kind for name, kind in types.items()}
    columns = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in kinds.items())
    return Relation(f"read_json({_list(files)}, format = 'newline_delimited', columns = {{{columns}}})", kinds)


def _table(engine: Engine, table: Any) -> Relation:
    """A pandas, Polars or Arrow table, or a DuckDB relation, which is stored first: it has its own connection."""
    import pyarrow

    name = f"{PREFIX}table"
    module = type(table).__module__.split(".")[0].lstrip("_")
    if module == "polars":
        table = (table.collect() if hasattr(table, "collect") else table).to_arrow()
    elif module == "pandas":
        try:
            table = pyarrow.Table.from_pandas(table, preserve_index=False)
        except (pyarrow.ArrowException, TypeError, ValueError) as error:
            needed = f"be a table with one type a column ({shown(str(error))})"
            raise InvalidArgument("source", NOT_SHOWN, needed) from None
    elif module == "duckdb" and hasattr(table, "write_parquet"):
        file = str(engine.folder / "relation.parquet")
        table.write_parquet(file)
        return _files(engine, [file], "parquet")
    if not isinstance(table, pyarrow.Table):
        needed = "be paths, a pandas, Polars or Arrow table, a DuckDB relation or a Dask DataFrame"
        raise InvalidArgument("source", table, needed)
    _check_names(table.column_names)
    engine.connection.register(name, table)
    return Relation(quoted(name), _described(engine, quoted(name)))


def _described(engine: Engine, sql: str) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in engine.rows(f"DESCRIBE SELECT * FROM {sql}")}


def _list(files: Sequence[str]) -> str:
    """Paths in SQL; what would be a pattern in them stands for itself."""
    plain = (re.sub(r"[*?[]", r"[\g<0>]", file) for file in files)
    return "[" + ", ".join(literal(os.path.abspath(file)) for file in plain) + "]"


#: Bytes looked at in one go.
_BLOCK = 2**20


def readable_lines(file: str, *, delimiter: str, longest: int, folder: Path) -> str:
    """`file`, or a copy in `folder` where its lines end in different ways; refuses lines of more than `longest` bytes.

    A line is refused once it is longer than `longest` by a block at most; DuckDB refuses those between.
    """
    if not _has_mixed_ends(file, longest):
        return file
    made = folder / f"line-ends-{len(list(folder.glob('line-ends-*')))}"
    made.mkdir()
    copy = made / Path(file).name.removesuffix(".gz").removesuffix(".GZ")
    plain = Path(file)
    if file.lower().endswith(".gz"):
        plain = made / "unpacked"
        with opened(file) as packed, open(plain, "wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
    with open(plain, "rb") as source, open(copy, "wb") as target:
        _with_line_feeds(source, target, delimiter)
    return str(copy)


def opened(file: str) -> BinaryIO:
    """The bytes of a file, unpacked if its name ends in .gz."""
    return cast(BinaryIO, gzip.open(file, "rb") if file.lower().endswith(".gz") else open(file, "rb"))


def _has_mixed_ends(file: str, longest: int) -> bool:
    """Whether the file has two of the three line ends: CR LF, LF, CR."""
    lines, begun = 1, 0
    decoder = io.IncrementalNewlineDecoder(None, translate=True)
    try:
        with opened(file) as source:
            while block := source.read(min(_BLOCK, longest)):
                text = decoder.decode(block.decode("latin-1"))
                first, last = text.find("\n"), text.rfind("\n")
                if begun + (len(text) if first < 0 else first) > longest:
                    longer = InWords(f"a longer line {lines} of {shown(file)}")
                    raise InvalidArgument("every line", longer, f"be at most {longest} bytes")
                begun = begun + len(text) if last < 0 else len(text) - 1 - last
                lines += text.count("\n")
        decoder.decode("", final=True)
    except (OSError, EOFError) as error:
        raise InvalidArgument("files", InWords(f"{shown(file)} ({error})"), "be CSV in UTF-8") from None
    return isinstance(decoder.newlines, tuple)


def _with_line_feeds(source: BinaryIO, target: BinaryIO, delimiter: str) -> None:
    """Copy, with every line end outside of quoted values an LF."""
    mark = re.escape(delimiter.encode())
    # A quote opens a value only where a value begins; elsewhere it is an ordinary character.
    token = re.compile(rb"(?:(?<=[\r\n])|(?<=" + mark + rb')|\A)"(?:[^"]++|"")*+(?:"|\Z)|\r\n?+|\n')
    with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as content:
        end = 0
        for match in token.finditer(content):
            if match[0][:1] in (b"\r", b"\n"):
                target.write(content[end : match.start()] + b"\n")
                end = match.end()
        target.write(content[end:])
