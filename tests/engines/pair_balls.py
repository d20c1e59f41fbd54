"""Ball arithmetic for pairs of opposed mixtures, coins and envelopes: closed forms at one round, lattices at a few.

Laws are exact: shifts are doubles, probabilities rationals. Shares only the objects asked about with the package.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
from flint import arb, ctx, fmpq

from groupdp.pairs import Branch, Side

BITS = 300


def exact(value) -> arb:
    fraction = Fraction(value)
    return arb(fmpq(fraction.numerator, fraction.denominator))


def side_of(law: dict[float, Fraction]) -> Side:
    """The package's side of an exact law {shift: probability}."""
    shifts = sorted(law)
    with ctx.workprec(BITS):
        logs = [float(exact(law[x]).log().mid()) for x in shifts]
    return Side(np.array(shifts), (np.array([float(law[x]) for x in shifts]), np.array(logs)))


class Pair:
    """P = sum a_i N(x_i) against Q = sum b_j N(-y_j), from exact laws."""

    def __init__(self, right: dict[float, Fraction], left: dict[float, Fraction]) -> None:
        self.laws = right, left
        self.branch = Branch(side_of(right), side_of(left))

    def terms(self, u: arb) -> tuple[arb, arb]:
        """A(u), B(u)."""
        a, b = (
            sum((exact(p) * (s * exact(x) * u - exact(x) ** 2 / 2).exp() for x, p in law.items()), arb(0))
            for law, s in zip(self.laws, (1, -1), strict=True)
        )
        return a, b

    def loss(self, u: arb) -> arb:
        a, b = self.terms(u)
        return a.log() - b.log()

    def beyond(self, u: arb) -> tuple[arb, arb]:
        """P(> u), Q(> u)."""
        right, left = self.laws
        p = sum((exact(w) * tail(u - exact(x)) for x, w in right.items()), arb(0))
        q = sum((exact(w) * tail(u + exact(y)) for y, w in left.items()), arb(0))
        return p, q

    def place(self, loss: arb) -> arb | None:
        """About the u with that loss, to half of the digits at least; None if there is none."""
        low, high = arb(-1), arb(1)
        while not self.loss(high) > loss:
            low, high = high, 2 * high
            if high > 1e9:
                return None
        while not self.loss(low) < loss:
            low = 2 * low if low < 0 else arb(-1)
            if low < -1e9:
                return None
        for _ in range(40):
            middle = ((low + high) / 2).mid()
            low, high = (middle, high) if self.loss(middle) < loss else (low, middle)
        u = ((low + high) / 2).mid()
        for _ in range(6):  # Newton's method: digits double, unless the step is not one
            step = ((self.loss(u) - loss) / self.slope(u)).mid()
            if not abs(step) < 2 * abs(high - low):
                break
            u = (u - step).mid()
        return u

    def places(self, losses: list[arb]) -> list[arb]:
        """u with these losses: bisection in doubles within 40 deviations, then Newton's method in balls."""
        wanted = np.array([float(loss) for loss in losses])
        low, high = np.full(len(losses), -40.0), np.full(len(losses), 40.0)
        for _ in range(60):
            middle = 0.5 * (low + high)
            loss = np.zeros(len(losses))
            for law, s in zip(self.laws, (1.0, -1.0), strict=True):
                loss += s * np.logaddexp.reduce([math.log(p) + s * x * middle - x * x / 2 for x, p in law.items()])
            below = loss < wanted
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        found = []
        for start, loss in zip(low.tolist(), losses, strict=True):
            u = arb(start)
            if abs(start) < 39.0:
                for _ in range(2):
                    step = ((self.loss(u) - loss) / self.slope(u)).mid()
                    u = (u - step).mid() if abs(step) < 1 else u
            found.append(u)
        return found

    def slope(self, u: arb) -> arb:
        total = arb(0)
        for law, s in zip(self.laws, (1, -1), strict=True):
            terms = [(exact(x), exact(p) * (s * exact(x) * u - exact(x) ** 2 / 2).exp()) for x, p in law.items()]
            total += sum((x * term for x, term in terms), arb(0)) / sum((term for _, term in terms), arb(0))
        return total

    def delta(self, epsilon) -> arb:
        """delta(epsilon): the event's error is squared, as the event is the best one."""
        eps = exact(epsilon)
        u = self.place(eps)
        if u is None:  # beyond all losses on one side
            return arb(0) if self.loss(arb(0)) < eps else 1 - eps.exp()
        p, q = self.beyond(u)
        return p - eps.exp() * q


