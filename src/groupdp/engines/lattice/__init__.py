"""The lattice engine: the paper's own procedure, with certified bounds on both sides.

The privacy loss of one round is put on a lattice from above and from below, composed by powers of a tilted
Fourier transform, and read off; one round is closed form. Proofs: docs/lattice.md. Shares no numerical code
with the spectral engine.
"""

from groupdp.engines.lattice.engine import epsilon, largest_loss, log_delta

__all__ = ["epsilon", "largest_loss", "log_delta"]
