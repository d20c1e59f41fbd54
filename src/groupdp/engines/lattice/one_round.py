"""One round's hockey stick in closed form (L-14, L-15), and a lower bound for several rounds by a single large loss.

A branch's delta is evaluated at a point u whose loss Psi(u) is certainly not above (not below) epsilon, which gives the
upper (lower) bound; a public coin's is the weighted sum of its branches' (L-8).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from groupdp.engines import Work, first_at_most, last_above
from groupdp.engines.lattice.envelope import Curve, EnvelopeCurve, gaussian_coin
from groupdp.engines.lattice.loss import BranchLoss
from groupdp.engines.lattice.round_terms import left_terms, log_ratio_near_one, log_sum_of, right_terms
from groupdp.errors import LimitExceeded
from groupdp.floats import ELEMENTARY, UNIT, log_complement
from groupdp.losses import AtomsRound, LaplaceRound
from groupdp.pairs import AnyRound, Branch, Composition, Round, SubstitutionEnvelope

_MOST_DOUBLINGS = 1100
_MOST_BISECTIONS = 50
#: Longest first step, relative to max(1, |u|), to a point whose loss is certain (no effect on validity, only on width).
_SHORT = 1e-3
#: No coordinate beyond this is looked at.
_FARTHEST = 1e15
#: Cost of one evaluation of a branch (engines/__init__.py): for each component, and fixed.
_WORK_OF_A_COMPONENT, _WORK_OF_A_CALL = 60, 20_000


class RoundCurve(Curve):
    """The hockey-stick curve of one round: the weighted sum of its branches' curves (L-8)."""

    def __init__(self, round_: Round, work: Work | None = None) -> None:
        self.curves = [BranchCurve(branch) for branch in round_.branches]
        self.log_weights = list(round_.log_weights)
        components = sum(len(branch.right.shifts) + len(branch.left.shifts) for branch in round_.branches)
        cost = _WORK_OF_A_COMPONENT * components + _WORK_OF_A_CALL * len(round_.branches)
        super().__init__(work, cost, round_.largest_loss)

    def _bound(self, epsilon: float, sign: float) -> float:
        """log sum_b w_b e^value_b, rounded to the side of `sign`."""
        self.work.spend(self.cost)
        values = [curve.above(epsilon) if sign > 0.0 else curve.below(epsilon) for curve in self.curves]
        if len(values) == 1 and self.log_weights[0] == 0.0:
            return values[0]
        terms = np.add(values, self.log_weights)
        top = float(terms.max())
        if top == -math.inf:
            return top
        with np.errstate(under="ignore"):
            total = math.fsum(np.exp(terms - top))
        sizes = np.abs(np.where(np.isfinite(terms), values, 0.0)) + 10.0 * np.abs(self.log_weights)
        error = 4.0 * ELEMENTARY + UNIT * (4.0 * float(np.max(sizes[terms > top - 60.0])) + 4.0 * abs(top) + 64.0)
        error += 1e-25 * len(values)  # terms below e^-60 of the largest, whatever their errors up to a factor of 3
        return top + math.log(total) + sign * error


