"""Which rounds an example takes part in, with correlated noise: each participation turns a strategy into rounds.

A `NoiseScale` converts norms of the strategy into sensitivities, and sensitivities over the noise into shifts.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from groupdp.errors import InvalidArgument, InWords, require_boolean, require_choice, require_integer, require_number
from groupdp.floats import FloatArray
from groupdp.groups import Group, is_empty, total
from groupdp.mechanisms.correlated.sensitivities import (
    Sensitivity,
    fixed_order,
    one_example,
    spread_group,
    window_factor,
)
from groupdp.mechanisms.correlated.strategies import Strategy, rounded_up
from groupdp.neighbours import Change
from groupdp.pairs import Round, Rounds, Side
from groupdp.samplings.poisson import binomial_side


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """What a norm of the strategy is divided by (1, or the largest column norm), and the noise multiplier."""

    norm: float
    noise: float

    def sensitivity(self, norm: float) -> float:
        """The norm divided by the strategy's own, rounded up."""
        if self.norm == 1.0 or norm == self.norm:
            return norm / self.norm
        return math.nextafter(norm / self.norm, math.inf)

    def point(self, norm: float) -> Side:
        """The side of a group that always moves by so much."""
        sensitivity = self.sensitivity(norm)
        if self.noise > 0.0:
            return Side.point(sensitivity / self.noise)
        return Side.point(math.inf if sensitivity else 0.0)


