"""JAX Privacy's BandMF for groups: its configuration read as it is, and a partition by person.

    config = BandMFExecutionPlanConfig(strategy=[1.0, 0.5, 0.375], noise_multiplier=2.0, epsilon=None, delta=None, ...)
    batches = PersonCyclicPoisson.of(config, key="2026-11")
    run = from_bandmf(config, batch_selection=batches)
    groupdp.epsilon(run, delta=1e-6, group_size=3)

Configurations and batch selections are known by the fields they have, not by a version.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from groupdp.correlated import BandedToeplitz, CorrelatedNoise, CyclicPoisson, part_of
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, require_integer, require_number
from groupdp.integrations import require_package

_batches: Any = require_package("jax_privacy.batch_selection", extra="jax_privacy", tool="JAX Privacy")

#: What a partition of JAX Privacy says of an example's part.
_ASSIGNED = {"INDEPENDENT": "example", "EQUAL_SPLIT": "position"}


@dataclass(frozen=True)
class PersonCyclicPoisson:
    """Cyclic Poisson sampling where a keyed hash of the person decides the part: all of a person's examples in one.

    Formal guarantee of `batch_iterator`: person p's examples are in batches i with i % cycle_length =
    part_of(p, cycle_length, key) alone, each independently with probability `sampling_prob`. Adding or removing a
    person moves nobody else, so that M-2 of docs/internals/correlated-noise.md holds.
    """

    sampling_prob: float
    iterations: int
    cycle_length: int
    key: str

    @classmethod
    def of(cls, config: Any, *, key: str) -> PersonCyclicPoisson:
        """A sampler with the sampling probability, the iterations and the bands of a BandMF configuration."""
        return cls(config.sampling_prob, config.iterations, len(np.asarray(config.strategy)), key)

    def batch_iterator(self, persons: Sequence[Any], rng: Any = None) -> Iterator[np.ndarray[Any, Any]]:
        """Indices of the examples in every batch; `persons` says whose each example is."""
        generator = np.random.default_rng(rng)
        parts = {person: part_of(person, self.cycle_length, self.key) for person in dict.fromkeys(persons)}
        where = np.array([parts[person] for person in persons], dtype=np.int64)
        groups = [np.flatnonzero(where == part) for part in range(self.cycle_length)]
        for i in range(self.iterations):
            group = groups[i % self.cycle_length]
            yield group[generator.random(len(group)) < self.sampling_prob]


def from_bandmf(config: Any, *, batch_selection: Any = None, noise_multiplier: float | None = None) -> CorrelatedNoise:
    """The run of a `BandMFExecutionPlanConfig`: its bands, noise and partition as they are.

    `batch_selection` is what chooses the batches if it is not the plan's own: a `PersonCyclicPoisson` (then M-2 holds
    for a person), or a `CyclicPoissonSampling`. Independent parts are answered by M-3; parts of equal size by M-3
    where examples keep their places, and refused for adding and removing, which move others. JAX Privacy multiplies its
    noise by the norm of the strategy: a column norm of 1 is what its noise multiplier refers to.
    """
    given = config.noise_multiplier if noise_multiplier is None else noise_multiplier
    if given is None:
        needed = "be given, in the configuration or here: groupdp.calibrate_noise chooses one"
        raise InvalidArgument("noise_multiplier", NOT_SHOWN, needed)
    noise = require_number("noise_multiplier", float(given), at_least=0.0)
    if getattr(config, "column_normalize", False):
        needed = "be False: its matrix is not the Toeplitz matrix of the strategy"
        raise InvalidArgument("column_normalize", True, needed)
    column = np.asarray(config.strategy)
    if column.ndim != 1:
        raise InvalidArgument("strategy", InWords(f"shape {column.shape}"), "be a list of coefficients")
    strategy = BandedToeplitz(tuple(column.astype(np.float64).tolist()))
    steps = require_integer("iterations", config.iterations, at_least=1)
    participation = _participation(config if batch_selection is None else batch_selection, bands=len(column))
    if batch_selection is not None and (batch_selection.iterations, participation.parts) != (steps, len(column)):
        got = InWords(f"{participation.parts} parts and {batch_selection.iterations} iterations")
        needed = f"have the configuration's {len(column)} bands and {steps} iterations"
        raise InvalidArgument("batch_selection", got, needed)
    run = CorrelatedNoise(strategy, participation, noise_multiplier=noise, steps=steps, normalisation="unit-columns")
    # Their noise is the multiplier times the norm in the strategy's own precision, which may be below the exact norm.
    theirs = float(noise * float(np.linalg.norm(column)))
    exact = math.nextafter(theirs / run.column_norm, 0.0)
    if exact >= noise or len(strategy.column) == 1:
        return run
    return CorrelatedNoise(strategy, participation, noise_multiplier=exact, steps=steps, normalisation="unit-columns")


def _participation(selection: Any, *, bands: int) -> CyclicPoisson:
    """Who takes part when, from the fields of a configuration or of a batch selection."""
    if getattr(selection, "truncated_batch_size", None) is not None:
        needed = "be None for correlated noise: no law is proved for batches that are cut"
        raise InvalidArgument("truncated_batch_size", selection.truncated_batch_size, needed)
    if isinstance(selection, PersonCyclicPoisson):
        return CyclicPoisson(parts=selection.cycle_length, rate=selection.sampling_prob, assigned="person")
    name = getattr(getattr(selection, "partition_type", None), "name", None)
    if name not in _ASSIGNED or not hasattr(selection, "sampling_prob"):
        needed = "be cyclic Poisson sampling with parts that are INDEPENDENT or an EQUAL_SPLIT"
        raise InvalidArgument("batch_selection", selection, needed)
    parts = getattr(selection, "cycle_length", bands)
    return CyclicPoisson(parts=parts, rate=float(selection.sampling_prob), assigned=_ASSIGNED[name])
