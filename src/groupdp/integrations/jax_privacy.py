"""Group-level guarantees inside JAX Privacy 2.0.

    accountant = GroupTrainingAccountant()
    accountant.compute_epsilon(num_updates, DpParams(..., examples_per_user=8))
    calibrate_noise_multiplier(accountant=accountant, examples_per_user=8, ...)

The plan configurations take the accountant of `groupdp.integrations.dp_accounting`:

    BandMFExecutionPlanConfig(strategy=[1.0], accountant=GroupPrivacyAccountant(8), partition_type=INDEPENDENT, ...)

What is returned is the upper side of groupdp's bounds, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import groupdp
from groupdp.bounds import Bounds
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, require_choice, require_integer, require_number
from groupdp.integrations import refuse_bands, require_package
from groupdp.mechanisms.dpsgd import DPSGD, phases_of
from groupdp.neighbours import ADD_OR_REMOVE, SAME_SIZE

_accounting: Any = require_package(
    "jax_privacy.accounting",
    extra="jax_privacy",
    tool="JAX Privacy",
    instead="give the event of its configuration to groupdp.integrations.dp_accounting, GroupPrivacyAccountant",
)
_batches: Any = require_package("jax_privacy.batch_selection", extra="jax_privacy", tool="JAX Privacy")

ADJACENCIES = (ADD_OR_REMOVE, *SAME_SIZE)


class GroupTrainingAccountant(_accounting.DpTrainingAccountant):  # type: ignore[misc]
    """A training accountant of JAX Privacy for users with several examples.

    The group size is `examples_per_user` of the DpParams (1 where it is None). Formal guarantee: after `num_updates`
    updates, all iterates are (epsilon, delta)-DP for datasets that differ by one user, in the sense of `adjacency`.
    """

    def __init__(self, *, adjacency: str = "add-or-remove") -> None:
        super().__init__(dp_accountant_config=None)
        self.adjacency = require_choice("adjacency", adjacency, ADJACENCIES)

    def can_calibrate_steps(self) -> bool:
        return True

    can_calibrate_batch_size = can_calibrate_noise_multipliers = can_calibrate_steps

    def _validate_dp_params(self, dp_params: Any) -> None:
        super()._validate_dp_params(dp_params)
        from_dp_params(1, dp_params, adjacency=self.adjacency)

    def _compute_epsilon(self, num_updates: Any, dp_params: Any) -> float:
        return self.compute_epsilon_bounds(num_updates, dp_params).upper

    def compute_epsilon_bounds(self, num_updates: Any, dp_params: Any) -> Bounds:
        """Certified bounds on the smallest epsilon."""
        if num_updates == 0:
            return Bounds(0.0, 0.0)
        if not dp_params.is_finite_guarantee:
            return Bounds(math.inf, math.inf)
        runs = from_dp_params(num_updates, dp_params, adjacency=self.adjacency)
        delta = require_number("delta", dp_params.delta, above=0.0, below=1.0)
        group_size = _group_size(dp_params)
        return groupdp.epsilon(runs, delta=delta, group_size=group_size, adjacency=self.adjacency)


def from_dp_params(num_updates: Any, dp_params: Any, *, adjacency: str = "add-or-remove") -> tuple[DPSGD, ...]:
    """The run that `num_updates` updates with these DpParams are, phase by phase.

    Poisson sampling has the rate batch size / number of examples in double precision, as JAX Privacy has it. The number
    of examples is that of the dataset with the user in it, so under add-or-remove the common part has
    `examples_per_user` fewer.
    """
    updates = _integer("num_updates", num_updates, at_least=1)
    group_size = _group_size(dp_params)
    cycle = 1 if dp_params.cycle_length is None else _integer("cycle_length", dp_params.cycle_length, at_least=1)
    refuse_bands(cycle, group_size, "cycle_length")
    examples = _integer("num_samples", dp_params.num_samples, at_least=1) // cycle
    schedule = _phases(dp_params, updates)
    if cycle > 1 and len(schedule) > 1:
        raise InvalidArgument("noise_multipliers and batch_size", NOT_SHOWN, "not change with a cycle_length above 1")
    phases = []
    for steps, noise, batch_size in schedule:
        sampling = _sampling(dp_params, batch_size, examples, group_size, adjacency)
        sampling.require_adjacency(adjacency)
        phases.append(DPSGD(sampling=sampling, noise_multiplier=noise, steps=-(-steps // cycle)))
    return tuple(phases)


def dp_params_of(values: dict[str, Any]) -> Any:
    """DpParams from plain values, as JSON has them: the sampling method by its name, schedules as lists of pairs."""
    fields = dict(values)
    name = str(fields.pop("sampling_method", "POISSON"))
    methods = {method.name: method for method in _accounting.SamplingMethod}
    noises = fields.get("noise_multipliers")
    if isinstance(noises, list):
        if not all(isinstance(noise, list) and len(noise) == 2 for noise in noises):
            raise InvalidArgument("noise_multipliers", noises, "be a number or pairs [update, number]")
        fields["noise_multipliers"] = [tuple(noise) for noise in noises]
    return _accounting.DpParams(
        **fields, sampling_method=methods[require_choice("sampling_method", name, tuple(methods))]
    )


def _sampling(dp_params: Any, batch_size: Any, examples: int, group_size: int, adjacency: str) -> Any:
    method, largest = dp_params.sampling_method, dp_params.truncated_batch_size
    if method is _accounting.SamplingMethod.FIXED_BATCH_SIZE:
        if largest is not None:
            raise InvalidArgument("truncated_batch_size", largest, "be None for fixed batches")
        if dp_params.cycle_length not in (None, 1):
            raise InvalidArgument("cycle_length", dp_params.cycle_length, "be 1 for fixed batches")
        size = examples if adjacency in SAME_SIZE else _without_user(examples, group_size)
        return groupdp.FixedBatchSampling(batch_size=_integer("batch_size", batch_size, at_least=1), dataset_size=size)
    if method is not _accounting.SamplingMethod.POISSON:
        raise InvalidArgument("sampling_method", method, "be POISSON or FIXED_BATCH_SIZE")
    return _poisson(float(batch_size) / float(examples), largest, examples, group_size)


def _poisson(rate: float, largest: Any, examples: int, group_size: int) -> Any:
    """Poisson sampling, truncated where a largest batch is stated."""
    if largest is None:
        return groupdp.PoissonSampling(rate=rate)
    batch, size = _integer("truncated_batch_size", largest, at_least=1), _without_user(examples, group_size)
    return groupdp.TruncatedPoissonSampling(rate=rate, largest_batch=batch, dataset_size=size)


def _without_user(examples: int, group_size: int) -> int:
    if examples <= group_size:
        needed = f"be above examples_per_user={group_size}, for a dataset without the user"
        raise InvalidArgument("num_samples", InWords(examples), needed)
    return examples - group_size


def _phases(dp_params: Any, updates: int) -> list[tuple[int, float, Any]]:
    """(steps, noise multiplier, batch size) between the updates at which one of them changes."""
    noises = _schedule("noise_multipliers", dp_params.noise_multipliers)
    sizes = _schedule("batch_sizes", dp_params.batch_sizes)
    starts = sorted({start for start, _ in (*noises, *sizes) if start < updates})
    ends = (*starts[1:], updates)
    return [
        (end - start, float(_value_at(noises, start)), _value_at(sizes, start))
        for start, end in zip(starts, ends, strict=True)
    ]


def _schedule(name: str, values: Any) -> list[tuple[int, Any]]:
    """[(update, value from then on)], beginning with update 0."""
    if not isinstance(values, list | tuple):
        return [(0, values)]
    changes = [(_integer(name, start, at_least=0), value) for start, value in values]
    schedule = sorted(changes, key=lambda change: change[0])
    if not schedule or schedule[0][0] != 0:
        raise InvalidArgument(name, values, "begin with update 0")
    return schedule


def _value_at(schedule: list[tuple[int, Any]], update: int) -> Any:
    return [value for start, value in schedule if start <= update][-1]


def _group_size(dp_params: Any) -> int:
    per_user = dp_params.examples_per_user
    return 1 if per_user is None else _integer("examples_per_user", per_user, at_least=1)


def _integer(name: str, value: Any, *, at_least: int) -> int:
    """An integer, also as a JAX or NumPy array of one entry, or as a float that is whole."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return require_integer(name, value, at_least=at_least)


