"""One round in units of its noise, with components too rare to matter left out at a stated price."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from groupdp.engines.spectral.thinning import Thinning
from groupdp.errors import LimitExceeded
from groupdp.mixture import MixtureOfGaussians

FloatArray = npt.NDArray[np.float64]

#: Shifts (sensitivities in units of the noise) outside this range are refused.
SMALLEST_SHIFT = 1e-290
LARGEST_SHIFT = 1e7


@dataclass(frozen=True, slots=True)
class Round:
    """Shifts m_i = c_i / sigma in increasing order, with probabilities p_i, repeated `count` times.

    `log_dropped` is the logarithm of the probability eta of the components left out. The law kept is the
    sensitivity conditioned on being at most the largest one kept: it is stochastically dominated by the
    true one, so a lower bound computed from it needs no correction (Lemma 2.6 of the paper); upper bounds
    pay for eta (docs/numerics.md, section 5).
    """

    m: FloatArray
    p: FloatArray
    log_p: FloatArray
    count: float
    log_dropped: float
    thinning: Thinning | None = None

    @property
    def largest_shift(self) -> float:
        return float(self.m[-1])

    @property
    def span(self) -> float:
        """Largest minus smallest shift: what limits the strip where log R is analytic."""
        return float(self.m[-1] - self.m[0])

    @property
    def log_absent(self) -> float:
        """log P(shift = 0), -inf if the group is always present."""
        return float(self.log_p[0]) if self.m[0] == 0.0 else -math.inf


def trimmed(mixture: MixtureOfGaussians, count: int, *, log_budget: float) -> Round:
    """The round that keeps the smallest sensitivities and drops at most e^log_budget of probability."""
    log_p = mixture.log_probabilities
    m = _shifts(mixture)
    # log of the probability of component i and everything above, summed from the top.
    upper_tail = np.logaddexp.accumulate(log_p[::-1])[::-1]
    # Rounding of the accumulated logarithms is far below this slack.
    droppable = upper_tail + 1e-6 <= log_budget
    droppable[0] = False
    if len(log_p) > 1 and mixture.sensitivities[0] == 0.0:
        droppable[1] = False  # keep at least one component that differs from the plain Gaussian
    keep = ~droppable
    log_dropped = float(upper_tail[keep.sum()]) + 1e-6 if droppable.any() else -math.inf
    shift = math.log1p(-math.exp(log_dropped)) if log_dropped > -math.inf else 0.0
    return Round(
        m=m[keep],
        p=mixture.probabilities[keep] * math.exp(-shift),
        log_p=log_p[keep] - shift,
        count=float(count),
        log_dropped=log_dropped,
    )


def _shifts(mixture: MixtureOfGaussians) -> FloatArray:
    """m_i = c_i / sigma, within limits."""
    with np.errstate(over="ignore"):
        m = mixture.sensitivities / mixture.standard_deviation
    positive = m[mixture.sensitivities > 0.0]
    if not (positive[0] >= SMALLEST_SHIFT and positive[-1] <= LARGEST_SHIFT):
        raise LimitExceeded(
            f"sensitivities between {positive[0]:g} and {positive[-1]:g} of the noise are beyond the spectral engine, "
            f"which takes {SMALLEST_SHIFT:g} to {LARGEST_SHIFT:g}."
        )
    return np.asarray(m)


def largest_loss(rounds: tuple[Round, ...]) -> float:
    """Upper bound on the privacy loss in the add direction: -sum_j T_j log p_0j (docs/numerics.md, section 1).

    From untrimmed rounds only; rounded up.
    """
    total = math.fsum(-one.count * one.log_absent for one in rounds)
    return total * (1.0 + 1e-14) if math.isfinite(total) else math.inf
