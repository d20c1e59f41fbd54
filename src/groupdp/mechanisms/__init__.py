"""What releases something about people: one file a mechanism, each with its rounds, assumptions and names.

    mechanism.py   what every mechanism says about itself
    dpsgd.py       a DP-SGD run, or one phase of it
    gaussian.py    a Gaussian release of a statistic
    laplace.py, discrete_gaussian.py   releases with other noise
    approximate_dp.py   a black box known by its (epsilon, delta)
    correlated/    correlated noise: DP-FTRL, BandMF, BLT
    imported.py    privacy losses that another accountant computed
    of_group.py, search.py   a mechanism with a group size of its own; the best of several runs
    mixture.py     a mixture of Gaussians against one Gaussian
    named_values.py   a phase from named values: a run file's, the command line's, a request's

A run is a mechanism or a sequence of mechanisms, composed.
"""

from groupdp.fields import add_to
from groupdp.mechanisms.approximate_dp import ApproximateDP
from groupdp.mechanisms.correlated.mechanism import BandMF, CorrelatedNoise
from groupdp.mechanisms.discrete_gaussian import DiscreteGaussianRelease
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.mechanisms.gaussian import GaussianRelease
from groupdp.mechanisms.laplace import LaplaceRelease
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.mechanisms.mixture import MixtureOfGaussians
from groupdp.mechanisms.search import Search

#: Mechanisms that a run file can describe, by their names there; a phase that names none is DP-SGD.
MECHANISMS: dict[str, type[Mechanism]] = {}


def register(kind: type[Mechanism]) -> type[Mechanism]:
    """Offer a mechanism, by its name, in run files, on the command line, in the page's form and in the API.

    A program that defines its own mechanism calls this once, before it asks anything (as a decorator, say).
    """
    return add_to(MECHANISMS, kind)


for _kind in (DPSGD, GaussianRelease, LaplaceRelease, DiscreteGaussianRelease, ApproximateDP, BandMF):
    register(_kind)

__all__ = [
    "DPSGD",
    "MECHANISMS",
    "ApproximateDP",
    "CorrelatedNoise",
    "DiscreteGaussianRelease",
    "GaussianRelease",
    "LaplaceRelease",
    "Mechanism",
    "MixtureOfGaussians",
    "Search",
    "register",
]
