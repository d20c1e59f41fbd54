"""What the user describes: a DP-SGD run, phase by phase.

Descriptions are frozen and validate themselves; nothing here computes privacy.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any

from groupdp._moved import moved_to
from groupdp._validation import LARGEST_COUNT, require_fraction, require_integer, require_number, shown
from groupdp.epochs import steps_of_epochs
from groupdp.errors import InvalidArgument
from groupdp.samplings.sampling import Sampling

#: Smallest noise multiplier above zero that is accepted (zero itself is: it means no privacy).
SMALLEST_NOISE = 1e-6
#: Largest noise multiplier accepted.
LARGEST_NOISE = 1e18


@dataclass(frozen=True, slots=True)
class DPSGD:
    """A run (or one phase of a run): `steps` rounds with the same sampling and noise.

    Each round clips every example's gradient to norm L, sums over the sampled batch and adds Gaussian
    noise of standard deviation `noise_multiplier` * L; every iterate may be released.

    `microbatch_size` above 1 means that averages of that many examples are clipped instead of single
    examples. One example then moves a clipped average by up to 2L instead of L.
    """

    sampling: Sampling
    _: KW_ONLY  # DPSGD(sampling, 1000, 1.0) would be an easy and silent mistake
    noise_multiplier: float
    steps: int
    microbatch_size: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.sampling, Sampling):
            raise InvalidArgument(
                f"sampling must be one of groupdp's samplings, like PoissonSampling(rate=0.01), got "
                f"{shown(self.sampling)}."
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

    def __repr__(self) -> str:
        micro = f", microbatch_size={self.microbatch_size}" if self.in_microbatches else ""
        return f"DPSGD({self.sampling!r}, noise_multiplier={self.noise_multiplier!r}, steps={self.steps}{micro})"

    @classmethod
    def from_epochs(
        cls, sampling: Sampling, *, noise_multiplier: float, epochs: float | str | Fraction, microbatch_size: int = 1
    ) -> DPSGD:
        """A run of so many passes over the data, each rounded up to whole steps (`steps_of_epochs`)."""
        if not isinstance(sampling, Sampling):
            raise InvalidArgument(f"sampling must be one of groupdp's samplings, got {shown(sampling)}.")
        passes = require_fraction("epochs", epochs)
        steps = steps_of_epochs(passes, sampling.share_of_data())
        return cls(sampling, noise_multiplier=noise_multiplier, steps=steps, microbatch_size=microbatch_size)

    @property
    def in_microbatches(self) -> bool:
        """Whether averages of several examples are clipped instead of single examples."""
        return self.microbatch_size > 1


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


__getattr__ = moved_to(__name__, "groupdp.samplings", "PoissonSampling", "FixedBatchSampling")
