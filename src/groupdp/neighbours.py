"""Which datasets are neighbours: every adjacency with its ordered changes and its sentences, in one table.

A *change* is an ordered pair of datasets: `removed` examples are in the first one only, `added` examples in the second
only; the first is P, the second Q of a hockey stick. An adjacency holds if all of its changes do.

    add-or-remove    up to k examples more in one dataset than in the other; the default
    remove, add      one of the two orders alone
    substitute       k examples replaced by k others
    zero-out         k examples whose gradients are replaced by zero, and which keep their places in the batches
    add-and-remove   up to k changes, added or removed in any split: the worst over all splits, all evaluated
    removed=a, added=b   a leave and b join, in both orders: the adjacency is then called "exchange"

A mechanism turns a change into rounds, or refuses it with the reason (mechanisms/, samplings/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from groupdp.errors import InvalidArgument, InWords, require_choice
from groupdp.groups import Group, empty_like, group_of, in_short, in_words, is_empty, splits, total

#: Which dataset of a pair is P: the first one, which has the group, or (backwards) the second.
Direction = Literal["remove", "add"]
DIRECTIONS: tuple[Direction, ...] = ("remove", "add")
FORWARD, BACKWARD = DIRECTIONS
#: Adjacencies that other modules name.
ADD_OR_REMOVE, SUBSTITUTE, ZERO_OUT, ADD_AND_REMOVE = "add-or-remove", "substitute", "zero-out", "add-and-remove"
#: What the adjacency of `removed` and `added` examples is called.
EXCHANGE = "exchange"


@dataclass(frozen=True, slots=True)
class Change:
    """One ordered pair of neighbouring datasets."""

    name: str
    removed: Group
    added: Group
    keeps_places: bool = False
    """Whether missing examples keep their places, with a gradient of zero."""

    @property
    def is_substitution(self) -> bool:
        """Whether as many examples join as leave."""
        return self.removed == self.added

    @property
    def size(self) -> Group:
        """The larger of the two groups, where one of them is empty or both are equal."""
        return self.added if is_empty(self.removed) else self.removed


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoCases:
    """Two clauses about the data that was used; the second goes on from the first.

    The first case is P of a hockey stick, the second Q: an event is at most e^epsilon times as likely in the first as
    in the second, plus delta; an alarm claims the first, and is false in the second.
    """

    first: str
    second: str
    either_order: bool = True
    """Whether the bounds hold with the two exchanged as well."""
    revealed: str = "which of two neighbouring datasets was used"
    """What an outcome proves that is possible in one case only."""

    def likely(self, factor: str, delta: str) -> str:
        """The sentence: any event is at most `factor` times as likely in the first case as in the second."""
        return (
            f"Any outcome of the release is at most {factor} times as likely if {self.first} as if {self.second}, plus "
            f"at most {delta}"
        )

    def detected(self, false_alarms: str, share: str) -> str:
        """The sentence: an attack with at most this share of false alarms detects at most this share of true cases."""
        return (
            f"An attacker who claims that {self.first}, and is wrong in at most {false_alarms} of the cases in which "
            f"{self.second}, detects at most {share} of the true cases."
        )

    def order(self) -> str:
        """The sentence about the two cases exchanged."""
        if self.either_order:
            return "The same holds with the two cases exchanged."
        return "With the two cases exchanged, the numbers may be larger; add-or-remove adjacency bounds both orders."

    def alarm(self) -> str:
        """The sentence about what an alarm claims, and when it is false."""
        exchanged = "; the same holds with the two exchanged" if self.either_order else ""
        return f"An alarm claims that {self.first}, and is false where {self.second}{exchanged}."


_TOOK_PART = TwoCases(first="a person took part", second="they did not", revealed="that a person took part")
_USED = "a person's examples were used"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Adjacency:
    """One named relation between datasets."""

    changes: Callable[[Group, Group], tuple[Change, ...]]
    """Its ordered changes of (the group, nobody); the one that is worse more often comes first."""
    cases: TwoCases
    relation: str
    """How two neighbouring datasets differ; {size} is the group."""
    meaning: str
    """How one person's examples differ between the two datasets, in a sentence."""
    same_size: bool = False
    one_sided: bool = False


