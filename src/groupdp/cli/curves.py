"""`groupdp curve`, `spend` and `sweep`: epsilon against group size, against steps, and for every combination."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from groupdp import fields
from groupdp._files import check_writable
from groupdp.bounds import upper_or_both
from groupdp.cli.asked import Asked
from groupdp.cli.command import command
from groupdp.cli.options import COMPUTATION, OUTPUT, PLOT, Option, number, out, read_counts, words
from groupdp.cli.output import NOT_TIGHT, Answer, Table, drawn, values_of
from groupdp.engines import Progress
from groupdp.errors import NOT_SHOWN, InvalidArgument
from groupdp.mechanisms.named_values import phase_fields
from groupdp.neighbours import ADJACENCIES
from groupdp.printing import counted, given, lower_text, sides, upper_text
from groupdp.run_file.run import remarks_on

if TYPE_CHECKING:
    from groupdp.baselines import Point
    from groupdp.sweeps.spend import Spending


@command(
    "curve",
    "--sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --delta 1e-6 --group-sizes 1:16 --plot a.png",
    question=("delta", "adjacency"),
    group_sizes=words("SIZES", "1:32, or 1:32:4 (every fourth), or 1,2,4.", default="1:32", read=read_counts),
    csv=words("FILE", "Write the data as CSV.", OUTPUT, writes="whole"),
    plot=PLOT,
)
def curve(asked: Asked, *, group_sizes: list[int], progress: Progress) -> Answer:
    """Epsilon against group size, beside earlier methods."""
    asked.require_one_source("a curve")
    target, chosen = asked.delta, asked.file.adjacency
    from groupdp.baselines import as_csv, compare

    points = compare(asked.run, delta=target, group_sizes=group_sizes, adjacency=chosen, progress=progress)
    present = {name: of for name, of in _CURVES.items() if any(getattr(point, of) is not None for point in points)}
    notes = ["k x one example is a reference line, not a guarantee."]
    if any(point.vadhan is not None and not point.vadhan.provenance.tolerance_met for point in points):
        notes.append("Where two numbers are shown, Vadhan's lemma gives a value between them.")
    if not points[0].epsilon.tight:
        notes.append("This analysis is valid, not tight.")
    if points[0].poisson_claim is not None:
        notes.append("The Poisson claim is not proved for this run: its batches are not Poisson samples.")
    table = Table(
        f"epsilon at delta = {target!r} against group size ({chosen}); upper bounds, rounded up",
        ("k", *present),
        [(str(point.group_size), *(_bound_text(point, of) for of in present.values())) for point in points],
        [" ".join(notes)],
    )
    return Answer(
        json={
            "points": [point.as_json() for point in points],
            "delta": target,
            "adjacency": chosen,
            "run": asked.run_as_json(),
        },
        about=asked.about(group=False),
        text=[table],
        files={
            "plot": drawn("draw_curves", [("", points)], title=asked.title(group=False), width=90),
            "csv": as_csv(points),
        },
    )


#: The columns of the table, and what they show of a `Point`.
_CURVES = {
    "this analysis": "epsilon",
    "k x one": "linear",
    "Vadhan, exact": "vadhan",
    "TensorFlow Privacy": "old_tool",
    "Poisson claim": "poisson_claim",
}


def _bound_text(point: Point, of: str) -> str:
    """A guarantee's side, or both sides where they differ."""
    value = getattr(point, of)
    if value is None or of == "vadhan":
        return "" if value is None else upper_or_both(value, 6)
    return upper_text(getattr(value, "upper", value), 6)


@command(
    "spend",
    "run.toml --target 8 --plot spend.png",
    target=number("Say at which step this epsilon is reached.", above=0.0),
    plot=PLOT,
)
def spend(asked: Asked, *, target: float | None, progress: Progress) -> Answer:
    """Epsilon against steps: the budget spent after each epoch."""
    from groupdp.sweeps.spend import spend as spent

    spending = spent(asked.run, delta=asked.delta, target=target, progress=progress, **asked.neighbours)
    points = spending.points
    tight = all(point.epsilon.tight for point in points)
    # The ends of epochs, or steps evenly spread; about twenty rows, the last step among them.
    by_epoch = any(point.epoch for point in points)
    rows = [point for point in points if point.epoch or not by_epoch]
    every = max(1, math.ceil(len(rows) / 20))
    shown = rows[every - 1 :: every]
    if not shown or shown[-1] is not points[-1]:
        shown.append(points[-1])
    first = 0 if by_epoch else 1
    cells = [
        (str(of.epoch or ""), counted(of.steps), lower_text(of.epsilon.lower), upper_text(of.epsilon.upper))
        for of in shown
    ]
    table = Table(
        f"epsilon spent at delta = {asked.delta!r} for {asked.group_text()}",
        ("after epoch", "after step", "at least", "at most (the guarantee)")[first:],
        [row[first:] for row in cells],
        [_reached(spending), "" if tight else NOT_TIGHT],
    )
    return Answer(
        json={
            "points": [{"steps": of.steps, "epoch": of.epoch, "epsilon": sides(of.epsilon)} for of in points],
            "tight": tight,
            **values_of(spending, ("target", "last_step_within")),
            "delta": asked.delta,
            **asked.as_json_fields(),
        },
        about=asked.about(),
        text=[table],
        files={"plot": drawn("draw_spending", spending, title=asked.title())},
    )


