"""`groupdp cap` and `groupdp plan`: how many examples of each person to keep, and which way to sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from groupdp.cli.command import command, require_run_option
from groupdp.cli.options import (
    ADJACENCY,
    DELTA,
    EPOCHS_OF_RUN,
    EPSILON,
    OUTPUT,
    PLOT,
    RUN,
    RUN_FILE,
    STEPS,
    Option,
    integer,
    number,
    words,
)
from groupdp.cli.output import Answer, Table, drawn, progress_bar, values_of
from groupdp.cli.people import COUNTS, columns_of, read_people
from groupdp.errors import NOT_SHOWN, InvalidArgument
from groupdp.fields import integer as read_integer
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.named_values import phase_of
from groupdp.neighbours import ADJACENCIES
from groupdp.printing import given, given_percent, lower_percent, round_down, sides, upper_text
from groupdp.run_file import read_run_file
from groupdp.run_file.run import RunFile, run_file_text, stated
from groupdp.samplings import BallsInBinsSampling

if TYPE_CHECKING:
    from groupdp.people.cap import CapStudy
    from groupdp.people.plan import Plan, PlanRow

#: Share of the examples that is kept or used at least, unless another one is given.
_MINIMUM_SHARE = 0.8

#: The options of `cap` and `plan`: a question about a run whose sampling is still to be chosen.
STUDY: dict[str, Any] = {
    "epsilon": EPSILON,
    "delta": DELTA,
    "run": RUN_FILE,
    "batch_size": integer("Examples in a batch, on average; needed here or in the run file.", RUN),
    "steps": STEPS,
    "epochs": EPOCHS_OF_RUN,
    "minimum_share": number(f"Share of all examples that must be kept (default {_MINIMUM_SHARE})."),
    "adjacency": ADJACENCY,
}


def _save(what: str) -> Option:
    return words("RUN.TOML", what, OUTPUT, writes="whole")


@command(
    "cap",
    "rows.parquet --by user_id --epsilon 8 --delta 1e-6 --batch-size 1024 --steps 2000 --minimum-share 0.8",
    **COUNTS,
    **STUDY,
    largest_cap=integer("Largest cap to consider."),
    save=_save("Write the run with the recommended cap to this file."),
    plot=PLOT,
)
def cap(files: list[str], **options: Any) -> Answer:
    """How many examples of each person to keep: the noise that each cap needs, and a recommendation."""
    from groupdp.people.cap import choose_cap
    from groupdp.people.plan import advice

    default_share = options["minimum_share"] is None
    study, question, remarks = _computed("cap", choose_cap, files, options)
    notes = advice(study)
    if default_share:
        notes.insert(1, f"At least {given_percent(_MINIMUM_SHARE)} are kept; --minimum-share sets another share.")
    table = Table(
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
        [*notes, "Marked <: recommended; x: keeps too few examples."],
    )
    length = f"{question['steps']} steps" if question["epochs"] is None else f"{given(question['epochs'])} epochs"
    title = [
        f"Poisson sampling, batches of {study.batch_size} on average, {length}",
        f"noise for ε = {given(study.target_epsilon)} at δ = {given(study.delta)}, {study.adjacency}",
    ]
    rows = [{**values_of(row, row.__dataclass_fields__), "epsilon": sides(row.epsilon)} for row in study.rows]
    return Answer(
        json={"recommended": study.recommended, "advice": advice(study), "rows": rows, **question},
        about=[title[0], *remarks],
        text=[table],
        files={
            "plot": drawn("studies.draw_caps", study, title=title),
            "save": run_file_text(_run_of(study, question)),
        },
    )


def _computed(
    label: str, compute: Callable[..., Any], files: list[str], options: dict[str, Any]
) -> tuple[Any, dict[str, Any], list[str]]:
    """(what is computed, its question with what the run file says, remarks on it)."""
    by, counts = columns_of(files, *(options.pop(name) for name in ("by", "counts", "column")))
    run, kind, memory = (options.pop(name) for name in ("run", "kind", "memory"))
    require_run_option(files, run)
    question = filled(options, run)
    people = read_people(files, by=by, counts=counts, kind=kind, memory=memory)
    question, remarks = with_batch(question, people)
    stated_values = {name: value for name, value in question.items() if value is not None}
    with progress_bar(label) as progress:
        return compute(people, **stated_values, progress=progress), question, remarks


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


def filled(question: dict[str, Any], path: str | None) -> dict[str, Any]:
    """The question, completed from the run file; `batch_size` may be a rate, which `with_batch` replaces."""
    if path is not None:
        file = read_run_file(path)
        phase = file.phases[0]
        if len(file.phases) != 1 or not isinstance(phase, DPSGD) or phase.sampling.name != "poisson":
            raise InvalidArgument("run", path, "have one phase of Poisson sampling")
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
            option = f"--{name.replace('_', '-')}"
            raise InvalidArgument(name, NOT_SHOWN, f"be given, as {option} or in a run file (--run RUN.TOML)")
    if question["steps"] is None and question["epochs"] is None:
        raise InvalidArgument("steps", NOT_SHOWN, "be given, like --steps 2000, or --epochs 15 instead")
    usual = {"adjacency": ADJACENCIES[0], "minimum_share": _MINIMUM_SHARE}
    return {**question, **{name: value for name, value in usual.items() if question[name] is None}}


def with_batch(question: dict[str, Any], counts: Any) -> tuple[dict[str, Any], list[str]]:
    """The question with a rate replaced by a batch size, and a remark if rounding changes it by more than 1 %."""
    share = question["batch_size"]
    if isinstance(share, int):
        return question, []
    from groupdp.people import histogram_of

    values, people = histogram_of(counts)
    examples = sum(int(value) * int(number) for value, number in zip(values, people, strict=True))
    expected = float(share * examples)
    batch = max(round(expected), 1)
    remark = f"Note: at the run's rate, a batch has {given(expected)} of {examples} examples; {batch} is used."
    return {**question, "batch_size": batch}, [remark] if abs(batch - expected) > 0.01 * expected else []


def _split(name: str, text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


@command(
    "plan",
    "rows.parquet --by user_id --epsilon 8 --delta 1e-6 --batch-size 1024 --steps 2000 --save run.toml",
    **COUNTS,
    **STUDY,
    caps=words(
        "LIST",
        "Examples of a person to compare, such as 1,4,16.",
        read=lambda name, text: [read_integer(name, cap, at_least=1) for cap in _split(name, text)],
    ),
    ways=words(
        "LIST",
        f"Ways to compare: examples, people, people-together, spread, {BallsInBinsSampling.name} (slow).",
        read=_split,
    ),
    alike=number("Assumed cosine of two gradients of one person, 0 to 1.", default="0.5"),
    choose=integer("The row that --save writes (default: the recommended row).", OUTPUT),
    save=_save("Write the run of the chosen row to this file."),
    plot=PLOT,
)
def plan(files: list[str], *, choose: int | None, **options: Any) -> Answer:
    """Compare sampling examples, people or whole epochs, at equal compute, by noise and signal-to-noise ratio."""
    from groupdp.people.plan import plan as compare

    made, _, remarks = _computed("plan", compare, files, options)
    if choose is not None and choose > len(made.rows):
        raise InvalidArgument("choose", choose, f"be a row of the table, from 1 to {len(made.rows)}")
    chosen = made.recommended if choose is None else made.rows[choose - 1]
    title = [
        f"{made.batch_size} gradients in a step on average",
        f"noise for ε = {given(made.epsilon)} at δ = {given(made.delta)}, {made.adjacency}",
    ]
    run = RunFile(phases=(chosen.run,), delta=made.delta, group_size=chosen.group_size, adjacency=made.adjacency)
    of_row = ("way", "cap", "group_size", "noise_multiplier", "share_used", "signal_to_noise", "allowed")
    return Answer(
        json={
            "rows": [
                {**values_of(row, of_row), "run": row.run.values(), "assumes": list(row.assumes)} for row in made.rows
            ],
            "chosen": made.rows.index(chosen) + 1,
            "refused": [dict(zip(("way", "cap", "reason"), refusal, strict=True)) for refusal in made.refused],
            **values_of(made, ("epsilon", "delta", "batch_size", "adjacency", "alike", "minimum_share")),
        },
        about=remarks,
        text=[_table(made, chosen)],
        files={"plot": drawn("studies.draw_plan", made, title=title), "save": run_file_text(run)},
    )


def _table(made: Plan, chosen: PlanRow) -> Table:
    notes = [
        "Signal-to-noise is that of an averaged gradient, in units of (part that all people share / clipping norm). It "
        "assumes that every gradient has the clipping norm, and that two gradients of one person have the cosine "
        f"{given(made.alike)} (--alike); it leaves out the noise of sampling. People-together averages a person's "
        "gradients and clips the average once; its noise multiplier is relative to that clipping norm.",
        f"Chosen (marked <): {chosen.way} at {chosen.cap}. It assumes:",
        *(f"- {sentence}" for sentence in chosen.assumes),
        *(f"Not compared: {way} at {cap}, because {reason}" for way, cap, reason in made.refused),
    ]
    if not all(row.allowed for row in made.rows):
        notes.append(f"Marked x: uses less than {given(100.0 * made.minimum_share)} % of the examples.")
    return Table(
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
        notes,
    )
