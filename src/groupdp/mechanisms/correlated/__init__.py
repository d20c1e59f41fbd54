"""Correlated noise for groups: DP-FTRL, BandMF and BLT; BandMF with the usual matrix, described by numbers alone.

strategies.py      the matrices C: norms of columns, errors of prefix sums
toeplitz.py        those whose entries depend on the distance from the diagonal
sensitivities.py   how far a group moves C x: worst patterns, shares of a row's variance
participation.py   who takes part when, and the rounds that follow

The theorems are in docs/internals/correlated-noise.md.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from groupdp.errors import InvalidArgument, require_choice, require_integer
from groupdp.fields import Field, count, flag, probability, real
from groupdp.mechanisms.correlated.participation import CyclicPoisson as CyclicPoisson
from groupdp.mechanisms.correlated.participation import FixedEpochs as FixedEpochs
from groupdp.mechanisms.correlated.participation import MinimumSeparation as MinimumSeparation
from groupdp.mechanisms.correlated.participation import NoiseScale, Participation
from groupdp.mechanisms.correlated.participation import SeparatedPoisson as SeparatedPoisson
from groupdp.mechanisms.correlated.strategies import LARGEST_BANDS, Strategy
from groupdp.mechanisms.correlated.strategies import LowerTriangular as LowerTriangular
from groupdp.mechanisms.correlated.strategies import Tree as Tree
from groupdp.mechanisms.correlated.toeplitz import BandedToeplitz as BandedToeplitz
from groupdp.mechanisms.correlated.toeplitz import BufferedLinearToeplitz as BufferedLinearToeplitz
from groupdp.mechanisms.correlated.toeplitz import PrefixSum as PrefixSum
from groupdp.mechanisms.mechanism import NOISE_MULTIPLIER, Mechanism, require_noise
from groupdp.neighbours import SAME_SIZE, Change
from groupdp.pairs import AnyRound, Branch, Round, Rounds, Side

#: Most rounds of a run with correlated noise.
LARGEST_ROUNDS = 10**7
NORMALISATIONS = ("as-given", "unit-columns")


@dataclass(frozen=True, slots=True)
class CorrelatedNoise(Mechanism):
    """`steps` releases y = C x + noise, x_t the clipped sum of round t, C the strategy (docs/correlated-noise.md).

    With clipping norm 1 the noise has standard deviation `noise_multiplier` where `normalisation` is "as-given", and
    `noise_multiplier` times the largest column norm of C where it is "unit-columns" (as if C had been divided by it).
    There is no default: libraries differ, and a wrong guess changes epsilon by the column norm.

    Formal guarantee: theorems M-2 to M-11, by participation. Model updates are post-processing of y.
    """

    strategy: Strategy
    participation: Participation
    _: KW_ONLY
    noise_multiplier: float
    steps: int
    normalisation: str

    name: ClassVar[str] = "correlated-noise"
    title: ClassVar[str] = "correlated noise"
    refusals: ClassVar[dict[str, str]] = {}

    def __post_init__(self) -> None:
        if not isinstance(self.strategy, Strategy):
            raise InvalidArgument("strategy", self.strategy, "be a strategy like BandedToeplitz((1.0, 0.5))")
        if not isinstance(self.participation, Participation):
            raise InvalidArgument(
                "participation", self.participation, "be one like CyclicPoisson(parts=4, rate=0.01, assigned='person')"
            )
        object.__setattr__(self, "noise_multiplier", require_noise(self.noise_multiplier))
        steps = require_integer("steps", self.steps, at_least=1, at_most=LARGEST_ROUNDS)
        object.__setattr__(self, "steps", steps)
        require_choice("normalisation", self.normalisation, NORMALISATIONS)
        self.participation.check(self.strategy, steps)
        self.strategy.column_norms(steps)  # a matrix given row by row has its own number of steps

    @property
    def column_norm(self) -> float:
        """The largest norm of a column of C, rounded up."""
        return float(np.max(self.strategy.column_norms(self.steps)))

    @property
    def standard_deviation(self) -> float:
        """The noise's standard deviation for a clipping norm of 1."""
        scale = 1.0 if self.normalisation == "as-given" else self.column_norm
        return self.noise_multiplier * scale

    @property
    def prefix_error(self) -> float:
        """The total squared error of all prefix sums of gradients clipped to 1, not certified: smaller is better."""
        return self.standard_deviation**2 * self.strategy.prefix_error(self.steps)

    def rounds(self, change: Change) -> Rounds:
        return _rounds(self, change)

    def is_tight(self, change: Change) -> bool:
        return self.participation.is_tight(self.strategy, self.steps, change)

    def assumptions(self) -> tuple[str, ...]:
        return (
            "Every example's gradient is clipped on its own, and a round's sum depends on the batch in no other way "
            "(no batch normalisation, no division by the realised batch size).",
            f"The run releases C x + z, where C is {self.strategy.describe()} and z is independent Gaussian noise of "
            f"standard deviation {self.standard_deviation!r} times the clipping norm ({self._normalised()}).",
            *self.participation.assumptions(),
        )

    def _normalised(self) -> str:
        norm = f"largest column norm {self.column_norm!r}"
        if self.normalisation == "as-given":
            return f"the noise multiplier itself; C as given, {norm}"
        return f"the noise multiplier times C's {norm}"

    @property
    def releases(self) -> int:
        return self.steps

    def describe(self) -> str:
        return (
            f"correlated noise, {self.strategy.describe()}, {self.participation!r}, noise multiplier "
            f"{self.noise_multiplier!r} ({self._normalised()}), {self.steps} steps"
        )

    def require_adjacency(self, adjacency: str) -> None:
        if self.participation.places_depend_on_others and adjacency not in SAME_SIZE:
            raise InvalidArgument(
                "adjacency",
                adjacency,
                f"be {' or '.join(SAME_SIZE)} where parts are cut by position",
                "removing a person moves everybody after them to another part",
            )
        Mechanism.require_adjacency(self, adjacency)


