"""What every mechanism says about itself. A mechanism is one file, and a line in the package's registry
or a call of `groupdp.mechanisms.register`.

A mechanism is a frozen, hashable description of something that is released about people. It computes no privacy: it
says which rounds dominate it for a change of neighbours, and engines answer for rounds.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

from groupdp.errors import LARGEST_COUNT, InvalidArgument, require_number
from groupdp.fields import Field, count, flag, real
from groupdp.groups import total
from groupdp.moments import renyi_divergence
from groupdp.neighbours import ADJACENCIES, EXCHANGE, Change
from groupdp.pairs import Rounds
from groupdp.samplings.sampling import Described

#: Smallest noise multiplier above zero that is accepted (zero itself is: it means no privacy).
SMALLEST_NOISE = 1e-6
#: Largest noise multiplier accepted.
LARGEST_NOISE = 1e18

NOISE_MULTIPLIER = real(
    "noise_multiplier",
    "Standard deviation of the noise over the clipping norm.",
    (1.0, 0.3, 30.0),
    unit="× clipping norm",
    at_least=0.0,
    at_most=LARGEST_NOISE,
    example="1.1",
)
#: Of several mechanisms.
RELEASES = count(
    "releases", "How many statistics are released.", (1, 1, 1000), unit="releases", at_least=0, default=1, example="3"
)
PER_PERSON = flag(
    "per_person", "The stated noise or guarantee is about all examples of a person together, not about one."
)


class Mechanism(Described):
    """A mechanism that releases something about people."""

    __slots__ = ()

    adjacencies: ClassVar[tuple[str, ...]] = (*ADJACENCIES, EXCHANGE)

    @abstractmethod
    def rounds(self, change: Change) -> Rounds:
        """The rounds that dominate everything it releases for a change of a supported adjacency."""

    def alternatives(self, change: Change) -> tuple[Rounds, ...]:
        """Other rounds that dominate the same releases: the smallest answer of all of them is valid."""
        return ()

    def divergence(self, change: Change, order: float) -> tuple[float, float]:
        """(an upper bound on the Renyi divergence of all its releases but for a share of P, that share), inf if none.

        It is what a filter and a search of hyperparameters are accounted with (R-8, R-9).
        """
        best = (math.inf, 0.0)
        for rounds in (self.rounds(change), *self.alternatives(change)):
            best = min(best, renyi_divergence(rounds, order))
        return best

    @abstractmethod
    def is_tight(self, change: Change) -> bool:
        """Whether some data attain the rounds of this change, so that no better guarantee exists."""

    @abstractmethod
    def assumptions(self) -> tuple[str, ...]:
        """What the releasing code must do for the guarantee to hold, in sentences."""

    @property
    def releases(self) -> int:
        """How many times it releases something."""
        return 1

    @property
    def sources(self) -> tuple[str, ...] | None:
        """The names of its sources if a group is counted source by source, None if it is a number; () for either."""
        return ()

    @property
    def unit(self) -> str:
        """What a group size counts in it: "example" or "person"; empty where it has a group size of its own."""
        return "example"

    def share_of_data(self) -> Fraction | None:
        """The fraction of the data that one release visits, if it is one: an epoch is its inverse in steps."""
        return None

    def values(self) -> dict[str, Any]:
        """What a run file says of it: its name and its fields."""
        return {"mechanism": self.name, **Described.values(self)}

    def stated(self) -> dict[str, Any]:
        """`values` without defaults."""
        meant = {field.name: field.default for field in self.all_fields() if field.default is not None}
        return {name: value for name, value in self.values().items() if name not in meant or value != meant[name]}

    def all_fields(self) -> tuple[Field, ...]:
        """Its fields and those of its parts."""
        return self.fields


class Wrapper(Mechanism):
    """A mechanism made of another one, its `mechanism`."""

    __slots__ = ()

    mechanism: Mechanism

    @property
    def releases(self) -> int:
        return self.mechanism.releases

    @property
    def unit(self) -> str:
        return self.mechanism.unit

    @property
    @abstractmethod
    def added_values(self) -> dict[str, Any]:
        """What a run file says of it besides its mechanism."""

    def values(self) -> dict[str, Any]:
        return {**self.mechanism.values(), **self.added_values}

    def stated(self) -> dict[str, Any]:
        return {**self.mechanism.stated(), **self.added_values}

    def require_adjacency(self, adjacency: str) -> None:
        self.mechanism.require_adjacency(adjacency)

    @staticmethod
    def innermost(mechanism: Any) -> Any:
        """The mechanism inside of all wrappers."""
        while isinstance(mechanism, Wrapper):
            mechanism = mechanism.mechanism
        return mechanism

    @staticmethod
    def changed(mechanism: Any, **values: Any) -> Any:
        """This mechanism with other values of the innermost mechanism's attributes."""
        if isinstance(mechanism, Wrapper):
            return replace(mechanism, mechanism=Wrapper.changed(mechanism.mechanism, **values))  # type: ignore[type-var]
        return replace(mechanism, **values)


def moving(*, per_person: bool) -> str:
    """The subject of a sentence about a sensitivity."""
    if per_person:
        return "Adding, removing or zeroing all examples of a person, however many they are,"
    return "Adding, removing or zeroing one example"


def steps_of(change: Change, *, per_person: bool) -> int:
    """How many changes of one example, or of all examples of one person, lead from one dataset to the other.

    Those that leave and those that join are different people: replacing a person is two changes.
    """
    removed, added = total(change.removed), total(change.added)
    return (removed > 0) + (added > 0) if per_person else removed + added


def require_noise(value: Any) -> float:
    """`value` as a noise multiplier: 0, which means no privacy, or in a range that engines are tested for."""
    noise = require_number("noise_multiplier", value, at_least=0.0, at_most=LARGEST_NOISE)
    if 0.0 < noise < SMALLEST_NOISE:
        raise InvalidArgument("noise_multiplier", value, f"be 0 or at least {SMALLEST_NOISE:g}")
    return noise


def mechanisms_of(run: Any) -> tuple[Mechanism, ...]:
    """A mechanism or a sequence of mechanisms, as a tuple."""
    if isinstance(run, Mechanism):
        return (run,)
    if isinstance(run, list | tuple) and run and all(isinstance(part, Mechanism) for part in run):
        mechanisms = tuple(run)
        total = sum(mechanism.releases for mechanism in mechanisms)
        if total > LARGEST_COUNT:
            raise InvalidArgument("steps", total, f"add up to at most {LARGEST_COUNT} over all phases")
        return mechanisms
    raise InvalidArgument("run", run, "be a mechanism, like a DPSGD, or a non-empty sequence of mechanisms")
