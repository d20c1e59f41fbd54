"""Closed forms beside the engines: shifts far larger than the noise, and known losses beside rounds of the contour.

T rounds of sum_i p_i N(x_i, 1) against N(0, 1) are a mixture, over the vectors of components, of N(mu, I) with mu^2 =
sum_t x_t^2. With C the curve of the public coin over them and w the probability of the rarest vector

    C(eps - log w) <= delta(eps) <= C(eps).                                                      (P-25)

Where the known losses, composed, have atoms p_i at l_i, and delta' is the curve of the other rounds,

    delta(eps) = sum_i p_i delta'(eps - l_i).                                                    (R-6)

A few contours serve all shifts: the next one is planned where the bracket is widest. A Laplace mechanism is put on a
lattice of its own first, above and below (R-4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from groupdp.bounds import Bounds, Provenance
from groupdp.engines import first_at_most, last_above, spectral
from groupdp.errors import LimitExceeded
from groupdp.floats import FloatArray
from groupdp.losses import AtomsRound, LaplaceRound, compose_atoms, laplace_atoms
from groupdp.pairs import ZERO, Branch, Composition, Round, Side

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
    coins = coins_of(noisy) if log_delta > _SMALLEST_LOG_DELTA else None
    if coins is None:
        return None
    from groupdp.engines.lattice.one_round import curve_of

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

    coins = coins_of(noisy) if epsilon >= 0.0 else None
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


@lru_cache(maxsize=16)
def coins_of(noisy: Composition) -> tuple[Round, Round, float] | None:
    """Rounds with the curve C, their shifts rounded down and up, and log w; None where P-25 does not apply or help."""
    if len(noisy) != 1:
        return None
    round_, times = noisy[0]
    if not (isinstance(round_, Round) and len(round_.branches) == 1 and round_.branches[0].left.is_zero):
        return None
    side = round_.branches[0].right
    if not (len(side.shifts) > 1 and side.largest > 1.0):
        return None
    positive = side.shifts[side.shifts > 0.0]
    unit = float(positive[0])
    log_rarest = times * float(side.log_probabilities.min())
    if not (1.0 < unit < 1e140 and -log_rarest <= _SHARE * 0.5 * unit * unit):
        return None
    counts = np.rint(side.shifts / unit)
    if np.any(np.abs(side.shifts - counts * unit) > _ROUNDING * side.shifts):
        return None
    largest = times * float(counts[-1]) * float(counts[-1])  # may be infinite, where a power would raise
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


#: Atoms of the composed known losses at most; and of all Laplace mechanisms of one kind, about.
_ATOMS, _OF_LAPLACE = 2000, 2000.0
#: Most sums of the losses of different kinds, about.
_SUMS_OF_KINDS = 3e5
#: Most contours at a time, and the relative width at which no more are planned.
_MOST_CONTOURS, _NARROW = 24, 1e-9
#: P-mass that is left out where delta is not known in advance, in logarithm.
_CUT = -200.0
#: Relative room for the sums.
_SUMS = 1e-12


def split_known(composition: Composition) -> tuple[Composition, Composition]:
    """(rounds of known losses, the others)."""
    known = tuple(part for part in composition if isinstance(part[0], AtomsRound | LaplaceRound))
    return known, tuple(part for part in composition if not isinstance(part[0], AtomsRound | LaplaceRound))


def shifted_log_delta(known: Composition, rest: Composition, *, epsilon: float) -> Bounds:
    """Certified bounds on log delta(epsilon), for any real epsilon (R-6)."""
    curve = _ShiftedCurve.of(known, rest, _CUT)
    lower, upper = curve.below(epsilon), curve.above(epsilon)
    return Bounds(min(lower, upper), upper, curve.provenance)


def shifted_epsilon(known: Composition, rest: Composition, *, log_delta: float) -> Bounds:
    """Certified bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta (R-6)."""
    curve = _ShiftedCurve.of(known, rest, log_delta - 40.0)
    if curve.above(0.0) <= log_delta:
        return Bounds(0.0, 0.0, curve.provenance)
    start = curve.start(log_delta)
    # log delta falls from about 0 to its target on the way to the start.
    about = {"start": start, "slope": max(-log_delta / max(start, 1e-6), 1.0), "resolution": 1e-10}
    lower = last_above(curve.below, log_delta, **about)
    upper = first_at_most(curve.above, log_delta, **(about | {"start": max(lower, start)}))
    return Bounds(min(lower, upper), upper, curve.provenance)


@dataclass(slots=True)
class _ShiftedCurve:
    """The curve of a composition, from both sides."""

    upper: AtomsRound
    lower: AtomsRound
    rest: Composition
    contours: list[spectral.Neighbourhood]

    @classmethod
    def of(cls, known: Composition, rest: Composition, log_cut: float) -> _ShiftedCurve:
        return cls(_law_of(known, log_cut, up=True), _law_of(known, log_cut, up=False), rest, [])

    @property
    def provenance(self) -> Provenance:
        counts = {"shifts": len(self.upper.losses), "contours": len(self.contours)}
        return Provenance(engine="spectral", implementation="compiled", evaluations=counts)

    def start(self, log_delta: float) -> float:
        """About where log delta passes: the other rounds' epsilon, and the mean of the known losses."""
        with np.errstate(under="ignore"):
            mean = float(np.exp(self.upper.log_p) @ self.upper.losses)
        return max(spectral.epsilon(self.rest, log_delta=log_delta).upper + mean, 0.0)

    def above(self, epsilon: float) -> float:
        return self._log_delta(self.upper, epsilon, up=True)

    def below(self, epsilon: float) -> float:
        return self._log_delta(self.lower, epsilon, up=False)

    def _log_delta(self, law: AtomsRound, epsilon: float, *, up: bool) -> float:
        sign = 1.0 if up else -1.0
        room = law.loss_error + 2.0**-51 * (np.abs(law.losses) + abs(epsilon))
        points = epsilon - law.losses - sign * room
        with np.errstate(under="ignore", divide="ignore"):
            # Whatever the pair, 1 - e^eps <= delta(eps) <= 1.
            low = np.log(np.maximum(-np.expm1(np.minimum(points, 0.0)) * (1.0 - 1e-14), 0.0))
        high = np.zeros(len(points))
        unused = list(self.contours)
        for _ in range(_MOST_CONTOURS):
            lower, upper, widest = _sums(law.log_p, low, high)
            if upper - lower <= _NARROW:
                break
            contour = unused.pop() if unused else spectral.neighbourhood(self.rest, float(points[widest]))
            if contour is None:  # delta is 0 there, and beyond
                high = np.where(points >= points[widest], -math.inf, high)
                continue
            if contour not in self.contours:
                self.contours.append(contour)
            own_low, own_high = contour.log_deltas(points)
            low, high = np.maximum(low, own_low), np.minimum(high, own_high)
        level = upper if up else lower
        room_of_sum = law.mass_error + _SUMS + (2.0**-50 * abs(level) if level > -math.inf else 0.0)
        if up:
            return min(float(np.logaddexp(upper + room_of_sum, law.log_lost)), 0.0)
        return lower - room_of_sum if lower > -600.0 else -math.inf


