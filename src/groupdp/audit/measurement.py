"""Theory against measurement: two-sided intervals for delta over epsilon, and the trade-off curve with its
band.

For the optimal attack the best event at epsilon is known beforehand, "loss > epsilon", so nothing is chosen
by looking at the scores, and delta(epsilon) = P(loss > epsilon) - e^epsilon Q(loss > epsilon) can be
measured from both sides. The intervals hold for all epsilons and directions at once. If the scores are not
the optimal attack's, only the lower ends mean anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from groupdp.audit.claims import ClaimedCurve
from groupdp.audit.confidence import (
    lower_limit,
    rank_grid,
    require_confidence,
    simultaneous_band,
    upper_limit,
)
from groupdp.audit.simulation import Scores
from groupdp.errors import NOT_SHOWN, InvalidArgument
from groupdp.neighbours import Direction, require_direction

FloatArray = npt.NDArray[np.float64]


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
        """Where the interval is narrower than the value it is about: what these trials can see."""
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
    """Measure delta at every epsilon with the event "loss > epsilon"; jointly valid at `confidence`.

    Four exact binomial limits per epsilon, each at its share of 1 - confidence.
    """
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
