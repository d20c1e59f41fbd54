"""One round's privacy loss as an increasing function of one normal coordinate, with certified errors.

With shifts m_i = c_i / sigma and R(u) = sum_i p_i exp(m_i u - m_i^2 / 2) the loss is log R(u) for "remove"
and -log R(u) for "add". With t = u for "remove" and t = -u for "add" it increases in t, and P has the
density

    remove:  sum_i p_i phi(t - m_i)          add:  phi(t)

Nodes are taken in chunks. In a chunk everything is relative to the component r that dominates in its
middle:

    log R = log p_r + m_r (u - m_r / 2) + log sum_i exp(alpha_i + beta_i (u - middle)),    beta_i = m_i - m_r

so far components drop out exactly where they provably do not matter (docs/lattice.md, section 2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from groupdp.engines.interface import Direction
from groupdp.engines.lattice.rounding import ELEMENTARY, UNIT
from groupdp.mixture import MixtureOfGaussians

FloatArray = npt.NDArray[np.float64]

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
#: A component below e^-50 of another one, all over a chunk, is dropped there.
_LOG_NEGLIGIBLE = -50.0
#: Exponents relative to the chunk's reference stay below this, so nothing overflows.
_LARGEST_EXPONENT = 300.0
#: Elements (components x nodes) of one chunk: what fits the cache.
_CHUNK_ELEMENTS = 1 << 17
#: Widest chunk, in standard deviations of the noise.
_CHUNK_WIDTH = 2.0


@dataclass(frozen=True, slots=True)
class LossValues:
    """What is known at every node t; `*_error` are certified absolute errors, the rest is not certified."""

    loss: FloatArray
    loss_error: FloatArray
    slope: FloatArray
    """d loss / dt."""
    curvature: FloatArray
    """d^2 loss / dt^2."""
    log_density: FloatArray
    """log of P's density at t."""
    density_error: FloatArray
    mixture_reach: FloatArray
    """Largest |u - m_i| of any component that matters near t."""


