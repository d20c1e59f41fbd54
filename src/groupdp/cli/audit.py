"""`groupdp audit`: compare a claim with measured leakage.

Exit status 1 means that the claim was contradicted; 0 that it was not, which proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import typer

from groupdp.cli.asked import Asked
from groupdp.cli.command import command
from groupdp.cli.options import OUTPUT, PLOT, argument, flag, integer, number, words
from groupdp.cli.output import Answer, Content, Table, drawn, progress_bar, values_of
from groupdp.cli.statement import need_flint
from groupdp.engines import Progress
from groupdp.errors import NOT_SHOWN, InvalidArgument, require_integer
from groupdp.neighbours import ONE_SIDED
from groupdp.printing import counted, given, lower_text, sides, upper_text

if TYPE_CHECKING:
    from groupdp.audit import AuditReport, ImportanceEstimate, MeasuredDelta, WorstCaseAudit
    from groupdp.bounds import Bounds

_AUDIT = "The audit"
GROUPS = {
    "audit": (
        "Measure what DP-SGD leaks, and compare it with a claim.",
        "groupdp audit worst-case run.toml --steps 10 --plot audit.png",
    )
}


_GAPS: dict[str, Any] = {"above": 0.0, "at_most": 100.0}


def _shared(delta: str) -> dict[str, Any]:
    """The options of both audits; `delta` is the default."""
    text = "The delta at which epsilon is bounded from below; a run file's delta is not used."
    return {
        "delta": number(text, _AUDIT, default=delta, above=0.0, below=1.0),
        "confidence": number("Confidence of every statement.", _AUDIT, default="0.999"),
        "gap": number(
            "Say how many runs would show an epsilon this far above the claim.", _AUDIT, default="0.1", **_GAPS
        ),
        "seed": integer("Random seed.", _AUDIT, default="0", at_least=0),
        "certificate": words(
            "FILE", "Also write the certificate of the claimed epsilon: see groupdp verify.", OUTPUT, writes="whole"
        ),
        "plot": PLOT,
    }


@command(
    "audit worst-case",
    "--sampling-rate 0.1 --noise-multiplier 2 --steps 10 --group-size 4 --plot audit.svg",
    question=("group_size", "adjacency"),
    claimed_group_size=integer("Audit the claim for this group size instead.", _AUDIT),
    trials=integer("Training runs with the group; as many are made without it.", _AUDIT, default="100000", at_least=2),
    **_shared("1e-3"),
    importance_samples=integer(
        "Draws of importance sampling that check the claimed epsilon at --delta.", _AUDIT, default="0", at_least=0
    ),
    reveal_batches=flag("Also release who was in each batch (shuffled epochs, fixed order).", _AUDIT),
)
def worst_case(
    asked: Asked, *, claimed_group_size: int | None, importance_samples: int, certificate: str | None, **question: Any
) -> Answer:
    """Train the theorem's worst case many times, attack every run, and compare with the certified curve."""
    about: dict[str, Any] = _audited(asked)
    size, chosen = about["group_size"], about["adjacency"]
    if importance_samples > 0 and chosen not in ONE_SIDED:
        raise InvalidArgument("importance_samples", importance_samples, f"be 0 for adjacency {chosen!r}")
    from groupdp import guarantees
    from groupdp.audit import audit_worst_case, importance_delta

    if certificate is not None:
        need_flint()
    audited = {**about, **question, "claimed_group_size": claimed_group_size}
    with progress_bar("training") as progress:
        audit = audit_worst_case(asked.run, progress=progress, **audited)
    report, checks = audit.report, []
    for direction in (measured.direction for measured in audit.measured if importance_samples > 0):
        with progress_bar(f"importance sampling, {direction}") as progress:
            check = importance_delta(
                asked.run,
                group_size=size,
                epsilon=report.claimed_epsilon.upper,
                direction=direction,
                samples=importance_samples,
                confidence=question["confidence"],
                seed=question["seed"],
                progress=progress,
            )
        certified = guarantees.delta(asked.run, epsilon=check.epsilon, group_size=size, adjacency=direction)
        checks.append((check, certified))
    agree = "agree with" if audit.consistent else "DISAGREE with"
    return _answer(
        asked,
        report,
        question,
        payload={
            "consistent": audit.consistent,
            "measured": [
                {
                    "direction": measured.direction,
                    "epsilon": measured.epsilons.tolist(),
                    "certified_lower": audit.claim.lower_deltas[measured.direction].tolist(),
                    "certified_upper": audit.claim.deltas[measured.direction].tolist(),
                    **{name: getattr(measured, name).tolist() for name in ("estimate", "lower", "upper")},
                }
                for measured in audit.measured
            ],
            "importance_sampling": [
                {
                    "about": "a check of the numerics, not a black-box audit",
                    "certified_delta": sides(certified),
                    **values_of(check, _CHECKED),
                }
                for check, certified in checks
            ],
        },
        before=[
            *(_measured_table(audit, measured) for measured in audit.measured),
            f"The measured intervals {agree} the claimed curve (jointly, at confidence {given(report.confidence)}).\n",
        ],
        after=[_checks_table(checks)] if checks else [],
        files={
            "plot": drawn("draw_audit", audit, title=asked.title(delta=False), width=120),
            **_certificate(certificate, asked, claimed_group_size or size, question["delta"]),
        },
    )


