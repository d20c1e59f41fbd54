"""Hidden allocations in plain floats: K(c) with its derivatives, and hints for the checker's sums (C-31 to C-35).

Nothing here is proved and nothing has to be. Names as in docs/internals/certificate.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb
from scipy.special import digamma, gammaln, loggamma, polygamma

from groupdp.certificate.checker.lines import LARGEST_ORDER, MOST_NODES, Factor, Hidden
from groupdp.certificate.checker.reading import Undecided
from groupdp.floats import FloatArray, composed

#: Step of log lambda in floats, the least n - w, and the deviations of Z that matter.
_STEP, _SPARE, _WIDE = 0.07, 16.0, 9.0


def tilted(logs: FloatArray, means: FloatArray, variances: FloatArray | float = 0.0) -> tuple[float, float, float]:
    """log of the sum of e^logs, and the mean and variance of a mixture of these weights, means and variances."""
    top = float(logs.max())
    w = np.exp(logs - top)
    total = float(w.sum())
    mean = float((w * means).sum()) / total
    return top + math.log(total), mean, float((w * (variances + (means - mean) ** 2)).sum()) / total


class FloatFactor:
    """E[X^w] of one factor for w from `low` to `high`, by the sum of C-31."""

    def __init__(self, factor: Factor, low: float, high: float) -> None:
        self.places, self.s, self.p = factor.places, float(arb(factor.square).sqrt()), float(arb(factor.taking))
        self.n = max(math.ceil(high + _SPARE), 0)
        if self.n > LARGEST_ORDER:
            raise Undecided("the order of an allocation would be too large")
        s, reach = self.s, max(high, 0.0) * self.s + _WIDE
        most = math.log1p(self.p * math.expm1(min(s * reach, 600.0)))
        least = self.p * (s * s / 2 + (_WIDE + max(-low, 0.0) * s) * s / math.sqrt(self.places))
        self.u = np.arange(math.log(self.n - high) - most - 3.0, math.log(self.n - low) + least + 2.0, _STEP)
        ratio = math.ceil(_STEP / (s * min(0.2, 0.3 / s)))
        z_step = _STEP / (ratio * s)
        j = np.arange(math.floor((-_WIDE - max(-low, 0.0) * s) / z_step), math.ceil(reach / z_step))
        points = ratio * (len(self.u) - 1) + len(j)
        if points * (self.n + 1) > 20_000_000:
            raise Undecided("hints would take too much memory")
        density = np.exp(-((j * z_step) ** 2) / 2) * z_step / math.sqrt(2 * math.pi)
        i = j[0] + np.arange(points)
        log_x = self.u[0] + i * _STEP / ratio - s * s / 2 + math.log(self.p / self.places)
        x, k = np.exp(np.minimum(log_x, 700.0)), np.arange(self.n + 1.0)
        terms = np.exp(np.maximum(k[:, None] * log_x - x - gammaln(k + 1)[:, None], -745.0))
        windows = np.lib.stride_tricks.sliding_window_view(terms, len(j), axis=1)[:, ::ratio]
        power = composed(np.ascontiguousarray((windows @ density).T), self.places, _product)
        rest = np.exp(self.u)[:, None] * (1.0 - self.p)
        if self.p < 1.0:
            poisson = np.exp(np.maximum(k * np.log(rest) - rest - gammaln(k + 1), -745.0))
            last = np.sum(power * poisson[:, ::-1], axis=1)
        else:
            last = power[:, -1]
        with np.errstate(divide="ignore"):
            self.logs = np.log(last) + math.lgamma(self.n + 1) + math.log(_STEP)

    def cumulants(self, w: float) -> tuple[float, float, float]:
        """log E[X^w], its first and second derivative in w."""
        log_total, mean, variance = tilted(self.logs - w * self.u, self.u)
        a = self.n - w
        slope, curvature = -mean + float(digamma(a)), variance - float(polygamma(1, a))
        return log_total - math.lgamma(a), slope, max(curvature, 1e-12)


def _product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Products of polynomials with positive coefficients, one a row, as far as they go."""
    total = np.zeros_like(left)
    for k in range(left.shape[1]):
        total[:, k:] += left[:, k : k + 1] * right[:, : left.shape[1] - k]
    return total


@lru_cache(maxsize=256)
def _factor(factor: Factor, low: float, high: float) -> FloatFactor:
    return FloatFactor(factor, low, high)


