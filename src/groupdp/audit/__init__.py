"""DP-SGD that is really run on its worst cases, the optimal attack on it, and an audit that can fail.

The simulation (worst_cases, simulation) shares nothing with the accountant; `claims` compares the two.
"""

from groupdp.audit.audit import AuditReport as AuditReport
from groupdp.audit.audit import EmpiricalTradeoff as EmpiricalTradeoff
from groupdp.audit.audit import MeasuredDelta as MeasuredDelta
from groupdp.audit.audit import WorstCaseAudit as WorstCaseAudit
from groupdp.audit.audit import audit_correlated as audit_correlated
from groupdp.audit.audit import audit_scores as audit_scores
from groupdp.audit.audit import audit_worst_case as audit_worst_case
from groupdp.audit.audit import empirical_tradeoff as empirical_tradeoff
from groupdp.audit.audit import measured_curve as measured_curve
from groupdp.audit.audit import measured_delta as measured_delta
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
from groupdp.audit.lower_bounds import simultaneous_band as simultaneous_band
from groupdp.audit.lower_bounds import upper_limit as upper_limit
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
