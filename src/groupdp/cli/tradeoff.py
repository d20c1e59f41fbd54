"""`groupdp tradeoff`: what an attacker could tell, as a curve and in a few numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from groupdp.cli.support import (
    Adjacency,
    AsJSON,
    BatchSize,
    DatasetSize,
    Epochs,
    GroupSize,
    MicrobatchSize,
    NewFiles,
    NoiseMultiplier,
    SamplingRate,
    Steps,
    bounds_as_json,
    emit_json,
    emit_table,
    handle_errors,
    lower_text,
    option,
    progress_bar,
    read_adjacency,
    read_integer,
    read_number,
    run_as_json,
    run_from_options,
    upper_text,
)

if TYPE_CHECKING:
    from groupdp.tradeoff import TradeOffCurve
    from groupdp.tradeoff.risk import Risk

_EXAMPLE = """
Example:

    groupdp tradeoff --sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --group-size 4 --plot tradeoff.png
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="tradeoff", epilog=_EXAMPLE)(handle_errors(tradeoff))


def tradeoff(
    *,
    sampling_rate: SamplingRate = None,
    batch_size: BatchSize = None,
    dataset_size: DatasetSize = None,
    noise_multiplier: NoiseMultiplier,
    steps: Steps = None,
    epochs: Epochs = None,
    microbatch_size: MicrobatchSize = "1",
    group_size: GroupSize = "1",
    adjacency: Adjacency = "add-or-remove",
    prior: Annotated[
        str, option("--prior", "NUMBER", "Probability of taking part, before the attack.", "The question")
    ] = "0.5",
    rates: Annotated[
        str, option("--rates", "LIST", "False positive rates, separated by commas.", "The question")
    ] = "1e-6,1e-3,0.01,0.1,0.5",
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Draw the curve: PNG, PDF or SVG by suffix.")
    ] = None,
    as_json: AsJSON = False,
) -> None:
    """How well could an attacker tell whether a person took part?"""
    run = run_from_options(
        sampling_rate=sampling_rate,
        batch_size=batch_size,
        dataset_size=dataset_size,
        noise_multiplier=noise_multiplier,
        steps=steps,
        epochs=epochs,
        microbatch_size=microbatch_size,
    )
    size = read_integer("group_size", group_size)
    chosen = read_adjacency(adjacency)
    asked = [read_number("rates", text, at_least=0.0, at_most=1.0) for text in rates.split(",")]
    before = read_number("prior", prior, above=0.0, below=1.0)
    from groupdp.tradeoff import trade_off
    from groupdp.tradeoff.risk import risk

    with NewFiles("plot") as files:
        if plot is not None:
            from groupdp.figures.curves import check_picture_name

            check_picture_name("plot", plot)
            files.temporary(plot)  # find out now whether it can be written
        with progress_bar("tradeoff") as progress:
            function = trade_off(run, group_size=size, adjacency=chosen)
            points = function.curve(asked)
            found = risk(
                run, group_size=size, adjacency=chosen, false_positive_rates=asked, prior=before, progress=progress
            )
            if plot is not None:
                from groupdp.figures.tradeoff import draw_trade_off

                draw_trade_off(
                    function.curve(tolerance=2e-3, progress=progress), files.temporary(plot), group_size=size
                )
    if as_json:
        emit_json({**_payload(found, points), "run": run_as_json(run)})
        return
    _emit(found, points)


def _payload(found: Risk, points: TradeOffCurve) -> dict[str, object]:
    return {
        "group_size": found.group_size,
        "adjacency": found.adjacency,
        "advantage": bounds_as_json(found.advantage),
        "gaussian_mu": found.gaussian.mu,
        "gaussian_mu_error": found.gaussian.error,
        "prior": found.prior,
        "success": bounds_as_json(found.success),
        "points": [
            {
                "false_positive_rate": float(rate),
                "false_negative_rate": {
                    "lower": float(points.false_negative_rate_lower[i]),
                    "upper": float(points.false_negative_rate_upper[i]),
                },
                "true_positive_rate": {
                    "lower": float(points.true_positive_rate_lower[i]),
                    "upper": float(points.true_positive_rate_upper[i]),
                },
                "posterior": bounds_as_json(found.posterior[float(rate)]),
            }
            for i, rate in enumerate(points.false_positive_rate)
        ],
    }


def _emit(found: Risk, points: TradeOffCurve) -> None:
    emit_table(
        f"The best attack on groups of up to {found.group_size} ({found.adjacency})",
        ("false positive rate", "true positive rate at most", "false negative rate at least", "posterior at most"),
        [
            (
                f"{rate:g}",
                upper_text(float(points.true_positive_rate_upper[i]), 8),
                lower_text(float(points.false_negative_rate_lower[i]), 8),
                upper_text(found.posterior[float(rate)].upper, 8),
            )
            for i, rate in enumerate(points.false_positive_rate)
        ],
        note=(
            f"Advantage (largest TPR - FPR): at most {upper_text(found.advantage.upper, 8)}. "
            f"A right guess with prior {found.prior:g}: at most {upper_text(found.success.upper, 8)}.\n"
            f"Closest Gaussian mechanism: mu = {found.gaussian.mu:.5g}, within "
            f"{upper_text(found.gaussian.error, 2)} in both error rates."
        ),
    )
