"""A measure on the lattice of losses, tilted, folded to the length of the transform.

The atom at loss n h is stored as   mass x exp(tilt n h - log_scale)   at position n mod N.
Folding is exact aliasing of the circular convolution; what it adds is bounded by Chernoff sums (`log_moments`) that are
taken before folding (L-20).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from groupdp.engines.lattice.likelihood import FloatArray
from groupdp.engines.lattice.rounding import ELEMENTARY, UNIT

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tilt:
    """How the atoms of one round are weighted: exp(tilt x loss - log_scale)."""

    rate: float
    log_scale: float
    offset: float = 0.0
    """Losses are meant minus this."""
    moments: tuple[tuple[float, float], ...] = ()
    """(theta, normaliser): also sum atoms x exp(theta x loss - normaliser)."""


@dataclass(slots=True)
class TiltedMass:
    """The folded array of one round's measure, its Chernoff sums, and its mass at +infinity."""

    step: float
    tilt: Tilt
    array: FloatArray
    moments: list[float] = field(default_factory=list)
    log_infinite_mass: float = -math.inf
    inflation: float = 0.0
    """The untilted finite mass is at most 1 + inflation (upper measures only)."""
    additions: int = 0
    lowest: int = 0
    """All atoms have indices from `lowest` to `highest`."""
    highest: int = 0

    @classmethod
    def empty(cls, *, step: float, tilt: Tilt, length: int) -> TiltedMass:
        return cls(step, tilt, np.zeros(length), [0.0] * len(tilt.moments))

    def exponents(self, index: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(exponents, absolute errors) by which masses at lattice indices are tilted and scaled."""
        lift = self.tilt.rate * (index * self.step)
        return lift - self.tilt.log_scale, UNIT * (4.0 * np.abs(lift) + 2.0 * abs(self.tilt.log_scale))

    def book(self, index: FloatArray | IntArray, values: FloatArray, *, up: bool) -> None:
        """Add atoms, tilted and scaled already, in any order; the roundings of adding go to the safe side."""
        if len(index) == 0:
            return
        indices = index.astype(np.int64)
        self._widen(int(indices.min()), int(indices.max()))
        loss = self.step * indices
        for k, (theta, normaliser) in enumerate(self.tilt.moments):
            # Raising far exponents to -700 only enlarges the bound, and spares slow subnormal arithmetic.
            exponent = np.maximum(theta * loss - normaliser, -700.0)
            with np.errstate(over="ignore", invalid="ignore"):
                # No atom, no contribution: not even where the exponential overflows.
                total = float(np.sum(np.where(values > 0.0, values * np.exp(exponent), 0.0)))
            units = 8.0 * float(np.max(np.abs(theta * loss))) + 8.0 * abs(normaliser) + len(values) + 32.0
            self.moments[k] += total * (1.0 + units * UNIT)
        places = indices % len(self.array)
        order = np.argsort(places, kind="stable")
        places = places[order]
        starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
        most = int(np.diff(np.append(starts, len(places))).max())
        room = (most + 4) * UNIT
        sums = np.add.reduceat(values[order], starts)
        self.array[places[starts]] += sums * (1.0 + room if up else 1.0 - room)
        self.additions += 1

    def _widen(self, lowest: int, highest: int) -> None:
        if self.additions > 0:
            lowest, highest = min(lowest, self.lowest), max(highest, self.highest)
        self.lowest, self.highest = lowest, highest

    def add_infinite(self, log_mass: float) -> None:
        """Add e^log_mass at +infinity."""
        self.log_infinite_mass = float(np.logaddexp(self.log_infinite_mass, log_mass)) + 1e-9

    def _normalise(self, *, up: bool) -> None:
        """Scale the array to a sum of 1, so that no power of it overflows; roundings go to the safe side."""
        total = float(np.sum(self.array))
        if not 0.0 < total < math.inf:
            return
        scale = math.log(total)
        room = ELEMENTARY + UNIT * (4.0 * abs(scale) + 4.0)
        self.array *= math.exp(-scale) * (1.0 + room if up else 1.0 - room)
        self.moments = [moment * math.exp(-scale) * (1.0 + 4.0 * room) for moment in self.moments]
        self.tilt = replace(self.tilt, log_scale=self.tilt.log_scale + scale)

    def finish(self, *, up: bool) -> None:
        """Cover the roundings of the additions: the array then bounds the exact sums from the side asked for."""
        room = (self.additions + 4) * UNIT
        if up:
            self.array *= 1.0 + room
            self.inflation += 2.0 * room
        else:
            self.array *= 1.0 - room
        self.moments = [moment * (1.0 + 2.0 * room) for moment in self.moments]
        self._normalise(up=up)
