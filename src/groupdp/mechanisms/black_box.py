"""Black boxes: releases that are known by their (epsilon, delta), or by losses that another accountant computed."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar

import numpy as np

from groupdp.errors import InvalidArgument, InWords, require_choice, require_integer
from groupdp.fields import Field, real
from groupdp.floats import UNIT, log_complement
from groupdp.groups import LARGEST_GROUP, in_words, is_empty, total
from groupdp.losses import AtomsRound
from groupdp.mechanisms.mechanism import PER_PERSON, RELEASES, Mechanism, moving, steps_of
from groupdp.moments import renyi_divergence
from groupdp.neighbours import ADD_OR_REMOVE, DIRECTIONS, SUBSTITUTE, Change, require_law
from groupdp.pairs import AnyRound, Round, Rounds, Side

#: Beyond this a guarantee says nothing.
LARGEST_EPSILON = 1e5
#: What imported losses may be about.
ABOUT = (ADD_OR_REMOVE, SUBSTITUTE)


@dataclass(frozen=True, slots=True)
class ApproximateDP(Mechanism):
    """`releases` of mechanisms of which only (epsilon, delta)-differential privacy is known; delta = 0 is pure DP.

    `per_person` says what the guarantee is about, and has no default. True: adding, removing or zeroing all examples of
    a person, however many they are; the group size does not enter. False: one example; a group of k then has
    (k epsilon, delta (e^{k epsilon} - 1) / (e^epsilon - 1)) (R-3).
    """

    epsilon: float
    delta: float = 0.0
    _: KW_ONLY
    per_person: bool
    releases: int = 1

    name: ClassVar[str] = "approximate-dp"
    title: ClassVar[str] = "a black box"
    meaning: ClassVar[str] = "Mechanisms of which only (epsilon, delta)-differential privacy is known."
    fields: ClassVar[tuple[Field, ...]] = (
        real(
            "claimed_epsilon",
            "The epsilon of the guarantee that each release comes with.",
            (0.5, 0.01, 10.0),
            attribute="epsilon",
            at_least=0.0,
            at_most=LARGEST_EPSILON,
        ),
        real(
            "claimed_delta",
            "The delta of the guarantee that each release comes with.",
            (0.0, 1e-12, 1.0),
            attribute="delta",
            at_least=0.0,
            at_most=1.0,
            default=0.0,
            example="1e-9",
        ),
        replace(PER_PERSON, default=None),
        RELEASES,
    )

    def rounds(self, change: Change) -> Rounds:
        """A coin that reveals everything with probability delta, and randomized response (R-3)."""
        steps = steps_of(change, per_person=self.per_person)
        if steps == 0:
            return ()
        log_delta = self._log_delta(steps)
        parts: tuple[AnyRound, ...] = (_randomized_response(steps * self.epsilon),)
        if log_delta > -math.inf:
            parts = (revealing_coin(log_delta), *parts)
        return tuple((part, self.releases) for part in parts)

    def divergence(self, change: Change, order: float) -> tuple[float, float]:
        """The divergence of randomized response; the coin's probability is the share of P."""
        steps = steps_of(change, per_person=self.per_person)
        if steps == 0:
            return 0.0, 0.0
        divergence, _ = renyi_divergence(((_randomized_response(steps * self.epsilon), self.releases),), order)
        return divergence, self.releases * math.exp(self._log_delta(steps)) * (1.0 + 1e-14)

    def _log_delta(self, steps: int) -> float:
        """log of delta (1 + e^epsilon + ... + e^{(steps - 1) epsilon}), at most 0 and not below it."""
        if self.delta == 0.0:
            return -math.inf
        if steps == 1:
            return math.log(self.delta)
        growth = math.log(steps)
        if self.epsilon > 0.0:
            growth = _log_expm1(steps * self.epsilon) - _log_expm1(self.epsilon)
        value = math.log(self.delta) + growth
        return min(value + 8.0 * UNIT * (2.0 + abs(value) + steps * self.epsilon), 0.0)

    def is_tight(self, change: Change) -> bool:
        """Whether a mechanism with this guarantee attains the rounds: with one change, and where delta is 0 (R-3)."""
        return self.delta == 0.0 or steps_of(change, per_person=self.per_person) <= 1

    def assumptions(self) -> tuple[str, ...]:
        guarantee = f"({self.epsilon:g}, {self.delta:g})" if self.delta else f"{self.epsilon:g}"
        return (
            f"{moving(per_person=self.per_person)} changes the probability of any outcome of each release as "
            f"{guarantee}-differential privacy allows, whatever was released before.",
        )


@dataclass(frozen=True, slots=True)
class ImportedLosses(Mechanism):
    """`releases` of a mechanism that is known by the privacy losses which another accountant computed.

    Formal guarantee: if the laws `remove` and `add` dominate the mechanism, in the two orders, for all groups of up to
    `group_size` examples and this adjacency, everything composed with it is certified. Whether they do is not checked
    here: the guarantee is as valid as the imported losses. Lower sides bound this analysis alone. Larger groups, and
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
        return f"{self.title} of {in_words(self.group_size)} ({self.adjacency}), releases: {self.releases}"

    def assumptions(self) -> tuple[str, ...]:
        return (
            f"The imported privacy losses dominate each of its releases for up to {in_words(self.group_size)} "
            f"({self.adjacency}), whatever was released before. This was not checked.",
        )


def _log_expm1(x: float) -> float:
    """log(e^x - 1) for x > 0."""
    return x + log_complement(-x)


def _randomized_response(epsilon: float) -> AtomsRound:
    """Losses -epsilon and epsilon; its own mirror image."""
    log_share = -math.log1p(math.exp(-epsilon))
    error = 2.0 * UNIT * epsilon
    return AtomsRound(
        np.array([-epsilon, epsilon]),
        np.array([log_share - epsilon, log_share]),
        spacing=2.0 * epsilon,
        loss_error=error,
        mass_error=error + 16.0 * UNIT * (1.0 + epsilon),
    )


def revealing_coin(log_delta: float) -> Round:
    """P alone, and Q alone, has an outcome of probability delta; otherwise P and Q are identical."""
    if log_delta == 0.0:
        side = Side.point(math.inf)
    else:
        kept = log_complement(log_delta)
        side = Side(np.array([0.0, math.inf]), (np.exp([kept, log_delta]), np.array([kept, log_delta])))
    return Round.of(side, side)


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
