"""Both measures of one round on every point of a lattice, untilted: what a distribution object starts from."""

from __future__ import annotations

import math

import numpy as np

from groupdp.engines.interface import Direction
from groupdp.engines.lattice.connect_dots import upper_measure
from groupdp.engines.lattice.loss import RoundLoss
from groupdp.engines.lattice.loss_moments import LossMoments, loss_moments
from groupdp.engines.lattice.measures import Measure
from groupdp.engines.lattice.merge_cells import lower_measure
from groupdp.engines.lattice.plan import require_moderate_shift
from groupdp.engines.lattice.rounding import UNIT
from groupdp.engines.lattice.solve import rounded_step
from groupdp.engines.lattice.strides import lattice_cells
from groupdp.engines.lattice.support import loss_table, support_of
from groupdp.engines.lattice.tilted_mass import Tilt, TiltedMass
from groupdp.errors import LimitExceeded
from groupdp.mixture import MixtureOfGaussians


def measures_of(
    mixture: MixtureOfGaussians, direction: Direction, *, step: float, tail_mass: float, longest: int
) -> tuple[Measure, Measure, LossMoments]:
    """(dominated, dominating, moments) of one round; about `tail_mass` is cut off on either side."""
    round_loss = RoundLoss(mixture, direction)
    require_moderate_shift(round_loss)
    step = rounded_step(step)
    log_cut = math.log(tail_mass)
    support = support_of(round_loss, log_cut=log_cut, log_left_cut=log_cut)
    table = loss_table(round_loss, support)
    loss = table.values.loss
    points = float(loss[-1] - loss[0]) / step + 8.0
    if points > longest:
        raise LimitExceeded(
            f"the distribution would take {points:.3g} lattice points, more than the limit of {longest}: a larger "
            f"grid_step is needed."
        )
    cells = [lattice_cells(loss[begin:end], np.zeros(end - begin, dtype=np.int64), step) for begin, end in table.breaks]
    length = 1 << math.ceil(math.log2(points + 8.0))
    lower, upper = (
        measure(
            round_loss,
            support,
            table,
            cells,
            step=step,
            tilt=Tilt(rate=0.0, log_scale=0.0),
            length=length,
            advance=lambda _: None,
        )
        for measure in (lower_measure, upper_measure)
    )
    moments = loss_moments(round_loss, support, table, cells, step=step)
    return _unfolded(lower, up=False), _unfolded(upper, up=True), moments


def _unfolded(mass: TiltedMass, *, up: bool) -> Measure:
    """The measure with its masses in order, and at their own scale again."""
    room = 1.0 + 16.0 * UNIT if up else 1.0 - 16.0 * UNIT
    count = mass.highest - mass.lowest + 1
    places = (mass.lowest + np.arange(count)) % len(mass.array)
    masses = mass.array[places] * (math.exp(mass.tilt.log_scale) * room)
    infinite = min(math.exp(mass.log_infinite_mass) * (1.0 + 1e-9), 1.0) if up else 0.0
    masses.setflags(write=False)
    return Measure(mass.step, mass.lowest, masses, infinite)
