"""The claim under audit, the verdict on it, and how many runs it takes to see a gap.

Verdict: the choosing half of the runs picks the epsilon, the direction and the threshold at which the claim looks
weakest; the confirming half puts that one inequality, P(E) <= e^epsilon Q(E) + claimed delta, to an exact test. A true
claim is contradicted with probability at most 1 - confidence. A claim that is not contradicted is not proved.

Plan: under the attack's supposed rates the audit contradicts the claim with at least the stated power.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import special

from groupdp.audit.lower_bounds import (
    Operation,
    Rates,
    chosen_operation,
    lower_limit,
    require_confidence,
    upper_limit,
)
from groupdp.audit.simulation import Progress, Scores
from groupdp.bounds import Bounds
from groupdp.errors import NOT_SHOWN, InvalidArgument, require_integer, require_number
from groupdp.floats import FloatArray
from groupdp.neighbours import BACKWARD, Direction, directions_of

#: No audit sees an epsilon beyond this: it would need e^25 = 7e10 runs.
LARGEST_AUDITED_EPSILON = 25.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClaimedCurve:
    """For every tabulated epsilon and every direction: the mechanism leaks at most this delta."""

    epsilons: FloatArray
    deltas: Mapping[Direction, FloatArray]
    """Upper ends of the certified bounds."""
    lower_deltas: Mapping[Direction, FloatArray]
    """Lower ends: no valid claim about the claimed mechanism is below these; 0 where the claim is not tight."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "deltas", MappingProxyType(dict(self.deltas)))
        object.__setattr__(self, "lower_deltas", MappingProxyType(dict(self.lower_deltas)))


def claimed_curve(
    run: Any,
    *,
    group_size: Any = None,
    rounds: int | None = None,
    adjacency: str = "add-or-remove",
    smallest_delta: float = 1e-9,
    points: int = 24,
    progress: Progress | None = None,
) -> ClaimedCurve:
    """The certified curve of a run (and group size), or of a mixture of Gaussians (and rounds).

    Tabulated at `points` values of epsilon from 0 to where delta falls to `smallest_delta`; at 0 alone if it
    is below that everywhere.
    """
    from groupdp import guarantees

    count = require_integer("points", points, at_least=2, at_most=100_000)
    floor = require_number("smallest_delta", smallest_delta, above=0.0, below=1.0)
    # Trials never resolve a claim better than this; both of its bounds are kept.
    asked: dict[str, Any] = {"group_size": group_size, "rounds": rounds, "tolerance": 1e-5}
    last = min(
        LARGEST_AUDITED_EPSILON,
        guarantees.epsilon(run, delta=floor, adjacency=adjacency, **asked).upper,
    )
    # Short enough to be printed in full: a claim is about the very epsilon beside it.
    spread = np.linspace(0.0, last, count if last > 0.0 else 1)
    epsilons = np.array([float(f"{epsilon:.8g}") for epsilon in spread])
    bounds = []
    for i, epsilon in enumerate(epsilons.tolist()):
        bounds.append(guarantees.log_delta(run, epsilon=epsilon, adjacency=adjacency, every_change=True, **asked))
        if progress is not None:
            progress((i + 1) / len(epsilons))
    claims = {direction: [_claim(at, direction) for at in bounds] for direction in directions_of(adjacency)}
    return ClaimedCurve(
        epsilons=epsilons,
        deltas={side: np.array([guarantees.exp_up(high) for _, high in table]) for side, table in claims.items()},
        lower_deltas={side: np.array([guarantees.exp_down(low) for low, _ in table]) for side, table in claims.items()},
    )


def _claim(bounds: Bounds, direction: Direction) -> tuple[float, float]:
    """Bounds on log delta for one direction, from those of all ordered changes.

    One change is its own mirror image, two are each other's; of more, the worst is claimed. Only where the analysis is
    tight, and the worst case is that of the change, does the lower side say anything about a mechanism.
    """
    changes = list(bounds.provenance.directions.values())
    if len(changes) > 2:
        return -math.inf, bounds.upper
    low, high = changes[-1 if direction == BACKWARD else 0]
    return (low if bounds.tight else -math.inf), high


