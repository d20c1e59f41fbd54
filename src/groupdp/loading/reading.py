"""Notes about a loader while it is read, and their comparison with a claim."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import Any

from groupdp.errors import InvalidArgument, InWords, require_integer
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.samplings import (
    SAMPLINGS,
    BallsInBinsSampling,
    PoissonSampling,
    Sampling,
    ShuffledSampling,
    SpreadSampling,
)

#: What to check by hand of a sampler whose code is not known.
BY_HAND = (
    f"How it draws, in its code: each example independently with one rate ({PoissonSampling.name}), each into one "
    f"batch of an epoch ({BallsInBinsSampling.name}), or a fresh permutation in every epoch ({ShuffledSampling.name}).",
    "No choice depends on labels, lengths, losses or anything else in the data, and its seed is secret.",
)


@dataclass(slots=True)
class Reading:
    """Notes about one loader; `sampling` stays None where the batches have no law that is known."""

    kind: str
    sampling: Sampling | None = None
    steps: int | None = None
    """Optimizer steps of one epoch."""
    dataset_size: int | None = None
    rate_tolerance: float = 0.0
    evidence: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    check: list[str] = field(default_factory=list)
    batches: Any = None
    """The source of the indices of an epoch's batches, if there is one."""

    def found(self, sampling: Sampling, steps: int, *evidence: str) -> None:
        """Note what the loader does."""
        self.sampling, self.steps = sampling, steps
        self.evidence += evidence

    def refuse(self, problem: str) -> None:
        """Note why no guarantee follows."""
        self.problems.append(problem)


def of_module(name: str, thing: Any, *classes: str) -> str | None:
    """The name of the class of a loaded module that `thing` is of exactly; a subclass may do anything else."""
    module = sys.modules.get(name)
    return next((name for name in classes if module is not None and type(thing) is getattr(module, name, None)), None)


def require_world(value: Any) -> int | None:
    """The number of training processes, as given or as PyTorch or its launcher says; None where nobody does."""
    if value is not None:
        return require_integer("world_size", value, at_least=1)
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    stated = os.environ.get("WORLD_SIZE", "")
    return int(stated) if stated.isdecimal() and int(stated) >= 1 else None


def compare(reading: Reading, claim: Any) -> None:
    """Note where the accounting does not describe what the loader does."""
    sampling = reading.sampling
    if sampling is None or claim is None:
        return
    history = history_of(claim)
    if history is not None:
        _compare_history(reading, history)
        return
    stated = claim.sampling if isinstance(claim, DPSGD) else claim
    name = stated if isinstance(stated, str) else getattr(stated, "name", None)
    if name not in SAMPLINGS:
        needed = f"be a sampling, its name ({', '.join(SAMPLINGS)}) or an engine of Opacus"
        raise InvalidArgument("claim", claim, needed)
    if name != sampling.name:
        reading.refuse(
            f"The accounting assumes {SAMPLINGS[name].title}, and the loader does {sampling.describe()}: the claimed "
            "epsilon is not a valid bound."
        )
    elif isinstance(stated, PoissonSampling) and isinstance(sampling, PoissonSampling):
        if stated.rate < sampling.rate - reading.rate_tolerance:
            reading.refuse(
                f"The accounting assumes a rate of {stated.rate!r}, and the loader draws with {sampling.rate!r}."
            )
    elif isinstance(stated, SpreadSampling) and stated.batches == getattr(sampling, "batches", None):
        pass  # without `evenly`, groups that this matters for are refused
    elif isinstance(stated, Sampling) and stated.values() != sampling.values():
        reading.refuse(f"The accounting assumes {stated.describe()}, and the loader does {sampling.describe()}.")


def history_of(claim: Any) -> list[Any] | None:
    """The (noise multiplier, rate, steps) that an engine or accountant of Opacus has counted; None for others."""
    accountant = getattr(claim, "accountant", claim)
    history = getattr(accountant, "history", None)
    return list(history) if isinstance(history, list) and not isinstance(claim, str) else None


def _compare_history(reading: Reading, history: list[Any]) -> None:
    sampling = reading.sampling
    if not isinstance(sampling, PoissonSampling):
        described = "" if sampling is None else sampling.describe()
        reading.refuse(
            f"Opacus accounts for Poisson sampling, and the loader does {described}: its epsilon is not a valid bound."
        )
        return
    if not history:
        reading.check.append("The accountant has counted no step yet: inspect again after the first epoch.")
        return
    least = min(float(entry[1]) for entry in history)
    if least < sampling.rate - reading.rate_tolerance:
        reading.refuse(f"Opacus has accounted for a rate of {least!r}, and the loader draws with {sampling.rate!r}.")
    reading.evidence.append(f"The accountant has counted {sum(int(entry[2]) for entry in history)} steps.")


