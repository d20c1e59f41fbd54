"""`groupdp people` and `groupdp cap`: each person's epsilon, and how many examples of each person to keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupdp.cli.asked import Asked
from groupdp.cli.command import command, require_run_option, with_run
from groupdp.cli.data import (
    DEFAULT_DATA_MEMORY,
    By,
    CountsColumn,
    DataMemory,
    Files,
    Kind,
    OldColumn,
    column_of,
    known_columns,
    read_people,
)
from groupdp.cli.options import (
    AsJSON,
    Epochs,
    Epsilon,
    Force,
    Plot,
    Steps,
    option,
    out_option,
    read_adjacency,
    read_integer,
    read_number,
)
from groupdp.cli.output import (
    NOT_TIGHT,
    bounds_as_json,
    emit_json,
    emit_run,
    emit_table,
    emit_text,
    name_written,
    new_files,
    progress_bar,
)
from groupdp.errors import NOT_SHOWN, InvalidArgument
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.named_values import phase_of
from groupdp.neighbours import ADJACENCIES
from groupdp.printing import counted, given, given_percent, lower_percent, lower_text, upper_text
from groupdp.run_file.read import RunFile, read_run_file
from groupdp.run_file.write import run_file_text, stated

if TYPE_CHECKING:
    from groupdp.people.cap import CapStudy


_RUN = "The run"

#: Rows of the table for people; JSON has them all.
_MOST_ROWS = 12
#: Shares of the people whose epsilon is printed.
_SHARES = (0.5, 0.9, 0.99)
#: Share of the examples that a recommended cap keeps, unless another one is given.
_MINIMUM_SHARE = 0.8


@command(
    "people",
    "rows.parquet --by user_id --sampling-rate 0.01 --noise-multiplier 2 --steps 2000 --delta 1e-6",
)
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
        str | None, out_option("FILE", "Write each person's examples and epsilon: Parquet, CSV or JSONL (with --by).")
    ] = None,
    plot: Plot = None,
    as_json: AsJSON = False,
) -> None:
    """The epsilon of each person, from the number of examples each contributed."""
    by, counts = known_columns(files, by, column_of(counts, column))
    asked.require_one_source("people")
    run, target, chosen = asked.run, asked.delta, asked.file.adjacency
    limits = [read_number("thresholds", text, at_least=0.0) for text in thresholds.split(",")]
    if out is not None and by is None:
        raise InvalidArgument("out", NOT_SHOWN, "go with by: a file of counts does not say who the people are")
    from groupdp.data.counting import checked_suffix
    from groupdp.people.view import people_view

    if out is not None:
        checked_suffix(out)
    with new_files(force=asked.force, plot=plot, out=out) as new:
        with progress_bar("count") as progress:
            found = read_people(
                files, by=by, counts=counts, kind=kind, memory=memory, table=out is not None, progress=progress
            )
        with progress_bar("people") as progress:
            view = people_view(run, found, delta=target, adjacency=chosen, progress=progress)
        if plot is not None:
            from groupdp.drawing import title_lines
            from groupdp.figures.people import draw_people

            draw_people(view, new.temporary(plot), title=title_lines(asked.title(group=False)), thresholds=limits)
        if out is not None:
            from groupdp.people.counts_file import write_people

            write_people(found.table, view, new.temporary(out))
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
    note = "\n".join(
        f"{counted(view.protected(one))} of {counted(view.total)} people have an epsilon of at most {given(one)}."
        for one in limits
    )
    if view.unprotected:
        without = f"{counted(view.unprotected)} of {counted(view.total)} people"
        note += f"\n{without} have too many examples: not protected (see groupdp cap)."
    if out is not None:
        note += f"\n{out} holds one row per person; do not publish it."
    emit_run(asked, group=False)
    shares = [(f"{given_percent(share)} of the people", view.quantile(share)) for share in _SHARES]
    emit_table(
        f"{counted(view.total)} people, epsilon at delta = {target!r} ({chosen})",
        ("who", "epsilon"),
        [(who, f"at most {upper_text(bound, 6)}") for who, bound in [*shares, ("everybody", view.quantile(1.0))]],
        note=note,
    )
    rows = list(zip(view.counts, view.people, view.epsilon, strict=True))
    kept = rows if len(rows) <= _MOST_ROWS else rows[: _MOST_ROWS - 1] + rows[-1:]
    notes = [] if len(kept) == len(rows) else [f"{len(rows) - len(kept)} more counts are in the output of --json."]
    typer.echo()
    emit_table(
        "By number of examples",
        ("examples", "people", "at least", "at most (the guarantee)"),
        [
            (counted(count), counted(n), lower_text(bounds.lower, 8), upper_text(bounds.upper, 8))
            for count, n, bounds in kept
        ],
        note="\n".join([*notes, *([] if view.tight else [NOT_TIGHT])]),
    )
    name_written(out, plot)


@command(
    "cap",
    "rows.parquet --by user_id --epsilon 8 --delta 1e-6 --batch-size 1024 --steps 2000 --minimum-share 0.8",
)
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
            f"Share of all examples that must be kept (default {_MINIMUM_SHARE}).",
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
    save: Annotated[
        str | None, option("--save", "RUN.TOML", "Write the run with the recommended cap to this file.", "Output")
    ] = None,
    plot: Plot = None,
    force: Force = False,
    as_json: AsJSON = False,
) -> None:
    """How many examples of each person to keep: the noise that each cap needs, and a recommendation."""
    by, counts = known_columns(files, by, column_of(counts, column))
    question: dict[str, Any] = {
        "epsilon": read_number("epsilon", epsilon),
        "delta": None if delta is None else read_number("delta", delta),
        "batch_size": None if batch_size is None else read_integer("batch_size", batch_size, at_least=1),
        "steps": None if steps is None else read_integer("steps", steps, at_least=1),
        "epochs": None if epochs is None else read_number("epochs", epochs),
        "minimum_share": _MINIMUM_SHARE if minimum_share is None else read_number("minimum_share", minimum_share),
        "largest_cap": None if largest_cap is None else read_integer("largest_cap", largest_cap, at_least=1),
        "adjacency": None if adjacency is None else read_adjacency(adjacency),
    }
    require_run_option(files, run)
    question = filled(question, run)
    question["adjacency"] = question["adjacency"] or ADJACENCIES[0]
    from groupdp.people.cap import choose_cap

    with new_files(force=force, plot=plot, save=save) as new:
        with progress_bar("count") as progress:
            found = read_people(files, by=by, counts=counts, kind=kind, memory=memory, progress=progress)
        question, remarks = with_batch(question, found)
        with progress_bar("cap") as progress:
            study = choose_cap(found, **question, progress=progress)
        if plot is not None:
            from groupdp.drawing import title_lines
            from groupdp.figures.people import draw_caps

            draw_caps(study, new.temporary(plot), title=title_lines(_cap_title(study, question)))
        if save is not None:
            new.write_text(save, run_file_text(_run_of(study, question)))
    if not as_json:
        for line in (_cap_title(study, question)[0], *remarks):
            emit_text(line, indent="  ")
    emit_study(study, question, as_json=as_json, chosen=minimum_share is not None)
    if not as_json:
        name_written(plot, save)


def _run_of(study: CapStudy, question: dict[str, Any]) -> RunFile:
    """The run with the recommended cap and its noise, on the examples that are kept."""
    if study.recommended is None:
        raise AssertionError("a study with a minimum share has a recommendation")
    row = study.row(study.recommended)
    length = {"steps": row.steps} if question["epochs"] is None else {"epochs": question["epochs"]}
    sizes = {"batch_size": study.batch_size, "dataset_size": row.examples_kept}
    written = {"sampling": "poisson", **sizes, "noise_multiplier": row.noise_multiplier, **length}
    return RunFile(
        phases=(phase_of(written),),
        delta=study.delta,
        group_size=row.cap,
        adjacency=study.adjacency,
        written=(written,),
    )


def _cap_title(study: CapStudy, question: dict[str, Any]) -> list[str]:
    """The run and the question as the lines of the picture's title."""
    length = f"{question['steps']} steps" if question["epochs"] is None else f"{given(question['epochs'])} epochs"
    return [
        f"Poisson sampling, batches of {study.batch_size} on average, {length}",
        f"noise for ε = {given(study.target_epsilon)} at δ = {given(study.delta)}, {study.adjacency}",
    ]


