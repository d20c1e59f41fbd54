"""delta near one epsilon: one contour, good for many evaluations close to where it was planned.

The trade-off curve needs delta at a dozen neighbouring epsilons at a time. Each evaluation carries the same certified
bounds as `log_delta`, including the corrections for what was left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from groupdp.engines.spectral.engine import declined, require_kernel
from groupdp.engines.spectral.packing import packed
from groupdp.pairs import Composition, FloatArray


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Certified log delta, and approximate slopes, near one epsilon."""

    epsilon: float
    deviation: float
    """Standard deviation of the loss under P, roughly: the scale on which delta changes its character."""
    handle: object = field(repr=False)
    accuracy: float = 1e-8
    """How closely an optimum is worth locating."""

    def evaluate(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """(lower, upper) certified for log delta, then log delta and its slope to many digits but without a claim."""
        points = np.ascontiguousarray(epsilons, dtype=np.float64)
        lower, upper, value, slope = (np.empty_like(points) for _ in range(4))
        from groupdp.engines.spectral import _kernel

        _kernel.evaluate(self.handle, points, lower, upper, value, slope)
        return lower, upper, value, slope

    def log_deltas(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Certified (lower, upper) at each epsilon; wide far away from where the contour was planned."""
        lower, upper, _, _ = self.evaluate(epsilons)
        return lower, upper

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Certified (lower, upper); wide far away from where the contour was planned."""
        lower, upper, _, _ = self.evaluate(np.array([epsilon]))
        return float(lower[0]), float(upper[0])

    def log_delta_slope(self, epsilon: float) -> tuple[float, float]:
        """log delta and its derivative, to many digits but without a claim."""
        _, _, value, slope = self.evaluate(np.array([epsilon]))
        return float(value[0]), float(slope[0])


def neighbourhood(composition: Composition, epsilon: float, *, log_delta: float = -60.0) -> Neighbourhood | None:
    """A contour planned for this epsilon; None where delta is 0 there. `log_delta`: a guess of its size, if any."""
    require_kernel()
    from groupdp.engines.spectral import _kernel

    found = _kernel.neighbourhood(packed(composition), epsilon, log_delta)
    if found is None:
        return None
    if isinstance(found, str):
        raise declined(found)
    handle, deviation, _, _ = found
    return Neighbourhood(epsilon, deviation, handle)
