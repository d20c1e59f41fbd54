"""The oracle for compositions: delta as a contour integral, computed twice.

    delta(eps) = 1/(2 pi i) int e^{K(z) - eps z} / (z (z+1)) dz   on Re z = c,    K(z) = log E_P[e^{zL}]
    K(z) = sum_j T_j log G_j(z),    G_j(z) = sum_b w_b E[A_b(U)^{1+z} B_b(U)^{-z}]

Powers G^T have integer exponents, so no branch of a logarithm has to be followed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from flint import acb, acb_mat, arb, ctx

from oracle.mixture import PRECISION, exact
from oracle.pairs import Gaussian, Round, Rounds


class Disagreement(AssertionError):
    """Two contours gave different values: the oracle does not know."""


class _Line:
    """K, K' and K'' on the real axis, on a coarse grid: where to put the contour, not its value."""

    def __init__(self, rounds: Rounds) -> None:
        self.rounds = rounds
        self.largest_loss = arb(0)
        for one, times in rounds:  # infinity is not multiplied: the ball would hold everything
            loss = one.largest_loss
            self.largest_loss = self.largest_loss + times * loss if loss.is_finite() else arb.pos_inf()
            if not loss.is_finite():
                break
        self._known: dict[float, tuple[float, float, float]] = {}

    def moments(self, c: float) -> tuple[float, float, float]:
        if c not in self._known:
            cgf = mean = variance = arb(0)
            for one, times in self.rounds:
                parts = [branch.moments(c, 25 + math.log(times)) for _, branch in one.coin]
                log_total, shares = one.shares([part[0] for part in parts])
                first = sum((w * m for w, (_, m, _) in zip(shares, parts, strict=True)), arb(0))
                second = sum(
                    (w * (v + (m - first) * (m - first)) for w, (_, m, v) in zip(shares, parts, strict=True)), arb(0)
                )
                cgf, mean, variance = cgf + times * log_total, mean + times * first, variance + times * second
            self._known[c] = float(cgf.mid()), float(mean.mid()), float(variance.mid())
        return self._known[c]

    def epsilon_at(self, c: float) -> float:
        """The epsilon whose integrand has its saddle point at c: increasing in c."""
        return self.moments(c)[1] - 1 / c - 1 / (1 + c)

    def log_chernoff(self, c: float, epsilon: float) -> float:
        """delta(epsilon) <= e^{K(c) - c epsilon} c^c / (1+c)^{1+c}."""
        return self.moments(c)[0] - c * epsilon + c * math.log(c) - (1 + c) * math.log1p(c)

    def chernoff_gap(self, c: float) -> float:
        """-log delta for which c gives the best Chernoff bound on epsilon: increasing in c."""
        cgf, mean, _ = self.moments(c)
        return c * mean - cgf + math.log1p(c)

    def solve(self, function: Callable[[float], float], target: float, accuracy: float) -> float:
        """c with function(c) = target, for an increasing function, to a relative accuracy in c."""
        low = high = 1.0
        while function(high) < target:
            low, high = high, high * 2
            if high > 1e9:
                return low
        while function(low) > target:
            low, high = low / 2, low
            if low < 1e-9:
                return high
        while high > low * (1 + accuracy):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if function(middle) < target else (low, middle)
        return low


class _Contour:
    """K sampled on Re z = c at Im z = 0, h, 2h, ...: serves every epsilon near the one it was made for."""

    def __init__(self, line: _Line, c: float, epsilon: float, log_delta: float, nats: float, vary: float) -> None:
        # All errors are relative to the integrand's peak, which may be far above delta: where the tail of L is not
        # log-concave, no saddle point is near. Then precision makes up for it.
        excess = max(0.0, line.moments(c)[0] - c * epsilon - log_delta)
        nats += excess
        self.c, self.precision = c, PRECISION + math.ceil(1.5 * excess)
        self.h = 2 * math.pi / (_period(line, c, epsilon, log_delta, nats) * vary)
        count = math.ceil(_reach(line, c, nats) * vary / self.h) + 1
        if count > 400_000:
            raise NotImplementedError(f"a contour of {count} points is too long for this oracle")
        with ctx.workprec(self.precision):
            self.cgf, self.samples = _sampled(line, c, self.h, count, nats, vary)
            if self.samples[-1].abs_upper() > (3 - arb(nats)).exp():
                raise Disagreement(f"the contour at c={c} was cut off too early")

    @classmethod
    def made_for(cls, line: _Line, epsilon: float, log_delta: float, nats: float) -> _Contour:
        """At the saddle point, or left of it where a far, rare tail makes that much cheaper."""
        saddle = line.solve(line.epsilon_at, epsilon, 1e-3)
        cost = {c: _cost(line, c, epsilon, log_delta, nats) for c in (saddle, 0.85 * saddle, 0.7 * saddle)}
        return cls(line, min(cost, key=cost.__getitem__), epsilon, log_delta, nats, 1.0)

    @classmethod
    def pair(cls, line: _Line, epsilon: float, log_delta: float, digits: int) -> tuple[_Contour, _Contour]:
        """Two contours for one epsilon that have no number in common."""
        nats = (digits + 6) * math.log(10)
        first = cls.made_for(line, epsilon, log_delta, nats)
        apart = min(0.09 * first.c, 3 / math.sqrt(line.moments(first.c)[2]))
        return first, cls(line, first.c - apart, epsilon, log_delta, nats, 1.17)

    def log_delta_and_slope(self, epsilon: arb) -> tuple[arb, arb]:
        """log delta(epsilon) and its derivative, both by the same sum with kernels 1/(z(z+1)) and -1/(z+1)."""
        with ctx.workprec(self.precision):
            return self._log_delta_and_slope(epsilon)

    def _log_delta_and_slope(self, epsilon: arb) -> tuple[arb, arb]:
        c, h = arb(self.c), arb(self.h)
        turns = _powers(acb(0, -h * epsilon).exp(), len(self.samples))
        value = slope = arb(0)
        for j, (sample, turn) in enumerate(zip(self.samples, turns, strict=True)):
            z = acb(c, h * j)
            term = sample * turn / (z + 1) * (1 if j == 0 else 2)
            value, slope = value + (term / z).real, slope - term.real
        if not value > 0:  # errors that are small beside the integrand's peak have swallowed delta
            return arb.neg_inf(), arb.nan()
        return self.cgf - c * epsilon + (value * h / (2 * arb.pi())).log(), slope / value


