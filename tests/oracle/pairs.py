"""Pairs of opposed mixtures with a public coin, for the oracle: exact rationals in, balls out.

A branch opposes two sides: P = sum_i a_i N(+x_i, 1) against Q = sum_j b_j N(-y_j, 1). With

    A(u) = sum_i a_i e^{x_i u - x_i^2/2},    B(u) = sum_j b_j e^{-y_j u - y_j^2/2},    Psi = log A - log B

the loss Psi increases with u, and G(z) = E_P[e^{z Psi}] = E[A(U)^{1+z} B(U)^{-z}], U ~ N(0, 1). A round is a coin over
branches, G = sum_b w_b G_b. A Gaussian branch, N(mu) against N(0), has G(z) = e^{z(z+1) mu^2/2} in closed form, and
only mu^2 has to be rational.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import acb, arb, ctx, fmpq

from oracle.mixture import PRECISION, Mixture, exact

_THETAS = (1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.1, 1.2, 1.3)


@functools.cache
def nothing() -> Mixture:
    """The side of a world without the group."""
    return Mixture([0], [1], 1)


class Branch:
    """Two sides, each a law of shifts >= 0 (a `Mixture`); the branch's exponents are those of the tilted density."""

    def __init__(self, right: Mixture, left: Mixture) -> None:
        self.right, self.left = right, left
        self.x_max, self.y_max = float(right.float_shifts[-1]), float(left.float_shifts[-1])
        self.reach = self.x_max + self.y_max  # the loss's steepest slope

    @property
    def largest_loss(self) -> arb:
        """Psi <= -log b_0 where A = {0}; unbounded otherwise."""
        bounded = self.x_max == 0 and self.left.absence > 0
        return -self.left.absence.log() if bounded else arb.pos_inf()

    @property
    def smallest_loss(self) -> arb:
        """Psi >= log a_0 where B = {0}; unbounded otherwise."""
        bounded = self.y_max == 0 and self.right.absence > 0
        return self.right.absence.log() if bounded else arb.neg_inf()

    def float_loss(self, u: np.ndarray) -> np.ndarray:
        return self.right.float_loss(u) - self.left.float_loss(-u)

    def float_exponent(self, u: np.ndarray, c: float) -> np.ndarray:
        """log of phi(u) A^{1+c} B^{-c}, up to a constant."""
        return (1 + c) * self.right.float_loss(u) - c * self.left.float_loss(-u) - u * u / 2

    def step(self, c: float, s: float, nats: float) -> float:
        """A step in u that makes the trapezoid rule for G(c + i s) good to e^-nats: on the strip |Im u| <= d,
        theta = (x_max + y_max) d, the error is e^{d^2/2 + s theta} cos(y_max d)^{-c} e^{-2 pi d / step}."""
        share = self.y_max / self.reach
        rate = min(
            (nats + (theta / self.reach) ** 2 / 2 - max(c, 0.0) * math.log(math.cos(share * theta))) / theta
            for theta in _THETAS
        )
        return 2 * math.pi / (self.reach * (s + rate))

    def nodes(self, c: float, step: float, nats: float) -> list[int]:
        """The n for which phi(u) A^{1+c} B^{-c} at u = n step is not below its maximum by a factor e^nats.

        log A and -log B have slopes in [0, x_max] and [0, y_max]: all maxima are in [0, (1+c) x_max + c y_max].
        """
        reach = math.sqrt(2 * nats) + 2
        high = (1 + c) * self.x_max + c * self.y_max + reach
        if self.x_max == 0 and self.left.absence > 0:  # B^-c is at most b_0^-c
            room = c * float(self.left.float_loss(np.zeros(1))[0] - self.left.float_logs[0])
            high = min(high, math.sqrt(2 * (nats + room)) + 1)
        if (high + reach) / 0.02 > 5e6:
            raise NotImplementedError("the quadrature range is too wide for this oracle")
        u = np.arange(-reach, high, 0.02)
        log_density = self.float_exponent(u, c)
        inside = np.flatnonzero(log_density >= log_density.max() - nats)
        found: set[int] = set()
        for run in np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1):
            found.update(range(math.floor(u[run[0]] / step) - 1, math.ceil((u[run[-1]] + 0.02) / step) + 2))
        return sorted(found)

    def terms(self, c: arb, step: float, nats: float) -> tuple[arb, list[arb], list[arb]]:
        """log G(c), losses Psi(u_n), and phi(u_n) A^{1+c} B^{-c} divided by their sum."""
        nodes, h = self.nodes(float(c), step, nats), arb(step)
        right = [self.right.loss(step, n) for n in nodes]
        losses = [a - self.left.loss(step, -n) for n, a in zip(nodes, right, strict=True)]
        logs = [a + c * loss - (h * n) ** 2 / 2 for n, a, loss in zip(nodes, right, losses, strict=True)]
        top = max(float(x.mid()) for x in logs)
        weights = [(x - top).exp() for x in logs]
        total = sum(weights, arb(0))
        return (total * h / (2 * arb.pi()).sqrt()).log() + top, losses, [w / total for w in weights]

    def moments(self, c: float, nats: float) -> tuple[arb, arb, arb]:
        """log G, and the mean and the variance of the loss under the law tilted by c."""
        step = 2.0 ** math.floor(math.log2(self.step(c, 0.0, nats)))  # few distinct ones
        log_total, losses, weights = self.terms(arb(c), step, nats)
        first = sum((w * x for w, x in zip(weights, losses, strict=True)), arb(0))
        second = sum((w * (x - first) * (x - first) for w, x in zip(weights, losses, strict=True)), arb(0))
        return log_total, first, second

    def sizes(self, c: float, points: np.ndarray) -> np.ndarray:
        """phi(s) = G(c + i s) / G(c) in double precision."""
        step = self.step(c, points[-1], 36.0)
        u = step * np.array(self.nodes(c, step, 40.0))
        loss, log_weight = self.float_loss(u), self.float_exponent(u, c)
        weight = np.exp(log_weight - log_weight.max())
        return np.array([np.dot(weight, np.exp(1j * point * loss)) / weight.sum() for point in points])

    def mirrored(self) -> Branch:
        return Branch(self.left, self.right)


