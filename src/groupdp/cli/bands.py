"""`groupdp bands`: how many bands correlated noise should have, by epsilon and error."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from groupdp.cli.options import example
from groupdp.cli.support import (
    NOT_TIGHT,
    Adjacency,
    AsJSON,
    Delta,
    bounds_as_json,
    emit_json,
    emit_table,
    handle_errors,
    option,
    read_adjacency,
    read_group_sizes,
    read_integer,
    read_number,
    upper_text,
)
from groupdp.neighbours import ADJACENCIES

_RUN, _QUESTION = "The run", "The question"
_EXAMPLE = example(
    "groupdp bands --bands 1,2,4,8 --sampling-rate 0.01 --steps 2000 --noise-multiplier 2 --normalisation unit-columns "
    "--assigned person --delta 1e-6 --group-size 3 --epsilon 8"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="bands", epilog=_EXAMPLE)(handle_errors(bands))


def bands(
    *,
    bands: Annotated[str, option("--bands", "NUMBERS", "Numbers of bands: 1,2,4 or 1:8.", _RUN)] = "1,2,4,8,16",
    sampling_rate: Annotated[
        str, option("--sampling-rate", "NUMBER", "Expected batch over the whole dataset, for every row.", _RUN)
    ],
    steps: Annotated[str, option("--steps", "INTEGER", "Number of rounds.", _RUN)],
    noise_multiplier: Annotated[
        str, option("--noise-multiplier", "NUMBER", "Noise over the clipping norm, as --normalisation says.", _RUN)
    ],
    normalisation: Annotated[
        str,
        option("--normalisation", "NAME", "as-given, or unit-columns: the noise is times the column norm.", _RUN),
    ],
    assigned: Annotated[
        str, option("--assigned", "NAME", "What decides an example's part: person, example or position.", _RUN)
    ],
    delta: Delta,
    group_size: Annotated[str, option("--group-size", "INTEGER", "Examples that one person may have.", _QUESTION)] = (
        "1"
    ),
    epsilon: Annotated[
        str | None, option("--epsilon", "NUMBER", "Also the noise that meets this epsilon, and its error.", _QUESTION)
    ] = None,
    adjacency: Adjacency = ADJACENCIES[0],
    as_json: AsJSON = False,
) -> None:
    """Bands of correlated noise against epsilon and the error of prefix sums."""
    question: dict[str, Any] = {
        "sampling_rate": read_number("sampling_rate", sampling_rate),
        "steps": read_integer("steps", steps, at_least=1),
        "noise_multiplier": read_number("noise_multiplier", noise_multiplier),
        "normalisation": normalisation,
        "assigned": assigned,
        "delta": read_number("delta", delta),
        "group_size": read_integer("group_size", group_size, at_least=1),
        "epsilon": None if epsilon is None else read_number("epsilon", epsilon),
        "adjacency": read_adjacency(adjacency),
    }
    counts = read_group_sizes(bands, name="bands")
    from groupdp.correlated import bands_table

    rows = bands_table(counts, **question)
    if as_json:
        described = [
            {
                "bands": row.bands,
                "epsilon": bounds_as_json(row.epsilon),
                "tight": row.epsilon.tight,
                "column_norm": row.run.column_norm,
                "standard_deviation": row.run.standard_deviation,
                "squared_error": row.squared_error,
                **(
                    {}
                    if row.calibrated is None
                    else {
                        "calibrated_noise_multiplier": row.calibrated.noise_multiplier,
                        "calibrated_squared_error": row.calibrated_error,
                    }
                ),
            }
            for row in rows
        ]
        emit_json({"rows": described, **question})
        return
    columns = ["bands", "epsilon", "sigma / clip", "squared error"]
    if question["epsilon"] is not None:
        columns += [f"noise for {question['epsilon']:g}", "its squared error"]
    emit_table(
        f"Bands against epsilon at delta = {question['delta']!r} for a group of {question['group_size']} "
        f"({question['adjacency']}, {assigned}, {normalisation})",
        columns,
        [
            (
                str(row.bands),
                upper_text(row.epsilon.upper, 6),
                f"{row.run.standard_deviation:.6g}",
                f"{row.squared_error:.5g}",
                *(
                    ()
                    if row.calibrated is None
                    else (upper_text(row.calibrated.noise_multiplier, 6), f"{row.calibrated_error:.5g}")
                ),
            )
            for row in rows
        ],
        note="Squared error: of all prefix sums of gradients clipped to 1, in total; not certified, smaller is better."
        + ("" if all(row.epsilon.tight for row in rows) else f" {NOT_TIGHT}"),
    )
