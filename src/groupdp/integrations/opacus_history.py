"""Histories of Opacus's accountants, to and from runs; Opacus itself is not imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import groupdp
from groupdp._validation import require_integer, require_number
from groupdp.errors import InvalidArgument, InWords
from groupdp.mechanisms.dpsgd import DPSGD, phases_of

#: (noise multiplier, sample rate, steps), as Opacus keeps it.
Entry = tuple[float, float, int]


def from_opacus(source: Any) -> tuple[DPSGD, ...]:
    """The run behind a PrivacyEngine, an accountant (any of Opacus's), a history, or the content of a checkpoint.

    Every entry (noise multiplier, sample rate, steps) of the history is a phase with Poisson sampling: whether batches
    were really drawn so, a history does not say.
    """
    for attribute in ("accountant", "history"):
        source = getattr(source, attribute, source)
    if isinstance(source, Mapping):
        source = source.get("privacy_accountant_state_dict", source)
        source = source.get("history") if isinstance(source, Mapping) else source
    entries = entries_of(source)
    if not entries:
        raise InvalidArgument("history", InWords("none"), "have at least one step")
    return tuple(
        DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)
        for noise, rate, steps in entries
    )


def to_opacus(run: DPSGD | Sequence[DPSGD]) -> list[Entry]:
    """The history that Opacus would have kept of a run: Poisson sampling, no microbatches."""
    history = []
    for phase in phases_of(run):
        if not isinstance(phase.sampling, groupdp.PoissonSampling) or phase.microbatch_size != 1:
            raise InvalidArgument(
                "run", phase, "have Poisson sampling and a microbatch_size of 1 to be a history of Opacus"
            )
        if phase.steps > 0:
            history.append((phase.noise_multiplier, phase.sampling.rate, phase.steps))
    return history


def entries_of(history: Any) -> list[Entry]:
    """A history, checked entry by entry."""
    if not isinstance(history, list | tuple):
        raise InvalidArgument("history", history, "be a list of (noise multiplier, sample rate, steps)")
    entries = []
    for entry in history:
        if not isinstance(entry, list | tuple) or len(entry) != 3:
            raise InvalidArgument("history", entry, "consist of (noise multiplier, sample rate, steps)")
        noise = require_number("noise_multiplier", entry[0], at_least=0.0)
        rate = require_number("sample_rate", entry[1], above=0.0, at_most=1.0)
        entries.append((noise, rate, require_integer("steps", entry[2], at_least=1)))
    return entries
