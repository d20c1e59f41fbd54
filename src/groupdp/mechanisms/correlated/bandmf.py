"""BandMF with the usual matrix, described by numbers alone: for run files, the command line, the page and the API."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar

from groupdp._validation import require_boolean, require_integer
from groupdp.fields import Field, Slider, probability
from groupdp.mechanisms.correlated.mechanism import LARGEST_ROUNDS, CorrelatedNoise
from groupdp.mechanisms.correlated.participation import CyclicPoisson
from groupdp.mechanisms.correlated.strategies import LARGEST_BANDS
from groupdp.mechanisms.correlated.toeplitz import BandedToeplitz
from groupdp.mechanisms.mechanism import NOISE_MULTIPLIER, Mechanism, require_noise
from groupdp.neighbours import Change
from groupdp.pairs import Rounds


@dataclass(frozen=True, slots=True)
class BandMF(Mechanism):
    """Correlated noise with the first `bands` coefficients of (1 - x)^(-1/2), and cyclic Poisson sampling.

    The data are in as many parts as bands; part t mod `bands` has round t, and includes each of its examples with
    probability `rate`. The noise has standard deviation noise multiplier x clipping norm x column norm of the matrix
    ("unit-columns", as in JAX Privacy). `one_part`: all of a person's examples are in one part (M-2), and otherwise
    each example's part depends on that example alone (M-3). Other matrices are described by `CorrelatedNoise`.
    """

    _: KW_ONLY
    bands: int
    rate: float
    noise_multiplier: float
    steps: int
    one_part: bool = False

    name: ClassVar[str] = "bandmf"
    title: ClassVar[str] = "BandMF"
    meaning: ClassVar[str] = "Banded correlated noise with cyclic Poisson sampling, one part of the data a band."
    fields: ClassVar[tuple[Field, ...]] = (
        Field(
            name="bands",
            unit="bands",
            meaning="Bands of the matrix (1 - x)^(-1/2), and parts of the data.",
            kind="integer",
            at_least=1,
            at_most=LARGEST_BANDS,
            example="4",
            slider=Slider(start=4, low=1, high=64),
        ),
        Field(
            name="part_rate",
            attribute="rate",
            label="Sampling rate in a part",
            unit="probability",
            meaning="Probability that an example of the part in turn joins a batch.",
            kind="number",
            above=0.0,
            at_most=1.0,
            parser=lambda key, value: float(probability(key, value)),
            example="0.04",
            slider=Slider(start=0.04, low=1e-4, high=1.0),
        ),
        replace(
            NOISE_MULTIPLIER,
            unit="× clipping norm × column norm",
            meaning="Standard deviation of the noise over the clipping norm times the matrix's column norm.",
        ),
        Field(
            name="steps",
            unit="rounds",
            meaning="Number of rounds.",
            kind="integer",
            at_least=1,
            at_most=LARGEST_ROUNDS,
            example="2000",
            slider=Slider(start=2000, low=1, high=1_000_000),
        ),
        Field(
            name="one_part",
            unit="",
            meaning="All of a person's examples are in one part, by a hash of the person.",
            kind="flag",
            default=False,
            slider=Slider(start=False),
        ),
    )

    def __post_init__(self) -> None:
        bands = require_integer("bands", self.bands, at_least=1, at_most=LARGEST_BANDS)
        object.__setattr__(self, "bands", bands)
        object.__setattr__(self, "noise_multiplier", require_noise(self.noise_multiplier))
        object.__setattr__(self, "one_part", require_boolean("one_part", self.one_part))
        run = self.run
        object.__setattr__(self, "rate", run.participation.rate)  # type: ignore[attr-defined]
        object.__setattr__(self, "steps", run.steps)

    @property
    def run(self) -> CorrelatedNoise:
        """The same with its matrix and its participation."""
        return CorrelatedNoise(
            BandedToeplitz.square_root(self.bands),
            CyclicPoisson(parts=self.bands, rate=self.rate, assigned="person" if self.one_part else "example"),
            noise_multiplier=self.noise_multiplier,
            steps=self.steps,
            normalisation="unit-columns",
        )

    @property
    def releases(self) -> int:
        return self.steps

    def rounds(self, change: Change) -> Rounds:
        return self.run.rounds(change)

    def is_tight(self, change: Change) -> bool:
        return self.run.is_tight(change)

    def assumptions(self) -> tuple[str, ...]:
        return self.run.assumptions()
