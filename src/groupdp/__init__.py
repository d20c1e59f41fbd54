"""Certified group-level differential privacy for DP-SGD.

    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
    groupdp.epsilon(run, delta=1e-6, group_size=9)      # Bounds(lower=..., upper=...)

Importing loads next to nothing: the names of `_ON_DEMAND` are loaded when first used. The audit of training loops is
the subpackage `groupdp.audit`; strategies and participations of correlated noise are in `groupdp.correlated`.
"""

from __future__ import annotations

import importlib

from groupdp._version import VERSION as __version__

TYPE_CHECKING = False  # type checkers take it as true; typing itself is not loaded for it
if TYPE_CHECKING:
    from typing import Any

    from groupdp.baselines import linear_reference as linear_reference
    from groupdp.baselines import renyi_vadhan_epsilon as renyi_vadhan_epsilon
    from groupdp.baselines import vadhan_epsilon as vadhan_epsilon
    from groupdp.baselines.adaptive import filter_epsilon as filter_epsilon
    from groupdp.baselines.adaptive import tuned_epsilon as tuned_epsilon
    from groupdp.baselines.fdp import fdp_epsilon as fdp_epsilon
    from groupdp.bounds import Bounds as Bounds
    from groupdp.bounds import Provenance as Provenance
    from groupdp.calibration import Calibration as Calibration
    from groupdp.calibration import calibrate_batch_size as calibrate_batch_size
    from groupdp.calibration import calibrate_group_size as calibrate_group_size
    from groupdp.calibration import calibrate_noise as calibrate_noise
    from groupdp.calibration import calibrate_rate as calibrate_rate
    from groupdp.calibration import calibrate_steps as calibrate_steps
    from groupdp.errors import GroupDPError as GroupDPError
    from groupdp.errors import InvalidArgument as InvalidArgument
    from groupdp.errors import LimitExceeded as LimitExceeded
    from groupdp.guarantees import delta as delta
    from groupdp.guarantees import epsilon as epsilon
    from groupdp.guarantees import log_delta as log_delta
    from groupdp.loading.inspection import inspect as inspect
    from groupdp.mechanisms import DPSGD as DPSGD
    from groupdp.mechanisms import ApproximateDP as ApproximateDP
    from groupdp.mechanisms import CorrelatedNoise as CorrelatedNoise
    from groupdp.mechanisms import DiscreteGaussianRelease as DiscreteGaussianRelease
    from groupdp.mechanisms import GaussianRelease as GaussianRelease
    from groupdp.mechanisms import LaplaceRelease as LaplaceRelease
    from groupdp.mechanisms import Mechanism as Mechanism
    from groupdp.mechanisms import MixtureOfGaussians as MixtureOfGaussians
    from groupdp.mechanisms import Search as Search
    from groupdp.people import people_view as people_view
    from groupdp.people.cap import choose_cap as choose_cap
    from groupdp.people.plan import plan as plan
    from groupdp.pld import PrivacyLossDistribution as PrivacyLossDistribution
    from groupdp.samplings import AllocationSampling as AllocationSampling
    from groupdp.samplings import BallsInBinsSampling as BallsInBinsSampling
    from groupdp.samplings import FixedBatchSampling as FixedBatchSampling
    from groupdp.samplings import FixedOrderSampling as FixedOrderSampling
    from groupdp.samplings import FixedPeople as FixedPeople
    from groupdp.samplings import PoissonPeople as PoissonPeople
    from groupdp.samplings import PoissonSampling as PoissonSampling
    from groupdp.samplings import PoissonSources as PoissonSources
    from groupdp.samplings import ShuffledOnceSampling as ShuffledOnceSampling
    from groupdp.samplings import ShuffledSampling as ShuffledSampling
    from groupdp.samplings import SpreadSampling as SpreadSampling
    from groupdp.samplings import TruncatedPeople as TruncatedPeople
    from groupdp.samplings import TruncatedPoissonSampling as TruncatedPoissonSampling
    from groupdp.sweeps import sweep as sweep
    from groupdp.tradeoff import TradeOff as TradeOff
    from groupdp.tradeoff import trade_off as trade_off
    from groupdp.tradeoff.risk import risk as risk

#: Public names that are loaded when first used, by module.
_ON_DEMAND = {
    "groupdp.bounds": "Bounds Provenance",
    "groupdp.errors": "GroupDPError InvalidArgument LimitExceeded",
    "groupdp.guarantees": "delta epsilon log_delta",
    "groupdp.loading.inspection": "inspect",
    "groupdp.mechanisms": "ApproximateDP CorrelatedNoise DPSGD DiscreteGaussianRelease GaussianRelease LaplaceRelease "
    "Mechanism MixtureOfGaussians Search",
    "groupdp.samplings": "AllocationSampling BallsInBinsSampling FixedBatchSampling FixedOrderSampling FixedPeople "
    "PoissonPeople PoissonSampling PoissonSources ShuffledOnceSampling ShuffledSampling SpreadSampling TruncatedPeople "
    "TruncatedPoissonSampling",
    "groupdp.baselines": "linear_reference renyi_vadhan_epsilon vadhan_epsilon",
    "groupdp.baselines.adaptive": "filter_epsilon tuned_epsilon",
    "groupdp.baselines.fdp": "fdp_epsilon",
    "groupdp.calibration": "Calibration calibrate_batch_size calibrate_group_size calibrate_noise calibrate_rate "
    "calibrate_steps",
    "groupdp.people.cap": "choose_cap",
    "groupdp.people.plan": "plan",
    "groupdp.people": "people_view",
    "groupdp.pld": "PrivacyLossDistribution",
    "groupdp.tradeoff.risk": "risk",
    "groupdp.sweeps": "sweep",
    "groupdp.tradeoff": "TradeOff trade_off",
}
#: Modules that are there without being imported by name.
_MODULES = "bounds correlated errors guarantees ledger loading mechanisms neighbours pairs question samplings"
_MODULE_OF = {name: module for module, names in _ON_DEMAND.items() for name in names.split()}

__all__ = ["__version__"]
__all__.extend(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name in _MODULES.split():
        return importlib.import_module(f"groupdp.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'groupdp' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
