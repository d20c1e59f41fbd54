"""One round's exponentially tilted law: its normaliser, and exact draws from it.

In units of the noise, R(u) = sum_i p_i exp(m_i u - m_i^2 / 2) is the likelihood ratio of one round and phi the standard
normal density. Tilting the loss L by c turns P into the law with density

    R(u)^w phi(u) / G(w),     w = 1 + c  ("remove", L = log R, P = the mixture),
                              w = -c     ("add",   L = -log R, P = the plain Gaussian).

Draws are by rejection from a piecewise constant envelope that is above the density by a proved margin, so they are
exact up to the tails beyond the table, whose mass is below 1e-20.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from groupdp.audit.attack import mixture_log_ratio
from groupdp.errors import LimitExceeded

FloatArray = npt.NDArray[np.float64]

#: Most nodes of the normaliser's quadrature.
MOST_NODES = 4_000_000
#: Cells of the envelope.
CELLS = 1 << 14
#: The integrand is integrated until it is below e^-84 of its peak (a normal tail at 13), drawn until e^-60.
_TAIL = 13.0
_DRAWN = 60.0


@dataclass(frozen=True, slots=True)
class RoundLaw:
    """One round in units of its noise: shifts i * unit with log-probabilities."""

    unit: float
    log_weights: FloatArray

    @property
    def largest_shift(self) -> float:
        """m_max."""
        return self.unit * float(np.flatnonzero(self.log_weights > -math.inf)[-1])

    def log_ratio(self, u: FloatArray) -> FloatArray:
        """log R(u)."""
        return mixture_log_ratio(u, self.unit, self.log_weights)


def log_normaliser(law: RoundLaw, exponent: float) -> float:
    """log G(w), G(w) = E[R(U)^w] with U standard normal, by the trapezoidal rule.

    The integrand is analytic where |Im u| m_max < pi / 2, so with 1.2 in place of pi / 2 and a step of
    0.05 / max(1, m_max) the rule errs by a factor of about e^(-2 pi 1.2 / 0.05) = e^-150: only rounding is left.
    """
    grid, step = _nodes(law, exponent)
    values = exponent * law.log_ratio(grid) - grid * grid / 2.0
    peak = float(values.max())
    total = math.fsum(np.exp(values - peak).tolist())
    return peak + math.log(total * step) - 0.5 * math.log(2.0 * math.pi)


class TiltedRound:
    """Exact draws from R^w phi / G(w)."""

    def __init__(self, law: RoundLaw, exponent: float) -> None:
        self._law, self._exponent = law, exponent
        grid, step = _nodes(law, exponent)
        values = self._log_density(grid)
        kept = np.flatnonzero(values > values.max() - _DRAWN)
        low, high = grid[kept[0]] - step, grid[kept[-1]] + step
        self._width = (high - low) / CELLS
        self._left = low + self._width * np.arange(CELLS)
        middle = self._left + self._width / 2.0
        # On a cell, h <= h(middle) + |h'(middle)| D / 2 + sup h'' D^2 / 8; h' = w Psi' - u by a mean of shifts, and
        # h'' <= |w| m_max^2 / 4 since Psi'' is the variance of a variable in [0, m_max].
        slope = np.abs(exponent * self._mean_shift(middle) - middle)
        bend = abs(exponent) * law.largest_shift**2 / 4.0
        self._ceiling = self._log_density(middle) + slope * self._width / 2.0 + bend * self._width**2 / 8.0
        self._ceiling += 1e-9  # rounding
        masses = np.exp(self._ceiling - self._ceiling.max())
        self._probabilities, self._aliases = _alias_table(masses / masses.sum())

    def draw(self, generator: np.random.Generator, count: int) -> FloatArray:
        """log R at `count` independent draws."""
        result = np.empty(count)
        filled = 0
        while filled < count:
            wanted = count - filled
            proposals = wanted + wanted // 16 + 16
            cell = generator.integers(0, CELLS, size=proposals)
            cell = np.where(generator.random(proposals) < self._probabilities[cell], cell, self._aliases[cell])
            u = self._left[cell] + self._width * generator.random(proposals)
            log_ratio = self._law.log_ratio(u)
            height = self._exponent * log_ratio - u * u / 2.0 - self._ceiling[cell]
            accepted = log_ratio[-generator.standard_exponential(proposals) <= height][:wanted]
            result[filled : filled + len(accepted)] = accepted
            filled += len(accepted)
        return result

    def _log_density(self, u: FloatArray) -> FloatArray:
        return np.asarray(self._exponent * self._law.log_ratio(u) - u * u / 2.0)

    def _mean_shift(self, u: FloatArray) -> FloatArray:
        """Psi'(u): the mean of the shifts under their posterior given u."""
        shifts = self._law.unit * np.arange(len(self._law.log_weights))
        level = self._law.log_ratio(u)
        mean = np.zeros_like(u)
        for shift, log_weight in zip(shifts.tolist(), self._law.log_weights.tolist(), strict=True):
            mean += shift * np.exp(log_weight + shift * u - shift * shift / 2.0 - level)
        return mean


def _nodes(law: RoundLaw, exponent: float) -> tuple[FloatArray, float]:
    """A uniform grid over [min(0, w m_max) - 13, max(0, w m_max) + 13].

    Outside, h' = w Psi' - u pulls back at least as hard as for a normal law centred at the nearer end.
    """
    reach = exponent * law.largest_shift
    low, high = min(0.0, reach) - _TAIL, max(0.0, reach) + _TAIL
    step = 0.05 / max(1.0, law.largest_shift)
    count = math.ceil((high - low) / step) + 1
    if count > MOST_NODES:
        raise LimitExceeded(
            f"Importance sampling would need {count} quadrature nodes, at most {MOST_NODES} are allowed: "
            "raise the noise multiplier or ask for a smaller epsilon."
        )
    return low + step * np.arange(count), step


def _alias_table(probabilities: FloatArray) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Walker's alias table: a uniform cell, kept with its probability, otherwise replaced by its alias."""
    scaled = (probabilities * len(probabilities)).tolist()
    aliases = list(range(len(scaled)))
    small = [i for i, mass in enumerate(scaled) if mass < 1.0]
    large = [i for i, mass in enumerate(scaled) if mass >= 1.0]
    while small and large:
        poor, rich = small.pop(), large.pop()
        aliases[poor] = rich
        scaled[rich] -= 1.0 - scaled[poor]
        (small if scaled[rich] < 1.0 else large).append(rich)
    for leftover in small + large:
        scaled[leftover] = 1.0
    return np.array(scaled), np.array(aliases, dtype=np.int64)
