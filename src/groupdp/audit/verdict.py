"""Does the evidence contradict a claim?

The choosing half of the runs picks the epsilon, the direction and the threshold at which the claim looks
weakest; the confirming half then puts that one inequality, P(E) <= e^epsilon Q(E) + claimed delta, to an
exact test. A true claim is contradicted with probability at most 1 - confidence. Not being contradicted
proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from groupdp.audit.claims import ClaimedCurve, require_claim
from groupdp.audit.confidence import require_confidence
from groupdp.audit.lower_bounds import (
    Operation,
    candidate_thresholds,
    count_at_least,
    limits_at,
    operate,
    split,
)
from groupdp.audit.simulation import Scores
from groupdp.neighbours import Direction


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
    curve = require_claim(claim)
    sure = require_confidence(confidence)
    alpha = 1.0 - sure
    halves = split(scores, seed)
    factors = np.exp(curve.epsilons)
    best: tuple[float, Direction, float, int] | None = None
    for direction, claimed in curve.deltas.items():
        thresholds = candidate_thresholds(halves.choosing, direction)
        hit, false_alarm = limits_at(halves.choosing, direction, thresholds, alpha)
        margin = hit[:, None] - factors * false_alarm[:, None] - claimed
        # The chance to confirm grows with the margin in units of its own standard deviation.
        positives, negatives = halves.choosing.positives(direction), halves.choosing.negatives(direction)
        p = (count_at_least(positives, thresholds) + 1.0) / (len(positives) + 2.0)
        q = (count_at_least(negatives, thresholds) + 1.0) / (len(negatives) + 2.0)
        variance = (p * (1 - p) / len(positives))[:, None] + factors**2 * (q * (1 - q) / len(negatives))[:, None]
        strength = margin / np.sqrt(variance)
        i, j = np.unravel_index(int(np.argmax(strength)), strength.shape)
        if best is None or strength[i, j] > best[0]:
            best = (float(strength[i, j]), direction, float(thresholds[i]), int(j))
    if best is None:
        raise AssertionError("there must be a direction to test")
    _, chosen, threshold, where = best
    operation = operate(halves.confirming, chosen, threshold, alpha)
    measured = operation.hit_rate_lower - float(factors[where]) * operation.false_alarm_rate_upper
    claimed_delta = float(curve.deltas[chosen][where])
    return Verdict(
        contradicted=measured > claimed_delta,
        epsilon=float(curve.epsilons[where]),
        claimed_delta=claimed_delta,
        delta_lower=max(0.0, measured),
        confidence=sure,
        operation=operation,
    )
