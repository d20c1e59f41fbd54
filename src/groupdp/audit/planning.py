"""How many runs it takes to see a gap.

A plan, not a guarantee: it supposes the attack's rates. Under them, the audit of `lower_bounds` and `verdict`
(half of the runs choose, half confirm) contradicts the claim with at least the stated power.
"""

from __future__ import annotations

import math

from scipy import special

from groupdp._validation import require_number
from groupdp.audit.confidence import lower_limit, require_confidence, upper_limit

#: Plans beyond this many runs are answered with None: they will not be made.
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
    """The largest s with P(Binom(runs, probability) < s) <= level: reached with probability at least 1 -
    level."""
    if probability >= 1.0:
        return runs
    low, high = 0, runs  # P(X < 0) = 0; P(X >= s) is the incomplete beta function at s
    while low < high:
        middle = (low + high + 1) // 2
        reached = float(special.betainc(float(middle), runs - middle + 1.0, probability))
        low, high = (middle, high) if reached >= 1.0 - level else (low, middle - 1)
    return low
