"""`groupdp statement`: a privacy statement for a run described in a TOML file."""

from __future__ import annotations

from typing import Annotated

import typer

from groupdp._validation import require_choice, shown
from groupdp.cli.asked import Asked, with_run
from groupdp.cli.options import example
from groupdp.cli.support import AsJSON, NewFiles, dump_json, handle_errors, progress_bar, require_new
from groupdp.errors import InvalidArgument

_EXAMPLE = example("groupdp statement run.toml --out statement.md")
#: Bytes of a certificate, at most (certificate/reading.py refuses more).
_LARGEST_CERTIFICATE = 1_000_000
_FORMATS = ("markdown", "text", "latex", "json")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="statement", epilog=_EXAMPLE)(handle_errors(statement))


@with_run(question=("delta", "stated_group_size", "adjacency", "removed", "added"))
def statement(
    asked: Asked,
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
        str | None, typer.Option("--out", "-o", metavar="FILE", help="Write it to a file instead of the terminal.")
    ] = None,
    certificate: Annotated[
        str | None,
        typer.Option(
            "--certificate", metavar="CLAIM.JSON", help="Carry 'verified independently': a certificate of this claim."
        ),
    ] = None,
    as_json: AsJSON = False,
) -> None:
    """A privacy statement for reviewers: what is guaranteed, for whom, and what it assumes."""
    chosen = "json" if as_json else require_choice("format", form, _FORMATS)
    require_new(out, "out", force=asked.force)
    from groupdp.statement import text as statements

    render = {"markdown": statements.as_markdown, "text": statements.as_text, "latex": statements.as_latex}
    with NewFiles("out") as files:
        if out is not None:
            files.temporary(out)  # find out now whether it can be written
        with progress_bar("statement") as progress:
            made = statements.make_statement(asked.file, certificate=_read(certificate), progress=progress)
        text = dump_json(statements.as_json(made)) + "\n" if chosen == "json" else render[chosen](made)
        if out is None:
            typer.echo(text, nl=False)
            return
        files.write_text(out, text)
    typer.echo(f"wrote {out}", err=True)


def _read(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST_CERTIFICATE + 1)
    except OSError as error:
        raise InvalidArgument(
            f"certificate must be a readable file, got {shown(path)} ({error.strerror or error})."
        ) from None