class Participation(ABC):
    """Which rounds an example takes part in, independently of the data."""

    __slots__ = ()

    #: In run files and on the command line.
    name: ClassVar[str]

    def check(self, strategy: Strategy, rounds: int) -> None:
        """Refuse a strategy that no theorem covers."""
        return

    @abstractmethod
    def rounds(self, strategy: Strategy, rounds: int, change: Change, scale: NoiseScale) -> Rounds:
        """The rounds that dominate `rounds` releases."""

    @abstractmethod
    def is_tight(self, strategy: Strategy, rounds: int, change: Change) -> bool:
        """Whether some gradients attain these rounds."""

    @abstractmethod
    def assumptions(self) -> tuple[str, ...]:
        """What has to hold of the training code, in sentences."""

    def rounding(self, strategy: Strategy, rounds: int) -> float:
        """How far, relatively, shifts may be above the exact ones (M-1): twice their roundings, 16 a release."""
        return 2.0 * (16 * rounds + strategy.bands(rounds) + 64) * 2.0**-52

    @property
    def places_depend_on_others(self) -> bool:
        """Whether removing a person moves others: only adjacencies that keep the dataset's size are answered."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class CyclicPoisson(Participation):
    """Part j of `parts` is used in rounds j, j + parts, ..; each of its examples is included with probability `rate`.

    `assigned` says how an example gets its part: by its "person" (all of a person's examples in one part: M-2), by the
    "example" on its own (any parts: M-3), or by its "position" in the data, where removing a person moves others. A
    group of one example is in one part however it was assigned (M-2).
    """

    parts: int
    rate: float
    assigned: str

    name: ClassVar[str] = "cyclic-poisson"

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", require_integer("parts", self.parts, at_least=1))
        object.__setattr__(self, "rate", require_number("rate", self.rate, above=0.0, at_most=1.0))
        require_choice("assigned", self.assigned, ("person", "example", "position"))

    def check(self, strategy: Strategy, rounds: int) -> None:
        bands = strategy.bands(rounds)
        if bands > self.parts:
            raise InvalidArgument(
                "parts",
                InWords(self.parts),
                f"be at least the number of bands ({bands}) for a proved amplification",
            )

    def rounds(self, strategy: Strategy, rounds: int, change: Change, scale: NoiseScale) -> Rounds:
        if self._in_one_part(change):
            norms = _worst_part(strategy, rounds, self.parts)[0]
        else:
            norms = [(window_factor(strategy, rounds, parts=self.parts), -(-rounds // self.parts))]
        groups = total(change.removed), total(change.added)

        def round_of(norm: float) -> Round:
            moved = scale.sensitivity(norm)
            return Round.of(*(binomial_side(self.rate, group, moved, scale.noise) for group in groups))

        return tuple((round_of(norm), times) for norm, times in norms)

    def is_tight(self, strategy: Strategy, rounds: int, change: Change) -> bool:
        if not self._in_one_part(change):
            return strategy.bands(rounds) == 1 and self.parts == 1
        return _worst_part(strategy, rounds, self.parts)[1]

    def rounding(self, strategy: Strategy, rounds: int) -> float:
        """Norms of columns have a rounding for each band, those of one band none: it is DP-SGD, bit for bit (M-1)."""
        bands = strategy.bands(rounds)
        return 0.0 if bands == 1 else 2.0 * (bands + self.parts + 32) * 2.0**-52

    def _in_one_part(self, change: Change) -> bool:
        """Whether all who leave or join are in one part: a person's, one example, or one replaced in its place."""
        leaving, joining = total(change.removed), total(change.added)
        in_place = self.assigned == "position" and leaving <= 1 and joining <= 1
        return self.assigned == "person" or leaving + joining <= 1 or in_place

    def assumptions(self) -> tuple[str, ...]:
        by = {
            "person": "The group is one person: all their examples, and those that replace them, are in one part, "
            "which depends on the person's id alone (a keyed hash).",
            "example": "Each example's part depends on that example alone (a hash of its id).",
            "position": "Examples that are zeroed or replaced keep their part.",
        }
        return (
            f"Round t uses part t mod {self.parts} and includes each of its examples independently with the stated "
            "probability.",
            by[self.assigned],
        )

    @property
    def places_depend_on_others(self) -> bool:
        return self.assigned == "position"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeparatedPoisson(Participation):
    """Every round includes an example with probability `rate`, unless one of the last `separation` - 1 rounds did.

    Valid, by windows of as many rounds as C has bands (M-11); with one band these are the rounds of Poisson sampling.
    """

    separation: int
    rate: float

    name: ClassVar[str] = "separated-poisson"

    def __post_init__(self) -> None:
        object.__setattr__(self, "separation", require_integer("separation", self.separation, at_least=1))
        object.__setattr__(self, "rate", require_number("rate", self.rate, above=0.0, at_most=1.0))

    def check(self, strategy: Strategy, rounds: int) -> None:
        bands = strategy.bands(rounds)
        if bands > self.separation:
            needed = f"be at least the number of bands ({bands}) for a proved amplification"
            raise InvalidArgument("separation", InWords(self.separation), needed)

    def rounds(self, strategy: Strategy, rounds: int, change: Change, scale: NoiseScale) -> Rounds:
        bands = strategy.bands(rounds)
        shift = scale.sensitivity(window_factor(strategy, rounds, parts=bands))
        sides = (
            binomial_side(self.window_rate(bands), total(group), shift, scale.noise)
            for group in (change.removed, change.added)
        )
        return ((Round.of(*sides), -(-rounds // bands)),)

    def window_rate(self, bands: int) -> float:
        """1 - (1 - rate)^bands, rounded up: that a window has a round in which the example would be included."""
        if bands == 1 or self.rate == 1.0:
            return self.rate
        return min(1.0, rounded_up(-math.expm1(bands * math.log1p(-self.rate)), 16))

    def is_tight(self, strategy: Strategy, rounds: int, change: Change) -> bool:
        return strategy.bands(rounds) == 1 and self.separation == 1

    def assumptions(self) -> tuple[str, ...]:
        return (
            "Every round includes each example independently of the others with the stated probability, unless the "
            f"example was included in one of the last {self.separation - 1} rounds.",
        )


class Unsampled(Participation):
    """Without sampling: one Gaussian pair; those who leave move the releases one way, those who join the other."""

    __slots__ = ()

    @abstractmethod
    def sensitivity(self, strategy: Strategy, rounds: int, group: int) -> Sensitivity:
        """How far a group moves all releases together."""

    def rounds(self, strategy: Strategy, rounds: int, change: Change, scale: NoiseScale) -> Rounds:
        right, left = (self._of(strategy, rounds, group) for group in (change.removed, change.added))
        return ((Round.of(scale.point(right.value), scale.point(left.value)), 1),)

    def is_tight(self, strategy: Strategy, rounds: int, change: Change) -> bool:
        return all(self._of(strategy, rounds, group).exact for group in (change.removed, change.added))

    def _of(self, strategy: Strategy, rounds: int, group: Group) -> Sensitivity:
        return Sensitivity(0.0, exact=True) if is_empty(group) else self.sensitivity(strategy, rounds, total(group))


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumSeparation(Unsampled):
    """Every example takes part at most `participations` times, at least `separation` rounds apart; no sampling.

    `together`: a person's examples may share a batch; if not, a batch holds at most one of them (M-4 to M-7).
    """

    separation: int
    participations: int
    together: bool = True

    name: ClassVar[str] = "minimum-separation"

    def __post_init__(self) -> None:
        object.__setattr__(self, "separation", require_integer("separation", self.separation, at_least=1))
        object.__setattr__(self, "participations", require_integer("participations", self.participations, at_least=1))
        require_boolean("together", self.together)

    def sensitivity(self, strategy: Strategy, rounds: int, group: int) -> Sensitivity:
        pattern = {"separation": self.separation, "participations": self.participations}
        if self.together:
            return one_example(strategy, rounds, **pattern).times(group)
        return spread_group(strategy, rounds, **pattern, group=group)

    def assumptions(self) -> tuple[str, ...]:
        apart = (
            f"Every example takes part at most {self.participations} times, at least {self.separation} rounds apart; "
            "when an example takes part does not depend on the data of others."
        )
        return (apart,) if self.together else (apart, "A batch holds at most one example of a person.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedEpochs(Unsampled):
    """Every epoch has `batches` rounds in the same order: an example is in the same batch of every epoch (M-8)."""

    batches: int

    name: ClassVar[str] = "fixed-epochs"

    def __post_init__(self) -> None:
        object.__setattr__(self, "batches", require_integer("batches", self.batches, at_least=1))

    def sensitivity(self, strategy: Strategy, rounds: int, group: int) -> Sensitivity:
        return fixed_order(strategy, rounds, batches=self.batches).times(group)

    def assumptions(self) -> tuple[str, ...]:
        return ("Every epoch has the same batches in the same order, fixed before the data are seen.",)


def _worst_part(strategy: Strategy, rounds: int, parts: int) -> tuple[list[tuple[float, int]], bool]:
    """Column norms, with multiplicities, that dominate every part's, and whether they are those of one part (M-2)."""
    norms = strategy.column_norms(rounds)
    if strategy.first_column(rounds) is not None:  # Toeplitz: part 0
        return _counted(norms[::parts]), True
    largest = np.zeros(-(-rounds // parts))
    lists = [np.sort(norms[j::parts])[::-1] for j in range(min(parts, rounds))]
    for ordered in lists:
        largest[: len(ordered)] = np.maximum(largest[: len(ordered)], ordered)
    attained = any(len(ordered) == len(largest) and bool(np.all(ordered == largest)) for ordered in lists)
    return _counted(largest), attained


def _counted(norms: FloatArray) -> list[tuple[float, int]]:
    counts = Counter(norms.tolist())
    return sorted(counts.items(), reverse=True)
