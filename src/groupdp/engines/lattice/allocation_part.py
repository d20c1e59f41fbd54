"""Rounds in which one random allocation decides many steps, on the lattice: their likelihood ratios' laws as losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from groupdp.allocations import AllocationRound
from groupdp.engines.lattice.convex_law import Side, law_of_product
from groupdp.engines.lattice.likelihood import FloatArray
from groupdp.engines.lattice.parts import Grid, tilt_of
from groupdp.engines.lattice.rough_law import RoughLaw
from groupdp.engines.lattice.rounding import ELEMENTARY, TINY, UNIT
from groupdp.engines.lattice.tilted_mass import TiltedMass
from groupdp.errors import LimitExceeded

#: Branches of a coin at most: a second or so each.
MOST_BRANCHES = 32
#: Atoms below this probability in the rough law are left out of plans.
_LEAST = 1e-280


class AllocationPart:
    """A coin over products of allocations, run `rounds` times."""

    def __init__(self, one: AllocationRound, rounds: int) -> None:
        self.one, self.rounds = one, rounds
        loss, mass, infinite = atoms_of(one, True)
        order = np.argsort(loss, kind="stable")
        loss, mass = loss[order], mass[order]
        seen = mass > _LEAST
        loss, mass = loss[seen], mass[seen]
        spacing = np.maximum(np.gradient(loss), 1e-12) if len(loss) > 1 else np.ones(1)
        self.law = RoughLaw(loss, np.log(mass), spacing, ((0, len(loss)),))
        self.log_dead_mass = math.log(infinite) if infinite > 0.0 else -math.inf
        self.farthest = float(np.max(np.abs(loss)))

    def work(self, log_mass: FloatArray, *, rate: float, step: float, share: float) -> tuple[float, float]:
        count = float(len(self.law.loss))
        return count, 10.0 * count

    def measure(
        self, grid: Grid, log_mass: FloatArray, *, share: float, up: bool, advance: Callable[[int], None]
    ) -> TiltedMass:
        loss, masses, infinite = atoms_of(self.one, up)
        mass = TiltedMass.empty(step=grid.step, tilt=tilt_of(self.law, grid, 0.0), length=grid.length)
        if up:
            add_atoms_above(mass, loss, masses)
            if infinite > 0.0:
                mass.add_infinite(math.log(infinite))
            mass.inflation += max(float(masses.sum()) - 1.0, 0.0) + 1e-9
        else:
            add_atoms_below(mass, loss, masses)
        advance(len(loss))
        mass.finish(up=up)
        return mass


@lru_cache(maxsize=32)
def atoms_of(one: AllocationRound, up: bool) -> tuple[FloatArray, FloatArray, float]:
    """(losses, P-masses, P-mass at +infinity) that dominate (up) or are dominated by the round (L-23).

    Losses are off by at most the error of a logarithm, on the safe side.
    """
    if len(one.products) > MOST_BRANCHES:
        raise LimitExceeded(
            f"a coin over allocations has {len(one.products)} branches; the lattice engine takes at most "
            f"{MOST_BRANCHES}."
        )
    side = Side(up=up, forward=not one.reverse)
    losses, masses, infinite = [], [], 0.0
    for product, log_weight in zip(one.products, one.log_weights, strict=True):
        law = law_of_product(product, side)
        sign = 1.0 if up else -1.0
        weight = math.exp(log_weight) * (1.0 + sign * UNIT * (8.0 + 8.0 * abs(log_weight)))
        infinite += weight * law.infinite * (1.0 + 4.0 * UNIT)
        seen = law.x > 0.0
        if one.reverse:
            infinite += weight * float(law.mass[~seen].sum()) * (1.0 + 1e-12) if up else 0.0
        x, mass = law.x[seen], law.mass[seen]
        loss = -np.log(x) if one.reverse else np.log(x)
        loss = loss + sign * (ELEMENTARY * np.abs(loss) + UNIT)
        own = mass if one.reverse else mass * x
        losses.append(loss)
        masses.append(weight * own * (1.0 + sign * 4.0 * UNIT))
    return np.concatenate(losses), np.concatenate(masses), infinite


def add_atoms_above(mass: TiltedMass, loss: FloatArray, masses: FloatArray) -> None:
    """Split every atom between the lattice points beside it, keeping its P- and Q-mass (L-5)."""
    step = mass.step
    near = np.floor(loss / step)
    near = np.where(near * step > loss, near - 1.0, near)
    offset = np.maximum(loss - near * step, 0.0)
    share = np.expm1(-offset) / math.expm1(-step) * (1.0 + 8.0 * ELEMENTARY) + 8.0 * UNIT * np.abs(loss) / step
    share = np.minimum(share, 1.0)
    for index, part in ((near, (1.0 - share) + UNIT), (near + 1.0, share)):
        exponent, error = mass.exponents(index)
        with np.errstate(under="ignore", over="ignore"):
            values = masses * part * np.exp(exponent) * (1.0 + ELEMENTARY + 1.01 * error + 8.0 * UNIT) + TINY
        mass.book(index, values, up=True)


def add_atoms_below(mass: TiltedMass, loss: FloatArray, masses: FloatArray) -> None:
    """Book every atom at the lattice point below it (L-6)."""
    index = np.floor(loss / mass.step)
    index = np.where(index * mass.step > loss, index - 1.0, index)
    exponent, error = mass.exponents(index)
    with np.errstate(under="ignore", over="ignore"):
        values = masses * np.exp(exponent) * (1.0 - ELEMENTARY - 1.01 * error - 8.0 * UNIT)
    good = values > TINY
    mass.book(index[good], values[good], up=False)
