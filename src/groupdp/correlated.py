"""Correlated noise (DP-FTRL, BandMF, BLT): strategies, participations, and how many bands to choose.

    run = groupdp.CorrelatedNoise(
        correlated.BandedToeplitz.square_root(4),
        correlated.CyclicPoisson(parts=4, rate=0.04, assigned="person"),
        noise_multiplier=2.0, steps=2000, normalisation="unit-columns",
    )
    groupdp.epsilon(run, delta=1e-6, group_size=3)

The theorems are in docs/internals/correlated-noise.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from groupdp.bounds import Bounds
from groupdp.calibration import calibrate_noise
from groupdp.data.choice import priority
from groupdp.errors import InvalidArgument, require_integer, require_number
from groupdp.guarantees import epsilon as epsilon_of
from groupdp.mechanisms.correlated import (
    BandedToeplitz,
    BandMF,
    BufferedLinearToeplitz,
    CorrelatedNoise,
    CyclicPoisson,
    FixedEpochs,
    LowerTriangular,
    MinimumSeparation,
    PrefixSum,
    SeparatedPoisson,
    Tree,
)
from groupdp.mechanisms.correlated.strategies import Strategy

__all__ = [
    "BandMF",
    "BandedToeplitz",
    "BandsRow",
    "BufferedLinearToeplitz",
    "CorrelatedNoise",
    "CyclicPoisson",
    "FixedEpochs",
    "LowerTriangular",
    "MinimumSeparation",
    "PrefixSum",
    "SeparatedPoisson",
    "Tree",
    "bands_table",
    "part_of",
]

#: Most numbers of bands in one table.
MOST_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BandsRow:
    """One number of bands: epsilon and error at the given noise, and noise and error at the target epsilon."""

    bands: int
    run: CorrelatedNoise
    epsilon: Bounds
    squared_error: float
    """Total squared error of all prefix sums of gradients clipped to 1, not certified: smaller is better."""
    calibrated: CorrelatedNoise | None = None
    """The run with the least noise that meets the target epsilon; None without a target."""

    @property
    def calibrated_error(self) -> float | None:
        """The squared error with the calibrated noise."""
        return None if self.calibrated is None else self.calibrated.prefix_error


def bands_table(
    bands: Iterable[int],
    *,
    sampling_rate: float,
    steps: int,
    noise_multiplier: float,
    normalisation: str,
    assigned: str,
    delta: float,
    group_size: int,
    epsilon: float | None = None,
    adjacency: str = "add-or-remove",
    strategy: Callable[[int], Strategy] = BandedToeplitz.square_root,
) -> tuple[BandsRow, ...]:
    """Bands against privacy and error, for cyclic Poisson sampling with as many parts as bands.

    `sampling_rate` is the expected batch over the whole dataset, the same for every row: with b parts each example of
    a part is included with probability b * sampling_rate. More bands make smaller errors and amplify less. With
    `epsilon`, every row also has the noise that meets it, so that errors at equal privacy stand side by side.
    """
    counts = [require_integer("bands", count, at_least=1) for count in bands]
    if not 1 <= len(counts) <= MOST_ROWS:
        raise InvalidArgument("bands", len(counts), f"be from 1 to {MOST_ROWS} numbers")
    rate = require_number("sampling_rate", sampling_rate, above=0.0, at_most=1.0)
    if max(counts) * rate > 1.0:
        raise InvalidArgument(
            "bands", max(counts), f"be at most 1 / sampling_rate = {1.0 / rate:g}: a part then has a batch of examples"
        )
    question: dict[str, Any] = {"delta": delta, "group_size": group_size, "adjacency": adjacency}
    rows = []
    for count in counts:
        run = CorrelatedNoise(
            strategy(count),
            CyclicPoisson(parts=count, rate=count * rate, assigned=assigned),
            noise_multiplier=noise_multiplier,
            steps=steps,
            normalisation=normalisation,
        )
        calibrated: Any = None if epsilon is None else calibrate_noise(run, epsilon=epsilon, **question).run
        rows.append(
            BandsRow(
                bands=count,
                run=run,
                epsilon=epsilon_of(run, **question),
                squared_error=run.prefix_error,
                calibrated=calibrated,
            )
        )
    return tuple(rows)


def part_of(person: Any, parts: int, key: str) -> int:
    """The part, from 0 to parts - 1, of all examples of a person: a keyed hash of the id, which M-2 needs.

    It depends on the person and the key alone, so that adding or removing others moves nobody, and it is the same in
    every version (the hash of `data/choice.py`). `person` is text, an integer or a UUID.
    """
    count = require_integer("parts", parts, at_least=1)
    if not isinstance(key, str) or not key:
        raise InvalidArgument("key", key, "be a non-empty text")
    return priority(key, person, "part") % count
