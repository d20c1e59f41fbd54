"""How the answers of `groupdp audit` are shown: tables and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupdp.cli.support import bounds_as_json, emit_table, emit_text, lower_text, upper_text
from groupdp.printing import given

if TYPE_CHECKING:
    from groupdp.audit import AuditReport, ImportanceEstimate, LowerBound, MeasuredDelta, WorstCaseAudit
    from groupdp.bounds import Bounds


def emit_measured(audit: WorstCaseAudit) -> None:
    """About ten of the measured epsilons per direction."""
    for one in audit.measured:
        certified = audit.claim.deltas[one.direction]
        rows = [
            (
                given(one.epsilons[i]),
                upper_text(float(certified[i]), 4),
                f"{max(0.0, one.estimate[i]):.4g}",
                lower_text(float(one.lower[i]), 4),
                upper_text(float(one.upper[i]), 4),
            )
            for i in range(0, len(one.epsilons), max(1, len(one.epsilons) // 10))
        ]
        emit_table(
            f"delta over epsilon, {one.direction}: {one.trials} runs of each kind",
            ("epsilon", "claimed", "measured", "at least", "at most"),
            rows,
        )
    joint = f"jointly, at confidence {given(audit.report.confidence)}"
    verdict = "agree with" if audit.consistent else "DISAGREE with"
    emit_text(f"The measured intervals {verdict} the claimed curve ({joint}).\n")


def emit_report(report: AuditReport) -> None:
    """The claim as a whole, what was measured, and the one inequality tested: in which direction each is."""
    seen = report.epsilon_lower.operation.direction
    tested = f"at epsilon {given(report.verdict.epsilon)}, {report.verdict.operation.direction}"
    rows = [
        (f"claimed epsilon at delta {given(report.delta)}", upper_text(report.claimed_epsilon.upper, 6)),
        (
            f"measured epsilon at delta {given(report.delta)}, {seen}: at least",
            lower_text(report.epsilon_lower.value, 6),
        ),
        (f"claimed delta {tested}", upper_text(report.verdict.claimed_delta, 6)),
        (f"measured delta {tested}: at least", lower_text(report.verdict.delta_lower, 6)),
        (f"runs of each kind to see a gap of {given(report.gap)}", _runs(report.runs_for_gap)),
        ("more than there are, by", _runs(report.more_runs_for_gap)),
    ]
    emit_table(f"Audit, each statement at confidence {given(report.confidence)}", ("", ""), rows)
    emit_text("The claim is CONTRADICTED." if report.verdict.contradicted else "The claim is not contradicted.")


def _runs(count: int | None) -> str:
    return "no number would do" if count is None else str(count)


def emit_checks(checks: list[tuple[ImportanceEstimate, Bounds]]) -> None:
    if not checks:
        return
    rows = [
        (
            one.direction,
            given(one.epsilon),
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


def report_as_json(report: AuditReport) -> dict[str, Any]:
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


def measured_as_json(audit: WorstCaseAudit, one: MeasuredDelta) -> dict[str, Any]:
    return {
        "direction": one.direction,
        "epsilon": one.epsilons.tolist(),
        "certified_lower": audit.claim.lower_deltas[one.direction].tolist(),
        "certified_upper": audit.claim.deltas[one.direction].tolist(),
        "estimate": one.estimate.tolist(),
        "lower": one.lower.tolist(),
        "upper": one.upper.tolist(),
    }


def importance_as_json(check: ImportanceEstimate, certified: Bounds) -> dict[str, Any]:
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
