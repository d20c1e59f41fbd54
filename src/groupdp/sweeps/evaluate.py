"""Certified epsilons for many points: the kernel answers batches without the interpreter's lock.

Every point gets exactly what `groupdp.epsilon` returns for it: the worst of its ordered changes, where one that
provably does not decide is not evaluated closely. What the kernel declines goes the ordinary way, one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from groupdp.bounds import Bounds
from groupdp.engines import spectral
from groupdp.errors import GroupDPError, LimitExceeded
from groupdp.pairs import Composition, lower_composition
from groupdp.question import Question, question_of
from groupdp.solve import WIDE, Options, are_few, epsilon_of_question, suits
from groupdp.sweeps.grid import Point

#: (lower, upper, tight), or the sentence of a refusal.
Outcome = tuple[float, float, bool] | str


def evaluate(points: Sequence[Point]) -> list[Outcome]:
    """Bounds for every point, in order."""
    questions: list[Question | str] = []
    for point in points:
        if point.refused is not None:
            questions.append(point.refused)
            continue
        run = point.run if len(point.run) > 1 else point.run[0]
        try:
            questions.append(question_of(run, group_size=point.group_size, adjacency=point.adjacency))
        except GroupDPError as error:
            questions.append(str(error))
    quick = quick_answers(questions, [math.log(point.delta) for point in points])
    return [
        _outcome(question, math.log(point.delta), quick.get(index))
        for index, (point, question) in enumerate(zip(points, questions, strict=True))
    ]


def _outcome(question: Question | str, log_delta: float, quick: Bounds | None) -> Outcome:
    if isinstance(question, str):
        return question
    try:
        found = quick if quick is not None else epsilon_of_question(question, log_delta, Options())
    except GroupDPError as error:
        return str(error)
    return found.lower, found.upper, question.tight


def quick_answers(questions: Sequence[Question | str], targets: Sequence[float]) -> dict[int, Bounds]:
    """What the kernel answers at once, by the question's position: bounds on epsilon for a log delta."""
    found: dict[int, Bounds] = {}
    if not spectral.AVAILABLE:
        return found
    suited = [
        (index, question, targets[index])
        for index, question in enumerate(questions)
        if isinstance(question, Question)
        and (question.tight or not question.alternatives)  # else the smallest of several bounds is the answer
        and all(_suits(composition) for _, composition in question.compositions)
    ]
    answers = spectral.epsilons([(question.compositions[0][1], target) for _, question, target in suited])
    for (index, _, _), answer in zip(suited, answers, strict=True):
        if isinstance(answer, Bounds) and answer.relative_width <= WIDE:
            found[index] = answer
    others = [
        (index, composition, target)
        for index, question, target in suited
        if index in found
        for _, composition in question.compositions[1:]
    ]
    ceilings = spectral.epsilon_ceilings(
        (composition, target, found[index].lower) for index, composition, target in others
    )
    for (index, composition, target), ceiling in zip(others, ceilings, strict=True):
        worst = found.get(index)
        if worst is None or ceiling < worst.lower:
            continue
        with_other = _with_other(worst, composition, target)
        if with_other is None:
            del found[index]
        else:
            found[index] = with_other
    return found


def _suits(composition: Composition) -> bool:
    """Whether the kernel is what `auto` would ask first."""
    return (
        len(composition) > 0
        and suits("spectral", composition)
        and all(one.has_noise for one, _ in composition)
        and lower_composition(composition) is None
        and not are_few(composition)
    )


def _with_other(worst: Bounds, composition: Composition, target: float) -> Bounds | None:
    try:
        other = spectral.epsilon(composition, log_delta=target)
    except LimitExceeded:
        return None
    if other.relative_width > WIDE:
        return None
    return Bounds(max(worst.lower, other.lower), max(worst.upper, other.upper))
