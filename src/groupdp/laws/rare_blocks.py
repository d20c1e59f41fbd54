"""Blocks of rare collisions as laws of losses: 1 - p + p R(M, s), dominated by finitely many atoms (P-60).

With x_t = (p/M) e^{s Z_t - s^2/2} the likelihood ratio is X = 1 - p + sum_t x_t, of independent x_t that are hardly
ever large. Every x_t is split between the points of a grid such that its mass and its mean are kept, which increases
E(X - alpha)_+ for every alpha; sums of few of them stay on the grid, and one large x_t has a grid of its own.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from groupdp.floats import FloatArray, normal_tail
from groupdp.losses import AtomsRound
from groupdp.pairs import Allocation

#: A block is taken as a law of losses below this probability, and from this shift on; no effect on validity.
RARE, LARGE_SHIFT = 2e-3, 1.5
#: The even grid has so many points, up to an x that depends on the shift; beyond, points are so far apart in log x up
#: to `_COARSE_FROM`, and then farther; no effect on validity.
_POINTS, _LARGE, _APART, _COARSE_FROM, _COARSELY = 1500, ((3.5, 6.0), (2.4, 3.0), (0.0, 1.5)), 0.003, 1e3, 0.05
#: P-mass of one place beyond the last point, about; of more jumps than are added up; no effect on validity.
_BEYOND, _MOST_JUMPS, _FEW_JUMPS = 1e-30, 24, 1e-17
#: What masses may add up to above 1 (S-94).
_ABOVE_ONE = 4e-10
#: Relative errors: of the tails, which differences of them carry, and of sums and products of positive terms.
_OF_TAILS, _ROUNDING = 1e-12, 1e-10


@lru_cache(maxsize=256)
def rare_law(factor: Allocation) -> AtomsRound | None:
    """A law that dominates 1 - p + p R(M, s) against N(0), the group leaving (P-60); None where its masses, which are
    rounded up, add up to more than the engines take for 1."""
    places, p = factor.places, math.exp(factor.log_probability)
    large = next(x for least, x in _LARGE if factor.shift >= least)
    even = large / _POINTS * np.arange(_POINTS + 1.0)
    last = p / places * math.exp(min(factor.shift * (0.5 * factor.shift + _farthest(p)), 600.0))
    fine = _geometric(large, min(max(last, 2.0 * large), _COARSE_FROM), _APART)
    far = np.concatenate((fine, _geometric(float(fine[-1]), max(last, 2.0 * float(fine[-1])), _COARSELY)[1:]))
    small, some = _split(factor, even), _split(factor, far) * places
    some_large, mean_of_large = _beyond(factor, large)
    base = -math.expm1(factor.log_probability)
    masses, lost = _sums(small, large, places, p, some_large)
    # Another place beside a large one: its mean at `large`, what it has beyond that at infinity.
    beside = np.searchsorted(far, far + large)
    doubled = np.zeros(len(far) + 1)
    np.add.at(doubled, beside, some * (p / large))
    all_large = places * some_large * (1.0 + _ROUNDING)
    lost += all_large * (p * (mean_of_large + all_large) + lost)
    beyond, mean_beyond = _beyond(factor, float(far[-1]))
    lost += p * mean_beyond + (base + p) * places * beyond + 2.0 * doubled[-1] * float(far[-1])
    x = np.concatenate((even, far))
    mass = np.concatenate((masses, some + doubled[:-1])) * (1.0 + _ROUNDING)
    kept = mass > 1e-290
    lost += float(np.sum(x[~kept] + 1.0)) * 1e-290 + 1e-16 * p
    order = np.argsort(x[kept], kind="stable")
    losses = np.log1p((x[kept] - p)[order])
    losses += 1e-15 * (1.0 + np.abs(losses))  # rounded up, and the masses with them
    log_p = np.log(mass[kept])[order] + losses
    if math.fsum(np.exp(log_p).tolist()) + lost > 1.0 + _ABOVE_ONE:
        return None
    return AtomsRound(losses, log_p, log_lost=math.log(lost))


def _farthest(p: float) -> float:
    """How many deviations beyond s a place matters."""
    return math.sqrt(2.0 * max(math.log(p / _BEYOND), 1.0))


def _geometric(start: float, end: float, apart: float) -> FloatArray:
    result: FloatArray = np.geomspace(start, end, max(math.ceil(math.log(end / start) / apart), 1) + 1)
    return result


def _beyond(factor: Allocation, x: float) -> tuple[float, float]:
    """(P(x_1 > x), P(N(s, 1) makes it so)), rounded up."""
    z = _place(factor, x)
    return normal_tail(z) * (1.0 + _ROUNDING), normal_tail(z - factor.shift) * (1.0 + _ROUNDING)


def _place(factor: Allocation, x: float) -> float:
    """Z at x_1 = x."""
    return (math.log(x * factor.places) - factor.log_probability) / factor.shift + 0.5 * factor.shift


def _split(factor: Allocation, grid: FloatArray) -> FloatArray:
    """Masses of one place on the grid's points, of x_1 between its ends: every cell split between its ends, rounded up.

    The cells' masses are right to a share e of the tails beyond them, and so are their means; a mass on a point is then
    raised by what that may make of it.
    """
    places = [-math.inf if x == 0.0 else _place(factor, x) for x in grid.tolist()]
    tails = np.array([normal_tail(z) for z in places])
    shifted = np.array([normal_tail(z - factor.shift) for z in places])
    mass, share = tails[:-1] - tails[1:], shifted[:-1] - shifted[1:]
    unit = math.exp(factor.log_probability) / factor.places
    mean = unit * share
    width = np.diff(grid)
    right = (mean - grid[:-1] * mass) / width
    left = mass - right
    of_right = _OF_TAILS / width * (unit * shifted[:-1] + grid[:-1] * tails[:-1])
    result = np.zeros(len(grid))
    result[:-1] += np.maximum(left, 0.0) + of_right + _OF_TAILS * tails[:-1]
    result[1:] += np.maximum(right, 0.0) + of_right
    return result


def _sums(small: FloatArray, large: float, places: int, p: float, some_large: float) -> tuple[FloatArray, float]:
    """The masses of the sum over all places, none of them large, on the even grid, and the P-mass left out: by the
    number of places that are not at 0."""
    jumps, grid = small[1:], large / _POINTS
    mean = places * float(jumps.sum()) * (1.0 + _ROUNDING)
    none = 1.0 - (float(jumps.sum()) + some_large) * (1.0 - 2.0 * _ROUNDING)
    result = np.zeros(len(small))
    several, number, log_ways = np.ones(1), 0, 0.0
    tail = 1.0
    lost = 0.0
    while True:
        weight = math.exp(log_ways + (places - number) * math.log1p(none - 1.0))
        result[number : number + len(several)] += weight * several[: len(result) - number]
        tail = tail * mean / (number + 1.0)
        if number == min(places, _MOST_JUMPS) or (number > 0 and tail < _FEW_JUMPS):
            break
        log_ways += math.log((places - number) / (number + 1.0))
        number += 1
        longer = np.convolve(several, jumps)
        # Sums that are beyond the grid from this place on, whatever follows: their mass and their mean.
        beyond = longer[len(result) - number :]
        if len(beyond):
            x = grid * np.arange(len(result), len(result) + len(beyond))
            lost += 1.001 * math.exp(log_ways) * float(beyond @ (1.0 + p + x))
        several = longer[: len(result) - number]
    # More jumps, with E[x_t; at least so many] <= E[x_t] P(so many, or one less, in the other places).
    return result, lost + (tail * (1.0 + p * (number + 1.0) / mean) if number < places else 0.0)
