"""Group-level guarantees through dp_accounting's own interface, and runs to and from its DpEvents.

    accountant = GroupPrivacyAccountant(group_size=8)
    accountant.compose(PoissonSampledDpEvent(0.01, GaussianDpEvent(4.0)), 2000)
    accountant.get_epsilon(1e-6)

What is returned is the upper side of groupdp's certified bounds, bit for bit that of `groupdp.epsilon` and
`groupdp.delta` for the same run. `calibrate_dp_mechanism` and everything else that takes a PrivacyAccountant works.

An event describes one dataset; a guarantee is about two of them that differ by a group. Where the dataset's size
matters, it is that of the dataset the event names: with the group in it under add-or-remove (dp_accounting's own
convention), so that the common part has k examples fewer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import groupdp
from groupdp.bounds import Bounds
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, require_choice, require_integer, require_number, shown
from groupdp.groups import LARGEST_GROUP
from groupdp.integrations import refuse_misdescribed_events, require_package
from groupdp.mechanisms.dpsgd import DPSGD, phases_of
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.mechanisms.mixture import MixtureOfGaussians
from groupdp.neighbours import ADD_AND_REMOVE, ADD_OR_REMOVE, EXCHANGE, ONE_SIDED, SAME_SIZE, ZERO_OUT, Change
from groupdp.pairs import Rounds

_accountant: Any = require_package("dp_accounting.privacy_accountant", extra="dp_accounting", tool="dp_accounting")
dp_event: Any = require_package("dp_accounting.dp_event", extra="dp_accounting", tool="dp_accounting")

_ONE_SIDED = "a mixture of Gaussians is about adding and removing: describe the sampling instead"


@dataclass(frozen=True)
class RepeatedMixture(Mechanism):
    """Steps of which each moves the sum by a random amount whose law an event states."""

    mixture: MixtureOfGaussians
    steps: int = 1

    name: ClassVar[str] = "mixture"
    title: ClassVar[str] = "a stated mixture of Gaussians"
    adjacencies: ClassVar[tuple[str, ...]] = ONE_SIDED
    refusals: ClassVar[dict[str, str]] = dict.fromkeys((*SAME_SIZE, ADD_AND_REMOVE, EXCHANGE), _ONE_SIDED)

    @property
    def noise_multiplier(self) -> float:
        """The noise multiplier of every step."""
        return self.mixture.standard_deviation

    def rounds(self, change: Change) -> Rounds:
        ((law, _),) = self.mixture.rounds(change)
        return ((law, self.steps),)

    def is_tight(self, change: Change) -> bool:
        return True

    def assumptions(self) -> tuple[str, ...]:
        return self.mixture.assumptions()


NeighboringRelation = _accountant.NeighboringRelation
#: dp_accounting's neighbouring relations, each for a group instead of one record, as adjacencies.
ADJACENCIES = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "add-or-remove",
    NeighboringRelation.REPLACE_ONE: "substitute",
    NeighboringRelation.REPLACE_SPECIAL: ZERO_OUT,
}
#: One step, as it is counted.
Step = DPSGD | RepeatedMixture
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
        self._rounds: dict[Step, int] = {}
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
        phases = tuple(phase for phase in self._phases if isinstance(phase, DPSGD))
        if self._contains_non_private_event or len(phases) < len(self._rounds):
            others = InWords("other events among them")
            raise InvalidArgument("what was composed", others, "be steps of DP-SGD to be a run")
        return phases

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        refuse_misdescribed_events(self._group_size)
        try:
            times = require_integer("count", count, at_least=0)
            rounds = rounds_of(event, times, group_size=self._group_size, adjacency=self.adjacency)
        except UnsupportedEvent as error:
            return self.CompositionErrorDetails(invalid_event=error.event, error_message=error.reason)
        except InvalidArgument as error:
            return self.CompositionErrorDetails(invalid_event=event, error_message=str(error))
        if do_compose:
            for step, number in rounds:
                if step is None:
                    self._contains_non_private_event = True
                elif number > 0:
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
    def _phases(self) -> tuple[Step, ...]:
        return tuple(replace(step, steps=count) for step, count in self._rounds.items())

    def _ask(self, question: Any, **target: float) -> Bounds:
        bounds: Bounds = question(self._phases, **target, group_size=self._group_size, adjacency=self.adjacency)
        return bounds


_REASONS = {
    "LaplaceDpEvent": "Laplace noise has no group-level law among events: compose a groupdp.LaplaceRelease instead",
    "DiscreteLaplaceDpEvent": "discrete Laplace noise has no group-level law here",
    "RandomizedResponseDpEvent": "randomized response has no law among events: compose an ApproximateDP instead",
    "ZCDpEvent": "a zCDP bound says how one example is protected, not how a group is sampled",
    "RepeatAndSelectDpEvent": "selection over a random number of runs has no group-level law here",
    "SingleEpochTreeAggregationDpEvent": "correlated noise: the reduction to single steps holds for one example only",
    "SampledWithReplacementDpEvent": "batches drawn with replacement have no group-level law here: an example may be "
    "in one batch several times",
}


class UnsupportedEvent(Exception):
    """An event, or a part of one, that groupdp has no group-level law for."""

    def __init__(self, event: Any, reason: str) -> None:
        super().__init__(reason)
        self.event = event
        self.reason = reason


def rounds_of(event: Any, count: int, *, group_size: int, adjacency: str) -> list[tuple[Step | None, int]]:
    """The rounds that `count` times `event` consists of, with how often each is run; `UnsupportedEvent` otherwise.

    Events without an effect (NoOp, a sampling probability or a sample size of 0) are no rounds. None is a release of
    the data themselves.
    """
    if isinstance(event, dp_event.NoOpDpEvent):
        return []
    if isinstance(event, dp_event.NonPrivateDpEvent):
        return [(None, count)]
    if isinstance(event, dp_event.SelfComposedDpEvent):
        try:
            times = require_integer("count", event.count, at_least=0)
            require_integer("count", times * count, at_least=0)
        except InvalidArgument as error:
            raise UnsupportedEvent(event, str(error)) from None
        return rounds_of(event.event, times * count, group_size=group_size, adjacency=adjacency)
    if isinstance(event, dp_event.ComposedDpEvent):
        parts = (rounds_of(part, count, group_size=group_size, adjacency=adjacency) for part in event.events)
        return [times for part in parts for times in part]
    try:
        step = _step_of(event, group_size=group_size, same_size=adjacency in SAME_SIZE)
        if step is not None:
            step.require_adjacency(adjacency)
    except InvalidArgument as error:
        raise UnsupportedEvent(event, str(error)) from None
    return [] if step is None else [(step, count)]


def _step_of(event: Any, *, group_size: int, same_size: bool) -> Step | None:
    if isinstance(event, dp_event.GaussianDpEvent):
        return _step(groupdp.PoissonSampling(rate=1.0), event.noise_multiplier)
    if isinstance(event, dp_event.PoissonSampledDpEvent):
        noise = _gaussian_inside(event)
        if event.sampling_probability == 0.0:
            return None
        return _step(groupdp.PoissonSampling(rate=event.sampling_probability), noise)
    if isinstance(event, dp_event.SampledWithoutReplacementDpEvent):
        noise = _gaussian_inside(event)
        if event.sample_size == 0:
            return None
        size = require_integer("source_dataset_size", event.source_dataset_size, at_least=1)
        if not same_size:
            size = _common_part(event, "source_dataset_size", size, group_size)
        return _step(groupdp.FixedBatchSampling(batch_size=event.sample_size, dataset_size=size), noise)
    if isinstance(event, dp_event.TruncatedSubsampledGaussianDpEvent):
        if 0 in (event.sampling_probability, event.truncated_batch_size, event.dataset_size):
            return None
        size = _common_part(event, "dataset_size", event.dataset_size, group_size)
        sampling = groupdp.TruncatedPoissonSampling(
            rate=event.sampling_probability, largest_batch=event.truncated_batch_size, dataset_size=size
        )
        return _step(sampling, event.noise_multiplier)
    if isinstance(event, dp_event.MixtureOfGaussiansDpEvent):
        if group_size != 1:
            raise UnsupportedEvent(
                event,
                "a mixture of Gaussians says what one unit does to the sum; what a group of several does to it cannot "
                f"be read off: describe the sampling instead, or use group_size=1 (got {group_size})",
            )
        return RepeatedMixture(MixtureOfGaussians(event.sensitivities, event.sampling_probs, event.standard_deviation))
    raise UnsupportedEvent(event, _REASONS.get(type(event).__name__, "groupdp has no group-level law for this event"))


def _step(sampling: Any, noise_multiplier: Any) -> DPSGD:
    return DPSGD(sampling=sampling, noise_multiplier=noise_multiplier, steps=1)


def _gaussian_inside(event: Any) -> Any:
    if not isinstance(event.event, dp_event.GaussianDpEvent):
        inner = type(event.event).__name__
        reason = f"how a group's examples enter {inner} together is not known"
        raise UnsupportedEvent(event, f"only a GaussianDpEvent may be sampled: {reason}")
    return event.event.noise_multiplier


def _common_part(event: Any, name: str, size: Any, group_size: int) -> int:
    whole = require_integer(name, size, at_least=1)
    if whole <= group_size:
        reason = f"be above group_size={group_size}, for a dataset without the group to exist"
        raise UnsupportedEvent(event, f"{name} must {reason}, got {whole}")
    return whole - group_size


def from_dp_event(event: Any, *, group_size: int, adjacency: str = "add-or-remove") -> tuple[DPSGD, ...]:
    """The phases of the run that an event describes; equal neighbours are counted together.

    `group_size` is needed where an event names the size of the dataset with the group in it.
    """
    if not isinstance(event, dp_event.DpEvent):
        raise InvalidArgument("event", event, "be a DpEvent")
    size = require_integer("group_size", group_size, at_least=1)
    chosen = require_choice("adjacency", adjacency, (ADD_OR_REMOVE, *SAME_SIZE))
    try:
        rounds = rounds_of(event, 1, group_size=size, adjacency=chosen)
    except UnsupportedEvent as error:
        raise InvalidArgument("event", InWords(error), "be one that groupdp has a law for") from None
    phases: list[DPSGD] = []
    for step, count in rounds:
        if not isinstance(step, DPSGD):
            other = "NonPrivateDpEvent" if step is None else "MixtureOfGaussiansDpEvent"
            raise InvalidArgument("event", InWords(f"a {other}"), "describe steps of DP-SGD")
        if phases and replace(phases[-1], steps=1) == step:
            phases[-1] = replace(step, steps=phases[-1].steps + count)
        else:
            phases.append(replace(step, steps=count))
    return tuple(phases)


def to_dp_event(run: DPSGD | Sequence[DPSGD], *, group_size: int, adjacency: str = "add-or-remove") -> Any:
    """The event that describes `run` to dp_accounting's accountants."""
    size = require_integer("group_size", group_size, at_least=1)
    chosen = require_choice("adjacency", adjacency, (ADD_OR_REMOVE, *SAME_SIZE))
    events = [
        dp_event.SelfComposedDpEvent(_event_of(phase, size, chosen), phase.steps)
        for phase in phases_of(run)
        if phase.steps > 0
    ]
    if not events:
        return dp_event.NoOpDpEvent()
    return events[0] if len(events) == 1 else dp_event.ComposedDpEvent(events)