def filled(question: dict[str, Any], path: str | None) -> dict[str, Any]:
    """The question with what the options leave open taken from the file; a rate stands for `batch_size` until the data
    are counted.
    """
    if path is not None:
        file = read_run_file(path)
        phase = file.phases[0]
        if len(file.phases) != 1 or not isinstance(phase, DPSGD) or phase.sampling.name != "poisson":
            raise InvalidArgument("run", path, "have one phase of Poisson sampling for a cap")
        given_as = stated(file, 0)
        length = {name: value for name, value in given_as.items() if name in ("steps", "epochs")}
        said: dict[str, Any] = {
            "delta": file.delta,
            "adjacency": file.adjacency,
            "batch_size": given_as.get("batch_size", phase.sampling.share_of_data()),
            **({} if question["steps"] or question["epochs"] else length),
        }
        question = {**question, **{name: value for name, value in said.items() if question.get(name) is None}}
    for name in ("delta", "batch_size"):
        if question[name] is None:
            raise InvalidArgument(name, NOT_SHOWN, "be given, as an option or in a run file (--run RUN.TOML)")
    return question


def with_batch(question: dict[str, Any], counts: Any) -> tuple[dict[str, Any], list[str]]:
    """The question with a rate turned into a batch of the examples counted; and a remark where rounding tells."""
    share = question["batch_size"]
    if isinstance(share, int):
        return question, []
    from groupdp.people.view import histogram_of

    values, people = histogram_of(counts)
    examples = sum(int(value) * int(number) for value, number in zip(values, people, strict=True))
    expected = float(share * examples)
    batch = max(round(expected), 1)
    remark = f"Note: the run's rate of {examples} examples is {given(expected)} a batch, rounded to {batch}."
    return {**question, "batch_size": batch}, [remark] if abs(batch - expected) > 0.01 * expected else []


