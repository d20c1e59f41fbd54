"""The lattice engine: privacy losses on a lattice, with certified bounds on both sides.

The privacy loss of one round is put on a lattice from above and from below, composed by powers of a tilted
Fourier transform, and read off; one round is closed form. It answers for compositions of `groupdp.pairs` and of
`groupdp.profiles`. Proofs: docs/lattice.md, whose numbers (L-1, L-2, ...) the code cites. Shares no numerical code with
the spectral engine.

    engine              the two answers, and what is known without computing
    refine              finer and finer lattices until the tolerance or a limit
    refine_blocks       the same, composed block by block (blocks), where a law has a trough at epsilon
    plan                tilt and window, from rough laws (rough_law, window, importance)
    solve               one lattice: every part's measures, composed (convolve) and read off (tail)
    parts               rounds of pairs: branch by branch, above (connect_dots) and below (merge_cells)
      loss, likelihood    a branch's loss and densities, with certified errors; the one home of the likelihood ratio
      support             where its mass is; loss_inverse finds the coordinate of a loss
      cells, grid_steps   edges of cells, and how wide they are; atoms: cells where mass gathers
      quadrature          masses of cells
    envelope_part       profiles, and coins over many Gaussians, from envelope
    tilted_mass         measures on the lattice as the transform sees them
    curves              one round in closed form: of pairs (one_round, round_terms), of profiles (envelope)
    single_large_loss   a lower bound for far tails
    mills               the Mills ratio and its differences; the one home of normal tails
    roots, rounding     where a curve passes a value; what the arithmetic is assumed to do
"""

from groupdp.engines.lattice.engine import epsilon, largest_loss, log_delta, neighbourhood
from groupdp.engines.lattice.solve import Solution

__all__ = ["Solution", "epsilon", "largest_loss", "log_delta", "neighbourhood"]
