"""`groupdp figures`: both figures of the paper, their data, and what was measured for each claim."""

from __future__ import annotations

import itertools
from pathlib import Path

import typer

from groupdp._files import NewFiles
from groupdp.cli.command import command
from groupdp.cli.options import OUTPUT, choice, out
from groupdp.cli.output import UNLIMITED, emit_json, emit_text, output_width, progress_bar, require_new, table_text
from groupdp.errors import InvalidArgument, InWords

_KINDS = ("png", "pdf", "svg")


@command(
    "figures",
    "--out figures",
    out=out("DIRECTORY", "Where the files go (figures if not given).", default="figures"),
    kind=choice(_KINDS, "Kind of pictures.", OUTPUT, default="png", metavar="|".join(_KINDS)),
)
def figures(*, out: str, kind: str, force: bool, as_json: bool) -> None:
    """Both figures of the paper: pictures, data as CSV, and a summary of its claims."""
    if out == "":
        raise InvalidArgument("out", InWords("an empty one"), "be the name of a directory")
    from groupdp.figures import paper
    from groupdp.figures.paper import figure_process, write_figure

    directory = Path(out)
    here, beside = (name for name, *_ in paper.SAMPLINGS)
    written = []
    with NewFiles("out") as files:
        for name in (here, beside):  # find out now whether they can be written
            written += [directory / f"{name}.{kind}", directory / f"{name}.csv"]
        written.append(directory / "summary.md")
        for path in written:
            require_new(str(path), "out", force=force)
            files.temporary(path)
        with (
            progress_bar("figures") as progress,
            figure_process(beside, files.temporary(directory / f"{beside}.{kind}")) as other,
        ):
            panels = write_figure(here, files.temporary(directory / f"{here}.{kind}"), progress=progress)
            panels += other.panels()
        for name in (here, beside):
            own = [panel for panel in panels if panel.sampling == name]
            files.write_text(directory / f"{name}.csv", paper.figure_csv(own))
        text = paper.summary(panels)
        files.write_text(directory / "summary.md", text)
    if as_json:
        emit_json(
            {
                "files": [str(path) for path in written],
                "panels": [
                    {
                        "sampling": panel.sampling,
                        "noise_multiplier": panel.noise_multiplier,
                        "points": [point.as_json() for point in panel.points],
                    }
                    for panel in panels
                ],
            }
        )
        return
    emit_summary(text)
    typer.echo("Written:")
    for path in written:
        typer.echo(f"  {path}")


def emit_summary(markdown: str) -> None:
    """The summary as it is; in a terminal its tables and paragraphs are fitted to the width."""
    width = output_width()
    if width == UNLIMITED:
        typer.echo(markdown)
        return
    for tabular, lines in itertools.groupby(markdown.split("\n"), key=lambda line: line.startswith("|")):
        if not tabular:
            emit_text("\n".join(lines))
            continue
        columns, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
        typer.echo(table_text(columns, rows, width=width))
