"""Many questions at once: the kernel answers batches of them without the interpreter's lock, on several threads.

Every question gets what `groupdp.epsilon` returns for it: the worst of its ordered changes, where one that provably
does not decide is not evaluated closely. What the kernel does not answer at once goes the ordinary way, one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from groupdp._validation import require_number
from groupdp.bounds import Bounds
from groupdp.compositions import WIDE, plan_of
from groupdp.engines import spectral
from groupdp.errors import GroupDPError
from groupdp.guarantees import epsilon
from groupdp.pairs import Composition
from groupdp.question import Question, question_of
from groupdp.solve import worst_of

#: A run, and the keywords of `epsilon`.
Asked = tuple[Any, Mapping[str, Any]]
#: Questions asked at once at most.
_AT_ONCE = 256
#: Keywords that a question is made from; with others it goes the ordinary way.
_QUESTION = {"group_size", "adjacency", "removed", "added", "rounds", "delta", "tolerance"}


def epsilons(asked: Sequence[Asked], *, threads: int | None = None) -> Iterator[Bounds | GroupDPError]:
    """What `epsilon` returns, or raises, for each question, in order; `threads` is None for one on each processor.

    Ever more are asked at once as long as the kernel answers them; where it does not, the next one is asked alone.
    """
    done, many = 0, 1
    while done < len(asked):
        part = asked[done : done + many]
        quick = quick_epsilons(part, threads=threads) if many > 1 else [None]
        found: Bounds | GroupDPError | None
        for (run, keywords), found in zip(part, quick, strict=True):
            if found is None:
                try:
                    found = epsilon(run, **keywords)
                except GroupDPError as error:
                    found = error
            yield found
        done += len(part)
        many = min(4 * many, _AT_ONCE) if is_quick(found) and (many == 1 or None not in quick) else 1


def is_quick(found: Bounds | GroupDPError | None) -> bool:
    """Whether the kernel gave this answer: it may be asked for more at once."""
    return isinstance(found, Bounds) and found.provenance.engine == "spectral"


def quick_epsilons(asked: Sequence[Asked], *, threads: int | None = None) -> list[Bounds | None]:
    """What the kernel answers at once; None for what takes longer, or is refused."""
    return quick_answers([_question(run, keywords) for run, keywords in asked], threads=threads)


def _question(run: Any, keywords: Mapping[str, Any]) -> tuple[Question, float] | None:
    """The question and log delta; None where it has to go the ordinary way, which says why."""
    if not keywords.keys() <= _QUESTION:
        return None
    try:
        target = math.log(require_number("delta", keywords["delta"], above=0.0, below=1.0))
        about = {name: value for name, value in keywords.items() if name not in ("delta", "tolerance")}
        return question_of(run, **about), target
    except GroupDPError:
        return None


def quick_answers(asked: Sequence[tuple[Question, float] | None], *, threads: int | None = None) -> list[Bounds | None]:
    """The epsilon of each (question, log delta) that the kernel answers at once; None for the others."""
    questions = {
        index: one for index, one in enumerate(asked) if one is not None and spectral.AVAILABLE and _suited(*one)
    }
    found: dict[int, dict[str, Bounds]] = {index: {} for index in questions}
    changes = max((len(question.compositions) for question, _ in questions.values()), default=0)
    for place in range(changes):
        left = [
            (index, *question.compositions[place], target)
            for index, (question, target) in questions.items()
            if index in found and place < len(question.compositions)
        ]
        if place > 0:  # only what may decide: the others are known to be at most the worst one so far
            worst = [max(one.lower for one in found[index].values()) for index, *_ in left]
            screened = [(part, target, enough) for (_, _, part, target), enough in zip(left, worst, strict=True)]
            ceilings = spectral.epsilon_ceilings(screened, threads=threads)
            left = [one for one, high, low in zip(left, ceilings, worst, strict=True) if not high < low]
        answers = spectral.epsilons([(part, target) for _, _, part, target in left], threads=threads)
        for (index, name, _, _), answer in zip(left, answers, strict=True):
            if isinstance(answer, Bounds) and answer.relative_width <= WIDE:
                found[index][name] = answer
            else:
                del found[index]
    return [
        worst_of(found[index], questions[index][0].tight) if index in found else None for index in range(len(asked))
    ]


def _suited(question: Question, target: float) -> bool:
    """Whether `auto` asks the kernel first, and nothing else."""
    if question.alternatives and not question.tight:  # the smallest of several bounds is the answer
        return False
    return all(_suits(composition, target) for _, composition in question.compositions)


def _suits(composition: Composition, target: float) -> bool:
    if not composition:
        return False
    plan = plan_of(composition)
    other_ways = plan.noiseless is not None or plan.lower is not None or plan.enclosed or plan.known
    return not other_ways and plan.order[0] == "spectral" and target < plan.log_distance
