"""What the user describes: a DP-SGD run, phase by phase.

Descriptions are frozen and validate themselves; nothing here computes privacy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from groupdp._validation import LARGEST_COUNT, require_integer, require_number, shown
from groupdp.errors import InvalidArgument

#: Largest dataset size accepted.
LARGEST_DATASET = 10**15
#: Smallest noise multiplier above zero that is accepted (zero itself is: it means no privacy).
SMALLEST_NOISE = 1e-6
#: Largest noise multiplier accepted.
LARGEST_NOISE = 1e18


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonSampling:
    """Every round includes each example independently with probability `rate`."""

    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", require_number("rate", self.rate, above=0.0, at_most=1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedBatchSampling:
    """Every round draws `batch_size` of the dataset's examples, uniformly, without replacement."""

    batch_size: int
    dataset_size: int
    """Size of the smaller of the two neighbouring datasets: the one without the group."""

    def __post_init__(self) -> None:
        batch_size = require_integer("batch_size", self.batch_size, at_least=1, at_most=LARGEST_DATASET)
        dataset_size = require_integer("dataset_size", self.dataset_size, at_least=1, at_most=LARGEST_DATASET)
        if batch_size > dataset_size:
            raise InvalidArgument(f"batch_size must be at most dataset_size={dataset_size}, got {batch_size}.")
        object.__setattr__(self, "batch_size", batch_size)
        object.__setattr__(self, "dataset_size", dataset_size)


Sampling = PoissonSampling | FixedBatchSampling


@dataclass(frozen=True, slots=True, kw_only=True)
class DPSGD:
    """A run (or one phase of a run): `steps` rounds with the same sampling and noise.

    Each round clips every example's gradient to norm L, sums over the sampled batch and adds Gaussian
    noise of standard deviation `noise_multiplier` * L; every iterate may be released.

    `microbatch_size` above 1 means that averages of that many examples are clipped instead of single
    examples. One example then moves a clipped average by up to 2L instead of L.
    """

    sampling: Sampling
    noise_multiplier: float
    steps: int
    microbatch_size: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.sampling, PoissonSampling | FixedBatchSampling):
            raise InvalidArgument(
                f"sampling must be a PoissonSampling or a FixedBatchSampling, got {shown(self.sampling)}."
            )
        noise = require_number("noise_multiplier", self.noise_multiplier, at_least=0.0, at_most=LARGEST_NOISE)
        if 0.0 < noise < SMALLEST_NOISE:
            raise InvalidArgument(
                f"noise_multiplier must be 0 or at least {SMALLEST_NOISE:g}, got {shown(self.noise_multiplier)}."
            )
        object.__setattr__(self, "noise_multiplier", noise)
        object.__setattr__(self, "steps", require_integer("steps", self.steps, at_least=0))
        microbatch_size = require_integer("microbatch_size", self.microbatch_size, at_least=1)
        object.__setattr__(self, "microbatch_size", microbatch_size)


def phases_of(run: Any) -> tuple[DPSGD, ...]:
    """A run or a sequence of runs, as a tuple of phases."""
    if isinstance(run, DPSGD):
        return (run,)
    if isinstance(run, list | tuple) and run and all(isinstance(phase, DPSGD) for phase in run):
        phases = tuple(run)
        total = sum(phase.steps for phase in phases)
        if total > LARGEST_COUNT:
            raise InvalidArgument(f"steps must add up to at most {LARGEST_COUNT} over all phases, got {total}.")
        return phases
    raise InvalidArgument(f"run must be a DPSGD or a non-empty sequence of them, got {shown(run)}.")
