"""Runs from what training left behind: checkpoints of Opacus, histories, hyperparameters in JSON.

| content | is taken for |
|---|---|
| a PyTorch file with "privacy_accountant_state_dict" | a checkpoint of Opacus (read without executing anything in it) |
| a JSON list of [noise multiplier, sample rate, steps] | a history of Opacus |
| a JSON object with "history" | the same, in the layout of a state dict |
| a JSON object with "number_of_examples" | hyperparameters of TensorFlow Privacy |
| a JSON object with "num_samples" and "num_updates" | DpParams of JAX Privacy |

Opacus itself is not imported.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import groupdp
from groupdp._files import read_file
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, require_choice, require_integer, require_number, shown
from groupdp.integrations import require_package
from groupdp.mechanisms.dpsgd import DPSGD, phases_of
from groupdp.neighbours import SAME_SIZE

#: Largest JSON file read, in bytes; checkpoints may be larger, they hold a model.
LARGEST_JSON = 10_000_000
_OURS = re.compile(rf"groupdp-(\d{{1,6}})(?:-({'|'.join(SAME_SIZE)}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """A run, and what its source says about the question to ask."""

    phases: tuple[DPSGD, ...]
    source: str
    """What the file was read as, in words."""
    group_size: int | None = None
    adjacency: str | None = None
    delta: float | None = None


def import_run(path: str | Path) -> ImportedRun:
    """The run that a checkpoint, a history or hyperparameters describe."""
    file = Path(path)
    if zipfile.is_zipfile(file):
        return _from_content(_checkpoint(file))
    content = read_file("source", file, most=LARGEST_JSON, requirement="be a file that can be read")
    if len(content) > LARGEST_JSON:
        raise InvalidArgument("source", str(path), f"be at most {LARGEST_JSON} bytes unless it is a checkpoint")
    try:
        return _from_content(json.loads(content))
    except InvalidArgument:
        raise
    except (ValueError, RecursionError):
        neither = InWords(f"{shown(str(path))}, which is neither")
        raise InvalidArgument("source", neither, "be a PyTorch checkpoint or JSON") from None


def _checkpoint(file: Path) -> Any:
    """The content of a PyTorch file; only tensors and plain containers are allowed in it."""
    torch = require_package("torch", extra="opacus", tool="PyTorch to read a checkpoint")
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises what the archive, the unpickler or its checks happen to raise
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        needed = "be a checkpoint of tensors and plain containers, which are read without executing anything"
        raise InvalidArgument("source", InWords(f"{shown(str(file))} ({reason})"), needed) from None


def _from_content(content: Any) -> ImportedRun:
    if isinstance(content, Mapping):
        if "number_of_examples" in content:
            return _from_tensorflow_privacy(dict(content))
        if "num_samples" in content:
            return _from_jax_privacy(dict(content))
        state = content.get("privacy_accountant_state_dict", content)
        if isinstance(state, Mapping) and "history" in state:
            return _from_opacus(state)
        keys = InWords(f"the keys {shown(sorted(map(str, content))[:6])}")
        needed = "hold a privacy_accountant_state_dict, a history, number_of_examples or num_samples"
        raise InvalidArgument("source", keys, needed)
    return ImportedRun(phases=from_opacus(content), source="a history of Opacus")


def _from_opacus(state: Mapping[str, Any]) -> ImportedRun:
    mechanism = state.get("mechanism")
    match = _OURS.fullmatch(mechanism) if isinstance(mechanism, str) else None
    return ImportedRun(
        phases=from_opacus(state),
        source=f"a history of Opacus's accountant {mechanism}" if mechanism else "a history of Opacus",
        group_size=int(match[1]) if match else None,
        adjacency=match[2] if match else None,
    )


def _from_tensorflow_privacy(content: dict[str, Any]) -> ImportedRun:
    from groupdp.integrations.tensorflow_privacy import Hyperparameters, from_tensorflow_privacy

    delta, known = content.pop("delta", None), tuple(Hyperparameters.__dataclass_fields__)
    _refuse_unknown(content, known, required=known[:4])
    content.setdefault("max_examples_per_user", 1)
    hyperparameters = from_tensorflow_privacy(**content)
    return ImportedRun(
        phases=(hyperparameters.poisson_run,),
        source="hyperparameters of TensorFlow Privacy, under Poisson sampling",
        group_size=hyperparameters.max_examples_per_user,
        delta=delta,
    )


def _from_jax_privacy(content: dict[str, Any]) -> ImportedRun:
    from groupdp.integrations.jax_privacy import dp_params_of, from_dp_params

    updates = content.pop("num_updates", None)
    required = ("num_samples", "batch_size", "noise_multipliers", "delta")
    optional = ("examples_per_user", "cycle_length", "sampling_method", "truncated_batch_size")
    _refuse_unknown(content, (*required, *optional), required=required)
    if updates is None:
        raise InvalidArgument("num_updates", NOT_SHOWN, "be given with num_samples")
    params = dp_params_of(content)
    return ImportedRun(
        phases=from_dp_params(updates, params),
        source="DpParams of JAX Privacy",
        group_size=1 if params.examples_per_user is None else params.examples_per_user,
        delta=params.delta,
    )


def _refuse_unknown(content: Mapping[str, Any], known: tuple[str, ...], *, required: tuple[str, ...]) -> None:
    for key in content:
        require_choice("key", key, known)
    for key in required:
        if key not in content:
            raise InvalidArgument(key, NOT_SHOWN, f"be given with {required[0]}")


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
            needed = "have Poisson sampling and a microbatch_size of 1 to be a history of Opacus"
            raise InvalidArgument("run", phase, needed)
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
