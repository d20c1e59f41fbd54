"""A DP-SGD run, or one phase of it, as the user describes it. Nothing here computes privacy."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, ClassVar

from groupdp.errors import LARGEST_COUNT, InvalidArgument
from groupdp.fields import Field, count, exact, real
from groupdp.mechanisms.mechanism import NOISE_MULTIPLIER, Mechanism, mechanisms_of, require_noise
from groupdp.neighbours import Change
from groupdp.pairs import Rounds
from groupdp.samplings.sampling import Described, Sampling


def steps_of_epochs(epochs: Fraction, fraction_of_data: Fraction) -> int:
    """Rounds in `epochs` passes, each round visiting `fraction_of_data` of the data.

    That fraction is the sampling rate, or batch size / dataset size. Every pass is rounded up to
    whole rounds, also a last one that is cut short: a loader that keeps the smaller last batch of a pass runs that
    many, and no usual meaning of an epoch is more. A run with fewer rounds states them as steps. The arithmetic is
    exact: 20 epochs at a rate of 0.01 are 2000 rounds, not 2001.
    """
    whole, part = divmod(epochs, 1)
    steps = whole * math.ceil(1 / fraction_of_data) + math.ceil(part / fraction_of_data)
    if steps > LARGEST_COUNT:
        raise InvalidArgument("epochs", float(epochs), f"amount to at most {LARGEST_COUNT} steps")
    return steps


#: Instead of steps.
EPOCHS = real(
    "epochs",
    "Instead of steps: passes over the data, rounded up to whole steps.",
    (20, 0.1, 1000.0),
    unit="passes",
    at_least=0.0,
    parser=lambda key, value: exact(key, value, at_least=0.0),
    example="15",
)


@dataclass(frozen=True, slots=True)
class DPSGD(Mechanism):
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

    name: ClassVar[str] = "dpsgd"
    title: ClassVar[str] = "DP-SGD"
    meaning: ClassVar[str] = (
        "Steps of training on batches, with Gaussian noise added to every sum of clipped gradients."
    )
    fields: ClassVar[tuple[Field, ...]] = (
        NOISE_MULTIPLIER,
        count("steps", "Number of steps, each with one batch.", (2000, 1, 100_000), unit="rounds", at_least=0),
        count(
            "microbatch_size",
            "Examples averaged before clipping; 1 if each is clipped on its own.",
            (1, 1, 64),
            logarithmic=False,
            label="Microbatch",
            unit="examples",
            default=1,
            example="4",
        ),
    )

    def __post_init__(self) -> None:
        if not isinstance(self.sampling, Sampling):
            raise InvalidArgument(
                "sampling", self.sampling, "be one of groupdp's samplings, like PoissonSampling(rate=0.01)"
            )
        Mechanism.__post_init__(self)
        require_noise(self.noise_multiplier)

    def __repr__(self) -> str:
        micro = f", microbatch_size={self.microbatch_size}" if self.in_microbatches else ""
        return f"DPSGD({self.sampling!r}, noise_multiplier={self.noise_multiplier!r}, steps={self.steps}{micro})"

    @classmethod
    def from_epochs(
        cls, sampling: Sampling, *, noise_multiplier: float, epochs: float | str | Fraction, microbatch_size: int = 1
    ) -> DPSGD:
        """A run of `epochs` passes over the data, each rounded up to whole steps (`steps_of_epochs`)."""
        if not isinstance(sampling, Sampling):
            raise InvalidArgument("sampling", sampling, "be one of groupdp's samplings")
        steps = steps_of_epochs(EPOCHS.read(epochs), sampling.share_of_data())
        return cls(sampling, noise_multiplier=noise_multiplier, steps=steps, microbatch_size=microbatch_size)

    @property
    def in_microbatches(self) -> bool:
        """Whether averages of several examples are clipped instead of single examples."""
        return self.microbatch_size > 1

    def values(self) -> dict[str, Any]:
        """Its fields and its sampling's, by their names in run files."""
        return {"sampling": self.sampling.name, **self.sampling.values(), **Described.values(self)}

    def all_fields(self) -> tuple[Field, ...]:
        return (*self.sampling.fields, *self.fields)

    @property
    def releases(self) -> int:
        return self.steps

    @property
    def sources(self) -> tuple[str, ...] | None:
        return self.sampling.sources

    @property
    def unit(self) -> str:
        return self.sampling.unit

    def share_of_data(self) -> Fraction:
        return self.sampling.share_of_data()

    def require_adjacency(self, adjacency: str) -> None:
        self.sampling.require_adjacency(adjacency)

    def rounds(self, change: Change) -> Rounds:
        return self.sampling.rounds(
            change, noise=self.noise_multiplier, steps=self.steps, microbatches=self.in_microbatches
        )

    def alternatives(self, change: Change) -> tuple[Rounds, ...]:
        return self.sampling.alternatives(
            change, noise=self.noise_multiplier, steps=self.steps, microbatches=self.in_microbatches
        )

    def is_tight(self, change: Change) -> bool:
        """Whether the sampling's bound is tight; no attack is known that attains it with microbatches."""
        return self.steps == 0 or (self.sampling.is_tight(change, steps=self.steps) and not self.in_microbatches)

    def describe(self) -> str:
        micro = f", microbatches of {self.microbatch_size}" if self.in_microbatches else ""
        steps = f"{self.steps} step{'' if self.steps == 1 else 's'}"
        return f"{self.sampling.describe()}, noise multiplier {self.noise_multiplier!r}{micro}, {steps}"

    def assumptions(self) -> tuple[str, ...]:
        return (
            *self.sampling.assumptions(microbatches=self.in_microbatches),
            _AVERAGES_CLIPPED if self.in_microbatches else self.sampling.clipping,
            "Every round adds independent Gaussian noise of standard deviation (noise multiplier x clipping norm) to "
            "the sum of the batch, from a generator whose output cannot be distinguished from true randomness.",
            "Every iterate may be released: all checkpoints are covered, not only the last one.",
        )


_AVERAGES_CLIPPED = (
    "Where microbatches are stated, averages of that many gradients are clipped, not single gradients. One example "
    "then moves a clipped average by up to twice the clipping norm, so the sensitivity is doubled, except where "
    "one example replaces another, which has doubled it already."
)


def phases_of(run: Any) -> tuple[DPSGD, ...]:
    """A run or a sequence of runs, as a tuple of phases."""
    phases = tuple(phase for phase in mechanisms_of(run) if isinstance(phase, DPSGD))
    if len(phases) < (1 if isinstance(run, Mechanism) else len(run)):
        raise InvalidArgument("run", run, "be a DPSGD or a non-empty sequence of them")
    return phases
