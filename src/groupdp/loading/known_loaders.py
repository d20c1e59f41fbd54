"""PyTorch's DataLoader and Opacus's, read by the exact types of their parts: a subclass may do anything else.

Then Trainers by their features.
"""

from __future__ import annotations

import sys
from typing import Any

from groupdp.integrations import drawn_rate
from groupdp.loading import IndexBatches
from groupdp.loading.reading import BY_HAND, Reading, alone, of_module, same_processes, unknown
from groupdp.samplings import FixedOrderSampling, PoissonSampling, ShuffledSampling
from groupdp.samplings.sampling import DIVIDED_BY_A_CONSTANT

_DATA = "torch.utils.data"
_OPACUS = "opacus.utils.uniform_sampler"
_ACCELERATE = "accelerate.data_loader"


def _secret(generator: Any) -> str:
    """What to check about the seed of a generator of PyTorch, or of the global one."""
    torch: Any = sys.modules.get("torch")
    seed = int((torch if generator is None else generator).initial_seed())
    shown = f" (it is {seed}, which looks written by hand)" if seed < 2**32 else ""
    return f"PyTorch's seed is secret{shown}: batches that an attacker can compute are not random."


def is_loader(thing: Any) -> bool:
    """Whether it is a DataLoader of PyTorch, or a subclass."""
    data: Any = sys.modules.get(_DATA)
    return data is not None and isinstance(thing, data.DataLoader)


def read_loader(loader: Any, world: int | None) -> Reading:
    """What a DataLoader does."""
    reading = Reading(f"a DataLoader of {unknown(loader)}")
    if of_module(_ACCELERATE, loader, "DataLoaderShard") and not loader.skip_batches:
        loader = loader.base_dataloader  # moved to a device, one batch ahead
        reading.evidence.append(f"Accelerate hands on the batches of {unknown(loader)}.")
    if not of_module(_DATA, loader, "DataLoader") and not of_module("opacus.data_loader", loader, "DPDataLoader"):
        reading.refuse(
            f"{unknown(loader)} is a subclass of DataLoader that may change the batches: inspect the DataLoader that "
            "it was made from."
        )
        return reading
    data: Any = sys.modules[_DATA]
    if isinstance(loader.dataset, data.IterableDataset):
        reading.refuse(
            "The dataset is a stream (IterableDataset), which chooses the order itself: a shuffle buffer is not a "
            "uniform permutation, and no law is known for it."
        )
        reading.check += BY_HAND
        return reading
    reading.dataset_size = len(loader.dataset)
    _read_dataset(reading, loader.dataset)
    collate = loader.collate_fn
    if getattr(collate, "__module__", "").split(".")[0] not in ("torch", "opacus") and not of_module(
        "opacus.data_loader", collate, "CollateFnWithEmpty"
    ):
        reading.check.append("The collate_fn neither drops nor repeats examples, and mixes none of them.")
    batches = loader.batch_sampler
    reading.batches = batches
    if batches is None:
        reading.refuse("The loader makes no batches itself (batch_size=None), so they are not known.")
    else:
        read_batch_sampler(reading, batches, world)
    return reading


def _read_dataset(reading: Reading, dataset: Any) -> None:
    if of_module(_DATA, dataset, "Subset"):
        indices = list(dataset.indices)
        if len(set(indices)) < len(indices):
            reading.refuse(
                "The dataset is a Subset that holds an example more than once: the group is larger than stated."
            )
        reading.check.append(
            f"The dataset is a Subset of {len(indices)} of {len(dataset.dataset)} examples, which were not chosen by "
            "looking at them."
        )


def read_batch_sampler(reading: Reading, batches: Any, world: int | None) -> None:
    """What a batch sampler does with a dataset of `reading.dataset_size` examples."""
    if isinstance(batches, IndexBatches):
        read_own(reading, batches, world)
    elif of_module(_OPACUS, batches, "UniformWithReplacementSampler"):
        _read_uniform(reading, batches, int(batches.num_samples))
        alone(reading, world)
    elif of_module(_OPACUS, batches, "DistributedUniformWithReplacementSampler"):
        _read_uniform(reading, batches, int(batches.total_size))
        same_processes(reading, int(batches.num_replicas), world)
        reading.check += [
            "Every process draws with a seed of its own: with equal seeds the examples of different processes are "
            "drawn together.",
            "Batches are large enough that none is ever empty in a process: Opacus leaves such a batch out.",
        ]
    elif of_module(_DATA, batches, "BatchSampler"):
        _read_cut(reading, batches, world)
    else:
        reading.refuse(
            f"The batch sampler {unknown(batches)} is not known, so its law is not: draw from it with a claim "
            "(draw=200, claim=...), or use one of groupdp.loading."
        )
        reading.check += BY_HAND


def read_own(reading: Reading, batches: IndexBatches, world: int | None) -> None:
    """One of groupdp's own samplers, which says what it does."""
    if type(batches).__module__ != "groupdp.loading":
        reading.refuse(f"{unknown(batches)} is a subclass of groupdp's sampler that may change the batches.")
        return
    unit = "people with all their examples" if batches.samples_people else "examples"
    reading.found(
        batches.sampling,
        len(batches),
        f"The batches are groupdp's: {batches.sampling.describe()}, over {unit}.",
    )
    if reading.dataset_size is None:
        reading.dataset_size = batches.dataset_size
    elif reading.dataset_size != batches.dataset_size:
        reading.refuse(
            f"The sampler was made for {batches.dataset_size} examples, and the dataset has {reading.dataset_size}."
        )
    if batches.samples_people:
        reading.check.append("Gradients are clipped person by person, and the group is counted in people.")
    if batches.world_size > 1:
        numbers = ", ".join(str(batches.rank + turn * batches.world_size) for turn in range(3))
        reading.evidence.append(
            f"Rank {batches.rank} of {batches.world_size} takes the {unit.split()[0]} number {numbers}, ... of those "
            "drawn: the shares of the ranks are disjoint, and together they are the batch."
        )
        reading.check.append(f"All {batches.world_size} ranks have the same fingerprint, and noise is added once.")
    same_processes(reading, batches.world_size, world)
    short = " (it is short enough to be guessed: secrets.randbits(128) is not)" if batches.seed < 2**64 else ""
    reading.check.append(f"The sampler's seed is secret{short}.")
    reading.check.append(DIVIDED_BY_A_CONSTANT)