def _reached(spending: Spending) -> str:
    """At which step the target is reached, if there is one."""
    if spending.target is None:
        return ""
    target, last = f"epsilon = {given(spending.target)}", spending.last_step_within
    if last is None:
        return f"{target} is exceeded from the first step on."
    if last == spending.points[-1].steps:
        return f"{target} is not reached: all {last} steps are within it."
    return f"The last step within {target} is step {counted(last)}."


_INTEGER = re.compile(r"[+-]?\d{1,100}", re.ASCII)
#: Rows printed where no file is asked for.
_MOST_ROWS = 200


@command(
    "sweep",
    "run.toml --vary noise_multiplier=0.5:4:200 --vary group_size=1:50 -o grid.parquet --plot grid.png",
    # What varies needs no value of its own: the first one stands for it.
    assumed=lambda options: {name: str(values[0]) for name, values in varied(options["vary"] or []).items()},
    vary=Option(
        text="first:last:count (count values), first:last (integers), or a list 1,2,4; repeat for each name.",
        metavar="NAME=VALUES",
        required=True,
        several=True,
    ),
    out=out("FILE", "Write the rows: .csv or .parquet.", writes="itself"),
    scheduler=words("ADDRESS", "Compute on this Dask scheduler.", COMPUTATION),
    plot=PLOT,
)
def sweep(
    asked: Asked,
    *,
    vary: list[str],
    out: str | None,
    plot: str | None,
    scheduler: str | None,
    as_json: bool,
    progress: Progress,
) -> Answer:
    """Epsilon for every combination of values; with --out an interrupted sweep continues where it stopped."""
    from groupdp.sweeps import grid_of

    values = varied(vary)
    if "group_size" in values and asked.file.group_size is None and asked.file.sources is None:
        asked = replace(asked, file=replace(asked.file, group_size=1))  # it varies: this one is not asked about
    neighbours = asked.neighbours
    if "removed" in neighbours:
        raise InvalidArgument("group_size", NOT_SHOWN, "be given for a sweep in place of removed and added")
    grid = grid_of(asked.run, delta=asked.file.delta, vary=values, **neighbours)
    if plot is not None:
        from groupdp.figures.studies import check_names

        check_names(grid.names)
    rows = _computed(grid, out, scheduler, progress, wanted=as_json or plot is not None)
    fixed = {name: of for name, of in {"delta": grid.delta, **asked.as_json_fields()}.items() if name not in grid.names}
    about = [line.replace("δ", "delta") for line in _title(asked, grid.names, exact=True)]
    return Answer(
        json={"rows": [row.as_dict() for row in rows], **fixed},
        about=[*about, *remarks_on(asked.file, group="group_size" not in grid.names)],
        text=[_table(rows, grid.names)] if out is None else [],
        files={"plot": drawn("studies.draw_sweep", rows, title=_title(asked, grid.names))},
    )


def _computed(grid: Any, out: str | None, scheduler: str | None, progress: Progress, *, wanted: bool) -> list[Any]:
    """The rows, if they are wanted: a large file is never in memory as a whole."""
    from groupdp.sweeps import Parts, finished_chunks, rows_of

    if out is None:
        return rows_of(grid, scheduler=scheduler, progress=progress)
    parts = Parts(out, grid)
    check_writable("out", out)
    done = parts.begin()
    count = sum(min(grid.chunk, len(grid) - start) for start in done)
    try:
        for start, rows in finished_chunks(grid, done=done, scheduler=scheduler):
            parts.write(start, rows)
            count += len(rows)
            progress(count / len(grid))
    except KeyboardInterrupt:
        typer.echo(f"\rstopped after {count} of {len(grid)} rows: run the same command again to continue.", err=True)
        raise
    kept = list(parts.rows()) if wanted else []
    parts.assemble()
    return kept


