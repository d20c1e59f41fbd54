"""What a dataset's people get, and how many examples of each to keep. Here: everybody's own epsilon.

counts_file.py   numbers of examples per person from a file
cap.py           how many examples per person to keep
plan.py          which way to sample: examples, people, or every example once an epoch
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from groupdp.bounds import Bounds
from groupdp.engines import Progress, work_done
from groupdp.errors import LARGEST_COUNT, InvalidArgument, InWords, LimitExceeded, require_number
from groupdp.floats import IntArray
from groupdp.groups import LARGEST_GROUP
from groupdp.guarantees import epsilon as epsilon_of_run
from groupdp.guarantees import is_quick, quick_epsilons
from groupdp.mechanisms.mechanism import mechanisms_of
from groupdp.mechanisms.wrappers import require_one_group
from groupdp.neighbours import SAME_SIZE
from groupdp.question import unit_of

#: Most work done count by count, in units of about 7 microseconds: a group of k takes 150 + k of them. Beyond, some
#: counts get the bounds of their neighbours. No effect on validity: epsilon rises with the group size.
MOST_WORK = 150_000
#: When there is more, counts far below this are still all computed, and those far above it ever more sparsely.
_SPARSE = 5_000
#: A larger epsilon protects nobody: larger counts are not computed and count as not protected.
LARGEST_EPSILON = 1e5
#: The lattice engine takes a second or so for a count. With more distinct counts than this, those it answers are this
#: factor apart, and their bounds this wide.
_FEW = 40
_APART = 1.25
_TOLERANCE = 1e-5
#: Work after which no further count is computed (engines/__init__.py): about five minutes.
LARGEST_VIEW = 3_000_000_000
#: Counts that are asked for at once.
_AT_ONCE = 32
#: Most people accepted.
MOST_PEOPLE = 1_000_000_000


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

    @property
    def tight(self) -> bool:
        """Whether no valid guarantee is below the lower sides; otherwise these bound this analysis only."""
        return all(bounds.tight for bounds in self.epsilon)

    @property
    def unprotected(self) -> int:
        """How many people have more examples than can be accounted for, and so have no guarantee."""
        return sum(n for n, bounds in zip(self.people, self.epsilon, strict=True) if bounds.upper == math.inf)

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
    """The epsilon of each person, from the number of examples each contributed (or a `groupdp.data.Counts`).

    Each person's guarantee is that of a group of their size. With very many distinct or large counts only some of
    them are computed and the others bounded by their neighbours: epsilon rises with the group size. The upper bound is
    infinite beyond the largest group, 100 000, where an engine declines, and for more examples than a number whose
    epsilon is certainly above 100 000.
    """
    require_one_group(run)
    if unit_of(mechanisms_of(run)) == "person":
        reason = "where people are sampled everybody has the epsilon of group_size=1"
        raise InvalidArgument("run", InWords("one that samples people"), "sample examples", reason)
    require_one_owner(counts, adjacency)
    distinct, people = (part.tolist() for part in histogram_of(counts))
    asked: dict[str, Any] = {"delta": delta, "adjacency": adjacency, **({} if engine == "auto" else {"engine": engine})}
    chosen = _chosen([count for count in distinct if count <= LARGEST_GROUP] or [1])
    epsilons = _epsilons(run, chosen, asked, progress)
    known, tight = sorted(epsilons), all(bounds.tight for bounds in epsilons.values())
    # Counts between the same two known ones have the same bounds.
    shared: dict[int, Bounds] = {}
    bounds = []
    for count, place in zip(distinct, np.searchsorted(known, distinct).tolist(), strict=True):
        answer = epsilons.get(count) or shared.get(place)
        if answer is None:
            upper = epsilons[known[place]].upper if place < len(known) else math.inf
            lower = epsilons[known[place - 1]].lower if place > 0 else 0.0
            answer = shared[place] = Bounds(min(lower, upper), upper, tight=tight)
        bounds.append(answer)
    return PeopleView(
        delta=delta, adjacency=adjacency, counts=tuple(distinct), people=tuple(people), epsilon=tuple(bounds)
    )


def _epsilons(run: Any, chosen: list[int], asked: dict[str, Any], progress: Progress | None) -> dict[int, Bounds]:
    """The epsilons of the chosen counts, up to the first above LARGEST_EPSILON; without those an engine declines."""
    answers: dict[int, Bounds] = {}
    tolerance, slow = _TOLERANCE if len(chosen) > _FEW else None, 0
    most_work = work_done() + LARGEST_VIEW
    quick: dict[int, Bounds | None] = {}
    many = 1
    for done, count in enumerate(chosen):
        if count not in quick and many > 1:  # the next counts, more at once as long as the kernel answers
            part = [size for size in chosen[done : done + many] if size <= 2 * count]
            batch = quick_epsilons([(run, {**asked, "group_size": size}) for size in part])
            quick = dict(zip(part, batch, strict=True))
        following = chosen[min(done + 1, len(chosen) - 1)]
        if tolerance is not None and slow and count < following <= _APART * slow:
            continue  # bounded by its neighbours
        if work_done() > most_work:
            raise LimitExceeded(
                f"the people's epsilons were not found within the limit of {LARGEST_VIEW:.3g} operations: "
                f"{len(answers)} of {len(chosen)} numbers of examples were done, up to {max(answers, default=0)}."
            )
        try:
            answer = quick.get(count)
            if answer is None:
                answer = epsilon_of_run(run, **asked, group_size=count, tolerance=tolerance)
            answers[count] = answer
            many = min(2 * many, _AT_ONCE) if is_quick(answer) else 1
            slow = count if answer.provenance.engine == "lattice" else 0
        except LimitExceeded:
            if done == 0:
                raise
        if progress is not None:
            progress((done + 1) / len(chosen))
        if count in answers and answers[count].lower > LARGEST_EPSILON:
            break
    return answers


def require_one_owner(counts: Any, adjacency: str) -> None:
    """Refuse counts of records with several owners under an adjacency that changes who owns what."""
    if getattr(counts, "records", None) is not None and adjacency not in SAME_SIZE:
        needed = f"be {' or '.join(SAME_SIZE)} where records have several owners"
        reason = "removing a person would change which records of their co-owners are kept"
        raise InvalidArgument("adjacency", adjacency, needed, reason)


def histogram_of(counts: Any) -> tuple[IntArray, IntArray]:
    """Distinct counts in increasing order, and how many people have each; counts are integers of at least 1.

    `counts` are numbers of examples, one per person, or their histogram (`data.Counts`).
    """
    if hasattr(counts, "examples") and hasattr(counts, "people_with"):
        return counts.examples, counts.people_with
    try:
        array = np.asarray(counts)
    except (TypeError, ValueError):
        raise InvalidArgument("counts", counts, "be a sequence of integers") from None
    if array.ndim != 1:
        raise InvalidArgument("counts", InWords(f"shape {array.shape}"), "be a non-empty one-dimensional sequence")
    return histogram_of_parts([array])


def histogram_of_parts(parts: Iterable[npt.NDArray[Any]]) -> tuple[IntArray, IntArray]:
    """The histogram of numbers of examples, one per person, that come in several arrays; validated."""
    people, sorted_parts, total = np.zeros(0, dtype=np.int64), [], 0
    for part in parts:
        if part.size and part.dtype.kind not in "iu":
            raise InvalidArgument("counts", part[0].item() if part.dtype.kind != "O" else part[0], "be integers")
        total += part.size
        if total > MOST_PEOPLE:
            raise InvalidArgument("counts", InWords(total), f"be of at most {MOST_PEOPLE} people")
        smallest, largest = (int(part.min()), int(part.max())) if part.size else (1, 1)
        if smallest < 1:
            raise InvalidArgument("counts", InWords(smallest), "be at least 1")
        if largest > LARGEST_COUNT:
            raise InvalidArgument("counts", InWords(largest), f"be at most {LARGEST_COUNT}")
        part = part.astype(np.int64, copy=False)
        if largest > max(1000, 4 * part.size):  # counting would take more memory and time than sorting
            sorted_parts.append(np.unique(part, return_counts=True))
            continue
        counted = np.bincount(part, minlength=len(people))
        counted[: len(people)] += people
        people = counted
    if not total:
        raise InvalidArgument("counts", InWords("shape (0,)"), "be a non-empty one-dimensional sequence")
    values = np.flatnonzero(people)
    sorted_parts.append((values, people[values]))
    values, place = np.unique(np.concatenate([part for part, _ in sorted_parts]), return_inverse=True)
    numbers = np.zeros(len(values), dtype=np.int64)
    np.add.at(numbers, place, np.concatenate([part for _, part in sorted_parts]))
    return values, numbers


def _chosen(distinct: Sequence[int]) -> list[int]:
    """The counts to compute: all if that is quick, else ever fewer of the large ones."""
    if sum(150 + count for count in distinct) <= MOST_WORK:
        return list(distinct)
    chosen = [distinct[0]]
    for before, count in pairwise([*distinct, math.inf]):
        if count > chosen[-1] * (1.0 + chosen[-1] / _SPARSE) and before > chosen[-1]:
            chosen.append(int(before))
    return chosen if chosen[-1] == distinct[-1] else [*chosen, distinct[-1]]
