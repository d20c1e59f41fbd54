"""`groupdp people`, `cap` and `plan`: each person's epsilon, how many examples to keep of each, and how to sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from groupdp.cli.asked import Asked
from groupdp.cli.command import command, require_run_option
from groupdp.cli.data import COUNTS, columns_of, keep_private, read_people
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
    integer,
    number,
    numbers,
    out,
    words,
)
from groupdp.cli.output import NOT_TIGHT, Answer, Table, drawn, progress_bar, values_of
from groupdp.errors import NOT_SHOWN, InvalidArgument
from groupdp.fields import integer as read_integer
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.named_values import phase_of
from groupdp.neighbours import ADJACENCIES
from groupdp.printing import counted, given, given_percent, lower_percent, lower_text, round_down, sides, upper_text
from groupdp.question import unit_of
from groupdp.run_file import read_run_file
from groupdp.run_file.run import RunFile, run_file_text, stated
from groupdp.samplings import BallsInBinsSampling

#: Rows of the table for people; JSON has them all.
_MOST_ROWS = 12
#: Shares of the people whose epsilon is printed.
_SHARES = (0.5, 0.9, 0.99)


@command(
    "people",
    "rows.parquet --by user_id --sampling-rate 0.01 --noise-multiplier 2 --steps 2000 --delta 1e-6",
    question=("delta", "adjacency"),
    run_as_option=True,
    **COUNTS,
    thresholds=numbers("Count the people whose epsilon is at most each of these.", "1,2,4,8", at_least=0.0),
    out=out("FILE", "Write each person's examples and epsilon: Parquet, CSV or JSONL (with --by)."),
    plot=PLOT,
)
def people(
    files: list[str],
    asked: Asked,
    *,
    by: str | None,
    counts: str | None,
    kind: str | None,
    memory: int,
    thresholds: list[float],
    out: str | None,
) -> Answer:
    """The epsilon of each person, from the number of examples each contributed."""
    by, counts = columns_of(files, by, counts)
    asked.require_one_source("people")
    target, chosen = asked.delta, asked.file.adjacency
    if out is not None and by is None:
        raise InvalidArgument("out", NOT_SHOWN, "be given with by: a file of counts has no names of people")
    from groupdp.people import people_view
    from groupdp.people.counts_file import write_people

    if out is not None:
        from groupdp.data.bounding import checked_suffix

        checked_suffix(out)
    read = read_people(files, by=by, counts=counts, kind=kind, memory=memory, table=out is not None)
    with progress_bar("people") as progress:
        view = people_view(asked.run, read, delta=target, adjacency=chosen, progress=progress)
    total = counted(view.total)
    notes = _other_sizes(asked, sum(n * k for n, k in zip(view.counts, view.people, strict=True)), view.counts[-1])
    notes += [
        f"{counted(view.protected(most))} of {total} people have an epsilon of at most {given(most)}."
        for most in thresholds
    ]
    if view.unprotected:
        without = f"{counted(view.unprotected)} of {total} people"
        notes.append(f"{without} have too many examples: not protected (see groupdp cap).")
    shares = [(f"{given_percent(share)} of the people", view.quantile(share)) for share in _SHARES]
    by_share = Table(
        f"{total} people, epsilon at delta = {target!r} ({chosen})",
        ("who", "epsilon"),
        [(who, f"at most {upper_text(bound, 6)}") for who, bound in [*shares, ("everybody", view.quantile(1.0))]],
        [*notes, keep_private(out)],
    )
    rows = list(zip(view.counts, view.people, view.epsilon, strict=True))
    kept = rows if len(rows) <= _MOST_ROWS else rows[: _MOST_ROWS - 1] + rows[-1:]
    by_count = Table(
        "By number of examples",
        ("examples", "people", "at least", "at most (the guarantee)"),
        [
            (counted(count), counted(n), lower_text(bounds.lower, 8), upper_text(bounds.upper, 8))
            for count, n, bounds in kept
        ],
        [
            "" if len(kept) == len(rows) else f"{len(rows) - len(kept)} more counts are in the output of --json.",
            "" if view.tight else NOT_TIGHT,
        ],
    )
    title = asked.title(group=False)
    return Answer(
        json={
            "people": view.total,
            "protected": [{"threshold": threshold, "people": view.protected(threshold)} for threshold in thresholds],
            "quantiles": {str(share): view.quantile(share) for share in (*_SHARES, 1.0)},
            "counts": [{"count": count, "people": n, "epsilon": sides(bounds)} for count, n, bounds in rows],
            "tight": view.tight,
            "not_protected": view.unprotected,
            "delta": target,
            "adjacency": chosen,
            "run": asked.run_as_json(),
        },
        about=asked.about(group=False),
        text=[by_share, "", by_count],
        files={
            "plot": drawn("studies.draw_people", view, title=title, thresholds=thresholds),
            "out": lambda path: write_people(read.table, view, path),
        },
    )


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


def _other_sizes(asked: Asked, examples: int, most: int) -> list[str]:
    """A note where the run states a dataset size that is neither the table's nor that without the largest person."""
    sizes = {int(phase["dataset_size"]) for phase in asked.file.written if "dataset_size" in phase}
    odd = sorted(size for size in sizes if not examples - most <= size <= examples)
    question = f"examples, and the table has {counted(examples)}: is it the table of this run?"
    is_odd = odd and unit_of(asked.file.phases) == "example"
    return [f"Note: the run draws from {counted(odd[0])} {question}"] if is_odd else []


