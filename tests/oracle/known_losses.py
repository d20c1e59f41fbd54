"""delta of Gaussian, Laplace and discrete Gaussian releases and black boxes, composed, to 30 digits (mpmath).

    delta(eps) = sum_i p_i delta'(eps - l_i)

for the sums of all losses that are atoms, with delta' in closed form (a Gaussian, a Laplace mechanism, nothing), or an
integral over one Laplace mechanism's losses. Shares nothing with groupdp.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from mpmath import mp, mpf

Curve = Callable[[mpf], mpf]
#: (P-mass, Q-mass) of outcomes.
Atoms = list[tuple[mpf, mpf]]


def black_box(epsilon: float, delta: float = 0.0) -> Atoms:
    """The pair of Kairouz, Oh and Viswanath (2015)."""
    e, d = mp.exp(mpf(epsilon)), mpf(delta)
    rest = (1 - d) / (1 + e)
    return [(d, mpf(0)), (rest * e, rest), (rest, rest * e), (mpf(0), d)]


def group_of_black_boxes(epsilon: float, delta: float, size: int) -> tuple[mpf, mpf]:
    """(k epsilon, delta (1 + e^epsilon + ... ))."""
    e = mp.exp(mpf(epsilon))
    return size * mpf(epsilon), min(mpf(delta) * sum(e**i for i in range(size)), mpf(1))


def discrete_gaussian(sigma: float, moved: int) -> Atoms:
    """Whole numbers within 16 sigma of either centre: beyond are 1e-55 of both laws."""
    reach, double = int(16 * sigma) + 2, 2 * mpf(sigma) ** 2
    total = sum(mp.exp(-(mpf(y) ** 2) / double) for y in range(-reach, reach + 1))
    return [
        (mp.exp(-(mpf(y - moved) ** 2) / double) / total, mp.exp(-(mpf(y) ** 2) / double) / total)
        for y in range(-reach, moved + reach + 1)
    ]


def composed(laws: Iterable[Atoms]) -> Atoms:
    """All outcomes of all laws together; equal ratios merged, and outcomes of less than 1e-40 left out."""
    result: Atoms = [(mpf(1), mpf(1))]
    for law in laws:
        merged: dict[tuple[int, int] | str, tuple[mpf, mpf]] = {}
        for (p, q), (a, b) in itertools.product(result, law):
            x, y = p * a, q * b
            if max(x, y) < mpf(10) ** -40:
                continue
            if x == 0 or y == 0:
                key: tuple[int, int] | str = "P" if y == 0 else "Q"
            else:
                key = (int(mp.nint(mp.log(x / y) * mpf(10) ** 25)), 0)
            before = merged.get(key, (mpf(0), mpf(0)))
            merged[key] = (before[0] + x, before[1] + y)
        result = list(merged.values())
    return result


def nothing(epsilon: mpf) -> mpf:
    return max(1 - mp.exp(epsilon), mpf(0))


def gaussian(mu: float) -> Curve:
    m = mpf(mu)
    return lambda epsilon: mp.ncdf(m / 2 - epsilon / m) - mp.exp(epsilon) * mp.ncdf(-m / 2 - epsilon / m)


def laplace(shift: float) -> Curve:
    x = mpf(shift)

    def curve(epsilon: mpf) -> mpf:
        if epsilon >= x:
            return mpf(0)
        return 1 - mp.exp(epsilon) if epsilon <= -x else 1 - mp.exp((epsilon - x) / 2)

    return curve


def with_laplace(rest: Curve, shift: float, kinks: Sequence[float] = ()) -> Curve:
    """The curve of `rest` and one Laplace mechanism; `rest` is smooth but at `kinks`."""
    x = mpf(shift)

    def curve(epsilon: mpf) -> mpf:
        inner = sorted({-x, x, *(epsilon - kink for kink in kinks if abs(epsilon - kink) < x)})
        between = mp.quad(lambda loss: mp.exp((loss - x) / 2) / 4 * rest(epsilon - loss), inner)
        return rest(epsilon - x) / 2 + mp.exp(-x) / 2 * rest(epsilon + x) + between

    return curve


def delta(epsilon: float, *, laws: Iterable[Atoms] = (), mu: float = 0.0, shifts: Sequence[float] = ()) -> mpf:
    """delta(epsilon) of laws of atoms, one Gaussian, and up to two Laplace mechanisms."""
    curve: Curve = gaussian(mu) if mu else nothing
    left = list(shifts)
    kinks: tuple[float, ...] = ()
    if left and not mu:
        first = left.pop()
        curve, kinks = laplace(first), (-first, first)
    for shift in left:
        curve, kinks = with_laplace(curve, shift, kinks), ()
    total = mpf(0)
    for p, q in composed(laws):
        if q == 0:
            total += p
        elif p > 0:
            total += p * curve(mpf(epsilon) - mp.log(p / q))
    return total
