"""Both measures of one round on every point of a lattice, untilted: what a distribution object starts from."""

from __future__ import annotations

import math

import numpy as np

from groupdp.engines.lattice.parts import RoundPart
from groupdp.engines.lattice.rounding import UNIT
from groupdp.engines.lattice.solve import rounded_step
from groupdp.engines.lattice.tilted_mass import TiltedMass
from groupdp.errors import LimitExceeded
from groupdp.pairs import Round
from groupdp.pld.loss_moments import LossMoments, loss_moments
from groupdp.pld.measures import Measure


def measures_of(one: Round, *, step: float, tail_mass: float, longest: int) -> tuple[Measure, Measure, LossMoments]:
    """(dominated, dominating, moments) of one round; about `tail_mass` is cut off on either side."""
    step = rounded_step(step)
    log_cut = math.log(tail_mass)
    part = RoundPart(one, 1, log_cut=log_cut, log_left_cut=log_cut)
    points = float(np.max(part.law.loss) - np.min(part.law.loss)) / step + 8.0
    if points > longest:
        raise LimitExceeded(
            f"the distribution would take {points:.3g} lattice points, more than the limit of {longest}: a larger "
            f"grid_step is needed."
        )
    length = 1 << math.ceil(math.log2(points + 8.0))
    lower, upper = (part.whole_measure(step, length, up=up) for up in (False, True))
    return _unfolded(lower, up=False), _unfolded(upper, up=True), loss_moments(part, step=step)


def _unfolded(mass: TiltedMass, *, up: bool) -> Measure:
    """The measure with its masses in order, and at their own scale again."""
    room = 1.0 + 16.0 * UNIT if up else 1.0 - 16.0 * UNIT
    count = mass.highest - mass.lowest + 1
    places = (mass.lowest + np.arange(count)) % len(mass.array)
    masses = mass.array[places] * (math.exp(mass.tilt.log_scale) * room)
    infinite = min(math.exp(mass.log_infinite_mass) * (1.0 + 1e-9), 1.0) if up else 0.0
    masses.setflags(write=False)
    return Measure(mass.step, mass.lowest, masses, infinite)
