"""`groupdp sweep`: epsilon for every combination of values, as a table, a file or a picture."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import typer

from groupdp._files import check_writable
from groupdp.cli.asked import Asked
from groupdp.cli.command import command
from groupdp.cli.options import COMPUTATION, Option, out, words
from groupdp.cli.output import (
    NOT_TIGHT,
    emit_json,
    emit_table,
    emit_text,
    name_written,
    new_files,
    progress_bar,
    require_new,
)
from groupdp.drawing import save_figure, title_lines
from groupdp.errors import NOT_SHOWN, InvalidArgument
from groupdp.fields import number
from groupdp.neighbours import ADJACENCIES
from groupdp.printing import given, lower_text, upper_text

#: Names whose values are integers.
_INTEGERS = (
    *("steps", "batch_size", "dataset_size", "largest_batch", "batches", "participations", "microbatch_size"),
    "group_size",
)
_INTEGER = re.compile(r"[+-]?\d{1,100}", re.ASCII)
#: Rows printed where no file is asked for.
_MOST_ROWS = 200


@command(
    "sweep",
    "run.toml --vary noise_multiplier=0.5:4:200 --vary group_size=1:50 -o grid.parquet --plot grid.png",
    vary=Option(
        text="first:last:count (count values), first:last (integers), or a list 1,2,4; once for each name.",
        metavar="NAME=VALUES",
        required=True,
        several=True,
    ),
    out=out("FILE", "Write the rows: .csv or .parquet."),
    scheduler=words("ADDRESS", "Compute on this Dask scheduler.", COMPUTATION),
)
def sweep(
    asked: Asked, *, vary: list[str], out: str | None, plot: str | None, scheduler: str | None, as_json: bool
) -> None:
    """epsilon for every combination of values; with --out an interrupted sweep goes on where it stopped."""
    from groupdp.sweeps.grid import grid_of

    values = values_of(vary)
    if "group_size" in values and asked.file.group_size is None and asked.file.sources is None:
        asked = replace(asked, file=replace(asked.file, group_size=1))  # it varies: this one is not asked about
    neighbours = asked.neighbours
    if "removed" in neighbours:
        raise InvalidArgument("group_size", NOT_SHOWN, "be given for a sweep in place of removed and added")
    grid = grid_of(
        asked.run,
        delta=asked.file.delta,
        group_size=neighbours["group_size"],
        adjacency=neighbours["adjacency"],
        vary=values,
    )
    require_new(out, "out", force=asked.force)
    if plot is not None:
        from groupdp.figures.sweeps import check_names, draw_sweep

        check_names(grid.names)
    with new_files(force=asked.force, plot=plot) as files:
        rows = _computed(grid, out, scheduler, wanted=as_json or plot is not None)
        if plot is not None:
            save_figure(draw_sweep(rows, title=title_lines(_title(asked, grid.names))), files.temporary(plot))
    if as_json:
        asked_of = {"delta": grid.delta, **asked.as_json_fields()}
        fixed = {name: value for name, value in asked_of.items() if name not in grid.names}
        emit_json({"rows": [row.as_dict() for row in rows], **fixed})
        return
    about = [line.replace("δ", "delta") for line in _title(asked, grid.names, exact=True)]
    for line in (*about, *asked.remarks(group="group_size" not in grid.names)):
        emit_text(line, indent="  ")
    if out is None:
        _emit(rows, grid.names)
    name_written(out, plot)


def _computed(grid: Any, out: str | None, scheduler: str | None, *, wanted: bool) -> list[Any]:
    """The rows, if they are wanted: a large file is never in memory as a whole."""
    from groupdp.sweeps.files import Parts
    from groupdp.sweeps.sweep import finished_chunks

    with progress_bar("sweep") as progress:
        if out is None:
            found: dict[int, list[Any]] = {}
            for start, rows in finished_chunks(grid, scheduler=scheduler):
                found[start] = rows
                progress(sum(map(len, found.values())) / len(grid))
            return [row for start in sorted(found) for row in found[start]]
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
            typer.echo(f"\rstopped after {count} of {len(grid)} rows: the same command goes on there.", err=True)
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


def _emit(rows: list[Any], names: tuple[str, ...]) -> None:
    shown_rows = rows[:_MOST_ROWS]
    refused = sum(row.refused is not None for row in rows)
    notes = []
    if len(rows) > len(shown_rows):
        notes.append(f"{len(rows) - len(shown_rows)} more rows: --out FILE has all of them.")
    if refused:
        notes.append(f"{refused} refused; the first: {next(row.refused for row in rows if row.refused is not None)}")
    loose = sum(row.tight is False for row in rows)
    if loose:
        some = f"Valid, not tight in {loose} of {len(rows)} rows: there 'at least' limits this analysis only."
        notes.append(NOT_TIGHT if loose == len(rows) - refused else some)
    emit_table(
        "epsilon for every combination",
        (*(name.replace("_", " ") for name in names), "at least", "at most"),
        [
            (
                *(given(value) if isinstance(value, float) else str(value) for value in row.values.values()),
                "refused" if row.refused else lower_text(row.epsilon_lower, 8),
                "refused" if row.refused else upper_text(row.epsilon_upper, 8),
            )
            for row in shown_rows
        ],
        note="\n".join(notes),
    )


def values_of(texts: list[str]) -> dict[str, list[Any]]:
    """The values that NAME=first:last:count, NAME=first:last and NAME=1,2,4 spell."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not name or not values or name in found or len(text) > 100_000:
            raise InvalidArgument("vary", text, "be written NAME=VALUES, each name once")
        found[name] = _spelled(text, name, values)
    return found


def _spelled(text: str, name: str, values: str) -> list[Any]:
    if name == "adjacency":
        chosen = [value.strip() for value in values.split(",")]
        if all(value in ADJACENCIES for value in chosen):
            return list(chosen)
    parts = values.split(":")
    try:
        if len(parts) == 2:
            first, last = (int(part) for part in parts)
            if first <= last <= first + 1_000_000:
                return list(range(first, last + 1))
        if len(parts) == 3:
            low, high, count = float(parts[0]), float(parts[1]), int(parts[2])
            if math.isfinite(low) and math.isfinite(high) and 2 <= count <= 1_000_000:
                if name in _INTEGERS:
                    return _whole(text, name, low, high, count)
                step = (high - low) / (count - 1)
                return [low + i * step for i in range(count - 1)] + [high]
        if len(parts) == 1:
            return [_number(value) for value in values.split(",")]
    except InvalidArgument:
        raise
    except (ValueError, OverflowError):
        pass
    spread = "10:50:5" if name in _INTEGERS else "0.5:4:200"
    raise InvalidArgument("vary", text, f"look like {name}=1:50, {name}={spread} or {name}=1,2,4")


def _whole(text: str, name: str, low: float, high: float, count: int) -> list[int]:
    """So many integers, equally far apart."""
    apart, rest = divmod(int(high) - int(low), count - 1)
    if rest or not (low.is_integer() and high.is_integer()):
        between = f"{given(low)}, {given(low + (high - low) / (count - 1))}, ..., {given(high)}"
        raise InvalidArgument(
            "vary",
            text,
            f"give integers for {name}",
            f"{count} values from {given(low)} to {given(high)} are {between}, "
            f"a list like {name}=1,2,4 may hold any integers",
        )
    return [int(low) + place * apart for place in range(count)]


def _number(text: str) -> int | float:
    if _INTEGER.fullmatch(text.strip()):
        return int(text)
    try:
        return number("vary", text)
    except InvalidArgument:
        raise ValueError(text) from None