def _sampled(line: _Line, c: float, h: float, count: int, nats: float, vary: float) -> tuple[arb, list[acb]]:
    """K(c), and e^{K(c + i j h) - K(c)} for j < count."""
    cgf, samples = arb(0), [acb(1)] * count
    for one, times in line.rounds:
        log_total, phi = _round_sampled(one, arb(c), h, count, nats + math.log(times) + 5, vary)
        cgf += times * log_total
        samples = [sample * value**times for sample, value in zip(samples, phi, strict=True)]
    return cgf, samples


def _round_sampled(one: Round, c: arb, h: float, count: int, nats: float, vary: float) -> tuple[arb, list[acb]]:
    """log G(c), and G(c + i j h) / G(c) for j < count; branches share one transform, Gaussian ones have a formula."""
    parts = []
    for _, branch in one.coin:
        if isinstance(branch, Gaussian):
            parts.append((branch.log_moment(c), [], []))
        else:
            parts.append(branch.terms(c, branch.step(float(c), count * h, nats) / vary, nats))
    log_total, shares = one.shares([part[0] for part in parts])
    losses = [loss for _, some, _ in parts for loss in some]
    weights = [share * w for share, (_, _, some) in zip(shares, parts, strict=True) for w in some]
    phi = _transform(losses, weights, h, count) if losses else [acb(0)] * count
    for share, (_, branch) in zip(shares, one.coin, strict=True):
        if isinstance(branch, Gaussian):
            phi = [value + share * branch.turned(c, arb(h) * j) for j, value in enumerate(phi)]
    return log_total, phi


