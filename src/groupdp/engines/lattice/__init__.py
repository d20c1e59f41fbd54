"""The lattice engine: privacy losses on a lattice, with certified bounds on both sides.

The privacy loss of one round is put on a lattice from above and from below, composed by powers of a tilted Fourier
transform, and read off; one round is closed form. It answers for compositions of `groupdp.pairs` and of profiles.
Proofs: docs/lattice.md, whose numbers (L-1, L-2, ...) the code cites. Shares no numerical code with the spectral
engine.

    engine           the two answers, and what is known without computing
    refine           finer and finer lattices until the tolerance or a limit, by whole transforms or block by block
    planning         tilt and window; one lattice: every part's measures, composed and read off
    parts            one mechanism of a composition: pairs, atoms, Laplace; envelope_part, allocation: others
    panels, merging  a branch's measure from above (connect the dots), and from below
      loss, support    a branch's loss with certified errors; where its mass is, the coordinate of a loss, rough laws
      cells            lattice points, widths and edges of cells
    compose          powers of transforms
    measures         measures on the lattice, and delta(epsilon) from a composed one
    curves           one round in closed form (one_round, round_terms, envelope); where a curve passes a value
"""

from groupdp.engines.lattice.engine import epsilon, largest_loss, log_delta, neighbourhood
from groupdp.engines.lattice.planning import Solution

__all__ = ["Solution", "epsilon", "largest_loss", "log_delta", "neighbourhood"]
