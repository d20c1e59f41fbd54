"""An oracle for coins over products of R(M, s), the pair whose likelihood ratio is a mean of M lognormals.

With X = 1 - p + p (1/M) sum_t L_t, L = e^{sZ - s^2/2}, only G(w) = E[X^w] is needed (participation: remove w = 1 + z,
add w = -z). For n > Re w and nu = n - w

    E[X^w] = (1/Gamma(nu)) int_0^inf lam^(nu - 1) E[X^n e^{-lam X}] d lam,

and E[X^n e^{-lam X}] is n! times a Taylor coefficient of e^{-lam (1 - p)} phi(lam p)^M, phi(lam) = E e^{-lam L / M}.
lam runs along the ray through the saddle point, Z along the line through i theta / s, theta the angle of the ray.
Double precision, trapezoid rules, no error bounds: `epsilon` computes every value on two contours and raises
`Disagreement` unless they agree. It shares nothing with the package.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, lru_cache, partial

import numpy as np

from oracle.contour import Disagreement

#: (M, s, p), how often it stands in the product.
Factor = tuple[int, float, float]
Product = Sequence[tuple[Factor, int]]
#: (weight, product): a public coin.
Coin = Sequence[tuple[float, Product]]


def log_moment(factor: Factor, w: complex) -> complex:
    """log E[X^w], on some branch of the logarithm."""
    places, s, p = factor
    if places == 1 and p == 1.0:
        return w * (w - 1) * s * s / 2
    n = max(math.ceil(w.real + 8.0), 0)
    nu = n - w
    # lam^nu e^{-lam} has its saddle at lam = nu. Its angle is rounded, and the range, so that many w share a series: an
    # angle off by d costs a factor of about e^{|nu| d^2 / 2} in cancellation.
    angle = 0.8 / math.sqrt(abs(nu) + 1.0)
    exponent = math.floor(math.log2(angle))
    theta = round(cmath.phase(nu.conjugate()) / 2.0**exponent) * 2.0**exponent
    centre = float(math.floor(math.log(abs(nu))))
    width = max(14.0 / math.sqrt(math.exp(centre)), 4.0 * s, 1.0) + 7.0 + 1.2 * s
    largest = s * (max(w.real, 0.0) * s + 9.0)  # of log X, where the integrand of small lam lies
    start = math.floor(centre - 40.0 / nu.real - max(largest, 8.0))
    step = 0.05 if abs(nu) < 15.0 else 0.02 if abs(nu) < 60.0 else 0.01
    log_lam, log_series = _series(start, centre + width + 8.0 * s * s, step, n, factor, theta)
    terms = nu * (log_lam - 1j * theta) + log_series
    top = terms.real.max()
    return top + cmath.log(np.sum(np.exp(terms - top)) * step) - _log_gamma(nu)


@lru_cache(maxsize=64)
def _series(
    start: float, end: float, step: float, n: int, factor: Factor, theta: float
) -> tuple[np.ndarray, np.ndarray]:
    log_lam = np.arange(start, end, step)
    return log_lam, _log_coefficient(log_lam, n, factor, theta)


def _log_coefficient(log_lam: np.ndarray, n: int, factor: Factor, theta: float) -> np.ndarray:
    """log E[X^n e^{-lam X}] at lam = e^{log_lam - i theta}, by Miller's recurrence for powers of a series.

    On the line Z + i theta / s the product lam L is real: L = e^{i theta} e^{sZ - s^2/2}, up to the weight of Z.
    """
    places, s, p = factor
    z = np.arange(-14.0 - abs(theta) / s, 14.0 + (n + 2) * s + abs(theta) / s, 0.06)
    size = p / places * np.exp(s * z - s * s / 2)
    log_weight = -((z + 1j * theta / s) ** 2) / 2 + math.log(0.06 / math.sqrt(2 * math.pi))
    decay = np.exp(-np.outer(np.exp(log_lam), size))
    scale = max(n, 1)
    # Column j: weights of E[(scale p L / M)^j e^{-lam L}] / j!.
    j = np.arange(n + 1)
    log_value = np.log(scale * size) + 1j * theta
    columns = log_weight[:, None] + log_value[:, None] * j - np.array([math.lgamma(i + 1) for i in range(n + 1)])
    if columns.real.max() > 700.0:
        raise Disagreement("a moment of the places is beyond the range of doubles")
    columns = np.exp(columns)
    sums = decay @ columns.real + 1j * (decay @ columns.imag)
    a0 = sums[:, 0]
    kept = np.abs(a0) > 1e-290
    moments = list((sums[kept, 1:] / a0[kept, None]).T)
    power = [np.ones(int(kept.sum()), dtype=complex)]
    with np.errstate(over="ignore", invalid="ignore"):
        for j in range(1, n + 1):
            parts = [(c * (places + 1) - j) * moments[c - 1] * power[j - c] for c in range(1, j + 1)]
            power.append(np.sum(parts, axis=0) / j)
    rest = scale * (1.0 - p)
    logs = [(n - j) * math.log(rest) - math.lgamma(n - j + 1) if rest > 0 else -math.inf for j in range(n)] + [0.0]
    total = sum(one * math.exp(log) for one, log in zip(power, logs, strict=True) if log > -math.inf)
    if not np.all(np.isfinite(total)):
        raise Disagreement("a coefficient is beyond the range of doubles")
    result = np.full(len(log_lam), -np.inf, dtype=complex)
    lam = np.exp(log_lam[kept] - 1j * theta)
    with np.errstate(divide="ignore"):
        result[kept] = places * np.log(a0[kept]) + np.log(total) - lam * (1.0 - p)
    return result + math.lgamma(n + 1) - n * math.log(scale)


def _log_gamma(z: complex) -> complex:
    """Stirling's series after raising the argument."""
    shift = 0j
    while z.real < 15:
        shift -= cmath.log(z)
        z += 1
    series = 1 / (12 * z) - 1 / (360 * z**3) + 1 / (1260 * z**5) - 1 / (1680 * z**7)
    return shift + (z - 0.5) * cmath.log(z) - z + 0.5 * math.log(2 * math.pi) + series


