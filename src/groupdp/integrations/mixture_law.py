"""A mixture of Gaussians that an event spells out, as the sampling of a step: so that it composes with all others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from groupdp.errors import InvalidArgument, InWords
from groupdp.fields import Field
from groupdp.groups import is_empty
from groupdp.mechanisms.mixture import MixtureOfGaussians
from groupdp.neighbours import ADD_AND_REMOVE, EXCHANGE, ONE_SIDED, SAME_SIZE, Change
from groupdp.pairs import ZERO, Round
from groupdp.samplings import Rounds, Sampling
from groupdp.samplings.sampling import BoolArray
from groupdp.samplings.worlds import World

_ONE_SIDED = "a mixture of Gaussians is about adding and removing: describe the sampling instead"


@dataclass(frozen=True, slots=True)
class MixtureLaw(Sampling):
    """One unit moves a step's sum by a random amount whose law is stated; nothing is known of larger groups."""

    mixture: MixtureOfGaussians

    name: ClassVar[str] = "mixture"
    title: ClassVar[str] = "a stated mixture of Gaussians"
    fields: ClassVar[tuple[Field, ...]] = ()
    adjacencies: ClassVar[tuple[str, ...]] = ONE_SIDED
    refusals: ClassVar[dict[str, str]] = dict.fromkeys((*SAME_SIZE, ADD_AND_REMOVE, EXCHANGE), _ONE_SIDED)

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """(law, 0) and its mirror image, with the mixture's own noise."""
        side = self.mixture.side
        return ((Round.of(side, ZERO) if is_empty(change.added) else Round.of(ZERO, side), steps),)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        return True

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        return ("What one unit adds to the sum has the stated law.",)

    def share_of_data(self) -> Fraction:
        raise AssertionError("a stated mixture does not say how much of the data a step visits")

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        raise AssertionError("a stated mixture cannot be sampled")

    def audited_worlds(self, change: Change, *, ordinary_examples: int) -> tuple[World, World]:
        raise InvalidArgument(
            "run", InWords("a stated mixture"), "have a sampling that can be carried out to be audited"
        )
