"""Rounds without noise: either it is seen that the group took part, or nothing is but that it did not (C-26)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from flint import arb

from groupdp.certificate.laws import Noiseless


@dataclass
class Revealed:
    """1 - p: a noiseless round reveals all; otherwise these rounds have a loss from `least` to `most` in all."""

    p: tuple[arb, arb]  # from below and from above
    least: arb
    most: arb


def revealed(parts: list[tuple[Noiseless, int]]) -> Revealed:
    """C-26 for rounds without noise, each with the number of times it is run."""
    found = Revealed((arb(1), arb(1)), arb(0), arb(0))
    for one, times in parts:
        kept = [(arb(a), arb(b)) for a, b in one.outcomes if not (a == 0 or b == 0)]
        p, q = (sum((pair[side] for pair in kept), arb(0)) for side in (0, 1))
        found.p = (found.p[0] * p.lower() ** times, found.p[1] * (p + one.missing).min(arb(1)).upper() ** times)
        if kept:
            found.least += times * (p / q).log()
            found.most += times * reduce(arb.max, ((a / b).log() for a, b in kept))
    return found


def delta_with(
    parts: list[tuple[Noiseless, int]], noisy: Callable[[Any], tuple[arb, arb]], epsilon: arb
) -> tuple[arb, arb]:
    """C-26: (lower, upper) of (1 - p) + p delta'(epsilon - loss), delta' that of the noisy rounds."""
    quiet = revealed(parts)
    if quiet.p[1].is_zero():
        return arb(1), arb(1)
    low, high = noisy(epsilon - quiet.least)[0], noisy(epsilon - quiet.most)[1]
    lower = 1 - quiet.p[1] + quiet.p[0] * low
    return lower.lower(), (1 - quiet.p[0] + quiet.p[0] * high).upper()