@command(
    "audit scores",
    "canaries.csv --sampling-rate 0.1 --noise-multiplier 2 --steps 10 --group-size 4",
    question=("group_size", "adjacency"),
    run_as_option=True,
    file=argument("FILE", "CSV file with a header; one row is one independent training run."),
    with_column=words("NAME", "Column of the runs with the group.", _AUDIT, default="with_group"),
    without_column=words("NAME", "Column of the runs without it.", _AUDIT, default="without_group"),
    **_shared("1e-5"),
)
def scores(
    asked: Asked,
    *,
    file: str,
    with_column: str,
    without_column: str,
    certificate: str | None,
    progress: Progress,
    **question: Any,
) -> Answer:
    """Audit your own training loop: one score per independent run, larger where the group seems present."""
    about = _audited(asked)
    from groupdp.audit import audit_scores, claimed_curve, read_scores

    if certificate is not None:
        need_flint()
    measured = read_scores(Path(file), with_column=with_column, without_column=without_column)
    claim = claimed_curve(asked.run, **about, progress=progress)
    report = audit_scores(measured, asked.run, claim=claim, **about, **question)
    drawing: dict[str, Any] = {"confidence": report.confidence, "title": asked.title(delta=False), "width": 75}
    return _answer(
        asked,
        report,
        question,
        files={
            "plot": drawn("draw_scores", measured, claim, **drawing),
            **_certificate(certificate, asked, about["group_size"], question["delta"]),
        },
    )


_CHECKED = ("direction", "epsilon", "log_delta", "log_lower", "log_upper", "confidence", "samples")


def _audited(asked: Asked) -> dict[str, Any]:
    """The group, which must not be empty, and the adjacency."""
    if "group_size" not in asked.neighbours:
        raise InvalidArgument("removed and added", NOT_SHOWN, "be left out of an audit: give group_size and adjacency")
    size = asked.neighbours["group_size"]
    if not isinstance(size, Mapping):
        require_integer("group_size", size, at_least=1)
    return asked.neighbours


def _certificate(path: str | None, asked: Asked, size: Any, delta: float) -> dict[str, Content]:
    """The certificate of the epsilon that was audited, if one is to be written; what the checker found is on stderr."""
    if path is None:
        return {}
    from groupdp.certificate import certify

    with progress_bar("certify") as progress:
        made = certify(asked.run, delta=delta, group_size=size, adjacency=asked.file.adjacency, progress=progress)
    typer.echo(f"{made.verdict.outcome}: {made.verdict.reason}; sha256 {made.digest}", err=True)
    return {"certificate": made.text}


