"""Compositions that are one round in disguise: plain Gaussians, and rounds without noise beside at most one with it.

Gaussian rounds N(x_j) against N(-y_j) compose to one with the shift sqrt(sum_j T_j (x_j + y_j)^2). A round without
noise shows +infinity or nothing under P, -infinity or nothing under Q: what is left for a finite outcome is the
probability that no such round shows anything, in either world.
"""

from __future__ import annotations

import math

import numpy as np

from groupdp.pairs import ZERO, Branch, Composition, Round, Side
from groupdp.tradeoff.half_lines import log_complement


def as_one_round(composition: Composition) -> Round | None:
    """The round whose trade-off function is the composition's; None if there is none."""
    rounds = [(one, times) for one, times in composition if isinstance(one, Round)]
    if len(rounds) < len(composition):  # a profile is not a pair of mixtures
        return None
    noisy = [part for part in rounds if part[0].has_noise]
    silent = [part for part in rounds if not part[0].has_noise]
    if not noisy:
        one: Round | None = Round.of(ZERO, ZERO)
    elif all(_is_gaussian(part) for part, _ in noisy):
        one = Round.of(Side.point(_gaussian_shift(noisy)), ZERO)
    elif len(noisy) == 1 and noisy[0][1] == 1:
        one = noisy[0][0]
    else:
        one = None
    if one is None or not silent:
        return one
    if not all(_shows_nothing_finite(part) for part, _ in silent):
        return None
    right = math.fsum(times * part.branches[0].right.log_mass_at_zero for part, times in silent)
    left = math.fsum(times * part.branches[0].left.log_mass_at_zero for part, times in silent)
    branches = (Branch(_revealed(branch.right, right), _revealed(branch.left, left)) for branch in one.branches)
    return Round(branches, one.log_weights)


def _is_gaussian(one: Round) -> bool:
    return len(one.branches) == 1 and len(one.branches[0].right.shifts) == len(one.branches[0].left.shifts) == 1


def _gaussian_shift(parts: list[tuple[Round, int]]) -> float:
    shifts = ((one.branches[0].right.largest + one.branches[0].left.largest, times) for one, times in parts)
    return math.hypot(*(math.sqrt(times) * shift for shift, times in shifts))


def _shows_nothing_finite(one: Round) -> bool:
    """Whether all shifts are 0 or infinite, and there is no coin."""
    sides = (side for branch in one.branches for side in (branch.right, branch.left))
    return len(one.branches) == 1 and all(bool(np.all((side.shifts == 0.0) | np.isinf(side.shifts))) for side in sides)


def _revealed(side: Side, log_hidden: float) -> Side:
    """The side where the world is given away unless something of probability e^log_hidden happens."""
    if log_hidden == 0.0:
        return side
    if log_hidden == -math.inf:
        return Side.point(math.inf)
    shifts = np.append(side.shifts, math.inf)
    logs = np.append(side.log_probabilities + log_hidden, log_complement(log_hidden))
    with np.errstate(under="ignore"):
        return Side(shifts, (np.exp(logs), logs))
