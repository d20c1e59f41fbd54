"""The hockey-stick curve of one round, whatever it is: of pairs, or of a profile."""

from __future__ import annotations

from typing import Protocol

from groupdp.engines.lattice.envelope import EnvelopeCurve, gaussian_coin
from groupdp.engines.lattice.one_round import RoundCurve
from groupdp.engines.lattice.roots import first_at_most, last_above
from groupdp.engines.work import Work
from groupdp.errors import LimitExceeded
from groupdp.losses import AtomsRound, LaplaceRound
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


class LossCurve:
    """The curve of a round whose losses are known (R-4, R-5)."""

    def __init__(self, one: AtomsRound | LaplaceRound, work: Work | None = None) -> None:
        self.one, self.work, self.largest_loss = one, Work() if work is None else work, one.largest_loss
        self.cost = 10.0 * len(one.losses) if isinstance(one, AtomsRound) else 10.0

    def above(self, epsilon: float) -> float:
        self.work.spend(self.cost)
        return self.one.log_delta(epsilon, up=True)

    def below(self, epsilon: float) -> float:
        self.work.spend(self.cost)
        return self.one.log_delta(epsilon, up=False)

    def epsilon_near(self, log_delta: float) -> tuple[float, float]:
        """(epsilon, slope): about where log delta passes, by bisection."""
        low, high = 0.0, self.one.shift if isinstance(self.one, LaplaceRound) else float(self.one.losses[-1])
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.below(middle) > log_delta else (low, middle)
        return max(low, 0.0), 1.0


def curve_of(one: Round | Profile, work: Work | None = None) -> Curve:
    """The curve of one round; it counts what its evaluations cost."""
    if isinstance(one, AtomsRound | LaplaceRound):
        return LossCurve(one, work)
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
