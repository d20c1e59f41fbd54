"""DP-SGD run on its worst cases, the optimal attack on it, and an audit that can contradict a claim.

The simulation (worst_cases, simulation) shares nothing with the accountant; `claims` compares the two. An audit has the
measured delta over epsilon with intervals, lower bounds, the verdict, and what more runs would show.

For the optimal attack the best event at epsilon is known beforehand, "loss > epsilon", so that delta can be measured
from both sides. For other scores only the lower ends mean anything. Every statement of a report holds by itself with
the stated confidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from groupdp.audit.claims import ClaimedCurve as ClaimedCurve
from groupdp.audit.claims import Verdict as Verdict
from groupdp.audit.claims import check_claim as check_claim
from groupdp.audit.claims import claimed_curve as claimed_curve
from groupdp.audit.claims import claimed_point as claimed_point
from groupdp.audit.claims import runs_to_contradict as runs_to_contradict
from groupdp.audit.claims import runs_to_see_gap as runs_to_see_gap
from groupdp.audit.importance import ImportanceEstimate as ImportanceEstimate
from groupdp.audit.importance import importance_delta as importance_delta
from groupdp.audit.lower_bounds import LowerBound as LowerBound
from groupdp.audit.lower_bounds import Operation as Operation
from groupdp.audit.lower_bounds import SimultaneousBand as SimultaneousBand
from groupdp.audit.lower_bounds import delta_lower_bound as delta_lower_bound
from groupdp.audit.lower_bounds import epsilon_lower_bound as epsilon_lower_bound
from groupdp.audit.lower_bounds import lower_limit as lower_limit
from groupdp.audit.lower_bounds import rank_grid, require_confidence
from groupdp.audit.lower_bounds import simultaneous_band as simultaneous_band
from groupdp.audit.lower_bounds import upper_limit as upper_limit
from groupdp.audit.simulation import Progress
from groupdp.audit.simulation import Scores as Scores
from groupdp.audit.simulation import attack_scores as attack_scores
from groupdp.audit.simulation import correlated_scores as correlated_scores
from groupdp.audit.simulation import read_scores as read_scores
from groupdp.audit.worst_cases import Sampler as Sampler
from groupdp.audit.worst_cases import TrainingPhase as TrainingPhase
from groupdp.audit.worst_cases import WorstCase as WorstCase
from groupdp.audit.worst_cases import clip as clip
from groupdp.audit.worst_cases import log_likelihood_ratio as log_likelihood_ratio
from groupdp.audit.worst_cases import slope_gradient as slope_gradient
from groupdp.audit.worst_cases import train as train
from groupdp.audit.worst_cases import train_many as train_many
from groupdp.audit.worst_cases import training_phases as training_phases
from groupdp.audit.worst_cases import worst_case as worst_case
from groupdp.bounds import Bounds
from groupdp.errors import NOT_SHOWN, InvalidArgument, require_number
from groupdp.floats import FloatArray
from groupdp.mechanisms.correlated import CorrelatedNoise
from groupdp.neighbours import Direction, directions_of, require_direction


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredDelta:
    """delta over epsilon, one direction, with intervals that hold for all epsilons at once."""

    direction: Direction
    epsilons: FloatArray
    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray
    confidence: float
    trials: int

    def consistent_with(self, lower: FloatArray, upper: FloatArray) -> bool:
        """Whether every interval meets the certified [lower, upper] of its epsilon."""
        return bool(np.all((self.lower <= upper) & (lower <= self.upper)))

    @property
    def resolved(self) -> npt.NDArray[np.bool_]:
        """Whether each interval is narrower than its value, so that these trials resolve it."""
        return self.upper - self.lower < np.maximum(self.estimate, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EmpiricalTradeoff:
    """False alarms against misses, for every threshold, with a band that holds for all thresholds at once."""

    direction: Direction
    thresholds: FloatArray
    false_alarm_rate: FloatArray
    false_alarm_lower: FloatArray
    false_alarm_upper: FloatArray
    miss_rate: FloatArray
    miss_lower: FloatArray
    miss_upper: FloatArray
    confidence: float


def measured_delta(
    scores: Scores, epsilons: npt.ArrayLike, *, direction: str, confidence: float = 0.999
) -> MeasuredDelta:
    """Measure delta at every epsilon with the event "loss > epsilon"; jointly valid at `confidence` (Bonferroni)."""
    chosen = require_direction(direction)
    at = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
    if at.ndim != 1 or len(at) == 0 or not np.all(np.isfinite(at)) or np.any(at > 700.0):
        raise InvalidArgument("epsilons", NOT_SHOWN, "be a non-empty sequence of finite numbers of at most 700")
    sure = require_confidence(confidence)
    share = (1.0 - sure) / (4 * len(at))
    positives, negatives = np.sort(scores.positives(chosen)), np.sort(scores.negatives(chosen))
    hits = len(positives) - np.searchsorted(positives, at, side="right")
    false_alarms = len(negatives) - np.searchsorted(negatives, at, side="right")
    factor = np.exp(at)
    lower = lower_limit(hits, len(positives), share) - factor * upper_limit(false_alarms, len(negatives), share)
    upper = upper_limit(hits, len(positives), share) - factor * lower_limit(false_alarms, len(negatives), share)
    return MeasuredDelta(
        direction=chosen,
        epsilons=at,
        estimate=hits / len(positives) - factor * false_alarms / len(negatives),
        lower=np.maximum(0.0, lower),
        upper=np.minimum(1.0, upper),
        confidence=sure,
        trials=min(len(positives), len(negatives)),
    )


def measured_curve(scores: Scores, claim: ClaimedCurve, *, confidence: float = 0.999) -> tuple[MeasuredDelta, ...]:
    """`measured_delta` at the claim's epsilons, in all its directions, jointly valid at `confidence`."""
    each = 1.0 - (1.0 - require_confidence(confidence)) / len(claim.deltas)
    return tuple(
        measured_delta(scores, claim.epsilons, direction=direction, confidence=each) for direction in claim.deltas
    )