class BranchCurve:
    """The hockey-stick curve of one branch, as a function of the coordinate u in which the loss increases."""

    def __init__(self, branch: Branch) -> None:
        self.branch = branch
        self.loss = BranchLoss(branch)
        self.largest_loss = branch.largest_loss
        self.smallest_loss = -branch.mirrored.largest_loss

    def above(self, epsilon: float) -> float:
        """An upper bound on log delta(epsilon)."""
        if epsilon >= self.largest_loss:
            return -math.inf
        if epsilon <= self.smallest_loss:
            value = log_complement(epsilon)
            return min(value + 4.0 * ELEMENTARY * (1.0 + abs(value)), 0.0)
        at = self._point(epsilon, side=-1.0)
        if at is None:  # within a rounding of the smallest loss, log a_0: delta <= P(shift > 0)
            present = self.branch.right.log_mass_above_zero
            return min(present + 4.0 * ELEMENTARY * (1.0 + abs(present)), 0.0) if self.branch.left.is_zero else 0.0
        value, error = self.log_delta_at(at)
        return min(value + error, 0.0)

    def below(self, epsilon: float) -> float:
        """A lower bound on log delta(epsilon); delta >= 1 - e^epsilon always holds."""
        trivial = -math.inf
        if epsilon < 0.0:
            trivial = log_complement(epsilon)
            trivial -= 4.0 * ELEMENTARY * (1.0 + abs(trivial))
        if epsilon >= self.largest_loss or epsilon <= self.smallest_loss:
            return trivial
        at = self._point(epsilon, side=1.0)
        if at is None:
            return trivial
        value, error = self.log_delta_at(at)
        return max(value - error, trivial)

    def loss_at(self, u: float) -> tuple[float, float, float]:
        """(loss, certified error, slope). Where A and B are near 1 their distances from 1 are summed instead."""
        values = self.loss.evaluate(np.array([u]))
        loss, error, slope = float(values.loss[0]), float(values.loss_error[0]), float(values.slope[0])
        right, left = log_ratio_near_one(self.branch.right, u), log_ratio_near_one(self.branch.left, -u)
        if right is None or left is None:
            return loss, error, slope
        near = right[0] - left[0]
        own_error = right[1] + left[1] + 2.0 * UNIT * abs(near)
        return (near, own_error, slope) if own_error < error else (loss, error, slope)

    def log_delta_at(self, u: float) -> tuple[float, float]:
        """(log delta, certified error) at the epsilon that is the loss at u."""
        parts = []
        if not self.branch.right.is_zero:
            parts.append(log_sum_of(right_terms, u, self.loss.right))
        if not self.branch.left.is_zero:
            value, error = log_sum_of(left_terms, -u, self.loss.left)
            if value > -math.inf:
                loss, loss_error, _ = self.loss_at(u)
                value, error = value + loss, error + loss_error + UNIT * 2.0 * (abs(loss) + abs(value))
            parts.append((value, error))
        if not parts:
            return -math.inf, 0.0
        if len(parts) == 1:
            return parts[0]
        (first, first_error), (second, second_error) = sorted(parts)
        if second == -math.inf:
            return second, max(first_error, second_error)
        # log(e^x + e^y) moves by no more than the weighted mean of the errors of x and y.
        share = math.exp(max(first - second, -745.0))
        value = second + math.log1p(share)
        error = (
            (second_error + share * first_error) / (1.0 + share)
            if first_error < 0.01
            else max(second_error, second_error + math.log1p(share * math.exp(min(first_error, 700.0))))
        )
        return value, 1.01 * error + 2.0 * ELEMENTARY + 4.0 * UNIT * abs(value)

    def _point(self, epsilon: float, *, side: float) -> float | None:
        """A coordinate near the solution whose loss is certainly not above (side -1) or below (side +1) epsilon."""
        low, high = _enclose(lambda u: self.loss_at(u)[0] >= epsilon) or (-_FARTHEST, _FARTHEST)
        u = 0.5 * (low + high)
        loss, error, slope = self.loss_at(u)
        for attempt in range(200):
            if abs(loss - epsilon) <= error:
                break
            low, high = (u, high) if loss < epsilon else (low, u)
            step = u - (loss - epsilon) / slope if slope > 0.0 and attempt % 4 != 3 else math.nan
            middle = 0.5 * (low + high)
            new = step if low < step < high else middle
            if not low < new < high:
                break
            u = new
            loss, error, slope = self.loss_at(u)
        before = u
        # The slope is useless on a plateau: begin with a short step there, and double it.
        distance = min(2.0 * error / slope, _SHORT * max(1.0, abs(u))) if slope > 0.0 else 0.0
        distance = max(distance, 4.0 * UNIT * abs(u), 1e-300)
        for doublings in range(_MOST_DOUBLINGS):
            if self._is_beyond(u, epsilon, side):
                return u if doublings < 5 else self._nearest_beyond(before, u, epsilon, side)
            before = u
            u += side * distance
            distance *= 2.0
            if not abs(u) <= _FARTHEST:
                return None
        return None

    def _is_beyond(self, u: float, epsilon: float, side: float) -> bool:
        """Whether the loss at u is certainly not above (side -1) or below (side +1) epsilon."""
        loss, error, _ = self.loss_at(u)
        return side * (loss - epsilon) >= error

    def _nearest_beyond(self, before: float, u: float, epsilon: float, side: float) -> float:
        """A point of which that is certain, close to one of which it is not: doubling overshoots plateaus."""
        for _ in range(_MOST_BISECTIONS):
            middle = 0.5 * (before + u)
            if middle in (before, u):
                break
            before, u = (before, middle) if self._is_beyond(middle, epsilon, side) else (middle, u)
        return u


