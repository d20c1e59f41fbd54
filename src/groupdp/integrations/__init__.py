"""groupdp inside the tools people train with: one module a tool, each an extra. Here is what several of them need.

    dp_accounting.py        GroupPrivacyAccountant, a PrivacyAccountant of dp_accounting; runs to and from its DpEvents
    dp_accounting_pld.py    privacy loss distributions to and from its own
    opacus.py               register(group_size=8), GroupPrivacyEngine, adaptive clipping
    jax_privacy.py          GroupTrainingAccountant, runs to and from its DpParams and strategies
    bandmf.py               JAX Privacy's banded noise for groups, and batches in which a person is in one part
    tensorflow_privacy.py   runs from its hyperparameters, a statement in its layout (the package is not imported)
    riskcal.py              trade-off curves as evaluators for its calibration
    import_run.py           runs from checkpoints, histories and hyperparameters in files

Each refuses what its tool would account for wrongly for a group, and says why (docs/integrations.md). No module imports
a tool other than its own (JAX Privacy itself needs dp_accounting).

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
from typing import Any

import numpy as np

from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, require_number
from groupdp.neighbours import SUBSTITUTE, ZERO_OUT


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
            refuse_bands(len(np.atleast_1d(strategy)), group_size, "num_bands")
        params = variables.get("dp_params")
        if name == "_compute_epsilon" and params is not None:
            refuse_bands(getattr(params, "cycle_length", None), group_size, "cycle_length")
            method = getattr(getattr(params, "sampling_method", None), "name", "")
            if method == "FIXED_BATCH_SIZE":
                reason = (
                    "it describes fixed batches as Poisson sampling with half the noise, which is not what happens to "
                    "a group; groupdp.integrations.jax_privacy.GroupTrainingAccountant accounts for them as they are"
                )
                needed = "be POISSON for this training accountant"
                raise InvalidArgument("sampling_method", InWords(method), needed, reason)


def refuse_bands(bands: Any, group_size: int, name: str) -> None:
    """Refuse correlated noise (more than one band) for groups of more than one."""
    if bands is not None and bands > 1 and group_size > 1:
        reason = (
            "with correlated noise the reduction to single steps holds for one example only; "
            "groupdp.integrations.bandmf.from_bandmf reads the bands and the partition for a group"
        )
        raise InvalidArgument(name, InWords(bands), f"be 1 for a group of {group_size}", reason)


_SAMPLERS = "opacus.utils.uniform_sampler"
_OFFER = (
    "groupdp.integrations.opacus.shuffled_run(data_loader, noise_multiplier=..., epochs=...) describes such a run, and "
    f"groupdp.epsilon accounts for it with adjacency {ZERO_OUT!r} or {SUBSTITUTE!r}"
)

#: Empty batches that are rarer than this, per step, are not worth a warning.
_RARE = 1e-12


def poisson_rate_of(data_loader: Any) -> float | None:
    """The rate at which a loader draws Poisson samples; None if it does something else."""
    sampler = getattr(data_loader, "batch_sampler", None)
    samplers = require_package(_SAMPLERS, extra="opacus", tool="Opacus")
    kinds = (samplers.UniformWithReplacementSampler, samplers.DistributedUniformWithReplacementSampler)
    return float(sampler.sample_rate) if isinstance(sampler, kinds) else None


def require_poisson(data_loader: Any, sample_rate: float | None = None) -> float:
    """The rate of a loader whose steps can be counted as Poisson samples, at `sample_rate` if given."""
    rate = poisson_rate_of(data_loader)
    if rate is None:
        reason = f"its batches are not Poisson samples, and accounting for them as such is not a guarantee; {_OFFER}"
        raise InvalidArgument(
            "poisson_sampling", InWords("a data loader that shuffles or goes in order"), "be True", reason
        )
    if sample_rate is not None and rate > sample_rate:
        needed = (
            f"have 1 / sample_rate steps a pass: Opacus would account for a rate of {sample_rate!r} where {rate!r} is "
            "sampled; GroupPrivacyEngine accounts for the latter"
        )
        raise InvalidArgument("data_loader", NOT_SHOWN, needed)
    return rate


def warn_about_empty_batches(data_loader: Any) -> None:
    """Opacus's loader for several processes leaves out empty batches, which shows that they were empty."""
    sampler = getattr(data_loader, "batch_sampler", None)
    samplers = require_package(_SAMPLERS, extra="opacus", tool="Opacus")
    if not isinstance(sampler, samplers.DistributedUniformWithReplacementSampler):
        return
    chance = (1.0 - float(sampler.sample_rate)) ** int(sampler.num_samples)
    if chance > _RARE:
        warnings.warn(
            f"Opacus's distributed loader leaves out empty batches, here with probability {chance:.1g} a step and "
            "process: the guarantee is for what is released besides the number of steps; larger batches make it "
            "negligible.",
            stacklevel=3,
        )
