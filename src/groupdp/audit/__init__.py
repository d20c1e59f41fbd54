"""Tightness you can watch: DP-SGD that really runs, its worst cases, the optimal attack, and an audit that
can fail.

The simulation (samplers, trainer, worst_cases, attack) shares nothing with the accountant; `claims` is
where they meet.
"""

from groupdp.audit.attack import log_likelihood_ratio, presence_log_probabilities, revealed_log_likelihood_ratio
from groupdp.audit.audit import AuditReport, WorstCaseAudit, audit_scores, audit_worst_case
from groupdp.audit.canaries import read_scores
from groupdp.audit.claims import ClaimedCurve, claimed_curve, claimed_point
from groupdp.audit.confidence import SimultaneousBand, lower_limit, simultaneous_band, upper_limit
from groupdp.audit.importance import ImportanceEstimate, importance_delta
from groupdp.audit.lower_bounds import LowerBound, Operation, delta_lower_bound, epsilon_lower_bound
from groupdp.audit.measurement import (
    EmpiricalTradeoff,
    MeasuredDelta,
    empirical_tradeoff,
    measured_curve,
    measured_delta,
)
from groupdp.audit.planning import runs_to_contradict, runs_to_see_gap
from groupdp.audit.samplers import DescribedSampler, ReusedBatchSampler, Sampler, sampler_of
from groupdp.audit.simulation import Scores, attack_scores
from groupdp.audit.trainer import TrainingPhase, clip, train, train_many, training_phases
from groupdp.audit.verdict import Verdict, check_claim
from groupdp.audit.worst_cases import WorstCase, slope_gradient, worst_case

__all__ = [
    "AuditReport",
    "ClaimedCurve",
    "DescribedSampler",
    "EmpiricalTradeoff",
    "ImportanceEstimate",
    "LowerBound",
    "MeasuredDelta",
    "Operation",
    "ReusedBatchSampler",
    "Sampler",
    "Scores",
    "SimultaneousBand",
    "TrainingPhase",
    "Verdict",
    "WorstCase",
    "WorstCaseAudit",
    "attack_scores",
    "audit_scores",
    "audit_worst_case",
    "check_claim",
    "claimed_curve",
    "claimed_point",
    "clip",
    "delta_lower_bound",
    "empirical_tradeoff",
    "epsilon_lower_bound",
    "importance_delta",
    "log_likelihood_ratio",
    "lower_limit",
    "measured_curve",
    "measured_delta",
    "presence_log_probabilities",
    "read_scores",
    "revealed_log_likelihood_ratio",
    "runs_to_contradict",
    "runs_to_see_gap",
    "sampler_of",
    "simultaneous_band",
    "slope_gradient",
    "train",
    "train_many",
    "training_phases",
    "upper_limit",
    "worst_case",
]