_TABLE = {
    "add-or-remove": _Adjacency(
        changes=lambda group, nobody: (Change("remove", group, nobody), Change("add", nobody, group)),
        cases=_TOOK_PART,
        relation="one is the other plus at most {size}",
        meaning="One dataset is the other plus the person's examples.",
        one_sided=True,
    ),
    "add": _Adjacency(
        changes=lambda group, nobody: (Change("add", nobody, group),),
        cases=TwoCases(
            first="a person did not take part",
            second="they did",
            either_order=False,
            revealed="that a person did not take part",
        ),
        relation="the second is the first plus at most {size}",
        meaning="The second dataset is the first plus the person's examples.",
        one_sided=True,
    ),
    "remove": _Adjacency(
        changes=lambda group, nobody: (Change("remove", group, nobody),),
        cases=replace(_TOOK_PART, either_order=False),
        relation="the first is the second plus at most {size}",
        meaning="The second dataset is the first without the person's examples.",
        one_sided=True,
    ),
    "substitute": _Adjacency(
        changes=lambda group, nobody: (Change("substitute", group, group),),
        cases=TwoCases(first=_USED, second="as many others were used in their place"),
        relation="one is the other with {size} replaced by as many others",
        meaning="The person's examples are replaced by as many others.",
        same_size=True,
    ),
    ZERO_OUT: _Adjacency(
        changes=lambda group, nobody: (
            Change(ZERO_OUT, group, nobody, keeps_places=True),
            Change(f"{ZERO_OUT}, reversed", nobody, group, keeps_places=True),
        ),
        cases=TwoCases(first=_USED, second="their gradients were replaced by zero", revealed=f"that {_USED}"),
        relation="one is the other with the gradients of {size} replaced by zero",
        meaning="The person's examples keep their places, with gradients of zero.",
        same_size=True,
    ),
    "add-and-remove": _Adjacency(
        changes=lambda group, nobody: tuple(_exchange(removed, added) for removed, added in splits(group)),
        cases=TwoCases(
            first="the dataset was the first of two that differ by at most {size} added or removed",
            second="it was the second",
        ),
        relation="one becomes the other when at most {size} are added or removed",
        meaning="At most this many examples are added or removed, in any split.",
    ),
}

