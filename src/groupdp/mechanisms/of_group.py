"""A release in which a person has another number of examples than in the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from groupdp.errors import InvalidArgument, InWords
from groupdp.groups import Group, empty_like, group_of, in_words, is_empty, total
from groupdp.mechanisms.mechanism import Mechanism, Wrapper
from groupdp.neighbours import EXCHANGE, Change, require_law
from groupdp.pairs import Rounds

_SPLITS = ("add-and-remove", EXCHANGE)


@dataclass(frozen=True, slots=True)
class OfGroup(Wrapper):
    """`mechanism`, in which whoever leaves or joins has up to `group` examples, whatever group is asked about.

    It is what a pair (mechanism, group size) means to `epsilon`, as a mechanism of its own: a run file's phase with a
    group_size.
    """

    mechanism: Mechanism
    group: Group

    name: ClassVar[str] = "of-group"
    title: ClassVar[str] = "a release with a group size of its own"
    refusals: ClassVar[Mapping[str, str]] = dict.fromkeys(
        _SPLITS, "how its own group is split into those that leave and those that join is not said"
    )

    @classmethod
    def of(cls, mechanism: Mechanism, group_size: Any) -> OfGroup:
        """From a number, or a number of each source."""
        if isinstance(mechanism, OfGroup):
            raise InvalidArgument("group_size", group_size, "be given once for each release")
        return cls(mechanism, group_of("group_size", group_size, mechanism.sources or None))

    @property
    def unit(self) -> str:
        return ""

    def _own(self, change: Change) -> Change:
        removed, added = (
            empty_like(self.group) if is_empty(side) else self.group for side in (change.removed, change.added)
        )
        return replace(change, removed=removed, added=added)

    def rounds(self, change: Change) -> Rounds:
        return self.mechanism.rounds(self._own(change))

    def alternatives(self, change: Change) -> tuple[Rounds, ...]:
        return self.mechanism.alternatives(self._own(change))

    def divergence(self, change: Change, order: float) -> tuple[float, float]:
        return self.mechanism.divergence(self._own(change), order)

    def is_tight(self, change: Change) -> bool:
        return self.mechanism.is_tight(self._own(change))

    def require_adjacency(self, adjacency: str) -> None:
        if adjacency in _SPLITS:
            others = tuple(name for name in self.adjacencies if name not in _SPLITS)
            require_law(adjacency, self.title, others, self.refusals)
        self.mechanism.require_adjacency(adjacency)

    @property
    def _enters(self) -> bool:
        """Whether the number of examples changes anything: it does not where all of a person's count as one."""
        return is_empty(self.group) or not getattr(Wrapper.innermost(self), "per_person", False)

    def assumptions(self) -> tuple[str, ...]:
        if not self._enters:
            return self.mechanism.assumptions()
        return (
            f"In this release ({self.mechanism.describe()}) {self._counted('at most ')}.",
            *self.mechanism.assumptions(),
        )

    def _counted(self, most: str = "") -> str:
        unit = self.mechanism.unit
        count = f"one {unit}" if total(self.group) == 1 else in_words(self.group, unit)
        return f"the group is {most}{count}" if unit == "person" else f"a person has {most}{count}"

    @property
    def group_size(self) -> Any:
        """A number, or a number of each source."""
        return self.group if isinstance(self.group, int) else dict(self.group)

    def values(self) -> dict[str, Any]:
        return {**self.mechanism.values(), "group_size": self.group_size}

    def stated(self) -> dict[str, Any]:
        return {**self.mechanism.stated(), "group_size": self.group_size}

    def describe(self) -> str:
        return f"{self.mechanism.describe()}, where {self._counted()}" if self._enters else self.mechanism.describe()


def with_own_groups(run: Any, group_size: Any) -> tuple[Any, Any]:
    """The run with a mechanism in place of every pair (mechanism, group size), and the group size of the others.

    Where every release has a group size of its own, none may be given, and the largest of them stands for it.
    """
    if not isinstance(run, list | tuple) or not any(isinstance(one, OfGroup | tuple) for one in run):
        return run, group_size
    releases = [one if not isinstance(one, tuple) else _release(one) for one in run]
    own = [release.group for release in releases if isinstance(release, OfGroup)]
    if len(own) == len(releases):
        if group_size is not None and any(isinstance(one, tuple) for one in run):
            raise InvalidArgument("group_size", group_size, "be left out where every release has one of its own")
        group_size = max(1, *(total(one) for one in own)) if group_size is None else group_size
    return releases, group_size


def _release(pair: tuple[Any, ...]) -> OfGroup:
    if len(pair) != 2 or not isinstance(pair[0], Mechanism):
        raise InvalidArgument("run", pair, "have mechanisms or pairs (mechanism, group size)")
    return OfGroup.of(*pair)


def require_one_group(run: Any) -> None:
    """Refuse a run in which some release has a group size of its own, which varying k would leave as it is."""
    for one in run if isinstance(run, list | tuple) else (run,):
        if isinstance(one, OfGroup | tuple):
            raise InvalidArgument(
                "run",
                InWords("a phase with a group size of its own"),
                "have one group size where the group size varies",
            )
