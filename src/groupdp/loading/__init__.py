"""Samplers to put in place of shuffling, for NumPy and as the `batch_sampler` of a PyTorch DataLoader.

    batches = SpreadBatches(owners, batches=100, seed=seed)
    loader = DataLoader(dataset, batch_sampler=batches)
    run = batches.run(noise_multiplier=4.0, epochs=20)

Everything random follows from seed, epoch and step: global seeds have no effect, and a sampler restored in mid-epoch
continues with exactly the batches that were left.

What a loader really does (no module imports a training framework: objects of one are known by the modules it loaded):

    inspection.py     `inspect`: what a loader does, with evidence, problems and what to check by hand
    known_loaders.py  PyTorch's loaders, and Trainers
    reading.py        notes about a loader, and their comparison with a claim; other tools, or why they are refused
    fit.py            drawn indices against the law of a sampling, with a stated false alarm rate
    draws.py          drawn indices from a file, and their statistics: each is an exact binomial test
"""

from __future__ import annotations

import copy
import hashlib
import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, require_integer
from groupdp.floats import IntArray
from groupdp.mechanisms.dpsgd import DPSGD, EPOCHS
from groupdp.samplings import BallsInBinsSampling, PoissonSampling, Sampling, SpreadSampling

BoolArray = npt.NDArray[np.bool_]

#: Entries of a table of random numbers that are drawn at once; the batches do not depend on it.
_AT_ONCE = 2**22


