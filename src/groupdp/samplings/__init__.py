"""How runs choose their batches: samplings, each with its laws, assumptions and names.

    sampling.py        what every sampling says about itself
    poisson.py         each example on its own, with one rate, a rate for each source, or a largest batch
    sized_batches.py   batches of one size: drawn without replacement, or dealt in epochs
    allocation.py      balls in bins, spread allocation and random allocation of an epoch's batches
    people.py          people instead of examples: Poisson, a fixed number, truncated
    audited.py         datasets that leak most, with the exact densities of what training on them releases

Proofs and what is tight: docs/internals/laws.md.
"""

from groupdp.fields import add_to
from groupdp.samplings.allocation import AllocationSampling as AllocationSampling
from groupdp.samplings.allocation import BallsInBinsSampling as BallsInBinsSampling
from groupdp.samplings.allocation import SpreadSampling as SpreadSampling
from groupdp.samplings.people import FixedPeople as FixedPeople
from groupdp.samplings.people import PoissonPeople as PoissonPeople
from groupdp.samplings.people import TruncatedPeople as TruncatedPeople
from groupdp.samplings.poisson import PoissonSampling as PoissonSampling
from groupdp.samplings.poisson import PoissonSources as PoissonSources
from groupdp.samplings.poisson import TruncatedPoissonSampling as TruncatedPoissonSampling
from groupdp.samplings.sampling import Rounds as Rounds
from groupdp.samplings.sampling import Sampling as Sampling
from groupdp.samplings.sized_batches import FixedBatchSampling as FixedBatchSampling
from groupdp.samplings.sized_batches import FixedOrderSampling as FixedOrderSampling
from groupdp.samplings.sized_batches import ShuffledOnceSampling as ShuffledOnceSampling
from groupdp.samplings.sized_batches import ShuffledSampling as ShuffledSampling

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
