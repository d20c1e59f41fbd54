"""`groupdp audit worst-case` and `groupdp audit scores`: hold a claim against measured leakage.

Exit status 1 means that the claim was contradicted; 0 that it was not, which proves nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupdp.cli_support import (
    Adjacency,
    AsJSON,
    BatchSize,
    DatasetSize,
    Epochs,
    GroupSize,
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
from groupdp.errors import InvalidArgument

if TYPE_CHECKING:
    from groupdp.audit import AuditReport, ImportanceEstimate, LowerBound, MeasuredDelta, WorstCaseAudit
    from groupdp.bounds import Bounds

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
Target = Annotated[str, option("--delta", "NUMBER", "The delta at which epsilon is bounded from below.", _AUDIT)]
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
    str, typer.Argument(metavar="FILE", help="CSV file with a header; one row is one independent training run.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    audit = typer.Typer(no_args_is_help=True, help="Measure what DP-SGD leaks, and hold a claim against it.")
    audit.command(name="worst-case", epilog=_WORST_CASE_EXAMPLE)(handle_errors(worst_case))
    audit.command(name="scores", epilog=_SCORES_EXAMPLE)(handle_errors(scores))
    app.add_typer(audit, name="audit")


def worst_case(
    *,
    sampling_rate: SamplingRate = None,
    batch_size: BatchSize = None,
    dataset_size: DatasetSize = None,
    noise_multiplier: NoiseMultiplier,
    steps: Steps = None,
    epochs: Epochs = None,
    group_size: GroupSize = "1",
    claimed_group_size: ClaimedGroupSize = None,
    trials: Trials = "100000",
    delta: Target = "1e-3",
    confidence: Confidence = "0.999",
    adjacency: Adjacency = "add-or-remove",
    gap: Gap = "0.1",
    importance_samples: Importance = "0",
    seed: Seed = "0",
    plot: Plot = None,
    as_json: AsJSON = False,
) -> None:
    """Train the theorem's worst case many times, attack every run, and compare with the certified curve."""
    run = run_from_options(
        sampling_rate=sampling_rate,
        batch_size=batch_size,
        dataset_size=dataset_size,
        noise_multiplier=noise_multiplier,
        steps=steps,
        epochs=epochs,
    )
    size = read_integer("group_size", group_size, at_least=1)
    samples = read_integer("importance_samples", importance_samples)
    chosen, number = read_adjacency(adjacency), read_integer("seed", seed)
    question = _question(delta, confidence, gap)
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
            from groupdp.figures_audit import draw_audit

            draw_audit(audit, picture)
    if as_json:
        emit_json(
            {
                **_report_as_json(audit.report),
                "group_size": size,
                "adjacency": chosen,
                "seed": number,
                "run": run_as_json(run),
                "consistent": audit.consistent,
                "measured": [_measured_as_json(audit, one) for one in audit.measured],
                "importance_sampling": [_importance_as_json(*check) for check in checks],
            }
        )
    else:
        _emit_measured(audit)
        _emit_report(audit.report)
        _emit_checks(checks)
    raise typer.Exit(1 if audit.report.verdict.contradicted else 0)


def scores(
    file: ScoresFile,
    *,
    sampling_rate: SamplingRate = None,
    batch_size: BatchSize = None,
    dataset_size: DatasetSize = None,
    noise_multiplier: NoiseMultiplier,
    steps: Steps = None,
    epochs: Epochs = None,
    group_size: GroupSize = "1",
    with_column: WithColumn = "with_group",
    without_column: WithoutColumn = "without_group",
    delta: Target = "1e-5",
    confidence: Confidence = "0.999",
    adjacency: Adjacency = "add-or-remove",
    gap: Gap = "0.1",
    seed: Seed = "0",
    as_json: AsJSON = False,
) -> None:
    """Audit your own training loop: one score per independent run, larger where the group seems present."""
    run = run_from_options(
        sampling_rate=sampling_rate,
        batch_size=batch_size,
        dataset_size=dataset_size,
        noise_multiplier=noise_multiplier,
        steps=steps,
        epochs=epochs,
    )
    size = read_integer("group_size", group_size, at_least=1)
    chosen, number = read_adjacency(adjacency), read_integer("seed", seed)
    question = _question(delta, confidence, gap)
    from groupdp.audit import audit_scores, read_scores

    measured = read_scores(Path(file), with_column=with_column, without_column=without_column)
    with progress_bar("claim") as progress:
        report = audit_scores(
            measured, run, group_size=size, adjacency=chosen, seed=number, progress=progress, **question
        )
    if as_json:
        emit_json(
            {
                **_report_as_json(report),
                "group_size": size,
                "adjacency": chosen,
                "seed": number,
                "run": run_as_json(run),
            }
        )
    else:
        _emit_report(report)
    raise typer.Exit(1 if report.verdict.contradicted else 0)


def _question(delta: str, confidence: str, gap: str) -> dict[str, Any]:
    return {
        "delta": read_number("delta", delta, above=0.0, below=1.0),
        "confidence": read_number("confidence", confidence),
        "gap": read_number("gap", gap, above=0.0, at_most=100.0),
    }


