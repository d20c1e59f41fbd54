"""Trainers by their features, batch selections of JAX Privacy, engines of Opacus; what is known of other tools."""

from __future__ import annotations

from typing import Any

from groupdp.loading.reading import Reading, history_of, of_module, unknown
from groupdp.samplings import BallsInBinsSampling, PoissonSampling

_SELECTIONS = "jax_privacy.batch_selection"
#: What is said of tools whose order of the data has no law here, by the package that an object comes from.
_STREAMS = {
    "tensorflow": "A tf.data pipeline shuffles within a buffer, which is not a uniform permutation of the dataset.",
    "grain": "A Grain pipeline shuffles once or anew, with a seed from the code, which cannot be read from it.",
    "datasets": "A stream of Hugging Face datasets shuffles within a buffer, which is not a uniform permutation.",
}


def is_trainer(thing: Any) -> bool:
    """Whether it has what Trainers of Hugging Face and TRL have."""
    arguments = getattr(thing, "args", None)
    return callable(getattr(thing, "get_train_dataloader", None)) and hasattr(arguments, "gradient_accumulation_steps")


def read_trainer(reading: Reading, trainer: Any) -> None:
    """What a Trainer's arguments say besides its loader."""
    arguments = trainer.args
    if getattr(arguments, "auto_find_batch_size", False):
        reading.sampling = None
        reading.refuse("auto_find_batch_size changes the batch size during training, so no one sampling describes it.")
    if getattr(arguments, "group_by_length", False):
        reading.sampling = None
        reading.refuse("group_by_length puts examples of similar length into one batch: batches depend on the data.")
    reading.check.append(
        "The loss is a sum over examples, or divided by a number that does not depend on the data: a Trainer's default "
        "divides by the number of items in the batch."
    )


def read_model(reading: Reading, model: Any) -> None:
    """Layers that mix the examples of a batch."""
    modules = getattr(model, "modules", None)
    names = {type(module).__name__ for module in modules()} if callable(modules) else set()
    mixing = sorted(name for name in names if name.startswith(("BatchNorm", "SyncBatchNorm", "LazyBatchNorm")))
    if mixing:
        reading.refuse(f"The model has {', '.join(mixing)}: a gradient depends on the other examples of the batch.")


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
    """Anything else: why it is refused."""
    reading = Reading(str(unknown(thing)))
    root = type(thing).__module__.split(".")[0]
    known = _STREAMS.get(root, f"Objects of {unknown(thing)} are not known, so how they choose batches is not.")
    reading.refuse(f"{known} Log the indices that were drawn and test them: groupdp doctor.")
    reading.batches = thing
    return reading
