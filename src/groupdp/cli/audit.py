"""`groupdp audit worst-case` and `groupdp audit scores`: hold a claim against measured leakage.

Exit status 1 means that the claim was contradicted; 0 that it was not, which proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from groupdp._validation import require_integer
from groupdp.cli.asked import Asked, with_run
from groupdp.cli.audit_output import (
    emit_checks,
    emit_measured,
    emit_report,
    importance_as_json,
    measured_as_json,
    report_as_json,
)
from groupdp.cli.support import (
    AsJSON,
    NewFiles,
    emit_json,
    emit_run,
    handle_errors,
    name_written,
    option,
    progress_bar,
    read_integer,
    read_number,
    require_new,
)
from groupdp.errors import InvalidArgument

#: Whom an audit is about, and at which delta.
_QUESTION = ("delta", "group_size", "adjacency")
_AUDIT = "The audit"
_OUTPUT = "Output"

_WORST_CASE_EXAMPLE = """
Example:

    groupdp audit worst-case --sampling-rate 0.1 --noise-multiplier 2 --steps 10 --group-size 4 --plot audit.svg
"""
_SCORES_EXAMPLE = """
Example:

    groupdp audit scores canaries.csv --sampling-rate 0.1 --noise-multiplier 2 --steps 10 --group-size 4
