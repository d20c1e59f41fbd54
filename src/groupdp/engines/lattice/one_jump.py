"""A lower bound in closed form for far tails: one round alone has a loss beyond epsilon.

Let E be the event that some round has a loss above epsilon. With P_j = P(L_j > epsilon) for one round of the
j-th part, which has T_j rounds, Bonferroni's inequality and the union bound give

    delta(eps) >= P(E) - e^eps Q(E) >= sum_j T_j (P_j - e^eps Q_j) - (sum_j T_j P_j)^2 / 2
               =  sum_j T_j delta_j(eps) - (sum_j T_j P_j)^2 / 2,

P_j <= delta_j(eps - 1) / (1 - 1/e). Where losses are rare and large this is nearly all of delta, and where no
tilt brings the tail above the roundings of a transform it is what there is. Dropping all rounds but one is
post-processing, so delta_j(eps) alone is a lower bound too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from groupdp.engines.lattice.roots import last_above
from groupdp.mixture import MixtureOfGaussians
from groupdp.reductions import Composition

#: (lower, upper) of log delta(epsilon) of a single round.
OneRound = Callable[[MixtureOfGaussians, float], tuple[float, float]]

_LOG_SHARE = math.log(-math.expm1(-1.0))
_ROOM = 1e-14


def one_jump_log_delta(composition: Composition, epsilon: float, one_round: OneRound) -> float:
    """A lower bound on log delta(epsilon); -inf if no single round reaches epsilon."""
    single = [one_round(mixture, epsilon)[0] for mixture, _ in composition]
    log_rounds = [math.log(rounds) for _, rounds in composition]
    log_sum = float(np.logaddexp.reduce(np.add(single, log_rounds)))
    if log_sum == -math.inf:
        return -math.inf
    before = math.nextafter(epsilon - 1.0, -math.inf)  # at least 1 away
    beyond = [one_round(mixture, before)[1] - _LOG_SHARE for mixture, _ in composition]
    log_twice = 2.0 * float(np.logaddexp.reduce(np.add(beyond, log_rounds))) - math.log(2.0)
    room = _ROOM * (1.0 + abs(log_sum) + abs(log_twice))
    log_share = log_twice - log_sum + 2.0 * room  # of what is subtracted
    several = log_sum - room + math.log1p(-math.exp(log_share)) - room if log_share < -0.1 else -math.inf
    return max(several, *single)


def one_jump_epsilon(
    composition: Composition, log_delta: float, one_round: OneRound, *, start: float, resolution: float
) -> float:
    """An epsilon >= 0 with delta(epsilon) > e^log_delta, evaluated; 0 if none was found."""

    def curve(epsilon: float) -> float:
        return one_jump_log_delta(composition, epsilon, one_round)

    return last_above(curve, log_delta, start=start, slope=1.0, resolution=resolution)
