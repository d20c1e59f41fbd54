"""What is known of other tools: engines of Opacus, batch selections of JAX Privacy, pipelines without a known law."""

from __future__ import annotations

from typing import Any

from groupdp.loading.reading import BY_HAND, Reading, history_of, of_module, unknown
from groupdp.samplings import BallsInBinsSampling, PoissonSampling

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
            "JAX Privacy throws the examples once and repeats the same batches in every cycle: nothing is drawn anew."
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