class FloatHidden:
    """A coin over products of allocations in floats."""

    def __init__(self, round_: Hidden) -> None:
        self.round = round_
        self.log_p = [float(arb(p).log()) for p, _ in round_.coin]

    def order(self, c: float) -> float:
        """w at z = c."""
        return -c if self.round.reverse else 1.0 + c

    def moment(self, factor: Factor, c: float) -> tuple[float, float, float]:
        """log G of one factor at c, its first and second derivative."""
        square = float(arb(factor.square))
        if factor.is_gaussian:
            return c * (1 + c) * square / 2, (c + 0.5) * square, square
        most = 2.0 ** math.ceil(math.log2(max(c, 4.0)))
        ends = sorted((self.order(0.0), self.order(most)))
        value, slope, curvature = _factor(factor, *ends).cumulants(self.order(c))
        return value, (-slope if self.round.reverse else slope), curvature

    def products(self, c: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """log of the coin's weights at c, means and variances."""
        moments = []
        for log_p, (_, product) in zip(self.log_p, self.round.coin, strict=True):
            parts = [(times, self.moment(factor, c)) for factor, times in product]
            moments.append([sum(times * moment[i] for times, moment in parts) + (log_p, 0, 0)[i] for i in range(3)])
        logs, means, variances = np.array(moments).T
        return logs, means, variances

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """log G, its first and second derivative."""
        return tilted(*self.products(c))

    def decay_at(self, c: float) -> Callable[[float], float]:
        """log of a bound on |G(c + i s') / G(c)| for s' >= s (C-35)."""
        logs, _, _ = self.products(c)
        falls = [
            sum(times * float(arb(factor.square)) / factor.places for factor, times in product if factor.taking == 1)
            for _, product in self.round.coin
        ]
        shares = np.exp(logs - np.logaddexp.reduce(logs))
        return lambda s: math.log(float(shares @ np.exp(np.maximum(-s * s / 2 * np.array(falls), -700.0))))

    def hints(self, c: float, beyond: float, length: float, nats: float) -> dict[str, Any]:
        """The sums of every factor."""
        sums = [self.sums(factor, c, beyond, length, nats) for factor in self.round.factors]
        return {"factors": sums}

    def bits(self, c: float, beyond: float, length: float, nats: float) -> float:
        """Bits that the sums need."""
        orders = [self.start(c, beyond)] if self.round.factors else []
        return max((1.45 * (nats + _growth(n - self.order(c), length)) + 0.7 * n for n in orders), default=0.0)

    def start(self, c: float, beyond: float) -> int:
        """n, such that n - w is large enough at both abscissae."""
        return max(math.ceil(max(self.order(c) + _SPARE, self.order(beyond) + _SPARE / 4)), 0)

    def sums(self, factor: Factor, c: float, beyond: float, length: float, nats: float) -> dict[str, Any]:
        """Steps and ranges such that every error is below e^-nats on the contour, and e^-12 at `beyond`."""
        places, s, p = factor.places, float(arb(factor.square).sqrt()), float(arb(factor.taking))
        n, w, far = self.start(c, beyond), self.order(c), self.order(beyond)
        a = n - w
        needed = nats + _growth(a, length) + 4.0
        beta = np.linspace(0.02, 1.55, 300)
        h = float((2 * math.pi * beta / (needed + 1.0 + length * beta - max(a, n - far) * np.log(np.cos(beta)))).max())
        strips = np.linspace(0.01, 0.99, 200) * min(math.pi / (2 * s), 12.0)
        spent = needed + math.log(places) + strips**2 / 2 - max(a, n - far) * np.log(np.cos(s * strips))
        steps = 2 * math.pi * strips / (spent + 1.0)
        best = int(np.argmax(steps))
        ratio = math.ceil(h / (s * float(steps[best])))
        z_step = h / (ratio * s)
        spare = math.log(places) + 2.0
        if w > 1:
            above = [math.sqrt(2 * (needed + spare + w * math.log(2))), math.sqrt(2 * (12.0 + spare + far))]
            low, high = -max(above), max(w * s + above[0], far * s + above[1])
        else:
            bounds = [-far * -math.log1p(-p)] if p < 1.0 else []
            if places > 1:
                bounds.append(
                    far * math.log1p(-1 / places) - far * p * s * s / 2 + (far * p * s) ** 2 / (places - 1) / 2
                )
            high = math.sqrt(2 * (needed + spare + min(bounds)))
            low = -high
        largest = math.log1p(p * math.expm1(min(s * high - s * s / 2, 600.0))) if s * high > s * s / 2 else 0.0
        first = min(math.log(x) - largest - 1.0 - (own + 4.0) / x for x, own in ((a, needed), (n - far, 12.0)))
        last, power = math.inf, 0.0
        for v in np.geomspace(1.0, 40.0 * (n + 10.0), 60).tolist():
            value = v * p * s * s / 2 + (v * p * s) ** 2 / (2 * places) + needed + 1.0
            ends = [(value + math.lgamma(n + v) - math.lgamma(n - x)) / (x + v) for x in (w, far) if x + v > 0.5]
            if len(ends) == 2 and max(ends) < last:
                last, power = max(ends), v
        nodes = math.floor(first / h), math.ceil(last / h) + 1
        if not math.isfinite(last) or nodes[1] - nodes[0] >= MOST_NODES:
            raise Undecided("the sums of an allocation would be too long")
        places_z = {"low": math.floor(low / z_step) - 1, "high": math.ceil(high / z_step) + 1}
        return {
            "order": n,
            "power": power,
            "step": h,
            "ratio": ratio,
            "first": nodes[0],
            "last": nodes[1],
            **places_z,
            "strip": float(strips[best]),
        }


def _growth(a: float, s: float) -> float:
    """log Gamma(a) / |Gamma(a + i s)|."""
    return float(loggamma(a).real - loggamma(complex(a, s)).real)
