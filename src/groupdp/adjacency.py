"""Which datasets are neighbours: every adjacency as ordered changes, once, in one order.

A *change* is an ordered pair of datasets: `removed` examples are in the first one only, `added` examples in the second
only; the first is P, the second Q of a hockey stick. An adjacency holds if all of its changes do.

    add-or-remove    up to k examples more in one dataset than in the other; the default
    remove, add      one of the two orders alone
    substitute       k examples replaced by k others
    zero-out         k examples whose gradients are replaced by zero, and which keep their places in the batches
    add-and-remove   up to k changes, added or removed in any split: the worst over all splits, all evaluated
    removed=a, added=b   a leave while b join, in both orders

A sampling turns a change into pairs of mixtures, or refuses it with the reason (samplings/).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from groupdp._validation import require_choice, require_integer, shown
from groupdp.errors import InvalidArgument, LimitExceeded

#: Every adjacency that has a name, the default first.
ADJACENCIES = ("add-or-remove", "add", "remove", "substitute", "zero-out", "add-and-remove")
#: Where one dataset contains the other: both orders, and either alone.
ONE_SIDED = ("add-or-remove", "add", "remove")
#: Where both datasets have the same size.
SAME_SIZE = ("substitute", "zero-out")
#: Which dataset of a pair is P: the first one, which has the group, or (backwards) the second.
Direction = Literal["remove", "add"]
DIRECTIONS: tuple[Direction, ...] = ("remove", "add")
FORWARD, BACKWARD = DIRECTIONS
#: Largest group accepted.
LARGEST_GROUP = 100_000
#: Splits of a group that add-and-remove evaluates at most.
MOST_SPLITS = 5_000

#: How many examples: a number, or for a run that draws from several sources, (source, number) in order of the names.
Group = int | tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One ordered pair of neighbouring datasets."""

    name: str
    removed: Group
    added: Group
    keeps_places: bool = False
    """Whether what is missing in one dataset keeps its place there, with a gradient of zero."""

    @property
    def is_substitution(self) -> bool:
        """Whether as many examples are replaced by others."""
        return self.removed == self.added

    @property
    def size(self) -> Group:
        """The larger of the two groups, where one of them is empty or both are equal."""
        return self.added if is_empty(self.removed) else self.removed


def changes_of(
    adjacency: Any, *, group: Group | None, removed: Group | None, added: Group | None
) -> tuple[Change, ...]:
    """The changes an adjacency comprises; the one that is worse more often comes first."""
    chosen = require_choice("adjacency", adjacency, ADJACENCIES)
    if removed is not None and added is not None:
        return _either_order(removed, added)
    if group is None:
        raise AssertionError("a group must be given, or both groups of an exchange")
    nobody = _nobody(group)
    if chosen == "add-or-remove":
        return Change("remove", group, nobody), Change("add", nobody, group)
    if chosen == "remove":
        return (Change("remove", group, nobody),)
    if chosen == "add":
        return (Change("add", nobody, group),)
    if chosen == "substitute":
        return (Change("substitute", group, group),)
    if chosen == "zero-out":
        return (
            Change("zero-out", group, nobody, keeps_places=True),
            Change("zero-out, reversed", nobody, group, keeps_places=True),
        )
    if chosen == "add-and-remove":
        return tuple(Change(f"remove {_told(a)}, add {_told(b)}", a, b) for a, b in _splits(group))
    raise AssertionError(f"adjacency {chosen} has no changes")


def directions_of(adjacency: Any) -> tuple[Direction, ...]:
    """The directions in which an adjacency compares its first change's datasets."""
    chosen = require_choice("adjacency", adjacency, ADJACENCIES)
    return tuple(one for one in DIRECTIONS if chosen == one) or DIRECTIONS


def require_direction(value: Any) -> Direction:
    """`value` if it is a direction."""
    return FORWARD if require_choice("direction", value, DIRECTIONS) == FORWARD else BACKWARD


def group_of(name: str, value: Any, sources: tuple[str, ...] | None) -> Group:
    """`value` as a number of examples, or of examples per source for a run that draws from several."""
    if value is None:
        raise not_given(name, "9" if sources is None else _example(sources))
    if sources is None:
        if not isinstance(value, int) and isinstance(value, Mapping):
            raise InvalidArgument(
                f"{name} must be an integer for a run without several sources, got {shown(dict(value))}."
            )
        return require_integer(name, value, at_least=0, at_most=LARGEST_GROUP)
    if not isinstance(value, Mapping):
        raise InvalidArgument(
            f"{name} must say how many examples of each source, like {_example(sources)}, got {shown(value)}."
        )
    unknown = [key for key in value if key not in sources]
    if unknown:
        raise InvalidArgument(f"{name} must name sources of the run ({', '.join(sources)}), got {shown(unknown[0])}.")
    counts = {
        source: require_integer(f"{name}[{source!r}]", value.get(source, 0), at_least=0, at_most=LARGEST_GROUP)
        for source in sources
    }
    if sum(counts.values()) > LARGEST_GROUP:
        raise InvalidArgument(f"{name} must be at most {LARGEST_GROUP} in all, got {sum(counts.values())}.")
    return tuple(counts.items())


def not_given(name: str, example: str = "9") -> InvalidArgument:
    """The error about a group whose size was not said: there is no default, which would be right for few."""
    return InvalidArgument(f"{name} must be given, like {name}={example}: how many examples a person has.")


def _example(sources: tuple[str, ...]) -> str:
    return "{" + ", ".join(f'"{source}": 1' for source in sources[:2]) + "}"


def is_empty(group: Group) -> bool:
    """Whether nobody is in it."""
    return group == 0 if isinstance(group, int) else all(count == 0 for _, count in group)


def _nobody(group: Group) -> Group:
    return 0 if isinstance(group, int) else tuple((source, 0) for source, _ in group)


def _told(group: Group) -> str:
    return str(group) if isinstance(group, int) else "+".join(f"{count} {source}" for source, count in group)


def _either_order(removed: Group, added: Group) -> tuple[Change, ...]:
    first = Change(f"remove {_told(removed)}, add {_told(added)}", removed, added)
    if removed == added:
        return (first,)
    return first, Change(f"remove {_told(added)}, add {_told(removed)}", added, removed)


def _splits(group: Group) -> Iterator[tuple[Group, Group]]:
    """Every (removed, added) of `group` changes in all; pure removal, the worst wherever tried, first."""
    counts = [group] if isinstance(group, int) else [count for _, count in group]
    number = math.prod(count + 1 for count in counts)
    if number > MOST_SPLITS:
        raise LimitExceeded(
            f"add-and-remove evaluates every split of the group, at most {MOST_SPLITS} of them, got {number}: a "
            "smaller group_size is needed."
        )
    for kept in itertools.product(*(range(count, -1, -1) for count in counts)):
        if isinstance(group, int):
            yield kept[0], group - kept[0]
        else:
            pairs = tuple(zip(group, kept, strict=True))
            yield (
                tuple((source, removed) for (source, _), removed in pairs),
                tuple((source, count - removed) for (source, count), removed in pairs),
            )
