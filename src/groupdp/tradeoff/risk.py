"""What a guarantee means for a person, from the trade-off function; and the Gaussian mechanism closest to a run.

Every number is about the best attacker on the worst loss and datasets; `upper` sides of advantages, true positive rates
and posteriors are guarantees. A mechanism is mu-GDP (Dong, Roth and Su 2022) if telling the group's presence is no
easier than telling N(0, 1) from N(mu, 1). The error kappa of the best mu is the smallest number with

    G_mu(alpha + kappa) - kappa  <=  f(alpha)      and      f(alpha + kappa) - kappa  <=  G_mu(alpha)

for all alpha. By duality it is

    kappa = sup over eps of |delta(eps) - delta_mu(eps)| / (1 + e^eps),

certified between the sampled epsilons: delta and delta_mu are convex in x = e^eps, so each lies below its chords and
above its chords extended (T-6, T-10).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from groupdp.bounds import Bounds
from groupdp.engines import Progress
from groupdp.errors import require_number
from groupdp.floats import FloatArray, bisected, normal_tail
from groupdp.guarantees import delta as delta_of_run
from groupdp.guarantees import exp_down, exp_up
from groupdp.tradeoff import TradeOff, rates_asked, trade_off
from groupdp.tradeoff.minorant import Minorant, down, up

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
    first = normal_tail(epsilon / mu - 0.5 * mu)
    second = normal_tail(epsilon / mu + 0.5 * mu)
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
    worst = max(float(side[1][-1]) for side in sides) / (1.0 + float(x[-1]))
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
    return sum(bisected(lambda mu: math.erf(mu / (2.0 * math.sqrt(2.0))) < advantage, 0.0, 80.0, 80)) / 2.0


@dataclass(frozen=True, kw_only=True)
class Risk:
    """How well an attacker could tell whether the group took part."""

    group_size: Any
    adjacency: str

    advantage: Bounds
    """Largest TPR - FPR of any attack: the total variation distance, delta(0)."""

    true_positive_rate: dict[float, Bounds]
    """Largest true positive rate at each false positive rate."""

    posterior: dict[float, Bounds]
    """Largest probability that somebody accused by such an attack did take part, at each false positive rate,
    for `prior`."""

    prior: float
    """Probability of taking part before seeing anything."""

    success: Bounds
    """Largest probability of a right guess about somebody who took part with probability `prior`."""

    function: TradeOff
    """The trade-off function that all of this is read from."""

    @cached_property
    def gaussian(self) -> GaussianFit:
        """The Gaussian mechanism closest to the run, and how close: computed when first asked for."""
        return best_gaussian(self.function)


def risk(
    run: Any,
    *,
    group_size: Any = None,
    adjacency: str = "add-or-remove",
    false_positive_rates: Sequence[float] = (1e-3, 1e-6),
    prior: float = 0.5,
    function: TradeOff | None = None,
    progress: Progress | None = None,
    **others: Any,
) -> Risk:
    """Advantage, true positive rates and posteriors, each certified.

    The other keywords are those of `TradeOff`. `function` is the run's trade-off function for the same question, where
    that is at hand: it keeps what it computed.
    """
    before = require_number("prior", prior, above=0.0, below=1.0)
    question = {"group_size": group_size, "adjacency": adjacency, **others}
    report = progress if progress is not None else (lambda _: None)
    asked = rates_asked(false_positive_rates)
    function = trade_off(run, **question) if function is None else function
    advantage = delta_of_run(run, epsilon=0.0, **question)
    guess = success(function, before)
    rates = {}
    for done, rate in enumerate(asked.tolist()):
        report(done / len(asked))
        rates[rate] = function.true_positive_rate(rate)
    return Risk(
        group_size=group_size,
        adjacency=adjacency,
        advantage=advantage,
        true_positive_rate=rates,
        posterior={rate: posterior(bounds, rate, prior=before) for rate, bounds in rates.items()},
        prior=before,
        success=guess,
        function=function,
    )


def posterior(true_positive_rate: Bounds, false_positive_rate: float, *, prior: float) -> Bounds:
    """Probability of having taken part, given a positive answer: prior TPR / (prior TPR + (1 - prior) FPR).

    Where both rates are equal that is the prior, exactly; so it is said to be where no answer is ever positive.
    """
    odds = (1.0 - prior) / prior

    def of(rate: float, room: float) -> float:
        if rate == false_positive_rate:
            return prior
        # As 1 / (1 + odds FPR / TPR): the quotient of two rates does not underflow where their products do.
        if rate > 0.0 and math.isfinite(odds):
            return (1.0 + room) / (1.0 + odds * (false_positive_rate / rate))
        return 0.0 if room < 0.0 or math.isfinite(odds) else 1.0

    lower, upper = of(true_positive_rate.lower, -1e-15), of(true_positive_rate.upper, 1e-15)
    return Bounds(max(lower, 0.0), min(upper, 1.0), tight=true_positive_rate.tight)


def success(function: TradeOff, prior: float) -> Bounds:
    """Largest probability of a right guess: (1 - prior) + prior delta(log((1 - prior) / prior)).

    Maximising prior TPR + (1 - prior) (1 - FPR) over tests is the definition of the hockey-stick divergence. Where the
    logarithm is off by r, delta is off by at most r (T-9).
    """
    # The larger of a coin's weights, by always giving the same answer.
    known = max(prior, 1.0 - prior)
    if not function.composition:
        return Bounds(known, known)
    level = math.log1p(-prior) - math.log(prior)
    room = prior * 2.0**-48 * (1.0 + abs(math.log1p(-prior)) + abs(math.log(prior)))
    at = function.log_delta(level)
    lower = (1.0 - prior) + prior * exp_down(at.lower) - room
    upper = (1.0 - prior) + prior * exp_up(at.upper) + room
    sides = max(lower * (1.0 - 1e-14), known * (1.0 - 1e-15)), min(upper * (1.0 + 1e-14), 1.0)
    return Bounds(*sides, tight=function.tight)
