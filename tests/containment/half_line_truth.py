"""The trade-off function of one round in ball arithmetic: half-lines of exact mixtures, enclosed by a change of sign.

Shares nothing with the package. A pair is (right, left): lists of (shift, probability) as exact rationals; a round is
a list of (weight, right, left). Rates are returned as balls that certainly contain them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flint import arb, ctx, fmpq

Side = Sequence[tuple[fmpq, fmpq]]
Coin = Sequence[tuple[fmpq, Side, Side]]


def exact(value: float) -> fmpq:
    """A double at its exact binary value."""
    numerator, denominator = value.as_integer_ratio()
    return fmpq(numerator, denominator)


def rational(numerator: int, denominator: int) -> fmpq:
    return fmpq(numerator, denominator)


def poisson_side(group_size: int, rate: float, noise: float, unit: int = 1) -> Side:
    """Binom(k, q), shifts in units of the noise."""
    q, sigma = exact(rate), exact(noise)
    law, choose = [], 1
    for i in range(group_size + 1):
        p = choose * q**i * (1 - q) ** (group_size - i)
        if p != 0:
            law.append((fmpq(unit * i) / sigma, p))
        choose = choose * (group_size - i) // (i + 1)
    return law


def mixture_side(sensitivities: Sequence[float], probabilities: Sequence[float], noise: float) -> Side:
    """As `MixtureOfGaussians` documents it: probabilities are divided by their sum."""
    total = sum((exact(p) for p in probabilities), fmpq(0))
    return [
        (exact(c) / exact(noise), exact(p) / total) for c, p in zip(sensitivities, probabilities, strict=True) if p > 0
    ]


ZERO: Side = [(fmpq(0), fmpq(1))]


def tail(z: arb) -> arb:
    """P(N(0, 1) > z)."""
    if not z.is_finite():
        return arb(0) if z > 0 else arb(1)
    return (z / arb(2).sqrt()).erfc() / 2


class Truth:
    """One round (a coin of pairs) at a working precision that survives cancellation."""

    def __init__(self, coin: Coin, precision: int = 300) -> None:
        self.coin, self.precision = coin, precision

    def _mass(self, which: int, u: Sequence[arb], above: bool) -> arb:
        total, sign = arb(0), 1 if which == 1 else -1
        for (weight, *sides), at in zip(self.coin, u, strict=True):
            for shift, p in sides[which - 1]:
                z = at - sign * arb(shift)
                total += arb(weight * p) * tail(z if above else -z)
        return total

    def _loss(self, branch: int, u: arb) -> arb:
        _, right, left = self.coin[branch]
        over = sum((arb(p) * (arb(x) * u - arb(x) ** 2 / 2).exp() for x, p in right), arb(0))
        under = sum((arb(p) * (-arb(y) * u - arb(y) ** 2 / 2).exp() for y, p in left), arb(0))
        return over.log() - under.log()

    def threshold(self, branch: int, t: arb) -> tuple[arb, arb]:
        """(u, v): the loss is certainly at most t at u and at least t at v, next to each other."""
        return _change_of_sign(lambda u: self._loss(branch, u) - t)

    def tests(self, t: arb) -> tuple[list[arb], list[arb]]:
        """Thresholds of a certainly larger and a certainly smaller test than {loss > t}."""
        pairs = [self.threshold(branch, t) for branch in range(len(self.coin))]
        return [low for low, _ in pairs], [high for _, high in pairs]

    def rates(self, alpha: fmpq) -> tuple[arb, arb]:
        """(true positive rate, false negative rate) of the best test at level alpha, as balls."""
        with ctx.workprec(self.precision):
            target = arb(alpha)
            if len(self.coin) == 1:
                # Increasing in u.
                low, high = _change_of_sign(
                    lambda u: (
                        target.log() - self._mass(2, [u], True).log()
                        if alpha <= fmpq(1, 2)
                        else self._mass(2, [u], False).log() - (1 - target).log()
                    )
                )
                larger, smaller = [low], [high]
            else:
                low, high = _change_of_sign(
                    lambda t: _hull(*[target.log() - self._mass(2, u, True).log() for u in self.tests(t)])
                )
                larger, smaller = self.tests(low)[0], self.tests(high)[1]
            power = _hull(self._mass(1, larger, True), self._mass(1, smaller, True))
            miss = _hull(self._mass(1, larger, False), self._mass(1, smaller, False))
            return power, miss

    def delta(self, epsilon: arb) -> arb:
        """P(L > eps) - e^eps Q(L > eps)."""
        with ctx.workprec(self.precision):
            larger, smaller = self.tests(epsilon)
            # At any half-line the difference is at most delta, and it is stationary at the right one.
            values = [self._mass(1, u, True) - epsilon.exp() * self._mass(2, u, True) for u in (larger, smaller)]
            outer = self._mass(1, larger, True) - epsilon.exp() * self._mass(2, smaller, True)
            return _hull(*values, outer)


def envelope_rates(truths: Sequence[Truth], alpha: fmpq) -> tuple[arb, arb]:
    """(true positive rate, false negative rate) of the concave envelope of several curves, as balls.

    The smallest, over slopes, of the largest tangent (an upper bound at any slope); from below every curve, and the
    chord between the points of tangency.
    """
    precision = max(truth.precision for truth in truths)
    with ctx.workprec(precision):
        a = arb(alpha)

        def lines(t: arb) -> list[tuple[arb, arb, arb, arb]]:
            found = []
            for truth in truths:
                larger, smaller = truth.tests(t)
                level = _hull(truth._mass(2, larger, True), truth._mass(2, smaller, True))
                power = _hull(truth._mass(1, larger, True), truth._mass(1, smaller, True))
                miss = _hull(truth._mass(1, larger, False), truth._mass(1, smaller, False))
                found.append((power + t.exp() * (a - level), level, power, miss))
            return found

        low, high = arb(-1), arb(1)
        for end, sign in ((high, 1), (low, -1)):
            for _ in range(60):
                top = max(lines(end), key=lambda line: float(line[0].mid()) if line[0].mid() < 1e300 else 1e300)
                if (sign > 0) == bool(top[1].mid() < a):
                    break
                end = end * 2
            low, high = (low, end) if sign > 0 else (end, high)
        for _ in range(60):
            t = ((low + high) / 2).mid()
            found = lines(t)
            top = found[0]
            for line in found[1:]:
                if line[0].mid() > top[0].mid():
                    top = line
            low, high = (t, high) if top[1].mid() > a else (low, t)
        t = ((low + high) / 2).mid()
        found = lines(t)
        upper = max((line[0] for line in found), key=lambda ball: _key(ball))
        floor = min((line[3] + (line[1] - a) * t.exp() for line in found), key=lambda ball: _key(ball))
        powers, misses = zip(*[truth.rates(alpha) for truth in truths], strict=True)
        lower, ceiling = max(powers, key=_key), min(misses, key=_key)
        for _, l1, p1, m1 in found:
            for _, l2, p2, m2 in found:
                if l1 < a and l2 > a:
                    c = (a - l1) / (l2 - l1)
                    lower = max(lower, (1 - c) * p1 + c * p2, key=_key)
                    ceiling = min(ceiling, (1 - c) * m1 + c * m2, key=_key)
        return _hull(lower, upper), _hull(floor, ceiling)


def _key(ball: arb) -> fmpq:
    middle = ball.mid().man_exp()
    numerator, exponent = int(middle[0]), int(middle[1])
    return fmpq(numerator * 2**exponent) if exponent >= 0 else fmpq(numerator, 2**-exponent)


def _hull(*balls: arb) -> arb:
    result = balls[0]
    for ball in balls[1:]:
        result = result.union(ball)
    return result


def _change_of_sign(function: Callable[[arb], arb]) -> tuple[arb, arb]:
    """(u, v), u < v close together, with function(u) <= 0 <= function(v) proved; for an increasing function."""
    low, high = arb(-1), arb(1)
    while not function(high) > 0:
        low, high = high, 2 * high
        if high > arb(10) ** 30:
            return low, arb.pos_inf()
    while not function(low) < 0:
        low, high = 2 * low if low < 0 else arb(-1), low
        if low < -(arb(10) ** 30):
            return arb.neg_inf(), high
    for _ in range(ctx.prec):
        middle = ((low + high) / 2).mid()
        value = function(middle)
        if value > 0:
            high = middle
        elif value < 0:
            low = middle
        else:
            break
        if (high - low) < (abs(middle) + arb(2) ** -200) * arb(2) ** -min(160, ctx.prec // 2):
            break
    return low, high