def accumulate(reading: Reading, times: int) -> None:
    """Gradients of `times` batches in a row are summed before a step."""
    sampling = reading.sampling
    if times == 1 or sampling is None or reading.steps is None:
        return
    if sampling.name in ("shuffled", "fixed-order"):
        values: Any = sampling.values()
        size = min(values["batch_size"] * times, values["dataset_size"])
        reading.sampling = type(sampling)(**{**values, "batch_size": size})
        reading.steps = -(-reading.steps // times)
        reading.evidence.append(
            f"Gradients of {times} batches are summed before a step: consecutive parts of one order, so a step has "
            f"{size} examples, and an epoch has {reading.steps} steps."
        )
        reading.check.append("Gradients that are left at the end of an epoch are not carried into the next one.")
        return
    reading.sampling = None
    reading.refuse(
        f"Gradients of {times} batches of {sampling.title} are summed before a step, and these together are not a "
        f"batch of any rate: make the sampler with larger batches, and let a memory manager split each of them."
    )


def same_processes(reading: Reading, of_sampler: int, world: int | None) -> None:
    """A sampler that shares batches between processes must share them between as many as there are."""
    if world is not None and world != of_sampler:
        reading.sampling = None
        reading.refuse(f"The sampler shares batches between {of_sampler} processes, and {world} train.")


def alone(reading: Reading, world: int | None) -> None:
    """Note that a sampler knows nothing of other processes."""
    if world is not None and world > 1:
        reading.sampling = None
        reading.refuse(
            f"Each of {world} processes draws its own batches from the whole dataset: an example is in up to {world} "
            "of the batches that make up one step, and no law is known for them."
        )
    elif world is None:
        reading.check.append("Only one process trains.")


def unknown(value: Any) -> InWords:
    """The type of an object, for a sentence."""
    return InWords(f"{type(value).__module__}.{type(value).__qualname__}")


_SELECTIONS = "jax_privacy.batch_selection"
_ONCE = "No step of the pipeline drops, filters or repeats examples, and processes read disjoint parts of the dataset."
#: Tools whose order of the data cannot be read from outside, by the package that an object comes from: why, and what to
#: check by hand.
_PIPELINES = {
    "tensorflow": (
        "A tf.data pipeline shuffles within a buffer, and neither its size nor its seed can be read from it.",
        (
            "Its epochs are shuffled epochs only if shuffle has a buffer_size of at least the dataset's size and "
            "reshuffle_each_iteration=True, comes before batch and repeat, and no seed is written in the code.",
            _ONCE,
        ),
    ),
    "grain": (
        "A Grain pipeline does not say from outside in which order it reads the dataset.",
        (
            "Its order counts as a fixed order, shuffled or not: Grain's seeds have 32 bits, so an attacker can try "
            "all of them. A batch of all processes together has at most the batch size that is accounted for.",
            _ONCE,
        ),
    ),
    "datasets": (
        "A stream of Hugging Face datasets shuffles within a buffer, which is not a uniform permutation.",
        (
            "Its order counts as a fixed order if every epoch reads each example once; a dataset that is not streamed "
            "can be given to a DataLoader with one of groupdp.loading's samplers.",
            _ONCE,
        ),
    ),
}


def read_engine(engine: Any) -> Reading | None:
    """An engine or accountant of Opacus: it knows what was accounted for, and nothing about the loader."""
    root = type(engine).__module__.split(".")[0]
    history = history_of(engine)
    if root not in ("opacus", "groupdp") or history is None:
        return None
    reading = Reading(f"an engine of {unknown(engine)}")
    reading.evidence += [
        f"{entry[2]} steps are accounted at rate {entry[1]!r} and noise {entry[0]!r}." for entry in history
    ]
    reading.refuse("An engine does not say how batches were drawn: inspect the loader with claim=engine.")
    return reading


def read_selection(strategy: Any) -> Reading | None:
    """A batch selection strategy of JAX Privacy; None for anything else."""
    kind = of_module(
        _SELECTIONS,
        strategy,
        "CyclicPoissonSampling",
        "BallsInBinsSampling",
        "FixedBatchSampling",
        "BMinSepSampling",
        "UserSelectionStrategy",
    )
    if kind is None:
        return None
    reading = Reading(f"JAX Privacy's {kind}")
    if kind == "CyclicPoissonSampling" and strategy.cycle_length != 1:
        reading.refuse(f"Its cycle_length is {strategy.cycle_length}: examples take part in turns, not in every step.")
    elif kind == "CyclicPoissonSampling" and strategy.truncated_batch_size is not None:
        reading.refuse(
            "Batches are truncated, and the law depends on the dataset and the group: "
            "groupdp.integrations.jax_privacy.from_batch_selection describes the run."
        )
    elif kind == "CyclicPoissonSampling":
        rate = float(strategy.sampling_prob)
        reading.found(
            PoissonSampling(rate=rate),
            int(strategy.iterations),
            f"Every step draws each example independently with rate {rate!r}; one epoch here is all "
            f"{strategy.iterations} iterations of the strategy.",
        )
    elif kind == "BallsInBinsSampling" and strategy.iterations > strategy.cycle_length:
        reading.refuse(
            "JAX Privacy assigns the examples to batches once and repeats these in every cycle: nothing is drawn again."
        )
    elif kind == "BallsInBinsSampling":
        reading.found(
            BallsInBinsSampling(batches=int(strategy.cycle_length)),
            int(strategy.iterations),
            f"Each example is thrown into one of {strategy.cycle_length} batches, in one cycle.",
        )
    elif kind == "FixedBatchSampling" and strategy.replace:
        reading.refuse("Batches are drawn with replacement: no law for groups is known.")
    elif kind == "FixedBatchSampling":
        reading.refuse(
            "Batches of one size have a law that depends on the dataset and the group: "
            "groupdp.integrations.jax_privacy.from_batch_selection describes the run."
        )
    else:
        reading.refuse(f"No law for groups is known for {kind}.")
    if reading.sampling is not None:
        reading.check.append("The generator that batch_iterator is given has a secret seed, and is used for one run.")
    return reading


def read_other(thing: Any) -> Reading:
    """Anything else: why it is refused, and what to check by hand."""
    reading = Reading(str(unknown(thing)), batches=thing)
    root = type(thing).__module__.split(".")[0]
    unread = f"Objects of {unknown(thing)} are not known, so how they choose batches is not."
    problem, check = _PIPELINES.get(root, (unread, BY_HAND))
    reading.refuse(f"{problem} Log the indices that were drawn and test them: groupdp doctor.")
    reading.check += check
    return reading
