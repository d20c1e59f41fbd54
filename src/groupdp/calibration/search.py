"""The search for the riskiest value that still meets the target.

Epsilon is monotone in every parameter (docs/cli.md), so a search may use any method it likes: what is
returned is checked by certified bounds on both sides of the answer. The secant method on log epsilon against the
logarithm of the parameter converges in a handful of trials, since the two are nearly proportional.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from groupdp.calibration.target import Trial

#: Longest first step in the logarithm of the parameter; it doubles until the root is bracketed.
_FIRST_STEP = 1.0
_MOST_TRIALS = 200
#: Trials in a row that the engines may decline before the search gives up.
_PATIENCE = 12
#: Where the engines decline, the boundary of what they accept is found to this accuracy in the logarithm.
_BARRIER = 0.02
#: Bounds around the target that are this narrow, relatively, place the root as well as they can.
_NARROW = 1e-3


@dataclass(frozen=True, slots=True)
class Scale:
    """How a parameter x is searched: u = sign * log x rises with the risk, between the limits."""

    sign: float  # +1 if epsilon rises with the parameter, -1 if it falls
    safest: float  # the accepted value with the smallest epsilon
    riskiest: float

    def to_u(self, x: float) -> float:
        return self.sign * math.log(x)

    def to_x(self, u: float) -> float:
        """The value, within the limits."""
        low, high = sorted((self.safest, self.riskiest))
        exponent = self.sign * u
        if exponent >= math.log(high):
            return high
        return min(max(math.exp(exponent), low), high)


@dataclass(slots=True)
class Bracket:
    """The riskiest value that passed, and the safest one that did not (certified to fail, or undecided)."""

    target: float
    passed: float = -math.inf
    other: float = math.inf
    recent: tuple[tuple[float, float], ...] = ()  # the last two points (u, log excess) with a finite excess
    declined: int = 0
    longest: float = _FIRST_STEP

    def record(self, u: float, trial: Trial) -> None:
        """Take note of a trial."""
        if trial.passes:
            self.passed = max(self.passed, u)
        else:
            self.other = min(self.other, u)
        self.declined = self.declined + 1 if trial.bounds is None else 0
        excess = trial.excess(self.target)
        if excess is not None and math.isfinite(excess):
            self.recent = (*self.recent[-1:], (u, excess))

    def slope(self) -> float:
        """d log epsilon / du from the last two points; 1 if they say nothing."""
        if len(self.recent) == 2:
            (u0, y0), (u1, y1) = self.recent
            if u0 != u1 and (y1 - y0) / (u1 - u0) > 0.0:
                return (y1 - y0) / (u1 - u0)
        return 1.0

    def secant_step(self, u: float, trial: Trial) -> float | None:
        """From the trial at u to where the secant meets the target; None before there are two points."""
        excess = trial.excess(self.target)
        if len(self.recent) < 2 or excess is None or not math.isfinite(excess):
            return None
        return -excess / self.slope()

    def next(self, u: float, trial: Trial) -> float:
        """Where to look after the trial at u."""
        excess = trial.excess(self.target)
        longest, self.longest = self.longest, min(2.0 * self.longest, 1000.0)
        if excess is not None and math.isfinite(excess):
            step = -excess / self.slope()
        else:
            step = longest if trial.passes else -longest
        following = u + max(min(step, longest), -longest)
        if self.passed <= following <= self.other:
            return following
        if math.isfinite(self.passed) and math.isfinite(self.other):
            return 0.5 * (self.passed + self.other)
        return self.passed + longest if math.isfinite(self.passed) else self.other - longest


@dataclass(frozen=True, slots=True)
class Root:
    """Where epsilon meets the target, about; or which limit it meets it beyond."""

    u: float
    slope: float
    outside: str | None = None  # "safest": even the safest value did not pass; "riskiest": even that one passed
    blocked: bool = False  # the engines decline just beyond u, where epsilon has not met the target yet


def find_root(attempt: Callable[[float], Trial], scale: Scale, *, start: float, target: float, accuracy: float) -> Root:
    """The root in u, to about `accuracy`, or the limit of the scale it lies beyond."""
    safest, riskiest = scale.to_u(scale.safest), scale.to_u(scale.riskiest)
    bracket = Bracket(target)
    u = min(max(start, safest), riskiest)
    before = barrier = math.inf
    for _ in range(_MOST_TRIALS):
        trial = attempt(u)
        bracket.record(u, trial)
        if u <= safest and not trial.passes:
            return Root(u, 1.0, outside="safest")
        if u >= riskiest and trial.passes:
            return Root(u, 1.0, outside="riskiest")
        if bracket.declined >= _PATIENCE and bracket.passed == -math.inf:
            break
        barrier = min(barrier, u) if trial.bounds is None else barrier
        if bracket.other == barrier and barrier - bracket.passed <= _BARRIER:
            return Root(bracket.passed, bracket.slope(), blocked=True)
        following = min(max(bracket.next(u, trial), safest), riskiest)
        step = bracket.secant_step(u, trial)
        if step is not None and _settled(step, following - u, u - before, accuracy):
            return Root(u + step, bracket.slope())
        if bracket.other - bracket.passed <= accuracy:
            return Root(following, bracket.slope())
        if step is not None and trial.straddles(_NARROW):
            return Root(u + step, bracket.slope())  # no trial nearer to the target would be decided either
        before, u = u, following
    return Root(bracket.passed if math.isfinite(bracket.passed) else u, bracket.slope())


def _settled(step: float, next_step: float, previous: float, accuracy: float) -> bool:
    """Whether the secant's step leads to within the accuracy: its error is about the product of the last two.

    A point so close that the bounds straddle the target bends the next step away: that settles it too.
    """
    return abs(step) <= accuracy or (step == next_step and abs(step * previous) <= 0.1 * accuracy)


def largest_integer(
    attempt: Callable[[int], Trial], *, start: int, smallest: int, largest: int, target: float
) -> tuple[int | None, int | None]:
    """(the largest integer that passes, the smallest that was tried above it and did not).

    None, ... if even `smallest` does not pass; ..., None if `largest` does.
    """
    bracket = Bracket(target)
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
        if other - passed <= 1:
            break
        guess = bracket.next(u, trial)
        following = math.floor(min(math.exp(min(guess, 40.0)), 2.0**53))
        # Close to the root the neighbour settles it; a bracket that hardly shrinks is halved.
        halve = halve + 1 if other - passed > 0.5 * before else 0
        if halve >= 8 and smallest <= passed and other <= largest:
            following, halve = (passed + other) // 2, 0
        x = min(max(following, passed + 1), other - 1)
    return (passed if passed >= smallest else None), (other if other <= largest else None)
