"""The whole audit in one report: lower bounds, the verdict on the claim, and what more runs would buy.

Every statement of a report (the bound on epsilon, the bound on delta, the verdict) holds by itself with the
stated confidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from groupdp._validation import require_number
from groupdp.audit.claims import ClaimedCurve, claimed_curve
from groupdp.audit.confidence import require_confidence
from groupdp.audit.lower_bounds import LowerBound, delta_lower_bound, epsilon_lower_bound
from groupdp.audit.measurement import MeasuredDelta, measured_curve
from groupdp.audit.planning import runs_to_see_gap
from groupdp.audit.simulation import Progress, Scores, attack_scores
from groupdp.audit.verdict import Verdict, check_claim
from groupdp.audit.worst_cases import WorstCase, worst_case
from groupdp.bounds import Bounds
from groupdp.neighbours import directions_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What the scores say about a claim."""

    claimed_epsilon: Bounds
    """Certified epsilon of the claimed run at `delta`."""
    delta: float
    confidence: float
    runs_with_group: int
    runs_without_group: int
    epsilon_lower: LowerBound
    """The true epsilon at `delta` is at least this."""
    delta_lower: LowerBound
    """The true delta, where the claim was tested, is at least this."""
    verdict: Verdict
    gap: float
    runs_for_gap: int | None
    """Runs of each kind to see a true epsilon of the claim plus `gap`; None if no number of runs would do."""
    more_runs_for_gap: int | None
    """The same, minus the runs there are."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorstCaseAudit:
    """A simulated worst case, attacked, against the certified curve of the same or of another run."""

    instance: WorstCase
    scores: Scores
    claim: ClaimedCurve
    measured: tuple[MeasuredDelta, ...]
    consistent: bool
    """Whether every interval of the measured curve meets the claimed one, from above and from below."""
    report: AuditReport


def audit_scores(
    scores: Scores,
    run: Any,
    *,
    delta: float,
    group_size: Any = None,
    rounds: int | None = None,
    claim: ClaimedCurve | None = None,
    adjacency: str = "add-or-remove",
    confidence: float = 0.999,
    gap: float = 0.1,
    power: float = 0.9,
    seed: int = 0,
    progress: Progress | None = None,
) -> AuditReport:
    """Audit the claim that `scores` come from the described run, for groups of `group_size` examples.

    `run` is what is claimed: a DPSGD or phases (with group_size), or a mixture of Gaussians (with rounds).
    Scores are one number per *independent* training run, larger where the group seems present; the audit
    assumes nothing else about them. `claim` saves tabulating the claimed curve again.
    """
    from groupdp import guarantees

    level, excess = _require_question(delta, confidence, gap)
    asked: dict[str, Any] = {"adjacency": adjacency, "group_size": group_size, "rounds": rounds}
    epsilon_lower = epsilon_lower_bound(scores, delta=level, confidence=confidence, adjacency=adjacency, seed=seed)
    claimed = guarantees.epsilon(run, delta=level, **asked)
    curve = claimed_curve(run, progress=progress, **asked) if claim is None else claim
    verdict = check_claim(scores, curve, confidence=confidence, seed=seed)
    delta_lower = delta_lower_bound(
        scores, epsilon=verdict.epsilon, confidence=confidence, adjacency=adjacency, seed=seed
    )
    runs = min(len(scores.with_group), len(scores.without_group))
    needed = _planned(epsilon_lower, claimed, excess, confidence, power)
    return AuditReport(
        claimed_epsilon=claimed,
        delta=level,
        confidence=epsilon_lower.confidence,
        runs_with_group=len(scores.with_group),
        runs_without_group=len(scores.without_group),
        epsilon_lower=epsilon_lower,
        delta_lower=delta_lower,
        verdict=verdict,
        gap=excess,
        runs_for_gap=needed,
        more_runs_for_gap=None if needed is None else max(0, needed - runs),
    )


def audit_worst_case(
    run: Any,
    *,
    group_size: Any,
    trials: int,
    delta: float,
    claimed_group_size: Any = None,
    ordinary_examples: int = 1,
    adjacency: str = "add-or-remove",
    confidence: float = 0.999,
    gap: float = 0.1,
    seed: int = 0,
    reveal_batches: bool = False,
    progress: Progress | None = None,
) -> WorstCaseAudit:
    """Train the worst case of `run` many times, attack every run, and hold the claim against it.

    Every sampling and every adjacency it has a law for. `reveal_batches` releases the batches as well, which the bounds
    of shuffled epochs allow. What is measured lies on the claimed curve where that is tight.
    The claim is the certified curve for groups of `claimed_group_size` (by default the true `group_size`).
    """
    _require_question(delta, confidence, gap)
    directions_of(adjacency)
    instance = worst_case(run, group_size=group_size, adjacency=adjacency, ordinary_examples=ordinary_examples)
    size = group_size if claimed_group_size is None else claimed_group_size
    scores = attack_scores(
        instance, trials=trials, seed=seed, reveal_batches=reveal_batches, progress=_part(progress, 0.0, 0.8)
    )
    curve = claimed_curve(
        run,
        group_size=size,
        adjacency=adjacency,
        smallest_delta=min(1e-2, 1.0 / trials),
        progress=_part(progress, 0.8, 1.0),
    )
    measured = measured_curve(scores, curve, confidence=confidence)
    report = audit_scores(
        scores,
        run,
        delta=delta,
        group_size=size,
        claim=curve,
        adjacency=adjacency,
        confidence=confidence,
        gap=gap,
        seed=seed,
    )
    consistent = all(
        one.consistent_with(curve.lower_deltas[one.direction], curve.deltas[one.direction]) for one in measured
    )
    return WorstCaseAudit(
        instance=instance, scores=scores, claim=curve, measured=measured, consistent=consistent, report=report
    )


def _require_question(delta: Any, confidence: Any, gap: Any) -> tuple[float, float]:
    """Check the question before any work is done."""
    require_confidence(confidence)
    return (
        require_number("delta", delta, above=0.0, below=1.0),
        require_number("gap", gap, above=0.0, at_most=100.0),
    )


def _part(progress: Progress | None, start: float, stop: float) -> Progress | None:
    """Progress of a part of the work, as progress of the whole."""
    return None if progress is None else lambda fraction: progress(start + (stop - start) * fraction)


def _planned(bound: LowerBound, claimed: Bounds, gap: float, confidence: float, power: float) -> int | None:
    if claimed.upper > 600.0:
        return None
    operation = bound.operation
    return runs_to_see_gap(
        claimed_epsilon=claimed.upper,
        delta=bound.delta,
        gap=gap,
        hit_rate=operation.hits / operation.hit_trials,
        confidence=confidence,
        power=power,
    )
