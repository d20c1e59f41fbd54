"""A Gaussian release: a statistic of the data with Gaussian noise, computed once or several times."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar

from groupdp._validation import require_integer
from groupdp.fields import Field, Slider
from groupdp.groups import total
from groupdp.mechanisms.mechanism import NOISE_MULTIPLIER, Mechanism, require_noise
from groupdp.neighbours import Change
from groupdp.pairs import ZERO, Round, Rounds, Side


@dataclass(frozen=True, slots=True)
class GaussianRelease(Mechanism):
    """`releases` statistics of all the data, each with Gaussian noise of its own.

    `noise_multiplier` is the noise's standard deviation over the sensitivity to ONE example: how far, in the Euclidean
    norm, a statistic moves at most where one example is added, removed or zeroed. It is the sensitivity to adding one,
    not to replacing one.
    """

    noise_multiplier: float
    _: KW_ONLY
    releases: int = 1

    name: ClassVar[str] = "gaussian"
    title: ClassVar[str] = "a Gaussian release"
    meaning: ClassVar[str] = "Statistics of all the data, each with Gaussian noise of its own."
    fields: ClassVar[tuple[Field, ...]] = (
        replace(
            NOISE_MULTIPLIER,
            unit="× sensitivity",
            meaning="Standard deviation of the noise over the sensitivity to one example.",
        ),
        Field(
            name="releases",
            unit="releases",
            meaning="How many statistics are released.",
            kind="integer",
            at_least=0,
            default=1,
            example="3",
            slider=Slider(start=1, low=1, high=1000),
        ),
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", require_noise(self.noise_multiplier))
        object.__setattr__(self, "releases", require_integer("releases", self.releases, at_least=0))

    def rounds(self, change: Change) -> Rounds:
        """N((a + b) / sigma, 1) against N(0, 1) for a removed and b added examples, by the triangle inequality (P-0).

        Attained: the examples that leave move the statistic by +e each, those that join by -e.
        """
        moved = total(change.removed) + total(change.added)
        shift = moved / self.noise_multiplier if self.noise_multiplier > 0.0 else math.inf
        return ((Round.of(Side.point(shift if moved else 0.0), ZERO), self.releases),)

    def is_tight(self, change: Change) -> bool:
        return True

    def assumptions(self) -> tuple[str, ...]:
        return (
            "Adding, removing or zeroing one example moves each released statistic by at most the stated sensitivity, "
            "in the Euclidean norm.",
            "Every release has independent Gaussian noise of standard deviation (noise multiplier x sensitivity).",
        )
