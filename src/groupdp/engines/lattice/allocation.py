"""Rounds in which one random allocation decides many steps: laws of likelihood ratios on a few hundred atoms.

From above an atom is split between two grid points such that its mass and its mean are kept (dilation), from below all
atoms of a cell are merged into one at their mean (contraction); sums and products of independent ratios keep both
orders (L-23). Roundings go to the safe side (L-24). Means of M are built by doubling.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np

from groupdp.engines import count as count_work
from groupdp.engines.lattice.loss import FOUR_POINTS, rule_error
from groupdp.engines.lattice.other_parts import AtomsPart, law_of_atoms
from groupdp.errors import LimitExceeded
from groupdp.floats import ELEMENTARY, TINY, UNIT, FloatArray, composed
from groupdp.pairs import Allocation, AllocationRound, Product

#: Atoms of a law; no effect on validity.
ATOMS = 700
#: Normal variates within this distance of 0 or of the shift are on the grid; beyond lies less than 1e-43.
_REACH = 14.0
#: Rows of pairs at a time.
_ROWS = 12
#: Relative room for the sums over pairs: at most _ROWS x ATOMS additions in a block, and one for every block.
_SUMS = 2.0 * (_ROWS * (ATOMS + 2) + ATOMS) * UNIT
#: Largest shift: means of lognormals are finite doubles.
_LARGEST_SHIFT = 12.0
#: Largest likelihood ratio of a product: beyond doubles its atoms have no place.
_LARGEST_RATIO = 1e300
#: Share of the grid's points that are laid evenly; no effect on validity.
_EVENLY = 0.5


@dataclass(frozen=True, slots=True)
class Side:
    """Which test functions a law is good for, and from which side."""

    up: bool
    forward: bool

    @property
    def outward(self) -> float:
        """+1 where positions are rounded up, -1 where they are rounded down."""
        return 1.0 if self.up == self.forward else -1.0


@dataclass(frozen=True, slots=True)
class ConvexLaw:
    """Atoms at x >= 0, increasing, and (forward, from above) a mass of P at infinity."""

    x: FloatArray
    mass: FloatArray
    infinite: float = 0.0

    @property
    def total(self) -> float:
        return float(self.mass.sum()) * (1.0 + _SUMS)

    @property
    def mean(self) -> float:
        return float(self.mass @ self.x) * (1.0 + _SUMS) + self.infinite


def law_of_product(product: Product, side: Side) -> ConvexLaw:
    """The law of a product of independent allocations."""

    def multiplied(first: ConvexLaw, second: ConvexLaw) -> ConvexLaw:
        return combined(first, second, side, product=True)

    return reduce(
        multiplied, (composed(law_of_allocation(factor, side), times, multiplied) for factor, times in product)
    )


@lru_cache(maxsize=64)
def law_of_allocation(factor: Allocation, side: Side) -> ConvexLaw:
    """The law of X for one allocation."""
    law = _mean_of_lognormals(factor.places, factor.shift, side)
    if factor.log_probability == 0.0:
        return law
    p = math.exp(factor.log_probability)
    room = 8.0 * UNIT * (1.0 + abs(factor.log_probability))
    # A larger p dominates (X grows in convex order); below, a smaller one is dominated.
    p = min(p * (1.0 + room if side.up else 1.0 - room), 1.0)
    return ConvexLaw(
        (1.0 - p + p * law.x) * (1.0 + side.outward * 8.0 * UNIT), law.mass, law.infinite * p * (1.0 + room)
    )


def _mean_of_lognormals(places: int, shift: float, side: Side) -> ConvexLaw:
    """X_{2M} = (X_M + X'_M) / 2, and X_{a + b} = (a X_a + b X_b) / (a + b) for the bits of M."""
    power, bit, done = lognormal(shift, side), 1, 0
    result: ConvexLaw | None = None
    while True:
        if places & bit:
            weights = done / (done + bit), bit / (done + bit)
            result = power if result is None else combined(result, power, side, weights=weights)
            done += bit
        bit <<= 1
        if bit > places:
            break
        power = combined(power, power, side)
    if result is None:
        raise AssertionError("a mean must have a term")
    return result


@lru_cache(maxsize=64)
def lognormal(shift: float, side: Side) -> ConvexLaw:
    """The law of e^{sZ - s^2/2}: cells of Z, whose masses under N(0) and N(s) are Q and P."""
    if not shift <= _LARGEST_SHIFT:
        raise LimitExceeded(
            f"a shift is {shift:.3g} times the noise; the lattice engine takes allocations of at most "
            f"{_LARGEST_SHIFT:g} times."
        )
    z = np.linspace(-_REACH, _REACH + shift, ATOMS)
    under_q, q_error = _normal_masses(z)
    under_p, p_error = _normal_masses(z - shift)
    error = 1.01 * (q_error + p_error + 4.0 * UNIT * (_REACH + shift) * (1.0 + np.abs(z[1:]) + shift))
    mean = under_p / under_q
    outward = side.outward
    if not side.up:
        return ConvexLaw(mean * (1.0 + outward * 1.01 * error), under_q * (1.0 - error))
    near = 1.0 + UNIT * (8.0 * (np.abs(shift * z) + shift * shift) + 16.0) + ELEMENTARY
    point = np.exp(shift * z - 0.5 * shift * shift)
    low, high = (point / near)[:-1], (point * near)[1:]
    gap = high - low
    with np.errstate(over="ignore", invalid="ignore"):
        share = (mean - low) / gap + outward * 1.01 * (error * mean + 8.0 * UNIT * high) / gap
    share = np.clip(share, 0.0, 1.0)
    mass = np.zeros(len(z) + 1)
    mass[1:-1] += under_q * (1.0 - share) + 4.0 * UNIT * under_q
    mass[2:] += under_q * share
    mass *= 1.0 + float(error.max()) + 8.0 * UNIT
    # The mass beyond: Phi(-r) <= e^{-r^2/2} / 2.
    beyond = 0.51 * math.exp(-0.5 * _REACH**2)
    x = np.concatenate(([0.0], point * near if outward > 0.0 else point / near))
    mass[1 if side.forward else 0] += beyond
    mass[-1] += beyond
    return ConvexLaw(x, mass, beyond if side.forward else 0.0)


def _normal_masses(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Masses of N(0, 1) between consecutive z, with relative errors."""
    left, width = z[:-1], np.diff(z)
    total = np.zeros(len(width))
    for abscissa, weight in zip(*FOUR_POINTS, strict=True):
        u = left + 0.5 * width * (1.0 + abscissa)
        total += 0.5 * width * weight * np.exp(-0.5 * u * u)
    extent = np.maximum(np.abs(z[:-1]), np.abs(z[1:]))
    error = rule_error(width, extent) + UNIT * (8.0 * extent * (extent + 1.0) + 32.0) + ELEMENTARY
    return total / math.sqrt(2.0 * math.pi), np.asarray(1.01 * error)


def combined(
    first: ConvexLaw,
    second: ConvexLaw,
    side: Side,
    *,
    weights: tuple[float, float] = (0.5, 0.5),
    product: bool = False,
) -> ConvexLaw:
    """The law of the product, or of the weighted mean, of independent variables."""
    a, b = weights

    def values(rows: FloatArray, columns: FloatArray) -> FloatArray:
        combined = np.outer(rows, columns) if product else np.add.outer(a * rows, b * columns)
        return np.asarray(combined * (1.0 + side.outward * 8.0 * UNIT))

    with np.errstate(over="ignore"):
        if not float(values(first.x[-1:], second.x[-1:])[0, 0]) <= _LARGEST_RATIO:
            raise LimitExceeded(
                "the lattice engine takes products of allocations with likelihood ratios up to "
                f"{_LARGEST_RATIO:g}: more noise or a smaller group is needed."
            )
    count_work(len(first.x) * len(second.x))
    edges = _edges(first, second, values)
    count = len(edges)
    mass, moment, infinite = np.zeros(count), np.zeros(count), 0.0
    for start in range(0, len(first.x), _ROWS):
        rows = slice(start, start + _ROWS)
        z = values(first.x[rows], second.x).ravel()
        weight = np.outer(first.mass[rows], second.mass).ravel()
        cell = np.searchsorted(edges, z, side="right") - 1
        if not side.up:
            mass += np.bincount(cell, weight, minlength=count)
            moment += np.bincount(cell, weight * z, minlength=count)
            continue
        last = cell == count - 1
        if side.forward:
            infinite += float(np.sum(weight[last] * (z[last] - edges[-1])))
        cell = np.minimum(cell, count - 2)
        share = (z - edges[cell]) / (edges[cell + 1] - edges[cell]) * (1.0 + side.outward * 8.0 * UNIT)
        share = np.clip(share, 0.0, 1.0)
        moved = weight * share
        mass += np.bincount(cell, weight - moved, minlength=count) + np.bincount(cell + 1, moved, minlength=count)
    if not side.up:
        present = mass > TINY
        mean = moment[present] / mass[present] * (1.0 + side.outward * 2.1 * _SUMS)
        return ConvexLaw(mean, mass[present] * (1.0 - 1.01 * _SUMS))
    if side.forward:
        if product:
            own = first.infinite * second.mean + second.infinite * first.mean
        else:
            own = a * first.infinite * second.total + b * second.infinite * first.total
        infinite = (infinite + own) * (1.0 + 2.0 * _SUMS)
    kept = mass > 0.0
    return ConvexLaw(edges[kept], mass[kept] * (1.0 + 1.01 * _SUMS) + TINY, infinite)


def _edges(first: ConvexLaw, second: ConvexLaw, values: Callable[[FloatArray, FloatArray], FloatArray]) -> FloatArray:
    """0 and about ATOMS points, closest where the law has most of its mass (density^(1/3)); no effect on validity."""
    (x, p), (y, q) = (_thinned(law) for law in (first, second))
    z, weight = values(x, y).ravel(), np.outer(p, q).ravel()
    weight = weight * (1.0 + z)
    seen = (z > 0.0) & (weight > 1e-46)
    log_z, weight = np.log(z[seen]), weight[seen]
    weight = weight / weight.sum()
    centre = float(weight @ log_z)
    spread = max(math.sqrt(float(weight @ (log_z - centre) ** 2)), 1e-12)
    u = np.arcsinh((log_z - centre) / spread)
    places = np.linspace(float(u.min()) - 1e-9, float(u.max()) + 1e-9, 241)
    heights = np.histogram(u, places, weights=weight)[0]
    width = np.diff(np.sinh(places)) * spread
    need = np.cbrt(heights / width) * width
    need = need / need.sum() + _EVENLY / len(need)
    level = np.concatenate(([0.0], np.cumsum(need)))
    at = np.interp(np.linspace(0.0, level[-1], ATOMS), level, places)
    points = np.exp(centre + spread * np.sinh(at))
    return np.concatenate(([0.0], np.unique(points)))


def _thinned(law: ConvexLaw) -> tuple[FloatArray, FloatArray]:
    """About 180 atoms in place of the law's."""
    group = max(1, len(law.x) // 180)
    starts = np.arange(0, len(law.x), group)
    mass = np.add.reduceat(law.mass, starts)
    with np.errstate(invalid="ignore", divide="ignore"):
        x = np.add.reduceat(law.mass * law.x, starts) / mass
    return np.where(mass > 0.0, x, 0.0), mass


#: Branches of a coin at most: a second or so each.
MOST_BRANCHES = 32
#: Atoms below this probability in the rough law are left out of plans.
_LEAST = 1e-280


def allocation_part(round_: AllocationRound, rounds: int) -> AtomsPart:
    """A coin over products of allocations, run `rounds` times."""
    loss, mass, log_lost = atoms_of(round_, True)
    order = np.argsort(loss, kind="stable")
    order = order[mass[order] > _LEAST]
    law = law_of_atoms(loss[order], np.log(mass[order]))
    return AtomsPart(lambda up, _: atoms_of(round_, up), rounds, law, log_lost=log_lost)


@lru_cache(maxsize=32)
def atoms_of(round_: AllocationRound, up: bool) -> tuple[FloatArray, FloatArray, float]:
    """(losses, P-masses, log of P's mass at +infinity) that dominate (up) or are dominated by the round (L-23).

    Losses are off by at most the error of a logarithm, on the safe side.
    """
    if len(round_.products) > MOST_BRANCHES:
        raise LimitExceeded(
            f"a coin over allocations has {len(round_.products)} branches; the lattice engine takes at most "
            f"{MOST_BRANCHES}."
        )
    side = Side(up=up, forward=not round_.reverse)
    losses, masses, infinite = [], [], 0.0
    for product, log_weight in zip(round_.products, round_.log_weights, strict=True):
        law = law_of_product(product, side)
        sign = 1.0 if up else -1.0
        weight = math.exp(log_weight) * (1.0 + sign * UNIT * (8.0 + 8.0 * abs(log_weight)))
        infinite += weight * law.infinite * (1.0 + 4.0 * UNIT)
        seen = law.x > 0.0
        if round_.reverse:
            infinite += weight * float(law.mass[~seen].sum()) * (1.0 + 1e-12) if up else 0.0
        x, mass = law.x[seen], law.mass[seen]
        loss = -np.log(x) if round_.reverse else np.log(x)
        loss = loss + sign * (ELEMENTARY * np.abs(loss) + UNIT)
        own = mass if round_.reverse else mass * x
        losses.append(loss)
        masses.append(weight * own * (1.0 + sign * 4.0 * UNIT))
    return np.concatenate(losses), np.concatenate(masses), math.log(infinite) if infinite > 0.0 else -math.inf
