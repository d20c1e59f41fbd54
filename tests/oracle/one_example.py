"""The curve of one Poisson-sampled example in doubles: a second oracle, for searches that need hundreds of values.

    delta(eps) = 1/pi Re int_0^inf e^{T log G(c + is) - eps (c + is)} / (z (z + 1)) ds,      G(z) = E_P[e^{zL}]

It shares nothing with the package. Balls are too slow for a search; doubles give about ten digits, which
test_one_example.py compares with the ball arithmetic of contour.py. Errors are estimated, not enclosed.

1. G is a trapezoidal sum over u, of   a (e^{zL} - 1 - zL) + z (a L - a + b)   where G is next to 1 (a, b the densities
   of P and Q over that of N(0, 1)), so that a million rounds lose no digits.
2. Rounds that hardly ever sample the example leave a part of G^T that does not decay on the vertical line. Its losses
   are small: at a height where all others have decayed, the contour turns to the right, along which e^{-eps z} decays,
   and goes on with the small losses alone.
"""

from __future__ import annotations

import math

import numpy as np

LEGENDRE = np.polynomial.legendre.leggauss(16)
#: The contour declines rather than take longer than this (products of nodes in u and in z).
MOST_PRODUCTS = 5e6
#: What is left out, relative to the integrand at the saddle point.
_SMALL = 1e-13
#: An integral that is this much smaller than its integrand has lost its digits.
_CANCELLED = 1e-5
#: The slope of the contour after its turn.
_TURN = 0.2
#: Where losses begin to be large.
_LARGE = 1.0


class Declined(Exception):
    """The contour would be too long."""


