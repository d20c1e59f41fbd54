"""Epochs of indices drawn from what yields batches; the generators that are known are put back afterwards."""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from groupdp.errors import NOT_SHOWN, InvalidArgument
from groupdp.loading.batches import IndexBatches
from groupdp.loading.fit import drawn_from
from groupdp.loading.fit_tests import Drawn


def drawn_epochs(sources: Sequence[Any], *, count: int, accumulation: int, dataset_size: int) -> Drawn | str:
    """`count` epochs of the batches that the sources of all ranks make together; a sentence where they make none."""
    copies = [_copy(one, alone=len(sources) == 1) for one in sources]
    for one in copies:
        part = one if hasattr(one, "num_replicas") else getattr(one, "sampler", None)
        if len(copies) == 1 and getattr(part, "num_replicas", 1) > 1:
            raise InvalidArgument("draw", NOT_SHOWN, "be left out, or asked of a list with the loaders of all ranks")
    if any(iter(one) is one for one in copies if hasattr(one, "__iter__")) or not all(
        hasattr(one, "__iter__") for one in copies
    ):
        return "Iterating over it does not give one epoch after another, so none can be drawn."
    kept: list[list[Any]] = []
    with _restored(copies):
        for _ in range(count):
            try:
                parts = [[_indices(batch) for batch in one] for one in copies]
            except (TypeError, ValueError):
                return "Iterating over it does not give batches of indices, so none can be tested."
            if len({len(part) for part in parts}) > 1:
                return "The ranks have different numbers of batches in one epoch."
            batches = [np.concatenate(together) for together in zip(*parts, strict=True)]
            kept.append(
                [np.concatenate(batches[at : at + accumulation]) for at in range(0, len(batches), accumulation)]
            )
    lengths = {len(epoch) for epoch in kept}
    if len(lengths) > 1 or 0 in lengths:
        return f"Epochs have {min(lengths)} to {max(lengths)} batches, and every one must have as many."
    remaining = iter(kept)
    return drawn_from(lambda: iter(next(remaining)), count=count, steps=lengths.pop(), dataset_size=dataset_size)


def _copy(source: Any, *, alone: bool) -> Any:
    """A sampler of groupdp from its beginning, without padding; drawn from alone it gives the batches of all ranks."""
    if not isinstance(source, IndexBatches):
        return source
    fresh = copy.copy(source)
    fresh.steps_done = 0
    fresh.padding = None
    if alone:
        fresh.rank, fresh.world_size = 0, 1
    return fresh


def _indices(batch: Any) -> Any:
    values = np.asarray(batch if len(batch) else [], dtype=np.float64)
    whole = values.astype(np.int64)
    if values.ndim != 1 or np.any(whole != values):
        raise ValueError("a batch of indices is a list of integers")
    return whole


@contextmanager
def _restored(sources: Sequence[Any]) -> Iterator[None]:
    """Put the global generators, and those of PyTorch's samplers, back as they were."""
    torch: Any = sys.modules.get("torch")
    parts = [part for one in sources for part in (one, getattr(one, "sampler", None))]
    generators: list[Any] = [getattr(part, "generator", None) for part in parts]
    known = [(one, one.get_state()) for one in generators if hasattr(one, "get_state") and hasattr(one, "set_state")]
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - a custom sampler may use it
    state = None if torch is None else torch.get_rng_state()
    try:
        yield
    finally:
        for generator, before in known:
            generator.set_state(before)
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        if state is not None:
            torch.set_rng_state(state)
