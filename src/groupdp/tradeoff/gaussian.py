"""The Gaussian mechanism closest to a run: one number mu, with a certified error.

A mechanism is mu-GDP (Dong, Roth and Su 2022) if telling the group's presence is no easier than telling N(0, 1)
from N(mu, 1). A run is not exactly that; the error kappa of the best mu is the smallest number with

    G_mu(alpha + kappa) - kappa  <=  f(alpha)      and      f(alpha + kappa) - kappa  <=  G_mu(alpha)

for all alpha: neither curve is further than kappa from the other in both error rates. By duality it is

    kappa = sup over eps of |delta(eps) - delta_mu(eps)| / (1 + e^eps).

The supremum is certified between the sampled epsilons: delta and delta_mu are convex in x = e^eps, so each lies below
its chords and above its chords extended (T-6, T-10).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from groupdp.engines.interface import Progress
from groupdp.guarantees import exp_down, exp_up
from groupdp.tradeoff.function import TradeOff
from groupdp.tradeoff.minorant import FloatArray, Minorant, down, up

#: Sampled epsilons: the certified error is at least about the square of 1 / points.
_POINTS = 96
_FEW_POINTS = 14
#: They reach up to where delta(eps) / (1 + e^eps) is this small; that bounds the rest.
_NEGLIGIBLE = 1e-5
#: Relative error of the closed form below (differences of two normal tails), allowed for generously.
_CLOSED_FORM = 1e-12


@dataclass(frozen=True, slots=True)
class GaussianFit:
    """mu, and the certified distance of its trade-off function from the run's in both error rates."""

    mu: float
    error: float


def gaussian_delta(epsilon: float, mu: float) -> float:
    """delta of the mu-GDP Gaussian mechanism (Balle and Wang 2018), for epsilon >= 0; within 1e-12 absolutely."""
    if mu == 0.0:
        return 0.0
    first = _normal_tail(epsilon / mu - 0.5 * mu)
    second = _normal_tail(epsilon / mu + 0.5 * mu)
    return max(first - (math.exp(epsilon + math.log(second)) if second > 0.0 else 0.0), 0.0)


def best_gaussian(function: TradeOff, *, progress: Progress | None = None) -> GaussianFit:
    """The mu with the smallest certified error, to about 1e-4."""
    if not function.composition:
        return GaussianFit(0.0, 0.0)
    first = _delta(function, 0.0)
    points = _FEW_POINTS if function.is_costly else _POINTS
    reach = _reach(function, first[1])
    epsilons = [reach * i / (points - 1) for i in range(points)]
    # Epsilons below 0 of one pair are those above 0 of the reversed one.
    both = (False,) if function.adjacency == "add-or-remove" else (False, True)
    samples = []
    for part, mirrored in enumerate(both):
        sides = []
        for done, epsilon in enumerate(epsilons):
            sides.append(_delta(function, epsilon, mirrored=mirrored))
            if progress is not None:
                progress(0.3 + 0.7 * (part + done / points) / len(both))
        samples.append((np.array([low for low, _ in sides]), np.array([high for _, high in sides])))
    at = np.array(epsilons)

    def error(mu: float) -> float:
        return max(_error(mu, at, lower, upper) for lower, upper in samples)

    start = _mu_of_advantage(first[1])
    low, high = 0.5 * start, 1.5 * start + 1e-12
    golden = 0.5 * (math.sqrt(5.0) - 1.0)
    for _ in range(24):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if error(left) <= error(right):
            high = right
        else:
            low = left
    mu = float(f"{0.5 * (low + high):.5g}")  # short enough to be printed in full: the error is that of this very mu
    return GaussianFit(mu, min(error(mu), 1.0))


def _delta(function: TradeOff, epsilon: float, *, mirrored: bool = False) -> tuple[float, float]:
    bounds = function.log_delta(epsilon, mirrored=mirrored)
    return exp_down(bounds.lower), exp_up(bounds.upper)


def _reach(function: TradeOff, advantage: float) -> float:
    """The epsilon where delta(eps) / (1 + e^eps) is negligible, to a tenth; some allowance for small advantages."""
    goal = max(min(_NEGLIGIBLE, 1e-3 * advantage), 1e-300)
    low, high = 0.0, math.log(1.0 / goal)
    for _ in range(4 if function.is_costly else 8):
        middle = 0.5 * (low + high) if low > 0.0 else 0.25 * high
        if _delta(function, middle)[1] / (1.0 + math.exp(middle)) <= goal:
            high = middle
        else:
            low = middle
            if high - low < 0.1 * high:
                break
    return high


def _error(mu: float, epsilons: FloatArray, lower: FloatArray, upper: FloatArray) -> float:
    """Upper bound on sup |delta - delta_mu| / (1 + x) over x >= 1 (T-10)."""
    x = np.exp(epsilons)
    # A place x that is off by a factor 1 + r moves delta by hardly more than r: x |d delta / dx| <= 1 (T-9).
    room = 2.0**-49 * (1.0 + epsilons)
    gaussian = np.array([gaussian_delta(float(epsilon), mu) for epsilon in epsilons])
    sides = (
        (np.maximum(lower - room, 0.0), upper + room),
        (np.maximum(gaussian - _CLOSED_FORM - room, 0.0), gaussian + _CLOSED_FORM + room),
    )
    worst = max(float(one[1][-1]) for one in sides) / (1.0 + float(x[-1]))
    for (_, above), below in (sides, sides[::-1]):
        ends, lines = Minorant(x, x, below[0][None], below[1][None]).pieces()
        # A chord decreases: taken at a place rounded down and a slope rounded up it is not below itself.
        slope = up((above[1:] - above[:-1]) / (x[1:] - x[:-1]))[:, None]
        chord = up(above[:-1, None] + up(slope * np.where(slope < 0.0, down(ends - x[:-1, None]), ends - x[:-1, None])))
        chord = np.minimum(chord, above[:-1, None])
        gaps = up(up(chord[None] - lines) / down(1.0 + ends[None]))
        worst = max(worst, float(np.maximum(gaps[..., :-1], gaps[..., 1:]).min(axis=0).max()))
    return worst * (1.0 + 1e-12)


def _mu_of_advantage(advantage: float) -> float:
    """The mu with delta_mu(0) = 2 Phi(mu / 2) - 1 equal to the advantage."""
    low, high = 0.0, 80.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if math.erf(middle / (2.0 * math.sqrt(2.0))) < advantage else (low, middle)
    return 0.5 * (low + high)


def _normal_tail(z: float) -> float:
    return 0.5 * math.erfc(z / math.sqrt(2.0))
