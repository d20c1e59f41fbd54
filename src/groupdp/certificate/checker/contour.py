"""Many rounds: delta by a contour integral in ball arithmetic, every error enclosed (C-5 to C-17)."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any

from flint import acb, arb, fmpq

from groupdp.certificate.checker.closed_forms import polynomial
from groupdp.certificate.checker.envelope import profile_line
from groupdp.certificate.checker.laws import Composition, Gaussians, Law, Mixtures, Profile, support
from groupdp.certificate.checker.lines import Hidden, Line, Place, hidden_line, layers, log_kappa, transform, turns
from groupdp.certificate.checker.reading import Clock, Undecided, hint

#: Most nodes of a quadrature, and points of a contour.
MOST_NODES, MOST_POINTS = 100_000, 50_000


def gaussian_line(round_: Gaussians, at: Place) -> Line:
    """C-7: G(z) = sum p e^{square z (z + 1) / 2}, and the size of every term falls with Im z."""
    coin, samples = round_.coin, []
    for j in range(max(at.count, 1)):
        at.clock.check()
        z = acb(at.c, at.step * j)
        samples.append(sum((p * (z * (z + 1) * square / 2).exp() for p, square in coin), acb(0)))
    far = sum((p * (at.beyond * (at.beyond + 1) * square / 2).exp() for p, square in coin), arb(0))
    past = at.c * (at.c + 1) - (at.step * at.count) ** 2
    size = sum((p * (past * square / 2).exp() for p, square in coin), arb(0))
    return Line(samples, far, size / samples[0].real, arb(round_.missing), arb(0))


class Quadrature:
    """G(z) = int A^{1+z} B^{-z} phi du for one branch, by the trapezoid rule with every error bounded."""

    def __init__(self, right: Law, left: Law, unit: arb, hints: Any, clock: Clock) -> None:
        self.h, self.strip = (arb(hint(hints, name, 1e-9, 100)) for name in ("step", "strip"))
        first, last = (int(hint(hints, name, -1e9, 1e9)) for name in ("first", "last"))
        if not 1 < last - first < MOST_NODES:
            raise Undecided(f"the quadrature must have from 2 to {MOST_NODES} nodes")
        xs, ys = support(right), support(left)
        self.x, self.y = (unit * xs[0], unit * xs[-1]), (unit * ys[0], unit * ys[-1])
        spans = self.strip * (self.x[1] - self.x[0]), self.strip * (self.y[1] - self.y[0])
        if not (spans[0] < arb.pi() and spans[1] < arb.pi()):
            raise Undecided("the strip is too wide")
        self.cosine = (spans[1] / 2).cos()
        a, b = polynomial(right, unit), polynomial(left, unit)
        da, db, self.nodes = a.derivative(), b.derivative(), []
        for n in range(first, last + 1):  # u, log A, log B, (log A)', -(log B)'
            clock.check()
            u = self.h * n
            t = (unit * u).exp()
            va, vb = a(t), b(1 / t)
            self.nodes.append((u, va.log(), vb.log(), unit * t * da(t) / va, unit * db(1 / t) / (t * vb)))

    def weights(self, z: arb) -> tuple[list[arb], arb]:
        """C-9: h phi(u) A^{1+z} B^{-z} at the nodes, and a bound on their sum over the nodes beyond both ends."""
        weights = [
            ((1 + z) * la - z * lb - u * u / 2).exp() * self.h / (2 * arb.pi()).sqrt() for u, la, lb, _, _ in self.nodes
        ]
        left = self.h * ((1 + z) * self.x[0] + z * self.nodes[0][4] - self.nodes[0][0])
        right = self.h * (self.nodes[-1][0] - (1 + z) * self.x[1] - z * self.nodes[-1][4])
        if not (left > 0 and right > 0):
            raise Undecided("the quadrature's range is too short")
        return weights, weights[0] / left.expm1() + weights[-1] / right.expm1()

    def error(self, z: arb, s: arb) -> arb:
        """C-8: |trapezoid - G(z + i s)| / G(z), from above."""
        size = self.strip**2 / 2 + s * self.strip * (self.x[1] + self.y[1]) - z * self.cosine.log()
        return 2 * size.exp() / (2 * arb.pi() * self.strip / self.h).expm1()

    def upper(self, z: arb) -> arb:
        """G(z) at a real z, from above (C-8, C-9)."""
        weights, tails = self.weights(z)
        error = self.error(z, arb(0))
        if not error < 1:
            raise Undecided("the quadrature's step is too long")
        return (sum(weights, arb(0)) + tails) / (1 - error)

    def lost(self, c: arb, s: arb) -> arb:
        """C-10: G(c) - |G(c + i s')| for every s' >= s, from below, by a minorant of the loss's density."""
        heights = []
        for (u, la, lb, sa, sb), (v, _, lb_next, sa_next, _) in zip(self.nodes, self.nodes[1:], strict=False):
            here, there = (1 + c) * la - c * lb - u * u / 2, (1 + c) * (la + self.h * sa) - c * lb_next - v * v / 2
            heights.append((here.min(there).exp() / ((sa_next + sb) * (2 * arb.pi()).sqrt())).lower())
        return layers([la - lb for _, la, lb, _, _ in self.nodes], heights, s)


def kept(law: Law, low: int, high: int) -> tuple[Law, arb]:
    """The part of a law on low..high, and the probability of the rest."""
    rest = sum((arb(p) for i, p in enumerate(law) if not low <= i <= high), arb(0))
    return [p if low <= i else fmpq(0) for i, p in enumerate(law[: high + 1])], rest


def mixture_line(round_: Mixtures, hints: Any, at: Place) -> Line:
    """A round of mixtures: the sum over its branches."""
    line = Line([acb(0)] * max(at.count, 1), arb(0), arb(0), round_.missing, arb(0))
    low, high, left_high = (int(hint(hints, name, 0, 1e6)) for name in ("right_from", "right_to", "left_to"))
    lost = arb(0)
    for right, left in round_.branches:
        (right, dropped), (left, dropped_left) = kept(right, low, high), kept(left, 0, left_high)
        line.dropped += dropped
        if not support(right):
            continue
        if not support(left):
            raise Undecided("a branch of Q has lost all of its shifts")
        line.raised = line.raised.max(dropped_left / reduce(arb.max, map(arb, left)))
        branch = Quadrature(right, left, arb(round_.unit), hints, at.clock)
        weights, tails = branch.weights(at.c)
        most = branch.upper(at.c)
        sums = transform([la - lb for _, la, lb, _, _ in branch.nodes], weights, at)
        for j, value in enumerate(sums):
            error = tails + most * branch.error(at.c, at.step * j)
            ball = (-error).union(error)
            line.samples[j] += value + (acb(ball, ball) if j else ball)
        line.far += branch.upper(at.beyond)
        if at.count and branch.x[1] + branch.y[1] > 0:
            lost += branch.lost(at.c, at.step * at.count)
    line.decay = 1 - lost / line.samples[0].real.upper()
    return line


def line_of(round_: Mixtures | Gaussians | Profile | Hidden, hints: Any, at: Place) -> Line:
    """A round of any kind on Re z = c."""
    if isinstance(round_, Gaussians):
        return gaussian_line(round_, at)
    if isinstance(round_, Profile):
        return profile_line(round_, hints, at)
    if isinstance(round_, Hidden):
        return hidden_line(round_, hints, at)
    return mixture_line(round_, hints, at)


class Contour:
    """All that is needed of a composition and does not depend on epsilon."""

    def __init__(self, parts: Composition, hints: Any, clock: Clock) -> None:
        c, beyond = (arb(hint(hints, name, 1e-9, 1e9)) for name in ("abscissa", "beyond"))
        self.at = Place(
            c, beyond, arb(hint(hints, "step", 1e-12, 1e9)), int(hint(hints, "points", 0, MOST_POINTS)), clock
        )
        listed = hints.get("rounds")
        if not c < beyond or not isinstance(listed, list) or len(listed) != len(parts):
            raise Undecided("the hints must have beyond > abscissa, and rounds as many as the composition")
        lines = [(line_of(round_, part, self.at), times) for (round_, times), part in zip(parts, listed, strict=True)]
        self.dropped = sum((times * line.dropped for line, times in lines), arb(0))
        self.raised = sum((times * line.raised for line, times in lines), arb(0)).expm1()
        self.far = sum((times * line.far.log() for line, times in lines), arb(0))
        self.decay = reduce(mul, (line.decay.upper() ** times for line, times in lines))
        self.powers = [
            reduce(mul, (line.samples[j] ** times for line, times in lines)) for j in range(max(self.at.count, 1))
        ]
        self.largest = largest_loss(parts)

    def delta(self, epsilon: Any) -> tuple[arb, arb]:
        """(lower, upper) of delta(epsilon): C-11 for both, C-12 to C-15 for what is missing."""
        at, eps, peak = self.at, arb(epsilon), self.powers[0].real
        upper = (log_kappa(at.c) - at.c * eps).exp() * peak
        if at.count < 2:
            return arb(0), (upper + self.dropped).upper()
        total = arb(0)
        for j, (power, turn) in enumerate(zip(self.powers, turns(-at.step * eps, at.count), strict=True)):
            z = acb(at.c, at.step * j)
            total += (power * turn / (z * (z + 1))).real * (2 if j else 1)
        scale, period = (-at.c * eps).exp() / arb.pi(), 2 * arb.pi() / at.step
        total *= scale * at.step / 2
        rest = scale * peak * self.decay / (at.step * (at.count - 1))  # C-13
        left = 1 / (at.c * period).expm1()  # C-14
        right = (log_kappa(at.beyond) + self.far - at.beyond * eps).exp() / (
            (at.beyond - at.c) * period
        ).expm1()  # C-15
        if eps + period >= self.largest:
            right = arb(0)
        lower = total - rest - left - right - self.raised
        return lower.lower().max(arb(0)), ((total + rest).upper().min(upper.upper()) + self.dropped).upper()


def largest_loss(parts: Composition) -> arb:
    """C-16: no loss exceeds this; infinite where some P has a positive shift."""
    total = arb(0)
    for round_, times in parts:
        if not isinstance(round_, Mixtures) or any(
            (support(a), support(b)[:1]) != ([0], [0]) for a, b in round_.branches
        ):
            return arb.pos_inf()
        total += times * reduce(arb.max, (arb(right[0] / left[0]).log() for right, left in round_.branches))
    return total
