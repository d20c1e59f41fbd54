"""Which lattice points carry mass: all of them where the law matters for the answer, ever fewer elsewhere.

Both measures may use any subset of the lattice. A cell of s steps adds (s h)^2 times its importance to the
bracket's width, so with density w the cheapest choice for a given width has s proportional to w^(-1/3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from groupdp.engines.lattice.likelihood import FloatArray
from groupdp.engines.lattice.rough_law import RoughLaw
from groupdp.engines.lattice.tilted_mass import IntArray

#: Widening the cells may add this much to the bracket's width, relatively.
_EXTRA = 0.25
#: Where it matters, cells stay narrower than this, divided by 1 + tilt: the expansion in the step holds only there.
_WIDEST = 0.25


@dataclass(frozen=True, slots=True)
class LatticeCells:
    """Lattice points and the widths of the cells around them, in steps: each ends where the next one begins.

    Widths are powers of 3. Being odd, cells of any two widths can be neighbours with both of their points
    on the lattice.
    """

    indices: IntArray
    widths: IntArray


def width_exponents(law: RoughLaw, log_mass: FloatArray, *, rate: float, step: float, share: float) -> IntArray:
    """log3 of the width of cells at every node of the law, whose importance is e^log_mass.

    `share` is above 1 for a part with fewer rounds than others: its cells may be wider.
    """
    with np.errstate(under="ignore"):
        log_density = log_mass - np.log(np.maximum(law.spacing, 1e-300))
        mass = np.exp(log_mass)
    low, high = float(log_density.min()) - 1.0, float(log_density.max()) + 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        width = np.exp(np.clip((middle - log_density) / 3.0, 0.0, 200.0))
        low, high = (middle, high) if float(mass @ (width * width - 1.0)) <= _EXTRA * share else (low, middle)
    deficit = np.maximum(low - log_density, 0.0)
    widest = np.log((_WIDEST + deficit / 6.0) / ((1.0 + rate) * step))
    exponents = np.maximum(np.minimum(deficit / 3.0, widest), 0.0) / math.log(3.0)
    rounded: IntArray = np.floor(exponents).astype(np.int64)
    # The width at a node reaches as far as its neighbours.
    rounded[1:-1] = np.minimum(rounded[1:-1], np.minimum(rounded[:-2], rounded[2:]))
    return rounded


def lattice_cells(loss: FloatArray, exponents: IntArray, step: float) -> LatticeCells:
    """Cells that cover the losses of one interval, with the widths given at its nodes."""
    exponents = _smallest_within_a_step(loss, exponents, step)
    changes = np.flatnonzero(np.diff(exponents)) + 1
    starts = np.concatenate(([0], changes)).tolist()
    ends = np.concatenate((changes, [len(loss) - 1])).tolist()
    # Twice the position, in steps, up to which cells are laid: always odd, as are the widths.
    position = 2 * math.floor(loss[0] / step) - 1
    indices: list[IntArray] = []
    widths: list[IntArray] = []
    for start, end in zip(starts, ends, strict=True):
        width = 3 ** int(exponents[start])
        missing = (2.0 * loss[end] / step - position) / (2.0 * width)
        count = math.ceil(missing) + 1 if end == len(loss) - 1 else math.floor(missing)
        if count > 0:
            indices.append((position + width) // 2 + width * np.arange(count, dtype=np.int64))
            widths.append(np.full(count, width, dtype=np.int64))
            position += 2 * width * count
    return LatticeCells(np.concatenate(indices), np.concatenate(widths))


def _smallest_within_a_step(loss: FloatArray, exponents: IntArray, step: float) -> IntArray:
    """One exponent for all nodes whose losses share a step: where mass piles up, the smallest is the right one."""
    places = np.floor((loss - loss[0]) / step)
    starts = np.flatnonzero(np.concatenate(([True], np.diff(places) != 0.0)))
    counts = np.diff(np.append(starts, len(loss)))
    return np.repeat(np.minimum.reduceat(exponents, starts), counts)


def cell_count(law: RoughLaw, exponents: IntArray, step: float) -> float:
    """About how many cells there are with the widths given at the law's nodes."""
    rise = np.maximum(np.diff(law.loss), 0.0)
    inside = np.ones(len(rise), dtype=bool)
    inside[[end - 1 for _, end in law.breaks[:-1]]] = False
    return float(np.sum(rise[inside] / step / 3.0 ** exponents[:-1][inside])) + 2.0 * len(law.breaks)
