"""Statistics of the data that are released with noise: Gaussian, Laplace, discrete Gaussian; once or several times."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from groupdp.errors import LimitExceeded
from groupdp.fields import Field, count, real
from groupdp.floats import UNIT
from groupdp.losses import MOST_ATOMS, AtomsRound, LaplaceRound
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
from groupdp.pairs import ZERO, AnyRound, Round, Rounds, Side

SMALLEST_SIGMA, LARGEST_SIGMA = 0.05, 1e6
#: Whole numbers farther than this many sigma from both centres are left out: e^-722 of P.
_REACH = 38.0


class _Statistics(Mechanism):
    """Statistics of all the data, each with noise of its own.

    The rounds are attained: those that leave move a statistic one way, those that join the other way.
    """

    __slots__ = ()

    per_person: bool
    #: Of the assumptions: what is released, in which norm it moves, and its noise.
    statistic: ClassVar[str] = "each released statistic"
    norm: ClassVar[str] = "L1"
    noise: ClassVar[str]

    def is_tight(self, change: Change) -> bool:
        return True

    def assumptions(self) -> tuple[str, ...]:
        return (
            f"{moving(per_person=self.per_person)} moves {self.statistic} by at most the stated sensitivity, in the "
            f"{self.norm} norm.",
            self.noise,
        )


@dataclass(frozen=True, slots=True)
class _ScaledNoise(_Statistics):
    """Noise whose scale is `noise_multiplier` times the sensitivity to one example."""

    noise_multiplier: float
    _: KW_ONLY
    releases: int = 1
    per_person: bool = False

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        require_noise(self.noise_multiplier)

    def rounds(self, change: Change) -> Rounds:
        """One for each release: the statistic moved by m changes of one example or person (P-0, R-1)."""
        moved = steps_of(change, per_person=self.per_person)
        if moved == 0:
            return ()
        if self.noise_multiplier == 0.0:
            return ((Round.of(Side.point(math.inf), ZERO), self.releases),)
        return ((self._moved_by(moved / self.noise_multiplier), self.releases),)

    @abstractmethod
    def _moved_by(self, shift: float) -> AnyRound:
        """The noise moved by `shift` of its scales, against the noise."""


@dataclass(frozen=True, slots=True)
class GaussianRelease(_ScaledNoise):
    """`releases` statistics of all the data, each with Gaussian noise of its own.

    `noise_multiplier` is the noise's standard deviation over the sensitivity to ONE example: how far, in the Euclidean
    norm, a statistic moves at most where one example is added, removed or zeroed. It is the sensitivity to adding one,
    not to replacing one. k examples move it by up to k times as much. With `per_person` the sensitivity is that to all
    examples of a person together, and the group size does not enter.
    """

    name: ClassVar[str] = "gaussian"
    title: ClassVar[str] = "a Gaussian release"
    meaning: ClassVar[str] = "Statistics of all the data, each with Gaussian noise of its own."
    norm: ClassVar[str] = "Euclidean"
    noise: ClassVar[str] = (
        "Every release has independent Gaussian noise of standard deviation (noise multiplier x sensitivity)."
    )
    fields: ClassVar[tuple[Field, ...]] = (
        replace(
            NOISE_MULTIPLIER,
            unit="× sensitivity",
            meaning="Standard deviation of the noise over the sensitivity to one example.",
        ),
        RELEASES,
        PER_PERSON,
    )

    def _moved_by(self, shift: float) -> Round:
        """N(shift, 1) against N(0, 1), by the triangle inequality (P-0)."""
        return Round.of(Side.point(shift), ZERO)


@dataclass(frozen=True, slots=True)
class LaplaceRelease(_ScaledNoise):
    """`releases` statistics of all the data, each with Laplace noise of its own on every coordinate.

    `noise_multiplier` is the noise's scale b (its density is proportional to e^{-|y| / b}) over the sensitivity to ONE
    example: how far, in the L1 norm, a statistic moves at most where one example is added, removed or zeroed. k
    examples move it by up to k times as much. With `per_person` the sensitivity is that to all examples of a person
    together, and the group size does not enter.
    """

    name: ClassVar[str] = "laplace"
    title: ClassVar[str] = "a Laplace release"
    meaning: ClassVar[str] = "Statistics of all the data, each with Laplace noise of its own."
    noise: ClassVar[str] = (
        "Every coordinate of every release has independent Laplace noise of scale (noise multiplier x sensitivity)."
    )
    fields: ClassVar[tuple[Field, ...]] = (
        replace(
            NOISE_MULTIPLIER, unit="× sensitivity", meaning="Scale of the noise over the L1 sensitivity to one example."
        ),
        RELEASES,
        PER_PERSON,
    )

    def _moved_by(self, shift: float) -> LaplaceRound:
        """Laplace(shift, 1) against Laplace(0, 1) (R-1)."""
        return LaplaceRound(shift)


@dataclass(frozen=True, slots=True)
class DiscreteGaussianRelease(_Statistics):
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
    statistic: ClassVar[str] = "each released statistic, which consists of whole numbers,"
    noise: ClassVar[str] = "Every coordinate of every release has independent discrete Gaussian noise, drawn exactly."
    fields: ClassVar[tuple[Field, ...]] = (
        real(
            "noise_sigma",
            "Sigma of the noise, which is y with a probability proportional to exp(-y^2 / (2 sigma^2)).",
            (20.0, 0.5, 1000.0),
            attribute="sigma",
            at_least=SMALLEST_SIGMA,
            at_most=LARGEST_SIGMA,
        ),
        count("sensitivity", "L1 sensitivity of one example, a whole number.", (1, 1, 100), at_least=0, default=1),
        RELEASES,
        PER_PERSON,
    )

    def rounds(self, change: Change) -> Rounds:
        """The noise moved by a whole number m against the noise, for changes that move the statistic by m (R-2)."""
        moved = steps_of(change, per_person=self.per_person) * self.sensitivity
        return ((_round_of(self.sigma, moved), self.releases),) if moved else ()


@lru_cache(maxsize=32)
def _round_of(sigma: float, moved: int) -> AtomsRound:
    """N_Z(m, sigma^2) against N_Z(0, sigma^2): the loss at y is m (2 y - m) / (2 sigma^2). Its own mirror image."""
    reach = math.ceil(_REACH * sigma) + 1
    count = moved + 2 * reach + 1
    if count > MOST_ATOMS:
        raise LimitExceeded(
            f"a discrete Gaussian release of sigma {sigma:g} that moves by {moved} has {count} losses; the "
            f"limit is {MOST_ATOMS}."
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
