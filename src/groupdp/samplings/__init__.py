"""How runs choose their batches: one file a sampling, each with its laws, assumptions and names.

    sampling.py            what every sampling says about itself
    poisson.py             each example on its own
    sources.py             the same, with a rate for each source
    truncated_poisson.py   the same, with a largest batch
    fixed_batch.py         batches of one size, drawn without replacement
    shuffled.py            epochs in shuffled order, anew or once
    fixed_order.py         epochs in a fixed order
    balls_in_bins.py       every example into one batch of an epoch, independently
    spread.py              a person's examples into distinct batches of an epoch
    allocation.py          every example into several distinct batches of an epoch, independently
    people.py              people instead of examples: Poisson, a fixed number, truncated

Proofs and what is tight: docs/samplings.md.
"""

from groupdp.fields import add_to
from groupdp.samplings.allocation import AllocationSampling
from groupdp.samplings.balls_in_bins import BallsInBinsSampling
from groupdp.samplings.fixed_batch import FixedBatchSampling
from groupdp.samplings.fixed_order import FixedOrderSampling
from groupdp.samplings.people import FixedPeople, PoissonPeople, TruncatedPeople
from groupdp.samplings.poisson import PoissonSampling
from groupdp.samplings.sampling import Rounds, Sampling
from groupdp.samplings.shuffled import ShuffledOnceSampling, ShuffledSampling
from groupdp.samplings.sources import PoissonSources
from groupdp.samplings.spread import SpreadSampling
from groupdp.samplings.truncated_poisson import TruncatedPoissonSampling

#: Every sampling there is, by its name in run files and on the command line.
SAMPLINGS: dict[str, type[Sampling]] = {}


def register(kind: type[Sampling]) -> type[Sampling]:
    """Offer a sampling, by its name, in run files, on the command line, in the page's form and in the API.

    A program that defines its own sampling calls this once, before it asks anything (as a decorator, say).
    """
    return add_to(SAMPLINGS, kind)


for _kind in (
    PoissonSampling,
    FixedBatchSampling,
    TruncatedPoissonSampling,
    ShuffledSampling,
    ShuffledOnceSampling,
    FixedOrderSampling,
    BallsInBinsSampling,
    SpreadSampling,
    AllocationSampling,
    PoissonSources,
    PoissonPeople,
    FixedPeople,
    TruncatedPeople,
):
    register(_kind)

__all__ = [
    "SAMPLINGS",
    "AllocationSampling",
    "BallsInBinsSampling",
    "FixedBatchSampling",
    "FixedOrderSampling",
    "FixedPeople",
    "PoissonPeople",
    "PoissonSampling",
    "PoissonSources",
    "Rounds",
    "Sampling",
    "ShuffledOnceSampling",
    "ShuffledSampling",
    "SpreadSampling",
    "TruncatedPeople",
    "TruncatedPoissonSampling",
    "register",
]
