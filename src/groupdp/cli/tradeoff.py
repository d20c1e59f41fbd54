"""`groupdp tradeoff`: what an attacker could tell, as a curve and in a few numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from groupdp.cli.asked import Asked
from groupdp.cli.options import example
from groupdp.cli.support import (
    AsJSON,
    NewFiles,
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
    read_number,
    require_new,
    upper_text,
)
from groupdp.cli.with_run import with_run
from groupdp.printing import given

if TYPE_CHECKING:
    from groupdp.tradeoff import TradeOffCurve
    from groupdp.tradeoff.risk import Risk

_EXAMPLE = example(
    "groupdp tradeoff --sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --group-size 4 --plot tradeoff.png"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="tradeoff", epilog=_EXAMPLE)(handle_errors(tradeoff))


@with_run(question=("group_size", "adjacency", "removed", "added"))
def tradeoff(
    asked: Asked,
    *,
    prior: Annotated[
        str, option("--prior", "NUMBER", "Probability, before the attack, of what an alarm claims.", "The question")
    ] = "0.5",
    rates: Annotated[
        str,
        option("--rates", "LIST", "False positive rates.", "The question"),
    ] = "1e-6,1e-3,0.01,0.1,0.5",
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot", metavar="FILE", help="Draw the curve: PNG, PDF or SVG by suffix.", rich_help_panel="Output"
        ),
    ] = None,
    as_json: AsJSON = False,
) -> None:
    """How well could an attacker tell whether a person took part?"""
    levels = [read_number("rates", text, at_least=0.0, at_most=1.0) for text in rates.split(",")]
    before = read_number("prior", prior, above=0.0, below=1.0)
    require_new(plot, "plot", force=asked.force)
    from groupdp.tradeoff import trade_off
    from groupdp.tradeoff.risk import risk

    with NewFiles("plot") as files:
        if plot is not None:
            from groupdp.figures.curves import check_picture_name

            check_picture_name("plot", plot)
            files.temporary(plot)  # find out now whether it can be written
        with progress_bar("tradeoff") as progress:
            function = trade_off(asked.run, **asked.neighbours)
            points = function.curve(levels)
            asked_of = {"false_positive_rates": levels, "prior": before, "function": function, **asked.neighbours}
            found = risk(asked.run, progress=progress, **asked_of)
            if plot is not None:
                from groupdp.figures import title_lines
                from groupdp.figures.tradeoff import draw_trade_off, rates_to_draw

                draw_trade_off(
                    function.curve(rates_to_draw(), tolerance=2e-3, progress=progress),
                    files.temporary(plot),
                    title=title_lines(asked.title(delta=False), 110),
                )
    if as_json:
        emit_json({**_payload(found, points), "tight": function.tight, **asked.as_json_fields()})
        return
    emit_run(asked)
    _emit(found, points, asked)
    if not function.tight:
        emit_text("Valid, not tight: a better analysis may leave an attacker less.")
    name_written(plot)


def _payload(found: Risk, points: TradeOffCurve) -> dict[str, object]:
    return {
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


def _emit(found: Risk, points: TradeOffCurve, asked: Asked) -> None:
    from groupdp.question import neighbours_of

    emit_table(
        f"The best attack on {asked.group_text()}",
        ("false alarms", "detected, at most", "missed, at least", "posterior, at most"),
        [
            (
                given(rate),
                upper_text(float(points.true_positive_rate_upper[i]), 8),
                lower_text(float(points.false_negative_rate_lower[i]), 8),
                # An alarm that never sounds accuses nobody.
                upper_text(found.posterior[float(rate)].upper, 8) if points.true_positive_rate_upper[i] > 0.0 else "-",
            )
            for i, rate in enumerate(points.false_positive_rate)
        ],
        note=(
            f"{neighbours_of(asked.run, **asked.neighbours).cases.alarm()}\n"
            f"Advantage (largest TPR - FPR): at most {upper_text(found.advantage.upper, 8)}. "
            f"A right guess with prior {given(found.prior)}: at most {upper_text(found.success.upper, 8)}.\n"
            f"Closest Gaussian mechanism: mu = {given(found.gaussian.mu)}, within "
            f"{upper_text(found.gaussian.error, 2)} in both error rates."
        ),
    )
