"""How many examples a group has: a number, or a number for each source of a run that draws from several."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from groupdp.errors import NOT_SHOWN, InvalidArgument, LimitExceeded, require_integer

#: Largest group accepted.
LARGEST_GROUP = 100_000
#: Splits of a group that add-and-remove evaluates at most.
MOST_SPLITS = 5_000

#: How many examples: a number, or for a run that draws from several sources, (source, number) in order of the names.
Group = int | tuple[tuple[str, int], ...]


def group_of(name: str, value: Any, sources: tuple[str, ...] | None) -> Group:
    """`value` as a number of examples, or of examples per source for a run that draws from several."""
    if value is None:
        raise not_given(name, "9" if sources is None else _example(sources))
    if sources is None:
        if not isinstance(value, int) and isinstance(value, Mapping):
            raise InvalidArgument(name, dict(value), "be an integer for a run without several sources")
        return require_integer(name, value, at_least=0, at_most=LARGEST_GROUP)
    if not isinstance(value, Mapping):
        raise InvalidArgument(name, value, f"say how many examples of each source, like {_example(sources)}")
    unknown = [key for key in value if key not in sources]
    if unknown:
        raise InvalidArgument(name, unknown[0], f"name sources of the run ({', '.join(sources)})")
    counts = {
        source: require_integer(f"{name}[{source!r}]", value.get(source, 0), at_least=0, at_most=LARGEST_GROUP)
        for source in sources
    }
    if sum(counts.values()) > LARGEST_GROUP:
        raise InvalidArgument(name, sum(counts.values()), f"be at most {LARGEST_GROUP} in all")
    return tuple(counts.items())


def not_given(name: str, example: str = "9") -> InvalidArgument:
    """The error about a group whose size was not given. No default: none suits most users."""
    return InvalidArgument(name, NOT_SHOWN, f"be given, like {name}={example}: how many examples a person has")


def _example(sources: tuple[str, ...]) -> str:
    return "{" + ", ".join(f'"{source}": 1' for source in sources[:2]) + "}"


def total(group: Group) -> int:
    """How many examples the group has, over all sources."""
    return group if isinstance(group, int) else sum(count for _, count in group)


def is_empty(group: Group) -> bool:
    """Whether the group has no examples."""
    return group == 0 if isinstance(group, int) else all(count == 0 for _, count in group)


def empty_like(group: Group) -> Group:
    """A group without examples, with the same sources."""
    return 0 if isinstance(group, int) else tuple((source, 0) for source, _ in group)


def in_short(group: Group) -> str:
    """ "9", or "3 web+5 books"."""
    return str(group) if isinstance(group, int) else "+".join(f"{count} {source}" for source, count in group)


#: More than one of what is counted.
_MANY = {"example": "examples", "person": "people"}


def in_words(group: Group, unit: str = "example") -> str:
    """ "9 examples", "2 people" or "3 examples from web and 5 from books"."""
    if isinstance(group, int):
        return f"{group} {unit if group == 1 else _MANY[unit]}"
    (source, first), *others = [(source, count) for source, count in group if count] or [("every source", 0)]
    return " and ".join([f"{in_words(first, unit)} from {source}", *(f"{count} from {name}" for name, count in others)])


def splits(group: Group) -> Iterator[tuple[Group, Group]]:
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
