"""Mechanisms that reach an accountant disguised as plain Poisson sampling, noticed by who is calling.

JAX Privacy describes cyclic sampling with b bands as Poisson sampling over 1/b of the steps, and fixed batches as
Poisson sampling with half the noise. Both are reductions for one example. For a group they are not:

- with several bands a group's examples may be in several parts of the cycle, so their contributions meet noise that is
  correlated between steps;
- the number of a group's examples in a fixed batch is hypergeometric, not binomial.
"""

from __future__ import annotations

from typing import Any

from groupdp.errors import InvalidArgument, InWords
from groupdp.integrations.callers import calling_frames


def refuse_disguised_events(group_size: int) -> None:
    """Refuses if the calling function of JAX Privacy is about to describe something else as Poisson sampling."""
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
    """Refuses correlated noise (more than one band) for groups of more than one."""
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
