"""Curves over group sizes: the certified epsilons, and earlier methods."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import groupdp
from groupdp.at_once import quick_epsilons
from groupdp.bounds import Bounds
from groupdp.errors import InvalidArgument, LimitExceeded
from groupdp.web.form import Question, require_classic

Progress = Callable[[float], None]

#: Memory that a lattice may take in one answer, in bytes.
MEMORY = 400_000_000
#: Twice as many sizes are asked at once as long as it takes less than this, in seconds, and one by one where not:
#: a user who moves on must not wait for a whole curve.
_QUICK = 0.02
_MOST_AT_ONCE = 32


def points_of(
    question: Question, sizes: Sequence[int], progress: Progress
) -> Iterator[tuple[int, Bounds | LimitExceeded]]:
    """Bounds on epsilon for every group size; a point that the engines decline does not take the others with it."""
    done, many = 0, 1
    while done < len(sizes):
        begun, part = time.perf_counter(), sizes[done : done + many]
        asked = [
            (question.run, {"delta": question.delta, "group_size": size, "adjacency": question.adjacency})
            for size in part
        ]
        for size, found in zip(part, quick_epsilons(asked, threads=1), strict=True):
            yield size, _one(question, size, progress) if found is None else found
        done += len(part)
        progress(done / len(sizes))
        many = min(2 * many, _MOST_AT_ONCE) if time.perf_counter() - begun < _QUICK else 1


def epsilon_of(question: Question, progress: Progress, **neighbour: Any) -> Bounds:
    """Bounds on epsilon; `neighbour` in place of what the question says of the group."""
    neighbour = {**question.neighbour, **neighbour}
    return groupdp.epsilon(question.run, delta=question.delta, memory_budget=MEMORY, progress=progress, **neighbour)


def _one(question: Question, size: int, progress: Progress) -> Bounds | LimitExceeded:
    try:
        return epsilon_of(question, progress, group_size=size)
    except LimitExceeded as error:
        return error


def baseline_of(name: str, question: Question, sizes: Sequence[int], progress: Progress) -> list[Bounds]:
    """Bounds on the epsilon that the method named gives, for every group size; the old tool's number on both sides."""
    from groupdp.baselines import old_tool_epsilon, renyi_vadhan_epsilon, vadhan_epsilons

    run, delta, adjacency = question.run, question.delta, question.adjacency
    if name == "spread":
        return [_spread(question, size, progress) for size in sizes]
    require_classic(question)
    if name == "vadhan":
        return vadhan_epsilons(
            run, delta=delta, group_sizes=sizes, form="geometric", adjacency=adjacency, progress=progress
        )
    found = []
    for done, size in enumerate(sizes):
        if name == "fdp":
            found.append(groupdp.fdp_epsilon(run, delta=delta, group_size=size, adjacency=adjacency, progress=progress))
        elif name == "renyi":
            found.append(renyi_vadhan_epsilon(run, delta=delta, group_size=size))
        else:
            number = old_tool_epsilon(run, delta=delta, group_size=size)
            found.append(Bounds(number, number))
        progress((done + 1) / len(sizes))
    return found


def _spread(question: Question, size: int, progress: Progress) -> Bounds:
    """The epsilon of a shuffled run with spread allocation in its place."""
    from groupdp.baselines.comparison import spread_instead

    found = spread_instead(
        question.run,
        delta=question.delta,
        group_size=size,
        adjacency=question.adjacency,
        memory_budget=MEMORY,
        progress=progress,
    )
    if found is None:
        raise InvalidArgument("name", "spread", "be asked of a shuffled run")
    return found