def _read_uniform(reading: Reading, batches: Any, size: int) -> None:
    rate = float(batches.sample_rate)
    drawn = drawn_rate(rate)
    reading.rate_tolerance = 2.0**-24
    reading.found(
        PoissonSampling(rate=min(1.0, max(rate, drawn))),
        len(batches),
        f"Opacus's sampler draws each example independently with rate {rate!r} (in single precision {drawn!r}).",
    )
    reading.check.append(_secret(batches.generator))
    if size != reading.dataset_size:
        reading.refuse(f"The sampler draws from {size} examples, and the dataset has {reading.dataset_size}.")
    reading.check.append(DIVIDED_BY_A_CONSTANT)


def _read_cut(reading: Reading, batches: Any, world: int | None) -> None:
    """One order of the dataset, cut into batches."""
    sampler, size, batch = batches.sampler, reading.dataset_size or 0, int(batches.batch_size)
    kind = of_module(
        _DATA, sampler, "RandomSampler", "SequentialSampler", "WeightedRandomSampler", "SubsetRandomSampler"
    )
    kind = kind or of_module("torch.utils.data.distributed", sampler, "DistributedSampler")
    kind = kind or of_module(_ACCELERATE, sampler, "SeedableRandomSampler")
    if kind == "DistributedSampler":
        _read_distributed(reading, batches, world)
        return
    whole = not getattr(sampler, "replacement", False) and getattr(sampler, "num_samples", size) == size
    evidence: list[str] = []
    if kind == "RandomSampler" and whole:
        evidence = [
            f"RandomSampler permutes all {size} examples anew in every epoch; batches have {batch} of that order.",
            "Shuffling amplifies nothing here: groupdp.loading's samplers need less noise.",
        ]
    elif kind == "SubsetRandomSampler" and sorted(sampler.indices) == list(range(size)):
        evidence = [f"SubsetRandomSampler permutes all {size} examples anew in every epoch."]
    elif kind == "SequentialSampler":
        evidence = [f"SequentialSampler goes through the {size} examples in order, in batches of {batch}."]
    elif kind == "SeedableRandomSampler" and whole:
        evidence = [
            f"Accelerate's sampler deals one order of the {size} examples in batches of {batch}.",
            f"The order follows from seed={sampler.initial_seed} and the epoch, which an attacker may know: it counts "
            "as a fixed order in every case.",
        ]
    if evidence:
        shuffled = kind in ("RandomSampler", "SubsetRandomSampler")
        law: Any = ShuffledSampling if shuffled else FixedOrderSampling
        reading.found(law(batch_size=min(batch, size), dataset_size=size), len(batches), *evidence)
        reading.check += [_secret(sampler.generator)] if shuffled else []
    else:
        reading.refuse(_REASONS.get(kind or "", _UNKNOWN).format(sampler=unknown(sampler)))
        reading.check += BY_HAND if kind is None else ()
    alone(reading, world)
    if batches.drop_last and size % batch:
        reading.evidence.append(f"The last {size % batch} examples of every order are left out (drop_last).")


_UNKNOWN = (
    "The sampler {sampler} is not known, so the law of its batches is not: draw from it with a claim (draw=200, "
    "claim=...), or use one of groupdp.loading."
)
_REASONS = {
    "RandomSampler": (
        "RandomSampler draws with replacement, or another number than the dataset has: an example may be in several "
        "batches or several times in one, and no law is known for that."
    ),
    "WeightedRandomSampler": (
        "WeightedRandomSampler draws with replacement and with weights: examples have different probabilities, and may "
        "be several times in one batch."
    ),
    "SubsetRandomSampler": (
        "SubsetRandomSampler leaves examples of the dataset out, and whether they were chosen by looking at the data "
        "is not known: make a dataset of the examples to train on."
    ),
}


def _read_distributed(reading: Reading, batches: Any, world: int | None) -> None:
    """Rank r takes places r, r + W, ... of one order, so the W local batches are a block of W B places of it."""
    sampler, size = batches.sampler, reading.dataset_size or 0
    replicas = int(sampler.num_replicas)
    together = min(int(batches.batch_size) * replicas, size)
    if size % replicas and not sampler.drop_last:
        reading.refuse(
            f"DistributedSampler repeats {-size % replicas} of the {size} examples in every epoch, to give {replicas} "
            "processes as many each: make it with drop_last=True."
        )
        return
    reading.found(
        FixedOrderSampling(batch_size=together, dataset_size=size),
        len(batches),
        f"DistributedSampler deals one order to {replicas} processes: together they make batches of {together}.",
        f"The order follows from seed={sampler.seed} and the epoch set by set_epoch, which an attacker may know: "
        "it counts as a fixed order in every case.",
    )
    same_processes(reading, replicas, world)
    reading.check.append("All processes have the same seed and the same epoch, and noise is added once.")


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