def emit_study(study: CapStudy, question: dict[str, Any], *, as_json: bool, chosen: bool) -> None:
    """The table and the advice in words, or both as JSON; `chosen`: whether the minimum share was asked for."""
    from groupdp.people.advice import advice

    if as_json:
        rows = []
        for row in study.rows:
            fields = {name: getattr(row, name) for name in row.__dataclass_fields__ if name != "epsilon"}
            rows.append({**fields, "epsilon": bounds_as_json(row.epsilon)})
        emit_json({"recommended": study.recommended, "advice": advice(study), "rows": rows, **question})
        return
    notes = advice(study)
    if not chosen:
        notes.insert(1, f"At least {given_percent(_MINIMUM_SHARE)} are kept; --minimum-share sets another share.")
    emit_table(
        f"Caps for epsilon = {study.target_epsilon!r} at delta = {study.delta!r} ({study.adjacency})",
        ("cap", "examples kept", "noise multiplier", "noise / batch size"),
        [
            (
                f"{row.cap}{' <' if row.cap == study.recommended else ''}{'' if row.allowed else ' x'}",
                lower_percent(row.share_kept),
                upper_text(row.noise_multiplier, 6),
                upper_text(row.noise_per_average, 4),
            )
            for row in study.rows
        ],
        note="\n".join([*notes, "Marked <: recommended; x: keeps too few examples."]),
    )
