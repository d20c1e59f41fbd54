"""The two worlds that a guarantee compares, in words: every sentence about an attack is about these.

The first is P of a hockey stick, the second Q (adjacency.py): what is found in the release is at most e^epsilon times
as likely in the first as in the second, plus delta; an alarm claims the first, and is false in the second. Which of
them has the person's examples depends on the adjacency.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groupdp._validation import require_choice
from groupdp.adjacency import ADJACENCIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Worlds:
    """Two clauses about the data that was used; the second goes on from the first."""

    first: str
    second: str
    either_order: bool
    """Whether what is bounded holds with the two exchanged as well."""
    revealed: str = "which of two neighbouring datasets was used"
    """What somebody is certain of who sees what only one of the worlds releases."""

    def likely(self, factor: str, delta: str) -> str:
        """That any event is at most so many times as likely in the first world as in the second."""
        return (
            f"Whatever one may look for in the release, it is at most {factor} times as likely if {self.first} as if "
            f"{self.second}, plus at most {delta}"
        )

    def detected(self, false_alarms: str, share: str) -> str:
        """That an attack with so many false alarms at most finds at most this share of what it looks for."""
        return (
            f"An attacker who claims that {self.first}, falsely in at most {false_alarms} of the cases in which "
            f"{self.second}, detects at most {share} of the cases in which it is true."
        )

    def order(self) -> str:
        """What holds with the two worlds exchanged."""
        if self.either_order:
            return "All of this holds with the two cases exchanged, too."
        return "With the two cases exchanged it may be more: adjacency add-or-remove bounds both orders."

    def alarm(self) -> str:
        """What an alarm claims, and where it is false."""
        exchanged = "; all of this holds with the two exchanged, too" if self.either_order else ""
        return f"An alarm claims that {self.first}, and is false where {self.second}{exchanged}."


def worlds_of(
    *, group_size: Any = None, adjacency: str = ADJACENCIES[0], removed: Any = None, added: Any = None, **_: Any
) -> Worlds:
    """The worlds of an adjacency, or of an exchange; the arguments are those of `epsilon`."""
    chosen = require_choice("adjacency", adjacency, ADJACENCIES)
    used = "a person's examples were used"
    if removed is not None and added is not None:
        return _exchange(removed, added)
    if chosen == "add":
        return Worlds(
            first="a person did not take part",
            second="they did",
            either_order=False,
            revealed="that a person did not take part",
        )
    if chosen == "substitute":
        return Worlds(first=used, second="as many others were used in their place", either_order=True)
    if chosen == "zero-out":
        zero = "their gradients were replaced by zero"
        return Worlds(first=used, second=zero, either_order=True, revealed=f"that {used}")
    if chosen == "add-and-remove":
        differ = f"the dataset was the first of two that differ by at most {_counted(group_size)} added or removed"
        return Worlds(first=differ, second="it was the second", either_order=True)
    return _taking_part(either_order=chosen == "add-or-remove")


def _taking_part(*, either_order: bool) -> Worlds:
    took = "a person took part"
    return Worlds(first=took, second="they did not", either_order=either_order, revealed=f"that {took}")


def _exchange(removed: Any, added: Any) -> Worlds:
    """Examples that leave while others join; an exchange is bounded in both orders."""
    if not _anybody(removed):
        removed, added = added, removed
    if not _anybody(added):
        return _taking_part(either_order=True)
    return Worlds(
        first=f"{_counted(removed)} of a person {_were(removed)} used",
        second=f"{_counted(added)} of others {_were(added)} used in their place",
        either_order=True,
    )


def _counted(group: Any) -> str:
    if isinstance(group, Mapping):
        return " and ".join(f"{count} from {source}" for source, count in group.items() if count) or "nothing"
    return f"{group} example{'' if group == 1 else 's'}"


def _anybody(group: Any) -> bool:
    return any(group.values()) if isinstance(group, Mapping) else bool(group)


def _were(group: Any) -> str:
    number = sum(group.values()) if isinstance(group, Mapping) else group
    return "was" if number == 1 else "were"
