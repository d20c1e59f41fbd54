"""Closed forms in balls: tails of one round's loss (C-21), one round (C-4), rounds without noise (C-26).

The lattice needs nothing of a round but its tails. L is the loss of one round; p and q are P(L > x) and Q(L > x).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from flint import arb, arb_poly, ctx

from groupdp.certificate.checker.laws import Gaussians, Law, Mixtures, Noiseless, Profile, support
from groupdp.certificate.checker.lines import Hidden, normal
from groupdp.certificate.checker.reading import LARGEST_GROUP, Clock, Undecided


@dataclass
class Tails:
    """p and q at increasing losses and the mass of P, of the shifts and branches that are kept."""

    p: list[arb]
    q: list[arb]
    whole: arb
    moved: arb = field(default_factory=lambda: arb(0))  # every x is this near to the loss whose tails these are
    dropped: arb = field(default_factory=lambda: arb(0))  # C-5: the probability of what was left out
    raised: arb = field(default_factory=lambda: arb(0))  # C-6


def tails_of(round_: Mixtures | Gaussians | Profile, losses: list[arb], shifts: tuple[int, int], clock: Clock) -> Tails:
    """C-21: of any round; `shifts` are the largest of A and of B that are kept."""
    if isinstance(round_, Gaussians):
        return gaussian_tails(round_, losses, clock)
    if isinstance(round_, Hidden):
        raise Undecided("a hidden allocation needs a contour")
    if isinstance(round_, Profile):
        return envelope_tails(round_, losses, shifts[0], clock)
    nothing = [arb(0)] * len(losses)
    tails = Tails(nothing, nothing, arb(0), dropped=round_.missing)
    for right, left in round_.branches:
        kept, rest = right[: shifts[0] + 1], left[: shifts[1] + 1]
        tails.dropped += sum((arb(p) for p in right[len(kept) :]), arb(0))
        if not support(kept):
            continue
        if not support(rest):
            raise Undecided("a branch of Q has lost all of its shifts")
        tails.raised = tails.raised.max(
            sum((arb(p) for p in left[len(rest) :]), arb(0)) / reduce(arb.max, map(arb, rest))
        )
        add_branch(tails, kept, rest, arb(round_.unit), losses, clock)
    return tails


def add_branch(tails: Tails, right: Law, left: Law, unit: arb, losses: list[arb], clock: Clock) -> None:
    """One branch: L increases with u, and {L > x} is a half-line."""
    xs, ys = support(right), support(left)
    a, b = polynomial(right, unit), polynomial(left, unit)
    da, db = a.derivative(), b.derivative()
    ratio = (arb(right[0]) / arb(left[0])).log() if xs[0] == 0 == ys[0] else arb(0)
    bottom = ratio if (xs[0], ys[-1]) == (0, 0) else arb.neg_inf()
    top = ratio if (xs[-1], ys[0]) == (0, 0) else arb.pos_inf()
    half_lines = HalfLines(right, left, unit)
    tails.whole += half_lines.whole[0]

    def above(u: arb, x: arb) -> tuple[arb, arb]:
        """L(u) - x, and its slope."""
        t = (unit * u).exp()
        va, vb = a(t), b(1 / t)
        return (va / vb).log() - x, unit * (t * da(t) / va + db(1 / t) / (t * vb))

    near, p, q = [arb(0)] * 4, list(tails.p), list(tails.q)
    thresholds: list[tuple[int, arb]] = []
    for n, x in enumerate(losses):
        if not x < top:
            tails.moved = tails.moved.max((top - x).max(arb(0)).upper())
        elif not x > bottom:
            tails.moved = tails.moved.max((x - bottom).max(arb(0)).upper())
            p[n], q[n] = p[n] + half_lines.whole[0], q[n] + half_lines.whole[1]
        else:
            clock.check()
            known = min(len(thresholds), 4)
            guess = (near[3], near[3], 2 * near[3] - near[2], 3 * (near[3] - near[2]) + near[1])
            start = guess[known] if known < 4 else 4 * (near[3] + near[1]) - 6 * near[2] - near[0]
            u, gap = solved(above, x, start.mid(), 1 + 1 / unit)
            near = [*near[1:], u]
            tails.moved = tails.moved.max(abs(gap).upper())
            thresholds.append((n, u))
    for (n, _), beyond in zip(thresholds, half_lines.tails([u for _, u in thresholds], clock), strict=True):
        p[n], q[n] = p[n] + beyond[0], q[n] + beyond[1]
    tails.p, tails.q = p, q


#: Points of a rule; the least and the most that the half axes of the ellipse sum to on which it is bounded.
_POINTS, _LEAST_REACH, _MOST_REACH = 8, 0.25, 0.75
#: The least ratio of that sum to half of the interval.
_RATIO = 32.0


class HalfLines:
    """P(U > u) and Q(U > u) of one branch."""

    def __init__(self, right: Law, left: Law, unit: arb) -> None:
        self.unit, self.densities, root = unit, (polynomial(right, unit), polynomial(left, unit)), arb(2).sqrt()
        self.weights = [
            [(sign * i * unit / root, arb(law[i]) / 2) for i in support(law)] for law, sign in ((right, 1), (left, -1))
        ]
        self.whole = [2 * sum((p for _, p in part), arb(0)) for part in self.weights]
        self.rule = [arb.legendre_p_root(_POINTS, j, True) for j in range(_POINTS)]

    def tails(self, thresholds: list[arb], clock: Clock) -> list[tuple[arb, arb]]:
        """Both tails at increasing u, from the last one down."""
        found: list[tuple[arb, arb]] = []
        for u, v in zip(reversed(thresholds), [None, *reversed(thresholds)], strict=False):
            clock.check()
            if v is None or not (v - u) * _RATIO < 1.9 * _MOST_REACH:
                found.append(self.beyond(u))
            else:
                p, q = self.between(u, v)
                found.append((found[-1][0] + p, found[-1][1] + q))
        return found[::-1]

    def beyond(self, u: arb) -> tuple[arb, arb]:
        """Both tails at one u, in closed form."""
        v = u / arb(2).sqrt()
        p, q = (sum((weight * (v - shift).erfc() for shift, weight in part), arb(0)) for part in self.weights)
        return p, q

    def between(self, u: arb, v: arb) -> tuple[arb, arb]:
        """C-100: P and Q of u < U <= v, two numbers next to each other, by Gauss and Legendre's rule."""
        middle, half = (u + v) / 2, (v - u) / 2
        a, b = self.densities
        sums = [arb(0), arb(0)]
        for place, weight in self.rule:
            x = middle + half * place
            t, density = (self.unit * x).exp(), weight * (-x * x / 2).exp()
            sums[0] += density * a(t)
            sums[1] += density * b(1 / t)
        reach = max(_LEAST_REACH, 1.01 * _RATIO * float(half))
        error = 5 * (reach / half) ** (-2 * _POINTS) * ((reach**2 - (abs(middle) - reach).max(arb(0)) ** 2) / 2).exp()
        errors = error * a((self.unit * (middle + reach)).exp()), error * b((self.unit * (reach - middle)).exp())
        scale = half / (2 * arb.pi()).sqrt()
        p, q = (scale * (total + (-wrong).union(wrong)) for total, wrong in zip(sums, errors, strict=True))
        return p, q


