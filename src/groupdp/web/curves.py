"""Curves over group sizes: the certified epsilons, and earlier methods."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import groupdp
from groupdp.bounds import Bounds
from groupdp.errors import GroupDPError, LimitExceeded
from groupdp.question import question_of
from groupdp.sweeps.evaluate import quick_answers
from groupdp.web.description import Question
from groupdp.web.inputs import require_classic

Progress = Callable[[float], None]

#: Memory that a lattice may take in one answer, in bytes.
MEMORY = 400_000_000
#: Twice as many sizes are asked at once as long as it takes less than this, in seconds, and one by one where not:
#: whoever moves on must not wait for a whole curve.
_QUICK = 0.02
_MOST_AT_ONCE = 32


def points_of(
    question: Question, sizes: Sequence[int], progress: Progress
) -> Iterator[tuple[int, Bounds | LimitExceeded]]:
    """Bounds on epsilon for every group size; a point that the engines decline does not take the others with it."""
    done, many = 0, 1
    while done < len(sizes):
        begun, part = time.perf_counter(), sizes[done : done + many]
        quick = _at_once(question, part) if many > 1 else {}
        for size in part:
            found = quick.get(size)
            yield size, _one(question, size, progress) if found is None else found
        done += len(part)
        progress(done / len(sizes))
        many = min(2 * many, _MOST_AT_ONCE) if time.perf_counter() - begun < _QUICK else 1


def _at_once(question: Question, sizes: Sequence[int]) -> dict[int, Bounds]:
    """What the kernel answers in one call, by group size."""
    try:
        asked = [question_of(question.run, group_size=size, adjacency=question.adjacency) for size in sizes]
    except GroupDPError:  # one by one they say which it is, and why
        return {}
    found = quick_answers(asked, [math.log(question.delta)] * len(sizes))
    return {sizes[index]: replace(bounds, tight=asked[index].tight) for index, bounds in found.items()}


def _one(question: Question, size: int, progress: Progress) -> Bounds | LimitExceeded:
    try:
        return groupdp.epsilon(
            question.run,
            delta=question.delta,
            group_size=size,
            adjacency=question.adjacency,
            memory_budget=MEMORY,
            progress=progress,
        )
    except LimitExceeded as error:
        return error


def baseline_of(name: str, question: Question, sizes: Sequence[int], progress: Progress) -> list[Bounds]:
    """Bounds on the epsilon that the method named gives, for every group size; the old tool's number on both sides."""
    from groupdp.baselines import old_tool_epsilon, renyi_vadhan_epsilon, vadhan_epsilons

    run, delta, adjacency = question.run, question.delta, question.adjacency
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