class OneExample:
    """log delta of T rounds, each of which samples the example with probability q; sigma is the noise multiplier."""

    def __init__(self, rate: float, sigma: float, steps: int, direction: str) -> None:
        self.q, self.m, self.steps, self.removes = rate, 1.0 / sigma, steps, direction == "remove"
        self.largest_loss = math.inf if self.removes else -steps * math.log1p(-rate)
        self.products, self.absolute = 0, 0.0

    def log_delta(self, epsilon: float) -> float:
        if epsilon >= self.largest_loss:
            return -math.inf
        if self.steps == 1:
            return self._one_round(epsilon)
        self.products, self.absolute = 0, 0.0
        c = self._saddle(epsilon)
        scale = self._cgf(np.array([c]))[0].real - c * epsilon
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            total = self._integral(epsilon, c, scale)
        if not total > _CANCELLED * self.absolute:
            raise Declined("the saddle point is far above the integral: one large loss decides")
        return scale + math.log(total / math.pi)

    def _one_round(self, epsilon: float) -> float:
        """P(u > u_eps) - e^eps Q(u > u_eps), or of u < u_eps where P is N(0, 1)."""
        from mpmath import mp, mpf

        with mp.workdps(60):
            q, m = mpf(self.q), 1 / mpf(1 / self.m)
            ratio = mp.exp(epsilon if self.removes else -mpf(epsilon))
            if ratio <= 1 - q:
                return -math.inf
            u = (mp.log((ratio - 1 + q) / q) + m * m / 2) / m
            if self.removes:
                mixture, plain = (1 - q) * mp.ncdf(-u) + q * mp.ncdf(m - u), mp.ncdf(-u)
                return float(mp.log(mixture - mp.exp(epsilon) * plain))
            mixture, plain = (1 - q) * mp.ncdf(u) + q * mp.ncdf(u - m), mp.ncdf(u)
            return float(mp.log(plain - mp.exp(epsilon) * mixture))

    def _psi(self, u: np.ndarray) -> np.ndarray:
        """log(1 - q + q e^{mu - m^2/2})."""
        t = self.m * u - 0.5 * self.m * self.m
        return np.where(
            t < 20.0,
            np.log1p(self.q * np.expm1(np.minimum(t, 20.0))),
            np.logaddexp(math.log1p(-self.q) if self.q < 1.0 else -math.inf, math.log(self.q) + t),
        )

    def _grid(self, c: float, height: float) -> tuple[np.ndarray, float]:
        """Nodes in u that serve every z with Re z = c and |Im z| up to the height."""
        rough = np.linspace(-60.0, 60.0 + self.m * (1.0 + c) * 1.2, 4001)
        psi = self._psi(rough)
        size = -0.5 * rough * rough + ((1.0 + c) * psi if self.removes else -c * psi)
        both = np.maximum(size - size.max(), -0.5 * rough * rough + (psi if self.removes else 0.0))
        kept = rough[both > -50.0]
        d = min(1.5 / self.m, 6.0 / math.sqrt(1.0 + c * self.m**2 / 3.0))
        h = 2.0 * math.pi * d / (45.0 + 0.5 * d * d + c * (self.m * d) ** 2 / 6.0 + height * self.m * d)
        low, high = math.floor(kept[0] / h), math.ceil(kept[-1] / h)
        return h * np.arange(low, high + 1), h

    def _cgf(self, z: np.ndarray, cut: tuple[float, float] | None = None) -> np.ndarray:
        """T log G(z); of the small losses alone with a cut (u_0, width)."""
        c, height = float(z.real.max()), float(np.abs(z.imag).max())
        u, h = self._grid(c, height)
        if cut is not None:  # nothing is left beyond
            u = u[: np.searchsorted(u, max(cut[0], 9.0) + 40.0 * cut[1])]
        self.products += len(u) * len(z)
        if self.products > MOST_PRODUCTS:
            raise Declined("the contour is too long")
        psi = self._psi(u)
        loss = psi if self.removes else -psi
        log_a = psi if self.removes else np.zeros_like(psi)
        log_weight = -0.5 * u * u - 0.5 * math.log(2.0 * math.pi) + math.log(h) + log_a
        away = 0.0
        if cut is not None:
            uncut, log_weight = np.exp(log_weight), log_weight + _log_normal_tail((u - cut[0]) / cut[1])
            away = math.fsum(uncut - np.exp(log_weight))
        weight = np.exp(np.minimum(log_weight, 700.0))
        top = float(np.max(log_weight + c * loss))
        result = np.empty(len(z), dtype=complex)
        rows = max(1, 1_500_000 // len(u))
        # a L - a + b over a, where the density of P is a
        ratio = np.expm1(np.minimum(-loss, 700.0))
        for start in range(0, len(z), rows):
            part = z[start : start + rows]
            power = part[:, None] * loss[None, :]
            if top > 100.0 and cut is None:
                sums = np.exp(log_weight + power - top).sum(axis=1)
                result[start : start + rows] = self.steps * (top + np.log(sums))
                continue
            # Where e^{zL} is large it may be so together with the density alone.
            near = power.real < 1.0
            grown = np.exp(np.where(near, -800.0, log_weight + power))
            bounded = np.where(near, power, 0.0)
            if cut is None:
                terms = ((np.expm1(bounded) - power) * weight + np.where(near, 0.0, grown - weight)).sum(axis=1)
                terms += part * float(weight @ (loss + ratio))
            else:  # 1 - (mass that is cut away) + E[w (e^{zL} - 1)]
                terms = (np.expm1(bounded) * weight + np.where(near, 0.0, grown - weight)).sum(axis=1) - away
            result[start : start + rows] = self.steps * _log1p(terms)
        return result

    def _slope(self, c: float) -> tuple[float, float]:
        """K'(c) and K''(c)."""
        u, _ = self._grid(c, 0.0)
        psi = self._psi(u)
        loss = psi if self.removes else -psi
        log_size = -0.5 * u * u + (psi if self.removes else 0.0) + c * loss
        weight = np.exp(log_size - log_size.max())
        weight /= weight.sum()
        # The mean cancels where losses are tiny; a saddle point need not be exact.
        mean = float(weight @ loss)
        return self.steps * mean, self.steps * float(weight @ (loss - mean) ** 2)

    def _saddle(self, epsilon: float) -> float:
        low, high = 1e-8, 1e8
        for _ in range(60):
            c = math.sqrt(low * high)
            low, high = (c, high) if self._slope(c)[0] - 1.0 / c - 1.0 / (1.0 + c) < epsilon else (low, c)
            if high < low * 1.0001:
                break
        return math.sqrt(low * high)

    def _integral(self, epsilon: float, c: float, scale: float) -> float:
        """int_0^inf of the real part, over e^scale."""

        def integrand(z: np.ndarray, cut: tuple[float, float] | None = None) -> np.ndarray:
            return np.exp(self._cgf(z, cut) - epsilon * z - scale) / (z * (z + 1.0))

        first = 1.0 / (c * (1.0 + c))
        curvature = self._slope(c)[1] + 1.0 / c**2 + 1.0 / (1.0 + c) ** 2
        width = 1.0 / math.sqrt(curvature)
        cut = self._cut() if self.removes else None
        total, height, length = 0.0, 0.0, width
        while True:
            ends = height + length * np.arange(9)
            s, weights = _panels(ends)
            values = integrand(c + 1j * s)
            total += float(weights @ values.real)
            self.absolute += float(weights @ np.abs(values))
            height = float(ends[-1])
            small_enough = _SMALL * first * width / height
            if np.abs(values[-32:]).max() < small_enough and self._most_beyond(c, height, None) < small_enough:
                return total
            # a panel of 16 nodes holds about four oscillations of e^{-i s eps}
            length = min(1.5 * length, 20.0 / (epsilon + 1e-300), 0.3 * abs(complex(c, height)))
            if height > 12.0 * width:
                at = np.array([complex(c, height)])
                whole, small = integrand(at)[0], integrand(at, cut)[0]
                if abs(whole - small) < small_enough and self._most_beyond(c, height, cut) < small_enough:
                    break
        # Turned to the right by so little that what decays on a vertical line decays here too.
        turn = complex(_TURN, 1.0) / abs(complex(_TURN, 1.0))
        length, start = min(1.0 / (epsilon + 1e-300), 0.3 * height), 0.0
        while True:
            r, weights = _panels(start + length * np.arange(5))
            values = integrand(complex(c, height) + turn * r, cut)
            total += float(weights @ (values * turn / 1j).real)
            start += 4.0 * length
            if not np.isfinite(values).all():
                raise Declined("the small losses cannot be separated")
            if np.abs(values[-16:]).max() * max(start, length) < _SMALL * first * width:
                return total
            length = min(1.5 * length, 4.0 / (epsilon + 1e-300), 0.3 * (height + start))

    def _most_beyond(self, c: float, height: float, without: tuple[float, float] | None) -> float:
        """About the most that the integrand may be beyond the height, over e^scale: less the small losses or with them.

        Losses that are nearly multiples of one number interfere: the composed integrand may be 0 at one height and
        large at the next. One round's large losses do not: (p + |m|)^T - p^T, p the share of the small losses and m
        the rest's part of G, falls with the height.
        """
        if not self.removes:
            return 0.0
        cut = self._cut()
        at = np.array([complex(c, 0.0), complex(c, height), complex(c, 1.2 * height)])
        whole, small = self._cgf(at) / self.steps, self._cgf(at, cut) / self.steps
        shares = np.exp(small - whole[0].real)
        # What doubles do not resolve in one round is not waited for.
        others = max(float(np.abs(np.exp(whole - whole[0].real) - shares)[1:].max()) - 1e-15, 0.0)
        p = float(shares[0].real) if without is not None else float(np.abs(shares[1:]).max())
        size = min(p + others, 1.0) ** self.steps
        if without is not None and p > 0.0:
            size = p**self.steps * math.expm1(min(self.steps * math.log1p(others / p), 700.0))
        return size / abs(at[1] * (at[1] + 1.0))

    def _cut(self) -> tuple[float, float]:
        """The outcome whose loss is large, and over how wide a distance they are faded out."""
        at = (math.log(max((math.expm1(_LARGE) + self.q) / self.q, 1.0 + 1e-9)) + 0.5 * self.m**2) / self.m
        return at, 0.25


def _panels(ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, w = LEGENDRE
    middle, half = 0.5 * (ends[1:] + ends[:-1]), 0.5 * np.diff(ends)
    return (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()


def _log1p(x: np.ndarray) -> np.ndarray:
    """log(1 + x), without loss next to 0 (NumPy's complex log1p loses digits)."""
    real = 0.5 * np.log1p(x.real * (2.0 + x.real) + x.imag * x.imag)
    return real + 1j * np.arctan2(x.imag, 1.0 + x.real)


def _log_normal_tail(x: np.ndarray) -> np.ndarray:
    """log Phi(-x)."""
    values = np.where(x < 5.0, np.log(np.array([0.5 * math.erfc(min(v, 5.0) / math.sqrt(2.0)) for v in x])), 0.0)
    far = x >= 5.0
    if far.any():
        y = x[far]
        values[far] = (
            -0.5 * y * y
            - 0.5 * math.log(2.0 * math.pi)
            - np.log(y)
            + np.log1p(-1 / y**2 + 3 / y**4 - 15 / y**6 + 105 / y**8)
        )
    return values
