"""Known losses beside rounds that the contour composes: a mixture of shifted curves.

Where the known losses, composed, have atoms p_i at l_i, and delta' is the curve of the other rounds,

    delta(eps) = sum_i p_i delta'(eps - l_i).                                                    (R-6)

A few contours serve all shifts: each is good for the epsilons near the one it was planned for, and the next one is
planned where the bracket is widest. A Laplace mechanism is put on a lattice of its own first, above and below (R-4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from groupdp.bounds import Bounds, Provenance
from groupdp.engines import spectral
from groupdp.engines.lattice.roots import first_at_most, last_above
from groupdp.errors import LimitExceeded
from groupdp.losses import AtomsRound, LaplaceRound, compose_atoms, laplace_atoms
from groupdp.pairs import Composition, FloatArray

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


def log_delta(known: Composition, rest: Composition, *, epsilon: float) -> Bounds:
    """Certified bounds on log delta(epsilon), for any real epsilon (R-6)."""
    curve = _Curve.of(known, rest, _CUT)
    lower, upper = curve.below(epsilon), curve.above(epsilon)
    return Bounds(min(lower, upper), upper, curve.provenance)


def epsilon(known: Composition, rest: Composition, *, log_delta: float) -> Bounds:
    """Certified bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta (R-6)."""
    curve = _Curve.of(known, rest, log_delta - 40.0)
    if curve.above(0.0) <= log_delta:
        return Bounds(0.0, 0.0, curve.provenance)
    start = curve.start(log_delta)
    about = {"start": start, "slope": 1.0, "resolution": 1e-10}
    lower = last_above(curve.below, log_delta, **about)
    upper = first_at_most(curve.above, log_delta, **(about | {"start": max(lower, start)}))
    return Bounds(min(lower, upper), upper, curve.provenance)


@dataclass(slots=True)
class _Curve:
    """The curve of a composition, from both sides."""

    upper: AtomsRound
    lower: AtomsRound
    rest: Composition
    contours: list[spectral.Neighbourhood]

    @classmethod
    def of(cls, known: Composition, rest: Composition, log_cut: float) -> _Curve:
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
        room_of_sum = law.mass_error + _SUMS + 2.0**-50 * abs(upper if up else lower)
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
    size = math.prod(len(one.losses) for one, _ in atoms if isinstance(one, AtomsRound))
    kinds = [(one, times) for one, times in known if isinstance(one, LaplaceRound)]
    room = min((_SUMS_OF_KINDS / size) ** (1.0 / max(len(kinds), 1)), _OF_LAPLACE)
    discretised = tuple(
        (laplace_atoms(one.shift, max(4, math.floor(0.5 * room / times)), up=up), times) for one, times in kinds
    )
    composed = compose_atoms((*atoms, *discretised), log_cut=cut)
    law = composed[0][0]
    if len(composed) > 1 or not isinstance(law, AtomsRound):
        raise LimitExceeded("the known losses have too many different sums.")
    return law.coarsened(_ATOMS, up=up)
