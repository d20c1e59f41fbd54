"""Fixed batches with k examples replaced or zeroed: the moment function of the envelope's loss (C-18 to C-20).

With h_i the probability that a batch holds i of the k, mu_i = i unit, and LR_i(t) = e^{-mu_i t - mu_i^2/2}: for t
below -mu_1/2 the loss x = log alpha(t) >= 0 is given by (1 - alpha) h_0 + sum_i h_i (LR_i(t) - alpha)_+ = 0. The i with
LR_i(t) > alpha are *active*; between two changes of the active set alpha is a sum of exponentials.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from flint import acb, arb

from groupdp.certificate.checker.laws import Profile
from groupdp.certificate.checker.lines import Line, Place, layers, normal
from groupdp.certificate.checker.reading import Clock, Undecided, hint


@dataclass
class Piece:
    """An interval of t with a constant active set, and the index that changes at each end (0: none)."""

    active: set[int]
    low: arb
    high: arb
    at_low: int
    at_high: int


class Envelope:
    """alpha(t) down to t = `end`, piece by piece, with every active set proved."""

    def __init__(self, round_: Profile, hints: Any, clock: Clock) -> None:
        self.clock = clock
        self.h = [arb(p) for p in round_.law]
        self.mu = [arb(round_.unit) * i for i in range(len(self.h))]
        self.top = len(self.h) - 1
        listed = hints.get("events") if isinstance(hints, dict) else None
        if (
            not isinstance(listed, list)
            or len(listed) > 200
            or not all(isinstance(e, list) and len(e) == 2 for e in listed)
        ):
            raise Undecided("the hint events must be a list of pairs (t, i)")
        self.end, self.pieces = arb(hint(hints, "end", -1e4, 0)), list[Piece]()
        active, high, at_high = {1}, -self.mu[1] / 2, 1
        for event in listed:
            t, i = (hint(dict(zip("ti", event, strict=True)), name, -1e6, 1e6) for name in "ti")
            if int(i) not in range(1, self.top + 1):
                raise Undecided("the hint events must be about 1, ..., k")
            self.clock.check()
            low = self.root(int(i), active, arb(t))
            self.pieces.append(Piece(set(active), low, high, int(i), at_high))
            active, high, at_high = active ^ {int(i)}, low, int(i)
        self.pieces.append(Piece(active, self.end, high, 0, at_high))
        if not (self.end < high and self.end < -self.mu[-1]):
            raise Undecided("the hint end must be beyond all events, and below -k unit")
        if not all(self.is_proved(piece) for piece in self.pieces):
            raise Undecided("the active sets could not be proved")

    def ratio(self, i: int, t: Any) -> Any:
        """LR_i(t)."""
        return (-self.mu[i] * t - self.mu[i] ** 2 / 2).exp()

    def weight(self, active: set[int]) -> arb:
        """h_0 plus the h_i of the active set."""
        return self.h[0] + sum((self.h[i] for i in active), arb(0))

    def alpha(self, active: set[int], t: Any) -> Any:
        """The mean of LR_i(t) over 0 and the active set."""
        return (self.h[0] + sum((self.h[i] * self.ratio(i, t) for i in active), arb(0))) / self.weight(active)

    def mean(self, active: set[int], t: arb) -> Any:
        """-(log alpha)'(t): falls with t."""
        shifted = sum((self.h[i] * self.mu[i] * self.ratio(i, t) for i in active), arb(0))
        return shifted / (self.alpha(active, t) * self.weight(active))

    def gap(self, i: int, active: set[int], t: arb) -> Any:
        """log(alpha / LR_i), a convex function of t."""
        return self.alpha(active, t).log() + self.mu[i] * t + self.mu[i] ** 2 / 2

    def root(self, i: int, active: set[int], near: arb) -> arb:
        """A ball that contains the t near `near` where LR_i = alpha."""
        low, high = near - arb("1e-7"), near + arb("1e-7")
        sign = 1 if self.gap(i, active, high) > 0 else -1
        if not (sign * self.gap(i, active, high) > 0 and sign * self.gap(i, active, low) < 0):
            raise Undecided("an event could not be enclosed")
        for _ in range(400):
            middle = ((low + high) / 2).mid()
            value = sign * self.gap(i, active, middle)
            if value > 0:
                high = middle
            elif value < 0:
                low = middle
            else:
                break
        return low.union(high)

    def is_proved(self, piece: Piece) -> bool:
        """C-18: on the whole piece alpha < LR_i for the active ones and >= for the others; all gaps are convex."""
        if not piece.low < piece.high:
            return False
        for i in range(1, self.top + 1):
            high, slope = self.gap(i, piece.active, piece.high), self.mu[i] - self.mean(piece.active, piece.high)
            low, low_slope = self.gap(i, piece.active, piece.low), self.mu[i] - self.mean(piece.active, piece.low)
            if i in piece.active:
                holds = (i == piece.at_high or high < 0) and (i == piece.at_low or low < 0)
            elif i == piece.at_low:
                holds = bool(low_slope > 0)
            elif i == piece.at_high:
                holds = bool(slope < 0)
            else:  # it rises from the left end, or falls to the right one, or the tangents at both meet above 0
                meet = low * slope - high * low_slope + low_slope * slope * (piece.high - piece.low)
                holds = bool(low > 0 and high > 0) and bool(slope < 0 or low_slope > 0 or meet > 0)
            if not holds:
                return False
        return True


