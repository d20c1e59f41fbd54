"""delta near one epsilon: one contour, good for many evaluations close to where it was planned.

The trade-off curve needs delta at a dozen neighbouring epsilons at a time. Each evaluation carries the same certified
bounds as `log_delta`, including the corrections for what was trimmed.
"""

from __future__ import annotations

from dataclasses import dataclass

from groupdp.engines.interface import Direction
from groupdp.engines.spectral.contour import Contour, build
from groupdp.engines.spectral.prepare import Prepared, prepare
from groupdp.engines.spectral.saddle import saddle_for_epsilon
from groupdp.reductions import Composition


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Certified log delta, and approximate slopes, near one epsilon."""

    epsilon: float
    prepared: Prepared
    contour: Contour
    accuracy: float = 1e-8

    @property
    def deviation(self) -> float:
        """Standard deviation of the loss under P, roughly: the scale on which delta changes its character."""
        return self.prepared.deviation

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Certified (lower, upper); wide far away from where the contour was planned."""
        return self.prepared.corrected(self.contour, epsilon)

    def log_delta_slope(self, epsilon: float) -> tuple[float, float]:
        """log delta and its derivative, to many digits but without a claim."""
        return self.contour.log_delta_slope(epsilon)


def neighbourhood(
    composition: Composition, *, direction: Direction, epsilon: float, log_delta: float = -60.0
) -> Neighbourhood | None:
    """A contour planned for this epsilon; None where delta is 0 there. `log_delta`: a guess of its size, if any."""
    assumed = min(log_delta, -1.0)
    for _ in range(8):
        prepared = prepare(composition, direction, assumed)
        if epsilon >= prepared.largest_loss:
            return None
        saddle = saddle_for_epsilon(prepared.rounds, direction, epsilon, prepared.mean, prepared.deviation)
        if assumed <= saddle.log_delta + 1.0:
            break
        assumed = saddle.log_delta - 10.0
    return Neighbourhood(epsilon, prepared, build(prepared.rounds, direction, saddle))