def _transform(losses: list[arb], weights: list[arb], h: float, count: int) -> list[acb]:
    """sum_n weight_n exp(i j h loss_n) for j < count: powers split as j = width * row + column, as matrices."""
    width = max(1, math.isqrt(count))
    rows = -(-count // width)
    total = acb_mat(rows, width)
    for start in range(0, len(losses), 512):
        left, right = [], []
        for loss, weight in zip(losses[start : start + 512], weights[start : start + 512], strict=True):
            angle = arb(h) * loss
            right.append(_powers(acb(0, angle).exp(), width))
            left.append([weight * power for power in _powers(acb(0, angle * width).exp(), rows)])
        total += acb_mat(left).transpose() * acb_mat(right)
    return total.entries()[:count]


def _powers(ratio: acb, count: int) -> list[acb]:
    """1, r, r^2, ...: each from two of half its exponent, since a long chain of rotations would blow up the balls."""
    values = [acb(1), ratio]
    for j in range(2, count):
        values.append(values[j // 2] * values[j - j // 2])
    return values[:count]


def _cost(line: _Line, c: float, epsilon: float, log_delta: float, nats: float) -> float:
    nats += max(0.0, line.moments(c)[0] - c * epsilon - log_delta)
    return _period(line, c, epsilon, log_delta, nats) * _reach(line, c, nats) ** 2


def _period(line: _Line, c: float, epsilon: float, log_delta: float, nats: float) -> float:
    """Y = 2 pi / h such that the aliases e^{mcY} delta(epsilon + mY), m = -1 and 1, are e^-nats delta(epsilon)."""
    period = (nats - log_delta) / c
    while epsilon + period < float(line.largest_loss):
        beyond = line.solve(line.epsilon_at, epsilon + period, 0.02)
        if line.log_chernoff(beyond, epsilon + period) + c * period - log_delta < -nats:
            break
        period *= 1.25
    return period


def _reach(line: _Line, c: float, nats: float) -> float:
    """The s beyond which |E[e^{isL}]|, tilted by c, is seen to be below e^-nats.

    Seen in double precision, unless the rounds are so few that their 1e-16 would not add up to e^-nats.
    """
    in_doubles = sum(times for _, times in line.rounds) * 30 > nats
    s = math.sqrt(2 * nats / line.moments(c)[2])
    while True:
        if s * max(one.reach for one, _ in line.rounds) > 3e5:
            raise NotImplementedError(f"a contour beyond {s:.0f} is too long for this oracle: too few rounds")
        points = s * np.geomspace(1.0, 1.7, 20)
        sizes = [
            times * np.log(_sizes(one, c, points) if in_doubles else _sizes_in_balls(one, c, points, nats))
            for one, times in line.rounds
        ]
        if np.sum(sizes, axis=0).max() < -nats:
            return s
        s *= 1.2


def _sizes(one: Round, c: float, points: np.ndarray) -> np.ndarray:
    _, shares = one.shares([branch.moments(c, 25)[0] for _, branch in one.coin])
    parts = [float(share) * branch.sizes(c, points) for share, (_, branch) in zip(shares, one.coin, strict=True)]
    return np.maximum(abs(np.sum(parts, axis=0)), 1e-16)


def _sizes_in_balls(one: Round, c: float, points: np.ndarray, nats: float) -> np.ndarray:
    total, at = [acb(0)] * len(points), arb(c)
    _, shares = one.shares([branch.moments(c, nats)[0] for _, branch in one.coin])
    for share, (_, branch) in zip(shares, one.coin, strict=True):
        if isinstance(branch, Gaussian):
            total = [value + share * branch.turned(at, arb(s)) for value, s in zip(total, points.tolist(), strict=True)]
            continue
        _, losses, weights = branch.terms(at, branch.step(c, points[-1], nats), nats)
        terms = list(zip(losses, weights, strict=True))
        total = [
            value + share * sum((w * acb(0, s * x).exp() for x, w in terms), acb(0))
            for value, s in zip(total, points.tolist(), strict=True)
        ]
    return np.array([float(value.abs_upper()) for value in total])


def log_delta(rounds: Rounds, *, epsilon: Any, digits: int = 20) -> arb:
    """log delta(epsilon) of the composed pair; minus infinity where delta is zero."""
    with ctx.workprec(PRECISION):
        target = arb(exact(epsilon))
        line = _Line(rounds)
        if target >= line.largest_loss:
            return arb.neg_inf()
        center = float(target)
        estimate, lower_by = line.log_chernoff(line.solve(line.epsilon_at, center, 1e-3), center) - 5, 30
        while (rough := _Contour.made_for(line, center, estimate, 30.0).log_delta_and_slope(target)[0]) < estimate:
            estimate, lower_by = estimate - lower_by, 2 * lower_by
        contours = _Contour.pair(line, center, float(rough.mid()), digits)
        first, second = (contour.log_delta_and_slope(target)[0] for contour in contours)
        return _agreed(first, second, max(1.0, abs(estimate)) * 10.0**-digits)


def epsilon(rounds: Rounds, *, delta: Any, digits: int = 20) -> arb:
    """The smallest epsilon >= 0 with delta(epsilon) <= delta."""
    with ctx.workprec(PRECISION):
        log_target = arb(exact(delta)).log()
        line = _Line(rounds)
        guess, c = _bracketed(line, log_target)
        if guess == 0:
            return arb(0)
        contours = _Contour.pair(line, guess, float(log_target), digits)
        first, second = (_newton(contour, arb(guess), log_target) for contour in contours)
        return _agreed(first, second, max(1.0, abs(float(log_target))) * 10.0**-digits / c)


def _bracketed(line: _Line, log_target: arb) -> tuple[float, float]:
    """epsilon to 1e-3 / c, and c, by bisection downwards from the Chernoff bound; (0, c) if delta(0) is small."""
    c = line.solve(line.chernoff_gap, -float(log_target), 1e-3)
    high = (line.log_chernoff(c, 0.0) - float(log_target)) / c
    while True:
        if high <= 0:
            return 0.0, c
        contour = _Contour.made_for(line, high, float(log_target), 60.0)
        c = contour.c
        low = max(0.0, high - 30 / c)  # errors grow by e^30 on the way, from e^-60
        if contour.log_delta_and_slope(arb(low))[0] > log_target:
            break
        high = low
    while high - low > 1e-3 / c:
        middle = (low + high) / 2
        above = contour.log_delta_and_slope(arb(middle))[0] > log_target
        low, high = (middle, high) if above else (low, middle)
    return high, c


def _newton(contour: _Contour, start: arb, log_target: arb) -> arb:
    x = start.mid()
    for _ in range(20):
        value, slope = contour.log_delta_and_slope(x)
        correction = (log_target - value) / slope
        if abs(float(correction.mid())) * contour.c < 1e-40:
            return x + correction
        x = (x + correction).mid()
    raise Disagreement("Newton's method did not settle")


def _agreed(first: arb, second: arb, slack: float) -> arb:
    if not abs(first - second) < slack:
        raise Disagreement(f"two contours differ: {first.str(30)} and {second.str(30)}")
    return first.union(second)
