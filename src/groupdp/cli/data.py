"""Rows and counts of examples: `groupdp count`, how many each person has; `groupdp bound`, at most k of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import typer

from groupdp.cli.command import command, terminated_as_interrupted
from groupdp.cli.options import (
    COMPUTATION,
    EPOCHS_OF_RUN,
    STEPS,
    argument,
    choice,
    integer,
    number,
    out,
    read_memory,
    words,
)
from groupdp.cli.output import Answer, Table, progress_bar, values_of
from groupdp.engines import Progress
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.fields import integer as read_integer
from groupdp.neighbours import ADJACENCIES, SAME_SIZE
from groupdp.printing import counted, given_percent, lower_percent

DATA = "The data"
#: What a bound of records with several owners is for.
_SEVERAL_OWNERS = (
    "Records have several owners. A guarantee protects their contents, and not who owns which record: state it for the "
    f"adjacency {' or '.join(SAME_SIZE)}. {ADJACENCIES[0].capitalize()} is not valid, because removing a person would "
    "change which records of their co-owners are kept."
)

FILES = argument("FILES", "CSV (also .gz), Parquet or JSONL files, globs or directories; - is stdin.", several=True)
KIND = words("csv|parquet|jsonl", "Format of the files, if their suffix does not say.", DATA, names=("--format",))
MEMORY = words(
    "SIZE", "Memory limit, such as 1G; data beyond it spill to TMPDIR.", COMPUTATION, default="1.5G", read=read_memory
)
#: The options of commands that read rows: --by several times, or a column of lists, where a record has several owners.
_ROWS: dict[str, Any] = {
    "files": FILES,
    "by": words(
        "COLUMN",
        "Column with the person of each row; several columns, or lists, for co-owners.",
        DATA,
        several=True,
    ),
    "kind": KIND,
    "memory": MEMORY,
    "scheduler": words("ADDRESS", "Dask scheduler such as tcp://host:8786, whose workers read files.", COMPUTATION),
}


def warn_of_alike(counts: Any) -> None:
    """Say on stderr how many people have identifiers that look alike, if any."""
    from groupdp.data.manifest import alike_in_words

    if counts.alike:
        typer.echo(alike_in_words(counts.alike), err=True)


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
    raise InvalidArgument("by", NOT_SHOWN, f"be given, as --by COLUMN: which column{columns} has the person of a row?")


#: The options of commands that read rows or a file of counts.
COUNTS: dict[str, Any] = {
    "files": FILES,
    "by": words("COLUMN", "Every row is an example; this column has its person.", DATA),
    "counts": words("COLUMN", "Every row is a person; this column has their number of examples.", DATA),
    "kind": KIND,
    "memory": MEMORY,
}


def columns_of(files: list[str], by: str | None, counts: str | None) -> tuple[Any, str | None]:
    """The column of people and that of counts; if neither is named, what the manifest of the table says."""
    if by is not None and counts is not None:
        raise InvalidArgument.saying("by", "by and counts exclude each other: a row is an example or a person.")
    known = None if by is not None or counts is not None else _manifest(files)
    if known is None:
        return by, counts
    if known.made_by == "count":
        from groupdp.data.bounding import counts_column

        return None, counts_column(known.by)
    return known.by if known.owners is None else known.owners["columns"], None


def _manifest(files: list[str]) -> Any:
    from groupdp.data.manifest import find_manifest

    return find_manifest(files[0]) if len(files) == 1 and files[0] != "-" else None


def read_people(
    files: list[str], *, by: Any, counts: str | None, kind: str | None, memory: int, table: bool = False
) -> Any:
    """The counts of all people, from rows or from a file of counts."""
    if by is not None:
        from groupdp.data import count

        with progress_bar("count") as progress:
            people = count(files, by=by, kind=kind, memory=memory, table=table, progress=progress)
        warn_of_alike(people)
        return people
    from groupdp.people.counts_file import read_counts

    if len(files) != 1:
        raise InvalidArgument("counts", InWords(f"{len(files)} (rows may be in several, with --by)"), "be in one file")
    known, people = _manifest(files), read_counts(files[0], counts)
    return people if known is None or known.owners is None else replace(people, records=known.rows)


@command(
    "count",
    "'rows/*.parquet' --by user_id --out counts.parquet",
    **_ROWS,
    out=out("FILE", "Write each person's number of examples: Parquet, CSV or JSONL by suffix.", writes="itself"),
)
def count(
    files: list[str], *, by: list[str] | None, out: str | None, scheduler: str | None, progress: Progress, **source: Any
) -> Answer:
    """How many examples each person has, from a table with a row for every example."""
    columns = require_by(files, by, **source)
    from groupdp.data import count as count_rows

    with terminated_as_interrupted():
        counts = count_rows(files, by=columns, out=out, client=scheduler, progress=progress, **source)
    warn_of_alike(counts)
    quantiles = {share: counts.quantile(share) for share in (0.5, 0.9, 0.99, 0.999)}
    histogram = zip(counts.examples, counts.people_with, strict=True)
    payload = {
        **values_of(counts, ("rows", "people", "largest", "alike")),
        "quantiles": {str(share): value for share, value in quantiles.items()},
        "by": columns,
        "records": counts.records,
        "histogram": [{"examples": int(n), "people": int(people)} for n, people in histogram],
    }
    shares = [(f"{given_percent(share)} of the people", value) for share, value in quantiles.items()]
    records = f"{counted(counts.records)} records, " if counts.records is not None else ""
    table = Table(
        f"{records}{counts.rows} examples of {counts.people} people",
        ("who", "examples"),
        [(who, f"at most {counted(most)}") for who, most in [*shares, ("everybody", counts.largest)]],
        [keep_private(out)],
    )
    return Answer(json=payload, text=[table])


def keep_private(out: str | None) -> str:
    """A note on a file with a row per person, if one was written."""
    return "" if out is None else f"{out} holds one row per person; do not publish it."


_CHOICE = "The choice"
_AUTO = "With --at-most auto"


@command(
    "bound",
    "rows.parquet --by user_id --key example_id --at-most 8 --seed 2026 --out bounded.parquet",
    **_ROWS,
    key=words("COLUMNS", "Column that differs between a person's examples, or a,b (default: the whole row).", _CHOICE),
    at_most=words("INTEGER|auto", "Examples to keep of each person.", _CHOICE),
    run=words("RUN.TOML", "Instead of --at-most: the group size of this run file; cap --save writes one.", _CHOICE),
    at_most_per=words("COLUMN=CAPS", "Instead of --at-most, by source: source=8 or source=web:3,books:5.", _CHOICE),
    seed=words("TEXT", "Seed of the choice: another seed chooses other examples.", _CHOICE, default="0"),
    epsilon=number("The epsilon to reach.", _AUTO),
    delta=number("The delta of the target.", _AUTO),
    batch_size=integer("Examples in a batch.", _AUTO),
    steps=replace(STEPS, panel=_AUTO),
    epochs=replace(EPOCHS_OF_RUN, panel=_AUTO),
    minimum_share=number("Share of the examples that must be kept.", _AUTO),
    adjacency=choice(ADJACENCIES, "The adjacency of the target (default add-or-remove).", _AUTO),
    out=out("FILE", "The rows kept: Parquet, CSV or JSONL by suffix.", required=True, writes="itself"),
)
def bound(
    files: list[str],
    *,
    by: list[str] | None,
    kind: str | None,
    key: str | None,
    at_most: str | None,
    run: str | None,
    at_most_per: str | None,
    seed: str,
    adjacency: str | None,
    out: str,
    memory: int,
    scheduler: str | None,
    **question: Any,
) -> Answer:
    """Keep at most k examples of each person, chosen by a keyed hash of seed, person and key."""
    if sum(given is not None for given in (at_most, at_most_per, run)) != 1:
        needed = "be given once: as --at-most 8, as --at-most-per source=8, or as --run RUN.TOML (its group size)"
        raise InvalidArgument("at_most", NOT_SHOWN, needed)
    per, caps = _caps(at_most if run is None else _group_size(run), at_most_per, question)
    from groupdp.data import bound as bound_rows
    from groupdp.data.bounding import checked_suffix

    checked_suffix(out)
    columns = require_by(files, by, kind=kind, memory=memory)
    common: dict[str, Any] = {"by": columns, "memory": memory, "kind": kind, "client": scheduler}
    with terminated_as_interrupted():
        if caps is None:
            if "-" in files:
                needed = "not be standard input with --at-most auto, which reads the rows twice"
                raise InvalidArgument("files", NOT_SHOWN, needed)
            caps = _recommended(files, {**question, "adjacency": adjacency or ADJACENCIES[0]}, common)
        keys = None if key is None else tuple(name.strip() for name in key.split(","))
        with progress_bar("bound") as progress:
            bounded = bound_rows(
                files, key=keys, at_most=caps, per=per, seed=seed, out=out, progress=progress, **common
            )
    warn_of_alike(bounded)
    cut = "people who lost examples" if per is None else "people with fewer examples of a source"
    rows = [
        ("people", counted(bounded.people)),
        (cut, counted(bounded.people_cut)),
        ("most examples of one person before", counted(bounded.largest)),
        ("most examples of one person now", counted(bounded.largest_kept)),
        ("cap", str(bounded.at_most)),
        ("seed", bounded.seed),
        ("digest", bounded.digest),
    ]
    if bounded.possible is not None:
        rows.append(("records that any choice can keep, at most", str(bounded.possible)))
    kept = f"{counted(bounded.kept)} of {bounded.rows} examples kept ({lower_percent(bounded.kept / bounded.rows)})"
    return Answer(
        json={**bounded.as_json(), "by": columns, "key": key, "out": out},
        text=[Table(kept, ("what", "number"), rows, ["" if bounded.owners is None else _SEVERAL_OWNERS])],
    )


def _group_size(path: str) -> str:
    """The group size of a run file, as the cap of a dataset."""
    from groupdp.run_file import read_run_file

    size = read_run_file(path).group_size
    if not isinstance(size, int) or size < 1:
        raise InvalidArgument("run", path, "have a group_size of at least 1, which is then the cap")
    return str(size)


def _caps(
    at_most: str | None, at_most_per: str | None, question: dict[str, Any]
) -> tuple[str | None, int | dict[str, int] | None]:
    """The column of sources, if any, and the caps; no caps where they are to be recommended."""
    if at_most != "auto":
        for name, value in question.items():
            if value is not None:
                raise InvalidArgument(name, value, "be left out unless --at-most auto is given")
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


def _recommended(files: list[str], question: dict[str, Any], common: dict[str, Any]) -> Any:
    """The cap that `groupdp cap` recommends; with a minimum share there is one."""
    for name in ("epsilon", "delta", "batch_size", "minimum_share"):
        if question[name] is None:
            option = f"--{name.replace('_', '-')}"
            raise InvalidArgument(name, NOT_SHOWN, f"be given with --at-most auto, as {option}")
    from groupdp.data import count
    from groupdp.people.cap import choose_cap

    with progress_bar("count") as progress:
        counts = count(files, progress=progress, **common)
    with progress_bar("cap") as progress:
        return choose_cap(counts, **question, progress=progress).recommended
