"""`groupdp people`: each person's epsilon; and reading how many examples each person has."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import typer

from groupdp.cli.asked import Asked
from groupdp.cli.command import command
from groupdp.cli.data import DATA, FILES, KIND, MEMORY, keep_private, warn_of_alike
from groupdp.cli.options import PLOT, numbers, out, words
from groupdp.cli.output import NOT_TIGHT, Answer, Table, drawn, progress_bar
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.printing import counted, given, given_percent, lower_text, sides, upper_text

#: Rows of the table for people; JSON has them all.
_MOST_ROWS = 12
#: Shares of the people whose epsilon is printed.
_SHARES = (0.5, 0.9, 0.99)
#: The options of commands that read rows or a file of counts.
COUNTS: dict[str, Any] = {
    "files": FILES,
    "by": words("COLUMN", "Every row is an example; this column has its person.", DATA),
    "counts": words("COLUMN", "Every row is a person; this column has their number of examples.", DATA),
    "column": words("COLUMN", "The name of --counts in version 0.1.", DATA, hidden=True),
    "kind": KIND,
    "memory": MEMORY,
}


def columns_of(files: list[str], by: str | None, counts: str | None, column: str | None) -> tuple[Any, str | None]:
    """The column of people and that of counts; if neither is named, what the manifest of the table says."""
    if column is not None:
        if counts is not None:
            raise InvalidArgument.saying(
                "counts", "counts and column exclude each other: column is the old name of counts."
            )
        message = "--column is now called --counts; version 0.3 will not know it."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        typer.echo(message, err=True)
        counts = column
    if by is not None and counts is not None:
        raise InvalidArgument.saying("by", "by and counts exclude each other: a row is an example or a person.")
    if by is not None or counts is not None or len(files) != 1 or files[0] == "-":
        return by, counts
    from groupdp.data.bounding import counts_column
    from groupdp.data.manifest import find_manifest

    known = find_manifest(files[0])
    if known is None:
        return by, counts
    if known.made_by == "count":
        return None, counts_column(known.by)
    return known.by if known.owners is None else known.owners["columns"], None


def read_people(
    files: list[str],
    *,
    by: Any,
    counts: str | None,
    kind: str | None,
    memory: int,
    table: bool = False,
) -> Any:
    """The counts of all people, from rows or from a file of counts."""
    if by is not None:
        from groupdp.data import count

        with progress_bar("count") as progress:
            people = count(files, by=by, kind=kind, memory=memory, table=table, progress=progress)
        warn_of_alike(people)
        return people
    from groupdp.data.manifest import find_manifest
    from groupdp.people.counts_file import read_counts

    if len(files) != 1:
        raise InvalidArgument("counts", InWords(f"{len(files)} (rows may be in several, with --by)"), "be in one file")
    known = find_manifest(files[0]) if files[0] != "-" else None
    people = read_counts(files[0], counts)
    return people if known is None or known.owners is None else replace(people, records=known.rows)


@command(
    "people",
    "rows.parquet --by user_id --sampling-rate 0.01 --noise-multiplier 2 --steps 2000 --delta 1e-6",
    question=("delta", "adjacency"),
    run_as_option=True,
    **COUNTS,
    thresholds=numbers("Count the people whose epsilon is at most each of these.", "1,2,4,8", at_least=0.0),
    out=out("FILE", "Write each person's examples and epsilon: Parquet, CSV or JSONL (with --by)."),
    plot=PLOT,
)
def people(
    files: list[str],
    asked: Asked,
    *,
    by: str | None,
    counts: str | None,
    column: str | None,
    kind: str | None,
    memory: int,
    thresholds: list[float],
    out: str | None,
) -> Answer:
    """The epsilon of each person, from the number of examples each contributed."""
    by, counts = columns_of(files, by, counts, column)
    asked.require_one_source("people")
    target, chosen = asked.delta, asked.file.adjacency
    if out is not None and by is None:
        raise InvalidArgument("out", NOT_SHOWN, "be given with by: a file of counts has no names of people")
    from groupdp.people import people_view
    from groupdp.people.counts_file import write_people

    if out is not None:
        from groupdp.data.bounding import checked_suffix

        checked_suffix(out)
    read = read_people(files, by=by, counts=counts, kind=kind, memory=memory, table=out is not None)
    with progress_bar("people") as progress:
        view = people_view(asked.run, read, delta=target, adjacency=chosen, progress=progress)
    total = counted(view.total)
    notes = [
        f"{counted(view.protected(most))} of {total} people have an epsilon of at most {given(most)}."
        for most in thresholds
    ]
    if view.unprotected:
        without = f"{counted(view.unprotected)} of {total} people"
        notes.append(f"{without} have too many examples: not protected (see groupdp cap).")
    shares = [(f"{given_percent(share)} of the people", view.quantile(share)) for share in _SHARES]
    by_share = Table(
        f"{total} people, epsilon at delta = {target!r} ({chosen})",
        ("who", "epsilon"),
        [(who, f"at most {upper_text(bound, 6)}") for who, bound in [*shares, ("everybody", view.quantile(1.0))]],
        [*notes, keep_private(out)],
    )
    rows = list(zip(view.counts, view.people, view.epsilon, strict=True))
    kept = rows if len(rows) <= _MOST_ROWS else rows[: _MOST_ROWS - 1] + rows[-1:]
    by_count = Table(
        "By number of examples",
        ("examples", "people", "at least", "at most (the guarantee)"),
        [
            (counted(count), counted(n), lower_text(bounds.lower, 8), upper_text(bounds.upper, 8))
            for count, n, bounds in kept
        ],
        [
            "" if len(kept) == len(rows) else f"{len(rows) - len(kept)} more counts are in the output of --json.",
            "" if view.tight else NOT_TIGHT,
        ],
    )
    title = asked.title(group=False)
    return Answer(
        json={
            "people": view.total,
            "protected": [{"threshold": threshold, "people": view.protected(threshold)} for threshold in thresholds],
            "quantiles": {str(share): view.quantile(share) for share in (*_SHARES, 1.0)},
            "counts": [{"count": count, "people": n, "epsilon": sides(bounds)} for count, n, bounds in rows],
            "tight": view.tight,
            "not_protected": view.unprotected,
            "delta": target,
            "adjacency": chosen,
            "run": asked.run_as_json(),
        },
        about=asked.about(group=False),
        text=[by_share, "", by_count],
        files={
            "plot": drawn("studies.draw_people", view, title=title, thresholds=thresholds),
            "out": lambda path: write_people(read.table, view, path),
        },
    )
