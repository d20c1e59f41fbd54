"""The privacy loss distribution of a round and of its compositions, as an object.

What is stored are two measures on a lattice of losses: one whose hockey-stick curve lies above the mechanism's at every
epsilon, and one whose curve lies below. Composition keeps both orders, so `delta`, `log_delta` and `epsilon` are
certified bounds, however the object came about. See docs/internals/lattice.md for the proofs.

build            both measures of one round, from the lattice engine; mean and variance of its loss
measures         measures with a mass at +infinity, their composition under several tilts, probabilities
files            as files and pictures
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupdp.bounds import Bounds, Provenance
from groupdp.engines import first_at_most, last_above
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, require_integer, require_number
from groupdp.mechanisms.dpsgd import phases_of
from groupdp.mechanisms.mixture import MixtureOfGaussians
from groupdp.neighbours import FORWARD, require_direction
from groupdp.pairs import ZERO, Round
from groupdp.pld.build import measures_of
from groupdp.pld.measures import Measure, compose_measures, tail_probability
from groupdp.printing import given
from groupdp.question import question_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Most lattice points of one distribution.
LARGEST_GRID = 1 << 22
#: Names that a direction may have.
DIRECTION = re.compile(r"[a-z][a-z -]{0,39}")
#: Relative room for the few roundings of adding up means and variances.
_SLACK = 1e-14


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PrivacyLossDistribution:
    """Certified bounds on the distribution of the privacy loss log P/Q, under P.

    `upper` is the law of the loss of a pair of measures that dominates the mechanism, `lower` that of a pair the
    mechanism dominates. Neither is the mechanism's own law moved up or down: domination orders the curves
    epsilon -> delta(epsilon), not the probabilities of single losses. What follows for the mechanism itself is what the
    methods return.

    Make one with `from_run`, `from_mixture` or `from_round`, combine with `compose` and `self_compose`.
    """

    direction: str
    """Which dataset is P, in the words of neighbours.py; another name for another pair."""
    lower: Measure
    upper: Measure
    mean_bounds: tuple[float, float]
    variance_bounds: tuple[float, float]
    tail_mass: float
    """About the mass that each operation may move to the ends of the lattice."""
    rounds: int = 1
    tight: bool = True
    """Whether some loss and datasets attain the pair, so that `lower` sides limit every analysis (`Bounds.tight`)."""
    about: str = field(default="", compare=False)
    """The run in words, for the titles of pictures; not kept in files."""

    def __repr__(self) -> str:
        """The direction, the rounds and the grid; the masses are in `lower` and `upper`."""
        return (
            f"PrivacyLossDistribution(direction={self.direction!r}, rounds={self.rounds}, "
            f"grid_step={given(self.upper.step)}, losses={len(self.upper.masses)}, "
            f"mean={sum(self.mean_bounds) / 2:.6g}, tail_mass={given(self.tail_mass)})"
        )

    @classmethod
    def from_mixture(
        cls,
        mixture: MixtureOfGaussians,
        *,
        direction: str,
        grid_step: float = 1e-3,
        tail_mass: float = 1e-30,
    ) -> PrivacyLossDistribution:
        """One round of the mixture of Gaussians mechanism.

        Losses are multiples of `grid_step`; the two sides differ by about (1 + c) grid_step^2 / 8 in epsilon per round,
        where c is the slope -d log delta / d epsilon. `tail_mass` limits how small a delta can be certified from
        above: choose it well below the smallest delta of interest, divided by the rounds to come.
        """
        if not isinstance(mixture, MixtureOfGaussians):
            raise InvalidArgument("mixture", mixture, "be a MixtureOfGaussians")
        if mixture.standard_deviation == 0.0:
            raise InvalidArgument("mixture", InWords("0.0"), "have a positive standard_deviation")
        if mixture.is_trivial:
            raise InvalidArgument("mixture", InWords("only zeros"), "have a positive sensitivity")
        chosen = require_direction(direction)
        round_ = Round.of(mixture.side, ZERO) if chosen == FORWARD else Round.of(ZERO, mixture.side)
        return cls.from_round(round_, direction=chosen, grid_step=grid_step, tail_mass=tail_mass)

    @classmethod
    def from_run(
        cls,
        run: Any,
        *,
        group_size: Any = 1,
        adjacency: str = FORWARD,
        grid_step: float = 1e-3,
        tail_mass: float = 1e-30,
    ) -> PrivacyLossDistribution:
        """All steps of a run (or of its phases), composed, for one ordered change of a group.

        A distribution is about one ordered pair: `adjacency` must have a single one, not both orders. Where the
        run's guarantee is not tight, neither is this: the pair dominates the run.
        """
        if isinstance(run, MixtureOfGaussians):
            raise InvalidArgument(
                "run", NOT_SHOWN, "be a DPSGD or a sequence of them; from_mixture takes a MixtureOfGaussians"
            )
        question = question_of(run, group_size=group_size, adjacency=adjacency)
        compositions = question.compositions
        if len(compositions) != 1:
            names = " and ".join(name for name, _ in compositions)
            raise InvalidArgument("adjacency", adjacency, "be a single ordered change, like remove", f"{names}")
        direction, composition = compositions[0][0], question.of_mixtures(0)
        parts = []
        for round_, times in composition:
            if not isinstance(round_, Round):
                raise InvalidArgument(
                    "run",
                    NOT_SHOWN,
                    (
                        "be made of mixtures of Gaussians for a distribution: of fixed batches with examples "
                        "replaced or zeroed only the curve of delta is known"
                    ),
                )
            if times > 0 and not round_.is_trivial:
                part = cls.from_round(round_, direction=direction, grid_step=grid_step, tail_mass=tail_mass)
                parts.append(part.self_compose(times) if times > 1 else part)
        if not parts:
            raise InvalidArgument("run", InWords("none"), "have steps in which the group matters")
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.compose(part)
        described = "; ".join(
            f"{phase.sampling.describe()}, noise multiplier {given(phase.noise_multiplier)}, {phase.steps} steps"
            for phase in phases_of(run)
        )
        return replace(
            whole,
            tight=question.tight and composition == compositions[0][1],
            about=f"{described}; groups of up to {group_size}",
        )

    @classmethod
    def from_round(
        cls, one: Round, *, direction: str, grid_step: float = 1e-3, tail_mass: float = 1e-30
    ) -> PrivacyLossDistribution:
        """One round of pairs with noise. `direction` names what P and Q are: only equal names compose."""
        if not isinstance(one, Round):
            raise InvalidArgument("one", one, "be a Round")
        if one.is_trivial or not one.has_noise:
            raise InvalidArgument("one", InWords("one without"), "be a round with noise and a positive shift")
        if not (isinstance(direction, str) and DIRECTION.fullmatch(direction)):
            raise InvalidArgument(
                "direction", direction, "be a name of at most 40 lower-case letters, spaces and hyphens"
            )
        step = require_number("grid_step", grid_step, at_least=1e-9, at_most=10.0)
        cut = require_number("tail_mass", tail_mass, at_least=1e-250, at_most=1e-3)
        lower, upper, (mean, variance) = measures_of(one, step=step, tail_mass=cut, longest=LARGEST_GRID)
        return cls(
            direction=direction,
            lower=lower,
            upper=upper,
            mean_bounds=mean,
            variance_bounds=variance,
            tail_mass=cut,
        )

    @property
    def grid_step(self) -> float:
        """Distance between neighbouring losses of the lattice (`grid_step` rounded up to 24 significant bits)."""
        return self.upper.step

    def compose(self, other: PrivacyLossDistribution) -> PrivacyLossDistribution:
        """Both mechanisms, one after the other (adaptively, if the second is dominated whatever the first gave)."""
        if not isinstance(other, PrivacyLossDistribution):
            raise InvalidArgument("other", other, "be a PrivacyLossDistribution")
        if other.direction != self.direction:
            raise InvalidArgument("other", InWords(other.direction), f"have direction {self.direction}")
        if other.grid_step != self.grid_step:
            raise InvalidArgument("other", other.grid_step, f"have grid_step {self.grid_step!r}")
        return self._composed(((self, 1), (other, 1)))

    def self_compose(self, rounds: int) -> PrivacyLossDistribution:
        """The mechanism run `rounds` times."""
        count = require_integer("rounds", rounds, at_least=1)
        return self if count == 1 else self._composed(((self, count),))

    def _composed(self, parts: tuple[tuple[PrivacyLossDistribution, int], ...]) -> PrivacyLossDistribution:
        tail_mass = max(part.tail_mass for part, _ in parts)
        sides = [
            compose_measures(
                [(part.upper if up else part.lower, count) for part, count in parts],
                up=up,
                tail_mass=tail_mass,
                longest=LARGEST_GRID,
            )
            for up in (False, True)
        ]
        return PrivacyLossDistribution(
            direction=self.direction,
            lower=sides[0],
            upper=sides[1],
            mean_bounds=_added([(part.mean_bounds, count) for part, count in parts]),
            variance_bounds=_added([(part.variance_bounds, count) for part, count in parts]),
            tail_mass=tail_mass,
            rounds=sum(part.rounds * count for part, count in parts),
            tight=all(part.tight for part, _ in parts),
        )

    def delta(self, epsilon: float) -> Bounds:
        """Certified bounds on delta(epsilon), for any real epsilon."""
        at = require_number("epsilon", epsilon)
        lower, upper = self.lower.delta_below(at), self.upper.delta_above(at)
        return Bounds(lower, upper, self._provenance(), self.tight)

    def log_delta(self, epsilon: float) -> Bounds:
        """Certified bounds on log delta(epsilon); how small it can get is limited by `tail_mass`."""
        delta = self.delta(epsilon)
        return Bounds(_log(delta.lower, -1.0), min(_log(delta.upper, 1.0), 0.0), delta.provenance, self.tight)

    def epsilon(self, delta: float) -> Bounds:
        """Certified bounds on the smallest epsilon >= 0 with delta(epsilon) <= delta; inf if `tail_mass` exceeds it."""
        target = require_number("delta", delta, above=0.0, below=1.0)
        mean = self.mean_bounds[1]  # infinite for imported distributions, where any start will do
        about = {"start": max(mean, 0.0) if mean < math.inf else 1.0, "slope": 1.0, "resolution": 1e-12}
        lower = last_above(lambda x: _log_ratio(self.lower.delta_below(x), target), 0.0, **about)
        upper = first_at_most(lambda x: _log_ratio(self.upper.delta_above(x), target), 0.0, **about)
        return Bounds(min(lower, upper), upper, self._provenance(), self.tight)

    @property
    def mean(self) -> Bounds:
        """Certified bounds on the mean of the mechanism's loss under P, the Kullback-Leibler divergence of P from Q.

        Computed beside the two measures (their own means say nothing certain): moments of one round are certified and
        add up under composition.
        """
        return Bounds(*self.mean_bounds, self._provenance(), self.tight)

    @property
    def variance(self) -> Bounds:
        """Certified bounds on the variance of the mechanism's loss under P; variances add up like means."""
        return Bounds(*self.variance_bounds, self._provenance(), self.tight)

    def cdf(self, loss: float) -> Bounds:
        """Certified bounds on P(L <= loss), for the mechanism's own loss L under P.

        Domination does not order these probabilities, so they are derived from the convex curve of delta between its
        two bounds: the interval is wider than that of delta, about the square root of it.
        """
        x = require_number("loss", loss)
        low, high = tail_probability(self.lower, self.upper, x)
        return Bounds(max(1.0 - high - _SLACK, 0.0), min(1.0 - low + _SLACK, 1.0), self._provenance(), self.tight)

    def quantile(self, probability: float) -> Bounds:
        """Certified bounds on the smallest x with P(L <= x) >= probability; infinite where there is no bound."""
        p = require_number("probability", probability, above=0.0, below=1.0)
        low = self.grid_step * min(self.lower.first, self.upper.first)
        high = self.grid_step * (self.upper.first + len(self.upper.masses))
        apart = 0.01 * self.grid_step
        lower = _last(lambda x: self.cdf(x).upper < p, low, high, apart)
        upper = -_last(lambda x: self.cdf(-x).lower >= p, -high, -low, apart)
        return Bounds(min(lower, upper), upper, self._provenance(), self.tight)

    def save(self, path: str | Path) -> None:
        """Write to `path` as a NumPy archive (npz); format: pld/files.py. The file appears whole or not at all."""
        from groupdp.pld import files

        files.save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> PrivacyLossDistribution:
        """Read a file that `save` wrote; any other is refused. No content of the file is executed."""
        from groupdp.pld import files

        return files.load(path)

    def plot(self, target: str | Path | Axes) -> None:
        """Draw both measures as densities: onto given axes, or into a file with the curve of delta beside them."""
        from groupdp.pld import files

        files.plot(self, target)

    def _provenance(self) -> Provenance:
        points = max(len(self.lower.masses), len(self.upper.masses))
        return Provenance(engine="lattice", adjacency=self.direction, evaluations={"grid points": points})


def _added(parts: list[tuple[tuple[float, float], int]]) -> tuple[float, float]:
    """Bounds of a sum of independent contributions, rounded outward."""
    low = math.fsum(count * bounds[0] for bounds, count in parts)
    high = math.fsum(count * bounds[1] for bounds, count in parts)
    return low - _SLACK * abs(low), high + _SLACK * abs(high)


def _log(value: float, sign: float) -> float:
    """log(value), rounded to the side of `sign`; -inf for 0."""
    if value <= 0.0:
        return -math.inf
    logarithm = math.log(value)
    return logarithm + sign * 1e-15 * (1.0 + abs(logarithm))


def _log_ratio(value: float, target: float) -> float:
    """log(value / target), positive exactly if value > target."""
    if value <= 0.0:
        return -math.inf
    ratio = math.log(value) - math.log(target)
    return max(ratio, 1e-300) if value > target else min(ratio, 0.0)


def _last(holds: Callable[[float], bool], low: float, high: float, apart: float) -> float:
    """A point at which the condition holds (checked), close to the last one; -inf if it does not hold at `low`."""
    if not holds(low):
        return -math.inf
    if holds(high):
        return high
    while high - low > apart and low < 0.5 * (low + high) < high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
