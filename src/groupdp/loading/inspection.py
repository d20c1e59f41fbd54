"""`groupdp.inspect`: which sampling a loader or trainer does, with the evidence, and what breaks the guarantee.

A loader that is not known is refused with the reason. Epochs of indices may be drawn from what yields batches; the
states of known generators are restored afterwards.
"""

from __future__ import annotations

import copy
import math
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from groupdp._files import NewFiles
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, require_integer
from groupdp.loading import IndexBatches, units_of
from groupdp.loading.draws import Drawn
from groupdp.loading.fit import FALSE_ALARM, Fit, drawn_from, fit
from groupdp.loading.known_loaders import (
    is_loader,
    is_trainer,
    read_loader,
    read_model,
    read_own,
    read_trainer,
)
from groupdp.loading.reading import Reading, accumulate, compare, read_engine, read_other, read_selection, require_world
from groupdp.mechanisms.dpsgd import DPSGD, EPOCHS
from groupdp.run_file.run import RunFile, run_file_text
from groupdp.samplings import Sampling

#: Batches of an epoch that are drawn at most: a stream that repeats never ends.
_MOST_BATCHES = 10**6


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a loader does."""

    kind: str
    """What was read."""
    sampling: Sampling | None
    """The sampling of the loader; None if it is unknown, or has no law."""
    steps_per_epoch: int | None
    evidence: tuple[str, ...]
    problems: tuple[str, ...]
    """What breaks the guarantee, or why it is refused."""
    check: tuple[str, ...]
    """What `inspect` cannot see, to be checked by hand."""
    test: Fit | None
    """The test of the claim by drawn indices, if any were drawn."""

    @property
    def passes(self) -> bool:
        """Whether the sampling is known and has no problems; `check` still has to be done by hand."""
        return self.sampling is not None and not self.problems

    def run(self, *, noise_multiplier: float, epochs: Any) -> DPSGD:
        """The run of `epochs` epochs; refused with the first problem, if there is one."""
        if self.sampling is None or self.steps_per_epoch is None or self.problems:
            raise InvalidArgument.saying("loader", self.problems[0])
        steps = math.ceil(EPOCHS.read(epochs) * self.steps_per_epoch)
        return DPSGD(self.sampling, noise_multiplier=noise_multiplier, steps=steps)

    def run_file(
        self,
        path: str | Path,
        *,
        noise_multiplier: float,
        epochs: Any,
        delta: float | None = None,
        group_size: int | None = None,
        adjacency: str | None = None,
        force: bool = False,
    ) -> None:
        """Write the run file; the adjacency is by default the first that the sampling has a law for."""
        run = self.run(noise_multiplier=noise_multiplier, epochs=epochs)
        chosen = run.sampling.adjacencies[0] if adjacency is None else adjacency
        run.sampling.require_adjacency(chosen)
        if Path(path).exists() and not force:
            raise InvalidArgument("path", str(path), "be new, or given with force=True")
        file = RunFile(phases=(run,), delta=delta, group_size=group_size, adjacency=chosen)
        with NewFiles("path") as files:
            files.write_text(path, run_file_text(file))

    def __str__(self) -> str:
        lines = [f"{self.kind}: {'not known' if self.sampling is None else self.sampling.describe()}"]
        for title, sentences in (("", self.evidence), ("Problem: ", self.problems), ("Check: ", self.check)):
            lines += [f"  {title}{sentence}" for sentence in sentences]
        return "\n".join(lines if self.test is None else [*lines, f"  Test: {self.test}"])


def inspect(
    loader: Any,
    *,
    claim: Any = None,
    draw: int | None = None,
    owners: Any = None,
    world_size: int | None = None,
    accumulation: int | None = None,
    model: Any = None,
    false_alarm: float = FALSE_ALARM,
) -> Inspection:
    """Which sampling a loader or trainer does, and what breaks the guarantee.

    Args:
        loader: a DataLoader of PyTorch or Opacus, a sampler of groupdp.loading, a Trainer of Hugging Face or TRL, a
            batch selection of JAX Privacy; or a list of the loaders of all ranks. Anything else is refused, and may
            be drawn from if iterating gives an epoch's batches of indices.
        claim: what is accounted for: a sampling, its name, a DPSGD, or an engine or accountant of Opacus.
        draw: epochs of indices to draw, 200 for example, and to test against the claim, or against what was found. None
            are drawn unless this is given: PyTorch's and NumPy's generators are put back afterwards, but a sampler that
            keeps its own state advances.
        owners: whose each example is, for a test of spread allocation.
        world_size: training processes; by default as torch.distributed or WORLD_SIZE says.
        accumulation: batches whose gradients are summed before a step; by default a Trainer's, or 1.
        model: a PyTorch model, to be searched for batch normalisation; by default a Trainer's.
        false_alarm: the largest probability with which the test contradicts a true claim.
    """
    ranks = list(loader) if isinstance(loader, list | tuple) and loader and not isinstance(loader[0], int) else [loader]
    if len(ranks) > 1 and world_size not in (None, len(ranks)):
        raise InvalidArgument("world_size", world_size, f"be {len(ranks)}, the number of loaders, or left out")
    trainer = ranks[0] if is_trainer(ranks[0]) else None
    if trainer is not None:
        ranks = [rank.get_train_dataloader() if is_trainer(rank) else rank for rank in ranks]
        stated = getattr(trainer.args, "world_size", None)
        world_size = stated if world_size is None and isinstance(stated, int) else world_size
        model = getattr(trainer, "model", None) if model is None else model
    world = len(ranks) if len(ranks) > 1 else require_world(world_size)
    readings = [_read(rank, world) for rank in ranks]
    reading = readings[0]
    times = trainer.args.gradient_accumulation_steps if accumulation is None and trainer is not None else accumulation
    times = 1 if times is None else require_integer("accumulation", times, at_least=1)
    if len(ranks) > 1:
        _agree(reading, readings)
    if trainer is not None:
        read_trainer(reading, trainer)
    if model is not None:
        read_model(reading, model)
    accumulate(reading, times)
    compare(reading, claim)
    test = None
    if draw is not None:
        count = require_integer("draw", draw, at_least=2)
        test = _test(reading, readings, claim, count, times, owners, false_alarm)
    if reading.sampling is None and not reading.problems:
        raise AssertionError("a loader was refused without a reason")
    return Inspection(
        kind=reading.kind,
        sampling=reading.sampling,
        steps_per_epoch=reading.steps,
        evidence=tuple(reading.evidence),
        problems=tuple(dict.fromkeys(reading.problems)),
        check=tuple(dict.fromkeys(reading.check)),
        test=test,
    )


def _read(thing: Any, world: int | None) -> Reading:
    if is_loader(thing):
        return read_loader(thing, world)
    if isinstance(thing, IndexBatches):
        reading = Reading(f"groupdp's {type(thing).__name__}", batches=thing)
        read_own(reading, thing, world)
        return reading
    return read_selection(thing) or read_engine(thing) or read_other(thing)


def _agree(reading: Reading, readings: Sequence[Reading]) -> None:
    """Whether the loaders of all ranks share one stream of batches."""
    for other in readings[1:]:
        reading.problems += other.problems
        if other.sampling != reading.sampling:
            reading.refuse("The ranks do not sample alike.")
    samplers = [getattr(rank.batches, "sampler", rank.batches) for rank in readings]
    numbers = [getattr(sampler, "rank", None) for sampler in samplers]
    if sorted(number for number in numbers if isinstance(number, int)) != list(range(len(readings))):
        reading.refuse(f"The loaders have the ranks {numbers}, and must have 0 to {len(readings) - 1}, each once.")
    for name in ("seed", "epoch", "fingerprint"):
        if len({getattr(sampler, name, None) for sampler in samplers}) > 1:
            reading.refuse(f"The ranks differ in their {name}: their shares are not of one batch, and may overlap.")


def _test(
    reading: Reading, readings: Sequence[Reading], claim: Any, count: int, times: int, owners: Any, false_alarm: float
) -> Fit | None:
    """Draw epochs and test them against the claim or, without a claim, against the sampling that was read."""
    stated = claim.sampling if isinstance(claim, DPSGD) else claim
    stated = stated if isinstance(stated, Sampling) else reading.sampling
    if stated is None:
        got = InWords("none" if claim is None else "only a name")
        raise InvalidArgument("claim", got, "be a sampling with its parameters where epochs are drawn")
    if any(rank.batches is None for rank in readings):
        raise InvalidArgument("draw", NOT_SHOWN, f"be left out: no indices can be drawn from {reading.kind}")
    size = reading.dataset_size
    size = getattr(stated, "dataset_size", None) if size is None else size
    if size is None and owners is not None:
        size = len(owners)
    if size is None:
        raise InvalidArgument("owners", None, "be given, one for each example, where the dataset is not known")
    drawn = drawn_epochs([rank.batches for rank in readings], count=count, accumulation=times, dataset_size=size)
    if isinstance(drawn, str):
        reading.refuse(drawn)
        return None
    expected = getattr(stated, "batches", drawn.steps)
    if drawn.steps != expected:
        reading.refuse(f"An epoch has {drawn.steps} batches, and {expected} are accounted for.")
        return None
    if isinstance(reading.batches, IndexBatches) and reading.batches.samples_people:
        drawn = drawn.by(reading.batches.people_drawn, reading.batches.number_of_units)
    people = units_of(None, owners) if owners is not None else getattr(reading.batches, "people", np.arange(size))
    result = fit(drawn, stated, people=people, false_alarm=false_alarm)
    if result.contradicted:
        reading.refuse(str(result))
    return result


def drawn_epochs(sources: Sequence[Any], *, count: int, accumulation: int, dataset_size: int) -> Drawn | str:
    """`count` epochs of the batches that the sources of all ranks make together; a sentence where they make none."""
    copies = [_copy(source, alone=len(sources) == 1) for source in sources]
    for source in copies:
        part = source if hasattr(source, "num_replicas") else getattr(source, "sampler", None)
        if len(copies) == 1 and getattr(part, "num_replicas", 1) > 1:
            raise InvalidArgument("draw", NOT_SHOWN, "be left out, or asked of a list with the loaders of all ranks")
    if any(iter(source) is source for source in copies if hasattr(source, "__iter__")) or not all(
        hasattr(source, "__iter__") for source in copies
    ):
        return "Iterating over it does not give one epoch after another, so none can be drawn."
    kept: list[list[Any]] = []
    with _restored(copies):
        for _ in range(count):
            try:
                parts = [[_indices(batch) for batch in islice(source, _MOST_BATCHES + 1)] for source in copies]
            except (TypeError, ValueError):
                return "Iterating over it does not give batches of indices, so none can be tested."
            if max(map(len, parts)) > _MOST_BATCHES:
                return f"An epoch does not end within {_MOST_BATCHES} batches, so none can be tested."
            if len({len(part) for part in parts}) > 1:
                return "The ranks have different numbers of batches in one epoch."
            batches = [np.concatenate(together) for together in zip(*parts, strict=True)]
            starts = range(0, len(batches), accumulation)
            kept.append([np.concatenate(batches[start : start + accumulation]) for start in starts])
    lengths = {len(epoch) for epoch in kept}
    if len(lengths) > 1 or 0 in lengths:
        return f"Epochs have {min(lengths)} to {max(lengths)} batches, and every one must have as many."
    return drawn_from(kept, steps=lengths.pop(), dataset_size=dataset_size)


def _copy(source: Any, *, alone: bool) -> Any:
    """A sampler of groupdp from its beginning, without padding; drawn from alone it gives the batches of all ranks."""
    if not isinstance(source, IndexBatches):
        return source
    fresh = copy.copy(source)
    fresh.steps_done, fresh.padding = 0, None
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
    parts = [part for source in sources for part in (source, getattr(source, "sampler", None))]
    generators: list[Any] = [getattr(part, "generator", None) for part in parts]
    known = [(generator, generator.get_state()) for generator in generators if hasattr(generator, "set_state")]
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
