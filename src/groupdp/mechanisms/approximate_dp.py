"""A black box that is known by its (epsilon, delta) alone: the pair that dominates all such mechanisms."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar

import numpy as np

from groupdp.fields import Field, Slider
from groupdp.floats import UNIT, log_complement
from groupdp.losses import AtomsRound
from groupdp.mechanisms.mechanism import PER_PERSON, RELEASES, Mechanism, moving, steps_of
from groupdp.moments import renyi_divergence
from groupdp.neighbours import Change
from groupdp.pairs import Round, Rounds, Side

#: Beyond this a guarantee says nothing.
LARGEST_EPSILON = 1e5


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
        Field(
            name="claimed_epsilon",
            attribute="epsilon",
            unit="",
            meaning="The epsilon of the guarantee that each release comes with.",
            kind="number",
            at_least=0.0,
            at_most=LARGEST_EPSILON,
            example="0.5",
            slider=Slider(start=0.5, low=0.01, high=10.0),
        ),
        Field(
            name="claimed_delta",
            attribute="delta",
            unit="",
            meaning="The delta of the guarantee that each release comes with.",
            kind="number",
            at_least=0.0,
            at_most=1.0,
            default=0.0,
            example="1e-9",
            slider=Slider(start=0.0, low=1e-12, high=1.0),
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
        found: Rounds = ((_randomized_response(steps * self.epsilon), self.releases),)
        if log_delta == -math.inf:
            return found
        return ((revealing_coin(log_delta), self.releases), *found)

    def divergence(self, change: Change, order: float) -> tuple[float, float]:
        """That of randomized response; the coin's probability is a share of P."""
        steps = steps_of(change, per_person=self.per_person)
        if steps == 0:
            return 0.0, 0.0
        found, _ = renyi_divergence(((_randomized_response(steps * self.epsilon), self.releases),), order)
        return found, self.releases * math.exp(self._log_delta(steps)) * (1.0 + 1e-14)

    def _log_delta(self, steps: int) -> float:
        """log of delta (1 + e^epsilon + ... + e^{(steps - 1) epsilon}), at most 0 and not below it."""
        if self.delta == 0.0:
            return -math.inf
        if steps == 1:
            return math.log(self.delta)
        one = _log_expm1(self.epsilon) if self.epsilon > 0.0 else 0.0
        growth = _log_expm1(steps * self.epsilon) - one if self.epsilon > 0.0 else math.log(steps)
        found = math.log(self.delta) + growth
        return min(found + 8.0 * UNIT * (2.0 + abs(found) + steps * self.epsilon), 0.0)

    def is_tight(self, change: Change) -> bool:
        """Whether a mechanism with this guarantee attains the rounds: with one change, and where delta is 0 (R-3)."""
        return self.delta == 0.0 or steps_of(change, per_person=self.per_person) <= 1

    def assumptions(self) -> tuple[str, ...]:
        guarantee = f"({self.epsilon:g}, {self.delta:g})" if self.delta else f"{self.epsilon:g}"
        return (
            f"{moving(per_person=self.per_person)} changes the probability of any outcome of each release as "
            f"{guarantee}-differential privacy allows, whatever was released before.",
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
