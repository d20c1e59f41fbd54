"""What releases something about people: mechanisms, each with its rounds, assumptions and names.

    mechanism.py   what every mechanism says about itself
    dpsgd.py       a DP-SGD run, or one phase of it
    releases.py    statistics with Gaussian, Laplace or discrete Gaussian noise
    black_box.py   what is known by its (epsilon, delta), or by losses that another accountant computed
    correlated/    correlated noise: DP-FTRL, BandMF, BLT
    wrappers.py    a mechanism with a group size of its own; the best of several runs
    mixture.py     a mixture of Gaussians against one Gaussian
    named_values.py   a phase from named values: a run file's, the command line's, a request's

A run is a mechanism or a sequence of mechanisms, composed.
"""

from groupdp.fields import add_to
from groupdp.mechanisms.black_box import ApproximateDP as ApproximateDP
from groupdp.mechanisms.correlated import BandMF
from groupdp.mechanisms.correlated import CorrelatedNoise as CorrelatedNoise
from groupdp.mechanisms.dpsgd import DPSGD as DPSGD
from groupdp.mechanisms.mechanism import Mechanism as Mechanism
from groupdp.mechanisms.mixture import MixtureOfGaussians as MixtureOfGaussians
from groupdp.mechanisms.releases import DiscreteGaussianRelease as DiscreteGaussianRelease
from groupdp.mechanisms.releases import GaussianRelease as GaussianRelease
from groupdp.mechanisms.releases import LaplaceRelease as LaplaceRelease
from groupdp.mechanisms.wrappers import Search as Search

#: Mechanisms that a run file can describe, by their names there; a phase that names none is DP-SGD.
MECHANISMS: dict[str, type[Mechanism]] = {}


def register(kind: type[Mechanism]) -> type[Mechanism]:
    """Offer a mechanism, by its name, in run files, on the command line, in the page's form and in the API.

    A program that defines its own mechanism calls this once, before it asks anything (as a decorator, say).
    """
    return add_to(MECHANISMS, kind)


for _kind in (DPSGD, GaussianRelease, LaplaceRelease, DiscreteGaussianRelease, ApproximateDP, BandMF):
    register(_kind)
