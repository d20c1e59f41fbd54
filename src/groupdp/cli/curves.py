"""`groupdp curve` and `groupdp spend`: epsilon against group size, and against steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from groupdp.bounds import Bounds, upper_or_both
from groupdp.cli.asked import Asked
from groupdp.cli.command import command
from groupdp.cli.options import OUTPUT, number, read_counts, words
from groupdp.cli.output import NOT_TIGHT, emit_json, emit_run, emit_table, name_written, new_files, progress_bar
from groupdp.drawing import save_figure, title_lines
from groupdp.printing import counted, given, lower_text, sides, upper_text

if TYPE_CHECKING:
    from groupdp.baselines.comparison import Point
    from groupdp.sweeps.spend import Spending


@command(
    "curve",
    "--sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --delta 1e-6 --group-sizes 1:16 --plot a.png",
    question=("delta", "adjacency"),
    group_sizes=words("SIZES", "1:32, or 1:32:4 (every fourth), or 1,2,4.", default="1:32", read=read_counts),
    csv=words("FILE", "Write the data as CSV.", OUTPUT),
)
def curve(asked: Asked, *, group_sizes: list[int], plot: str | None, csv: str | None, as_json: bool) -> None:
    """epsilon against group size: the tight value, and earlier methods."""
    asked.require_one_source("a curve")
    run, target, chosen = asked.run, asked.delta, asked.file.adjacency
    from groupdp.baselines.comparison import as_csv, compare

    with new_files(force=asked.force, plot=plot, csv=csv) as files:
        with progress_bar("curve") as progress:
            points = compare(run, delta=target, group_sizes=group_sizes, adjacency=chosen, progress=progress)
        if plot is not None:
            from groupdp.figures.curves import draw_curves

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
        [(str(point.group_size), *(_bound_text(value(point)) for _, value in present)) for point in points],
        note=" ".join(notes),
    )
    name_written(plot, csv)


def _bound_text(value: float | Bounds | None) -> str:
    """A guarantee's side, or both sides where they differ."""
    if value is None:
        return ""
    return upper_or_both(value, 6) if isinstance(value, Bounds) else upper_text(value, 6)


@command(
    "spend",
    "run.toml --target 8 --plot spend.png",
    target=number("An epsilon: at which step is it reached?", above=0.0),
)
def spend(asked: Asked, *, target: float | None, plot: str | None, as_json: bool) -> None:
    """epsilon against steps: the budget spent after each epoch."""
    from groupdp.sweeps.spend import spend as spent

    with new_files(force=asked.force, plot=plot) as files:
        with progress_bar("spend") as progress:
            found = spent(asked.run, delta=asked.delta, target=target, progress=progress, **asked.neighbours)
        if plot is not None:
            from groupdp.figures.curves import draw_spending

            save_figure(draw_spending(found, title=title_lines(asked.title())), files.temporary(plot))
    if as_json:
        emit_json(
            {
                "points": [
                    {"steps": point.steps, "epoch": point.epoch, "epsilon": sides(point.epsilon)}
                    for point in found.points
                ],
                "tight": _is_tight(found),
                "target": found.target,
                "last_step_within": found.last_step_within,
                "delta": asked.delta,
                **asked.as_json_fields(),
            }
        )
        return
    emit_run(asked)
    _emit_spending(found, f"epsilon spent at delta = {asked.delta!r} for {asked.group_text()}")
    name_written(plot)


def _emit_spending(found: Spending, title: str) -> None:
    """The ends of epochs, or steps evenly spread; about twenty rows, the last step among them."""
    by_epoch = any(point.epoch for point in found.points)
    rows = [point for point in found.points if point.epoch or not by_epoch]
    every = max(1, math.ceil(len(rows) / 20))
    shown = [one for index, one in enumerate(rows, 1) if index % every == 0]
    if not shown or shown[-1] is not found.points[-1]:
        shown.append(found.points[-1])
    emit_table(
        title,
        (*(["after epoch"] if by_epoch else []), "after step", "at least", "at most (the guarantee)"),
        [
            (
                *([str(one.epoch or "")] if by_epoch else []),
                counted(one.steps),
                lower_text(one.epsilon.lower),
                upper_text(one.epsilon.upper),
            )
            for one in shown
        ],
        note="\n".join(note for note in (_reached(found), "" if _is_tight(found) else NOT_TIGHT) if note),
    )


def _is_tight(found: Spending) -> bool:
    return all(point.epsilon.tight for point in found.points)


def _reached(found: Spending) -> str:
    if found.target is None:
        return ""
    if found.last_step_within is None:
        return f"epsilon = {given(found.target)} is exceeded from the first step on."
    if found.last_step_within == found.points[-1].steps:
        return f"epsilon = {given(found.target)} is not reached: all {found.last_step_within} steps are within it."
    return f"The last step within epsilon = {given(found.target)} is step {counted(found.last_step_within)}."
