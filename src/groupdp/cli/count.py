"""`groupdp count`: how many examples each person has."""

from __future__ import annotations

from typing import Annotated

import typer

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
    AsJSON,
    Force,
    emit_json,
    emit_table,
    handle_errors,
    name_written,
    option,
    progress_bar,
    require_new,
)
from groupdp.cli.termination import terminated_as_interrupted
from groupdp.printing import given_percent

_EXAMPLE = example("groupdp count 'rows/*.parquet' --by user_id --out counts.parquet")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="count", epilog=_EXAMPLE)(handle_errors(count))


def count(
    files: Files,
    *,
    by: Annotated[str, option("--by", "COLUMN", "The column that says whose example a row is.", "The data")],
    kind: Kind = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write each person's number: Parquet, CSV or JSONL by suffix.",
            rich_help_panel="Output",
            show_default=False,
        ),
    ] = None,
    memory: DataMemory = DEFAULT_DATA_MEMORY,
    scheduler: Scheduler = None,
    force: Force = False,
    as_json: AsJSON = False,
) -> None:
    """How many examples each person has, from a table with a row for every example."""
    budget = read_data_memory(memory)
    require_new(out, "out", force=force)
    from groupdp.data import count as count_rows

    with terminated_as_interrupted(), progress_bar("count") as progress:
        found = count_rows(files, by=by, out=out, memory=budget, kind=kind, client=scheduler, progress=progress)
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
                "by": by,
                "histogram": [
                    {"examples": int(n), "people": int(people)}
                    for n, people in zip(found.examples, found.people_with, strict=True)
                ],
            }
        )
        return
    rows = [(f"{given_percent(share)} of the people", f"at most {value}") for share, value in quantiles.items()]
    emit_table(
        f"{found.rows} examples of {found.people} people",
        ("who", "examples"),
        [*rows, ("everybody", f"at most {found.largest}")],
        note=f"{out} tells each person's number of examples: it is not for publication." if out is not None else "",
    )
    name_written(out)
