"""A Gaussian release: a statistic of the data with Gaussian noise, computed once or several times."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar

from groupdp.fields import Field
from groupdp.mechanisms.mechanism import (
    NOISE_MULTIPLIER,
    PER_PERSON,
    RELEASES,
    Mechanism,
    moving,
    require_noise,
    steps_of,
)
from groupdp.neighbours import Change
from groupdp.pairs import ZERO, Round, Rounds, Side


@dataclass(frozen=True, slots=True)
class GaussianRelease(Mechanism):
    """`releases` statistics of all the data, each with Gaussian noise of its own.

    `noise_multiplier` is the noise's standard deviation over the sensitivity to ONE example: how far, in the Euclidean
    norm, a statistic moves at most where one example is added, removed or zeroed. It is the sensitivity to adding one,
    not to replacing one. k examples move it by up to k times as much. With `per_person` the sensitivity is that to all
    examples of a person together, and the group size does not enter.
    """

    noise_multiplier: float
    _: KW_ONLY
    releases: int = 1
    per_person: bool = False

    name: ClassVar[str] = "gaussian"
    title: ClassVar[str] = "a Gaussian release"
    meaning: ClassVar[str] = "Statistics of all the data, each with Gaussian noise of its own."
    fields: ClassVar[tuple[Field, ...]] = (
        replace(
            NOISE_MULTIPLIER,
            unit="× sensitivity",
            meaning="Standard deviation of the noise over the sensitivity to one example.",
        ),
        RELEASES,
        PER_PERSON,
    )

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        require_noise(self.noise_multiplier)

    def rounds(self, change: Change) -> Rounds:
        """N(m / sigma, 1) against N(0, 1) for m changes of one example or person, by the triangle inequality (P-0).

        Attained: those that leave move the statistic by +e each, those that join by -e.
        """
        moved = steps_of(change, per_person=self.per_person)
        shift = moved / self.noise_multiplier if self.noise_multiplier > 0.0 else math.inf
        return ((Round.of(Side.point(shift if moved else 0.0), ZERO), self.releases),)

    def is_tight(self, change: Change) -> bool:
        return True

    def assumptions(self) -> tuple[str, ...]:
        return (
            f"{moving(per_person=self.per_person)} moves each released statistic by at most the stated sensitivity, "
            "in the Euclidean norm.",
            "Every release has independent Gaussian noise of standard deviation (noise multiplier x sensitivity).",
        )
