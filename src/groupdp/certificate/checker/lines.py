"""A round's moment function on the line Re z = c, and the moments of hidden allocations, in balls.

R(M, s) is one of M steps, uniformly; its likelihood ratio is a mean of M lognormals. For a group that takes part with
probability p it is X = 1 - p + p (1/M) sum_t e^{s Z_t - s^2 / 2}, and all that a contour needs is E[X^w] (C-30 to
C-35).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from flint import acb, acb_mat, arb, arb_mat, arb_series, ctx, fmpq

from groupdp.certificate.checker.reading import Clock, Undecided, hint


@dataclass
class Line:
    """A round on Re z = c."""

    samples: list[acb]  # G(c + i j step)
    far: arb  # G(beyond), from above
    decay: arb  # |G(c + i s) / G(c)| for every s past the last sample, from above
    dropped: arb  # the probability under P of shifts and branches left out (C-5)
    raised: arb  # the most by which leaving out large shifts of Q raises delta (C-6)


@dataclass
class Place:
    """Where the contour lies: Re z = c, Im z = 0, step, ..., (count - 1) step; `beyond` > c is for the aliases."""

    c: arb
    beyond: arb
    step: arb
    count: int
    clock: Clock


def transform(losses: list[arb], weights: list[arb], at: Place) -> list[acb]:
    """sum_n weight_n e^{i j step loss_n} for j < count, as products of matrices: j = width * row + column."""
    count = max(at.count, 1)
    width = math.isqrt(count - 1) + 1
    total = acb_mat(-(-count // width), width)
    for start in range(0, len(losses), 500):
        at.clock.check()
        part = list(zip(losses[start : start + 500], weights[start : start + 500], strict=True))
        columns = [turns(at.step * loss, width) for loss, _ in part]
        rows = [[w * turn for turn in turns(at.step * width * loss, total.nrows())] for loss, w in part]
        total += acb_mat(rows).transpose() * acb_mat(columns)
    return list(total.entries()[:count])


def turns(angle: arb, count: int) -> list[acb]:
    """e^{i j angle} for j < count, each from two of half its exponent: balls would grow along a chain."""
    values = [acb(1), acb(angle.cos(), angle.sin())]
    for j in range(2, count):
        values.append(values[j // 2] * values[j - j // 2])
    return values[:count]


def rectangles(edges: list[Any], heights: list[Any]) -> Iterator[tuple[Any, Any]]:
    """(width, height) of rectangles, layer on layer, whose union is the region below a piecewise constant function.

    `heights` are exact, and not negative, between increasing `edges`; widths are as exact as the edges.
    """
    stack: list[tuple[Any, Any]] = [(edges[0], 0)]
    for edge, height in zip(edges, [*heights, 0], strict=True):
        start = edge
        while stack[-1][1] > height:
            start, top = stack.pop()
            yield edge - start, top - (height if height > stack[-1][1] else stack[-1][1])
        if height > stack[-1][1]:
            stack.append((start, height))


def layers(edges: list[arb], heights: list[arb], s: arb) -> arb:
    """C-10: sum of t W (1 - env(s W / 2)) over the layers of a piecewise constant function, from below.

    A height that is not certainly positive counts as 0.
    """
    total = arb(0)
    for wide, height in rectangles(edges, [height if height > 0 else arb(0) for height in heights]):
        width = wide.lower()
        if width > 0:
            x = s * width / 2
            env = x.sinc() if x < arb.pi() / 2 else 1 / x
            total += height * width * (1 - env)
    return total.lower().max(arb(0))


def normal(x: Any) -> Any:
    """The standard normal distribution function, at a complex number too."""
    return (-x / arb(2).sqrt()).erfc() / 2


def log_kappa(c: arb) -> arb:
    """C-11: delta(epsilon) <= kappa(c) e^{K(c) - c epsilon}, kappa(c) = c^c / (1 + c)^(1 + c)."""
    return c * c.log() - (1 + c) * (1 + c).log()


#: Most nodes of log lambda and of Z, most points per node, largest order.
MOST_NODES, MOST_POINTS, LARGEST_ORDER = 20_000, 20_000, 2_000
#: Nodes of log lambda whose sums over Z are one product of matrices.
_ROWS = 48


@dataclass(frozen=True)
class Factor:
    """R(`places`, sqrt(`square`)) of a group that takes part with probability `taking`."""

    places: int
    square: fmpq
    taking: fmpq = field(default_factory=lambda: fmpq(1))

    @property
    def is_gaussian(self) -> bool:
        """Whether it is N(s, 1) against N(0, 1)."""
        return bool(self.places == 1 and self.taking == 1)


Product = tuple[tuple[Factor, int], ...]


@dataclass
class Hidden:
    """A public coin over (probability, product); P and Q are exchanged if `reverse`.

    Products of probability `missing` in all, at most, are left out. `larger`: the truth leaks less, so that delta is
    bounded from above alone.
    """

    coin: list[tuple[fmpq, Product]]
    reverse: bool = False
    missing: fmpq = field(default_factory=lambda: fmpq(0))
    larger: bool = False

    @property
    def factors(self) -> list[Factor]:
        """All that are not Gaussian, once each, in the order of the coin."""
        distinct = {factor: None for _, product in self.coin for factor, _ in product if not factor.is_gaussian}
        return list(distinct)


class Moments:
    """E[X^w] of one factor: a trapezoid sum over log lambda of E[(lambda X)^n e^{-lambda X}], which is positive."""

    def __init__(self, factor: Factor, hints: Any, clock: Clock) -> None:
        self.factor, self.clock = factor, clock
        self.n, self.v = int(hint(hints, "order", 0, LARGEST_ORDER)), arb(hint(hints, "power", 0, 1e6))
        self.h, self.ratio = arb(hint(hints, "step", 1e-6, 10)), int(hint(hints, "ratio", 1, 10_000))
        names = ("first", "last", "low", "high")
        self.first, self.last, self.low, self.high = (int(hint(hints, name, -1e9, 1e9)) for name in names)
        if not (0 < self.last - self.first < MOST_NODES and 0 < self.high - self.low < MOST_POINTS):
            raise Undecided("the nodes of an allocation are too few or too many")
        self.shift, self.p = arb(factor.square).sqrt(), arb(factor.taking)
        self.h_z = self.h / (self.ratio * self.shift)
        self.d = arb(hint(hints, "strip", 1e-6, 1e4))
        if not self.shift * self.d < arb.pi() / 2:
            raise Undecided("the strip of an allocation is too wide")
        self.wrong = 2 * (self.d**2 / 2).exp() / (2 * arb.pi() * self.d / self.h_z).expm1()
        self.values = self.sums()

    def sums(self) -> list[arb]:
        """n! times the coefficient of t^n in e^{lambda (1 - p)(t - 1)} B(t)^M at the nodes lambda (C-31)."""
        spread = self.h**2 / (2 * self.ratio**2 * self.factor.square)
        scale = self.h_z / (2 * arb.pi()).sqrt()
        weights = [scale * (-spread * j * j).exp() for j in range(self.low, self.high + 1)]
        sums: list[arb] = []
        powers: dict[int, list[arb]] = {}
        for start in range(self.first, self.last + 1, _ROWS):
            nodes = range(start, min(start + _ROWS, self.last + 1))
            points = range(self.ratio * nodes[0] + self.low, self.ratio * nodes[-1] + self.high + 1)
            self.clock.check()
            powers = {i: powers.get(i) or self.terms(i) for i in points}
            rows = [[arb(0)] * len(points) for _ in nodes]
            for row, m in zip(rows, nodes, strict=True):
                begin = self.ratio * (m - nodes[0])
                row[begin : begin + len(weights)] = weights
            table = (arb_mat(rows) * arb_mat([powers[i] for i in points])).tolist()
            for m, coefficients in zip(nodes, table, strict=True):
                sums.append(self.coefficient(m, coefficients))
        return sums

    def terms(self, i: int) -> list[arb]:
        """x^k e^{-x} / k! for k = 0, ..., n at x = (p / M) e^{i h / ratio - s^2 / 2}."""
        x = self.p / self.factor.places * (self.h * i / self.ratio - arb(self.factor.square) / 2).exp()
        terms = [(-x).exp()]
        for k in range(1, self.n + 1):
            terms.append(terms[-1] * x / k)
        return terms

    def coefficient(self, m: int, b: list[arb]) -> arb:
        """n! [t^n] of the power of sum_k b_k t^k."""
        self.clock.check()
        cap = ctx.cap
        try:
            ctx.cap = self.n + 1
            power = arb_series(b).log() * self.factor.places
            if self.factor.taking != 1:
                rest = (self.h * m).exp() * (1 - self.p)
                power += arb_series([-rest, rest])
            return power.exp()[self.n] * arb(self.n).fac()
        finally:
            ctx.cap = cap

    def step_error(self, a: arb, s: arb) -> arb:
        """C-31: the rule in log lambda, relative to Gamma(a) E[X^w]."""
        slope = (2 * arb.pi() / self.h - s) / a
        beta = arb(float(slope.atan())) if slope > 0 else arb(0)
        if not 0 < beta < arb.pi() / 2:
            raise Undecided("the step of an allocation is too long")
        return 2 * (s * beta - a * beta.cos().log()).exp() / (2 * arb.pi() * beta / self.h).expm1()

    def error(self, w: arb) -> tuple[arb, arb]:
        """C-32 to C-34: what is left out or wrong besides the step in log lambda, relative to Gamma(n - w) E[X^w], for
        real w; and the error of that step."""
        a, big = self.n - w, self.factor.places
        step = self.step_error(a, arb(0))
        rule = ((1 + self.wrong) ** big - 1) * (self.shift * self.d).cos() ** (-a) * (1 + step)
        if not (step < 1 and self.wrong < 1):
            raise Undecided("the steps of an allocation are too long")
        at_most = (1 + step + rule) / (1 - step)  # E~[X^w] / E[X^w]
        range_z = self.outside(w, at_most) * (1 + step)
        # log lambda beyond the last node, by the moment of order -v; before the first, by the largest X (C-34)
        b, last = w + self.v, self.h * self.last
        if not b > 0:
            raise Undecided("the hint power of an allocation is too small")
        moment = self.v * self.p * self.shift**2 / 2 + (self.v * self.p * self.shift) ** 2 / (2 * big)
        beyond = (moment - b * last + (self.n + self.v).lgamma() - a.lgamma()).exp() * (1 + self.wrong) ** big
        beyond *= 1 + self.step_error(self.n + self.v, arb(0))
        largest = 1 - self.p + self.p * (self.h * self.high / self.ratio - self.shift**2 / 2).exp()
        y = (self.h * (self.first - 1)).exp() * largest
        if not y < a:
            raise Undecided("the first node of an allocation is too late")
        before = at_most * self.h * (a * y.log() - y - a.lgamma()).exp() / (1 - (-(a - y) * self.h).exp())
        return rule + range_z + beyond + before, step

    def outside(self, w: arb, at_most: arb) -> arb:
        """C-33: M E~[X^w; Z_1 outside], relative to E[X^w]."""
        big, s = self.factor.places, self.shift
        alone = self.tail(arb(0))
        if w > 1:
            largest = (self.tail(w * s) / big) ** (1 / w)
            return big * (largest + (at_most * alone / (1 - self.wrong)) ** (1 / w)) ** w
        if not w < 0:
            raise Undecided("moments of orders from 0 to 1 are not needed")
        bounds = []
        if self.factor.taking < 1:
            bounds.append((1 - self.p) ** w)
        if big > 1:
            moment = -w * self.p * s**2 / 2 + (w * self.p * s) ** 2 / (2 * (big - 1))
            bounds.append((1 - arb(1) / big) ** w * moment.exp())
        return big * alone * (1 + self.wrong) ** big * reduce(arb.min, bounds)

    def tail(self, mean: arb) -> arb:
        """h_z sum phi(z - mean) over the nodes z outside."""
        total = arb(0)
        for distance in (self.h_z * (self.high + 1) - mean, mean - self.h_z * (self.low - 1)):
            if not distance > 0:
                raise Undecided("the range of Z is too short")
            height = self.h_z * (-(distance**2) / 2).exp() / (2 * arb.pi()).sqrt()
            total += height / (1 - (-distance * self.h_z).exp())
        return total

    def real(self, w: arb) -> tuple[arb, arb]:
        """E[X^w] at a real w from above; and the errors besides the step in log lambda."""
        if not self.n - w > 0:
            raise Undecided("the order of an allocation is too small")
        other, step = self.error(w)
        if not other + step < 1:
            raise Undecided("the errors of an allocation are too large")
        total = sum(self.weights(w), arb(0)) / (self.n - w).gamma()
        return (total / (1 - other - step)).upper(), other

    def weights(self, w: arb) -> list[arb]:
        """h lambda^-w E[(lambda X)^n e^{-lambda X}] at the nodes."""
        return [self.h * (-w * self.h * (self.first + m)).exp() * value for m, value in enumerate(self.values)]

    def line(self, at: Place, reverse: bool) -> tuple[list[acb], arb]:
        """E[X^w] on the contour, w = 1 + z or -z, and at the abscissa beyond from above."""
        w, far, sign = (-at.c, -at.beyond, 1) if reverse else (1 + at.c, 1 + at.beyond, -1)
        sums = transform([sign * self.h * (self.first + m) for m in range(len(self.values))], self.weights(w), at)
        a, (most, other), samples = self.n - w, self.real(w), list[acb]()
        for j, value in enumerate(sums):
            s = at.step * j
            gamma = acb(a, sign * s).gamma()
            error = most * (other + self.step_error(a, s)) * a.gamma() / abs(gamma)
            ball = (-error).union(error)
            samples.append(value / gamma + (acb(ball, ball) if j else ball))
        return samples, self.real(far)[0]


def hidden_line(round_: Hidden, hints: Any, at: Place) -> Line:
    """A coin over products of allocations on Re z = c (C-31 to C-35)."""
    listed = hints.get("factors") if isinstance(hints, dict) else None
    if not isinstance(listed, list) or len(listed) != len(round_.factors):
        raise Undecided("the hints must have factors as many as the allocation round")
    moments = {
        factor: Moments(factor, part, at.clock).line(at, round_.reverse)
        for factor, part in zip(round_.factors, listed, strict=True)
    }
    count = max(at.count, 1)
    past = (at.step * at.count) ** 2
    line = Line([acb(0)] * count, arb(0), arb(0), arb(round_.missing), arb(0))
    decayed = arb(0)
    for probability, product in round_.coin:
        samples, far, falls = [acb(probability)] * count, arb(probability), arb(0)
        for factor, times in product:
            if factor.is_gaussian:  # E[X^w] = e^{w (w - 1) s^2 / 2}, and w (w - 1) = z (1 + z) in both orders
                half = arb(factor.square) / 2
                own = [(z * (1 + z) * half).exp() for z in (acb(at.c, at.step * j) for j in range(count))]
                beyond = (at.beyond * (1 + at.beyond) * half).exp()
            else:
                own, beyond = moments[factor]
            samples = [value * power**times for value, power in zip(samples, own, strict=True)]
            far *= beyond**times
            if factor.taking == 1:
                falls += times * past * factor.square / (2 * factor.places)
        line.samples = [total + value for total, value in zip(line.samples, samples, strict=True)]
        line.far += far
        decayed += samples[0].real.upper() * (-falls).exp()
    line.decay = decayed / line.samples[0].real.lower()
    return line
