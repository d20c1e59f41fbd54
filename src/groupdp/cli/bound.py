"""`groupdp bound`: keep at most k examples of each person."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from groupdp._validation import shown
from groupdp.cli.counts_input import (
    DEFAULT_DATA_MEMORY,
    DataMemory,
    Files,
    Kind,
    Scheduler,
    read_data_memory,
    warn_of_alike,
)
from groupdp.cli.options import example
from groupdp.cli.support import (
    Adjacency,
    AsJSON,
    Epochs,
    Force,
    Steps,
    emit_json,
    emit_table,
    handle_errors,
    name_written,
    option,
    progress_bar,
    read_adjacency,
    read_integer,
    read_number,
    require_new,
)
from groupdp.cli.termination import terminated_as_interrupted
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.printing import lower_percent

_EXAMPLE = example(
    "groupdp bound rows.parquet --by user_id --key example_id --at-most 8 --seed 2026 --out bounded.parquet"
)
_CHOICE = "The choice"
_AUTO = "With --at-most auto"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="bound", epilog=_EXAMPLE)(handle_errors(bound))


def bound(
    files: Files,
    *,
    by: Annotated[str, option("--by", "COLUMN", "The column that says whose example a row is.", "The data")],
    kind: Kind = None,
    key: Annotated[
        str | None,
        option("--key", "COLUMNS", "Tells a person's examples apart: a column or a,b (else the whole row).", _CHOICE),
    ] = None,
    at_most: Annotated[
        str | None, option("--at-most", "INTEGER|auto", "Examples to keep of each person.", _CHOICE)
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
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="The rows kept: Parquet, CSV or JSONL by suffix.",
            rich_help_panel="Output",
            show_default=False,
        ),
    ],
    memory: DataMemory = DEFAULT_DATA_MEMORY,
    scheduler: Scheduler = None,
    force: Force = False,
    as_json: AsJSON = False,
) -> None:
    """Keep at most so many examples of each person, chosen by a keyed hash of seed, person and key."""
    budget = read_data_memory(memory)
    question = {
        "epsilon": epsilon,
        "delta": delta,
        "batch_size": batch_size,
        "steps": steps,
        "epochs": epochs,
        "minimum_share": minimum_share,
    }
    per, caps = _caps(at_most, at_most_per, question)
    from groupdp.data import bound as bound_rows
    from groupdp.data.counting import checked_suffix

    checked_suffix(out)
    require_new(out, "out", force=force)
    common: dict[str, Any] = {"by": by, "memory": budget, "kind": kind, "client": scheduler}
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
        emit_json({**found.as_json(), "by": by, "key": key, "out": out})
        return
    share = found.kept / found.rows
    emit_table(
        f"{found.kept} of {found.rows} examples kept ({lower_percent(share)})",
        ("what", "number"),
        [
            ("people", str(found.people)),
            ("people who lost examples" if per is None else "people and sources cut", str(found.people_cut)),
            ("most examples of one person before", str(found.largest)),
            ("most examples of one person now", str(found.largest_kept)),
            ("at most", str(found.at_most)),
            ("seed", found.seed),
            ("digest", found.digest),
        ],
    )
    name_written(out)


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
