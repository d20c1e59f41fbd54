"""One round in closed form: its optimal tests are half-lines (docs/internals/tradeoff.md, T-3).

With P = sum_i a_i N(x_i, 1) and Q = sum_j b_j N(-y_j, 1) the loss increases with u, so the most powerful test of its
level is {U > u} for some u:

    level = sum_j b_j Phi(-(u + y_j)),      power = sum_i a_i Phi(-(u - x_i)).

Under a public coin the most powerful tests are thresholds in the loss: one u for every branch. An infinite shift is an
outcome that only one of P and Q has: +infinity of P belongs to every test, -infinity of Q to none. Where an increasing
function passes zero is found approximately, at many places at once, then checked on either side.

Some compositions are equivalent to one round. Gaussian rounds N(x_j) against N(-y_j) compose to one with the shift
sqrt(sum_j T_j (x_j + y_j)^2). A round without noise shows +infinity or nothing under P, -infinity or nothing under Q:
what is left for a finite outcome is the probability that no such round shows anything, under P and under Q.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from groupdp.floats import UNIT, FloatArray, Sides, log_complement, log_normal_tail, log_sum
from groupdp.pairs import ZERO, Branch, Composition, Round, Side

Function = Callable[[FloatArray], FloatArray]
Condition = Callable[[FloatArray], npt.NDArray[np.bool_]]

#: No argument beyond this is looked at.
FARTHEST = 1e160
_MOST_STEPS = 100
_MOST_DOUBLINGS = 1200


def bracket(excess: Function, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(low, high) with excess(low) <= 0 <= excess(high), as far as there are such places, from a first guess."""
    width = high - low
    for _ in range(_MOST_DOUBLINGS):
        short = (excess(high) < 0.0) & (high < FARTHEST)
        if not np.any(short):
            break
        low = np.where(short, high, low)
        width = np.where(short, 4.0 * width, width)
        high = np.where(short, high + width, high)
    for _ in range(_MOST_DOUBLINGS):
        short = (excess(low) > 0.0) & (low > -FARTHEST)
        if not np.any(short):
            break
        high = np.where(short, low, high)
        width = np.where(short, 4.0 * width, width)
        low = np.where(short, low - width, low)
    return low, high


def solve(excess: Function, low: FloatArray, high: FloatArray, accuracy: FloatArray) -> FloatArray:
    """About where an increasing function passes 0 between low and high: regula falsi (Illinois) and bisection.

    Ends where the function is within `accuracy` of 0, or neighbouring doubles are reached.
    """
    at_low, at_high = excess(low), excess(high)
    before = np.zeros(len(low))
    middle = 0.5 * (low + high)
    settled = high - low <= 4.0 * UNIT * (np.abs(low) + np.abs(high))
    for step in range(_MOST_STEPS):
        if np.all(settled):
            break
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            secant = high - at_high * ((high - low) / (at_high - at_low))
            usable = (secant > low) & (secant < high) & (step % 4 != 3)
        middle = np.where(settled, middle, np.where(usable, secant, 0.5 * low + 0.5 * high))
        value = excess(middle)
        up = value < 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            at_low = np.where(up, value, np.where(before < 0.0, 0.5 * at_low, at_low))
            at_high = np.where(up, np.where(before > 0.0, 0.5 * at_high, at_high), value)
        low, high = np.where(up, middle, low), np.where(up, high, middle)
        before = np.where(up, 1.0, -1.0)
        settled |= (np.abs(value) <= accuracy) | (high - low <= 4.0 * UNIT * (np.abs(low) + np.abs(high)))
    return middle


def step_out(start: FloatArray, direction: float, holds: Condition) -> FloatArray:
    """From `start` in a direction, by doubling steps, to where a condition holds (checked); infinite if nowhere."""
    u = np.array(start)
    step = 8.0 * UNIT * np.maximum(np.abs(start), 1e-3)
    for _ in range(_MOST_DOUBLINGS):
        todo = ~holds(u) & np.isfinite(u)
        if not np.any(todo):
            break
        u = np.where(todo, u + direction * step, u)
        u = np.where(np.abs(u) > FARTHEST, direction * math.inf, u)
        step = np.minimum(2.0 * step, 2.0 * FARTHEST)
    return u


#: Shifts are taken to be right to this many roundings of their size, logarithms of probabilities likewise.
_SHIFT_ROUNDINGS = 6.0
_LAW_ROUNDINGS = 10.0


