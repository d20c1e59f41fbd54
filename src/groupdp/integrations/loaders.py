"""What tools and their loaders really do: each loader's own rule for rates and steps, and the runs that follow.

Opacus passes a rate to its accountant, not whether batches were really drawn with it. JAX Privacy describes cyclic
sampling with b bands as Poisson sampling over 1/b of the steps, and fixed batches as Poisson sampling with half the
noise: reductions that hold for one example, and not for a group. The facts are local variables of the tool's functions
while they call. They are used only to refuse: no number depends on them.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import groupdp
from groupdp._validation import LARGEST_COUNT, require_integer, require_number, shown
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords
from groupdp.mechanisms.dpsgd import DPSGD


@dataclass(frozen=True, slots=True)
class Epoch:
    """What one pass of a loader does."""

    rate: float
    """The probability with which every example is in a batch, or the share of the data that a batch is."""
    steps: int


def opacus_epoch(batches: int) -> Epoch:
    """Opacus's Poisson loader made from a loader of so many batches.

    The rate is the double 1 / batches, and a pass has int(1 / rate) steps, rounded twice: of 93 batches it runs 92.
    """
    rate = 1 / require_integer("batches", batches, at_least=1)
    return Epoch(rate, int(1 / rate))


def batches_of(dataset_size: int, batch_size: int, *, drop_last: bool = False) -> int:
    """The length of PyTorch's DataLoader: the incomplete last batch counts unless it is dropped."""
    size = require_integer("dataset_size", dataset_size, at_least=1)
    batch = require_integer("batch_size", batch_size, at_least=1)
    batches = size // batch if drop_last else -(-size // batch)
    if batches == 0:
        raise InvalidArgument("batch_size", batch, f"be at most dataset_size={size} if the last batch is dropped")
    return batches


def opacus_steps(epochs: Any, rate: float) -> int:
    """The steps that Opacus's own calibration assumes for `epochs` passes: int(epochs / rate)."""
    return int(require_number("epochs", epochs, above=0.0) / rate)


def tensorflow_privacy_steps(epochs: Any, batch_size: int, dataset_size: int) -> int:
    """TensorFlow Privacy's steps: epochs / (batch size / examples) in double precision, rounded up once at the end."""
    steps = math.ceil(require_number("epochs", epochs, above=0.0) / (batch_size / dataset_size))
    if steps > LARGEST_COUNT:
        raise InvalidArgument("epochs", epochs, f"amount to at most {LARGEST_COUNT} steps")
    return steps


def drawn_rate(rate: float) -> float:
    """The probability of `torch.rand(...) < rate`, whose variates are multiples of 2^-24 below 1.

    Opacus samples so. The scalar is rounded to single precision, then the multiples below it are counted: the
    probability is `rate` up to 2^-24 more or less.
    """
    import struct

    single: float = struct.unpack("f", struct.pack("f", require_number("rate", rate, above=0.0, at_most=1.0)))[0]
    return math.ceil(single * 2.0**24) / 2.0**24


def require_package(module: str, *, extra: str, tool: str, instead: str = "") -> Any:
    """The module `module` of an optional package; `instead` says what to do where its version has no such module."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or module.split(".")[0] != error.name.split(".")[0]:
            raise  # the tool is there, but something it needs is not: its own message says what
        if error.name == module and instead and importlib.util.find_spec(module.split(".")[0]) is not None:
            raise ImportError(f"this version of {tool} has no {module}: {instead}.", name=error.name) from None
        wanted = extra.replace("_", "-")  # the spelling that every version of pip understands
        raise ImportError(
            f"groupdp.integrations.{extra} needs {tool}: install groupdp with the extra {wanted!r} "
            f"(groupdp[{wanted}]).",
            name=error.name,
        ) from None


#: Frames looked at, from the innermost outward.
_DEEPEST = 40


def calling_frames(package: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(function name, local variables) of every calling function that belongs to `package`, innermost first."""
    frame = sys._getframe(1)
    for _ in range(_DEEPEST):
        back = frame.f_back
        if back is None:
            return
        frame = back
        module = frame.f_globals.get("__name__", "")
        if isinstance(module, str) and (module == package or module.startswith(f"{package}.")):
            yield frame.f_code.co_name, frame.f_locals


def refuse_misdescribed_events(group_size: int) -> None:
    """Refuse if the calling function of JAX Privacy is about to describe something else as Poisson sampling."""
    for name, variables in calling_frames("jax_privacy"):
        strategy = getattr(variables.get("self"), "strategy", None)
        if name in ("__post_init__", "plan") and strategy is not None:
            refuse_bands(_length(strategy), group_size, "num_bands")
        params = variables.get("dp_params")
        if name == "_compute_epsilon" and params is not None:
            refuse_bands(getattr(params, "cycle_length", None), group_size, "cycle_length")
            method = getattr(getattr(params, "sampling_method", None), "name", "")
            if method == "FIXED_BATCH_SIZE":
                raise InvalidArgument(
                    "sampling_method",
                    InWords("FIXED_BATCH_SIZE"),
                    "be POISSON for this training accountant",
                    (
                        "it describes fixed batches as Poisson sampling with half the noise, which is not what "
                        "happens to a group; groupdp.integrations.jax_privacy.GroupTrainingAccountant accounts "
                        "for them as they are"
                    ),
                )


def _length(strategy: Any) -> int:
    try:
        return len(strategy)
    except TypeError:
        return 1


def refuse_bands(bands: Any, group_size: int, name: str) -> None:
    """Refuse correlated noise (more than one band) for groups of more than one."""
    if bands is not None and bands > 1 and group_size > 1:
        raise InvalidArgument(
            name,
            InWords(bands),
            f"be 1 for a group of {group_size}",
            (
                "with correlated noise the reduction to single steps holds for one example only; "
                "groupdp.integrations.bandmf.from_bandmf reads the bands and the partition for a group"
            ),
        )


def _samplers() -> Any:
    return require_package("opacus.utils.uniform_sampler", extra="opacus", tool="Opacus")


_OFFER = (
    "groupdp.integrations.opacus.shuffled_run(data_loader, noise_multiplier=..., epochs=...) describes such a run, and "
    "groupdp.epsilon accounts for it with adjacency 'zero-out' or 'substitute'"
)

#: Empty batches that are rarer than this, per step, are not worth a warning.
_RARE = 1e-12


def poisson_rate_of(data_loader: Any) -> float | None:
    """The rate at which a loader draws Poisson samples; None if it does something else."""
    sampler = getattr(data_loader, "batch_sampler", None)
    samplers = _samplers()
    kinds = (samplers.UniformWithReplacementSampler, samplers.DistributedUniformWithReplacementSampler)
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
    if not isinstance(sampler, _samplers().DistributedUniformWithReplacementSampler):
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
    data = require_package("torch.utils.data", extra="opacus", tool="PyTorch")
    batches: Any = getattr(data_loader, "batch_sampler", None)
    if type(batches) is not data.BatchSampler:
        raise InvalidArgument("data_loader", data_loader, "cut one order into batches")
    sampler, dataset_size, batch_size = batches.sampler, len(data_loader.dataset), batches.batch_size
    kind: Any
    if type(sampler) is data.RandomSampler and not sampler.replacement and sampler.num_samples == dataset_size:
        kind = groupdp.ShuffledSampling
    elif type(sampler) is data.SequentialSampler:
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
