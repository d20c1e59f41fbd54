"""`groupdp statement`: a privacy statement for a run described in a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from groupdp._validation import require_choice, shown
from groupdp.cli.support import AsJSON, NewFiles, dump_json, handle_errors, progress_bar
from groupdp.errors import InvalidArgument

_EXAMPLE = """
Example:

    groupdp statement run.toml --out statement.md
"""
_FORMATS = ("markdown", "text", "json")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="statement", epilog=_EXAMPLE)(handle_errors(statement))


def statement(
    run_file: Annotated[str, typer.Argument(metavar="RUN.TOML", help="The run: docs/statement.md has the format.")],
    *,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="|".join(_FORMATS),
            help="How to write it.",
            autocompletion=lambda: list(_FORMATS),
        ),
    ] = "markdown",
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Write it to a file instead of the terminal.")
    ] = None,
    as_json: AsJSON = False,
) -> None:
    """A privacy statement for reviewers: what is guaranteed, for whom, and what it assumes."""
    chosen = "json" if as_json else require_choice("format", form, _FORMATS)
    from groupdp.run_file.read import read_run_file
    from groupdp.statement import text as statements

    run = read_run_file(run_file)
    if out is not None and Path(out).resolve() == Path(run_file).resolve():
        raise InvalidArgument(f"out must be another file than the run file, got {shown(out)}.")
    with NewFiles("out") as files:
        if out is not None:
            files.temporary(out)  # find out now whether it can be written
        with progress_bar("statement") as progress:
            made = statements.make_statement(run, progress=progress)
        if chosen == "json":
            text = dump_json(statements.as_json(made)) + "\n"
        else:
            text = statements.as_markdown(made) if chosen == "markdown" else statements.as_text(made)
        if out is not None:
            files.write_text(out, text)
        else:
            typer.echo(text, nl=False)