def _enclose(is_high: Callable[[float], bool]) -> tuple[float, float] | None:
    """(low, high) between which a condition that is false on the left becomes true; None if it does not."""
    low, high = -1.0, 1.0
    while not is_high(high):
        low, high = high, 4.0 * high
        if high > _FARTHEST:
            return None
    while is_high(low):
        high, low = min(high, low), -4.0 * abs(low)
        if low < -_FARTHEST:
            return None
    return low, high


class LossCurve(Curve):
    """The curve of a round whose losses are known (R-4, R-5)."""

    def __init__(self, round_: AtomsRound | LaplaceRound, work: Work | None = None) -> None:
        cost = 10.0 * len(round_.losses) if isinstance(round_, AtomsRound) else 10.0
        super().__init__(work, cost, round_.largest_loss)
        self.round = round_

    def _bound(self, epsilon: float, sign: float) -> float:
        self.work.spend(self.cost)
        return self.round.log_delta(epsilon, up=sign > 0.0)


#: At least this many Gaussian branches are taken together (affects speed only).
MANY_BRANCHES = 4


def curve_of(round_: AnyRound, work: Work | None = None) -> Curve:
    """The curve of one round; its evaluations count as `work`."""
    if isinstance(round_, AtomsRound | LaplaceRound):
        return LossCurve(round_, work)
    if not isinstance(round_, Round):
        return EnvelopeCurve(envelope_of(round_).side, work)
    gaussian = gaussian_coin(round_) if len(round_.branches) >= MANY_BRANCHES else None
    if gaussian is not None and not gaussian.is_zero:
        return EnvelopeCurve(gaussian, work, balanced=False)
    return RoundCurve(round_, work)


def envelope_of(round_: AnyRound) -> SubstitutionEnvelope:
    """The profile, if it is one that this engine knows."""
    if not isinstance(round_, SubstitutionEnvelope):
        raise LimitExceeded(f"the lattice engine does not know profiles of type {type(round_).__name__}.")
    return round_


def one_round_epsilon(round_: AnyRound, log_delta: float, *, work: Work | None = None) -> tuple[float, float]:
    """(lower, upper) of the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta."""
    curve = curve_of(round_, work)
    if curve.above(0.0) <= log_delta:
        return 0.0, 0.0
    about = {**_crossing(curve, log_delta), "resolution": 1e-15}
    lower = last_above(curve.below, log_delta, **about)
    upper = first_at_most(curve.above, log_delta, **about)
    largest = curve.largest_loss
    return min(lower, upper, largest), min(upper, largest)


def _crossing(curve: Curve, log_delta: float) -> dict[str, float]:
    """About the epsilon where log delta is `log_delta`, and how steeply it falls there; not certified."""
    low, high = 0.0, 1.0
    while (at_high := curve.above(high)) > log_delta and high < 1e300:
        low, high = high, 2.0 * high
    for _ in range(12):
        middle = 0.5 * (low + high)
        if (value := curve.above(middle)) > log_delta:
            low = middle
        else:
            high, at_high = middle, value
    slope = (curve.above(low) - at_high) / (high - low)
    return {"start": low, "slope": slope if 0.0 < slope < math.inf else 1.0}


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
