"""A discrete Gaussian release: whole numbers with discrete Gaussian noise, computed once or several times."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from groupdp.errors import LimitExceeded
from groupdp.fields import Field, Slider
from groupdp.floats import UNIT
from groupdp.losses import MOST_ATOMS, AtomsRound
from groupdp.mechanisms.mechanism import PER_PERSON, RELEASES, Mechanism, moving, steps_of
from groupdp.neighbours import Change
from groupdp.pairs import Rounds

SMALLEST_SIGMA, LARGEST_SIGMA = 0.05, 1e6
#: Whole numbers farther than this many sigma from both centres are left out: e^-722 of P.
_REACH = 38.0


@dataclass(frozen=True, slots=True)
class DiscreteGaussianRelease(Mechanism):
    """`releases` statistics made of whole numbers, each with discrete Gaussian noise of its own on every coordinate.

    The noise takes the whole number y with a probability proportional to e^{-y^2 / (2 sigma^2)} (Canonne, Kamath and
    Steinke 2020). `sensitivity` is how far, in the L1 norm, a statistic moves at most where ONE example is added,
    removed or zeroed: a whole number. k examples move it by up to k times as much. With `per_person` the sensitivity
    is that to all examples of a person together, and the group size does not enter.
    """

    sigma: float
    _: KW_ONLY
    sensitivity: int = 1
    releases: int = 1
    per_person: bool = False

    name: ClassVar[str] = "discrete-gaussian"
    title: ClassVar[str] = "a discrete Gaussian release"
    meaning: ClassVar[str] = "Whole numbers computed from all the data, each with discrete Gaussian noise of its own."
    fields: ClassVar[tuple[Field, ...]] = (
        Field(
            name="noise_sigma",
            attribute="sigma",
            unit="",
            meaning="The noise takes y with a probability proportional to exp(-y^2 / (2 sigma^2)).",
            kind="number",
            at_least=SMALLEST_SIGMA,
            at_most=LARGEST_SIGMA,
            example="20",
            slider=Slider(start=20.0, low=0.5, high=1000.0),
        ),
        Field(
            name="sensitivity",
            unit="",
            meaning="How far one example moves the whole numbers at most, all of them together.",
            kind="integer",
            at_least=0,
            default=1,
            example="1",
            slider=Slider(start=1, low=1, high=100),
        ),
        RELEASES,
        PER_PERSON,
    )

    def rounds(self, change: Change) -> Rounds:
        """The noise moved by a whole number m against the noise, for changes that move the statistic by m (R-2).

        Attained by a whole number that every one of them moves in the same direction.
        """
        moved = steps_of(change, per_person=self.per_person) * self.sensitivity
        return ((_round_of(self.sigma, moved), self.releases),) if moved else ()

    def is_tight(self, change: Change) -> bool:
        return True

    def assumptions(self) -> tuple[str, ...]:
        return (
            f"{moving(per_person=self.per_person)} moves each released statistic, which consists of whole "
            "numbers, by at most the stated sensitivity, in the L1 norm.",
            "Every coordinate of every release has independent discrete Gaussian noise, drawn exactly.",
        )


@lru_cache(maxsize=32)
def _round_of(sigma: float, moved: int) -> AtomsRound:
    """N_Z(m, sigma^2) against N_Z(0, sigma^2): the loss at y is m (2 y - m) / (2 sigma^2). Its own mirror image."""
    reach = math.ceil(_REACH * sigma) + 1
    count = moved + 2 * reach + 1
    if count > MOST_ATOMS:
        raise LimitExceeded(
            f"a discrete Gaussian release of sigma {sigma:g} that moves by {moved} has {count} losses; at most "
            f"{MOST_ATOMS} are taken."
        )
    double = 2.0 * sigma * sigma
    near = np.arange(-reach, reach + 1, dtype=np.float64)
    # What the sum leaves out is e^-700 of it; every term is off by a few units in the last place of its exponent.
    log_total = math.log(math.fsum(np.exp(-near * near / double).tolist()))
    y = np.arange(-reach, moved + reach + 1, dtype=np.float64)
    losses = moved * (2.0 * y - moved) / double
    log_p = -((y - moved) ** 2) / double - log_total
    lost = math.log(2.0) - (reach + 1.0) ** 2 / double * (1.0 - 1e-12)
    return AtomsRound(
        losses,
        log_p,
        spacing=2.0 * moved / double,
        loss_error=32.0 * UNIT * float(np.max(np.abs(losses))),
        mass_error=UNIT * (8.0 * float(np.max(np.abs(log_p))) + 64.0),
        log_lost=lost,
        log_lost_mirrored=lost,
    )
