"""The per-person view: people contribute different numbers of examples, and each has their own epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from groupdp._validation import require_number, shown
from groupdp.adjacency import LARGEST_GROUP
from groupdp.bounds import Bounds
from groupdp.engines.interface import Progress
from groupdp.errors import InvalidArgument, LimitExceeded
from groupdp.guarantees import epsilon as epsilon_of_run

IntArray = npt.NDArray[np.int64]

#: Most distinct counts computed one by one; beyond, those in between get the bounds of their neighbours.
MOST_COUNTS = 1000
#: Most people accepted.
MOST_PEOPLE = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleView:
    """The epsilon of every distinct number of examples, and how many people have it."""

    delta: float
    adjacency: str
    counts: tuple[int, ...]
    """The distinct numbers of examples, increasing."""

    people: tuple[int, ...]
    """How many people contributed each number."""

    epsilon: tuple[Bounds, ...]
    """Bounds for each; a person's guarantee is the upper side."""

    @property
    def total(self) -> int:
        """How many people there are."""
        return sum(self.people)

    def protected(self, threshold: float) -> int:
        """How many people have a certified epsilon of at most `threshold`."""
        limit = require_number("threshold", threshold, at_least=0.0)
        return sum(n for n, bounds in zip(self.people, self.epsilon, strict=True) if bounds.upper <= limit)

    def quantile(self, share: float) -> float:
        """The smallest certified epsilon that covers this share of the people."""
        wanted = require_number("share", share, above=0.0, at_most=1.0) * self.total
        covered = 0
        for n, bounds in zip(self.people, self.epsilon, strict=True):
            covered += n
            if covered >= wanted * (1.0 - 1e-15):
                return bounds.upper
        return self.epsilon[-1].upper


def people_view(
    run: Any,
    counts: Any,
    *,
    delta: float,
    adjacency: str = "add-or-remove",
    engine: str = "auto",
    progress: Progress | None = None,
) -> PeopleView:
    """The epsilon of each person, from the number of examples each contributed.

    Each person's guarantee is that of a group of their size. With more than 1000 distinct counts, a thousand of them
    are computed and the others bounded by their neighbours: epsilon rises with the group size. Where an engine
    declines a large group, its upper bound is infinite.
    """
    distinct, people = tally(counts)
    chosen = _chosen(distinct)
    found: dict[int, Bounds] = {}
    for done, count in enumerate(chosen):
        try:
            found[count] = epsilon_of_run(run, delta=delta, group_size=count, adjacency=adjacency, engine=engine)
        except LimitExceeded:
            if done == 0:
                raise
        if progress is not None:
            progress((done + 1) / len(chosen))
    known = sorted(found)
    bounds = []
    for count in distinct:
        if count in found:
            bounds.append(found[count])
            continue
        position = int(np.searchsorted(known, count))
        upper = found[known[position]].upper if position < len(known) else math.inf
        lower = found[known[position - 1]].lower if position > 0 else 0.0
        bounds.append(Bounds(min(lower, upper), upper))
    return PeopleView(
        delta=delta, adjacency=adjacency, counts=tuple(distinct), people=tuple(people), epsilon=tuple(bounds)
    )


def tally(counts: Any) -> tuple[list[int], list[int]]:
    """Distinct counts in increasing order, and how many people have each; counts are integers of at least 1."""
    array = counts_of(counts)
    values, people = np.unique(array, return_counts=True)
    return values.tolist(), people.tolist()


def counts_of(counts: Any) -> IntArray:
    """Validated numbers of examples, one per person."""
    try:
        array = np.asarray(counts)
    except (TypeError, ValueError):
        raise InvalidArgument(f"counts must be a sequence of integers, got {shown(counts)}.") from None
    if array.ndim != 1 or array.size == 0:
        raise InvalidArgument(f"counts must be a non-empty one-dimensional sequence, got shape {array.shape}.")
    if array.size > MOST_PEOPLE:
        raise InvalidArgument(f"counts must be of at most {MOST_PEOPLE} people, got {array.size}.")
    if array.dtype.kind not in "iu":
        raise InvalidArgument(
            f"counts must be integers, got {shown(array[0].item() if array.dtype.kind != 'O' else array[0])}."
        )
    smallest, largest = int(array.min()), int(array.max())
    if smallest < 1:
        raise InvalidArgument(f"counts must be at least 1, got {smallest}.")
    if largest > LARGEST_GROUP:
        raise InvalidArgument(f"counts must be at most {LARGEST_GROUP}, got {largest}.")
    return array.astype(np.int64)


def _chosen(distinct: Sequence[int]) -> list[int]:
    """The counts to compute: all, or about a thousand of them in geometric progression."""
    if len(distinct) <= MOST_COUNTS:
        return list(distinct)
    wanted = np.geomspace(distinct[0], distinct[-1], MOST_COUNTS)
    positions = np.unique(np.minimum(np.searchsorted(distinct, wanted), len(distinct) - 1))
    return [distinct[int(i)] for i in sorted({0, *positions.tolist(), len(distinct) - 1})]