class HalfLines:
    """Tests {U > u_b in branch b} of one round; u is an array (number of tests, number of branches)."""

    def __init__(self, round_: Round) -> None:
        self.branches = len(round_.branches)
        self.right = _Mixture([branch.right for branch in round_.branches], round_.log_weights, 1.0)
        self.left = _Mixture([branch.left for branch in round_.branches], round_.log_weights, -1.0)
        self._trivial = [branch.is_trivial for branch in round_.branches]
        self._range = [
            (
                -branch.left.log_mass_at_zero * (1.0 + 32.0 * UNIT) if branch.right.is_zero else math.inf,
                branch.right.log_mass_at_zero * (1.0 + 32.0 * UNIT) if branch.left.is_zero else -math.inf,
            )
            for branch in round_.branches
        ]
        self._right_alone = [_Mixture([branch.right], (0.0,), 1.0) for branch in round_.branches]
        self._left_alone = [_Mixture([branch.left], (0.0,), -1.0) for branch in round_.branches]

    def log_power(self, u: FloatArray) -> Sides:
        """log P(U > u): the true positive rate."""
        return self.right.log_above(u)

    def log_miss(self, u: FloatArray) -> Sides:
        """log P(U <= u): the false negative rate."""
        return self.right.log_below(u)

    def log_level(self, u: FloatArray) -> Sides:
        """log Q(U > u): the false positive rate."""
        return self.left.log_above(u)

    def log_pass(self, u: FloatArray) -> Sides:
        """log Q(U <= u): one minus the false positive rate."""
        return self.left.log_below(u)

    def loss(self, u: FloatArray, branch: int) -> Sides:
        """The privacy loss of one branch at u (one-dimensional)."""
        over, under = self._right_alone[branch].log_ratio(u), self._left_alone[branch].log_ratio(u)
        with np.errstate(invalid="ignore"):
            room = 2.0 * UNIT * (np.abs(over.upper) + np.abs(under.upper))
            lower, upper = over.lower - under.upper - room, over.upper - under.lower + room
        return Sides(np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper))

    def thresholds(self, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(before, about, after): loss(before) <= t <= loss(after), certainly, in every branch; close together."""
        found = [self._threshold(t, branch) for branch in range(self.branches)]
        before, about, after = (np.stack([threshold[i] for threshold in found], axis=1) for i in range(3))
        return before, about, after

    def _threshold(self, t: FloatArray, branch: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        if self._trivial[branch]:  # the loss is 0 everywhere
            about = np.where(t >= 0.0, np.inf, -np.inf)
            return about, about, np.where(t <= 0.0, -np.inf, np.inf)
        # A loss that is bounded never reaches its bound (T-8): beyond it a test is all or nothing.
        largest, smallest = self._range[branch]
        never, always = t >= largest, t <= smallest
        if np.any(never | always):
            everywhere = np.where(never, np.inf, -np.inf)
            inside = ~(never | always)
            found = [np.array(everywhere) for _ in range(3)]
            if np.any(inside):
                for whole, part in zip(found, self._inside(t[inside], branch), strict=True):
                    whole[inside] = part
            return found[0], found[1], found[2]
        return self._inside(t, branch)

    def _inside(self, t: FloatArray, branch: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        def excess(u: FloatArray) -> FloatArray:
            return self.loss(u, branch).middle - t

        start = np.full(len(t), 8.0)
        about = solve(excess, *bracket(excess, -start, start), 4.0 * UNIT * np.abs(t))
        before = step_out(about, -1.0, lambda u: self.loss(u, branch).upper <= t)
        after = step_out(about, 1.0, lambda u: self.loss(u, branch).lower >= t)
        return before, about, after


class _Mixture:
    """P or Q of a round: normals around sign * shift, with weights, over all branches."""

    def __init__(self, sides: list[Side], log_weights: tuple[float, ...], sign: float) -> None:
        counts = [len(side.shifts) for side in sides]
        self.sign = sign
        self.shifts = np.concatenate([side.shifts for side in sides])
        weights = np.repeat(np.array(log_weights), counts)
        law = np.concatenate([side.log_probabilities for side in sides])
        self.log_law = law + weights
        self.law_error = _LAW_ROUNDINGS * UNIT * (np.abs(law) + np.abs(weights))
        self.branch = np.repeat(np.arange(len(sides)), counts)
        self.infinite = np.isinf(self.shifts)

    @property
    def log_infinite(self) -> Sides:
        """log of the mass at infinity."""
        law = np.where(self.infinite, self.log_law, -np.inf)[None, :]
        return _capped(log_sum(Sides(law - self.law_error, law + self.law_error)))

    def _places(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(u minus the centres, its error)."""
        with np.errstate(invalid="ignore", over="ignore"):
            z = u[:, self.branch] - self.sign * self.shifts
            z = np.where(self.infinite, -self.sign * np.inf, z)
            error = UNIT * (2.0 * np.abs(z) + _SHIFT_ROUNDINGS * self.shifts)
        return z, np.where(np.isinf(z), 0.0, error)

    def log_above(self, u: FloatArray) -> Sides:
        """log of the mass above u."""
        z, error = self._places(u)
        return self._weighted(log_normal_tail(z, error))

    def log_below(self, u: FloatArray) -> Sides:
        """log of the mass at or below u."""
        z, error = self._places(u)
        return self._weighted(log_normal_tail(-z, error))

    def _weighted(self, tails: Sides) -> Sides:
        return _capped(log_sum(_summands(self.log_law, self.law_error, tails)))

    def log_ratio(self, u: FloatArray) -> Sides:
        """log of the density at u over the standard normal's: log sum_i w_i exp(sign shift_i u - shift_i^2 / 2)."""
        m = np.where(self.infinite, 0.0, self.shifts)
        with np.errstate(over="ignore", invalid="ignore"):
            exponent = m * (self.sign * u[:, None] - 0.5 * m)
            error = UNIT * (4.0 * np.abs(exponent) + _SHIFT_ROUNDINGS * m * (np.abs(u[:, None]) + m))
            exponent = np.where(self.infinite, -np.inf, exponent)
            parts = Sides(exponent - error, exponent + error)
            return log_sum(_summands(self.log_law, self.law_error, parts))


def _summands(log_law: FloatArray, law_error: FloatArray, parts: Sides) -> Sides:
    """log_law + parts, rounded outward; what is not a number (infinity minus infinity) is no bound at all."""
    with np.errstate(invalid="ignore", over="ignore"):
        lower, upper = log_law + parts.lower, log_law + parts.upper
        lower = lower - (law_error + 2.0 * UNIT * np.abs(lower))
        upper = np.where(np.isneginf(upper), upper, upper + (law_error + 2.0 * UNIT * np.abs(upper)))
    return Sides(np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper))


