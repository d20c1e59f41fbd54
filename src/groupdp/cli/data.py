"""`groupdp count` and `groupdp bound`: how many examples each person has, and at most k of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from groupdp._validation import shown
from groupdp.cli.command import command
from groupdp.cli.options import (
    Adjacency,
    AsJSON,
    Epochs,
    Force,
    Steps,
    option,
    out_option,
    read_adjacency,
    read_integer,
    read_memory,
    read_number,
)
from groupdp.cli.output import emit_json, emit_table, name_written, progress_bar, require_new
from groupdp.cli.process import terminated_as_interrupted
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.neighbours import ADJACENCIES, SAME_SIZE
from groupdp.printing import counted, given_percent, lower_percent

_DATA = "The data"
#: What a bound of records with several owners is for.
_SEVERAL_OWNERS = (
    f"Who owns which record is public here, and the contents are protected: state {' or '.join(SAME_SIZE)}. Removing a "
    f"person would change which records of their co-owners are kept, so {ADJACENCIES[0]} is not valid."
)

Files = Annotated[
    list[str],
    typer.Argument(metavar="FILES", help="CSV (also .gz), Parquet or JSONL files, globs or directories; - is stdin."),
]
By = Annotated[str | None, option("--by", "COLUMN", "Every row is an example; this column says whose.", _DATA)]
OwnerColumns = Annotated[
    list[str] | None,
    option("--by", "COLUMN", "The column that says whose example a row is; several, or lists, for co-owners.", _DATA),
]
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


def known_columns(files: list[str], by: str | None, counts: str | None) -> tuple[Any, str | None]:
    """The column of people or of counts; if none is named, what the manifest of the table says."""
    if by is not None or counts is not None or len(files) != 1 or files[0] == "-":
        return by, counts
    from groupdp.data.counting import counts_column
    from groupdp.data.manifest import find_manifest

    known = find_manifest(files[0])
    if known is None:
        return by, counts
    if known.made_by == "count":
        return None, counts_column(known.by)
    return known.by if known.owners is None else known.owners["columns"], None


def require_by(files: list[str], by: list[str] | None, *, kind: str | None, memory: int) -> str | list[str]:
    """The column of people, or several of owners; where none is named, the error lists the columns."""
    if by:
        return by[0] if len(by) == 1 else by
    columns = ""
    if "-" not in files:
        from groupdp.data.choice import names_of
        from groupdp.data.duckdb_engine import Engine
        from groupdp.data.relations import open_relation

        with Engine(memory=memory) as engine:
            columns = f" ({names_of(open_relation(engine, files, kind=kind).columns)})"
    raise InvalidArgument("by", NOT_SHOWN, f"be given, as --by COLUMN: which column{columns} says whose a row is?")


def read_people(
    files: list[str],
    *,
    by: Any,
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
    from groupdp.data.manifest import find_manifest
    from groupdp.people.counts_file import read_counts

    if len(files) != 1:
        raise InvalidArgument("counts", InWords(f"{len(files)} (rows may be in several, with --by)"), "be in one file")
    listed = read_counts(files[0], counts)
    known = find_manifest(files[0]) if files[0] != "-" else None
    if known is None or known.owners is None:
        return listed
    from groupdp.data.report import Counts
    from groupdp.people.view import histogram_of

    values, people = histogram_of(listed)
    return Counts(examples=values, people_with=people, records=known.rows)


@command("count", "'rows/*.parquet' --by user_id --out counts.parquet")
def count(
    files: Files,
    *,
    by: OwnerColumns = None,
    kind: Kind = None,
    out: Annotated[
        str | None, out_option("FILE", "Write each person's number: Parquet, CSV or JSONL by suffix.")
    ] = None,
    memory: DataMemory = DEFAULT_DATA_MEMORY,
    scheduler: Scheduler = None,
    force: Force = False,
    as_json: AsJSON = False,
) -> None:
    """How many examples each person has, from a table with a row for every example."""
    budget = read_data_memory(memory)
    require_new(out, "out", force=force)
    columns = require_by(files, by, kind=kind, memory=budget)
    from groupdp.data import count as count_rows

    with terminated_as_interrupted(), progress_bar("count") as progress:
        found = count_rows(files, by=columns, out=out, memory=budget, kind=kind, client=scheduler, progress=progress)
    warn_of_alike(found)
    quantiles = {share: found.quantile(share) for share in (0.5, 0.9, 0.99, 0.999)}
    if as_json:
        emit_json(
            {
                "rows": found.rows,
                "people": found.people,
                "largest": found.largest,
                "alike": found.alike,
                "quantiles": {str(share): value for share, value in quantiles.items()},
                "by": columns,
                "records": found.records,
                "histogram": [
                    {"examples": int(n), "people": int(people)}
                    for n, people in zip(found.examples, found.people_with, strict=True)
                ],
            }
        )
        return
    rows = [
        (f"{given_percent(share)} of the people", f"at most {counted(value)}") for share, value in quantiles.items()
    ]
    records = f"{counted(found.records)} records, " if found.records is not None else ""
    emit_table(
        f"{records}{found.rows} examples of {found.people} people",
        ("who", "examples"),
        [*rows, ("everybody", f"at most {counted(found.largest)}")],
        note=f"{out} holds one row per person; do not publish it." if out is not None else "",
    )
    name_written(out)


_CHOICE = "The choice"
_AUTO = "With --at-most auto"


@command("bound", "rows.parquet --by user_id --key example_id --at-most 8 --seed 2026 --out bounded.parquet")
def bound(
    files: Files,
    *,
    by: OwnerColumns = None,
    kind: Kind = None,
    key: Annotated[
        str | None,
        option("--key", "COLUMNS", "Tells a person's examples apart: a column or a,b (else the whole row).", _CHOICE),
    ] = None,
    at_most: Annotated[
        str | None, option("--at-most", "INTEGER|auto", "Examples to keep of each person.", _CHOICE)
    ] = None,
    run: Annotated[
        str | None, option("--run", "RUN.TOML", "Instead: the group size of a run file, as cap saves one.", _CHOICE)
    ] = None,
    at_most_per: Annotated[
        str | None,
        option("--at-most-per", "COLUMN=CAPS", "Instead, for each source: source=8, or source=web:3,books:5.", _CHOICE),
    ] = None,
    seed: Annotated[str, option("--seed", "TEXT", "Another seed, another choice.", _CHOICE)] = "0",
    epsilon: Annotated[str | None, option("--epsilon", "NUMBER", "The epsilon to reach.", _AUTO)] = None,
    delta: Annotated[str | None, option("--delta", "NUMBER", "The delta to reach it at.", _AUTO)] = None,
    batch_size: Annotated[str | None, option("--batch-size", "INTEGER", "Examples in a batch.", _AUTO)] = None,
    steps: Steps = None,
    epochs: Epochs = None,
    minimum_share: Annotated[
        str | None, option("--minimum-share", "NUMBER", "Share of the examples that must be kept.", _AUTO)
    ] = None,
    adjacency: Adjacency = "add-or-remove",
    out: Annotated[str, out_option("FILE", "The rows kept: Parquet, CSV or JSONL by suffix.")],
    memory: DataMemory = DEFAULT_DATA_MEMORY,
    scheduler: Scheduler = None,
    force: Force = False,
    as_json: AsJSON = False,
) -> None:
    """Keep at most k examples of each person, chosen by a keyed hash of seed, person and key."""
    budget = read_data_memory(memory)
    question = {
        "epsilon": epsilon,
        "delta": delta,
        "batch_size": batch_size,
        "steps": steps,
        "epochs": epochs,
        "minimum_share": minimum_share,
    }
    if run is not None and at_most is None and at_most_per is None:
        at_most = _group_size(run)
    elif run is not None:
        raise InvalidArgument("run", run, "be left out where at_most or at_most_per is given")
    per, caps = _caps(at_most, at_most_per, question)
    from groupdp.data import bound as bound_rows
    from groupdp.data.counting import checked_suffix

    checked_suffix(out)
    require_new(out, "out", force=force)
    columns = require_by(files, by, kind=kind, memory=budget)
    common: dict[str, Any] = {"by": columns, "memory": budget, "kind": kind, "client": scheduler}
    with terminated_as_interrupted():
        if caps is None:
            if "-" in files:
                raise InvalidArgument("files", NOT_SHOWN, "not be standard input with --at-most auto: it is read twice")
            caps = _recommended(files, question, adjacency, common)
        with progress_bar("bound") as progress:
            found = bound_rows(
                files,
                key=None if key is None else tuple(name.strip() for name in key.split(",")),
                at_most=caps,
                per=per,
                seed=seed,
                out=out,
                progress=progress,
                **common,
            )
    warn_of_alike(found)
    if as_json:
        emit_json({**found.as_json(), "by": columns, "key": key, "out": out})
        return
    share = found.kept / found.rows
    emit_table(
        f"{counted(found.kept)} of {found.rows} examples kept ({lower_percent(share)})",
        ("what", "number"),
        [
            ("people", counted(found.people)),
            ("people who lost examples" if per is None else "people and sources cut", counted(found.people_cut)),
            ("most examples of one person before", counted(found.largest)),
            ("most examples of one person now", counted(found.largest_kept)),
            ("at most", str(found.at_most)),
            ("seed", found.seed),
            ("digest", found.digest),
            *([] if found.possible is None else [("records that any choice can keep, at most", str(found.possible))]),
        ],
        note="" if found.owners is None else _SEVERAL_OWNERS,
    )
    name_written(out)


def _group_size(path: str) -> str:
    """The group size of a run file, for which a dataset is to be bounded."""
    from groupdp.run_file.read import read_run_file

    size = read_run_file(path).group_size
    if not isinstance(size, int) or size < 1:
        raise InvalidArgument("run", path, "have a group_size of at least 1, which is then the cap")
    return str(size)


def _caps(
    at_most: str | None, at_most_per: str | None, question: dict[str, str | None]
) -> tuple[str | None, int | dict[str, int] | None]:
    """The column of sources, if any, and the caps; no caps where they are to be recommended."""
    if (at_most is None) == (at_most_per is None):
        raise InvalidArgument("at_most or at_most_per", NOT_SHOWN, "be given, and not both")
    if at_most != "auto":
        given = [name for name, value in question.items() if value is not None]
        if given:
            raise InvalidArgument(given[0], InWords(f"at_most = {shown(at_most)}"), "go with --at-most auto")
    if at_most is not None:
        return None, None if at_most == "auto" else read_integer("at_most", at_most, at_least=1)
    column, equals, text = (at_most_per or "").partition("=")
    if not equals or not column.strip() or not text.strip():
        raise InvalidArgument("at_most_per", at_most_per, "look like source=8 or source=web:3,books:5")
    if ":" not in text:
        return column.strip(), read_integer("at_most_per", text, at_least=1)
    caps: dict[str, int] = {}
    for part in text.split(","):
        source, colon, cap = part.rpartition(":")
        if not colon or not source.strip() or source.strip() in caps:
            raise InvalidArgument("at_most_per", part, "have one number for each source")
        caps[source.strip()] = read_integer("at_most_per", cap, at_least=0)
    return column.strip(), caps


def _recommended(files: list[str], question: dict[str, str | None], adjacency: str, common: dict[str, Any]) -> int:
    """The cap that `groupdp cap` recommends."""
    for name in ("epsilon", "delta", "batch_size", "minimum_share"):
        if question[name] is None:
            raise InvalidArgument(name, None, "be given with --at-most auto")
    numbers = {
        name: None
        if text is None
        else read_integer(name, text, at_least=1)
        if name in ("batch_size", "steps")
        else read_number(name, text)
        for name, text in question.items()
    }
    from groupdp.data import count
    from groupdp.people.cap import choose_cap

    with progress_bar("count") as progress:
        counts = count(files, progress=progress, **common)
    with progress_bar("cap") as progress:
        study = choose_cap(counts, **numbers, adjacency=read_adjacency(adjacency), progress=progress)  # type: ignore[arg-type]
    if study.recommended is None:
        raise AssertionError("a study with a question has a recommendation")
    return study.recommended
