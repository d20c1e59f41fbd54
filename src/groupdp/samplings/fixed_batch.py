"""Batches of one size, drawn without replacement; and what samplings with batches of one size have in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from groupdp.errors import InvalidArgument
from groupdp.fields import BATCH_SIZE, DATASET_SIZE, Field
from groupdp.groups import is_empty
from groupdp.laws import hypergeometric_law
from groupdp.neighbours import ONE_SIDED, SAME_SIZE, Change
from groupdp.pairs import ZERO, Round, Side, SubstitutionEnvelope
from groupdp.samplings.audited import AuditedDataset, fixed_batches
from groupdp.samplings.poisson import counted
from groupdp.samplings.sampling import BoolArray, Rounds, Sampling

#: An example of the group takes another one's place: gradients +e and -e.
_UNIT = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedBatches(Sampling):
    """A sampling with batches of `batch_size` examples of `dataset_size`."""

    batch_size: int
    dataset_size: int

    fields: ClassVar[tuple[Field, ...]] = (BATCH_SIZE, DATASET_SIZE)

    def __post_init__(self) -> None:
        Sampling.__post_init__(self)
        require_batch(self.batch_size, self.dataset_size)

    def share_of_data(self) -> Fraction:
        return Fraction(self.batch_size, self.dataset_size)

    def largest_group(self, adjacency: str) -> int | None:
        return self.dataset_size


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedBatchSampling(SizedBatches):
    """Every round draws `batch_size` of the dataset's examples, uniformly, without replacement.

    `dataset_size` is that of the smaller of two neighbouring datasets, the one without the group; where examples are
    substituted or zeroed, the size of both.
    """

    name: ClassVar[str] = "fixed-batch"
    title: ClassVar[str] = "fixed-size batches"
    meaning: ClassVar[str] = "Every batch is a uniform subset of the dataset, drawn anew in every round."
    adjacencies: ClassVar[tuple[str, ...]] = (*ONE_SIDED, *SAME_SIZE)
    refusals: ClassVar[dict[str, str]] = {
        "add-and-remove": "no bound is proved where some examples leave and others join",
        "exchange": "no bound is proved where some examples leave and another number of them join",
    }
    epsilon_grows_with: ClassVar[tuple[str, ...]] = ("batch_size",)

    def rounds(self, change: Change, *, noise: float, steps: int, microbatches: bool) -> Rounds:
        """2 x Hypergeom(B, n + k, k) against 0 for k removed, and its mirror image (P-4, tight).

        k replaced or zeroed: the envelope P-5, valid. ((Hypergeom, Hypergeom) with N(+i) against N(-i) is not a
        bound, nor is 1 x Hypergeom for zeroed examples, which still take a place.) In microbatches an example of the
        group takes a displaced one's place in one average, so the factor 2 is already there.
        """
        size = counted(change.size)
        if change.keeps_places or not (is_empty(change.removed) or is_empty(change.added)):
            return ((_envelope(self.batch_size, self.dataset_size, size, noise), steps),)
        side = _side(self.batch_size, self.dataset_size, size, noise)
        return ((Round.of(side, ZERO) if is_empty(change.added) else Round.of(ZERO, side), steps),)

    def is_tight(self, change: Change, *, steps: int) -> bool:
        return not change.keeps_places and (is_empty(change.removed) or is_empty(change.added))

    def assumptions(self, *, microbatches: bool) -> tuple[str, ...]:
        return (
            "Every step draws a uniformly random batch of the stated size, without replacement, anew.",
            "The dataset size is public.",
        )

    def sampled_batches(self, generator: np.random.Generator, *, trials: int, dataset_size: int) -> Iterator[BoolArray]:
        while True:
            yield uniform_subsets(generator, self.batch_size, trials, dataset_size)

    def audited_datasets(self, change: Change, *, ordinary_examples: int) -> tuple[AuditedDataset, AuditedDataset]:
        """Whoever is not in the group moves by -1 and the group by +1: attains P-4. Replaced members move like all
        others afterwards, zeroed ones not at all: near P-5.
        """
        size = counted(change.size)
        if change.keeps_places or change.is_substitution:
            others, there = self.dataset_size - size, 0.0 if change.keeps_places else -1.0
        else:
            others, there = self.dataset_size, None
        first, second = (
            AuditedDataset(
                ((-1.0, others), (move or 0.0, 0 if move is None else size)),
                fixed_batches(
                    self.batch_size, others, 0 if move is None else size, ordinary_move=-1.0, group_move=move or 0.0
                ),
            )
            for move in (1.0, there)
        )
        return (second, first) if is_empty(change.removed) else (first, second)

    def largest_group(self, adjacency: str) -> int | None:
        return self.dataset_size - (self.batch_size if adjacency in SAME_SIZE else 0)


def require_batch(batch_size: int, dataset_size: int) -> None:
    """Refuse a batch that is larger than the dataset."""
    if batch_size > dataset_size:
        raise InvalidArgument("batch_size", batch_size, f"be at most dataset_size={dataset_size}")


@lru_cache(maxsize=64)
def _side(batch_size: int, dataset_size: int, size: int, noise: float) -> Side:
    if size > dataset_size:
        raise InvalidArgument("group_size", size, f"be at most dataset_size={dataset_size}")
    return _sensitivities(batch_size, dataset_size, size).divided(noise)


@lru_cache(maxsize=64)
def _sensitivities(batch_size: int, dataset_size: int, size: int) -> Side:
    law = hypergeometric_law(batch_size, dataset_size, size)
    return Side.from_sensitivities(_UNIT * np.arange(len(law[0]), dtype=np.float64), law, 1.0)


@lru_cache(maxsize=64)
def _envelope(batch_size: int, dataset_size: int, size: int, noise: float) -> SubstitutionEnvelope:
    if size > dataset_size - batch_size:
        most = f"be at most dataset_size - batch_size = {dataset_size - batch_size}"
        raise InvalidArgument("group_size", size, f"{most} for {' and '.join(SAME_SIZE)}")
    law = hypergeometric_law(batch_size, dataset_size - size, size)
    return SubstitutionEnvelope(Side.from_sensitivities(_UNIT * np.arange(len(law[0]), dtype=np.float64), law, noise))


def uniform_subsets(generator: np.random.Generator, batch_size: int, trials: int, dataset_size: int) -> BoolArray:
    """Selection sampling (Knuth, volume 2, algorithm S): exactly uniform, in integer arithmetic.

    With r examples left to see and b places left, the next one enters with probability b / r.
    """
    require_batch(batch_size, dataset_size)
    included = np.empty((dataset_size, trials), dtype=np.bool_)
    places = np.full(trials, batch_size, dtype=np.int64)
    for position in range(dataset_size):
        np.less(generator.integers(0, dataset_size - position, size=trials), places, out=included[position])
        places -= included[position]
    return included.T