def _capped(logs: Sides) -> Sides:
    return Sides(np.minimum(logs.lower, 0.0), np.minimum(logs.upper, 0.0))


def as_one_round(composition: Composition) -> Round | None:
    """The round whose trade-off function is the composition's; None if there is none."""
    rounds = [(round_, times) for round_, times in composition if isinstance(round_, Round)]
    if len(rounds) < len(composition):  # a profile is not a pair of mixtures
        return None
    noisy = [part for part in rounds if part[0].has_noise]
    silent = [part for part in rounds if not part[0].has_noise]
    if not noisy:
        round_: Round | None = Round.of(ZERO, ZERO)
    elif all(_is_gaussian(part) for part, _ in noisy):
        round_ = Round.of(Side.point(_gaussian_shift(noisy)), ZERO)
    elif len(noisy) == 1 and noisy[0][1] == 1:
        round_ = noisy[0][0]
    else:
        round_ = None
    if round_ is None or not silent:
        return round_
    if not all(_shows_nothing_finite(part) for part, _ in silent):
        return None
    right = math.fsum(times * part.branches[0].right.log_mass_at_zero for part, times in silent)
    left = math.fsum(times * part.branches[0].left.log_mass_at_zero for part, times in silent)
    branches = (Branch(_revealed(branch.right, right), _revealed(branch.left, left)) for branch in round_.branches)
    return Round(branches, round_.log_weights)


def _is_gaussian(round_: Round) -> bool:
    branch, *others = round_.branches
    return not others and len(branch.right.shifts) == len(branch.left.shifts) == 1


def _gaussian_shift(parts: list[tuple[Round, int]]) -> float:
    shifts = ((round_.branches[0].right.largest + round_.branches[0].left.largest, times) for round_, times in parts)
    return math.hypot(*(math.sqrt(times) * shift for shift, times in shifts))


def _shows_nothing_finite(round_: Round) -> bool:
    """Whether all shifts are 0 or infinite, and there is no coin."""
    sides = (side for branch in round_.branches for side in (branch.right, branch.left))
    return len(round_.branches) == 1 and all(
        bool(np.all((side.shifts == 0.0) | np.isinf(side.shifts))) for side in sides
    )


def _revealed(side: Side, log_hidden: float) -> Side:
    """The side, with an outcome that P or Q alone has unless an event of probability e^log_hidden happens."""
    if log_hidden == 0.0:
        return side
    if log_hidden == -math.inf:
        return Side.point(math.inf)
    shifts = np.append(side.shifts, math.inf)
    logs = np.append(side.log_probabilities + log_hidden, log_complement(log_hidden))
    with np.errstate(under="ignore"):
        return Side(shifts, (np.exp(logs), logs))
