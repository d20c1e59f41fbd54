"""A few rounds in ball arithmetic, where a contour would be endless: lattices of losses, extrapolated.

Every cell of losses [j h, (j+1) h] has exact masses under P and Q (differences of normal tails), which fix how
much of it goes to either end; powers are products of polynomials. What that does to delta(epsilon) is a
series in h^2 when epsilon is a lattice point, so three lattices and Richardson's extrapolation give it to many
more digits than any of them. Rounding errors are enclosed by the balls; the radius also covers the distance
between the last two extrapolations, which is far above the error of the last one. Lattices that are too coarse
to see a series in h^2 (they must resolve the losses next to log p_0) are refused.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from flint import arb, arb_poly, ctx

from oracle.closed import _balls, _loss, _tail
from oracle.mixture import exact
from oracle.pairs import Branch, Gaussian, Rounds, rounds_of

#: How far from the components' centres cells reach; what lies beyond, 1e-19, is in the last ones.
_REACH = 9.0
_BITS = 128


def log_delta(composition: Any, *, epsilon: Any, direction: str | None = None, step: float = 0.04) -> arb:
    """log delta(epsilon) of a few rounds; `step` is about that of the coarsest lattice."""
    rounds = rounds_of(composition, direction)
    with ctx.workprec(_BITS):
        eps = arb(exact(epsilon))
        count = round(abs(float(eps)) / step)
        coarsest = abs(eps) / count if count else arb(step)
        values = [_delta(rounds, eps, coarsest / 2**k) for k in range(3)]
        steps = [coarse - fine for coarse, fine in itertools.pairwise(values)]
        if abs(steps[0]) > 1e-25 * values[0] and not 3.3 < steps[0] / steps[1] < 4.7:
            raise AssertionError("the lattices are too coarse: a smaller step is needed")
        once = [(4 * fine - coarse) / 3 for coarse, fine in itertools.pairwise(values)]
        twice = (16 * once[1] - once[0]) / 15
        return (twice + abs(twice - once[1]) * arb(0, 1)).log()


def _delta(rounds: Rounds, eps: arb, step: arb) -> arb:
    product, first = arb_poly([1]), 0
    for one, times in rounds:
        parts = [(weight, *_atoms(branch, step)) for weight, branch in one.coin]
        lowest = min(low for _, low, _ in parts)
        atoms = sum((arb_poly([0] * (low - lowest) + part) * arb(w) for w, low, part in parts), arb_poly([0]))
        product, first = product * atoms**times, first + lowest * times
    total = arb(0)
    at = round(float(eps / step))
    for n, mass in enumerate(product.coeffs(), start=first):
        if n > at:
            total += mass * (1 - (eps - n * step).exp())
    return total


def _atoms(branch: Branch | Gaussian, step: arb) -> tuple[int, list[arb]]:
    """(index of the first atom, masses under P)."""
    low, high, tails = (_gaussian_tails if isinstance(branch, Gaussian) else _tails)(branch, step)
    of_p = [arb(1), *(p for p, _ in tails), arb(0)]
    of_q = [arb(1), *(q for _, q in tails), arb(0)]
    atoms = [arb(0)] * (high - low + 1)
    for k in range(high - low):  # a loss in [(low + k) h, (low + k + 1) h]
        p, q = of_p[k] - of_p[k + 1], of_q[k] - of_q[k + 1]
        moved = (p - ((low + k) * step).exp() * q) / (1 - (-step).exp())
        atoms[k] += p - moved
        atoms[k + 1] += moved
    return low, atoms


def _gaussian_tails(branch: Gaussian, step: arb) -> tuple[int, int, list[tuple[arb, arb]]]:
    mu = arb(branch.square).sqrt()
    ends = [branch.reach * (side * _REACH + x) for side, x in ((-1, -branch.reach / 2), (1, branch.reach / 2))]
    low, high = math.floor(ends[0] / float(step)), math.ceil(ends[1] / float(step))
    levels = [j * step for j in range(low + 1, high)]
    return low, high, [(_tail(x / mu - mu / 2), _tail(x / mu + mu / 2)) for x in levels]


def _tails(branch: Branch, step: arb) -> tuple[int, int, list[tuple[arb, arb]]]:
    """(lowest, highest index of an atom, P and Q of losses beyond j h for every j strictly in between)."""
    ends = branch.float_loss(np.array([-_REACH - branch.y_max, _REACH + branch.x_max]))
    low, high = math.floor(ends[0] / float(step)), math.ceil(ends[1] / float(step))
    right, left = _balls(branch.right), _balls(branch.left)
    places = _places(branch, range(low + 1, high), step)
    of_p = (sum((a * _tail(u - x) for x, a in right), arb(0)) for u in places)
    of_q = (sum((b * _tail(u + y) for y, b in left), arb(0)) for u in places)
    return low, high, list(zip(of_p, of_q, strict=True))


def _places(branch: Branch, indices: range, step: arb) -> list[arb]:
    """u with Psi(u) = j h for every j: bisection in doubles, then Newton's method in balls."""
    wanted = float(step) * np.array(indices)
    low = np.full(len(indices), -4.0 * _REACH - branch.y_max)
    high = np.full(len(indices), 4.0 * _REACH + branch.x_max)
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = branch.float_loss(middle) < wanted
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    sides, places = (_balls(branch.right), _balls(branch.left)), []
    for j, start in zip(indices, low.tolist(), strict=True):
        u = arb(start)
        for _ in range(2):
            value, slope = _loss(sides, u)
            u = (u - (value - j * step) / slope).mid()
        places.append(u)
    return places
