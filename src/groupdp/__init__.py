"""Certified group-level differential privacy for DP-SGD.

run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
groupdp.epsilon(run, delta=1e-6, group_size=9)      # Bounds(lower=..., upper=...)
"""

from groupdp._version import VERSION as __version__
from groupdp.bounds import Bounds as Bounds
from groupdp.bounds import Provenance as Provenance
from groupdp.dpsgd import DPSGD as DPSGD
from groupdp.dpsgd import FixedBatchSampling as FixedBatchSampling
from groupdp.dpsgd import PoissonSampling as PoissonSampling
from groupdp.errors import GroupDPError as GroupDPError
from groupdp.errors import InvalidArgument as InvalidArgument
from groupdp.errors import LimitExceeded as LimitExceeded
from groupdp.guarantees import delta as delta
from groupdp.guarantees import epsilon as epsilon
from groupdp.guarantees import log_delta as log_delta
from groupdp.mixture import MixtureOfGaussians as MixtureOfGaussians

__all__ = [
    "DPSGD",
    "Bounds",
    "FixedBatchSampling",
    "GroupDPError",
    "InvalidArgument",
    "LimitExceeded",
    "MixtureOfGaussians",
    "PoissonSampling",
    "Provenance",
    "__version__",
    "delta",
    "epsilon",
    "log_delta",
]
