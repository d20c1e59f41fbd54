"""What a PyTorch data loader really does, and the runs that follow from it."""

from __future__ import annotations

import math
import warnings
from typing import Any

import groupdp
from groupdp._validation import require_number, shown
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.integrations.callers import require_package
from groupdp.integrations.loaders import Epoch, opacus_epoch
from groupdp.mechanisms.dpsgd import DPSGD

_samplers: Any = require_package("opacus.utils.uniform_sampler", extra="opacus", tool="Opacus")
_data: Any = require_package("torch.utils.data", extra="opacus", tool="PyTorch")

_OFFER = (
    "groupdp.integrations.opacus.shuffled_run(data_loader, noise_multiplier=..., epochs=...) describes such a run, and "
    "groupdp.epsilon accounts for it with adjacency 'zero-out' or 'substitute'"
)

#: Empty batches that are rarer than this, per step, are not worth a warning.
_RARE = 1e-12


def poisson_rate_of(data_loader: Any) -> float | None:
    """The rate at which a loader draws Poisson samples; None if it does something else."""
    sampler = getattr(data_loader, "batch_sampler", None)
    kinds = (_samplers.UniformWithReplacementSampler, _samplers.DistributedUniformWithReplacementSampler)
    return float(sampler.sample_rate) if isinstance(sampler, kinds) else None


def refusal_of_loader(data_loader: Any, sample_rate: float | None) -> InvalidArgument | None:
    """Why steps of this loader cannot be counted as Poisson samples at `sample_rate`; None if they can."""
    rate = poisson_rate_of(data_loader)
    if rate is None:
        return InvalidArgument(
            "poisson_sampling",
            InWords("a data loader that shuffles or goes in order"),
            "be True",
            f"its batches are not Poisson samples, and accounting for them as such is not a guarantee; {_OFFER}",
        )
    if sample_rate is not None and rate > sample_rate:
        return InvalidArgument(
            "data_loader",
            NOT_SHOWN,
            f"have 1 / sample_rate steps a pass: Opacus would account for a rate of {sample_rate!r} where {rate!r} is "
            "sampled; GroupPrivacyEngine accounts for the latter",
        )
    return None


def warn_about_empty_batches(data_loader: Any) -> None:
    """Opacus's loader for several processes leaves out empty batches, which shows that they were empty."""
    sampler = getattr(data_loader, "batch_sampler", None)
    if not isinstance(sampler, _samplers.DistributedUniformWithReplacementSampler):
        return
    chance = (1.0 - float(sampler.sample_rate)) ** int(sampler.num_samples)
    if chance > _RARE:
        warnings.warn(
            f"Opacus's distributed loader leaves out empty batches, here with probability {chance:.1g} a step and "
            "process: the guarantee is for what is released besides the number of steps; larger batches make it "
            "negligible.",
            stacklevel=3,
        )


def epoch_of(data_loader: Any, *, poisson_sampling: bool) -> Epoch:
    """What one pass will do once `make_private` has had this loader.

    With `poisson_sampling` a loader of n batches is replaced by one that draws with rate 1 / n, int(1 / rate) times a
    pass: 92 times for 93 batches. Without it the loader stays, and has to draw Poisson samples by itself.
    """
    if poisson_sampling:
        return opacus_epoch(len(data_loader))
    refusal = refusal_of_loader(data_loader, None)
    if refusal is not None:
        raise refusal
    return Epoch(poisson_rate_of(data_loader) or 0.0, len(data_loader))


def poisson_run(data_loader: Any, *, noise_multiplier: float, epochs: Any) -> DPSGD:
    """The run of `epochs` passes over a loader that `make_private` returned, or that it is going to be given."""
    private = poisson_rate_of(data_loader) is not None
    epoch = epoch_of(data_loader, poisson_sampling=not private)
    return run_of(epoch, noise_multiplier=noise_multiplier, epochs=epochs)


def run_of(epoch: Epoch, *, noise_multiplier: float, epochs: Any) -> DPSGD:
    """So many passes, each of them like `epoch`; a part of a pass is rounded up to whole steps."""
    passes = require_number("epochs", epochs, above=0.0)
    sampling = groupdp.PoissonSampling(rate=epoch.rate)
    return DPSGD(sampling=sampling, noise_multiplier=noise_multiplier, steps=math.ceil(passes * epoch.steps))


def shuffled_run(data_loader: Any, *, noise_multiplier: float, epochs: Any) -> DPSGD:
    """The run of `epochs` passes over a loader that is left as it is (`poisson_sampling=False`).

    A loader that shuffles gives shuffled epochs, one that goes in order gives epochs in a fixed order; any other
    sampler is refused. Ask `groupdp.epsilon` with an adjacency that keeps the dataset's size.
    """
    passes = require_number("epochs", epochs, above=0.0)
    batches: Any = getattr(data_loader, "batch_sampler", None)
    if type(batches) is not _data.BatchSampler:
        raise InvalidArgument("data_loader", data_loader, "cut one order into batches")
    sampler, dataset_size, batch_size = batches.sampler, len(data_loader.dataset), batches.batch_size
    kind: Any
    if type(sampler) is _data.RandomSampler and not sampler.replacement and sampler.num_samples == dataset_size:
        kind = groupdp.ShuffledSampling
    elif type(sampler) is _data.SequentialSampler:
        kind = groupdp.FixedOrderSampling
    else:
        raise InvalidArgument(
            "data_loader",
            InWords(f"the sampler {shown(sampler)}"),
            "shuffle the whole dataset or go through it in order",
        )
    # A loader whose only batch is smaller than asked for has the whole dataset in it.
    sampling = kind(batch_size=min(batch_size, dataset_size), dataset_size=dataset_size)
    return DPSGD(sampling=sampling, noise_multiplier=noise_multiplier, steps=math.ceil(passes * len(data_loader)))
