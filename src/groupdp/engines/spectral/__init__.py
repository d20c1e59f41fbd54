"""The spectral engine: delta as a contour integral of the composed moment function.

    rounds.py     one round of a mixture, trimmed and in units of the noise
    thinning.py   outcomes too rare to matter, discarded smoothly at a stated price
    prepare.py    a composition trimmed and thinned for a given size of delta
    ratio.py      the likelihood ratio on a grid of u, with its rounding error
    moments.py    G(a) = E[R^a]: quadrature, its error, and rigorous upper bounds for the Chernoff bounds
    small_loss.py G(a) - 1 without cancellation, for many rounds of small losses
    tilted.py     one round under its exponentially tilted law: weights, losses, log G, every error bounded
    decay.py      how fast its characteristic function falls, for every frequency beyond a given one
    saddle.py     where to cross the real axis
    contour.py    the sampled integrand, its aliases and its truncation: certified delta(epsilon)
    engine.py     log_delta and epsilon
    compiled.py   the common case in C (kernel/, the same files), asked first; what it declines is answered here
    neighbourhood.py  one contour for the deltas near an epsilon, for trade-off curves

The proofs are in docs/numerics.md; section numbers in the code refer to it.
"""

from groupdp.engines.spectral.engine import epsilon, epsilon_ceiling, log_delta

__all__ = ["epsilon", "epsilon_ceiling", "log_delta"]