class RoundLoss:
    """The privacy loss of one round in one direction, minus an `offset`."""

    def __init__(self, mixture: MixtureOfGaussians, direction: Direction, *, offset: float = 0.0) -> None:
        self.mixture = mixture
        self.offset = offset
        self.direction: Direction = direction
        self.sign = 1.0 if direction == "remove" else -1.0
        self.log_probabilities = mixture.log_probabilities
        with np.errstate(under="ignore"):
            self.shifts: FloatArray = mixture.sensitivities / mixture.standard_deviation
        self.largest_shift = float(self.shifts[-1])
        absence = mixture.log_probability_of_absence
        #: log p_0, relative error of a few units: the loss is bounded by it on one side. -inf if unbounded.
        self.log_absence = absence

    def shifted(self, offset: float) -> RoundLoss:
        """The same loss with another offset."""
        return RoundLoss(self.mixture, self.direction, offset=offset)

    @property
    def largest_loss(self) -> float:
        """An upper bound on the loss, never attained; inf where there is none."""
        if self.direction == "remove" or self.log_absence == -math.inf:
            return math.inf
        return -self.log_absence * (1.0 + ELEMENTARY)

    def normal_components(self) -> tuple[FloatArray, FloatArray]:
        """Centres and log-weights of P, a mixture of unit normals in t."""
        if self.direction == "add":
            return np.zeros(1), np.zeros(1)
        return self.shifts, self.log_probabilities

    def evaluate(self, nodes: FloatArray, *, margin: float = 0.0) -> LossValues:
        """Loss and density at increasing `nodes`.

        With a `margin`, what is said about far components holds within that distance of each node too.
        """
        rows = np.empty((7, len(nodes)))
        for start, end in self._chunks(nodes):
            self._fill(nodes, start, end, margin, rows)
        return LossValues(*rows)

    def _chunks(self, nodes: FloatArray) -> Iterator[tuple[int, int]]:
        largest = max(64, _CHUNK_ELEMENTS // min(len(self.shifts), 256))
        start = 0
        while start < len(nodes):
            end = int(np.searchsorted(nodes, nodes[start] + _CHUNK_WIDTH, side="right"))
            end = max(min(end, start + largest), start + 1)
            yield start, end
            start = end

    def _fill(self, nodes: FloatArray, start: int, end: int, margin: float, rows: FloatArray) -> None:
        t = nodes[start:end]
        lowest, highest = float(t.min()), float(t.max())
        middle = self.sign * 0.5 * (lowest + highest)
        half = 0.5 * (highest - lowest) + margin + 4.0 * UNIT * (abs(lowest) + abs(highest))
        m, log_p = self.shifts, self.log_probabilities
        r = int(np.argmax(log_p - 0.5 * (middle - m) ** 2))
        reference, log_reference = float(m[r]), float(log_p[r])
        from_reference = abs(middle - reference)
        beta = m - reference
        alpha = (log_p - log_reference) + beta * ((middle - reference) - 0.5 * beta)
        distance = np.abs(middle - m) + half
        # Units of roundoff in each exponent; none for the reference itself, whose exponent is exactly 0.
        units = (
            9.0 * (np.abs(log_p) + abs(log_reference))
            + 5.0 * np.abs(beta) * (from_reference + np.abs(beta) + 2.0 * half)
            + m * distance
            + reference * (from_reference + half)
        )
        units[r] = 0.0
        keep = alpha + np.abs(beta) * half + UNIT * units > _LOG_NEGLIGIBLE
        keep[r] = True
        if np.any(np.abs(beta[keep]) * half > _LARGEST_EXPONENT) and end - start > 1:
            cut = start + (end - start) // 2
            self._fill(nodes, start, cut, margin, rows)
            self._fill(nodes, cut, end, margin, rows)
            return
        m, alpha, beta, distance, units = m[keep], alpha[keep], beta[keep], distance[keep], units[keep]
        u = self.sign * t
        weights = np.vstack((np.ones_like(m), beta, beta * beta, units))
        if len(m) == 1:
            sums = np.repeat(weights, len(t), axis=1)
        else:
            terms = np.multiply.outer(beta, u - middle)
            terms += alpha[:, None]
            with np.errstate(under="ignore"):
                sums = weights @ np.exp(terms, out=terms)
        mean = sums[1] / sums[0]
        log_sum = np.log(sums[0])
        most = float(units.max())
        average = sums[3] / sums[0] if most * UNIT < 0.01 else np.full(len(t), most)
        log_sum_error = UNIT * (1.02 * average + 3.0 * len(m) + 20.0 + 8.0 * np.abs(log_sum))
        log_sum_error += 4e-22 * len(self.shifts)  # the dropped components
        loss = log_reference + reference * (u - 0.5 * reference) + log_sum
        away = np.abs(u - reference)
        rows[0, start:end] = self.sign * loss - self.offset
        rows[1, start:end] = log_sum_error + UNIT * (
            8.0 * abs(log_reference)
            + reference * (4.0 * np.abs(u - 0.5 * reference) + away)
            + 6.0 * np.abs(loss)  # half of it for the rounding of grid positions the loss is compared with
            + 4.0 * abs(self.offset)
        )
        rows[2, start:end] = reference + mean
        rows[3, start:end] = self.sign * np.maximum(sums[2] / sums[0] - mean * mean, 0.0)
        if self.direction == "remove":
            rows[4, start:end] = (log_reference - 0.5 * away * away) + log_sum - LOG_SQRT_2PI
            rows[5, start:end] = log_sum_error + UNIT * (
                9.0 * abs(log_reference) + 3.0 * away * away + reference * away + 4.0 * np.abs(log_sum) + 8.0
            )
        else:
            rows[4, start:end] = -0.5 * t * t - LOG_SQRT_2PI
            rows[5, start:end] = UNIT * (2.0 * t * t + 8.0)
        rows[6, start:end] = float(distance.max())