def to_dp_params(run: DPSGD | Sequence[DPSGD], *, num_samples: int, delta: float, group_size: int) -> tuple[int, Any]:
    """(number of updates, DpParams) of a run: Poisson or truncated Poisson sampling, or fixed batches, one kind only.

    Rates must be those of whole batches: rate = batch_size / num_samples, in double precision.
    """
    phases = [phase for phase in phases_of(run) if phase.steps > 0]
    kinds = {type(phase.sampling) for phase in phases}
    if len(kinds) != 1 or any(phase.microbatch_size != 1 for phase in phases):
        needed = "have steps, one kind of sampling and a microbatch_size of 1 to be DpParams"
        raise InvalidArgument("run", NOT_SHOWN, needed)
    samplings: list[Any] = [phase.sampling for phase in phases]
    truncations = {getattr(sampling, "largest_batch", None) for sampling in samplings}
    if len(truncations) != 1:
        raise InvalidArgument("run", InWords("several"), "have one largest_batch to be DpParams")
    sizes = [_batch_size(sampling, num_samples, group_size) for sampling in samplings]
    if len(set(sizes)) != 1:
        needed = "have one batch size to be DpParams: several are given as a schedule of scales"
        raise InvalidArgument("run", NOT_SHOWN, needed)
    starts = [sum(phase.steps for phase in phases[:index]) for index in range(len(phases))]
    noises: Any = [(start, phase.noise_multiplier) for start, phase in zip(starts, phases, strict=True)]
    fixed = kinds == {groupdp.FixedBatchSampling}
    methods = _accounting.SamplingMethod
    params = _accounting.DpParams(
        noise_multipliers=noises[0][1] if len(noises) == 1 else noises,
        num_samples=num_samples,
        delta=delta,
        batch_size=sizes[0],
        examples_per_user=group_size,
        sampling_method=methods.FIXED_BATCH_SIZE if fixed else methods.POISSON,
        truncated_batch_size=truncations.pop(),
    )
    return sum(phase.steps for phase in phases), params