def _sums(log_p: FloatArray, low: FloatArray, high: FloatArray) -> tuple[float, float, int]:
    """(log of sum p e^low, log of sum p e^high, where the terms differ most)."""
    with np.errstate(under="ignore", invalid="ignore"):
        upper_terms = log_p + high
        top = float(np.max(upper_terms))
        if top == -math.inf:
            return -math.inf, -math.inf, 0
        above, below = np.exp(upper_terms - top), np.exp(log_p + low - top)
        lower = float(below.sum())
    return (
        (top + math.log(lower) if lower > 0.0 else -math.inf),
        top + math.log(float(above.sum())),
        int(np.argmax(above - below)),
    )


def _law_of(known: Composition, log_cut: float, *, up: bool) -> AtomsRound:
    """All known losses composed, from above or from below."""
    cut = max(log_cut, -650.0)
    atoms = compose_atoms(tuple(part for part in known if isinstance(part[0], AtomsRound)), log_cut=cut)
    size = math.prod(len(round_.losses) for round_, _ in atoms if isinstance(round_, AtomsRound))
    kinds = [(round_, times) for round_, times in known if isinstance(round_, LaplaceRound)]
    room = min((_SUMS_OF_KINDS / size) ** (1.0 / max(len(kinds), 1)), _OF_LAPLACE)
    discretised = tuple(
        (laplace_atoms(round_.shift, max(4, math.floor(0.5 * room / times)), up=up), times) for round_, times in kinds
    )
    composed = compose_atoms((*atoms, *discretised), log_cut=cut)
    law = composed[0][0]
    if len(composed) > 1 or not isinstance(law, AtomsRound):
        raise LimitExceeded("the known losses have too many different sums.")
    return law.coarsened(_ATOMS, up=up)


def largest_mu(noisy: Composition) -> float:
    """mu of the Gaussian that dominates: the largest shift in every round (P-11)."""
    # hypot: the squares of small shifts have lost their digits, or are 0.
    return math.hypot(*(math.sqrt(times) * one.largest_shift for one, times in noisy))


def gaussian_epsilon(noisy: Composition, log_delta: float) -> float:
    """An upper bound on epsilon in closed form: where P-11's bound on log delta is `log_delta`."""
    mu = largest_mu(noisy)
    return mu * (0.5 * mu + math.sqrt(-2.0 * log_delta)) * (1.0 + 1e-13) if mu > 1e-290 else math.inf
