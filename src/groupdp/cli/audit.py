"""`groupdp audit worst-case` and `groupdp audit scores`: hold a claim against measured leakage.

Exit status 1 means that the claim was contradicted; 0 that it was not, which proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from groupdp._validation import require_integer
from groupdp.cli.asked import Asked
from groupdp.cli.audit_output import (
    emit_checks,
    emit_measured,
    emit_report,
    importance_as_json,
    measured_as_json,
    report_as_json,
)
from groupdp.cli.certificate import need_flint
from groupdp.cli.options import example
from groupdp.cli.support import (
    AsJSON,
    NewFiles,
    emit_json,
    emit_run,
    emit_text,
    handle_errors,
    name_written,
    option,
    progress_bar,
    read_integer,
    read_number,
    require_new,
)
from groupdp.cli.with_run import with_run
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.printing import given

_AUDIT = "The audit"
_OUTPUT = "Output"

_WORST_CASE_EXAMPLE = example(
    "groupdp audit worst-case --sampling-rate 0.1 --noise-multiplier 2 --steps 10 --group-size 4 --plot audit.svg"
)
_SCORES_EXAMPLE = example(
    "groupdp audit scores canaries.csv --sampling-rate 0.1 --noise-multiplier 2 --steps 10 --group-size 4"
)

Trials = Annotated[str, option("--trials", "INTEGER", "Training runs with the group, and as many without.", _AUDIT)]
Target = Annotated[
    str,
    option("--delta", "NUMBER", "The delta at which epsilon is bounded from below, whatever a run file says.", _AUDIT),
]
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
RevealBatches = Annotated[
    bool,
    typer.Option(
        "--reveal-batches",
        help="Release who was in each batch too (shuffled epochs, balls in bins, fixed order).",
        rich_help_panel=_AUDIT,
    ),
]
Plot = Annotated[str | None, option("--plot", "FILE", "Draw theory against measurement (.svg, .pdf or .png).", _OUTPUT)]
Certificate = Annotated[
    str | None,
    option("--certificate", "FILE", "Also write the certificate of the claimed epsilon: see groupdp verify.", _OUTPUT),
]
WithColumn = Annotated[str, option("--with-column", "NAME", "Column of the runs with the group.", _AUDIT)]
WithoutColumn = Annotated[str, option("--without-column", "NAME", "Column of the runs without it.", _AUDIT)]
ScoresFile = Annotated[
    str, typer.Argument(metavar="FILE", help="CSV file with a header; one row is one independent training run.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    audit = typer.Typer(
        no_args_is_help=False,
        help="Measure what DP-SGD leaks, and hold a claim against it.",
        epilog=example("groupdp audit worst-case run.toml --steps 10 --plot audit.png"),
    )
    audit.command(name="worst-case", epilog=_WORST_CASE_EXAMPLE)(handle_errors(worst_case))
    audit.command(name="scores", epilog=_SCORES_EXAMPLE)(handle_errors(scores))
    app.add_typer(audit, name="audit")


@with_run(question=("group_size", "adjacency"))
def worst_case(
    asked: Asked,
    *,
    claimed_group_size: ClaimedGroupSize = None,
    trials: Trials = "100000",
    delta: Target = "1e-3",
    confidence: Confidence = "0.999",
    gap: Gap = "0.1",
    importance_samples: Importance = "0",
    reveal_batches: RevealBatches = False,
    seed: Seed = "0",
    plot: Plot = None,
    certificate: Certificate = None,
    as_json: AsJSON = False,
) -> None:
    """Train the theorem's worst case many times, attack every run, and compare with the certified curve."""
    run, size, chosen = _audited(asked)
    samples = read_integer("importance_samples", importance_samples)
    if samples > 0 and chosen not in ("add", "remove", "add-or-remove"):
        raise InvalidArgument("importance_samples", InWords(samples), f"be 0 for adjacency {chosen!r}")
    number = read_integer("seed", seed)
    question = _question(delta, confidence, gap)
    claimed = None
    if claimed_group_size is not None:
        claimed = read_integer("claimed_group_size", claimed_group_size, at_least=1)
    from groupdp import guarantees
    from groupdp.audit import audit_worst_case, importance_delta

    with NewFiles("plot") as files:
        _reserve_certificate(files, certificate, asked)
        picture = None if plot is None else files.temporary(_picture(plot))
        with progress_bar("training") as progress:
            audit = audit_worst_case(
                run,
                group_size=size,
                claimed_group_size=claimed,
                trials=read_integer("trials", trials, at_least=2),
                adjacency=chosen,
                seed=number,
                reveal_batches=reveal_batches,
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
            from groupdp.figures import title_lines
            from groupdp.figures.audit import draw_audit

            draw_audit(audit, picture, title=title_lines(asked.title(delta=False), 120))
        _certify(files, certificate, run, size if claimed is None else claimed, chosen, question["delta"])
    name_written(certificate, plot)
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
        _emit_asked(asked, question["delta"])
        emit_measured(audit)
        emit_report(audit.report)
        emit_checks(checks)
    raise typer.Exit(1 if audit.report.verdict.contradicted else 0)


@with_run(question=("group_size", "adjacency"), run_as_option=True)
def scores(
    asked: Asked,
    *,
    file: ScoresFile,
    with_column: WithColumn = "with_group",
    without_column: WithoutColumn = "without_group",
    delta: Target = "1e-5",
    confidence: Confidence = "0.999",
    gap: Gap = "0.1",
    seed: Seed = "0",
    plot: Plot = None,
    certificate: Certificate = None,
    as_json: AsJSON = False,
) -> None:
    """Audit your own training loop: one score per independent run, larger where the group seems present."""
    run, size, chosen = _audited(asked)
    number = read_integer("seed", seed)
    question = _question(delta, confidence, gap)
    from groupdp.audit import audit_scores, claimed_curve, read_scores

    with NewFiles("plot") as files:
        _reserve_certificate(files, certificate, asked)
        picture = None if plot is None else files.temporary(_picture(plot))
        measured = read_scores(Path(file), with_column=with_column, without_column=without_column)
        with progress_bar("claim") as progress:
            claim = claimed_curve(run, group_size=size, adjacency=chosen, progress=progress)
        report = audit_scores(measured, run, group_size=size, claim=claim, adjacency=chosen, seed=number, **question)
        if picture is not None:
            from groupdp.figures import title_lines
            from groupdp.figures.audit import draw_scores

            draw_scores(
                measured, claim, picture, confidence=report.confidence, title=title_lines(asked.title(delta=False), 75)
            )
        _certify(files, certificate, run, size, chosen, question["delta"])
    name_written(certificate, plot)
    if as_json:
        emit_json(
            {
                **report_as_json(report),
                **asked.as_json_fields(),
                "seed": number,
            }
        )
    else:
        _emit_asked(asked, question["delta"])
        emit_report(report)
    raise typer.Exit(1 if report.verdict.contradicted else 0)


def _audited(asked: Asked) -> tuple[Any, Any, str]:
    """The run, the group, which has somebody in it, and the adjacency."""
    if "group_size" not in asked.neighbours:
        raise InvalidArgument("removed and added", NOT_SHOWN, "be left out of an audit: give group_size and adjacency")
    size = asked.neighbours["group_size"]
    if not isinstance(size, Mapping):
        require_integer("group_size", size, at_least=1)
    return asked.run, size, asked.file.adjacency


def _emit_asked(asked: Asked, delta: float) -> None:
    """The run as it was understood, and at which delta it is audited if its file names another one."""
    emit_run(asked)
    if asked.file.delta not in (None, delta):
        emit_text(
            f"audited at delta = {given(delta)} (--delta), not at the run's {given(asked.file.delta)}", indent="  "
        )


def _question(delta: str, confidence: str, gap: str) -> dict[str, Any]:
    return {
        "delta": read_number("delta", delta, above=0.0, below=1.0),
        "confidence": read_number("confidence", confidence),
        "gap": read_number("gap", gap, above=0.0, at_most=100.0),
    }


def _reserve_certificate(files: NewFiles, path: str | None, asked: Asked) -> None:
    """Find out before any work whether the certificate can be made and written."""
    if path is not None:
        require_new(path, "certificate", force=asked.force)
        need_flint()
        files.temporary(path, name="certificate")


def _certify(files: NewFiles, path: str | None, run: Any, size: Any, adjacency: str, delta: float) -> None:
    """Write the certificate of the epsilon that was audited, and say on stderr what the checker found."""
    if path is None:
        return
    from groupdp.certificate import certify

    with progress_bar("certify") as progress:
        made = certify(run, delta=delta, group_size=size, adjacency=adjacency, progress=progress)
    files.write_text(path, made.text)
    typer.echo(f"{made.verdict.outcome}: {made.verdict.reason}; sha256 {made.digest}", err=True)


def _picture(plot: str) -> str:
    if Path(plot).suffix.lower() not in (".svg", ".pdf", ".png"):
        raise InvalidArgument("plot", plot, "end in .svg, .pdf or .png")
    return plot