class IndexBatches(ABC):
    """Batches of indices, epoch after epoch.

    Iterating gives the batches that are left of the current epoch, as lists of integers (what PyTorch expects of a
    `batch_sampler`); `arrays()` gives NumPy arrays, `padded()` arrays of one shape with their masks. The next iteration
    continues an interrupted epoch, since a new one would be one more epoch to account for.

    With `owners` people are sampled: a batch holds all examples of the people drawn, and the guarantee counts people.
    Their gradients must then be clipped person by person. (`SpreadBatches` samples examples, and needs the owners.)

    In a run of several processes each makes the same sampler with its own `rank`. All draw the same batch from the same
    seed, and rank r takes its units number r, r + world_size, ... `fingerprint` is equal on all ranks if they agree.
    """

    def __init__(
        self,
        sampling: Sampling,
        units: IntArray,
        batches: int,
        *,
        seed: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        padding: int | None = None,
    ) -> None:
        """`units` has, for every example, the number of the unit that is drawn with all its examples."""
        self.sampling = sampling
        """What groupdp accounts for."""
        self.world_size = require_integer("world_size", world_size, at_least=1)
        self.rank = require_integer("rank", rank, at_least=0, at_most=self.world_size - 1)
        if seed is None:
            if self.world_size > 1:
                raise InvalidArgument("seed", None, "be given, the same on every rank, where world_size is above 1")
            seed = secrets.randbits(128)
        self.seed = require_integer("seed", seed, at_least=0, at_most=2**256 - 1)
        self.padding = None if padding is None else require_integer("padding", padding, at_least=1)
        self.batches = require_integer("batches", batches, at_least=1)
        self.dataset_size = len(units)
        self.steps_done = 0
        """Batches handed out so far, in all epochs."""
        self._owners: tuple[IntArray, ...] = ()
        self._units = units
        self._order = np.argsort(units, kind="stable").astype(np.int64)
        self._sizes = np.bincount(units).astype(np.int64)
        self._starts = np.concatenate(([0], np.cumsum(self._sizes)))

    @property
    def samples_people(self) -> bool:
        """Whether a unit is a person with all their examples."""
        return len(self._sizes) < self.dataset_size

    def people_drawn(self, indices: IntArray) -> IntArray:
        """The people, as numbers, to whom drawn examples belong."""
        return self._units[indices]

    @property
    def number_of_units(self) -> int:
        """How many examples, or people, each step draws from."""
        return len(self._sizes)

    def run(self, *, noise_multiplier: float, epochs: Any) -> DPSGD:
        """The run of `epochs` epochs; a part of one is rounded up to whole steps."""
        steps = math.ceil(EPOCHS.read(epochs) * self.batches)
        return DPSGD(self.sampling, noise_multiplier=noise_multiplier, steps=steps)

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        if self.padding is None:
            yield from (batch.tolist() for batch in self.arrays())
        else:
            yield from (indices.tolist() for indices, _ in self.padded())

    def arrays(self) -> Iterator[IntArray]:
        """The batches that are left of the current epoch: sorted indices of this rank's share, possibly none."""
        for share in self._shares(self.steps_done // self.batches):
            if self.padding is not None and len(share) > self.padding:
                needed = f"be at least {len(share)}, the size of this batch"
                why = "a batch that is cut off has another law (truncated Poisson sampling)"
                raise InvalidArgument("padding", self.padding, needed, why)
            self.steps_done += 1
            yield share

    def padded(self) -> Iterator[tuple[IntArray, BoolArray]]:
        """(indices, mask) of `padding` entries each. Nothing is cut off: a larger batch is refused.

        An entry that is masked out has the index `dataset_size`, which no dataset has, so that it is not taken for an
        example by mistake (JAX clamps such an index: use the mask).
        """
        if self.padding is None:
            raise InvalidArgument("padding", None, "be given for padded batches")
        for share in self.arrays():
            indices = np.full(self.padding, self.dataset_size, dtype=np.int64)
            indices[: len(share)] = share
            yield indices, np.arange(self.padding) < len(share)

    def largest_batch(self, *, epochs: int) -> int:
        """The size of the largest share of this rank in the first `epochs` epochs: a `padding` that refuses none."""
        fresh = copy.copy(self)
        fresh.steps_done, fresh.padding = 0, None
        count = require_integer("epochs", epochs, at_least=1)
        return max(len(share) for _ in range(count) for share in fresh.arrays())

    def state_dict(self, *, steps: int | None = None) -> dict[str, Any]:
        """What `load_state_dict` needs to go on after `steps` steps, by default after the last batch handed out.

        A loader with workers asks for batches ahead of time: give the number of steps that were trained. The state
        holds the seed, which must stay secret as long as the batches have to.
        """
        done = self.steps_done if steps is None else require_integer("steps", steps, at_least=0)
        return {"steps": done, "seed": self.seed, "fingerprint": self.fingerprint}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a sampler of the same description was; the rank may be another one."""
        if not isinstance(state, Mapping) or not {"steps", "seed", "fingerprint"} <= set(state):
            raise InvalidArgument("state", NOT_SHOWN, "be what state_dict() returned")
        steps = require_integer("steps", state["steps"], at_least=0)
        before, self.seed = self.seed, require_integer("seed", state["seed"], at_least=0, at_most=2**256 - 1)
        if state["fingerprint"] != self.fingerprint:
            self.seed = before
            other = InWords("one of another sampler")
            raise InvalidArgument("state", other, "be of the same sampling, dataset and world_size")
        self.steps_done = steps

    @property
    def fingerprint(self) -> str:
        """A digest of the sampling, the dataset's owners, the number of ranks and the seed: equal on all ranks."""
        digest = hashlib.sha256(repr((self.sampling, self.batches, self.world_size, self.seed)).encode())
        for numbers in (self._units, *self._owners):
            digest.update(numbers.tobytes())
        return digest.hexdigest()

    def _generator(self, *numbers: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence((self.seed, *numbers))))

    def _shares(self, epoch: int) -> Iterator[IntArray]:
        """This rank's shares of the batches from the current step to the end of the epoch."""
        for units in self._drawn(epoch, self.steps_done % self.batches):
            mine = units[self.rank :: self.world_size]
            if not self.samples_people:
                yield mine
                continue
            lengths = self._sizes[mine]
            offsets = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            yield np.sort(self._order[np.repeat(self._starts[mine], lengths) + offsets])

    @abstractmethod
    def _drawn(self, epoch: int, first: int) -> Iterator[IntArray]:
        """The units of every batch of an epoch from number `first` on, in ascending order."""


class Shared(TypedDict, total=False):
    """Keywords of every sampler: see `IndexBatches`."""

    seed: int | None
    rank: int
    world_size: int
    padding: int | None


#: Whose every example is.
Owners = Sequence[Any] | npt.NDArray[Any]


class PoissonBatches(IndexBatches):
    """Every step draws each example, or each person, independently with probability `rate`.

    An epoch has ceil(1 / rate) steps unless `steps` says otherwise. `dataset_size` may be left out with `owners`.
    """

    def __init__(
        self,
        dataset_size: int | None = None,
        *,
        rate: float,
        steps: int | None = None,
        owners: Owners | None = None,
        **shared: Unpack[Shared],
    ) -> None:
        sampling = PoissonSampling(rate=rate)
        batches = math.ceil(1 / sampling.share_of_data()) if steps is None else steps
        super().__init__(sampling, units_of(dataset_size, owners), batches, **shared)
        self._rate = sampling.rate

    def _drawn(self, epoch: int, first: int) -> Iterator[IntArray]:
        for step in range(first, self.batches):
            uniform = self._generator(epoch, step).random(len(self._sizes))
            yield np.flatnonzero(uniform < self._rate).astype(np.int64)