"""

Trials = Annotated[str, option("--trials", "INTEGER", "Training runs with the group, and as many without.", _AUDIT)]
Confidence = Annotated[str, option("--confidence", "NUMBER", "Confidence of every statement.", _AUDIT)]
Seed = Annotated[str, option("--seed", "INTEGER", "Everything random follows from it.", _AUDIT)]
Gap = Annotated[str, option("--gap", "NUMBER", "How many runs would show an epsilon this far above the claim?", _AUDIT)]
ClaimedGroupSize = Annotated[
    str | None,
    option("--claimed-group-size", "INTEGER", "Audit the claim for this group size instead.", _AUDIT),
]
Importance = Annotated[
    str,
    option(
        "--importance-samples",
        "INTEGER",
        "Also check the claimed epsilon at --delta by importance sampling (0: do not).",
        _AUDIT,
    ),
]
Plot = Annotated[str | None, option("--plot", "FILE", "Draw theory against measurement (.svg, .pdf or .png).", _OUTPUT)]
WithColumn = Annotated[str, option("--with-column", "NAME", "Column of the runs with the group.", _AUDIT)]
WithoutColumn = Annotated[str, option("--without-column", "NAME", "Column of the runs without it.", _AUDIT)]
ScoresFile = Annotated[
    str,
    typer.Argument(metavar="FILE", help="CSV file with a header (- for standard input); a row is an independent run."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    audit = typer.Typer(no_args_is_help=True, help="Measure what DP-SGD leaks, and hold a claim against it.")
    audit.command(name="worst-case", epilog=_WORST_CASE_EXAMPLE)(handle_errors(worst_case))
    audit.command(name="scores", epilog=_SCORES_EXAMPLE)(handle_errors(scores))
    app.add_typer(audit, name="audit")


@with_run(question=_QUESTION)
def worst_case(
    asked: Asked,
    *,
    claimed_group_size: ClaimedGroupSize = None,
    trials: Trials = "100000",
    confidence: Confidence = "0.999",
    gap: Gap = "0.1",
    importance_samples: Importance = "0",
    seed: Seed = "0",
    plot: Plot = None,
    as_json: AsJSON = False,
) -> None:
    """Train the theorem's worst case many times, attack every run, and compare with the certified curve.

    Without --delta, epsilon is bounded from below at delta = 1e-3.
    """
    run, size, chosen = asked.run, _group_size(asked), asked.file.adjacency
    samples, number = read_integer("importance_samples", importance_samples), read_integer("seed", seed)
    question = _question(asked, 1e-3, confidence, gap)
    if samples > 0 and chosen not in ("add", "remove", "add-or-remove"):
        raise InvalidArgument(
            f"importance_samples must be 0 unless adjacency is add, remove or add-or-remove, got {samples} "
            f"with {chosen}."
        )
    require_new(plot, "plot", force=asked.force)
    from groupdp import guarantees
    from groupdp.audit import audit_worst_case, importance_delta

    with NewFiles("plot") as files:
        picture = None if plot is None else files.temporary(_picture(plot))
        with progress_bar("training") as progress:
            audit = audit_worst_case(
                run,
                group_size=size,
                claimed_group_size=None
                if claimed_group_size is None
                else read_integer("claimed_group_size", claimed_group_size, at_least=1),
                trials=read_integer("trials", trials, at_least=2),
                adjacency=chosen,
                seed=number,
                progress=progress,
                **question,
            )
        checks = []
        for direction in (one.direction for one in audit.measured if samples > 0):
            with progress_bar(f"importance sampling, {direction}") as progress:
                check = importance_delta(
                    run,
                    group_size=size,
                    epsilon=audit.report.claimed_epsilon.upper,
                    direction=direction,
                    samples=samples,
                    confidence=question["confidence"],
                    seed=number,
                    progress=progress,
                )
            certified = guarantees.delta(run, epsilon=check.epsilon, group_size=size, adjacency=direction)
            checks.append((check, certified))
        if picture is not None:
            from groupdp.figures.audit import draw_audit

            draw_audit(audit, picture)
    if as_json:
        emit_json(
            {
                **report_as_json(audit.report),
                **asked.as_json_fields(),
                "seed": number,
                "consistent": audit.consistent,
                "measured": [measured_as_json(audit, one) for one in audit.measured],
                "importance_sampling": [importance_as_json(*check) for check in checks],
            }
        )
    else:
        emit_run(asked)
        emit_measured(audit)
        emit_report(audit.report)
        emit_checks(checks)
    if not as_json:
        name_written(plot)
    raise typer.Exit(1 if audit.report.verdict.contradicted else 0)


@with_run(question=_QUESTION, run_as_option=True)
def scores(
    file: ScoresFile,
    asked: Asked,
    *,
    with_column: WithColumn = "with_group",
    without_column: WithoutColumn = "without_group",
    confidence: Confidence = "0.999",
    gap: Gap = "0.1",
    seed: Seed = "0",
    plot: Plot = None,
    as_json: AsJSON = False,
) -> None:
    """Audit your own training loop: one score per independent run, larger where the group seems present.

    Without --delta, epsilon is bounded from below at delta = 1e-5.
    """
    run, size, chosen = asked.run, _group_size(asked), asked.file.adjacency
    number = read_integer("seed", seed)
    question = _question(asked, 1e-5, confidence, gap)
    require_new(plot, "plot", force=asked.force)
    from groupdp.audit import audit_scores, claimed_curve, read_scores

    with NewFiles("plot") as files:
        picture = None if plot is None else files.temporary(_picture(plot))
        measured = read_scores(file, with_column=with_column, without_column=without_column)
        with progress_bar("claim") as progress:
            claim = claimed_curve(run, group_size=size, adjacency=chosen, progress=progress)
        report = audit_scores(measured, run, group_size=size, claim=claim, adjacency=chosen, seed=number, **question)
        if picture is not None:
            from groupdp.figures.audit import draw_scores

            draw_scores(measured, claim, picture, confidence=report.confidence)
    if as_json:
        emit_json(
            {
                **report_as_json(report),
                **asked.as_json_fields(),
                "seed": number,
            }
        )
    else:
        emit_run(asked)
        emit_report(report)
    if not as_json:
        name_written(plot)
    raise typer.Exit(1 if report.verdict.contradicted else 0)


def _question(asked: Asked, default_delta: float, confidence: str, gap: str) -> dict[str, Any]:
    return {
        "delta": default_delta if asked.file.delta is None else asked.file.delta,
        "confidence": read_number("confidence", confidence),
        "gap": read_number("gap", gap, above=0.0, at_most=100.0),
    }


def _group_size(asked: Asked) -> Any:
    """A number of at least 1, or a number for each source: nobody can be told from nobody."""
    if "removed" in asked.neighbours:
        raise InvalidArgument("group_size must be given for an audit, in place of removed and added.")
    size = asked.neighbours["group_size"]
    return size if isinstance(size, Mapping) else require_integer("group_size", size, at_least=1)


def _picture(plot: str) -> str:
    if Path(plot).suffix.lower() not in (".svg", ".pdf", ".png"):
        raise InvalidArgument(f"plot must end in .svg, .pdf or .png, got {plot!r}.")
    return plot
