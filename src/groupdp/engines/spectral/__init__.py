"""The spectral engine: delta as a contour integral of the composed moment function, compiled.

`engine` has log_delta, epsilon and its ceiling, each alone or for many questions, and one contour for the deltas near
an epsilon; `kernel/` is the engine itself, in C, with its map at the top of kernel/spectral.h.

The proofs are in docs/internals/numerics.md; numbers S-1, S-2, ... in the code refer to it. Where there was no compiler
at installation, every function raises `LimitExceeded`, and `auto` uses the lattice engine.
"""

from groupdp.engines.spectral.engine import (
    AVAILABLE,
    Neighbourhood,
    epsilon,
    epsilon_ceiling,
    epsilon_ceilings,
    epsilons,
    log_delta,
    neighbourhood,
    stands_beside_allocations,
)

__all__ = [
    "AVAILABLE",
    "Neighbourhood",
    "epsilon",
    "epsilon_ceiling",
    "epsilon_ceilings",
    "epsilons",
    "log_delta",
    "neighbourhood",
    "stands_beside_allocations",
]
