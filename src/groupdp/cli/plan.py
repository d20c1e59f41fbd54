"""`groupdp plan`: which way to sample, for the user's own table of counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from groupdp.cli.command import command
from groupdp.cli.data import (
    DEFAULT_DATA_MEMORY,
    By,
    CountsColumn,
    DataMemory,
    Files,
    Kind,
    known_columns,
    read_people,
)
from groupdp.cli.options import (
    Adjacency,
    AsJSON,
    Epochs,
    Epsilon,
    Force,
    Plot,
    Steps,
    option,
    read_adjacency,
    read_integer,
    read_number,
)
from groupdp.cli.output import emit_json, emit_table, name_written, new_files, progress_bar
from groupdp.errors import InvalidArgument
from groupdp.printing import given, lower_percent, round_down, upper_text
from groupdp.run_file.read import RunFile
from groupdp.run_file.write import run_file_text
from groupdp.samplings import BallsInBinsSampling

if TYPE_CHECKING:
    from groupdp.people.plan import Plan, PlanRow

_QUESTION = "The question"
_SLOW = BallsInBinsSampling.name


@command("plan", "rows.parquet --by user_id --epsilon 8 --delta 1e-6 --batch-size 1024 --steps 2000 --save run.toml")
def plan(
    files: Files,
    *,
    by: By = None,
    counts: CountsColumn = None,
    kind: Kind = None,
    memory: DataMemory = DEFAULT_DATA_MEMORY,
    epsilon: Epsilon,
    delta: Annotated[str, option("--delta", "NUMBER", "The delta of (epsilon, delta)-DP.", _QUESTION)],
    batch_size: Annotated[str, option("--batch-size", "INTEGER", "Gradients in a step, on average.", "The run")],
    steps: Steps = None,
    epochs: Epochs = None,
    caps: Annotated[
        str | None, option("--caps", "LIST", "Examples of a person to compare, such as 1,4,16.", _QUESTION)
    ] = None,
    ways: Annotated[
        str | None,
        option("--ways", "LIST", f"Of examples, people, people-together, spread, {_SLOW} (slow).", _QUESTION),
    ] = None,
    alike: Annotated[
        str, option("--alike", "NUMBER", "Assumed cosine of two gradients of one person, 0 to 1.", _QUESTION)
    ] = "0.5",
    minimum_share: Annotated[
        str, option("--minimum-share", "NUMBER", "Share of all examples that must be used.", _QUESTION)
    ] = "0.8",
    adjacency: Adjacency = "add-or-remove",
    choose: Annotated[
        str | None, option("--choose", "ROW", "The row that --save writes (else the recommended one).", "Output")
    ] = None,
    save: Annotated[
        str | None, option("--save", "RUN.TOML", "Write the run of the choice to this file.", "Output")
    ] = None,
    plot: Plot = None,
    force: Force = False,
    as_json: AsJSON = False,
) -> None:
    """Compare sampling examples, people or whole epochs, at equal compute, by noise and signal-to-noise ratio."""
    by, counts = known_columns(files, by, counts)
    question: dict[str, Any] = {
        "epsilon": read_number("epsilon", epsilon),
        "delta": read_number("delta", delta),
        "batch_size": read_integer("batch_size", batch_size, at_least=1),
        "steps": None if steps is None else read_integer("steps", steps, at_least=1),
        "epochs": None if epochs is None else read_number("epochs", epochs),
        "caps": None if caps is None else [read_integer("caps", one, at_least=1) for one in caps.split(",")],
        "alike": read_number("alike", alike),
        "minimum_share": read_number("minimum_share", minimum_share),
        "adjacency": read_adjacency(adjacency),
        **({} if ways is None else {"ways": [one.strip() for one in ways.split(",")]}),
    }
    wanted = None if choose is None else read_integer("choose", choose, at_least=1)
    from groupdp.people.plan import plan as compare

    with new_files(force=force, plot=plot, save=save) as new:
        with progress_bar("count") as progress:
            found = read_people(files, by=by, counts=counts, kind=kind, memory=memory, progress=progress)
        with progress_bar("plan") as progress:
            made = compare(found, **question, progress=progress)
        if wanted is not None and wanted > len(made.rows):
            raise InvalidArgument("choose", wanted, f"be a row of the table, from 1 to {len(made.rows)}")
        chosen = made.recommended if wanted is None else made.rows[wanted - 1]
        if plot is not None:
            from groupdp.drawing import title_lines
            from groupdp.figures.people import draw_plan

            draw_plan(made, new.temporary(plot), title=title_lines(_title(made)))
        if save is not None:
            new.write_text(save, run_file_text(_run_of(made, chosen)))
    if as_json:
        _emit_json(made, chosen)
        return
    _emit(made, chosen)
    name_written(plot, save)


def _run_of(made: Plan, row: PlanRow) -> RunFile:
    return RunFile(phases=(row.run,), delta=made.delta, group_size=row.group_size, adjacency=made.adjacency)


def _title(made: Plan) -> list[str]:
    return [
        f"{made.batch_size} gradients in a step on average",
        f"noise for ε = {given(made.epsilon)} at δ = {given(made.delta)}, {made.adjacency}",
    ]


def _as_json(row: PlanRow) -> dict[str, Any]:
    names = ("way", "cap", "group_size", "noise_multiplier", "share_used", "signal_to_noise", "allowed")
    return {**{name: getattr(row, name) for name in names}, "run": row.run.values(), "assumes": list(row.assumes)}


def _emit_json(made: Plan, chosen: PlanRow) -> None:
    names = ("epsilon", "delta", "batch_size", "adjacency", "alike", "minimum_share")
    emit_json(
        {
            "rows": [_as_json(row) for row in made.rows],
            "chosen": made.rows.index(chosen) + 1,
            "refused": [{"way": way, "cap": cap, "reason": reason} for way, cap, reason in made.refused],
            **{name: getattr(made, name) for name in names},
        }
    )


def _emit(made: Plan, chosen: PlanRow) -> None:
    notes = [
        "Signal-to-noise: of an averaged gradient, in units of (part that all people share / clipping norm), if all "
        f"gradients have the clipping norm and two of one person the cosine {given(made.alike)} (--alike). The noise "
        "of sampling itself is left out. The noise multiplier of people-together is that of a person's average.",
        f"Chosen (marked <): {chosen.way} at {chosen.cap}. It assumes:",
        *(f"- {sentence}" for sentence in chosen.assumes),
        *(f"Not compared: {way} at {cap}, because {reason}" for way, cap, reason in made.refused),
    ]
    if not all(row.allowed for row in made.rows):
        notes.append(f"Marked x: uses less than {given(100.0 * made.minimum_share)} % of the examples.")
    emit_table(
        f"Ways to sample for epsilon = {made.epsilon!r} at delta = {made.delta!r} ({made.adjacency})",
        ("row", "way", "cap", "examples used", "noise multiplier", "signal-to-noise"),
        [
            (
                f"{number}{' <' if row is chosen else ''}{'' if row.allowed else ' x'}",
                row.way,
                str(row.cap),
                lower_percent(row.share_used),
                upper_text(row.noise_multiplier, 6),
                round_down(row.signal_to_noise, 4),
            )
            for number, row in enumerate(made.rows, 1)
        ],
        note="\n".join(notes),
    )