def _event_of(phase: DPSGD, group_size: int, adjacency: str) -> Any:
    if phase.microbatch_size != 1:
        raise InvalidArgument(
            "microbatch_size", phase.microbatch_size, "be 1 for a DpEvent, which cannot describe microbatches"
        )
    gaussian = dp_event.GaussianDpEvent(phase.noise_multiplier)
    match phase.sampling:
        case groupdp.PoissonSampling(rate=rate):
            return gaussian if rate == 1.0 else dp_event.PoissonSampledDpEvent(rate, gaussian)
        case groupdp.FixedBatchSampling(batch_size=batch_size, dataset_size=dataset_size):
            whole = dataset_size + (0 if adjacency in SAME_SIZE else group_size)
            return dp_event.SampledWithoutReplacementDpEvent(whole, batch_size, gaussian)
        case groupdp.TruncatedPoissonSampling(rate=rate, largest_batch=largest_batch, dataset_size=dataset_size):
            return dp_event.TruncatedSubsampledGaussianDpEvent(
                dataset_size=dataset_size + group_size,
                sampling_probability=rate,
                truncated_batch_size=largest_batch,
                noise_multiplier=phase.noise_multiplier,
            )
        case _:
            needed = "be Poisson, truncated Poisson or of fixed batches for a DpEvent: there is no event for "
            raise InvalidArgument("sampling", NOT_SHOWN, f"{needed}{shown(phase.sampling)}")
