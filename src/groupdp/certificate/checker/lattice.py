"""Few rounds, and rare large losses: delta by measures on a lattice of losses, one above and one below (C-22 to C-25).

The losses of a round are cut at the points x_n = offset + n step. P and Q of every cell are closed forms (`tails`); a
cell is replaced by two points of the lattice, which raises delta, or by two others, which lowers it. Compositions are
products of polynomials whose coefficients are weights times e^{c n step}: whole numbers, rounded up or down each time.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

from flint import arb, arb_poly, ctx, fmpz, fmpz_poly

from groupdp.certificate.checker.closed_forms import Tails, tails_of
from groupdp.certificate.checker.laws import Composition, Gaussians, Mixtures, Profile
from groupdp.certificate.checker.lines import log_kappa
from groupdp.certificate.checker.reading import Clock, Undecided, hint

#: Most cells of a round; most points of a composition, and most bits of all of them.
MOST_CELLS, MOST_WINDOW, MOST_BITS = 200_000, 400_000, 80_000_000
#: Most bits of the closed forms of one round; compositions may need more.
ENOUGH_BITS = 128


@dataclass
class Measure:
    """Weights times e^{c n step} at n = first, first + stride, ...: whole numbers, not negative, times 2^exponent."""

    weights: fmpz_poly
    exponent: int
    first: int

    def balls(self) -> arb_poly:
        """The weights times e^{c n step}."""
        return arb_poly(self.weights) * arb(2) ** self.exponent

    def rounded(self, above: bool) -> Measure:
        """Rounded to ctx.prec bits of the sum: every weight up if `above`, else down."""
        spare = max(self.weights(fmpz(1)).bit_length() - ctx.prec, 0)
        weights = [(w >> spare) + above for w in self.weights.coeffs()] if spare else self.weights
        return Measure(fmpz_poly(weights), self.exponent + spare, self.first)


@dataclass
class Window:
    """Points low..high (of one side's own lattice) are kept; whether something was cut off below or above."""

    low: int
    high: int
    above: bool  # whether weights are rounded up, or down
    clock: Clock
    cut: tuple[bool, bool] = (False, False)

    def product(self, left: Measure, right: Measure) -> Measure:
        """The composition of two, cut to the window, and rounded."""
        self.clock.check()
        first, degree = left.first + right.first, left.weights.degree() + right.weights.degree()
        self.cut = (self.cut[0] or first < self.low, self.cut[1] or first + degree > self.high)
        weights = left.weights.mul_low(right.weights, max(self.high - first + 1, 0))
        if first < self.low:
            weights, first = weights.right_shift(self.low - first), self.low
        return Measure(weights, left.exponent + right.exponent, first).rounded(self.above)

    def power(self, base: Measure, times: int) -> Measure:
        """`times` copies of one, composed, by squaring."""
        product = None
        while times:
            if times & 1:
                product = base if product is None else self.product(product, base)
            times >>= 1
            base = self.product(base, base) if times else base
        if product is None:
            raise AssertionError("a power must be at least 1")
        return product


def measure(weights: list[arb], first: int, above: bool) -> Measure:
    """Balls as whole numbers with ctx.prec bits of their sum: from above if `above`, else from below."""
    exact = [(w.upper() if above else w.lower()).max(arb(0)) for w in weights]
    total = sum(exact, arb(0)).upper()
    if not total.is_finite():
        raise Undecided("the weights of a round could not be enclosed")
    mantissa, exponent = total.man_exp()
    exponent += mantissa.bit_length() - ctx.prec
    whole_numbers = []
    for mantissa, own in map(arb.man_exp, exact):
        shift = int(own - exponent)
        whole_numbers.append(mantissa << shift if shift >= 0 else (mantissa >> -shift) + above)
    return Measure(fmpz_poly(whole_numbers), int(exponent), first)


class Spread:
    """One round on the lattice: both measures, and the errors that delta has to include."""

    def __init__(self, round_: Mixtures | Gaussians | Profile, hints: Any, at: tuple[arb, arb], clock: Clock) -> None:
        self.c, self.step = at
        self.points = points_of(hints)
        shifts = (int(hint(hints, "right_to", 0, 1e6)), int(hint(hints, "left_to", 0, 1e6)))
        self.offset = arb(hint(hints, "offset", -1e9, 1e9))
        self.unpaid: list[tuple[int, arb, arb]] = []  # n, weight and lost loss: a hint may move the offset
        with ctx.workprec(min(ctx.prec, ENOUGH_BITS)):  # the weights of one round are not small, relatively
            losses = [self.offset + n * self.step for n in self.points]
            levels, tails = [x.exp() for x in losses], tails_of(round_, losses, shifts, clock)
            self.moved, self.raised = tails.moved, tails.raised
            self.infinite = (tails.dropped + tails.p[-1]).upper()
            upper, (lower, start) = self.from_above(tails, levels), self.from_below(tails, levels)
        self.upper, self.lower = measure(upper, self.points[0], True), measure(lower, start // 2, False)

    def tilted(self, weights: list[tuple[int, arb]], stride: int) -> list[arb]:
        """Times e^{c n step}, for every stride-th n from the first one on."""
        base, first = self.c * self.step, weights[0][0]
        result = [arb(0)] * ((weights[-1][0] - first) // stride + 1)
        for n, w in weights:
            result[(n - first) // stride] = w * (base * n).exp()
        return result

    def grown(self, cells: int) -> arb:
        """e^d - 1 for the distance d of so many cells."""
        return (cells * self.step).expm1()

    def from_above(self, tails: Tails, levels: list[arb]) -> list[arb]:
        """C-22: a cell's P and Q at both of its ends; what lies below the first point is raised to it."""
        slack = arb(1, self.moved.expm1().upper())  # C-24
        weights = [arb(0)] * len(levels)
        weights[0] = tails.whole - tails.p[0]
        wide = {m - n: 1 - ((n - m) * self.step).exp() for n, m in itertools.pairwise(self.points)}
        for i, (n, m) in enumerate(itertools.pairwise(self.points)):
            p, q = tails.p[i] - tails.p[i + 1], tails.q[i] - tails.q[i + 1]
            high = (p - levels[i] * q * slack) / wide[m - n]
            weights[i] += p - high
            weights[i + 1] += high
        return self.tilted(list(zip(self.points, weights, strict=True)), 1)

    def from_below(self, tails: Tails, levels: list[arb]) -> tuple[list[arb], int]:
        """C-23: two cells around an even n become one point, their mean, which is extrapolated from n and a neighbour.

        A neighbour gives away half of its weight at most. What that does not pay for stays at n if the mean is above
        n, and else the cells are joined to those below them.
        """
        begin = 1 + (self.points[0] + 1) % 2  # the first even n with both of its cells
        middle = range(begin, len(self.points) - 1, 2)
        places = [self.points[begin] - 2, *(self.points[i] for i in middle)]
        p, q, level = [arb(0)], [arb(0)], [(self.offset + places[0] * self.step).exp()]
        for i in middle:
            p.append((tails.p[i - 1] - tails.p[i + 1]).lower().max(arb(0)))
            q.append((tails.q[i - 1] - tails.q[i + 1]).upper().max(arb(0)))
            level.append(levels[i])
        growths = {m - n: self.grown(m - n) for n, m in itertools.pairwise(places)}
        grown = [growths[m - n] for n, m in itertools.pairwise(places)]  # from each to the next
        p, q, level = [*p, arb(0)], [*q, arb(0)], [*level, arb(0)]
        moves = [arb(0)] * len(p)
        for m in range(len(p) - 2, 0, -1):
            above = grown[min(m, len(grown) - 1)]
            needed = ((level[m] * q[m] - p[m]) * (1 + 1 / above)).upper()
            if needed <= 0:
                continue  # the mean is at n or above
            if needed <= p[m + 1] / 2:
                moves[m] += needed
                moves[m + 1] -= needed
            else:
                p[m - 1], q[m - 1] = (p[m - 1] + p[m]).lower(), (q[m - 1] + q[m]).upper()
                p[m] = q[m] = arb(0)
        if not p[0] >= level[0] * q[0]:
            p[0] = arb(0)  # the joined mass may lie below the lowest point: it is left out
        for m in range(1, len(p) - 1):
            excess = ((p[m] - level[m] * q[m]) / grown[m - 1]).lower()
            if excess > 0:
                part = excess.min(p[m - 1] / 2)
                moves[m] += part
                moves[m - 1] -= part
                self.unpaid.append((places[m], p[m], (excess - part) * grown[m - 1]))
        weights = [weight + move for weight, move in zip(p[:-1], moves[:-1], strict=True)]
        return self.tilted(list(zip(places, weights, strict=True)), 2), places[0]


def points_of(hints: Any) -> list[int]:
    """The n of a round's cells: one after the other up to `fine`, which is odd, and then `stride`, odd too, apart."""
    first, last = (int(hint(hints, name, -1e9, 1e9)) for name in ("first", "last"))
    fine, stride = last, 1
    if isinstance(hints, dict) and "stride" in hints:
        fine, stride = int(hint(hints, "fine", -1e9, 1e9)), int(hint(hints, "stride", 1, MOST_CELLS))
        if not (first + 4 <= fine <= last and fine % 2 == stride % 2 == 1):
            raise Undecided("the hints fine and stride must be odd, and fine between first and last")
    if not 4 <= last - first <= MOST_CELLS or not first <= 0 <= last:
        raise Undecided(f"a round's lattice must have from 4 to {MOST_CELLS} cells, around 0")
    return [*range(first, fine), *range(fine, last + 1, stride)]


class Lattice:
    """All that is needed of a composition and does not depend on epsilon."""

    def __init__(self, parts: Composition, hints: Any, clock: Clock) -> None:
        self.c, self.beyond = (arb(hint(hints, name, 1e-9, 1e9)) for name in ("abscissa", "beyond"))
        self.before = arb(hint(hints, "before", 0, 1e9))
        self.step = arb(hint(hints, "step", 1e-12, 100))
        low, high = int(hint(hints, "low", -1e9, 0)), int(hint(hints, "high", 0, 1e9))
        listed = hints.get("rounds")
        if not isinstance(listed, list) or len(listed) != len(parts):
            raise Undecided("the hints must have rounds as many as the composition")
        if high - low > MOST_WINDOW or (high - low) * ctx.prec > MOST_BITS:
            raise Undecided(f"a lattice may have {MOST_WINDOW} points and {MOST_BITS} bits in all")
        times = [number for _, number in parts]
        sides = [
            Spread(round_, part, (self.c, self.step), clock) for (round_, _), part in zip(parts, listed, strict=True)
        ]
        windows = Window(low, high, True, clock), Window(low // 2, high // 2, False, clock)
        measures = ([spread.upper for spread in sides], [spread.lower for spread in sides])
        made = (
            reduce(window.product, map(window.power, some, times))
            for window, some in zip(windows, measures, strict=True)
        )
        self.upper, self.lower = ((measure.balls(), measure.first) for measure in made)
        rounds = list(zip(sides, times, strict=True))
        self.offset = sum((number * spread.offset for spread, number in rounds), arb(0))
        self.moved = sum((number * spread.moved for spread, number in rounds), arb(0))
        self.infinite = sum((number * spread.infinite for spread, number in rounds), arb(0))
        self.raised = sum((number * spread.raised for spread, number in rounds), arb(0)).expm1()
        below, above = windows[0].cut
        most = [
            reduce(mul, (reduce(arb.max, (self.moment(spread, z) for z in some), arb(1)) ** n for spread, n in rounds))
            for some in ((self.beyond, arb(0)), (self.c, -self.before))
        ]
        self.cut_above = 3 * sum(times) * most[0] * (-self.beyond * high * self.step).exp() if above else arb(0)
        self.cut_below = (
            3 * sum(times) * most[1] * ((self.c + self.before) * low * self.step).exp() if below else arb(0)
        )

    def moment(self, spread: Spread, z: arb) -> arb:
        """sum of the upper measure's weights times e^{z n step}."""
        turn = ((z - self.c) * self.step).exp()
        return spread.upper.balls()(turn) * turn**spread.upper.first

    def delta(self, epsilon: Any) -> tuple[arb, arb]:
        """(lower, upper) of delta(epsilon): C-22 and C-23, with C-5 and C-6 for what is left out of a round."""
        eps = arb(epsilon)
        chernoff = (log_kappa(self.c) - self.c * (eps - self.offset)).exp()
        upper = self.tail(self.upper, eps - self.moved, 1)[1]  # C-24
        upper += self.infinite + self.cut_above + chernoff * self.cut_below  # C-25
        lower = self.tail(self.lower, eps, 2)[0] - self.raised
        return lower.lower().max(arb(0)), upper.upper()

    def tail(self, composed: tuple[arb_poly, int], eps: arb, stride: int) -> tuple[arb, arb]:
        """Bounds on the sum of w (1 - e^{eps - x})_+ over the points x."""
        step = stride * self.step
        near = (eps - self.offset) / step
        if not (near.abs_upper() < 1e12 and near.rad() < 0.1):
            raise Undecided("epsilon is beyond every lattice")
        first = max(math.floor(float(near)) - 1, composed[1])
        weights = composed[0].right_shift(first - composed[1])
        total = arb(0)
        for n in range(first, first + 3):  # some of which may be below epsilon
            total += self.point(weights[n - first], n, eps, step)
        rest = weights.right_shift(3)
        sums = [rest(turn) * turn ** (first + 3) for turn in ((-z * step).exp() for z in (self.c, self.c + 1))]
        total += sums[0] - (eps - self.offset).exp() * sums[1]
        return total.lower(), total.upper()

    def point(self, weight: arb, n: int, eps: arb, step: arb) -> arb:
        """w (1 - e^{eps - x})_+ at one point."""
        return weight * (-self.c * step * n).exp() * (1 - (eps - self.offset - n * step).exp()).max(arb(0))