class BallsInBinsBatches(IndexBatches):
    """Every epoch puts each example, or each person, into one of its `batches`, independently and uniformly."""

    def __init__(
        self, dataset_size: int | None = None, *, batches: int, owners: Owners | None = None, **shared: Unpack[Shared]
    ) -> None:
        sampling, units = BallsInBinsSampling(batches=batches), units_of(dataset_size, owners)
        super().__init__(sampling, units, batches, **shared)

    def _drawn(self, epoch: int, first: int) -> Iterator[IntArray]:
        bins = self._generator(epoch).integers(0, self.batches, size=len(self._sizes))
        yield from cut(bins, self.batches, first)


class SpreadBatches(IndexBatches):
    """Every epoch puts each person's examples into distinct batches, uniformly; more examples than batches as evenly as
    possible. `owners` has the person of each example."""

    def __init__(self, owners: Owners, *, batches: int, **shared: Unpack[Shared]) -> None:
        self.people = units_of(None, owners)
        """The number of each example's person."""
        self._by_person = np.argsort(self.people, kind="stable").astype(np.int64)
        self._counts = np.bincount(self.people).astype(np.int64)
        count = require_integer("batches", batches, at_least=1)
        sampling = SpreadSampling(batches=count, evenly=bool(self._counts.max() > count))
        super().__init__(sampling, np.arange(len(self.people)), batches, **shared)
        self._owners = (self.people,)

    def _drawn(self, epoch: int, first: int) -> Iterator[IntArray]:
        generator = self._generator(epoch)
        bins = np.empty(self.dataset_size, dtype=np.int64)
        starts = np.cumsum(self._counts) - self._counts
        for count in np.unique(self._counts).tolist():
            chosen = starts[self._counts == count]
            for part in np.array_split(chosen, -(-len(chosen) * max(count, self.batches) // _AT_ONCE)):
                examples = self._by_person[part[:, np.newaxis] + np.arange(count)]
                bins[examples] = spread_places(generator, len(part), count, self.batches)
        yield from cut(bins, self.batches, first)


def spread_places(generator: np.random.Generator, people: int, count: int, batches: int) -> IntArray:
    """(people, count) batches: random distinct ones in every row; more than `batches` as evenly as possible."""
    whole, rest = divmod(count, batches)
    parts = [_distinct(generator, people, size, batches) for size in (*[batches] * whole, rest) if size > 0]
    return np.concatenate(parts, axis=1)


def _distinct(generator: np.random.Generator, rows: int, size: int, batches: int) -> IntArray:
    if size * size > batches:
        return generator.random((rows, batches)).argsort(axis=1)[:, :size].astype(np.int64)
    places = generator.integers(0, batches, size=(rows, size))  # at least half of the rows are distinct already
    while size > 1:
        ordered = np.sort(places, axis=1)
        again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if again.size == 0:
            break
        places[again] = generator.integers(0, batches, size=(again.size, size))
    return np.asarray(places, dtype=np.int64)


def cut(bins: npt.NDArray[np.integer[Any]], batches: int, first: int = 0) -> Iterator[IntArray]:
    """The members of every bin from number `first` on, in ascending order."""
    order = np.argsort(bins, kind="stable").astype(np.int64)
    ends = np.cumsum(np.bincount(bins, minlength=batches))
    for step in range(first, batches):
        yield order[ends[step - 1] if step else 0 : ends[step]]


def units_of(dataset_size: int | None, owners: Any) -> IntArray:
    """The number of each example's unit: of its owner, or its own number."""
    if owners is None:
        if dataset_size is None:
            raise InvalidArgument("dataset_size", None, "be given where there are no owners")
        return np.arange(require_integer("dataset_size", dataset_size, at_least=1, at_most=2**40), dtype=np.int64)
    values = np.asarray(owners)
    if values.ndim != 1 or len(values) == 0 or values.dtype.kind not in "iubUS":
        kind = f"{values.ndim} dimensions of {values.dtype}"
        raise InvalidArgument("owners", InWords(kind), "be a list of integers or texts, one for each example")
    if dataset_size is not None and dataset_size != len(values):
        raise InvalidArgument("dataset_size", dataset_size, f"be {len(values)}, the number of owners, or left out")
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


class MaskedDataset:
    """(item, True) for the examples of a map-style dataset, (item 0, False) for the padding.

        batches = SpreadBatches(owners, batches=100, padding=96)
        loader = DataLoader(MaskedDataset(dataset), batch_sampler=batches)
        for items, mask in loader: ...

    The gradient of every masked entry has to be multiplied by 0 after clipping, before the sum. Without this class
    padded batches fail in the dataset: their padding has an index that it does not have.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, bool]:
        inside = index != len(self.dataset)
        return self.dataset[index if inside else 0], inside
