"""Group-level guarantees through dp_accounting's own interface.

    accountant = GroupPrivacyAccountant(group_size=8)
    accountant.compose(PoissonSampledDpEvent(0.01, GaussianDpEvent(4.0)), 2000)
    accountant.get_epsilon(1e-6)

What is returned is the upper side of groupdp's certified bounds, bit for bit that of `groupdp.epsilon` and
`groupdp.delta` for the same run. `calibrate_dp_mechanism` and everything else that takes a PrivacyAccountant works.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import groupdp
from groupdp._validation import require_integer, require_number
from groupdp.bounds import Bounds
from groupdp.errors import InvalidArgument, InWords
from groupdp.groups import LARGEST_GROUP
from groupdp.integrations.dp_events import MixtureLaw, UnsupportedEvent, dp_event, rounds_of
from groupdp.integrations.dp_events import from_dp_event as from_dp_event
from groupdp.integrations.dp_events import to_dp_event as to_dp_event
from groupdp.integrations.loaders import refuse_misdescribed_events, require_package
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.neighbours import ZERO_OUT

_accountant: Any = require_package("dp_accounting.privacy_accountant", extra="dp_accounting", tool="dp_accounting")

NeighboringRelation = _accountant.NeighboringRelation
#: dp_accounting's neighbouring relations, each for a group instead of one record, as adjacencies.
ADJACENCIES = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "add-or-remove",
    NeighboringRelation.REPLACE_ONE: "substitute",
    NeighboringRelation.REPLACE_SPECIAL: ZERO_OUT,
}
#: Where delta is asked for at an infinite epsilon: far beyond it only what is revealed outright is left.
_LARGEST_EPSILON = 1e300


class GroupPrivacyAccountant(_accountant.PrivacyAccountant):  # type: ignore[misc]
    """A PrivacyAccountant for groups of up to `group_size` records.

    Formal guarantee: with what was composed, the release is (get_epsilon(delta), delta)-DP for datasets that differ by
    up to `group_size` records added or removed (ADD_OR_REMOVE_ONE), by `group_size` records replaced (REPLACE_ONE), or
    replaced by zero gradients (REPLACE_SPECIAL).
    """

    def __init__(self, group_size: int, neighboring_relation: Any = NeighboringRelation.ADD_OR_REMOVE_ONE) -> None:
        self._group_size = require_integer("group_size", group_size, at_least=1, at_most=LARGEST_GROUP)
        if neighboring_relation not in ADJACENCIES:
            needed = "be a NeighboringRelation of dp_accounting"
            raise InvalidArgument("neighboring_relation", neighboring_relation, needed)
        super().__init__(neighboring_relation)
        self._rounds: dict[DPSGD, int] = {}
        self._contains_non_private_event = False

    @property
    def group_size(self) -> int:
        """Records of one group."""
        return self._group_size

    @property
    def neighboring_relation(self) -> Any:
        """dp_accounting's relation. Asking for it is where a plan of several bands is noticed, and refused."""
        refuse_misdescribed_events(self._group_size)
        return self._neighboring_relation

    @property
    def adjacency(self) -> str:
        """The relation by groupdp's name."""
        return ADJACENCIES[self._neighboring_relation]

    @property
    def run(self) -> tuple[DPSGD, ...]:
        """What was composed so far, as phases; `InvalidArgument` if it is not a run of DP-SGD."""
        if self._contains_non_private_event or any(isinstance(step.sampling, MixtureLaw) for step in self._rounds):
            others = InWords("other events among them")
            raise InvalidArgument("what was composed", others, "be steps of DP-SGD to be a run")
        return self._phases

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        refuse_misdescribed_events(self._group_size)
        try:
            times = require_integer("count", count, at_least=0)
            non_private, rest = _without_non_private(event)
            rounds = rounds_of(rest, times, group_size=self._group_size, adjacency=self.adjacency)
        except UnsupportedEvent as error:
            return self.CompositionErrorDetails(invalid_event=error.event, error_message=error.reason)
        except InvalidArgument as error:
            return self.CompositionErrorDetails(invalid_event=event, error_message=str(error))
        if do_compose:
            self._contains_non_private_event |= non_private
            for step, number in rounds:
                if number > 0:
                    self._rounds[step] = self._rounds.get(step, 0) + number
        return None

    def get_epsilon(self, target_delta: float) -> float:
        """The guarantee: the upper side of `get_epsilon_bounds`."""
        return self.get_epsilon_bounds(target_delta).upper

    def get_delta(self, target_epsilon: float) -> float:
        """The guarantee: the upper side of `get_delta_bounds`."""
        return self.get_delta_bounds(target_epsilon).upper

    def get_epsilon_bounds(self, target_delta: float) -> Bounds:
        """Certified bounds on the smallest epsilon; the interface's extremes 0 and 1 are allowed for delta."""
        delta = require_number("target_delta", target_delta, at_least=0.0, at_most=1.0)
        if self._contains_non_private_event:
            return Bounds(math.inf, math.inf)
        if not self._rounds or delta == 1.0:
            return Bounds(0.0, 0.0)
        if delta == 0.0:
            return Bounds(math.inf, math.inf)  # Gaussian noise: the loss of removing a group is not bounded
        return self._ask(groupdp.epsilon, delta=delta)

    def get_delta_bounds(self, target_epsilon: float) -> Bounds:
        """Certified bounds on delta; an infinite epsilon is allowed."""
        if self._contains_non_private_event:
            return Bounds(1.0, 1.0)
        if not self._rounds:
            return Bounds(0.0, 0.0)
        if target_epsilon == math.inf:
            if all(step.noise_multiplier > 0.0 for step in self._rounds):
                return Bounds(0.0, 0.0)
            bounds = self._ask(groupdp.delta, epsilon=_LARGEST_EPSILON)
            return Bounds(0.0, bounds.upper, bounds.provenance)
        epsilon = require_number("target_epsilon", target_epsilon, at_least=0.0)
        return self._ask(groupdp.delta, epsilon=epsilon)

    @property
    def _phases(self) -> tuple[DPSGD, ...]:
        return tuple(replace(step, steps=count) for step, count in self._rounds.items())

    def _ask(self, question: Any, **target: float) -> Bounds:
        bounds: Bounds = question(self._phases, **target, group_size=self._group_size, adjacency=self.adjacency)
        return bounds


def _without_non_private(event: Any) -> tuple[bool, Any]:
    """Whether a NonPrivateDpEvent is in `event`, and the rest of it."""
    if isinstance(event, dp_event.NonPrivateDpEvent):
        return True, dp_event.NoOpDpEvent()
    if isinstance(event, dp_event.SelfComposedDpEvent):
        inside, rest = _without_non_private(event.event)
        return inside, dp_event.SelfComposedDpEvent(rest, event.count) if inside else event
    if isinstance(event, dp_event.ComposedDpEvent):
        parts = [_without_non_private(part) for part in event.events]
        inside = any(non_private for non_private, _ in parts)
        return inside, dp_event.ComposedDpEvent([rest for _, rest in parts]) if inside else event
    return False, event