def claimed_point(*, epsilon: float, delta: float, adjacency: str = "add-or-remove") -> ClaimedCurve:
    """A claim of a single (epsilon, delta), for every direction of the adjacency."""
    at = require_number("epsilon", epsilon, at_least=0.0, at_most=700.0)
    level = require_number("delta", delta, at_least=0.0, at_most=1.0)
    table = {direction: np.array([level]) for direction in directions_of(adjacency)}
    return ClaimedCurve(epsilons=np.array([at]), deltas=table, lower_deltas=table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the confirming half contradicts the claim, and where."""

    contradicted: bool
    epsilon: float
    """Where the claim was tested."""
    claimed_delta: float
    delta_lower: float
    """What was measured there: the true delta is at least this, with the stated confidence."""
    confidence: float
    operation: Operation


def check_claim(scores: Scores, claim: ClaimedCurve, *, confidence: float = 0.999, seed: int = 0) -> Verdict:
    """Test a claimed curve against scores from independent runs; see the module's first lines."""
    if not isinstance(claim, ClaimedCurve):
        raise InvalidArgument("claim", NOT_SHOWN, "be a ClaimedCurve, made by claimed_curve or claimed_point")
    sure = require_confidence(confidence)
    factors = np.exp(claim.epsilons)

    def strength(direction: Direction, seen: Rates) -> FloatArray:
        margin = seen.hit_rate_lower[:, None] - factors * seen.false_alarm_rate_upper[:, None] - claim.deltas[direction]
        # The chance to confirm grows with the margin in units of its own standard deviation.
        p = (seen.hits + 1.0) / (seen.hit_trials + 2.0)
        q = (seen.false_alarms + 1.0) / (seen.false_alarm_trials + 2.0)
        variance = (p * (1 - p) / seen.hit_trials)[:, None]
        variance = variance + factors**2 * (q * (1 - q) / seen.false_alarm_trials)[:, None]
        return np.asarray(margin / np.sqrt(variance))

    operation, where = chosen_operation(scores, claim.deltas, strength, 1.0 - sure, seed)
    measured = operation.hit_rate_lower - float(factors[where]) * operation.false_alarm_rate_upper
    claimed_delta = float(claim.deltas[operation.direction][where])
    return Verdict(
        contradicted=measured > claimed_delta,
        epsilon=float(claim.epsilons[where]),
        claimed_delta=claimed_delta,
        delta_lower=max(0.0, measured),
        confidence=sure,
        operation=operation,
    )


#: Plans beyond this number of runs are answered with None.
MOST_PLANNED_RUNS = 10**15


def runs_to_contradict(
    *,
    hit_rate: float,
    false_alarm_rate: float,
    epsilon: float,
    claimed_delta: float,
    confidence: float = 0.999,
    power: float = 0.9,
) -> int | None:
    """Runs of each kind (with the group, without it) after which the claim (epsilon, claimed_delta) falls.

    `hit_rate` = P(E) and `false_alarm_rate` = Q(E) are the true rates of the attack. The counts are put at
    their unlucky (1 - power) / 2 quantiles, the limits are the audit's own. None if P(E) <= e^epsilon Q(E)
    + claimed_delta, when nothing contradicts the claim, or if it takes more than 10^15 runs.
    """
    p = require_number("hit_rate", hit_rate, at_least=0.0, at_most=1.0)
    q = require_number("false_alarm_rate", false_alarm_rate, at_least=0.0, at_most=1.0)
    factor = math.exp(require_number("epsilon", epsilon, at_least=0.0, at_most=700.0))
    level = require_number("claimed_delta", claimed_delta, at_least=0.0, at_most=1.0)
    alpha = 1.0 - require_confidence(confidence)
    bad_luck = (1.0 - require_number("power", power, above=0.0, below=1.0)) / 2.0
    if p <= factor * q + level:
        return None

    def seen(runs: int) -> bool:
        hits = _quantile(runs, p, bad_luck)
        false_alarms = runs - _quantile(runs, 1.0 - q, bad_luck)
        lower = float(lower_limit(hits, runs, alpha / 2.0))
        return lower - factor * float(upper_limit(false_alarms, runs, alpha / 2.0)) > level

    high = 1
    while not seen(high):
        high *= 2
        if 2 * high > MOST_PLANNED_RUNS:
            return None
    low = high // 2
    while high - low > max(1, low // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if seen(middle) else (middle, high)
    return 2 * high


def runs_to_see_gap(
    *,
    claimed_epsilon: float,
    delta: float,
    gap: float,
    hit_rate: float,
    confidence: float = 0.999,
    power: float = 0.9,
) -> int | None:
    """Runs of each kind after which a true epsilon of claimed_epsilon + gap (at delta) is seen.

    Supposes that the attack keeps its `hit_rate` p and that its false alarms are as rare as such a leak
    allows at that rate, q = (p - delta) e^-(claimed_epsilon + gap). A weaker attack needs more runs, or
    never sees the gap.
    """
    at = require_number("claimed_epsilon", claimed_epsilon, at_least=0.0, at_most=600.0)
    level = require_number("delta", delta, at_least=0.0, below=1.0)
    excess = require_number("gap", gap, above=0.0, at_most=100.0)
    p = require_number("hit_rate", hit_rate, at_least=0.0, at_most=1.0)
    if p <= level:
        return None
    return runs_to_contradict(
        hit_rate=p,
        false_alarm_rate=(p - level) * math.exp(-(at + excess)),
        epsilon=at,
        claimed_delta=level,
        confidence=confidence,
        power=power,
    )


def _quantile(runs: int, probability: float, level: float) -> int:
    """The largest s with P(Binom(runs, probability) < s) <= level: reached with probability at least 1 - level."""
    if probability >= 1.0:
        return runs
    low, high = 0, runs  # P(X < 0) = 0; P(X >= s) is the incomplete beta function at s
    while low < high:
        middle = (low + high + 1) // 2
        reached = float(special.betainc(float(middle), runs - middle + 1.0, probability))
        low, high = (middle, high) if reached >= 1.0 - level else (low, middle - 1)
    return low
