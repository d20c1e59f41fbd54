"""Fixed batches with k examples replaced or zeroed: the moment function of the envelope's loss (C-18 to C-20).

With h_i the probability that a batch holds i of the k, mu_i = i unit, and LR_i(t) = e^{-mu_i t - mu_i^2/2}: for t
below -mu_1/2 the loss x = log alpha(t) >= 0 is given by (1 - alpha) h_0 + sum_i h_i (LR_i(t) - alpha)_+ = 0. The i with
LR_i(t) > alpha are *active*; between two changes of the active set alpha is a sum of exponentials.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from flint import acb, arb, arb_poly

from groupdp.certificate.checker.laws import Profile
from groupdp.certificate.checker.lines import MOST_NODES, Line, Place, layers, normal, transform
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

    def own_threshold(self, i: int, active: set[int], t: arb) -> Any:
        """The v with LR_i(v) = alpha(t)."""
        return -self.alpha(active, t).log() / self.mu[i] - self.mu[i] / 2

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


def phi(t: Any) -> Any:
    """The standard normal density."""
    return (-t * t / 2).exp() / (2 * arb.pi()).sqrt()


@dataclass
class Part:
    """The density `weight` phi(t) at the losses log alpha(t) and -log alpha(t), for t from `low` to `high`.

    alpha is a polynomial in e^{-unit t} with positive coefficients, of powers from `least` to `most`.
    """

    alpha: arb_poly
    weight: arb
    low: arb
    high: arb
    least: int
    most: int


def parts_of(curve: Envelope) -> Iterator[Part]:
    """C-19: the pieces, and for each i the intervals between its own thresholds on which it is not active."""
    factors = [h * (-mu * mu / 2).exp() for h, mu in zip(curve.h, curve.mu, strict=True)]
    for piece in curve.pieces:
        weight, most = curve.weight(piece.active), max(piece.active, default=0)
        terms = [factors[i] / weight if i == 0 or i in piece.active else arb(0) for i in range(most + 1)]
        yield Part(arb_poly(terms), weight, piece.low, piece.high, 0, most)
    for i in range(1, curve.top + 1):
        alone = arb_poly([arb(0)] * i + [factors[i] / curve.h[i]])
        for is_active, run in itertools.groupby(curve.pieces, key=lambda piece: i in piece.active):
            if not is_active:
                pieces = list(run)
                high = curve.own_threshold(i, pieces[0].active, pieces[0].high)
                low = curve.own_threshold(i, pieces[-1].active, pieces[-1].low)
                yield Part(alone, curve.h[i], low, high, i, i)


class Rule:
    """C-101: E[e^{zL}; L != 0], both signs of L together, as a sum over nodes."""

    def __init__(self, curve: Envelope, hints: Any) -> None:
        self.curve = curve
        self.nodes: list[tuple[arb, arb]] = []  # log alpha, and the weight of e^{(1 + z) log alpha} + e^{-z log alpha}
        self.panels: list[tuple[arb, list[tuple[arb, arb, arb]]]] = []  # m D; log alpha from both sides, and a factor
        self.ends: list[tuple[arb, arb]] = []  # log alpha and a weight, as of nodes
        hints = {"nodes": 48, "reach": 1.0, **hints}  # certificates of 0.2 have neither
        count, reach = int(hint(hints, "nodes", 2, 200)), hint(hints, "reach", 1e-6, 3)
        places = [arb.legendre_p_root(count, j, True) for j in range(count)]
        for part in parts_of(curve):
            self.add(part, places, reach)

    def add(self, part: Part, places: list[tuple[arb, arb]], reach: float) -> None:
        """The nodes of a part and all that is needed of it for its errors."""
        unit, low, high = self.curve.mu[1], part.low.mid(), part.high.mid()
        strip = arb(min(reach / max(part.most * float(unit), reach), 1.0))
        count = int(0.75 * float((high - low) / strip)) + 1
        half = (high - low) / (2 * count)
        ratio, turn = 2 * strip / half, unit * (part.most - part.least) * strip / 2
        if not (half > 0 and ratio >= 3 and turn < arb.pi() / 2) or len(self.nodes) + count * len(places) > MOST_NODES:
            raise Undecided("the nodes of an envelope are too few or too many")

        def log_alpha(t: arb) -> Any:
            return part.alpha((-unit * t).exp()).log()

        scale, panels = part.weight * half, []
        off = 5 * scale * ratio ** (-2 * len(places)) * (strip**2 / 2).exp() / (2 * arb.pi()).sqrt()
        for n in range(count):
            self.curve.clock.check()
            middle = low + (2 * n + 1) * half
            for place, weight in places:
                t = middle + half * place
                self.nodes.append((log_alpha(t), scale * weight * phi(t)))
            near = (abs(middle) - 1.2 * strip).max(arb(0))
            sides = log_alpha(middle - 1.2 * strip), log_alpha(middle + 1.2 * strip) + turn.cos().log()
            panels.append((*sides, off * (-(near**2) / 2).exp()))
        self.panels.append((part.most * unit * strip, panels))
        self.ends += [(log_alpha(t), part.weight * t.rad() * phi(t)) for t in (part.low, part.high)]

    def weights(self, c: arb) -> tuple[list[arb], list[arb]]:
        """Losses, and the weights of their e^{i s L} on Re z = c."""
        above = [weight * ((1 + c) * x).exp() for x, weight in self.nodes]
        below = [weight * (-c * x).exp() for x, weight in self.nodes]
        return [x for x, _ in self.nodes] + [-x for x, _ in self.nodes], above + below

    def error(self, c: arb) -> Callable[[arb], arb]:
        """How far the sum over the nodes is from the moment at c + is, as a function of s."""
        rest = sum((size * (((1 + c) * x).exp() + (-c * x).exp()) for x, size in self.ends), self.beyond(c)).upper()
        sizes = [
            (turn, sum((size * (((1 + c) * x).exp() + (-c * y).exp()) for x, y, size in panels), arb(0)).upper())
            for turn, panels in self.panels
        ]
        return lambda s: rest + sum(((turn * s).exp() * size for turn, size in sizes), arb(0))

    def beyond(self, c: arb) -> Any:
        """C-19: what lies beyond the end, where alpha <= LR_k and every i is below its own threshold, at most."""
        curve = self.curve
        total = gaussian(curve.mu[-1], curve.end, c)
        for i in range(1, curve.top + 1):
            own = curve.own_threshold(i, curve.pieces[-1].active, curve.end)
            total += curve.h[i] * gaussian(curve.mu[i], own, c)
        return total

    def moment(self, c: arb) -> Any:
        """At a real c."""
        wrong = self.error(c)(arb(0))
        return sum(self.weights(c)[1], arb(0)) + (-wrong).union(wrong)


def gaussian(mu: arb, v: arb, c: arb) -> Any:
    """The integral of (LR^{1+c} + LR^{-c}) phi up to v, for N(mu) against N(0)."""
    return (mu**2 * c * (c + 1) / 2).exp() * (normal(v + (1 + c) * mu) + normal(v - c * mu))


def profile_line(round_: Profile, hints: Any, at: Place) -> Line:
    """The envelope on Re z = c: C-19 and C-101 for G, C-20 for the decay."""
    curve = Envelope(round_, hints, at.clock)
    cells, rule = int(hint(hints, "cells", 2, 5000)), Rule(curve, hints)
    atom, error = 1 - rule.moment(arb(0)), rule.error(at.c)
    samples = []
    for j, value in enumerate(transform(*rule.weights(at.c), at)):
        ball = (-error(at.step * j)).union(error(at.step * j))
        samples.append(atom + value + (acb(ball, ball) if j else ball))
    far = (atom + rule.moment(at.beyond)).upper()
    lost = lost_by(curve, at.c, at.step * at.count, cells) if at.count else arb(0)
    return Line(samples, far, 1 - lost / samples[0].real.upper(), arb(0), arb(0))


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