@command(
    "cap",
    "rows.parquet --by user_id --epsilon 8 --delta 1e-6 --batch-size 1024 --steps 2000 --minimum-share 0.8",
    **COUNTS,
    **STUDY,
    largest_cap=integer("Largest cap to consider."),
    save=words("RUN.TOML", "Write the run with the recommended cap to this file.", OUTPUT, writes="whole"),
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
    save = run_file_text(_run_of(study, question))
    return Answer(
        json={"recommended": study.recommended, "advice": advice(study), "rows": rows, **question},
        about=[title[0], *remarks],
        text=[table],
        files={"plot": drawn("studies.draw_caps", study, title=title), "save": save},
    )


def _computed(
    label: str, compute: Callable[..., Any], files: list[str], options: dict[str, Any]
) -> tuple[Any, dict[str, Any], list[str]]:
    """(the answer, its question completed from the run file, remarks on the question)."""
    by, counts = columns_of(files, options.pop("by"), options.pop("counts"))
    run, kind, memory = (options.pop(name) for name in ("run", "kind", "memory"))
    require_run_option(files, run)
    question = _filled(options, run)
    people = read_people(files, by=by, counts=counts, kind=kind, memory=memory)
    question, remarks = _with_batch(question, people)
    stated_values = {name: value for name, value in question.items() if value is not None}
    with progress_bar(label) as progress:
        return compute(people, **stated_values, progress=progress), question, remarks


def _run_of(study: Any, question: dict[str, Any]) -> RunFile:
    """The run with the recommended cap and its noise, on the examples that are kept."""
    row = study.row(study.recommended)
    length = {"steps": row.steps} if question["epochs"] is None else {"epochs": question["epochs"]}
    sizes = {"batch_size": study.batch_size, "dataset_size": row.examples_kept}
    written = {"sampling": "poisson", **sizes, "noise_multiplier": row.noise_multiplier, **length}
    about = {"delta": study.delta, "group_size": row.cap, "adjacency": study.adjacency}
    return RunFile(phases=(phase_of(written),), written=(written,), **about)


def _filled(question: dict[str, Any], path: str | None) -> dict[str, Any]:
    """The question, completed from the run file; `batch_size` may be a rate, which `_with_batch` replaces."""
    if path is not None:
        file = read_run_file(path)
        phase = file.phases[0]
        if len(file.phases) != 1 or not isinstance(phase, DPSGD) or phase.sampling.name != "poisson":
            raise InvalidArgument("run", path, "have one phase of Poisson sampling")
        said = {"batch_size": phase.sampling.share_of_data(), "delta": file.delta, "adjacency": file.adjacency}
        wanted = ["batch_size"] if question["steps"] or question["epochs"] else ["batch_size", "steps", "epochs"]
        said |= {name: value for name, value in stated(file, 0).items() if name in wanted}
        question = {**question, **{name: value for name, value in said.items() if question.get(name) is None}}
    for name in ("delta", "batch_size"):
        if question[name] is None:
            option = f"--{name.replace('_', '-')}"
            raise InvalidArgument(name, NOT_SHOWN, f"be given, as {option} or in a run file (--run RUN.TOML)")
    if question["steps"] is None and question["epochs"] is None:
        raise InvalidArgument("steps", NOT_SHOWN, "be given, like --steps 2000, or --epochs 15 instead")
    usual = {"adjacency": ADJACENCIES[0], "minimum_share": _MINIMUM_SHARE}
    return {**question, **{name: value for name, value in usual.items() if question[name] is None}}


def _with_batch(question: dict[str, Any], counts: Any) -> tuple[dict[str, Any], list[str]]:
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


def _split(_: str, text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


@command(
    "plan",
    "rows.parquet --by user_id --epsilon 8 --delta 1e-6 --batch-size 1024 --steps 2000 --save run.toml",
    **COUNTS,
    **STUDY,
    caps=words(
        "LIST",
        "Numbers of examples of a person to compare, such as 1,4,16.",
        read=lambda name, text: [read_integer(name, cap, at_least=1) for cap in _split(name, text)],
    ),
    ways=words(
        "LIST",
        f"Ways to compare: examples, people, people-together, spread, {BallsInBinsSampling.name} (slow).",
        read=_split,
    ),
    alike=number("Assumed cosine of two gradients of one person, 0 to 1.", default="0.5"),
    choose=integer("The row that --save writes (default: the recommended row).", OUTPUT),
    save=words("RUN.TOML", "Write the run of the chosen row to this file.", OUTPUT, writes="whole"),
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


def _table(made: Any, chosen: Any) -> Table:
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
