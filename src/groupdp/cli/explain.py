"""`groupdp spend`: how an epsilon is spent while training goes on; and `explain`, an old spelling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from groupdp.cli.asked import Asked
from groupdp.cli.options import example
from groupdp.cli.statement import FalseAlarms, Prior, say_in_short
from groupdp.cli.support import (
    NOT_TIGHT,
    AsJSON,
    NewFiles,
    bounds_as_json,
    emit_json,
    emit_run,
    emit_table,
    handle_errors,
    lower_text,
    name_written,
    option,
    progress_bar,
    read_number,
    require_new,
    upper_text,
)
from groupdp.cli.with_run import with_run
from groupdp.printing import given

if TYPE_CHECKING:
    from groupdp.sweeps.spend import Spending

_EXPLAIN_EXAMPLE = example("groupdp explain run.toml --prior 0.1 --false-alarms 0.01")
_SPEND_EXAMPLE = example("groupdp spend run.toml --target 8 --plot spend.png")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(name="explain", hidden=True, epilog=_EXPLAIN_EXAMPLE)(handle_errors(explain))
    app.command(name="spend", epilog=_SPEND_EXAMPLE)(handle_errors(spend))


@with_run()
def explain(asked: Asked, *, prior: Prior = None, false_alarms: FalseAlarms = None, as_json: AsJSON = False) -> None:
    """The old spelling of `groupdp statement --short`."""
    typer.echo("groupdp explain is now groupdp statement --short; the old spelling works in this release.", err=True)
    say_in_short(asked, prior, false_alarms, as_json=as_json)


@with_run()
def spend(
    asked: Asked,
    *,
    target: Annotated[
        str | None, option("--target", "NUMBER", "An epsilon: at which step is it reached?", "The question")
    ] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Draw it: PNG, PDF or SVG.", rich_help_panel="Output")
    ] = None,
    as_json: AsJSON = False,
) -> None:
    """epsilon against steps: the budget spent after each epoch."""
    limit = None if target is None else read_number("target", target, above=0.0)
    require_new(plot, "plot", force=asked.force)
    from groupdp.figures.curves import check_picture_name, save_figure
    from groupdp.sweeps.spend import spend as spent

    if plot is not None:
        check_picture_name("plot", plot)
    with NewFiles("plot") as files:
        if plot is not None:
            files.temporary(plot)  # find out now whether it can be written
        with progress_bar("spend") as progress:
            found = spent(asked.run, delta=asked.delta, target=limit, progress=progress, **asked.neighbours)
            if plot is not None:
                from groupdp.figures import title_lines
                from groupdp.figures.spending import draw_spending

                save_figure(draw_spending(found, title=title_lines(asked.title())), files.temporary(plot))
    if as_json:
        emit_json(
            {
                "points": [
                    {"steps": one.steps, "epoch": one.epoch, "epsilon": bounds_as_json(one.epsilon)}
                    for one in found.points
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
    by_epoch = any(one.epoch for one in found.points)
    rows = [one for one in found.points if one.epoch or not by_epoch]
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
                str(one.steps),
                lower_text(one.epsilon.lower),
                upper_text(one.epsilon.upper),
            )
            for one in shown
        ],
        note="\n".join(note for note in (_reached(found), "" if _is_tight(found) else NOT_TIGHT) if note),
    )


def _is_tight(found: Spending) -> bool:
    return all(one.epsilon.tight for one in found.points)


def _reached(found: Spending) -> str:
    if found.target is None:
        return ""
    if found.last_step_within is None:
        return f"epsilon = {given(found.target)} is exceeded from the first step on."
    if found.last_step_within == found.points[-1].steps:
        return f"epsilon = {given(found.target)} is not reached: all {found.last_step_within} steps are within it."
    return f"The last step within epsilon = {given(found.target)} is step {found.last_step_within}."
