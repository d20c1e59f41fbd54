"""The hockey-stick curve of one round, whatever it is: of pairs, or of a profile."""

from __future__ import annotations

from typing import Protocol

from groupdp.engines.lattice.envelope import EnvelopeCurve, gaussian_coin
from groupdp.engines.lattice.one_round import RoundCurve
from groupdp.engines.lattice.roots import first_at_most, last_above
from groupdp.engines.work import Work
from groupdp.errors import LimitExceeded
from groupdp.pairs import Profile, Round
from groupdp.profiles import SubstitutionEnvelope

#: From so many Gaussian branches on they are taken together (no effect on validity, only on speed).
MANY_BRANCHES = 4


class Curve(Protocol):
    """Certified bounds on log delta(epsilon) of one round, in closed form."""

    largest_loss: float

    def above(self, epsilon: float) -> float: ...

    def below(self, epsilon: float) -> float: ...

    def epsilon_near(self, log_delta: float) -> tuple[float, float]: ...


def curve_of(one: Round | Profile, work: Work | None = None) -> Curve:
    """The curve of one round; it counts what its evaluations cost."""
    if not isinstance(one, Round):
        return EnvelopeCurve(envelope_of(one).side, work)
    gaussian = gaussian_coin(one) if len(one.branches) >= MANY_BRANCHES else None
    if gaussian is not None and not gaussian.is_zero:
        return EnvelopeCurve(gaussian, work, balanced=False)
    return RoundCurve(one, work)


def envelope_of(one: Profile) -> SubstitutionEnvelope:
    """The profile, if it is one that this engine knows."""
    if not isinstance(one, SubstitutionEnvelope):
        raise LimitExceeded(f"the lattice engine does not know profiles of type {type(one).__name__}.")
    return one


def one_round_log_delta(one: Round | Profile, epsilon: float, *, work: Work | None = None) -> tuple[float, float]:
    """(lower, upper) of log delta(epsilon), for an epsilon strictly within the range of the loss."""
    curve = curve_of(one, work)
    return curve.below(epsilon), curve.above(epsilon)


def one_round_epsilon(one: Round | Profile, log_delta: float, *, work: Work | None = None) -> tuple[float, float]:
    """(lower, upper) of the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta."""
    curve = curve_of(one, work)
    if curve.above(0.0) <= log_delta:
        return 0.0, 0.0
    start, slope = curve.epsilon_near(log_delta)
    about = {"start": start, "slope": slope, "resolution": 1e-15}
    lower = last_above(curve.below, log_delta, **about)
    upper = first_at_most(curve.above, log_delta, **about)
    largest = curve.largest_loss
    return min(lower, upper, largest), min(upper, largest)