class Gaussian:
    """N(mu, 1) against N(0, 1), given mu^2: the loss is N(mu^2/2, mu^2) under P."""

    def __init__(self, square: Any) -> None:
        self.square = exact(square)
        self.reach = math.sqrt(float(arb(self.square)))

    largest_loss = arb.pos_inf()
    smallest_loss = arb.neg_inf()

    def log_moment(self, c: arb) -> arb:
        return c * (c + 1) * arb(self.square) / 2

    def moments(self, c: float, nats: float) -> tuple[arb, arb, arb]:
        variance, at = arb(self.square), arb(c)
        return self.log_moment(at), variance * (at + arb(0.5)), variance

    def turned(self, c: arb, s: arb) -> acb:
        """phi(s) = e^{mu^2 (i s (1 + 2c) - s^2) / 2}."""
        half = arb(self.square) / 2
        return acb(-half * s * s, half * s * (1 + 2 * c)).exp()

    def sizes(self, c: float, points: np.ndarray) -> np.ndarray:
        half = self.reach**2 / 2
        return np.exp(half * (1j * points * (1 + 2 * c) - points**2))

    def mirrored(self) -> Gaussian:
        return self


class Round:
    """A public coin over branches: (probability, branch). Probabilities are divided by their sum."""

    def __init__(self, coin: Sequence[tuple[Any, Branch | Gaussian]]) -> None:
        kept = [(exact(w), branch) for w, branch in coin if exact(w) != 0]
        total = sum((w for w, _ in kept), fmpq(0))
        self.coin = [(w / total, branch) for w, branch in kept]

    @classmethod
    def of(cls, right: Mixture, left: Mixture) -> Round:
        return cls([(1, Branch(right, left))])

    @property
    def reach(self) -> float:
        return max(branch.reach for _, branch in self.coin)

    @property
    def largest_loss(self) -> arb:
        with ctx.workprec(PRECISION):
            return max((branch.largest_loss for _, branch in self.coin), key=lambda loss: float(loss.mid()))

    def mirrored(self) -> Round:
        return Round([(w, branch.mirrored()) for w, branch in self.coin])

    def shares(self, log_moments: list[arb]) -> tuple[arb, list[arb]]:
        """log G of the coin, and each branch's share of G."""
        logs = [arb(w).log() + value for (w, _), value in zip(self.coin, log_moments, strict=True)]
        top = max(float(x.mid()) for x in logs)
        terms = [(x - top).exp() for x in logs]
        total = sum(terms, arb(0))
        return total.log() + top, [term / total for term in terms]


Rounds = list[tuple[Round, int]]


def removing(mixture: Mixture) -> Round:
    return Round.of(mixture, nothing())


def adding(mixture: Mixture) -> Round:
    return Round.of(nothing(), mixture)


def rounds_of(composition: Any, direction: str | None) -> Rounds:
    """Compositions of rounds as they are; of mixtures in a direction, "remove" or "add"."""
    if direction is None:
        return [(one, int(times)) for one, times in composition if times]
    made = {"remove": removing, "add": adding}[direction]
    return [(made(one), int(times)) for one, times in composition if times]
