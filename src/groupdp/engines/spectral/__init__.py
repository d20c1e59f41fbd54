"""The spectral engine: delta as a contour integral of the composed moment function, compiled.

    packing.py        a composition as the kernel reads it
    engine.py         log_delta, epsilon and its ceiling, each alone or for many questions
    neighbourhood.py  one contour for the deltas near an epsilon, for trade-off curves
    kernel/           the engine itself, in C; its map is at the top of kernel/spectral.h

The proofs are in docs/numerics.md; numbers S-1, S-2, ... in the code refer to it. Where there was no compiler at
installation, every function raises `LimitExceeded`, and `auto` uses the lattice engine.
"""

from groupdp.engines.spectral.engine import AVAILABLE, epsilon, epsilon_ceiling, epsilon_ceilings, epsilons, log_delta
from groupdp.engines.spectral.neighbourhood import Neighbourhood, neighbourhood

__all__ = [
    "AVAILABLE",
    "Neighbourhood",
    "epsilon",
    "epsilon_ceiling",
    "epsilon_ceilings",
    "epsilons",
    "log_delta",
    "neighbourhood",
]