@lru_cache(maxsize=64)
def _rounds(run: CorrelatedNoise, change: Change) -> Rounds:
    scale = NoiseScale(1.0 if run.normalisation == "as-given" else run.column_norm, run.noise_multiplier)
    rounds = run.participation.rounds(run.strategy, run.steps, change, scale)
    slack = run.participation.rounding(run.strategy, run.steps)
    if slack == 0.0:
        return rounds
    return tuple((_with_lower(round_, slack), times) for round_, times in rounds)


def _with_lower(round_: AnyRound, slack: float) -> AnyRound:
    """The round with one of smaller shifts for lower sides: norms are rounded up (M-1)."""
    if not isinstance(round_, Round):
        return round_
    branches = (Branch(_smaller(branch.right, slack), _smaller(branch.left, slack)) for branch in round_.branches)
    return Round(round_.branches, round_.log_weights, Round(branches, round_.log_weights))


def _smaller(side: Side, slack: float) -> Side:
    return Side.merged(side.shifts * (1.0 - slack), (side.probabilities, side.log_probabilities))


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
        count(
            "bands",
            "Bands of the matrix (1 - x)^(-1/2), and parts of the data.",
            (4, 1, 64),
            unit="bands",
            at_most=LARGEST_BANDS,
        ),
        real(
            "part_rate",
            "Probability that an example joins a batch of its part.",
            (0.04, 1e-4, 1.0),
            attribute="rate",
            label="Sampling rate in a part",
            unit="probability",
            above=0.0,
            at_most=1.0,
            parser=lambda key, value: float(probability(key, value)),
        ),
        replace(
            NOISE_MULTIPLIER,
            unit="× clipping norm × column norm",
            meaning="Standard deviation of the noise over the clipping norm times the matrix's column norm.",
        ),
        count("steps", "Number of rounds.", (2000, 1, 1_000_000), unit="rounds", at_most=LARGEST_ROUNDS),
        flag("one_part", "All of a person's examples are in one part, by a hash of the person."),
    )

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        require_noise(self.noise_multiplier)

    @property
    def run(self) -> CorrelatedNoise:
        """The same run with its matrix and its participation."""
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