def _picture(plot: str) -> str:
    if Path(plot).suffix.lower() not in (".svg", ".pdf", ".png"):
        raise InvalidArgument(f"plot must end in .svg, .pdf or .png, got {plot!r}.")
    return plot


def _emit_measured(audit: WorstCaseAudit) -> None:
    """About ten of the measured epsilons per direction."""
    for one in audit.measured:
        certified = audit.claim.deltas[one.direction]
        rows = [
            (
                f"{one.epsilons[i]:.3f}",
                upper_text(float(certified[i]), 4),
                f"{max(0.0, one.estimate[i]):.4g}",
                lower_text(float(one.lower[i]), 4),
                upper_text(float(one.upper[i]), 4),
            )
            for i in range(0, len(one.epsilons), max(1, len(one.epsilons) // 10))
        ]
        emit_table(
            f"delta over epsilon, {one.direction}: {one.trials} runs of each kind",
            ("epsilon", "certified", "measured", "at least", "at most"),
            rows,
        )
    joint = f"jointly, at confidence {audit.report.confidence:g}"
    verdict = "agree with" if audit.consistent else "DISAGREE with"
    typer.echo(f"The measured intervals {verdict} the certified curve ({joint}).\n")


def _emit_report(report: AuditReport) -> None:
    rows = [
        (f"claimed epsilon at delta {report.delta:g}", upper_text(report.claimed_epsilon.upper, 6)),
        (f"measured epsilon at delta {report.delta:g}: at least", lower_text(report.epsilon_lower.value, 6)),
        (f"claimed delta at epsilon {report.verdict.epsilon:.6g}", upper_text(report.verdict.claimed_delta, 6)),
        (
            f"measured delta at epsilon {report.verdict.epsilon:.6g}: at least",
            lower_text(report.verdict.delta_lower, 6),
        ),
        (f"runs of each kind to see a gap of {report.gap:g}", _runs(report.runs_for_gap)),
        ("more than there are, by", _runs(report.more_runs_for_gap)),
    ]
    emit_table(f"Audit, each statement at confidence {report.confidence:g}", ("", ""), rows)
    typer.echo("The claim is CONTRADICTED." if report.verdict.contradicted else "The claim is not contradicted.")


def _runs(count: int | None) -> str:
    return "no number would do" if count is None else str(count)


def _emit_checks(checks: list[tuple[ImportanceEstimate, Bounds]]) -> None:
    if not checks:
        return
    rows = [
        (
            one.direction,
            f"{one.epsilon:.6g}",
            upper_text(certified.upper, 6),
            f"{one.delta:.6g}",
            lower_text(one.lower, 6),
            upper_text(one.upper, 6),
        )
        for one, certified in checks
    ]
    emit_table(
        "Importance sampling: a check of the numerics, not an audit",
        ("direction", "epsilon", "certified delta", "estimate", "at least", "at most"),
        rows,
    )


def _report_as_json(report: AuditReport) -> dict[str, Any]:
    return {
        "contradicted": report.verdict.contradicted,
        "confidence": report.confidence,
        "delta": report.delta,
        "claimed_epsilon": bounds_as_json(report.claimed_epsilon),
        "epsilon_lower": _bound_as_json(report.epsilon_lower),
        "delta_lower": _bound_as_json(report.delta_lower),
        "verdict": {
            "epsilon": report.verdict.epsilon,
            "claimed_delta": report.verdict.claimed_delta,
            "delta_lower": report.verdict.delta_lower,
            "direction": report.verdict.operation.direction,
            "threshold": report.verdict.operation.threshold,
        },
        "runs_with_group": report.runs_with_group,
        "runs_without_group": report.runs_without_group,
        "gap": report.gap,
        "runs_for_gap": report.runs_for_gap,
        "more_runs_for_gap": report.more_runs_for_gap,
    }


def _bound_as_json(bound: LowerBound) -> dict[str, Any]:
    operation = bound.operation
    return {
        "value": bound.value,
        "epsilon": bound.epsilon,
        "delta": bound.delta,
        "direction": operation.direction,
        "threshold": operation.threshold,
        "hits": operation.hits,
        "hit_trials": operation.hit_trials,
        "false_alarms": operation.false_alarms,
        "false_alarm_trials": operation.false_alarm_trials,
    }


def _measured_as_json(audit: WorstCaseAudit, one: MeasuredDelta) -> dict[str, Any]:
    return {
        "direction": one.direction,
        "epsilon": one.epsilons.tolist(),
        "certified_lower": audit.claim.lower_deltas[one.direction].tolist(),
        "certified_upper": audit.claim.deltas[one.direction].tolist(),
        "estimate": one.estimate.tolist(),
        "lower": one.lower.tolist(),
        "upper": one.upper.tolist(),
    }


def _importance_as_json(check: ImportanceEstimate, certified: Bounds) -> dict[str, Any]:
    return {
        "about": "a check of the numerics, not a black-box audit",
        "direction": check.direction,
        "epsilon": check.epsilon,
        "certified_delta": bounds_as_json(certified),
        "log_delta": check.log_delta,
        "log_lower": check.log_lower,
        "log_upper": check.log_upper,
        "confidence": check.confidence,
        "samples": check.samples,
    }
