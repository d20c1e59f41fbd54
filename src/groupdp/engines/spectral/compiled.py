"""The common case, compiled: the same engine in C (kernel/), 12 to 70 times faster at the paper's setting.

It follows the modules of this package file by file, with the same inequalities, and has closed forms of its own for
rare, large losses (discard.c). It declines whatever is unusual: every function here then returns None, and the NumPy
engine answers. It also does where there was no compiler at installation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupdp.bounds import Bounds, Provenance
from groupdp.engines.interface import Direction
from groupdp.reductions import Composition

if TYPE_CHECKING:
    from groupdp.engines.spectral._kernel import Phase

try:
    from groupdp.engines.spectral import _kernel
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True


def epsilon(composition: Composition, direction: Direction, log_delta: float) -> Bounds | None:
    """Certified bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta."""
    found = _kernel.epsilon(packed(composition), direction == "add", log_delta) if AVAILABLE else None
    return None if found is None else _bounds(found, direction)


def log_delta(composition: Composition, direction: Direction, epsilon: float) -> Bounds | None:
    """Certified bounds on log delta(epsilon)."""
    found = _kernel.log_delta(packed(composition), direction == "add", epsilon) if AVAILABLE else None
    return None if found is None else _bounds(found, direction)


def epsilon_ceiling(composition: Composition, direction: Direction, log_delta: float, enough: float) -> float | None:
    """A rigorous upper bound on epsilon: by Chernoff if that is below `enough`, else by a coarse contour."""
    return _kernel.epsilon_ceiling(packed(composition), direction == "add", log_delta, enough) if AVAILABLE else None


def packed(composition: Composition) -> list[Phase]:
    """A composition as the kernel reads it."""
    return [
        (one.sensitivities, one.probabilities, one.log_probabilities, one.standard_deviation, float(rounds))
        for one, rounds in composition
    ]


def _bounds(found: tuple[float, float, int, int, int], direction: Direction) -> Bounds:
    lower, upper, nodes, samples, evaluations = found
    counts = {"nodes": nodes, "contour steps": samples, "evaluations of delta": evaluations}
    return Bounds(lower, upper, Provenance(engine="spectral", adjacency=direction, evaluations=counts))
