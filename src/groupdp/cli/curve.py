"""`groupdp curve`: epsilon against group size, with the baselines beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from groupdp._validation import shown
from groupdp.cli.support import (
    Adjacency,
    AsJSON,
    BatchSize,
    DatasetSize,
    Delta,
    Epochs,
    MicrobatchSize,
    NewFiles,
    NoiseMultiplier,
    SamplingRate,
    Steps,
    emit_json,
    emit_table,
    handle_errors,
    progress_bar,
    read_adjacency,
    read_group_sizes,
    read_number,
    run_as_json,
    run_from_options,
    upper_text,
)
from groupdp.errors import InvalidArgument

_EXAMPLE = """
Example:

    groupdp curve --sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --delta 1e-6 --group-sizes 1:16 --plot out.png
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="curve", epilog=_EXAMPLE)(handle_errors(curve))


def curve(
    *,
    sampling_rate: SamplingRate = None,
    batch_size: BatchSize = None,
    dataset_size: DatasetSize = None,
    noise_multiplier: NoiseMultiplier,
    steps: Steps = None,
    epochs: Epochs = None,
    microbatch_size: MicrobatchSize = "1",
    delta: Delta,
    group_sizes: Annotated[
        str, typer.Option("--group-sizes", metavar="SIZES", help="1:32, or 1:32:4 (every fourth), or 1,2,4.")
    ] = "1:32",
    adjacency: Adjacency = "add-or-remove",
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Draw it: PNG, PDF or SVG by suffix.")
    ] = None,
    csv: Annotated[str | None, typer.Option("--csv", metavar="FILE", help="Write the data as CSV.")] = None,
    as_json: AsJSON = False,
) -> None:
    """epsilon against group size: the tight value, and what one had before."""
    run = run_from_options(
        sampling_rate=sampling_rate,
        batch_size=batch_size,
        dataset_size=dataset_size,
        noise_multiplier=noise_multiplier,
        steps=steps,
        epochs=epochs,
        microbatch_size=microbatch_size,
    )
    target = read_number("delta", delta, above=0.0, below=1.0)
    sizes = read_group_sizes(group_sizes)
    chosen = read_adjacency(adjacency)
    from groupdp.baselines.comparison import as_csv, compare
    from groupdp.figures.curves import check_picture_name, draw_curves, save_figure

    if plot is not None:
        check_picture_name("plot", plot)
    if plot is not None and csv is not None and Path(plot).resolve() == Path(csv).resolve():
        raise InvalidArgument(f"csv must be another file than plot, got {shown(csv)} for both.")
    with NewFiles() as files:
        for name, path in (("plot", plot), ("csv", csv)):
            if path is not None:
                files.temporary(path, name=name)  # find out now whether it can be written
        with progress_bar("curve") as progress:
            points = compare(run, delta=target, group_sizes=sizes, adjacency=chosen, progress=progress)
        if plot is not None:
            save_figure(draw_curves([(f"δ = {target:g}", points)]), files.temporary(plot))
        if csv is not None:
            files.write_text(csv, as_csv(points))
    if as_json:
        emit_json(
            {
                "points": [point.as_json() for point in points],
                "delta": target,
                "adjacency": chosen,
                "run": run_as_json(run),
            }
        )
        return
    emit_table(
        f"epsilon at delta = {target!r} against group size ({chosen}); upper bounds, rounded up",
        ("k", "this analysis", "k x one example", "Vadhan, exact", "Vadhan, old tool"),
        [
            (
                str(point.group_size),
                upper_text(point.epsilon.upper, 6),
                upper_text(point.linear.upper, 6),
                upper_text(point.vadhan, 6),
                upper_text(point.old_tool, 6),
            )
            for point in points
        ],
        note="k x one example is a reference line, not a guarantee.",
    )