def tail(x: arb) -> arb:
    """P(N(0, 1) > x)."""
    return (x / arb(2).sqrt()).erfc() / 2


def coin_delta(pairs: list[tuple[Pair, Fraction]], epsilon) -> arb:
    return sum((exact(w) * pair.delta(epsilon) for pair, w in pairs), arb(0))


def envelope_delta(h: list[Fraction], unit: float, epsilon) -> arb:
    """R(e^epsilon) for epsilon >= 0 from its definition: the best g0 by bisection, then the suprema."""
    eps = exact(epsilon)
    alpha = eps.exp()
    shifts = [i * exact(unit) for i in range(len(h))]

    def derivative(u: arb) -> arb:
        total = (1 - alpha) * exact(h[0])
        for p, m in zip(h[1:], shifts[1:], strict=True):
            gain = (m * u - m * m / 2).exp() - alpha
            total += exact(p) * gain if gain > 0 else arb(0)
        return total

    low, high = arb(0), arb(1)
    while not derivative(high) > 0:
        low, high = high, 2 * high
    for _ in range(ctx.prec // 2):
        middle = ((low + high) / 2).mid()
        low, high = (low, middle) if derivative(middle) > 0 else (middle, high)
    u0 = ((low + high) / 2).mid()
    total = (1 - alpha) * exact(h[0]) * tail(u0)
    for p, m in zip(h[1:], shifts[1:], strict=True):
        own = eps / m + m / 2
        u = own.mid() if own > u0 else u0
        total += exact(p) * (tail(u - m) - alpha * tail(u))
    return total


def few_rounds_log_delta(pairs: list[tuple[Pair, Fraction]], rounds: int, epsilon: float, step: float) -> arb:
    """log delta of a few rounds: connected dots on three lattices through epsilon, extrapolated (Richardson)."""
    with ctx.workprec(128):
        eps = exact(epsilon)
        coarsest = abs(eps) / round(abs(epsilon) / step)
        values = [_on_lattice(pairs, rounds, eps, coarsest / 2**k) for k in range(3)]
        once = [(4 * fine - coarse) / 3 for coarse, fine in itertools.pairwise(values)]
        twice = (16 * once[1] - once[0]) / 15
        return (twice + abs(twice - once[1]) * arb(0, 1)).log()


def _on_lattice(pairs: list[tuple[Pair, Fraction]], rounds: int, eps: arb, step: arb) -> arb:
    from flint import arb_poly

    low = min(math.floor(float(pair.loss(arb(-10)) / step)) for pair, _ in pairs)
    high = max(math.ceil(float(pair.loss(arb(10 + max(pair.laws[0]))) / step)) for pair, _ in pairs)
    atoms = [arb(0)] * (high - low + 1)
    for pair, weight in pairs:
        places = pair.places([k * step for k in range(low + 1, high)])
        tails = [(arb(1), arb(1)), *map(pair.beyond, places), (arb(0), arb(0))]
        for k in range(high - low):
            p, q = (tails[k][side] - tails[k + 1][side] for side in (0, 1))
            moved = (p - ((low + k) * step).exp() * q) / (1 - (-step).exp())
            atoms[k] += exact(weight) * (p - moved)
            atoms[k + 1] += exact(weight) * moved
    total = arb(0)
    at = round(float(eps / step))
    for n, mass in enumerate((arb_poly(atoms) ** rounds).coeffs(), start=low * rounds):
        if n > at:
            total += mass * (1 - (eps - n * step).exp())
    return total
