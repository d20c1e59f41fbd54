"""The law of the privacy loss of one Poisson-sampled example, by convolving densities: an oracle for rare sampling.

With W = Psi - log(1 - q) >= 0, Psi = log(1 - q + q e^{mu - m^2/2}), u ~ N(0, 1), m = 1 / sigma, and S = W_1 + .. + W_T
of density g, both directions are integrals of positive functions:

    remove:  delta = e^eps int_{s > s0} g(s) (e^{s - s0} - 1) ds,    s0 = eps - T log(1 - q)
    add:     delta =       int_{s < s1} g(s) (1 - e^{s - s1}) ds,    s1 = -eps - T log(1 - q)

so nothing cancels, however small delta is and however seldom the example is sampled. log g is interpolated in y = log s
by Chebyshev polynomials on panels that are split until their last coefficients vanish; T is reached by doubling. After
every convolution the law is corrected by e^{a + b s} so that its mass and E[e^{S + T log(1 - q)}] are 1. Errors are
estimated, not enclosed: about nine digits. It shares nothing with the package.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from oracle.one_example import Declined

NODES = 14
X, WEIGHTS = np.polynomial.legendre.leggauss(12)
CHEBYSHEV = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
FIT = np.cos(np.outer(np.arange(NODES), np.arccos(CHEBYSHEV))) * (2.0 / NODES)
FIT[0] *= 0.5
#: Densities are followed until they are e^-160 of their largest value.
_DEEP = 160.0
_SPLIT_AT = 2e-10
#: A panel on which the density varies by more than e^4 is split.
_STEEP = 4.0


class Negligible(Declined):
    """log delta is below -100: the threshold is beyond the densities that are followed."""


class Law:
    """log of the density of log S: h(y) = g(e^y) e^y, on panels between `edges`."""

    def __init__(self, edges: np.ndarray, coefficients: np.ndarray) -> None:
        self.edges, self.coefficients = edges, coefficients
        self.tilt = (0.0, 0.0)

    def __call__(self, y: np.ndarray) -> np.ndarray:
        panel = np.clip(np.searchsorted(self.edges, y, side="right") - 1, 0, len(self.edges) - 2)
        left, right = self.edges[panel], self.edges[panel + 1]
        x = np.clip((2.0 * y - left - right) / (right - left), -1.0, 1.0)
        c = self.coefficients[panel]
        later, last = np.zeros_like(x), np.zeros_like(x)
        for i in range(NODES - 1, 0, -1):
            later, last = c[..., i] + 2.0 * x * later - last, later
        value = c[..., 0] + x * later - last + self.tilt[0] + self.tilt[1] * np.exp(y)
        return np.where((y < self.edges[0]) | (y > self.edges[-1]), -np.inf, value)


def _fitted(function: Callable[[np.ndarray], np.ndarray], edges: list[float]) -> Law:
    """`function` on panels that are split until they are resolved."""
    todo, done = list(itertools.pairwise(edges)), []
    top = -math.inf
    while todo:
        left, right = todo.pop()
        values = function(0.5 * (left + right) + 0.5 * (right - left) * CHEBYSHEV)
        if not np.isfinite(values).all():
            raise Declined("the density leaves the range of doubles")
        top = max(top, float(values.max()))
        c = FIT @ values
        rough = np.abs(c[-3:]).max()
        unresolved = rough > _SPLIT_AT * max(1.0, 1e-3 * np.abs(values).max()) and values.max() > top - _DEEP
        # A log density that a polynomial resolves may still be too steep for 12 nodes to integrate its exponential.
        steep = np.ptp(values) > _STEEP and values.max() > top - 60.0
        if (unresolved or steep) and right - left > 1e-9:
            middle = 0.5 * (left + right)
            todo += [(left, middle), (middle, right)]
        else:
            done.append((left, right, c))
    done.sort(key=lambda panel: panel[0])
    return Law(np.array([panel[0] for panel in done] + [done[-1][1]]), np.array([panel[2] for panel in done]))


def _log_sum(log_terms: np.ndarray) -> float:
    top = float(log_terms.max())
    return top + math.log(math.fsum(np.exp(log_terms - top))) if top > -math.inf else -math.inf


def _nodes(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    half = 0.5 * np.diff(edges)[:, None]
    return (0.5 * (edges[1:] + edges[:-1])[:, None] + half * X).ravel(), np.log(half * WEIGHTS).ravel()


def _half(f: Law, g: Law, y: np.ndarray) -> np.ndarray:
    """log of s int_0^{s/2} f(a) g(s - a) da, with s = e^y."""
    end = (y - math.log(2.0))[:, None]
    rest = np.minimum(np.maximum(g.edges, end), y[:, None] - 1e-12)
    mapped = np.clip(y[:, None] + np.log(-np.expm1(rest - y[:, None])), f.edges[0], end)
    edges = np.sort(np.concatenate([np.minimum(f.edges, end), mapped, end], axis=1), axis=1)
    row = np.broadcast_to(np.arange(len(y))[:, None], edges[:, 1:].shape)

    def terms(x: np.ndarray, whole: np.ndarray) -> np.ndarray:
        remainder = whole + np.log1p(-np.exp(x - whole))
        return f(x) + g(remainder) + whole - remainder

    at = terms(np.concatenate([edges, 0.5 * (edges[:, 1:] + edges[:, :-1])], axis=1), y[:, None])
    ends, middles = at[:, : edges.shape[1]], at[:, edges.shape[1] :]
    size = np.maximum(np.maximum(ends[:, 1:], ends[:, :-1]), middles)
    kept = (size > size.max(axis=1, keepdims=True) - 60.0) & (np.diff(edges, axis=1) > 0.0)
    kept[:, 1:] |= kept[:, :-1] & (np.diff(edges, axis=1)[:, 1:] > 0.0)
    kept[:, :-1] |= kept[:, 1:] & (np.diff(edges, axis=1)[:, :-1] > 0.0)
    left, right, row = edges[:, :-1][kept][:, None], edges[:, 1:][kept][:, None], row[kept]
    half = 0.5 * (right - left)
    values = terms(0.5 * (left + right) + half * X, y[row][:, None]) + np.log(half * WEIGHTS)
    top = np.full(len(y), -np.inf)
    np.maximum.at(top, row, values.max(axis=1))
    safe = np.where(np.isfinite(top), top, 0.0)
    sums = np.bincount(row, weights=np.exp(values - safe[row][:, None]).sum(axis=1), minlength=len(y))
    with np.errstate(divide="ignore"):
        return safe + np.log(sums)


def _convolved(f: Law, g: Law, log_least: float) -> Law:
    """The law of the sum; `log_least` is T log(1 - q) of the T rounds it then has."""

    def density(y: np.ndarray) -> np.ndarray:
        return math.log(2.0) + _half(f, f, y) if f is g else np.logaddexp(_half(f, g, y), _half(g, f, y))

    # The ends: what is reached from the ends of both, cut where the density is negligible.
    low = math.log(math.exp(f.edges[0]) + math.exp(g.edges[0]))
    high = math.log(math.exp(f.edges[-1]) + math.exp(g.edges[-1]))
    scan = np.linspace(low + 1e-6, high - 1e-6, 200)
    values = density(scan)
    deep = np.flatnonzero(values > values.max() - _DEEP)
    first, last = max(deep[0] - 1, 0), min(deep[-1] + 1, len(scan) - 1)
    while not math.isfinite(values[first]):
        first += 1
    while not math.isfinite(values[last]):
        last -= 1
    edges = np.linspace(scan[first], scan[last], 9)
    law = _fitted(density, list(edges))
    return _corrected(law, log_least)


def _corrected(law: Law, log_least: float) -> Law:
    """The law times e^{a + b s}: its mass and the mean of the likelihood ratio are 1."""
    y, log_weights = _nodes(law.edges)
    s = np.exp(y)
    base = law(y) + log_weights
    for _ in range(3):
        now = base + law.tilt[0] + law.tilt[1] * s
        mass, ratio = _log_sum(now), _log_sum(now + s + log_least)
        weight = np.exp(now - mass)
        mean, tilted = float(weight @ s), float(np.exp(now + s + log_least - ratio) @ s)
        slope = -(ratio - mass) / (tilted - mean)
        law.tilt = (law.tilt[0] - mass - slope * mean, law.tilt[1] + slope)
    return law


class OneExampleLaw:
    """log delta of T rounds, each of which samples the example with probability q; sigma is the noise multiplier."""

    def __init__(self, rate: float, sigma: float, steps: int) -> None:
        self.q, self.m, self.steps = rate, 1.0 / sigma, steps
        self.log_least = math.log1p(-rate)
        power, self.law, count, reached = self._one_round(), None, 1, 0
        while True:
            if steps & count:
                reached += count
                self.law = power if self.law is None else _convolved(self.law, power, reached * self.log_least)
            if 2 * count > steps:
                break
            count *= 2
            power = _convolved(power, power, count * self.log_least)

    def _one_round(self) -> Law:
        m, log_ratio = self.m, math.log(self.q) - self.log_least

        def density(y: np.ndarray) -> np.ndarray:
            w = np.exp(y)
            log_expm1 = np.where(w > 30.0, w, np.log(np.expm1(np.minimum(w, 30.0))))
            u = (log_expm1 - log_ratio) / m + 0.5 * m
            return -0.5 * u * u - 0.5 * math.log(2.0 * math.pi) + w - log_expm1 - math.log(m) + y

        reach = math.sqrt(2.0 * _DEEP) + 2.0 * m
        log_high = log_ratio + m * reach - 0.5 * m * m
        high = math.log(log_high + math.exp(-log_high)) if log_high > 1.0 else math.log(math.log1p(math.exp(log_high)))
        return _fitted(density, list(np.linspace(log_ratio - m * reach - 0.5 * m * m, high, 17)))

    def log_delta(self, epsilon: float, direction: str) -> float:
        removes = direction == "remove"
        at = (epsilon if removes else -epsilon) - self.steps * self.log_least
        if at <= 0.0:
            return -math.inf
        y = math.log(at)
        edges = self.law.edges
        kept = edges[edges > y] if removes else edges[edges < y]
        if not len(kept):
            raise Negligible("the density there is below what is followed")
        # Next to the threshold the factor has a scale of its own: panels shrink towards it.
        near = y + np.array([0.0, *(10.0 ** np.arange(-9.0, 1.0))]) * (1.0 if removes else -1.0)
        edges = np.unique(np.concatenate([kept, near[(near >= edges[0]) & (near <= edges[-1])]]))
        x, log_weights = _nodes(edges)
        distance = np.abs(at * np.expm1(x - y))
        gap = np.log(np.expm1(np.minimum(distance, 700.0))) if removes else np.log(-np.expm1(-distance))
        return (epsilon if removes else 0.0) + _log_sum(self.law(x) + log_weights + gap)
