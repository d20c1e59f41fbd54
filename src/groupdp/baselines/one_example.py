"""What the baselines start from: the mixtures of one example, and how a group of k inflates delta.

Vadhan, "The complexity of differential privacy" (2017), Lemma 2.2: an (epsilon, delta)-DP mechanism is (k epsilon,
growth(epsilon) delta)-DP for groups of k, with

    lemma        growth = k e^{k eps}                                                      as it is stated
    geometric    growth = 1 + e^eps + ... + e^{(k-1) eps} = (e^{k eps} - 1) / (e^eps - 1)  as it is proved

The logarithm of either is an increasing convex function of epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from groupdp._validation import require_choice
from groupdp.errors import InvalidArgument, InWords
from groupdp.mechanisms.dpsgd import DPSGD, phases_of
from groupdp.mechanisms.mechanism import mechanisms_of
from groupdp.mechanisms.mixture import MixtureOfGaussians
from groupdp.neighbours import ADJACENCIES, FORWARD, ONE_SIDED
from groupdp.pairs import Round
from groupdp.question import question_of

Form = Literal["lemma", "geometric"]
FORMS: tuple[Form, ...] = ("lemma", "geometric")

#: A sum of a handful of terms is off by at most this much of the sum of their magnitudes.
ROUNDING = 2.0**-49


@dataclass(frozen=True, slots=True)
class Growth:
    """log growth(epsilon) for one form and one group size of at least 2."""

    form: Form
    group_size: int

    def value(self, epsilon: float) -> float:
        """log growth(epsilon), within `rounding(epsilon)`."""
        k = self.group_size
        if self.form == "lemma":
            return math.log(k) + k * epsilon
        if epsilon == 0.0:
            return math.log(k)
        return (k - 1) * epsilon + math.log(math.expm1(-k * epsilon) / math.expm1(-epsilon))

    def rounding(self, epsilon: float) -> float:
        """A bound on |value - log growth|."""
        return ROUNDING * (1.0 + math.log(self.group_size) + self.group_size * epsilon)

    def least_slope(self, epsilon: float) -> float:
        """A lower bound on the slope at epsilon, and so everywhere to its right."""
        k = self.group_size
        if self.form == "lemma":
            return float(k)
        at_zero = (k - 1) / 2
        if k * epsilon < 1e-5:  # the two fractions below would cancel
            return at_zero
        plus, minus = k / -math.expm1(-k * epsilon), 1.0 / -math.expm1(-epsilon)
        return max(plus - minus - ROUNDING * (plus + minus), at_zero)

    @property
    def steepest(self) -> int:
        """The largest slope of log growth: its limit for large epsilon."""
        return self.group_size if self.form == "lemma" else self.group_size - 1


#: Mixtures with the number of rounds of each.
Composition = tuple[tuple[MixtureOfGaussians, int], ...]


class NoBaseline(InvalidArgument):
    """The run is valid, and no such analysis of one example is known for it."""


def example_composition(run: Any) -> Composition:
    """The mixtures that dominate a run for one example removed, in units of the noise.

    Its mirror image is one example added; no other adjacency starts from these.

    Refuses samplings whose round for one example is not one mixture against one Gaussian: no baseline is known there.
    """
    require_walk(run)
    ((_, composition),) = question_of(run, group_size=1, adjacency=FORWARD).compositions
    mixtures = []
    for round_, times in composition:
        if not isinstance(round_, Round) or len(round_.branches) > 1 or not round_.branches[0].left.is_zero:
            raise NoBaseline(
                "run",
                InWords("a public coin"),
                "have rounds that are one mixture against one Gaussian for this baseline",
            )
        side = round_.branches[0].right
        law = (side.probabilities, side.log_probabilities)
        if round_.has_noise:
            mixtures.append((MixtureOfGaussians.from_law(side.shifts, law, 1.0), times))
        else:
            mixtures.append((MixtureOfGaussians.from_law(np.minimum(side.shifts, 1.0), law, 0.0), times))
    return tuple(mixtures)


def require_walk(run: Any) -> None:
    """Refuse samplings where one example's guarantee does not hold for the datasets on the way to a group.

    The datasets of a walk from none of the group to all of it have a larger common part than the first one.
    """
    if any(not isinstance(mechanism, DPSGD) for mechanism in mechanisms_of(run)):
        raise NoBaseline("run", run, "be a DPSGD or a sequence of them for this baseline")
    for phase in phases_of(run):
        if not phase.sampling.leaks_most_where_smallest:
            raise NoBaseline(
                "sampling",
                InWords(phase.sampling.title),
                "be another one for this baseline",
                "datasets on the way to a group are larger, and may leak more than the smallest one",
            )


def require_one_sided(adjacency: Any) -> None:
    """Refuse adjacencies that the mixtures of one removed example do not cover."""
    if require_choice("adjacency", adjacency, ADJACENCIES) not in ONE_SIDED:
        raise InvalidArgument("adjacency", adjacency, f"be {', '.join(ONE_SIDED)} for this baseline")
