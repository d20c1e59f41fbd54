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

import numpy as np

from groupdp.calibration.target import Trial
from groupdp.floats import FloatArray
from groupdp.pairs import Branch, Composition, Round, Side

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
#: Bounds around the target that are this narrow, relatively, place the root as well as they can.
_NARROW = 1e-3


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


@dataclass(slots=True)
class Bracket:
    """The riskiest value that passed, and the safest one that did not (certified to fail, or undecided)."""

    target: float
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
        excess = trial.excess(self.target, upper_side=self.upper_side)
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
        excess = trial.excess(self.target, upper_side=self.upper_side)
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
    slope: float
    above: float = 0.0  # how far the sides of the last bounds are from their middle, in the logarithm of epsilon
    below: float = 0.0
    outside: str | None = None  # "safest": even the safest value did not pass; "riskiest": even that one passed
    blocked: bool = False  # the engines decline just beyond u, where epsilon has not met the target yet


def find_root(
    scale: Scale, *, start: float, slope: float, target: float, accuracy: float, again: Callable[[], float] | None
) -> Generator[float, Trial, Root]:
    """The root in u, to about the relative `accuracy`, or the limit of the scale it lies beyond; `slope` is d log
    epsilon / du, and `again` another start, for where the first one is far off.

    It yields the u to try next, and is sent the trial.
    """
    safest, riskiest = scale.to_u(scale.safest), scale.to_u(scale.riskiest)
    bracket = Bracket(target, slope, longest=_FIRST_RETREAT if scale.is_probability else _FIRST_STEP)
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
            return Root(bracket.passed, bracket.slope(), blocked=True)
        step = bracket.step(u, trial)
        following = min(max(bracket.next(u, trial), safest), riskiest)
        near = scale.distance(u, accuracy)
        if step is not None:
            unhindered = u + step == following and bracket.error_after(step) <= 0.1 * near
            if abs(step) <= near or unhindered or (len(bracket.recent) > 1 and trial.straddles(_NARROW)):
                # Where the bounds straddle the target, no trial nearer to it would be decided either.
                return Root(u + step, bracket.slope(), *trial.room())
        if bracket.other - bracket.passed <= near:
            return Root(following, bracket.slope())
        if again is not None and (step is None or abs(step) > _FIRST_STEP):
            other = min(max(scale.to_u(again()), safest), riskiest)
            following = other if bracket.passed < other < bracket.other else following
        u, again = following, None
    return Root(bracket.passed if math.isfinite(bracket.passed) else u, bracket.slope())


def largest_integer(
    attempt: Callable[[int], Trial], *, start: int, slope: float, smallest: int, largest: int, target: float
) -> tuple[int | None, int | None]:
    """(the largest integer that passes, the smallest that was tried above it and did not).

    None, ... if even `smallest` does not pass; ..., None if `largest` does.
    """
    bracket, barrier = Bracket(target, slope, upper_side=True), math.inf
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


# Where to start: the central limit of the privacy loss. Nothing from here on is part of a proof.