class Composed:
    """(coin, how many times, whether P and Q are exchanged): K(z) = sum T log sum_b w_b prod G(w)."""

    def __init__(self, rounds: Sequence[tuple[Coin, int, bool]]) -> None:
        self.rounds = rounds
        self._moment = cache(log_moment)

    def transform(self, z: complex) -> complex:
        """e^{K(z)} as a logarithm (some branch)."""
        total = 0j
        for coin, times, reverse in self.rounds:
            w = -z if reverse else 1 + z
            logs = [
                math.log(weight) + sum(count * self._moment(factor, w) for factor, count in product)
                for weight, product in coin
            ]
            top = max(one.real for one in logs)
            total += times * (top + cmath.log(sum(cmath.exp(one - top) for one in logs)))
        return total

    def real(self, c: float) -> float:
        return self.transform(complex(c)).real

    def chernoff(self, c: float, log_delta: float) -> float:
        return (self.real(c) + c * math.log(c) - (1 + c) * math.log1p(c) - log_delta) / c

    def sampled(self, c: float, step: float, drop: float = 32.0) -> list[complex]:
        """K at c + i j step, until it has fallen by `drop`."""
        values = [self.transform(complex(c))]
        while values[-1].real > values[0].real - drop - math.log(max(len(values) * step / c, 1.0)):
            values.append(self.transform(complex(c, step * len(values))))
            if len(values) > 4000:
                raise Disagreement("the contour does not end")
        return values


def epsilon(rounds: Sequence[tuple[Coin, int, bool]], *, delta: float, digits: int = 8) -> float:
    """The smallest epsilon >= 0 with delta(epsilon) <= delta, of two contours that agree."""
    composed = Composed(rounds)
    target = math.log(delta)
    best, guess = 0.1, composed.chernoff(0.1, target)
    while (further := composed.chernoff(1.2 * best, target)) < guess:
        best, guess = 1.2 * best, further
    answers = []
    for c, parts in ((best, 1.0), (1.17 * best, 1.31)):
        # Aliases at epsilon - Y and epsilon + Y (Chernoff at 1.3 c) are below e^-28 of delta.
        beyond = composed.real(1.3 * c) - composed.real(c) - 0.3 * c * guess
        step = 2 * math.pi / (parts * (max(28.0 / c - target / c, (28.0 + beyond) / (0.3 * c))))
        values = composed.sampled(c, step)
        if max(value.real for value in values) > values[0].real + 1e-6 or math.isnan(values[0].real):
            raise Disagreement("a characteristic function is above 1")
        answers.append(_solve(partial(_log_delta, values, c, step), target, guess))
    first, second = answers
    if abs(first - second) > 10.0**-digits * max(1.0, first):
        raise Disagreement(f"{first} and {second}")
    return first


def _log_delta(values: list[complex], c: float, step: float, eps: float) -> float:
    top = values[0].real - c * eps
    total = 0.0
    for j, value in enumerate(values):
        z = complex(c, j * step)
        term = cmath.exp(value - eps * z - top) / (z * (z + 1))
        total += (1.0 if j else 0.5) * term.real
    return top + math.log(total * step / math.pi) if total > 0 else -math.inf


def _solve(function: Callable[[float], float], target: float, guess: float) -> float:
    low, high = 0.0, guess + 1e-9
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > target else (low, middle)
    return high


def thrown(group_size: int, batches: int, sigma: float, *, ceil: bool = True) -> Coin:
    """Theorem B's coin: ordered non-zero counts, blocks of floor and ceil of N / m (the first ones larger)."""
    k, total = group_size, batches
    coin: dict[tuple[tuple[Factor, int], ...], Fraction] = {}

    def visit(counts: tuple[int, ...]) -> None:
        rest = k - sum(counts)
        if rest == 0:
            m = len(counts)
            size, larger = divmod(total, m)
            ways = Fraction(math.perm(total, m), total**k) * math.factorial(k)
            for c in counts:
                ways /= math.factorial(c)
            ways /= math.factorial(m)
            sizes: dict[Factor, int] = {}
            for j, c in enumerate(counts):
                factor = (size + (1 if ceil and j < larger else 0), c / sigma, 1.0)
                sizes[factor] = sizes.get(factor, 0) + 1
            key = tuple(sorted(sizes.items()))
            coin[key] = coin.get(key, Fraction(0)) + ways
            return
        if len(counts) < total:
            for c in range(1, rest + 1):
                visit((*counts, c))

    visit(())
    return [(float(weight), product) for product, weight in coin.items()]


def spread(group_size: int, batches: int, sigma: float) -> Coin:
    """Theorem S: all counts are 1."""
    size, larger = divmod(batches, group_size)
    product = [((size, 1 / sigma, 1.0), group_size - larger), ((size + 1, 1 / sigma, 1.0), larger)]
    return [(1.0, [one for one in product if one[1]])]
