"""How commands read people: rows with a user column (--by), or numbers of examples (--counts)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from groupdp.cli.options import option
from groupdp.cli.values import read_memory
from groupdp.errors import InvalidArgument, InWords

_DATA = "The data"

Files = Annotated[
    list[str],
    typer.Argument(metavar="FILES", help="CSV (also .gz), Parquet or JSONL files, globs or directories; - is stdin."),
]
By = Annotated[str | None, option("--by", "COLUMN", "Every row is an example; this column says whose.", _DATA)]
CountsColumn = Annotated[
    str | None,
    option("--counts", "COLUMN", "Every row is a person; this column says with how many examples.", _DATA),
]
OldColumn = Annotated[
    str | None,
    typer.Option("--column", metavar="COLUMN", hidden=True, help="The name of --counts in version 0.1."),
]
Kind = Annotated[
    str | None, option("--format", "csv|parquet|jsonl", "The files' format, where the suffix does not say.", _DATA)
]
Scheduler = Annotated[
    str | None,
    option("--scheduler", "ADDRESS", "A Dask scheduler such as tcp://host:8786: its workers read.", "The computation"),
]
DataMemory = Annotated[
    str,
    option("--memory", "SIZE", "Most memory, such as 1G; more than that spills to TMPDIR.", "The computation"),
]
DEFAULT_DATA_MEMORY = "1.5G"


def column_of(counts: str | None, column: str | None) -> str | None:
    """The column of counts, also by the option's name in version 0.1, which is kept for one release."""
    if column is None:
        return counts
    if counts is not None:
        raise InvalidArgument.saying(
            "counts", "counts and column exclude each other: column is the old name of counts."
        )
    warnings.warn("--column is now called --counts; version 0.3 will not know it.", DeprecationWarning, stacklevel=2)
    typer.echo("--column is now called --counts; version 0.3 will not know it.", err=True)
    return column


def read_data_memory(text: str) -> int:
    """The budget of memory for rows."""
    return read_memory(text)


def warn_of_alike(found: Any) -> None:
    """Say on stderr how many people look alike, if any do."""
    from groupdp.data.report import alike_in_words

    if found.alike:
        typer.echo(alike_in_words(found.alike), err=True)


def read_people(
    files: list[str],
    *,
    by: str | None,
    counts: str | None,
    kind: str | None = None,
    memory: str = DEFAULT_DATA_MEMORY,
    table: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Any:
    """The counts of all people: a `groupdp.data.Counts` from rows, or an array from a file of counts."""
    if by is not None and counts is not None:
        raise InvalidArgument.saying("by", "by and counts exclude each other: a row is an example or a person.")
    if by is not None:
        from groupdp.data import count

        found = count(files, by=by, kind=kind, memory=read_data_memory(memory), table=table, progress=progress)
        warn_of_alike(found)
        return found
    from groupdp.people.counts_file import read_counts

    if len(files) != 1:
        raise InvalidArgument("counts", InWords(f"{len(files)} (rows may be in several, with --by)"), "be in one file")
    return read_counts(files[0], counts)
