"""A measure on the lattice of losses, tilted, folded to the length of the transform.

The atom at loss n h is stored as   mass x exp(tilt n h - log_scale)   at position n mod N.
Folding is exact aliasing of the circular convolution; what it adds is bounded by Chernoff sums (`log_moments`) that are
taken before folding (docs/lattice.md, section 6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from groupdp.engines.lattice.loss import FloatArray
from groupdp.engines.lattice.rounding import TINY, UNIT

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tilt:
    """How the atoms of one round are weighted: exp(tilt x loss - log_scale)."""

    rate: float
    log_scale: float
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

    def add(self, first: int, values: FloatArray) -> None:
        """Add atoms at indices first, first + 1, ...; `values` are tilted and scaled already."""
        last = first + len(values) - 1
        if self.additions == 0:
            self.lowest, self.highest = first, last
        else:
            self.lowest, self.highest = min(self.lowest, first), max(self.highest, last)
        length = len(self.array)
        loss = self.step * (first + np.arange(len(values), dtype=np.float64))
        for k, (theta, normaliser) in enumerate(self.tilt.moments):
            # Raising far exponents to -700 only enlarges the bound, and spares slow subnormal arithmetic.
            exponent = np.clip(theta * loss - normaliser, -700.0, None)
            with np.errstate(over="ignore"):
                # Zeros are left out: against an overflow they would not be zero.
                total = float(np.sum(values[values > 0.0] * np.exp(exponent[values > 0.0])))
            units = 8.0 * float(np.max(np.abs(theta * loss))) + 8.0 * abs(normaliser) + len(values) + 32.0
            self.moments[k] += total * (1.0 + units * UNIT)
        at = first % length
        done = 0
        while done < len(values):
            count = min(length - at, len(values) - done)
            self.array[at : at + count] += values[done : done + count]
            done, at = done + count, 0
            self.additions += 1

    def exponents(self, index: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(exponents, absolute errors) by which masses at lattice indices are tilted and scaled."""
        lift = self.tilt.rate * (index * self.step)
        return lift - self.tilt.log_scale, UNIT * (4.0 * np.abs(lift) + 2.0 * abs(self.tilt.log_scale))

    def book(self, index: FloatArray | IntArray, values: FloatArray, *, up: bool) -> None:
        """Add atoms given in any order, with the roundings of adding them up on the safe side."""
        if len(index) == 0:
            return
        indices = index.astype(np.int64)
        first = int(indices.min())
        indices -= first
        sums: FloatArray = np.bincount(indices, weights=values).astype(np.float64, copy=False)
        room = (int(np.bincount(indices).max()) + 4) * UNIT
        self.add(first, (sums + TINY * (sums > 0.0)) * (1.0 + room) if up else sums * (1.0 - room))

    def add_infinite(self, log_mass: float) -> None:
        """Add e^log_mass at +infinity."""
        self.log_infinite_mass = float(np.logaddexp(self.log_infinite_mass, log_mass)) + 1e-9

    def finish(self, *, up: bool) -> None:
        """Cover the roundings of the additions: the array then bounds the exact sums from the side asked for."""
        room = (self.additions + 4) * UNIT
        if up:
            self.array *= 1.0 + room
            self.inflation += 2.0 * room
        else:
            self.array *= 1.0 - room
        self.moments = [moment * (1.0 + 2.0 * room) for moment in self.moments]
