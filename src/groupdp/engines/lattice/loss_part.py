"""Rounds of known losses on the lattice: laws of atoms, and the Laplace mechanism's law (R-4, R-5)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from groupdp.engines.lattice.allocation_part import add_atoms_above, add_atoms_below
from groupdp.engines.lattice.likelihood import FloatArray
from groupdp.engines.lattice.parts import Grid, tilt_of
from groupdp.engines.lattice.rough_law import RoughLaw
from groupdp.engines.lattice.rounding import ELEMENTARY, TINY, UNIT
from groupdp.engines.lattice.tilted_mass import TiltedMass
from groupdp.errors import LimitExceeded
from groupdp.losses import AtomsRound, LaplaceRound, laplace_factors

#: Nodes of the rough law between the two atoms of a Laplace mechanism.
_NODES = 2001
#: Most lattice points between the two atoms of a Laplace mechanism.
_MOST_POINTS = 2e7


class AtomsPart:
    """A law of atoms, run `rounds` times."""

    def __init__(self, one: AtomsRound, rounds: int) -> None:
        self.one, self.rounds = one, rounds
        spacing = np.maximum(np.gradient(one.losses), 1e-12) if len(one.losses) > 1 else np.ones(1)
        self.law = RoughLaw(one.losses, one.log_p, spacing, ((0, len(one.losses)),))
        self.log_dead_mass = one.log_lost
        self.farthest = float(np.max(np.abs(one.losses)))

    def work(self, log_mass: FloatArray, *, rate: float, step: float, share: float) -> tuple[float, float]:
        count = float(len(self.law.loss))
        return count, 10.0 * count

    def measure(
        self, grid: Grid, log_mass: FloatArray, *, share: float, up: bool, advance: Callable[[int], None]
    ) -> TiltedMass:
        one, sign = self.one, 1.0 if up else -1.0
        mass = TiltedMass.empty(step=grid.step, tilt=tilt_of(self.law, grid, 0.0), length=grid.length)
        loss = one.losses + sign * (one.loss_error + 2.0 * UNIT * np.abs(one.losses))
        room = one.mass_error + ELEMENTARY + 4.0 * UNIT * np.abs(one.log_p)
        with np.errstate(under="ignore"):
            masses = np.exp(one.log_p) * (1.0 + sign * 1.01 * room)
        if up:
            add_atoms_above(mass, loss, masses)
            mass.add_infinite(one.log_lost)
            mass.inflation += max(float(masses.sum()) - 1.0, 0.0) + 1e-9
        else:
            add_atoms_below(mass, loss, masses)
        advance(len(loss))
        mass.finish(up=up)
        return mass


class LaplacePart:
    """The Laplace mechanism, run `rounds` times.

    Above, its shift x is rounded up to a multiple n h of the step, below rounded down: a larger shift dominates (R-1).
    The masses are those of `losses.laplace_atoms` (R-4).
    """

    def __init__(self, one: LaplaceRound, rounds: int) -> None:
        self.rounds, self.shift = rounds, one.shift
        x = one.shift
        inner = np.linspace(-x, x, _NODES + 2)[1:-1]
        spacing = np.full(_NODES + 2, 2.0 * x / (_NODES + 1))
        log_density = 0.5 * (inner - x) - math.log(4.0) + math.log(spacing[0])
        self.law = RoughLaw(
            np.concatenate(([-x], inner, [x])),
            np.concatenate(([-x - math.log(2.0)], log_density, [-math.log(2.0)])),
            spacing,
            ((0, _NODES + 2),),
        )
        self.log_dead_mass = -math.inf
        self.farthest = x

    def work(self, log_mass: FloatArray, *, rate: float, step: float, share: float) -> tuple[float, float]:
        count = 2.0 * self.shift / step + 2.0
        return count, 10.0 * count

    def measure(
        self, grid: Grid, log_mass: FloatArray, *, share: float, up: bool, advance: Callable[[int], None]
    ) -> TiltedMass:
        step = grid.step
        # The shift is a quotient, off by a rounding.
        shift = self.shift * (1.0 + 4.0 * UNIT if up else 1.0 - 4.0 * UNIT)
        n = math.ceil(shift / step) if up else math.floor(shift / step)
        n += int(n * step < shift) if up else -int(n * step > shift)
        if n > _MOST_POINTS:
            raise LimitExceeded(f"a Laplace mechanism takes {2 * n} lattice points, more than the limit.")
        mass = TiltedMass.empty(step=step, tilt=tilt_of(self.law, grid, 0.0), length=grid.length)
        index = np.arange(-n, n + 1, dtype=np.float64)
        log_r = 0.5 * (index - n) * step
        factors = laplace_factors(n, step, up=up)
        exponent, error = mass.exponents(index)
        sign = 1.0 if up else -1.0
        room = 4.0 * ELEMENTARY + 1.01 * error + UNIT * (4.0 * np.abs(log_r) + 2.0 * np.abs(exponent) + 32.0)
        with np.errstate(under="ignore", over="ignore"):
            values = 0.5 * factors * np.exp(log_r + exponent) * (1.0 + sign * room)
        if up:
            values = values + TINY
            mass.inflation += 1e-9
            mass.book(index, values, up=True)
        else:
            good = values > TINY
            mass.book(index[good], values[good], up=False)
        advance(len(index))
        mass.finish(up=up)
        return mass