def _batch_size(sampling: Any, num_samples: int, group_size: int) -> int:
    common = getattr(sampling, "dataset_size", None)
    if common is not None and common != num_samples - group_size:
        raise InvalidArgument("num_samples", num_samples, f"be dataset_size + group_size = {common + group_size}")
    match sampling:
        case groupdp.FixedBatchSampling(batch_size=batch_size):
            return batch_size
        case groupdp.PoissonSampling(rate=rate) | groupdp.TruncatedPoissonSampling(rate=rate):
            nearest = round(rate * num_samples)
            if nearest / float(num_samples) != rate:
                needed = f"be batch_size / {num_samples} for a whole batch_size to be DpParams"
                raise InvalidArgument("rate", rate, needed)
            return nearest
        case _:
            raise InvalidArgument("sampling", sampling, "be one that DpParams can describe")


def from_batch_selection(
    strategy: Any, *, num_examples: int, noise_multiplier: float, group_size: int, adjacency: str = "add-or-remove"
) -> DPSGD:
    """The run of a batch selection strategy of JAX Privacy: cyclic Poisson, fixed batches or balls in bins.

    `num_examples` is what its `batch_iterator` is given: the dataset with the user in it.
    """
    size = require_integer("group_size", group_size, at_least=1)
    examples = require_integer("num_examples", num_examples, at_least=1)
    sampling: Any
    if isinstance(strategy, _batches.CyclicPoissonSampling):
        refuse_bands(strategy.cycle_length, size, "cycle_length")
        if strategy.cycle_length != 1:
            raise InvalidArgument("cycle_length", InWords(strategy.cycle_length), "be 1 for a run of plain steps")
        sampling = _poisson(strategy.sampling_prob, strategy.truncated_batch_size, examples, size)
    elif isinstance(strategy, _batches.FixedBatchSampling):
        if strategy.replace:
            needed = "be False: batches drawn with replacement have no group-level law here"
            raise InvalidArgument("replace", NOT_SHOWN, needed)
        common = examples if adjacency in SAME_SIZE else _without_user(examples, size)
        sampling = groupdp.FixedBatchSampling(batch_size=strategy.batch_size, dataset_size=common)
    elif isinstance(strategy, _batches.BallsInBinsSampling):
        if strategy.iterations > strategy.cycle_length:
            needed = f"be at most cycle_length={strategy.cycle_length} for balls in bins"
            reason = "JAX Privacy draws once and repeats the batches in every cycle; groupdp's law is for fresh draws"
            raise InvalidArgument("iterations", InWords(strategy.iterations), needed, reason)
        sampling = groupdp.BallsInBinsSampling(batches=strategy.cycle_length)
    else:
        known = "CyclicPoissonSampling, FixedBatchSampling or BallsInBinsSampling"
        raise InvalidArgument("strategy", strategy, f"be a {known} of JAX Privacy")
    sampling.require_adjacency(adjacency)
    return DPSGD(sampling=sampling, noise_multiplier=noise_multiplier, steps=strategy.iterations)