def empirical_tradeoff(scores: Scores, *, direction: str, confidence: float = 0.999) -> EmpiricalTradeoff:
    """The attack's trade-off curve: rejecting Q when loss > t, at every t worth drawing.

    Half of 1 - confidence for each of the two simultaneous bands.
    """
    chosen = require_direction(direction)
    alpha = 1.0 - require_confidence(confidence)
    positives, negatives = np.sort(scores.positives(chosen)), np.sort(scores.negatives(chosen))
    thresholds = np.unique(np.concatenate([losses[rank_grid(len(losses)) - 1] for losses in (positives, negatives)]))
    quiet = np.searchsorted(negatives, thresholds, side="right")  # Q(loss <= t): no false alarm
    missed = np.searchsorted(positives, thresholds, side="right")  # P(loss <= t): a miss
    quiet_lower, quiet_upper = simultaneous_band(len(negatives), alpha / 2.0).limits(quiet)
    miss_lower, miss_upper = simultaneous_band(len(positives), alpha / 2.0).limits(missed)
    return EmpiricalTradeoff(
        direction=chosen,
        thresholds=thresholds,
        false_alarm_rate=1.0 - quiet / len(negatives),
        false_alarm_lower=1.0 - quiet_upper,
        false_alarm_upper=1.0 - quiet_lower,
        miss_rate=missed / len(positives),
        miss_lower=miss_lower,
        miss_upper=miss_upper,
        confidence=1.0 - alpha,
    )


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
    """`runs_for_gap` minus the runs already made."""


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

    level = require_number("delta", delta, above=0.0, below=1.0)
    excess = require_number("gap", gap, above=0.0, at_most=100.0)
    asked: dict[str, Any] = {"adjacency": adjacency, "group_size": group_size, "rounds": rounds}
    epsilon_lower = epsilon_lower_bound(scores, delta=level, confidence=confidence, adjacency=adjacency, seed=seed)
    claimed = guarantees.epsilon(run, delta=level, **asked)
    curve = claimed_curve(run, progress=progress, **asked) if claim is None else claim
    verdict = check_claim(scores, curve, confidence=confidence, seed=seed)
    delta_lower = delta_lower_bound(
        scores, epsilon=verdict.epsilon, confidence=confidence, adjacency=adjacency, seed=seed
    )
    runs = min(len(scores.with_group), len(scores.without_group))
    needed = None
    if claimed.upper <= 600.0:
        hit_rate = epsilon_lower.operation.hits / epsilon_lower.operation.hit_trials
        rates = {"hit_rate": hit_rate, "confidence": confidence, "power": power}
        needed = runs_to_see_gap(claimed_epsilon=claimed.upper, delta=level, gap=excess, **rates)
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
    """Train the worst case of `run` many times, attack every run, and compare with the claim.

    Every sampling and every adjacency it has a law for. `reveal_batches` releases the batches as well, which the bounds
    of shuffled epochs allow. What is measured lies on the claimed curve where that is tight.
    The claim is the certified curve for groups of `claimed_group_size` (by default the true `group_size`).
    """
    require_confidence(confidence)
    require_number("delta", delta, above=0.0, below=1.0)
    require_number("gap", gap, above=0.0, at_most=100.0)
    directions_of(adjacency)

    def part(start: float, stop: float) -> Progress | None:
        return None if progress is None else lambda fraction: progress(start + (stop - start) * fraction)

    instance = worst_case(run, group_size=group_size, adjacency=adjacency, ordinary_examples=ordinary_examples)
    size = group_size if claimed_group_size is None else claimed_group_size
    scores = attack_scores(instance, trials=trials, seed=seed, reveal_batches=reveal_batches, progress=part(0.0, 0.8))
    claimed: dict[str, Any] = {"group_size": size, "adjacency": adjacency}
    curve = claimed_curve(run, smallest_delta=min(1e-2, 1.0 / trials), progress=part(0.8, 1.0), **claimed)
    measured = measured_curve(scores, curve, confidence=confidence)
    report = audit_scores(scores, run, delta=delta, claim=curve, confidence=confidence, gap=gap, seed=seed, **claimed)
    consistent = all(
        part.consistent_with(curve.lower_deltas[part.direction], curve.deltas[part.direction]) for part in measured
    )
    return WorstCaseAudit(
        instance=instance, scores=scores, claim=curve, measured=measured, consistent=consistent, report=report
    )


def audit_correlated(
    run: CorrelatedNoise,
    *,
    group_size: int,
    trials: int,
    delta: float,
    trained: CorrelatedNoise | None = None,
    confidence: float = 0.999,
    seed: int = 0,
) -> AuditReport:
    """Train the worst case of `run` many times, attack every run, and hold the claim about `run` against it.

    `trained` is what the training code does, where that differs from the claim: another normalisation, for example.
    """
    scores = correlated_scores(run if trained is None else trained, group_size=group_size, trials=trials, seed=seed)
    claim = claimed_curve(run, group_size=group_size, smallest_delta=min(1e-2, 1.0 / trials))
    return audit_scores(scores, run, delta=delta, group_size=group_size, claim=claim, confidence=confidence, seed=seed)