#: Every adjacency that has a name, the default first.
ADJACENCIES = tuple(_TABLE)
#: Label and meaning of every adjacency; "exchange" stands for the two numbers removed and added.
MEANINGS = {
    **{name: (name.replace("-", " "), row.meaning) for name, row in _TABLE.items()},
    EXCHANGE: ("removed and added", "`removed` examples leave and `added` others join."),
}
#: Where one dataset contains the other: both orders, and either alone.
ONE_SIDED = tuple(name for name, row in _TABLE.items() if row.one_sided)
#: Where both datasets have the same size.
SAME_SIZE = tuple(name for name, row in _TABLE.items() if row.same_size)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Which datasets a guarantee compares: how many examples leave and join, which keep their places, in which orders.

    `adjacency` is one of ADJACENCIES, and `group` is then in one dataset only; or it is "exchange", where `group`
    leaves and `joining` joins.
    """

    group: Group
    adjacency: str = ADJACENCIES[0]
    joining: Group | None = None
    unit: str = "example"
    """What the group counts: examples, or people where people are sampled."""
    words: str = ""
    """The words that replace a number in sentences, if releases have group sizes of their own."""

    @classmethod
    def of(
        cls,
        *,
        group_size: Any = None,
        adjacency: Any = ADJACENCIES[0],
        removed: Any = None,
        added: Any = None,
        sources: tuple[str, ...] | None = None,
        unit: str = "example",
    ) -> Neighbours:
        """From the keywords of the library's functions, checked; `sources` and `unit` are those of the run."""
        require_choice("adjacency", adjacency, ADJACENCIES)
        if removed is None and added is None:
            return cls(group_of("group_size", group_size, sources), adjacency, unit=unit)
        if group_size is not None:
            raise InvalidArgument("group_size", group_size, "be left out where removed and added are given")
        if adjacency != ADJACENCIES[0]:
            raise InvalidArgument("adjacency", adjacency, "be left out where removed and added are given")
        nobody: Any = 0 if sources is None else {}
        leaving, joining = (
            group_of(name, nobody if value is None else value, sources)
            for name, value in (("removed", removed), ("added", added))
        )
        return cls(leaving, EXCHANGE, joining, unit)

    @property
    def group_size(self) -> Any:
        """The keyword `group_size` of the library's functions; None for an exchange."""
        if self.joining is not None:
            return None
        return self.group if isinstance(self.group, int) else dict(self.group)

    @property
    def changes(self) -> tuple[Change, ...]:
        """The ordered changes; the one that is worse more often comes first."""
        if self.joining is None:
            return _TABLE[self.adjacency].changes(self.group, empty_like(self.group))
        first = _exchange(self.group, self.joining)
        return (first,) if first.is_substitution else (first, _exchange(self.joining, self.group))

    @property
    def label(self) -> str:
        """ "add-or-remove adjacency"."""
        return f"{self.adjacency} adjacency" if self.joining is None else "exchange adjacency, in either order"

    @property
    def cases(self) -> TwoCases:
        """The two cases that are compared, in words."""
        if self.joining is None:
            cases = _TABLE[self.adjacency].cases
            return replace(cases, first=cases.first.format(size=self.counted(self.group)))
        leaving, joining = (self.joining, self.group) if is_empty(self.group) else (self.group, self.joining)
        if is_empty(joining):
            return _TOOK_PART
        of_a_person, of_others = (" of a person", " of others") if self.unit == "example" else ("", "")
        return TwoCases(
            first=f"{self.counted(leaving)}{of_a_person} {_were(leaving)} used",
            second=f"{self.counted(joining)}{of_others} {_were(joining)} used in their place",
        )

    @property
    def relation(self) -> str:
        """How two neighbouring datasets differ."""
        if self.joining is None:
            return _TABLE[self.adjacency].relation.format(size=self.counted(self.group))
        return (
            f"one has {self.counted(self.group)} that the other lacks, and lacks {self.counted(self.joining)} that the "
            "other has"
        )

    @property
    def whom(self) -> str:
        """Whom the guarantee is for: "any group of up to 9 examples"."""
        if self.words:
            return "every person with at most the stated number of examples in each release"
        if self.joining is None:
            return f"one {self.unit}" if self.group == 1 else f"any group of up to {self.counted(self.group)}"
        leaves, joins = ("s" if total(group) == 1 else "" for group in (self.group, self.joining))
        return f"{self.counted(self.group)} that leave{leaves} while {self.counted(self.joining)} join{joins}"

    def counted(self, group: Group) -> str:
        """A group in words."""
        return self.words or in_words(group, self.unit)

    @property
    def largest_group(self) -> Group:
        """The most examples that one person may have in either dataset."""
        if self.joining is None:
            return self.group
        if isinstance(self.group, int) or isinstance(self.joining, int):
            return max(total(self.group), total(self.joining))
        return tuple((source, max(a, b)) for (source, a), (_, b) in zip(self.group, self.joining, strict=True))


def directions_of(adjacency: Any) -> tuple[Direction, ...]:
    """The directions in which an adjacency compares its first change's datasets."""
    chosen = require_choice("adjacency", adjacency, ADJACENCIES)
    return tuple(direction for direction in DIRECTIONS if chosen == direction) or DIRECTIONS


def require_direction(value: Any) -> Direction:
    """`value` if it is a direction."""
    return FORWARD if require_choice("direction", value, DIRECTIONS) == FORWARD else BACKWARD


def require_law(adjacency: str, title: str, adjacencies: tuple[str, ...], refusals: Mapping[str, str]) -> None:
    """Refuse, with the reason, an adjacency that `title` has no law for."""
    if adjacency in adjacencies:
        return
    supported = [name for name in adjacencies if name != EXCHANGE]
    asked = "removed and added" if adjacency == EXCHANGE else repr(adjacency)
    raise InvalidArgument("adjacency", InWords(asked), f"be {' or '.join(supported)} for {title}", refusals[adjacency])


def _exchange(removed: Group, added: Group) -> Change:
    return Change(f"remove {in_short(removed)}, add {in_short(added)}", removed, added)


def _were(group: Group) -> str:
    return "was" if total(group) == 1 else "were"
