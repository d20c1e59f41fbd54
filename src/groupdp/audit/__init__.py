"""DP-SGD that is really run on its worst cases, the optimal attack on it, and an audit that can fail.

The simulation (trainer, worst_cases, simulation) shares nothing with the accountant; `claims` compares the two.
"""

from groupdp.audit.audit import (
    AuditReport,
    EmpiricalTradeoff,
    MeasuredDelta,
    WorstCaseAudit,
    audit_scores,
    audit_worst_case,
    empirical_tradeoff,
    measured_curve,
    measured_delta,
)
from groupdp.audit.claims import (
    ClaimedCurve,
    Verdict,
    check_claim,
    claimed_curve,
    claimed_point,
    runs_to_contradict,
    runs_to_see_gap,
)
from groupdp.audit.importance import ImportanceEstimate, importance_delta
from groupdp.audit.lower_bounds import (
    LowerBound,
    Operation,
    SimultaneousBand,
    delta_lower_bound,
    epsilon_lower_bound,
    lower_limit,
    simultaneous_band,
    upper_limit,
)
from groupdp.audit.simulation import Scores, attack_scores, read_scores
from groupdp.audit.trainer import (
    DescribedSampler,
    ReusedBatchSampler,
    Sampler,
    TrainingPhase,
    clip,
    sampler_of,
    train,
    train_many,
    training_phases,
)
from groupdp.audit.worst_cases import (
    WorstCase,
    log_likelihood_ratio,
    presence_log_probabilities,
    revealed_log_likelihood_ratio,
    slope_gradient,
    worst_case,
)

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