def solved(function: Callable[[arb, arb], tuple[arb, arb]], x: arb, u: arb, reach: Any) -> tuple[arb, arb]:
    """An exact u at which function(u, x), increasing in u, is below 2^(-prec / 2) in size, and its value (Newton)."""
    enough = arb(2) ** (-ctx.prec // 2)
    low = high = None
    for _ in range(400):
        value, slope = function(u, x)
        if abs(value) < enough:
            return u, value
        if value > 0:
            high = u
        elif value < 0:
            low = u
        else:
            break
        step = (-value / slope).mid() if slope > 0 else arb("nan")
        if low is None or high is None:
            most = arb(reach).mid()
            step = step if abs(step) < most else (most if high is None else -most)
            u, reach = (u + step).mid(), 2 * reach
        else:
            u = (u + step).mid()
            if not low < u < high:
                u = ((low + high) / 2).mid()
    raise Undecided("the threshold of a loss could not be enclosed")


def gaussian_tails(round_: Gaussians, losses: list[arb], clock: Clock) -> Tails:
    """N(mu) against N(0): L = mu u - mu^2 / 2."""
    p, q, root = [], [], arb(2).sqrt()
    coin = [(arb(weight) / 2, arb(square).sqrt()) for weight, square in round_.coin]
    for x in losses:
        clock.check()
        sums = [arb(0), arb(0)]
        for weight, mu in coin:
            u = x / mu + mu / 2
            sums[0] += weight * ((u - mu) / root).erfc()
            sums[1] += weight * (u / root).erfc()
        p.append(sums[0])
        q.append(sums[1])
    return Tails(p, q, sum((2 * weight for weight, _ in coin), arb(0)), dropped=arb(round_.missing))


def envelope_tails(round_: Profile, losses: list[arb], largest: int, clock: Clock) -> Tails:
    """The envelope (C-18), without the h_i of i > largest: tails above x > 0, and those below zero mirror them."""
    tails = Tails([], [], arb(1))
    tails.dropped = sum((arb(p) for p in round_.law[largest + 1 :]), arb(0))
    curve = Thresholds(round_, largest)
    near = [curve.start - 1] * 2
    for x in losses:
        clock.check()
        if x.is_zero():
            p, q = curve.tails(x, curve.start)
        else:
            t = curve.threshold(abs(x), 2 * near[1] - near[0])
            near = [near[1], t.mid()]
            p, q = curve.tails(abs(x), t)
        tails.p.append(1 - q if x < 0 else p)
        tails.q.append(1 - p if x < 0 else q)
    return tails


class Thresholds:
    """The t of the supremum in C-18 for one alpha: where (1 - alpha) h_0 + sum_i h_i (LR_i(t) - alpha)_+ is zero."""

    def __init__(self, round_: Profile, largest: int) -> None:
        self.h = [arb(p) for p in round_.law[: largest + 1]]
        self.mu = [arb(round_.unit) * i for i in range(len(self.h))]
        if len(self.h) < 2:
            raise Undecided("the envelope has lost all of its shifts")
        self.start = -self.mu[1] / 2  # no t of a positive loss is above it

    def excess(self, t: arb, x: arb) -> tuple[arb, arb]:
        """Minus that sum over alpha = e^x, which increases with t, and its slope."""
        total, slope = -self.h[0] * ((-x).exp() - 1), arb(0)
        for p, mu in zip(self.h[1:], self.mu[1:], strict=True):
            ratio = (-mu * t - mu * mu / 2 - x).exp()
            total -= p * (ratio - 1).max(arb(0))
            if ratio > 1:
                slope += p * mu * ratio
        return total, slope

    def threshold(self, x: arb, near: arb) -> arb:
        """A ball that contains t, for x > 0."""
        t, _ = solved(self.excess, x, near, 1 + 1 / self.mu[1])
        radius = arb(2) ** (-ctx.prec // 2)
        while not (self.excess(t - radius, x)[0] < 0 and self.excess(t + radius, x)[0] > 0):
            radius *= 16
            if radius > 1:
                raise Undecided("a threshold of the envelope could not be enclosed")
        return (t - radius).union(t + radius)

    def tails(self, x: arb, t: arb) -> tuple[arb, arb]:
        """P(L > x) = h_0 Phi(t) + sum h_i Phi(t_i + mu_i) and Q(L > x), t_i = min(t, -x/mu_i - mu_i/2)."""
        p = q = self.h[0] * normal(t)
        for weight, mu in zip(self.h[1:], self.mu[1:], strict=True):
            own = t.min(-x / mu - mu / 2)
            p += weight * normal(own + mu)
            q += weight * normal(own)
        return p, q


def one_round(round_: Mixtures | Gaussians | Profile, epsilon: Any) -> tuple[arb, arb]:
    """C-4: (lower, upper) of delta(epsilon) after one round: every optimal event is a half-line u > threshold."""
    level, total = arb(epsilon).exp(), arb(0)
    if not isinstance(round_, Mixtures):  # their tails are those of {L > epsilon} itself
        tails = tails_of(round_, [arb(epsilon)], (LARGEST_GROUP, 0), Clock())
        total = tails.p[0] - level * tails.q[0]
        return total.lower(), (total + tails.dropped).upper()
    unit = arb(round_.unit)
    for right, left in round_.branches:
        a, b = polynomial(right, unit), polynomial(left, unit)
        if a.degree() < 1 and (b.degree() < 1 or level * b[0] >= a[0]):
            continue  # the loss never exceeds log(a_0 / b_0)
        if b.degree() < 1 and a[0] >= level * b[0]:  # and here it is never below
            total += sum((arb(p) for p in right), arb(0)) - level * left[0]
            continue
        ends = [arb(-1), arb(1)]
        for side, sign in enumerate((-1, 1)):
            while not sign * gap(a, b, level, ends[side], unit) > 0:
                ends[side] *= 2
                if ends[side].abs_upper() > 1e15:
                    raise Undecided("the threshold of one round could not be enclosed")
        for _ in range(4 * ctx.prec):
            middle = ((ends[0] + ends[1]) / 2).mid()
            value = gap(a, b, level, middle, unit)
            if not (value < 0 or value > 0):  # too close to the threshold for a sign
                middle = ((2 * ends[0] + ends[1]) / 3).mid()
                value = gap(a, b, level, middle, unit)
            if not (value < 0 or value > 0):
                break
            ends[0 if value < 0 else 1] = middle
        u = ends[0].union(ends[1])
        total += sum((p * normal(i * unit - u) for i, p in enumerate(right)), arb(0))
        total -= level * sum((p * normal(-j * unit - u) for j, p in enumerate(left)), arb(0))
    return total.lower(), (total + round_.missing).upper()


def gap(a: arb_poly, b: arb_poly, level: arb, u: arb, unit: arb) -> arb:
    """A(u) - e^epsilon B(u), which changes its sign once, from - to +."""
    t = (u * unit).exp()
    return a(t) - level * b(1 / t)


def polynomial(law: Law, unit: arb) -> arb_poly:
    """sum_i p_i e^{-(i unit)^2 / 2} t^i: the density over phi(u), at t = e^{unit u} (P) or e^{-unit u} (Q)."""
    return arb_poly([p * (-((i * unit) ** 2) / 2).exp() for i, p in enumerate(law)])


@dataclass
class Revealed:
    """1 - p: a noiseless round reveals all; otherwise these rounds have a loss from `least` to `most` in all."""

    p: tuple[arb, arb]  # from below and from above
    least: arb
    most: arb


def revealed(parts: list[tuple[Noiseless, int]]) -> Revealed:
    """C-26 for rounds without noise, each with the number of times it is run."""
    total = Revealed((arb(1), arb(1)), arb(0), arb(0))
    for round_, times in parts:
        kept = [(arb(a), arb(b)) for a, b in round_.outcomes if not (a == 0 or b == 0)]
        p, q = (sum((pair[side] for pair in kept), arb(0)) for side in (0, 1))
        total.p = (total.p[0] * p.lower() ** times, total.p[1] * (p + round_.missing).min(arb(1)).upper() ** times)
        if kept:
            total.least += times * (p / q).log()
            total.most += times * reduce(arb.max, ((a / b).log() for a, b in kept))
    return total


def delta_with(
    parts: list[tuple[Noiseless, int]], noisy: Callable[[Any], tuple[arb, arb]], epsilon: arb
) -> tuple[arb, arb]:
    """C-26: (lower, upper) of (1 - p) + p delta'(epsilon - loss), delta' that of the noisy rounds."""
    quiet = revealed(parts)
    if quiet.p[1].is_zero():
        return arb(1), arb(1)
    low, high = noisy(epsilon - quiet.least)[0], noisy(epsilon - quiet.most)[1]
    lower = 1 - quiet.p[1] + quiet.p[0] * low
    return lower.lower(), (1 - quiet.p[0] + quiet.p[0] * high).upper()
