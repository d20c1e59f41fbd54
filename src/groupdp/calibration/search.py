"""The search for the riskiest value that still meets the target.

Epsilon is monotone in every parameter (docs/cli.md), so any method of search is valid: certified bounds check what is
returned on both sides of the answer. The secant method on log epsilon against the
logarithm of the parameter converges in a handful of trials, since the two are nearly proportional.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from groupdp.calibration.target import Trial

#: Longest first step in the logarithm of the parameter, towards risk and towards safety; it doubles until the root is
#: bracketed. Two values that failed say without a limit how much safer the next one is to be.
_FIRST_STEP, _FIRST_RETREAT = 1.0, 4.0
_MOST_TRIALS = 200
#: Trials in a row that the engines may decline before the search gives up.
_PATIENCE = 12
#: Where the engines decline, the boundary of what they accept is found to this accuracy in the logarithm.
_BARRIER = 0.02
#: log(x / (1 - x)) of a probability that is 1, about.
_CERTAIN = 37.0


@dataclass(frozen=True, slots=True)
class Scale:
    """How a parameter x is searched: u rises with the risk, between the limits.

    u = sign * log x; for a probability it is log(x / (1 - x)), since near 1 the logarithm of epsilon bends in log x.
    """

    sign: float  # +1 if epsilon rises with the parameter, -1 if it falls
    safest: float  # the accepted value with the smallest epsilon
    riskiest: float
    digits: int = 17
    """Significant digits of the values tried: roundings, which differ between machines, then hardly move an answer."""
    is_probability: bool = False

    def to_u(self, x: float) -> float:
        if self.is_probability:
            return math.log(x) - math.log1p(-x) if x < 1.0 else _CERTAIN
        return self.sign * math.log(x)

    def to_x(self, u: float) -> float:
        """The value, within the limits."""
        low, high = sorted((self.safest, self.riskiest))
        exponent = self.sign * u
        if exponent >= self.sign * self.to_u(high):
            return high
        x = math.exp(exponent) / (1.0 + math.exp(u)) if self.is_probability else math.exp(exponent)
        return min(max(float(f"{x:.{self.digits}g}"), low), high)

    def distance(self, u: float, relative: float) -> float:
        """How far u moves where x changes by this share of itself."""
        return relative * (1.0 + math.exp(min(u, _CERTAIN))) if self.is_probability else relative


@dataclass(frozen=True, slots=True)
class Goal:
    """The target epsilon of a search; of its power `power`, which adds up over phases, about, `taken` is the share of
    those that the search does not change."""

    epsilon: float
    power: float = 1.0
    taken: float = 0.0

    @classmethod
    def beside(cls, epsilon: float, others: Trial | None, growth: float) -> Goal:
        """The goal beside a trial of the phases that stay as they are; `growth` is d log epsilon / d log mu, so that
        mu^2 grows with epsilon^(2 / growth)."""
        if others is None or others.bounds is None or not others.bounds.upper < epsilon:
            return cls(epsilon)
        power = 2.0 / growth
        return cls(epsilon, power, (others.bounds.upper / epsilon) ** power)

    @property
    def left(self) -> float:
        """The epsilon that is left for what the search changes, if epsilons added up: no more than that."""
        return self.epsilon * (1.0 - math.pow(self.taken, 1.0 / self.power))

    def excess(self, trial: Trial, *, upper_side: bool = False) -> float | None:
        """`Trial.excess` of what the search changes: about linear in the logarithm of the parameter."""
        excess = trial.excess(self.epsilon, upper_side=upper_side)
        if self.taken == 0.0 or excess is None or not math.isfinite(excess):
            return excess
        left = math.exp(min(self.power * excess, 700.0)) - self.taken
        return math.log(left / (1.0 - self.taken)) / self.power if left > 0.0 else -math.inf


@dataclass(slots=True)
class Bracket:
    """The riskiest value that passed, and the safest one that did not (certified to fail, or undecided)."""

    goal: Goal
    first_slope: float = 1.0
    """d log epsilon / du, about, before two points say it."""
    upper_side: bool = False
    """Whether the root of the upper side is searched, at which a count begins to fail, or that of the middle."""
    passed: float = -math.inf
    other: float = math.inf
    recent: tuple[tuple[float, float], ...] = ()  # the last four points (u, log excess) with a finite excess
    declined: int = 0
    longest: float = _FIRST_STEP

    def record(self, u: float, trial: Trial) -> None:
        """Take note of a trial."""
        if trial.passes:
            self.passed = max(self.passed, u)
        else:
            self.other = min(self.other, u)
        self.declined = self.declined + 1 if trial.bounds is None else 0
        excess = self.goal.excess(trial, upper_side=self.upper_side)
        if excess is not None and math.isfinite(excess):
            self.recent = (*self.recent[-3:], (u, excess))

    def slope(self) -> float:
        """d log epsilon / du from the last two points."""
        measured = self._measured()
        return self.first_slope if measured is None or measured <= 0.0 else measured

    def _measured(self) -> float | None:
        if len(self.recent) < 2:
            return None
        (u0, y0), (u1, y1) = self.recent[-2:]
        return (y1 - y0) / (u1 - u0) if u0 != u1 else None

    def step(self, u: float, trial: Trial) -> float | None:
        """From the trial at u to where the excess is 0: by the polynomial u(excess) through four points or three, or by
        the secant of two. None where the trial has no finite excess."""
        excess = self.goal.excess(trial, upper_side=self.upper_side)
        if excess is None or not math.isfinite(excess):
            return None
        secant = -excess / self.slope()
        for count in range(len(self.recent), 2, -1):
            points = sorted(self.recent[-count:])
            rises = all(y0 < y1 and u0 < u1 for (u0, y0), (u1, y1) in pairwise(points))
            step = _at_zero([(near - u, y) for near, y in points]) if rises else math.inf
            if abs(step - secant) <= 0.5 * abs(secant):
                return step
        return secant

    def error_after(self, step: float) -> float:
        """About how far off the next value is: the product of the distances of those that the step rests on."""
        end = self.recent[-1][0] + step if self.recent else math.inf
        return math.prod(abs(u - end) for u, _ in self.recent) if len(self.recent) > 1 else math.inf

    def next(self, u: float, trial: Trial) -> float:
        """Where to look after the trial at u."""
        longest, self.longest = self.longest, min(2.0 * self.longest, 1000.0)
        step = self.step(u, trial)
        if step is None:
            step = longest if trial.passes else -longest
        elif self.passed == -math.inf and (measured := self._measured()) is not None:
            following = u + step if measured > 0.0 else -math.inf
            if following < u - longest:
                return following
        following = u + max(min(step, longest), -max(longest, _FIRST_RETREAT))
        if self.passed <= following <= self.other:
            return following
        if math.isfinite(self.passed) and math.isfinite(self.other):
            return max(0.5 * (self.passed + self.other), self.other - longest)
        return self.passed + longest if math.isfinite(self.passed) else self.other - longest


def _at_zero(points: Sequence[tuple[float, float]]) -> float:
    """u where y = 0 on the polynomial u(y) through these points (Neville)."""
    values, y = [u for u, _ in points], [y for _, y in points]
    for width in range(1, len(points)):
        values = [
            (y[i + width] * values[i] - y[i] * values[i + 1]) / (y[i + width] - y[i]) for i in range(len(values) - 1)
        ]
    return values[0]


@dataclass(frozen=True, slots=True)
class Root:
    """Where epsilon meets the target, about; or which limit it meets it beyond."""

    u: float
    slope: float  # d log epsilon / du
    above: float = 0.0  # how far the sides of the last bounds are from their middle, in the logarithm of epsilon
    below: float = 0.0
    outside: str | None = None  # "safest": even the safest value did not pass; "riskiest": even that one passed
    blocked: bool = False  # the engines decline just beyond u, where epsilon has not met the target yet


def find_root(
    scale: Scale, *, start: float, slope: float, goal: Goal, accuracy: float, again: Callable[[], float] | None
) -> Generator[float, Trial, Root]:
    """The root in u, to about the relative `accuracy`, or the limit of the scale it lies beyond; `slope` is d log
    epsilon / du, and `again` another start, for where the first one is far off.

    It yields the u to try next, and is sent the trial.
    """
    safest, riskiest = scale.to_u(scale.safest), scale.to_u(scale.riskiest)
    bracket = Bracket(goal, slope, longest=_FIRST_RETREAT if scale.is_probability else _FIRST_STEP)
    u = min(max(start, safest), riskiest)
    barrier = math.inf
    for _ in range(_MOST_TRIALS):
        trial = yield u
        bracket.record(u, trial)
        if u <= safest and not trial.passes:
            return Root(u, 1.0, outside="safest")
        if u >= riskiest and trial.passes:
            return Root(u, 1.0, outside="riskiest")
        if bracket.declined >= _PATIENCE and bracket.passed == -math.inf:
            break
        barrier = min(barrier, u) if trial.bounds is None else barrier
        if bracket.other == barrier and barrier - bracket.passed <= _BARRIER:
            return Root(bracket.passed, bracket.slope() * (1.0 - goal.taken), blocked=True)
        step = bracket.step(u, trial)
        following = min(max(bracket.next(u, trial), safest), riskiest)
        near = scale.distance(u, accuracy)
        if step is not None:
            unhindered = u + step == following and bracket.error_after(step) <= 0.1 * near
            if abs(step) <= near or unhindered or (len(bracket.recent) > 1 and trial.straddles):
                # Where the bounds straddle the target, no trial nearer to it would be decided either.
                return Root(u + step, bracket.slope() * (1.0 - goal.taken), *trial.room())
        if bracket.other - bracket.passed <= near:
            return Root(following, bracket.slope() * (1.0 - goal.taken))
        if again is not None and (step is None or abs(step) > _FIRST_STEP):
            other = min(max(scale.to_u(again()), safest), riskiest)
            following = other if bracket.passed < other < bracket.other else following
        u, again = following, None
    return Root(bracket.passed if math.isfinite(bracket.passed) else u, bracket.slope() * (1.0 - goal.taken))


def largest_integer(
    attempt: Callable[[int], Trial], *, start: int, slope: float, smallest: int, largest: int, goal: Goal
) -> tuple[int | None, int | None]:
    """(the largest integer that passes, the smallest that was tried above it and did not).

    None, ... if even `smallest` does not pass; ..., None if `largest` does.
    """
    bracket, barrier = Bracket(goal, slope, upper_side=True), math.inf
    passed, other = smallest - 1, largest + 1
    x = min(max(start, smallest), largest)
    halve = 0
    while other - passed > 1:
        before = other - passed
        trial = attempt(x)
        u = math.log(max(x, 0.5))
        bracket.record(u, trial)
        if trial.passes:
            passed = x
        else:
            other = x
        barrier = min(barrier, x) if trial.bounds is None else barrier
        if other - passed <= 1 or (passed >= smallest and other == barrier <= passed * (1.0 + _BARRIER)):
            break
        guess = bracket.next(u, trial)
        following = math.floor(min(math.exp(min(guess, 40.0)), 2.0**53))
        # Close to the root the neighbour decides; a bracket that hardly shrinks is halved.
        halve = halve + 1 if other - passed > 0.5 * before else 0
        if halve >= 8 and smallest <= passed and other <= largest:
            following, halve = (passed + other) // 2, 0
        x = min(max(following, passed + 1), other - 1)
    return (passed if passed >= smallest else None), (other if other <= largest else None)
