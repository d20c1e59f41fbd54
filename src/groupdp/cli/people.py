"""`groupdp people` and `groupdp cap`: each person's epsilon, and how many examples of each person to keep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupdp.cli.asked import Asked
from groupdp.cli.cap_run import filled, with_batch
from groupdp.cli.counts_input import (
    DEFAULT_DATA_MEMORY,
    By,
    CountsColumn,
    DataMemory,
    Files,
    Kind,
    OldColumn,
    column_of,
    read_people,
)
from groupdp.cli.options import example
from groupdp.cli.support import (
    NOT_TIGHT,
    AsJSON,
    Epochs,
    Epsilon,
    Force,
    NewFiles,
    Steps,
    bounds_as_json,
    emit_json,
    emit_run,
    emit_table,
    emit_text,
    handle_errors,
    lower_text,
    name_written,
    option,
    progress_bar,
    read_adjacency,
    read_integer,
    read_number,
    require_new,
    upper_text,
)
from groupdp.cli.with_run import require_run_option, with_run
from groupdp.errors import NOT_SHOWN, InvalidArgument
from groupdp.neighbours import ADJACENCIES
from groupdp.printing import given

if TYPE_CHECKING:
    from groupdp.people.cap import CapStudy

_PEOPLE_EXAMPLE = example(
    "groupdp people rows.parquet --by user_id --sampling-rate 0.01 --noise-multiplier 2 --steps 2000 --delta 1e-6"
)
_CAP_EXAMPLE = example(
    "groupdp cap rows.parquet --by user_id --epsilon 8 --delta 1e-6 --batch-size 1024 --steps 2000 --minimum-share 0.8"
)

_RUN = "The run"
Plot = Annotated[
    str | None,
    typer.Option("--plot", metavar="FILE", help="Draw it: PNG, PDF or SVG by suffix.", rich_help_panel="Output"),
]

#: Rows of the table for people; JSON has them all.
_MOST_ROWS = 40


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(name="people", epilog=_PEOPLE_EXAMPLE)(handle_errors(people))
    app.command(name="cap", epilog=_CAP_EXAMPLE)(handle_errors(cap))


@with_run(question=("delta", "adjacency"), run_as_option=True)
def people(
    files: Files,
    asked: Asked,
    *,
    by: By = None,
    counts: CountsColumn = None,
    column: OldColumn = None,
    kind: Kind = None,
    memory: DataMemory = DEFAULT_DATA_MEMORY,
    thresholds: Annotated[
        str, option("--thresholds", "LIST", "Count the people with an epsilon of at most these.", "The question")
    ] = "1,2,4,8",
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write each person's examples and epsilon: Parquet, CSV or JSONL (with --by).",
            rich_help_panel="Output",
        ),
    ] = None,
    plot: Plot = None,
    as_json: AsJSON = False,
) -> None:
    """The epsilon of each person, from the number of examples each contributed."""
    counts = column_of(counts, column)
    asked.require_one_source("people")
    run, target, chosen = asked.run, asked.delta, asked.file.adjacency
    require_new(plot, "plot", force=asked.force)
    require_new(out, "out", force=asked.force)
    limits = [read_number("thresholds", text, at_least=0.0) for text in thresholds.split(",")]
    if out is not None and by is None:
        raise InvalidArgument("out", NOT_SHOWN, "go with by: a file of counts does not say who the people are")
    from groupdp.people.view import people_view

    with NewFiles("plot") as new:
        _check_plot(plot, new)
        destination = None if out is None else check_destination(out, new)
        with progress_bar("count") as progress:
            found = read_people(
                files, by=by, counts=counts, kind=kind, memory=memory, table=out is not None, progress=progress
            )
        with progress_bar("people") as progress:
            view = people_view(run, found, delta=target, adjacency=chosen, progress=progress)
        if plot is not None:
            from groupdp.figures import title_lines
            from groupdp.figures.people import draw_people

            draw_people(view, new.temporary(plot), title=title_lines(asked.title(group=False)), thresholds=limits)
        if destination is not None:
            from groupdp.people.per_person import write_people

            write_people(found.table, view, destination)
    if as_json:
        emit_json(
            {
                "people": view.total,
                "protected": [{"threshold": one, "people": view.protected(one)} for one in limits],
                "quantiles": {str(share): view.quantile(share) for share in (0.5, 0.9, 0.99, 1.0)},
                "counts": [
                    {"count": count, "people": n, "epsilon": bounds_as_json(bounds)}
                    for count, n, bounds in zip(view.counts, view.people, view.epsilon, strict=True)
                ],
                "tight": view.tight,
                "not_protected": view.unprotected,
                "delta": target,
                "adjacency": chosen,
                "run": asked.run_as_json(),
            }
        )
        return
    shown = list(zip(view.counts, view.people, view.epsilon, strict=True))
    note = "\n".join(
        f"{view.protected(one)} of {view.total} people have an epsilon of at most {given(one)}." for one in limits
    )
    if view.unprotected:
        note += f"\n{view.unprotected} of {view.total} people have too many examples: not protected (see groupdp cap)."
    if not view.tight:
        note += f"\n{NOT_TIGHT}"
    if out is not None:
        note += f"\n{out} tells each person's number of examples: publishing it would break their privacy."
    if len(shown) > _MOST_ROWS:
        note = f"{len(shown) - _MOST_ROWS} more counts are in the JSON output (--json).\n{note}"
        shown = shown[: _MOST_ROWS - 1] + shown[-1:]
    emit_run(asked, group=False)
    emit_table(
        f"epsilon at delta = {target!r} by number of examples ({chosen})",
        ("examples", "people", "at least", "at most (the guarantee)"),
        [(str(count), str(n), lower_text(bounds.lower, 8), upper_text(bounds.upper, 8)) for count, n, bounds in shown],
        note=note,
    )
    name_written(out, plot)


def cap(
    files: Files,
    *,
    by: By = None,
    counts: CountsColumn = None,
    column: OldColumn = None,
    kind: Kind = None,
    memory: DataMemory = DEFAULT_DATA_MEMORY,
    epsilon: Epsilon,
    delta: Annotated[
        str | None,
        option(
            "--delta", "NUMBER", "The delta of (epsilon, delta)-DP; needed here or in the run file.", "The question"
        ),
    ] = None,
    run: Annotated[
        str | None,
        option("--run", "RUN.TOML", "A run file (- for standard input); options override it.", _RUN),
    ] = None,
    batch_size: Annotated[
        str | None, option("--batch-size", "INTEGER", "Examples in a batch, on average.", _RUN)
    ] = None,
    steps: Steps = None,
    epochs: Epochs = None,
    minimum_share: Annotated[
        str | None,
        option(
            "--minimum-share",
            "NUMBER",
            "Share of all examples that must be kept; needed for a recommendation.",
            "The question",
        ),
    ] = None,
    largest_cap: Annotated[
        str | None, option("--largest-cap", "INTEGER", "Consider no cap above this.", "The question")
    ] = None,
    adjacency: Annotated[
        str | None,
        option(
            "--adjacency",
            "NAME",
            f"Which datasets are neighbours (default {ADJACENCIES[0]}): {', '.join(ADJACENCIES)}.",
            "The question",
        ),
    ] = None,
    plot: Plot = None,
    force: Force = False,
    as_json: AsJSON = False,
) -> None:
    """How many examples of each person to keep: the noise that each cap needs, and a recommendation."""
    counts = column_of(counts, column)
    question: dict[str, Any] = {
        "epsilon": read_number("epsilon", epsilon),
        "delta": None if delta is None else read_number("delta", delta),
        "batch_size": None if batch_size is None else read_integer("batch_size", batch_size, at_least=1),
        "steps": None if steps is None else read_integer("steps", steps, at_least=1),
        "epochs": None if epochs is None else read_number("epochs", epochs),
        "minimum_share": None if minimum_share is None else read_number("minimum_share", minimum_share),
        "largest_cap": None if largest_cap is None else read_integer("largest_cap", largest_cap, at_least=1),
        "adjacency": None if adjacency is None else read_adjacency(adjacency),
    }
    require_run_option(files, run)
    question = filled(question, run)
    question["adjacency"] = question["adjacency"] or ADJACENCIES[0]
    require_new(plot, "plot", force=force)
    from groupdp.cli.cap_output import emit_study
    from groupdp.people.cap import choose_cap

    with NewFiles("plot") as new:
        _check_plot(plot, new)
        with progress_bar("count") as progress:
            found = read_people(files, by=by, counts=counts, kind=kind, memory=memory, progress=progress)
        question, remarks = with_batch(question, found)
        with progress_bar("cap") as progress:
            study = choose_cap(found, **question, progress=progress)
        if plot is not None:
            from groupdp.figures import title_lines
            from groupdp.figures.people import draw_caps

            draw_caps(study, new.temporary(plot), title=title_lines(_cap_title(study, question)))
    if not as_json:
        for line in (_cap_title(study, question)[0], *remarks):
            emit_text(line, indent="  ")
    emit_study(study, question, as_json=as_json)
    if not as_json:
        name_written(plot)


def _cap_title(study: CapStudy, question: dict[str, Any]) -> list[str]:
    """The run and the question as the lines of the picture's title."""
    length = f"{question['steps']} steps" if question["epochs"] is None else f"{given(question['epochs'])} epochs"
    return [
        f"Poisson sampling, batches of {study.batch_size} on average, {length}",
        f"noise for ε = {given(study.target_epsilon)} at δ = {given(study.delta)}, {study.adjacency}",
    ]


def _check_plot(plot: str | None, files: NewFiles) -> None:
    """Find out now whether the picture can be written."""
    if plot is not None:
        from groupdp.figures.curves import check_picture_name

        check_picture_name("plot", plot)
        files.temporary(plot)


def check_destination(out: str, files: NewFiles) -> Path:
    """Find out now whether the table can be written, and under which temporary name."""
    from groupdp.data.counting import checked_suffix

    return files.temporary(checked_suffix(out), name="out")
