"""A composition made ready for a given size of delta: rare components dropped, rare outcomes thinned out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from groupdp.engines.interface import Direction
from groupdp.engines.spectral.contour import Contour
from groupdp.engines.spectral.rounds import Round, largest_loss, trimmed
from groupdp.engines.spectral.saddle import loss_scale
from groupdp.engines.spectral.thinning import discard
from groupdp.reductions import Composition

#: Dropped components and discarded outcomes may cost this much (e^-36) of delta, each.
_LOG_TRIM = -36.0
#: Thinning is never sharper than this: nodes would have to be closer than a fraction of it.
_NARROWEST_THINNING = 1e-3
#: Rounds are thinned if a component contributes more than this (a logarithm) from beyond the edge.
_THINNED_ABOVE = -20.0
#: Plain Gaussian rounds are cut into at least this many, of a shift of at most 1.
_DIVISIONS = 256.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A composition trimmed (and thinned) for a given size of delta."""

    rounds: tuple[Round, ...]
    direction: Direction
    log_dropped: float  # log of sum_j T_j eta_j, an upper bound
    largest_loss: float
    mean: float  # of the composed loss under P, roughly
    deviation: float

    def corrected(self, contour: Contour, epsilon: float) -> tuple[float, float]:
        """Certified (lower, upper) of log delta(epsilon) for the composition before trimming (section 5)."""
        if epsilon >= self.largest_loss:
            return -math.inf, -math.inf
        lower, upper = contour.log_delta(epsilon)
        if self.log_dropped == -math.inf:
            return lower, upper
        if self.direction == "remove":
            return lower, min(float(np.logaddexp(upper, self.log_dropped)) + 1e-15 * (1.0 + abs(upper)), 0.0)
        # -log(1 - eta) <= 2 eta; the mixture is at least (1 - eta) times the trimmed one, in every round.
        shift = 2.0 * math.exp(self.log_dropped)
        return lower, contour.log_delta(math.nextafter(epsilon - shift, -math.inf))[1]


def prepare(composition: Composition, direction: Direction, log_delta: float) -> Prepared:
    """Left out: what is too rare to change a delta of e^log_delta in any digit that is reported."""
    total = math.fsum(rounds for _, rounds in composition)
    whole = tuple(trimmed(mixture, rounds, log_budget=-math.inf) for mixture, rounds in composition)
    finest = min(float(one.m[one.m > 0.0][0]) for one in whole)
    # Losses as small as the finest shift move delta's scale in epsilon accordingly.
    budget = min(log_delta, 0.0) - math.log(total) + _LOG_TRIM - 2.0 * max(0.0, -math.log(finest))
    rounds = _divisible(tuple(trimmed(mixture, count, log_budget=budget) for mixture, count in composition))
    ceiling = largest_loss(whole) if direction == "add" else math.inf
    mean, deviation = loss_scale(rounds, direction)
    if direction == "remove":
        tilt = (math.sqrt(2.0 * max(-log_delta, 0.0)) + 1.0) / deviation
        rounds = tuple(_thinned(one, tilt=tilt, log_budget=budget) for one in rounds)
    dropped = [one.log_dropped + math.log(one.count) for one in rounds]
    dropped += [one.thinning.log_discarded + math.log(one.count) for one in rounds if one.thinning is not None]
    return Prepared(rounds, direction, float(np.logaddexp.reduce(dropped)), ceiling, mean, deviation)


def _thinned(one: Round, *, tilt: float, log_budget: float) -> Round:
    """The round, thinned if a tilt of the size expected would pile mass up beyond anything that matters."""
    a = 1.0 + tilt
    reach = a * one.m
    width = min(max(3.0 / float(reach[-1]), _NARROWEST_THINNING), 1.0)
    thinning = discard(one.m, one.log_p, width=width, log_budget=log_budget)
    # Roughly the logarithm of what each component contributes to G(a) from beyond the edge.
    short_of_it = np.maximum(thinning.edge - reach, 0.0)
    beyond = a * one.log_p + 0.5 * a * (a - 1.0) * np.square(one.m) - 0.5 * np.square(short_of_it)
    return replace(one, thinning=thinning) if float(beyond.max()) > _THINNED_ABOVE else one


def _divisible(rounds: tuple[Round, ...]) -> tuple[Round, ...]:
    """Plain Gaussian rounds cut into many smaller ones: T rounds of shift m are T' rounds of m sqrt(T / T').

    A Gaussian is infinitely divisible: T' may be any real number.
    """
    result = []
    for one in rounds:
        divisions = max(_DIVISIONS, one.count * one.largest_shift**2)
        if len(one.m) == 1 and one.count < divisions:
            shift = one.m * math.sqrt(one.count / divisions)
            result.append(Round(shift, one.p, one.log_p, divisions, one.log_dropped))
        else:
            result.append(one)
    return tuple(result)
