"""`groupdp curve`: epsilon against group size, with the baselines beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groupdp._validation import shown
from groupdp.bounds import Bounds, upper_or_both
from groupdp.cli.asked import Asked
from groupdp.cli.options import example
from groupdp.cli.support import (
    AsJSON,
    NewFiles,
    emit_json,
    emit_run,
    emit_table,
    handle_errors,
    name_written,
    progress_bar,
    read_group_sizes,
    require_new,
    upper_text,
)
from groupdp.cli.with_run import with_run
from groupdp.errors import InvalidArgument, InWords

if TYPE_CHECKING:
    from groupdp.baselines.comparison import Point

_EXAMPLE = example(
    "groupdp curve --sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --delta 1e-6 --group-sizes 1:16 --plot a.png"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="curve", epilog=_EXAMPLE)(handle_errors(curve))


@with_run(question=("delta", "adjacency"))
def curve(
    asked: Asked,
    *,
    group_sizes: Annotated[
        str, typer.Option("--group-sizes", metavar="SIZES", help="1:32, or 1:32:4 (every fourth), or 1,2,4.")
    ] = "1:32",
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="FILE", help="Draw it: PNG, PDF or SVG by suffix.", rich_help_panel="Output"),
    ] = None,
    csv: Annotated[str | None, typer.Option("--csv", metavar="FILE", help="Write the data as CSV.")] = None,
    as_json: AsJSON = False,
) -> None:
    """epsilon against group size: the tight value, and earlier methods."""
    asked.require_one_source("a curve")
    run, target, chosen = asked.run, asked.delta, asked.file.adjacency
    sizes = read_group_sizes(group_sizes)
    from groupdp.baselines.comparison import as_csv, compare
    from groupdp.figures.curves import check_picture_name, draw_curves, save_figure

    if plot is not None:
        check_picture_name("plot", plot)
    require_new(plot, "plot", force=asked.force)
    require_new(csv, "csv", force=asked.force)
    if plot is not None and csv is not None and Path(plot).resolve() == Path(csv).resolve():
        raise InvalidArgument("csv", InWords(f"{shown(csv)} for both"), "be another file than plot")
    with NewFiles() as files:
        for name, path in (("plot", plot), ("csv", csv)):
            if path is not None:
                files.temporary(path, name=name)  # find out now whether it can be written
        with progress_bar("curve") as progress:
            points = compare(run, delta=target, group_sizes=sizes, adjacency=chosen, progress=progress)
        if plot is not None:
            from groupdp.figures import title_lines

            title = title_lines(asked.title(group=False), 90)
            save_figure(draw_curves([("", points)], title=title), files.temporary(plot))
        if csv is not None:
            files.write_text(csv, as_csv(points))
    if as_json:
        emit_json(
            {
                "points": [point.as_json() for point in points],
                "delta": target,
                "adjacency": chosen,
                "run": asked.run_as_json(),
            }
        )
        return
    emit_run(asked, group=False)
    columns: list[tuple[str, Callable[[Point], float | Bounds | None]]] = [
        ("this analysis", lambda point: point.epsilon.upper),
        ("k x one", lambda point: point.linear.upper),
        ("Vadhan, exact", lambda point: point.vadhan),
        ("Vadhan, old tool", lambda point: point.old_tool),
        ("Poisson claim", lambda point: point.poisson_claim),
    ]
    present = [(name, value) for name, value in columns if any(value(point) is not None for point in points)]
    notes = ["k x one example is a reference line, not a guarantee."]
    if any(point.vadhan is not None and not point.vadhan.provenance.tolerance_met for point in points):
        notes.append("Where two numbers are shown, what Vadhan's lemma gives is only known to lie between them.")
    if not points[0].epsilon.tight:
        notes.append("This analysis is valid, not tight.")
    if points[0].poisson_claim is not None:
        notes.append("The Poisson claim is not a guarantee for this run: its batches are not sampled like that.")
    emit_table(
        f"epsilon at delta = {target!r} against group size ({chosen}); upper bounds, rounded up",
        ("k", *(name for name, _ in present)),
        [
            (
                str(point.group_size),
                *(_text(value(point)) for _, value in present),
            )
            for point in points
        ],
        note=" ".join(notes),
    )

    name_written(plot, csv)


def _text(value: float | Bounds | None) -> str:
    """A guarantee's side, or both sides where they differ."""
    if value is None:
        return ""
    return upper_or_both(value, 6) if isinstance(value, Bounds) else upper_text(value, 6)
