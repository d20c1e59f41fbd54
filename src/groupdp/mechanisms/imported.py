"""Privacy losses that another accountant computed, as a release in a composition."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from groupdp._validation import require_choice, require_integer
from groupdp.errors import InvalidArgument, InWords
from groupdp.floats import log_complement
from groupdp.groups import LARGEST_GROUP, in_words, is_empty, total
from groupdp.losses import AtomsRound
from groupdp.mechanisms.approximate_dp import revealing_coin
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.moments import renyi_divergence
from groupdp.neighbours import ADD_OR_REMOVE, DIRECTIONS, SUBSTITUTE, Change, require_law
from groupdp.pairs import AnyRound, Rounds

#: What imported losses may be about.
ABOUT = (ADD_OR_REMOVE, SUBSTITUTE)


@dataclass(frozen=True, slots=True)
class ImportedLosses(Mechanism):
    """`releases` of a mechanism that is known by the privacy losses which another accountant computed.

    Formal guarantee: if the laws `remove` and `add` dominate the mechanism, in the two orders, for all groups of up to
    `group_size` examples and this adjacency, everything composed with it is certified. Whether they do is not checked
    here: the import is as right as what is imported. Lower sides bound this analysis alone. Larger groups, and
    other adjacencies, are refused: nothing is known about them.
    """

    remove: AtomsRound
    add: AtomsRound
    group_size: int
    adjacency: str = ADD_OR_REMOVE
    releases: int = 1

    name: ClassVar[str] = "imported-losses"
    title: ClassVar[str] = "imported privacy losses"

    def __post_init__(self) -> None:
        for name in DIRECTIONS:
            if not isinstance(getattr(self, name), AtomsRound):
                raise InvalidArgument(name, getattr(self, name), "be a law of losses (losses.AtomsRound)")
        require_integer("group_size", self.group_size, at_least=1, at_most=LARGEST_GROUP)
        if require_choice("adjacency", self.adjacency, ABOUT) == SUBSTITUTE and self.remove != self.add:
            raise InvalidArgument(DIRECTIONS[1], InWords("another law"), "be symmetric where records are replaced")
        require_integer("releases", self.releases, at_least=0)

    def rounds(self, change: Change) -> Rounds:
        """The imported law of the order of the change."""
        if is_empty(change.removed) and is_empty(change.added):
            return ()
        largest = max(total(change.removed), total(change.added))
        if largest > self.group_size:
            known = f"be at most {self.group_size}, the group that the imported losses are about"
            raise InvalidArgument("group_size", largest, known)
        return tuple((part, self.releases) for part in _parts(self._law(change)))

    def divergence(self, change: Change, order: float) -> tuple[float, float]:
        """That of the losses with an atom; what has none is a share of P."""
        return renyi_divergence(((self._law(change), self.releases),) if self.rounds(change) else (), order)

    def _law(self, change: Change) -> AtomsRound:
        return self.add if is_empty(change.removed) else self.remove

    def is_tight(self, change: Change) -> bool:
        return False

    def require_adjacency(self, adjacency: str) -> None:
        supported = (SUBSTITUTE,) if self.adjacency == SUBSTITUTE else (ADD_OR_REMOVE, *DIRECTIONS)
        reason = f"the imported losses are about {self.adjacency}"
        require_law(adjacency, self.title, supported, dict.fromkeys((*self.adjacencies, adjacency), reason))

    def describe(self) -> str:
        return f"{self.title} of {in_words(self.group_size)} ({self.adjacency}), releases = {self.releases}"

    def assumptions(self) -> tuple[str, ...]:
        return (
            f"The imported privacy losses dominate each of its releases for up to {in_words(self.group_size)} "
            f"({self.adjacency}), whatever was released before. This was not checked.",
        )


def _parts(law: AtomsRound) -> tuple[AnyRound, ...]:
    """The law, where all of P has an atom; else a coin that reveals everything, and the atoms given that it does not.

    P-masses p_i and d without an atom have H = d + sum (p_i - alpha q_i)_+, as a coin of d and p_i / (1 - d) have.
    """
    if law.log_lost == -math.inf:
        return (law,)
    if law.log_lost == 0.0:
        return (revealing_coin(0.0),)
    kept = log_complement(law.log_lost)
    atoms = AtomsRound(
        law.losses,
        law.log_p - kept,
        spacing=law.spacing,
        loss_error=law.loss_error,
        mass_error=law.mass_error + 1e-13,
    )
    return revealing_coin(law.log_lost), atoms
