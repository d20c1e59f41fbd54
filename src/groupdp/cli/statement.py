"""`groupdp statement`: a privacy statement for a run described in a TOML file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groupdp._validation import require_choice, shown
from groupdp.cli.asked import Asked
from groupdp.cli.options import example
from groupdp.cli.support import (
    AsJSON,
    NewFiles,
    dump_json,
    emit_json,
    emit_run,
    emit_text,
    handle_errors,
    option,
    progress_bar,
    read_number,
    require_new,
)
from groupdp.cli.table import output_width
from groupdp.cli.with_run import with_run
from groupdp.errors import InvalidArgument, InWords

if TYPE_CHECKING:
    from groupdp.statement.numbers import Statement

_EXAMPLE = example("groupdp statement run.toml --out statement.md")
#: Bytes of a certificate, at most (certificate/reading.py refuses more).
_LARGEST_CERTIFICATE = 1_000_000
#: Every format, with the suffix of its files.
_FORMATS = {"markdown": ".md", "text": ".txt", "latex": ".tex", "json": ".json"}

Prior = Annotated[
    str | None,
    option(
        "--prior",
        "NUMBER",
        "With --short: probability, before the release, of what an alarm claims (default 0.5).",
        "The question",
    ),
]
FalseAlarms = Annotated[
    str | None,
    option(
        "--false-alarms", "NUMBER", "With --short: the attacker's rate of false alarms (default 0.01).", "The question"
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="statement", epilog=_EXAMPLE)(handle_errors(statement))


@with_run(question=("delta", "group_size", "adjacency", "removed", "added"))
def statement(
    asked: Asked,
    *,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="|".join(_FORMATS),
            help="How to write it; if not given, by the suffix of --out, or markdown.",
            show_default=False,
            autocompletion=lambda: list(_FORMATS),
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Write it to a file instead of the terminal.", rich_help_panel="Output"
        ),
    ] = None,
    certificate: Annotated[
        str | None,
        typer.Option(
            "--certificate", metavar="CLAIM.JSON", help="Carry 'verified independently': a certificate of this claim."
        ),
    ] = None,
    short: Annotated[
        bool,
        typer.Option("--short", help="Only what the epsilon means for one person.", rich_help_panel="Output"),
    ] = False,
    prior: Prior = None,
    false_alarms: FalseAlarms = None,
    as_json: AsJSON = False,
) -> None:
    """A privacy statement for reviewers: what is guaranteed, for whom, and what it assumes."""
    if short:
        for name, value in (("format", form), ("out", out), ("certificate", certificate)):
            if value is not None:
                raise InvalidArgument(name, value, "be left out with --short")
        say_in_short(asked, prior, false_alarms, as_json=as_json)
        return
    for name, value in (("prior", prior), ("false_alarms", false_alarms)):
        if value is not None:
            raise InvalidArgument(name, value, "be given together with --short")
    chosen = _format(form, out, as_json=as_json)
    require_new(out, "out", force=asked.force)
    from groupdp.statement import text as statements

    width = statements.TEXT_WIDTH if out is not None else min(statements.TEXT_WIDTH, output_width())
    render: dict[str, Callable[[Statement], str]] = {
        "markdown": statements.as_markdown,
        "text": partial(statements.as_text, width=width),
        "latex": statements.as_latex,
    }
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


def say_in_short(asked: Asked, prior: str | None, false_alarms: str | None, *, as_json: bool) -> None:
    """Print what the epsilon means for one person, with certified numbers."""
    before = read_number("prior", "0.5" if prior is None else prior, above=0.0, below=1.0)
    rate = read_number("false_alarms", "0.01" if false_alarms is None else false_alarms, above=0.0, below=1.0)
    from groupdp.statement.explain import explain

    with progress_bar("statement") as progress:
        found = explain(
            asked.run,
            delta=asked.delta,
            prior=before,
            false_alarm_rate=rate,
            progress=progress,
            **asked.neighbours,
        )
    if as_json:
        emit_json({**found.as_json(), **asked.as_json_fields()})
        return
    emit_run(asked)
    typer.echo()
    for sentence in found.sentences():
        emit_text(f"- {sentence}", indent="  ")


def _format(form: str | None, out: str | None, *, as_json: bool) -> str:
    """The format that the options name, or else the suffix of the file."""
    if form is not None:
        require_choice("format", form, tuple(_FORMATS))
        if as_json and form != "json":
            raise InvalidArgument("format", form, "be json together with --json")
    asked = "json" if as_json else form
    suffix = "" if out is None else Path(out).suffix.lower()
    named = next((one for one, its in _FORMATS.items() if its == suffix), None)
    if asked is not None and named is not None and asked != named:
        raise InvalidArgument("out", out, f"end in {_FORMATS[asked]} for the format {asked}")
    return asked or named or "markdown"


def _read(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST_CERTIFICATE + 1)
    except OSError as error:
        raise InvalidArgument(
            "certificate", InWords(f"{shown(path)} ({error.strerror or error})"), "be a readable file"
        ) from None
