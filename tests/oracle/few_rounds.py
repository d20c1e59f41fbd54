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

from oracle.closed import _tail
from oracle.mixture import Composition, Mixture, exact

#: How far from the components' centres cells reach; what lies beyond, 1e-19, is in the last ones.
_REACH = 9.0
_BITS = 128


def log_delta(composition: Composition, *, epsilon: Any, direction: str, step: float = 0.04) -> arb:
    """log delta(epsilon) of a few rounds; `step` is about that of the coarsest lattice."""
    with ctx.workprec(_BITS):
        eps = arb(exact(epsilon))
        count = round(abs(float(eps)) / step)
        coarsest = abs(eps) / count if count else arb(step)
        values = [_delta(composition, eps, direction, coarsest / 2**k) for k in range(3)]
        steps = [coarse - fine for coarse, fine in itertools.pairwise(values)]
        if abs(steps[0]) > 1e-25 * values[0] and not 3.3 < steps[0] / steps[1] < 4.7:
            raise AssertionError("the lattices are too coarse: a smaller step is needed")
        once = [(4 * fine - coarse) / 3 for coarse, fine in itertools.pairwise(values)]
        twice = (16 * once[1] - once[0]) / 15
        return (twice + abs(twice - once[1]) * arb(0, 1)).log()


def _delta(composition: Composition, eps: arb, direction: str, step: arb) -> arb:
    product, first = arb_poly([1]), 0
    for mixture, rounds in composition:
        lowest, atoms = _one_round(mixture, step, direction)
        product, first = product * arb_poly(atoms) ** rounds, first + lowest * rounds
    total = arb(0)
    at = round(float(eps / step))
    for n, mass in enumerate(product.coeffs(), start=first):
        if n > at:
            total += mass * (1 - (eps - n * step).exp())
    return total


def _one_round(mixture: Mixture, step: arb, direction: str) -> tuple[int, list[arb]]:
    """(index of the first atom, masses under P)."""
    ends = mixture.float_loss(np.array([-_REACH, _REACH + mixture.float_shifts[-1]]))
    low, high = math.floor(ends[0] / float(step)), math.ceil(ends[1] / float(step))
    places = _places(mixture, range(low + 1, high), step)
    normal = [arb(1), *map(_tail, places), arb(0)]
    shifts, law = [arb(m) for m in mixture.shifts], [arb(p) for p in mixture.probabilities]
    shifted = (sum((p * _tail(u - m) for m, p in zip(shifts, law, strict=True)), arb(0)) for u in places)
    mixed = [arb(1), *shifted, arb(0)]
    removing = direction == "remove"
    of_p, of_q = (mixed, normal) if removing else (normal, mixed)
    atoms = [arb(0)] * (high - low + 1)
    for k in range(high - low):
        # log R in [(low + k) h, (low + k + 1) h]: the loss is that, or minus that
        p, q = of_p[k] - of_p[k + 1], of_q[k] - of_q[k + 1]
        near = low + k if removing else -(low + k + 1)
        moved = (p - (near * step).exp() * q) / (1 - (-step).exp())
        place = k if removing else high - low - 1 - k
        atoms[place] += p - moved
        atoms[place + 1] += moved
    return (low if removing else -high), atoms


def _places(mixture: Mixture, indices: range, step: arb) -> list[arb]:
    """u with log R(u) = j h for every j: bisection in doubles, then Newton's method in balls."""
    wanted = float(step) * np.array(indices)
    low = np.full(len(indices), -4.0 * _REACH)
    high = np.full(len(indices), 2.0 * _REACH + mixture.float_shifts[-1])
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = mixture.float_loss(middle) < wanted
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    pairs = [(arb(m), arb(p)) for m, p in zip(mixture.shifts, mixture.probabilities, strict=True)]
    places = []
    for j, start in zip(indices, low.tolist(), strict=True):
        u = arb(start)
        for _ in range(2):
            terms = [p * (m * (u - m / 2)).exp() for m, p in pairs]
            total = sum(terms, arb(0))
            slope = sum((m * term for (m, _), term in zip(pairs, terms, strict=True)), arb(0)) / total
            u = (u - (total.log() - j * step) / slope).mid()
        places.append(u)
    return places
