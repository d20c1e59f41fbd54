"""Balls in bins with the allocation revealed (P-7): golden tables have this law too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from groupdp.neighbours import Change
from groupdp.pairs import Rounds
from groupdp.samplings.allocation import BallsInBinsSampling


@dataclass(frozen=True, slots=True, kw_only=True)
class RevealedBallsInBins(BallsInBinsSampling):
    """The last alternative of balls in bins, alone."""

    secret_allocation: ClassVar[bool] = False

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        found = BallsInBinsSampling.alternatives(self, change, noise=noise, steps=steps, microbatches=microbatches)
        if found:
            return found[-1]
        return BallsInBinsSampling.rounds(self, change, noise=noise, steps=steps, microbatches=microbatches)

    def alternatives(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> tuple[Rounds, ...]:
        return ()

    def is_tight(self, change: Change, *, steps: int) -> bool:
        return False
