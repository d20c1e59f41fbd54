"""Mixtures of Gaussians for the oracle: exact rationals in, balls out.

R(u) = sum_i p_i exp(m_i u - m_i^2 / 2) is a mixture's density over that of N(0, 1). A mixture is also a side of a pair
(pairs.py): A(u) = R(u) on the right, B(u) = R(-u) on the left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq, fmpz

PRECISION = 256
_BLOCK = 64


def exact(value: Any) -> fmpq:
    """A decimal string, an int, a Fraction or a double (its binary value), as a rational."""
    if isinstance(value, fmpq):
        return value
    fraction = Fraction(value)
    return fmpq(fraction.numerator, fraction.denominator)


class Mixture:
    """N(0, 1) against sum_i p_i N(m_i, 1), with m_i = c_i / sigma; probabilities are divided by their sum."""

    def __init__(self, sensitivities: Sequence[Any], probabilities: Sequence[Any], sigma: Any) -> None:
        weights = [exact(p) for p in probabilities]
        total = sum(weights, fmpq(0))
        kept = [(exact(c) / exact(sigma), p / total) for c, p in zip(sensitivities, weights, strict=True) if p != 0]
        self.shifts = [m for m, _ in kept]
        self.probabilities = [p for _, p in kept]
        self._blocks: dict[tuple[float, int, int], list[arb]] = {}
        with ctx.workprec(PRECISION):
            self.absence = sum((arb(p) for m, p in kept if m == 0), arb(0))  # P(the group is absent)
            self.float_shifts = np.array([float(arb(m)) for m in self.shifts])
            self.float_logs = np.array([float(arb(p).log()) for p in self.probabilities])

    def loss(self, step: float, n: int) -> arb:
        """Psi(u) = log sum_i p_i exp(m_i u - m_i^2 / 2) at u = n step."""
        block, place = divmod(n, _BLOCK)
        key = (step, block, ctx.prec)
        if key not in self._blocks:
            shifts = [arb(m) for m in self.shifts]
            start = arb(step) * (block * _BLOCK)
            terms = [arb(p) * (m * start - m * m / 2).exp() for m, p in zip(shifts, self.probabilities, strict=True)]
            ratios = [(m * arb(step)).exp() for m in shifts]
            values = []
            for _ in range(_BLOCK):
                values.append(sum(terms, arb(0)).log())
                terms = [term * ratio for term, ratio in zip(terms, ratios, strict=True)]
            self._blocks[key] = values
        return self._blocks[key][place]

    def float_loss(self, u: np.ndarray) -> np.ndarray:
        result = np.full(len(u), -np.inf)
        for m, log_p in zip(self.float_shifts, self.float_logs, strict=True):
            result = np.logaddexp(result, log_p + m * u - m * m / 2)
        return result


Composition = list[tuple[Mixture, int]]


def compose(phases: Sequence[Mapping[str, Any]], group_size: int) -> Composition:
    """Phases as the golden tables spell them: Binom(k, q), or 2 x Hypergeom(B, n + k, k), over sigma."""
    return [(mixture_of(phase, group_size), int(phase["steps"])) for phase in phases]


def mixture_of(phase: Mapping[str, Any], group_size: int) -> Mixture:
    k = group_size
    if phase.get("sampling", "poisson") == "poisson":
        q, unit = exact(phase["sampling_rate"]), 1
        law = [fmpz.bin_uiui(k, i) * q**i * (1 - q) ** (k - i) for i in range(k + 1)]
    else:
        b, n, unit = int(phase["batch_size"]), int(phase["dataset_size"]), 2
        ways = [fmpz.bin_uiui(b, i) * fmpz.bin_uiui(n + k - b, k - i) for i in range(min(k, b) + 1)]
        law = [fmpq(way, fmpz.bin_uiui(n + k, k)) for way in ways]
    return Mixture([unit * i for i in range(len(law))], law, phase["noise_multiplier"])
