"""What Poisson accounting would claim for a run that does not sample like that. Not a guarantee of any kind.

Shuffled epochs are accounted every day as if each example joined every batch on its own. No theorem supports that: at
100 batches, 20 epochs, noise multiplier 4 and groups of 4 the claim is 2.06 where 12.9 is the valid figure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from groupdp.bounds import Bounds
from groupdp.guarantees import epsilon
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.mechanism import mechanisms_of
from groupdp.neighbours import ADD_OR_REMOVE, ZERO_OUT
from groupdp.samplings import PoissonSampling


def poisson_claim(run: Any, *, delta: float, adjacency: str = "add-or-remove", **options: Any) -> Bounds | None:
    """The epsilon of the run with Poisson batches of the same average size; None for runs that are not mistaken so.

    NOT a guarantee for the run: shown beside the valid figure, to be told from it. `options`, the group among them,
    are those of `epsilon`.
    """
    phases = [one for one in mechanisms_of(run) if isinstance(one, DPSGD)]
    if len(phases) < len(mechanisms_of(run)) or not any(phase.sampling.mistaken_for_poisson for phase in phases):
        return None
    taken = [
        replace(phase, sampling=PoissonSampling(rate=float(phase.sampling.share_of_data())))
        if phase.sampling.mistaken_for_poisson
        else phase
        for phase in phases
    ]
    relation = ADD_OR_REMOVE if adjacency == ZERO_OUT else adjacency
    return replace(epsilon(taken, delta=delta, adjacency=relation, **options), tight=False)
