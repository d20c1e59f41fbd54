"""Optional packages, and facts that a calling tool knows but does not pass on.

A missing package is an ImportError that names the extra to install.

Opacus passes a rate to its accountant, not whether batches were really drawn with it. JAX Privacy describes cyclic
sampling with b bands as Poisson sampling over 1/b of the steps, and fixed batches as Poisson sampling with half the
noise: reductions that hold for one example, and not for a group. The facts are local variables of the tool's functions
while they call. They are used only to refuse: no number depends on them.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from groupdp.errors import InvalidArgument, InWords


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


def _length(strategy: Any) -> int:
    try:
        return len(strategy)
    except TypeError:
        return 1