#: Components looked at per mixture: a start need not be better than that.
_MOST_COMPONENTS = 128


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The mu for which a mu-GDP mechanism has that epsilon at that delta, roughly."""
    low, high = math.log(1e-12), math.log(1e12)
    for _ in range(60):
        middle = 0.5 * (low + high)
        mu = math.exp(middle)
        first = _log_normal(0.5 * mu - epsilon / mu)
        second = _log_normal(-0.5 * mu - epsilon / mu) + epsilon
        gap = second - first
        log_delta = first + (math.log(-math.expm1(gap)) if gap < 0.0 else -math.inf)
        low, high = (middle, high) if log_delta < math.log(delta) else (low, middle)
    return math.exp(0.5 * (low + high))


def growth(epsilon: float, delta: float) -> float:
    """d log epsilon / d log mu of a Gaussian mechanism, roughly."""
    apart = gaussian_mu(1.1 * epsilon, delta) / gaussian_mu(epsilon, delta)
    return math.log(1.1) / max(math.log(apart), 0.01)


def composed_mu(composition: Composition, noise_factor: float = 1.0) -> float:
    """sqrt(sum_j T_j chi^2_j), chi^2 = int (P - Q)^2 / phi of one round."""
    total = 0.0
    for round_, times in composition:
        if not round_.has_noise:
            return math.inf
        if isinstance(round_, Round):
            parts = zip(round_.log_weights, round_.branches, strict=True)
            total += times * math.fsum(
                math.exp(weight) * _squared_distance(part, noise_factor) for weight, part in parts
            )
        else:
            total += (
                times
                * math.expm1(min((round_.largest_shift / noise_factor) ** 2, 300.0))
                * math.exp(2.0 * round_.log_mass_above_zero)
            )
    return math.sqrt(max(total, 0.0))


def _squared_distance(branch: Branch, noise_factor: float) -> float:
    (x, a), (y, b) = (_likeliest(side, noise_factor) for side in (branch.right, branch.left))
    shifts, weights = np.concatenate((x, -y)), np.concatenate((a, -b))
    return float(weights @ np.expm1(np.minimum(np.multiply.outer(shifts, shifts), 300.0)) @ weights)


def _likeliest(side: Side, noise_factor: float) -> tuple[FloatArray, FloatArray]:
    mode = int(np.argmax(side.probabilities))
    kept = slice(max(mode - _MOST_COMPONENTS // 2, 0), mode + _MOST_COMPONENTS // 2)
    return side.shifts[kept] / noise_factor, side.probabilities[kept]


def noise_factor_for(composition: Composition, mu: float) -> float:
    """The factor on all noise at which the central limit has this mu."""
    low, high = math.log(1e-9), math.log(1e21)
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if composed_mu(composition, math.exp(middle)) > mu else (low, middle)
    return math.exp(0.5 * (low + high))


def rare_share(composition: Composition, epsilon: float, delta: float) -> float | None:
    """The factor on the probability of the smallest shift at which single large losses alone have this delta, roughly;
    None where they are not rare then, or the rounds are of another kind."""
    (round_, times), *others = composition
    if others or not isinstance(round_, Round) or len(round_.branches) != 1:
        return None
    right, left = round_.branches[0].right, round_.branches[0].left
    if len(right.shifts) < 2 or right.shifts[0] != 0.0 or left.shifts[-1] != 0.0:
        return None
    shift, probability = float(right.shifts[1]), float(right.probabilities[1])

    def log_probability(u: float) -> float:
        """log p with 1 - p + p e^{shift u - shift^2 / 2} = e^epsilon."""
        ratio = shift * u - 0.5 * shift * shift
        return _log_expm1(epsilon) - _log_expm1(ratio)

    low, high = 0.5 * shift + 1e-9 / shift, 0.5 * shift + 700.0 / shift
    for _ in range(60):
        u = 0.5 * (low + high)
        first, second = _log_normal(shift - u), shift * u - 0.5 * shift * shift + _log_normal(-u)
        gap = second - first
        log_delta = log_probability(u) + first + (math.log(-math.expm1(gap)) if gap < 0.0 else -math.inf)
        low, high = (u, high) if log_delta + math.log(times) > math.log(delta) else (low, u)
    log_p = log_probability(0.5 * (low + high))
    rare = log_p + math.log(times) < 0.0
    return math.exp(log_p) / probability if rare and probability > 0.0 else None


def noise_slope(composition: Composition, factor: float) -> float:
    """- d log mu / d log noise at this factor, roughly."""
    near, far = composed_mu(composition, factor / 1.1), composed_mu(composition, factor)
    return min(math.log(near / far) / math.log(1.1), 10.0) if 0.0 < far < near < math.inf else 1.0


def _log_expm1(x: float) -> float:
    return x if x > 40.0 else math.log(math.expm1(x))


def _log_normal(z: float) -> float:
    """log Phi(z), roughly; by Mills' ratio where erfc would underflow."""
    if z > -30.0:
        return math.log(0.5 * math.erfc(-z / math.sqrt(2.0)))
    return -0.5 * z * z - math.log(-z) - 0.5 * math.log(2.0 * math.pi) - 1.0 / (z * z)