def _answer(
    asked: Asked,
    report: AuditReport,
    question: Mapping[str, Any],
    *,
    files: Mapping[str, Content],
    payload: Mapping[str, Any] = MappingProxyType({}),
    before: Sequence[str | Table] = (),
    after: Sequence[str | Table] = (),
) -> Answer:
    """The claim as a whole, what was measured, and the one inequality tested: in which direction each is."""
    about, delta, tested = asked.about(), question["delta"], report.verdict
    needed, more = (
        "no number suffices" if runs is None else counted(runs)
        for runs in (report.runs_for_gap, report.more_runs_for_gap)
    )
    if asked.file.delta not in (None, delta):
        about.append(f"audited at delta = {given(delta)} (--delta), not at the run's {given(asked.file.delta)}")
    seen = report.epsilon_lower.operation.direction
    where = f"at epsilon {given(tested.epsilon)}, {tested.operation.direction}"
    rows = [
        (f"claimed epsilon at delta {given(report.delta)}", upper_text(report.claimed_epsilon.upper, 6)),
        (
            f"measured epsilon at delta {given(report.delta)}, {seen}: at least",
            lower_text(report.epsilon_lower.value, 6),
        ),
        (f"claimed delta {where}", upper_text(tested.claimed_delta, 6)),
        (f"measured delta {where}: at least", lower_text(tested.delta_lower, 6)),
        (f"runs of each kind to see a gap of {given(report.gap)}", needed),
        ("additional runs of each kind needed", more),
    ]
    return Answer(
        json={**_report_as_json(report), **asked.as_json_fields(), "seed": question["seed"], **payload},
        about=about,
        text=[
            *before,
            Table(f"Audit, each statement at confidence {given(report.confidence)}", ("", ""), rows),
            "The claim is CONTRADICTED." if tested.contradicted else "The claim is not contradicted.",
            *after,
        ],
        files=files,
        status=1 if tested.contradicted else 0,
    )


def _measured_table(audit: WorstCaseAudit, measured: MeasuredDelta) -> Table:
    """About ten of the measured epsilons."""
    certified = audit.claim.deltas[measured.direction]
    return Table(
        f"delta over epsilon, {measured.direction}: {measured.trials} runs of each kind",
        ("epsilon", "claimed", "measured", "at least", "at most"),
        [
            (
                given(measured.epsilons[i]),
                upper_text(float(certified[i]), 4),
                f"{max(0.0, measured.estimate[i]):.4g}",
                lower_text(float(measured.lower[i]), 4),
                upper_text(float(measured.upper[i]), 4),
            )
            for i in range(0, len(measured.epsilons), max(1, len(measured.epsilons) // 10))
        ],
    )


def _checks_table(checks: list[tuple[ImportanceEstimate, Bounds]]) -> Table:
    return Table(
        "Importance sampling: a check of the numerics, not an audit",
        ("direction", "epsilon", "certified delta", "estimate", "at least", "at most"),
        [
            (
                check.direction,
                given(check.epsilon),
                upper_text(certified.upper, 6),
                f"{check.delta:.6g}",
                lower_text(check.lower, 6),
                upper_text(check.upper, 6),
            )
            for check, certified in checks
        ],
    )


def _report_as_json(report: AuditReport) -> dict[str, Any]:
    counts = ("direction", "threshold", "hits", "hit_trials", "false_alarms", "false_alarm_trials")
    lower = {
        name: {**values_of(bound, ("value", "epsilon", "delta")), **values_of(bound.operation, counts)}
        for name, bound in (("epsilon_lower", report.epsilon_lower), ("delta_lower", report.delta_lower))
    }
    tested = report.verdict
    return {
        "contradicted": tested.contradicted,
        **values_of(report, ("confidence", "delta")),
        "claimed_epsilon": sides(report.claimed_epsilon),
        **lower,
        "verdict": {
            **values_of(tested, ("epsilon", "claimed_delta", "delta_lower")),
            **values_of(tested.operation, ("direction", "threshold")),
        },
        **values_of(report, ("runs_with_group", "runs_without_group", "gap", "runs_for_gap", "more_runs_for_gap")),
    }
