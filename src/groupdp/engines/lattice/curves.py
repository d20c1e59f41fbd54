"""The hockey-stick curve of one round, whatever it is.

The lower bound for far tails (L-16): let E be the event that some round has a loss above epsilon. With P_j = P(L_j >
epsilon) for one round of the j-th part, which has T_j rounds, Bonferroni's inequality and the union bound give

    delta(eps) >= P(E) - e^eps Q(E) >= sum_j T_j delta_j(eps) - (sum_j T_j P_j)^2 / 2,

P_j <= delta_j(eps - 1) / (1 - 1/e). Dropping all rounds but one is post-processing, so delta_j(eps) alone is a lower
bound too.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from groupdp.engines.interface import Work, first_at_most, last_above
from groupdp.engines.lattice.envelope import Envelope
from groupdp.engines.lattice.one_round import RoundCurve
from groupdp.engines.lattice.round_terms import log_sum_with_errors, right_terms_at_positive
from groupdp.errors import LimitExceeded
from groupdp.floats import ELEMENTARY, log_complement
from groupdp.losses import AtomsRound, LaplaceRound
from groupdp.pairs import Composition, Profile, Round, Side, SubstitutionEnvelope

#: At least this many Gaussian branches are taken together (affects speed only).
MANY_BRANCHES = 4

#: Cost of one evaluation of the curve (engines/interface.py): for each component, and fixed.
_WORK_OF_A_COMPONENT, _WORK_OF_A_CALL = 20, 20_000


class Curve(Protocol):
    """Certified bounds on log delta(epsilon) of one round, in closed form."""

    largest_loss: float

    def above(self, epsilon: float) -> float: ...

    def below(self, epsilon: float) -> float: ...

    def epsilon_near(self, log_delta: float) -> tuple[float, float]: ...


class LossCurve:
    """The curve of a round whose losses are known (R-4, R-5)."""

    def __init__(self, round_: AtomsRound | LaplaceRound, work: Work | None = None) -> None:
        self.round, self.work, self.largest_loss = round_, Work() if work is None else work, round_.largest_loss
        self.cost = 10.0 * len(round_.losses) if isinstance(round_, AtomsRound) else 10.0

    def above(self, epsilon: float) -> float:
        self.work.spend(self.cost)
        return self.round.log_delta(epsilon, up=True)

    def below(self, epsilon: float) -> float:
        self.work.spend(self.cost)
        return self.round.log_delta(epsilon, up=False)

    def epsilon_near(self, log_delta: float) -> tuple[float, float]:
        """(epsilon, slope): about where log delta passes, by bisection."""
        low, high = 0.0, self.round.shift if isinstance(self.round, LaplaceRound) else float(self.round.losses[-1])
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.below(middle) > log_delta else (low, middle)
        return max(low, 0.0), 1.0


def gaussian_coin(round_: Round) -> Side | None:
    """The law of mu if every branch is N(mu) against N(0), moved as it may be; None otherwise.

    Its hockey stick sum_b w_b H_b is that of an envelope in which nothing is held back (L-10 with h_0 = 0, and the
    weight of branches with P = Q at loss 0).
    """
    if any(len(branch.right.shifts) > 1 or len(branch.left.shifts) > 1 for branch in round_.branches):
        return None
    shifts = np.array([branch.right.largest + branch.left.largest for branch in round_.branches])
    log_weights = np.array(round_.log_weights)
    order = np.flatnonzero(log_weights > -math.inf)
    order = order[np.argsort(shifts[order], kind="stable")]
    with np.errstate(under="ignore"):
        return Side.merged(shifts[order], (np.exp(log_weights[order]), np.minimum(log_weights[order], 0.0)))


class EnvelopeCurve:
    """The hockey stick R(e^epsilon) of one round of an envelope."""

    largest_loss = math.inf

    def __init__(self, side: Side, work: Work | None = None, *, balanced: bool = True) -> None:
        self.envelope = Envelope(side, balanced=balanced)
        self.work = Work() if work is None else work

    def above(self, epsilon: float) -> float:
        """An upper bound on log R(e^epsilon)."""
        return min(self._bound(epsilon, 1.0), 0.0)

    def below(self, epsilon: float) -> float:
        """A lower bound on log R(e^epsilon)."""
        return self._bound(epsilon, -1.0)

    def _bound(self, epsilon: float, sign: float) -> float:
        self.work.spend(_WORK_OF_A_COMPONENT * len(self.envelope.shifts) + _WORK_OF_A_CALL)
        if epsilon < 0.0:  # R(alpha) = 1 - alpha + alpha R(1 / alpha)
            trivial, mirrored = log_complement(epsilon), epsilon + self._bound(-epsilon, sign)
            room = sign * 8.0 * ELEMENTARY * (1.0 + abs(trivial) + (abs(mirrored) if math.isfinite(mirrored) else 0.0))
            return float(np.logaddexp(trivial, mirrored)) + room
        v = self.envelope.thresholds(np.array([epsilon]), above=sign > 0.0)[1:, 0]
        m = self.envelope.shifts
        if not np.all(np.isfinite(v)) or float(np.max(v)) > 1e15:
            return -math.inf if sign < 0.0 else 0.0
        log_terms, errors = right_terms_at_positive(v, v - m, m)
        value, error = log_sum_with_errors(log_terms, errors, self.envelope.log_h)
        return value + sign * error if error < math.inf else (-math.inf if sign < 0.0 else 0.0)

    def epsilon_near(self, log_delta: float) -> tuple[float, float]:
        """(epsilon, slope): about where log R is `log_delta`, and how steeply it falls; not certified."""
        low, high = 0.0, 1.0
        while self.above(high) > log_delta and high < 1e300:
            low, high = high, 2.0 * high
        for _ in range(30):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.above(middle) > log_delta else (low, middle)
        apart = 1e-6 * (1.0 + high)
        slope = (self.above(low) - self.above(high + apart)) / (high + apart - low)
        return low, slope if 0.0 < slope < math.inf else 1.0


def curve_of(round_: Round | Profile, work: Work | None = None) -> Curve:
    """The curve of one round; its evaluations count as `work`."""
    if isinstance(round_, AtomsRound | LaplaceRound):
        return LossCurve(round_, work)
    if not isinstance(round_, Round):
        return EnvelopeCurve(envelope_of(round_).side, work)
    gaussian = gaussian_coin(round_) if len(round_.branches) >= MANY_BRANCHES else None
    if gaussian is not None and not gaussian.is_zero:
        return EnvelopeCurve(gaussian, work, balanced=False)
    return RoundCurve(round_, work)


def envelope_of(round_: Profile) -> SubstitutionEnvelope:
    """The profile, if it is one that this engine knows."""
    if not isinstance(round_, SubstitutionEnvelope):
        raise LimitExceeded(f"the lattice engine does not know profiles of type {type(round_).__name__}.")
    return round_


def one_round_log_delta(round_: Round | Profile, epsilon: float, *, work: Work | None = None) -> tuple[float, float]:
    """(lower, upper) of log delta(epsilon), for an epsilon strictly within the range of the loss."""
    curve = curve_of(round_, work)
    return curve.below(epsilon), curve.above(epsilon)


def one_round_epsilon(round_: Round | Profile, log_delta: float, *, work: Work | None = None) -> tuple[float, float]:
    """(lower, upper) of the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta."""
    curve = curve_of(round_, work)
    if curve.above(0.0) <= log_delta:
        return 0.0, 0.0
    start, slope = curve.epsilon_near(log_delta)
    about = {"start": start, "slope": slope, "resolution": 1e-15}
    lower = last_above(curve.below, log_delta, **about)
    upper = first_at_most(curve.above, log_delta, **about)
    largest = curve.largest_loss
    return min(lower, upper, largest), min(upper, largest)


_LOG_SHARE = math.log(-math.expm1(-1.0))
_ROOM = 1e-14


def single_loss_log_delta(composition: Composition, epsilon: float, *, work: Work | None = None) -> float:
    """A lower bound on log delta(epsilon); -inf if no single round reaches epsilon (L-16)."""
    return _bound([curve_of(round_, work) for round_, _ in composition], [times for _, times in composition], epsilon)


def single_loss_epsilon(
    composition: Composition, log_delta: float, *, start: float, resolution: float, work: Work | None = None
) -> float:
    """An epsilon >= 0 with delta(epsilon) > e^log_delta, evaluated; 0 if none was found."""
    curves = [curve_of(round_, work) for round_, _ in composition]
    rounds = [times for _, times in composition]
    return last_above(
        lambda epsilon: _bound(curves, rounds, epsilon), log_delta, start=start, slope=1.0, resolution=resolution
    )


def _bound(curves: list[Curve], rounds: list[int], epsilon: float) -> float:
    single = [curve.below(epsilon) for curve in curves]
    log_rounds = [math.log(times) for times in rounds]
    log_sum = float(np.logaddexp.reduce(np.add(single, log_rounds)))
    if log_sum == -math.inf:
        return -math.inf
    before = math.nextafter(epsilon - 1.0, -math.inf)  # at least 1 away
    beyond = [curve.above(before) - _LOG_SHARE for curve in curves]
    log_twice = 2.0 * float(np.logaddexp.reduce(np.add(beyond, log_rounds))) - math.log(2.0)
    room = _ROOM * (1.0 + abs(log_sum) + abs(log_twice))
    log_share = log_twice - log_sum + 2.0 * room  # of the subtracted term
    several = log_sum - room + math.log1p(-math.exp(log_share)) - room if log_share < -0.1 else -math.inf
    return max(several, *single)