def profile_line(round_: Profile, hints: Any, at: Place) -> Line:
    """The envelope on Re z = c: C-19 for G, C-20 for the decay."""
    curve = Envelope(round_, hints, at.clock)
    cells = int(hint(hints, "cells", 2, 5000))
    atom = 1 - moment(curve, acb(0))
    samples = []
    for j in range(max(at.count, 1)):
        at.clock.check()
        samples.append(atom + moment(curve, acb(at.c, at.step * j)))
    far = (atom + moment(curve, acb(at.beyond))).real.upper()
    lost = lost_by(curve, at.c, at.step * at.count, cells) if at.count else arb(0)
    return Line(samples, far, 1 - lost / samples[0].real.upper(), arb(0), arb(0))


def phi(t: Any) -> Any:
    """The standard normal density."""
    return (-t * t / 2).exp() / (2 * arb.pi()).sqrt()


def moment(curve: Envelope, z: acb) -> acb:
    """C-19: E[e^{zL}; L != 0], both signs of L together."""
    total, c = acb(0), z.real
    for piece in curve.pieces:
        curve.clock.check()

        def integrand(t: Any, analytic: bool = False, active: set[int] = piece.active) -> Any:
            ratio = acb(curve.alpha(active, t))
            if analytic and not ratio.real > 0:
                return acb("nan")
            log = ratio.log()
            return (((1 + z) * log).exp() + (-z * log).exp()) * phi(acb(t))

        inner = acb.integral(integrand, acb(piece.low.mid()), acb(piece.high.mid()), eval_limit=5000)
        if not inner.is_finite():
            raise Undecided("an integral of the envelope could not be enclosed")
        for t in (piece.low, piece.high):  # the ends are balls
            log = curve.alpha(piece.active, t).log()
            inner += ball(t.rad() * (((1 + c) * log).exp() + (-c * log).exp()) * phi(t))
        total += curve.weight(piece.active) * inner
        for i in range(1, curve.top + 1):
            if i not in piece.active:
                ends = (own_threshold(curve, i, piece.active, t) for t in (piece.high, piece.low))
                total += curve.h[i] * (gaussian(curve.mu[i], next(ends), z) - gaussian(curve.mu[i], next(ends), z))
    last = curve.pieces[-1].active  # beyond the end: alpha <= LR_k, and every i below its own threshold at most
    beyond = gaussian(curve.mu[-1], curve.end, acb(c)).real
    for i in range(1, curve.top + 1):
        beyond += curve.h[i] * gaussian(curve.mu[i], own_threshold(curve, i, last, curve.end), acb(c)).real
    return total + ball(beyond)


def ball(size: arb) -> acb:
    """All complex numbers of at most this size (and some more)."""
    real = (-size.abs_upper()).union(size.abs_upper())
    return acb(real, real)


def own_threshold(curve: Envelope, i: int, active: set[int], t: arb) -> Any:
    """The v with LR_i(v) = alpha(t)."""
    return -curve.alpha(active, t).log() / curve.mu[i] - curve.mu[i] / 2


def gaussian(mu: arb, v: arb, z: acb) -> Any:
    """The integral of (LR^{1+z} + LR^{-z}) phi up to v, for N(mu) against N(0)."""
    return (mu**2 * z * (z + 1) / 2).exp() * (normal(v + (1 + z) * mu) + normal(v - z * mu))


def lost_by(curve: Envelope, c: arb, s: arb, cells: int) -> arb:
    """C-20: G(c) - |G(c + i s')| for all s' >= s, from below, by a minorant of the active part's density."""
    edges, right, left, excess = [], [], [], arb(0)
    for piece in curve.pieces:
        low, high = piece.low, piece.high
        count = max(2, int(float((high - low) / (curve.pieces[0].high - curve.end)) * cells))
        points = [*((high + (low - high) * n / count).mid() for n in range(count)), low.mid()]
        weight = curve.weight(piece.active)
        for b, a in itertools.pairwise(points):
            curve.clock.check()
            slope = curve.mean(piece.active, a)
            small, large = curve.alpha(piece.active, b), curve.alpha(piece.active, a)
            density = phi(a).min(phi(b)) * weight / slope
            edges.append(small.log())
            right.append((density * ((1 + c) * small.log()).exp()).lower().max(arb(0)))
            left.append((density * (-c * large.log()).exp()).lower().max(arb(0)))
        width = 2 * curve.alpha(piece.active, high).log().rad() + 2 * high.rad() * slope
        excess += width * (max(right, key=float) + max(left, key=float))  # where the ends are not exact
    edges.append(curve.alpha(curve.pieces[-1].active, curve.end).log())
    return (layers(edges, right, s) + layers(edges, left, s) - excess).lower().max(arb(0))
