"""Rounds whose shifts are far larger than the noise: an enclosure in closed form.

Let P be T rounds of sum_i p_i N(x_i, 1) and Q = N(0, 1) in each. P is the mixture, over the vectors of components, of
N(mu, I) with mu^2 = sum_t x_t^2 = r. With w the probability of the rarest vector (the rarest component in every round)
and

    C(eps) = sum_r P(r) delta_{sqrt r}(eps),      delta_mu the curve of N(mu, 1) against N(0, 1),

    C(eps - log w) <= delta(eps) <= C(eps).                                                      (P-25)

*Proof.* Above: hockey sticks are convex. Below: let E_v be where w_v dP_v / dQ > e^eps, for the vector v of probability
w_v, and E their union. Then delta(eps) >= P(E) - e^eps Q(E) >= sum_v (w_v P_v(E_v) - e^eps Q(E_v)), which is
sum_v w_v delta_v(eps - log w_v), and w_v >= w. QED.

C is the curve of one round with a public coin, which has a closed form. Where the shifts are thousands of times the
noise, epsilon is a million times log w, and neither engine is needed.
"""

from __future__ import annotations

import numpy as np

from groupdp.bounds import Bounds, Provenance
from groupdp.errors import LimitExceeded
from groupdp.pairs import ZERO, Branch, Composition, FloatArray, Round, Side

#: The enclosure is used where log w is at most this share of the smallest positive loss, about shift^2 / 2.
_SHARE = 1e-6
#: Different sums of squares, and products that their law may take.
_MOST_SUMS, _MOST_PRODUCTS = 4_000, 50_000_000
#: Bounds on log delta that are wider than this are left to the engines.
_WIDEST = 1e-2
#: Shifts are multiples of the smallest one up to this, and sums of squares are rounded by less than this.
_ROUNDING = 1e-12
#: What the law's probabilities are off by, relatively: fewer than 4 000 rounds of at most 63 products each, every one
#: with 6 roundings at most, are 4 000 x 69 x 2^-53 < 4e-11; and the smallest log delta for which underflow is less.
_LAW_ROUNDING, _SMALLEST_LOG_DELTA = 1e-10, -600.0


def enclosed_epsilon(noisy: Composition, log_delta: float) -> Bounds | None:
    """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta by P-25; None where it does not apply."""
    from groupdp.engines.lattice.curves import curve_of  # most calls never need them
    from groupdp.engines.lattice.roots import first_at_most, last_above

    coins = _coins(noisy) if log_delta > _SMALLEST_LOG_DELTA else None
    if coins is None:
        return None
    below, above, log_rarest = coins
    # P(r > r_0) <= delta < P(r >= r_0): epsilon is near the middle of the loss of N(sqrt r_0, 1), r_0 / 2.
    tails = np.logaddexp.accumulate(np.array(above.log_weights)[::-1])[::-1]
    shift = above.branches[int(np.searchsorted(-tails, -log_delta, side="right")) - 1].right.largest
    if not shift > 0.0:
        return None
    about = {"start": 0.5 * shift * shift, "slope": 1.0 / shift, "resolution": _ROUNDING}
    try:
        low = last_above(curve_of(below).below, log_delta + _LAW_ROUNDING, **about)
        high = first_at_most(curve_of(above).above, log_delta - _LAW_ROUNDING, **about)
    except LimitExceeded:
        return None
    if not high - low <= 2.0 * _SHARE * high:
        return None
    return Bounds(max(low + log_rarest * (1.0 + _ROUNDING), 0.0), high, Provenance(engine="closed form"))


def enclosed_log_delta(noisy: Composition, epsilon: float) -> Bounds | None:
    """Bounds on log delta(epsilon) by P-25; None where it does not apply."""
    from groupdp.engines import lattice

    coins = _coins(noisy) if epsilon >= 0.0 else None
    if coins is None:
        return None
    below, above, log_rarest = coins
    shifted = epsilon * (1.0 + _ROUNDING) - log_rarest * (1.0 + _ROUNDING)
    try:
        low = lattice.log_delta(((below, 1),), epsilon=shifted).lower
        high = lattice.log_delta(((above, 1),), epsilon=epsilon).upper
    except LimitExceeded:
        return None
    if not (high > _SMALLEST_LOG_DELTA and high - low <= _WIDEST):
        return None
    return Bounds(low - _LAW_ROUNDING, min(high + _LAW_ROUNDING, 0.0), Provenance(engine="closed form"))


def _coins(noisy: Composition) -> tuple[Round, Round, float] | None:
    """Rounds with the curve C, their shifts rounded down and up, and log w; None where P-25 does not apply or help."""
    if len(noisy) != 1:
        return None
    one, times = noisy[0]
    if not (isinstance(one, Round) and len(one.branches) == 1 and one.branches[0].left.is_zero):
        return None
    side = one.branches[0].right
    positive = side.shifts[side.shifts > 0.0]
    unit = float(positive[0])
    log_rarest = times * float(side.log_probabilities.min())
    if not (len(side.shifts) > 1 and 1.0 < unit < 1e140 and -log_rarest <= _SHARE * 0.5 * unit * unit):
        return None
    counts = np.rint(side.shifts / unit)
    if np.any(np.abs(side.shifts - counts * unit) > _ROUNDING * side.shifts):
        return None
    largest = times * float(counts[-1]) ** 2
    if largest >= _MOST_SUMS or largest * len(counts) * times > _MOST_PRODUCTS:
        return None
    law = _law_of_sums(counts.astype(int) ** 2, side.probabilities, times)
    sums = np.flatnonzero(law > 0.0)
    shifts = unit * np.sqrt(sums)
    return (
        _coin(shifts * (1.0 - 4.0 * _ROUNDING), law[sums]),
        _coin(shifts * (1.0 + 4.0 * _ROUNDING), law[sums]),
        log_rarest,
    )


def _law_of_sums(squares: np.ndarray, probabilities: FloatArray, times: int) -> FloatArray:
    """The law of the sum of `times` independent squares."""
    law = np.ones(1)
    for _ in range(times):
        following = np.zeros(len(law) + int(squares[-1]))
        for square, probability in zip(squares.tolist(), probabilities.tolist(), strict=True):
            following[square : square + len(law)] += probability * law
        law = following
    return law


def _coin(shifts: FloatArray, law: FloatArray) -> Round:
    branches = [Branch(Side.point(float(shift)), ZERO) for shift in shifts]
    return Round(branches, np.minimum(np.log(law), 0.0).tolist())
