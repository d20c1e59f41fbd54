"""A Laplace release: a statistic of the data with Laplace noise, computed once or several times."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar

from groupdp.fields import Field
from groupdp.losses import LaplaceRound
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
class LaplaceRelease(Mechanism):
    """`releases` statistics of all the data, each with Laplace noise of its own on every coordinate.

    `noise_multiplier` is the noise's scale b (its density is proportional to e^{-|y| / b}) over the sensitivity to ONE
    example: how far, in the L1 norm, a statistic moves at most where one example is added, removed or zeroed. k
    examples move it by up to k times as much. With `per_person` the sensitivity is that to all examples of a person
    together, and the group size does not enter.
    """

    noise_multiplier: float
    _: KW_ONLY
    releases: int = 1
    per_person: bool = False

    name: ClassVar[str] = "laplace"
    title: ClassVar[str] = "a Laplace release"
    meaning: ClassVar[str] = "Statistics of all the data, each with Laplace noise of its own."
    fields: ClassVar[tuple[Field, ...]] = (
        replace(
            NOISE_MULTIPLIER, unit="× sensitivity", meaning="Scale of the noise over the L1 sensitivity to one example."
        ),
        RELEASES,
        PER_PERSON,
    )

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        require_noise(self.noise_multiplier)

    def rounds(self, change: Change) -> Rounds:
        """Laplace(m / b, 1) against Laplace(0, 1) for m changes of one example or person (R-1).

        Attained by a number that every one of them moves in the same direction.
        """
        moved = steps_of(change, per_person=self.per_person)
        if self.noise_multiplier == 0.0:
            return ((Round.of(Side.point(math.inf if moved else 0.0), ZERO), self.releases),)
        return ((LaplaceRound(moved / self.noise_multiplier), self.releases),)

    def is_tight(self, change: Change) -> bool:
        return True

    def assumptions(self) -> tuple[str, ...]:
        return (
            f"{moving(per_person=self.per_person)} moves each released statistic by at most the stated "
            "sensitivity, in the L1 norm.",
            "Every coordinate of every release has independent Laplace noise of scale (noise multiplier x "
            "sensitivity).",
        )
