"""`groupdp import-run`: a run file from a checkpoint, a history or hyperparameters of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from groupdp.cli.options import example
from groupdp.cli.support import (
    AsJSON,
    Force,
    NewFiles,
    emit_json,
    emit_text,
    fail,
    handle_errors,
    option,
    read_adjacency,
    read_integer,
    read_number,
    require_new,
)
from groupdp.errors import InvalidArgument, InWords

_EXAMPLE = example("groupdp import-run checkpoint.pt --delta 1e-6 -o run.toml")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="import-run", epilog=_EXAMPLE)(handle_errors(import_run))


def import_run(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A checkpoint of Opacus, or in JSON a history of it, hyperparameters of TensorFlow Privacy or "
            "DpParams of JAX Privacy: docs/integrations.md.",
        ),
    ],
    *,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="RUN.TOML", help="The run file to write.", rich_help_panel="Output")
    ],
    group_size: Annotated[
        str | None, option("--group-size", "INTEGER", "Examples of one person, unless the source says.", "The question")
    ] = None,
    delta: Annotated[str | None, option("--delta", "NUMBER", "Delta, unless the source says.", "The question")] = None,
    adjacency: Annotated[
        str | None, option("--adjacency", "NAME", "Adjacency, unless the source says.", "The question")
    ] = None,
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Title of the run.")] = "",
    force: Force = False,
    as_json: AsJSON = False,
) -> None:
    """Write a run file for what another tool's training left behind."""
    from groupdp.integrations.import_run import import_run as read
    from groupdp.run_file.read import LARGEST_FILE, RunFile, parse_run_file
    from groupdp.run_file.write import run_file_text

    if Path(out).resolve() == Path(source).resolve():
        raise InvalidArgument("out", out, "be another file than the source")
    require_new(out, "out", force=force)
    try:
        found = read(source)
    except ImportError as error:
        fail(str(error))
    size = read_integer("group_size", group_size, at_least=1) if group_size is not None else found.group_size
    target = read_number("delta", delta, above=0.0, below=1.0) if delta is not None else found.delta
    chosen = read_adjacency(adjacency) if adjacency is not None else found.adjacency or "add-or-remove"
    text = run_file_text(
        RunFile(
            title=title.strip() or f"Run from {Path(source).name}",
            phases=found.phases,
            delta=target,
            group_size=size,
            adjacency=chosen,
        )
    )
    if len(text.encode()) > LARGEST_FILE:
        raise InvalidArgument(
            "source",
            InWords(f"{len(found.phases)} phases"),
            f"have few enough phases for a run file of {LARGEST_FILE} bytes",
        )
    parse_run_file(text, name=out)  # whatever the format refuses is refused before anything is written
    with NewFiles("out") as files:
        files.write_text(out, text)
    steps = sum(phase.steps for phase in found.phases)
    missing = [name for name, value in (("group_size", size), ("delta", target)) if value is None]
    if as_json:
        emit_json(
            {
                "out": out,
                "source": found.source,
                "run": [phase.values() for phase in found.phases],
                "group_size": size,
                "delta": target,
                "adjacency": chosen,
                "missing": missing,
            }
        )
        return
    emit_text(f"{out}: {found.source}, {steps} steps in {_counted(len(found.phases), 'phase')}.")
    if missing:
        emit_text(f"The source does not say {' and '.join(missing)}: give it here, in the file, or with the question.")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