def _title(asked: Asked, names: tuple[str, ...], *, exact: bool = False) -> list[str]:
    """The run and the question without what varies, a line each: of a picture's title, or with all digits."""
    phases = asked.file.training
    lines = []
    for place, phase in enumerate(phases, 1):
        parts = [] if {"sampling_rate", "batch_size", "dataset_size"} & set(names) else [phase.sampling.describe()]
        if "noise_multiplier" not in names:
            noise = phase.noise_multiplier
            parts.append(f"noise multiplier {noise!r}" if exact else f"noise multiplier {given(noise)}")
        if not {"steps", "epochs"} & set(names):
            parts.append(f"{phase.steps} steps")
        prefix = f"phase {place}: " if len(phases) > 1 else ""
        lines.append(prefix + ", ".join(parts or [phase.sampling.title]))
    question = [] if "group_size" in names else [asked.group_text()]
    question += [] if "adjacency" in names else [asked.file.adjacency]
    question += [] if "delta" in names or asked.file.delta is None else [f"δ = {given(asked.file.delta)}"]
    return [*lines, ", ".join(question)]


def _table(rows: list[Any], names: tuple[str, ...]) -> Table:
    refusals = [row.refused for row in rows if row.refused is not None]
    notes = [f"{len(rows) - _MOST_ROWS} more rows: --out FILE has all of them."] if len(rows) > _MOST_ROWS else []
    notes += [f"{len(refusals)} refused; the first: {refusals[0]}"] if refusals else []
    loose = sum(row.tight is False for row in rows)
    if loose:
        some = f"Valid, not tight in {loose} of {len(rows)} rows: there a better analysis may prove a smaller value."
        notes.append(NOT_TIGHT if loose == len(rows) - len(refusals) else some)
    cells = []
    for row in rows[:_MOST_ROWS]:
        varying = (given(value) if isinstance(value, float) else str(value) for value in row.values.values())
        both = ("refused",) * 2 if row.refused else (lower_text(row.epsilon_lower), upper_text(row.epsilon_upper))
        cells.append((*varying, *both))
    columns = (*(name.replace("_", " ") for name in names), "at least", "at most")
    return Table("epsilon for every combination", columns, cells, notes)


def varied(texts: list[str]) -> dict[str, list[Any]]:
    """The values that NAME=first:last:count, NAME=first:last and NAME=1,2,4 spell."""
    spelled: dict[str, list[Any]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not name or not values or name in spelled or len(text) > 100_000:
            raise InvalidArgument("vary", text, "be written NAME=VALUES, each name once")
        spelled[name] = _spelled(text, name, values)
    return spelled


def _spelled(text: str, name: str, values: str) -> list[Any]:
    if name == "adjacency":
        chosen = [value.strip() for value in values.split(",")]
        if all(value in ADJACENCIES for value in chosen):
            return list(chosen)
    parts = values.split(":")
    integers = name == "group_size" or getattr(phase_fields().get(name), "kind", "") == "integer"
    try:
        if len(parts) == 1:
            listed = [value.strip() for value in values.split(",")]
            return [int(value) if _INTEGER.fullmatch(value) else fields.number("vary", value) for value in listed]
        if len(parts) == 2:
            first, last = (int(part) for part in parts)
            if first <= last <= first + 1_000_000:
                return list(range(first, last + 1))
        low, high, count = float(parts[0]), float(parts[1]), int(parts[2]) if len(parts) == 3 else 0
    except (ValueError, OverflowError):
        count = 0
    if 2 <= count <= 1_000_000 and math.isfinite(low) and math.isfinite(high):
        return _spread(text, name, low, high, count, integers=integers)
    spread = "10:50:5" if integers else "0.5:4:200"
    raise InvalidArgument("vary", text, f"look like {name}=1:50, {name}={spread} or {name}=1,2,4")


def _spread(text: str, name: str, low: float, high: float, count: int, *, integers: bool) -> list[Any]:
    """`count` values from low to high, equally far apart."""
    step = (high - low) / (count - 1)
    if not integers:
        return [low + i * step for i in range(count - 1)] + [high]
    apart, rest = divmod(int(high) - int(low), count - 1)
    if rest or not (low.is_integer() and high.is_integer()):
        between = f"{given(low)}, {given(low + step)}, ..., {given(high)}"
        values = f"{count} values from {given(low)} to {given(high)} are {between}"
        reason = f"{values}, a list like {name}=1,2,4 may hold any integers"
        raise InvalidArgument("vary", text, f"give integers for {name}", reason)
    return [int(low) + place * apart for place in range(count)]
