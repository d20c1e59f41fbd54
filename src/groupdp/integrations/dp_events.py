"""Runs to and from the DpEvents of dp_accounting 0.6.

An event describes one dataset; a guarantee is about two of them that differ by a group. Where the dataset's size
matters, it is that of the dataset the event names: with the group in it under add-or-remove (dp_accounting's own
convention), so that the common part has k examples fewer.

A mixture of Gaussians that an event spells out is the sampling of a step, so that it composes with all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

import groupdp
from groupdp._validation import require_choice, require_integer, shown
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.fields import Field
from groupdp.groups import is_empty
from groupdp.integrations.loaders import require_package
from groupdp.mechanisms.dpsgd import DPSGD, phases_of
from groupdp.mechanisms.mixture import MixtureOfGaussians
from groupdp.neighbours import ADD_AND_REMOVE, ADD_OR_REMOVE, EXCHANGE, ONE_SIDED, SAME_SIZE, Change
from groupdp.pairs import ZERO, Round
from groupdp.samplings import Rounds, Sampling
from groupdp.samplings.audited import AuditedDataset
from groupdp.samplings.sampling import BoolArray

dp_event: Any = require_package("dp_accounting.dp_event", extra="dp_accounting", tool="dp_accounting")

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


def rounds_of(event: Any, count: int, *, group_size: int, adjacency: str) -> list[tuple[DPSGD, int]]:
    """The rounds that `count` times `event` consists of, with how often each is run; `UnsupportedEvent` otherwise.

    Events without an effect (NoOp, a sampling probability or a sample size of 0) are no rounds. NonPrivateDpEvent is
    not handled here: it has no description.
    """
    if isinstance(event, dp_event.NoOpDpEvent):
        return []
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
            step.sampling.require_adjacency(adjacency)
    except InvalidArgument as error:
        raise UnsupportedEvent(event, str(error)) from None
    return [] if step is None else [(step, count)]


def _step_of(event: Any, *, group_size: int, same_size: bool) -> DPSGD | None:
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
        mixture = MixtureOfGaussians(event.sensitivities, event.sampling_probs, event.standard_deviation)
        return _step(MixtureLaw(mixture), event.standard_deviation)
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
        if isinstance(step.sampling, MixtureLaw):
            raise InvalidArgument("event", InWords("a MixtureOfGaussiansDpEvent"), "describe steps of DP-SGD")
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
        raise InvalidArgument("microbatch_size", phase.microbatch_size, "be 1 for a DpEvent, which cannot say more")
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


_ONE_SIDED = "a mixture of Gaussians is about adding and removing: describe the sampling instead"


@dataclass(frozen=True, slots=True)
class MixtureLaw(Sampling):
    """One unit moves a step's sum by a random amount whose law is stated; nothing is known of larger groups."""

    mixture: MixtureOfGaussians

    name: ClassVar[str] = "mixture"
    title: ClassVar[str] = "a stated mixture of Gaussians"
    fields: ClassVar[tuple[Field, ...]] = ()
    adjacencies: ClassVar[tuple[str, ...]] = ONE_SIDED
    refusals: ClassVar[dict[str, str]] = dict.fromkeys((*SAME_SIZE, ADD_AND_REMOVE, EXCHANGE), _ONE_SIDED)

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """(law, 0) and its mirror image, with the mixture's own noise."""
        side = self.mixture.side
        return ((Round.of(side, ZERO) if is_empty(change.added) else Round.of(ZERO, side), steps),)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        return True

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        return ("What one unit adds to the sum has the stated law.",)

    def share_of_data(self) -> Fraction:
        raise AssertionError("a stated mixture does not say how much of the data a step visits")

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        raise AssertionError("a stated mixture cannot be sampled")

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        needed = "have a sampling that can be carried out to be audited"
        raise InvalidArgument("run", InWords("a stated mixture"), needed)
