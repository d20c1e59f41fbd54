"""A lower bound in closed form for far tails: one round alone has a loss beyond epsilon (L-16).

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

import numpy as np

from groupdp.engines.lattice.curves import Curve, curve_of
from groupdp.engines.lattice.roots import last_above
from groupdp.engines.work import Work
from groupdp.pairs import Composition

_LOG_SHARE = math.log(-math.expm1(-1.0))
_ROOM = 1e-14


def single_loss_log_delta(composition: Composition, epsilon: float, *, work: Work | None = None) -> float:
    """A lower bound on log delta(epsilon); -inf if no single round reaches epsilon (L-16)."""
    return _bound([curve_of(one, work) for one, _ in composition], [times for _, times in composition], epsilon)


def single_loss_epsilon(
    composition: Composition, log_delta: float, *, start: float, resolution: float, work: Work | None = None
) -> float:
    """An epsilon >= 0 with delta(epsilon) > e^log_delta, evaluated; 0 if none was found."""
    curves = [curve_of(one, work) for one, _ in composition]
    rounds = [times for _, times in composition]
    return last_above(
        lambda epsilon: _bound(curves, rounds, epsilon), log_delta, start=start, slope=1.0, resolution=resolution
    )


def _bound(curves: list[Curve], rounds: list[int], epsilon: float) -> float:
    single = [curve.below(epsilon) for curve in curves]
    log_rounds = [math.log(times) for times in rounds]
    log_sum = float(np.logaddexp.reduce(np.add(single, log_rounds)))
    if log_sum == -math.inf:
        return -math.inf
    before = math.nextafter(epsilon - 1.0, -math.inf)  # at least 1 away
    beyond = [curve.above(before) - _LOG_SHARE for curve in curves]
    log_twice = 2.0 * float(np.logaddexp.reduce(np.add(beyond, log_rounds))) - math.log(2.0)
    room = _ROOM * (1.0 + abs(log_sum) + abs(log_twice))
    log_share = log_twice - log_sum + 2.0 * room  # of what is subtracted
    several = log_sum - room + math.log1p(-math.exp(log_share)) - room if log_share < -0.1 else -math.inf
    return max(several, *single)
