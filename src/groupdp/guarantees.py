"""The three questions: epsilon for a delta, delta for an epsilon, and its logarithm; and many epsilons at a time.

Formal guarantee. Let D and D' be neighbouring datasets (neighbours.py) that differ by up to `group_size` examples, and
let M be the run described, releasing every iterate. Then for every event E

    P(M(D) in E) <= e^epsilon P(M(D') in E) + delta,

with the `upper` side of what is returned here. If it says `tight`, no smaller value than the `lower` side holds for
every loss and dataset (Ganesh 2024, Theorems 3.1 and 3.3 and section 3.3; docs/internals/laws.md); if not, it is a
bound on this analysis.

`epsilons` asks the kernel batches of questions, on several threads and without the interpreter's lock. The answers are
those of `epsilon`; an ordered change that provably does not decide is not evaluated closely. Questions that the kernel
does not answer at once are asked one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from groupdp.bounds import Bounds
from groupdp.compositions import WIDE, plan_of
from groupdp.engines import DEFAULT_MEMORY, Progress, options_of, spectral
from groupdp.errors import GroupDPError, require_number
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.neighbours import BACKWARD, ONE_SIDED
from groupdp.pairs import Composition
from groupdp.question import Question, epsilon_of_question, log_delta_of_question, question_of, worst_of
from groupdp.samplings.poisson import PoissonSampling

#: Draws up to which the probability that one of the group is sampled is computed as a rational number.
_MOST_DRAWS = 256


def epsilon(
    run: Any,
    *,
    delta: float,
    group_size: Any = None,
    adjacency: str = "add-or-remove",
    removed: Any = None,
    added: Any = None,
    rounds: int | None = None,
    engine: str = "auto",
    tolerance: float | None = None,
    memory_budget: int = DEFAULT_MEMORY,
    progress: Progress | None = None,
    every_change: bool = False,
) -> Bounds:
    """Bounds on the smallest epsilon >= 0 such that the run is (epsilon, delta)-DP for groups of `group_size`.

    `run` is a mechanism, like a `DPSGD` or a `GaussianRelease`, or a sequence of mechanisms, composed; in a sequence a
    pair (mechanism, group size) stands for a release in which a person has another number of examples. A
    `MixtureOfGaussians` on its own takes a number of `rounds` instead of a group size. With `removed` and `added` in
    place of a group size, `removed` examples leave and `added` join, in either order. delta_upper(upper) <= delta is
    certified, and delta_lower(lower) >= delta unless lower is 0. Infinite where no finite epsilon exists (no noise).

    `tolerance` asks for a width relative to epsilon; `provenance.tolerance_met` says whether it was
    reached. `memory_budget` is how many bytes the lattice engine may take for its transforms (the spectral engine needs
    no more than 400 MB): the less, the coarser its lattice may have to be. `progress` is called with the fraction done
    by computations of more than a moment; an exception raised in it stops them. `every_change` evaluates every ordered
    change closely (`provenance.directions`), also those that provably do not decide the answer.
    """
    question = question_of(run, group_size=group_size, adjacency=adjacency, removed=removed, added=added, rounds=rounds)
    target = math.log(require_number("delta", delta, above=0.0, below=1.0))
    options = options_of(engine=engine, tolerance=tolerance, memory_budget=memory_budget, progress=progress)
    found = epsilon_of_question(question, target, options, every_change=every_change)
    if found.upper == math.inf > found.lower and adjacency in ONE_SIDED and type(group_size) is int:
        exact = _without_noise(run, float(delta), group_size, adjacency)
        return found if exact is None else replace(found, lower=exact, upper=exact)
    return found


def _without_noise(run: Any, delta: float, group_size: int, adjacency: str) -> float | None:
    """Epsilon where the group is sampled with probability delta or next to it, beyond what log delta can tell (P-10).

    Without noise P and Q are at distance s = 1 - (1 - q)^{kT}, a rational number. Epsilon is 0 if delta >= s; if not,
    removal has no finite epsilon.
    """
    if not (isinstance(run, DPSGD) and isinstance(run.sampling, PoissonSampling) and run.noise_multiplier == 0.0):
        return None
    draws = group_size * run.steps
    if draws > _MOST_DRAWS:
        return None
    if Fraction(delta) >= 1 - (1 - Fraction(run.sampling.rate)) ** draws:
        return 0.0
    return None if adjacency == BACKWARD else math.inf


def log_delta(
    run: Any,
    *,
    epsilon: float,
    group_size: Any = None,
    adjacency: str = "add-or-remove",
    removed: Any = None,
    added: Any = None,
    rounds: int | None = None,
    engine: str = "auto",
    tolerance: float | None = None,
    memory_budget: int = DEFAULT_MEMORY,
    progress: Progress | None = None,
    every_change: bool = False,
) -> Bounds:
    """Bounds on log delta(epsilon), also where delta is far below the smallest double; -inf where delta is 0.

    `every_change` evaluates every ordered change, also those that provably do not decide.
    """
    question = question_of(run, group_size=group_size, adjacency=adjacency, removed=removed, added=added, rounds=rounds)
    target = require_number("epsilon", epsilon, at_least=0.0)
    options = options_of(engine=engine, tolerance=tolerance, memory_budget=memory_budget, progress=progress)
    return log_delta_of_question(question, target, options, every_change=every_change)


def delta(run: Any, *, epsilon: float, **options: Any) -> Bounds:
    """Bounds on delta(epsilon); where it underflows, [0, smallest double]: use `log_delta` there.

    Takes the options of `log_delta`.
    """
    return exponential(log_delta(run, epsilon=epsilon, **options))


def exponential(logarithm: Bounds) -> Bounds:
    """Bounds on delta from bounds on log delta."""
    return replace(logarithm, lower=exp_down(logarithm.lower), upper=exp_up(logarithm.upper))


def exp_up(logarithm: float) -> float:
    """e^logarithm, rounded up; never above 1 for a logarithm that is not positive."""
    if logarithm == -math.inf:
        return 0.0
    value = math.exp(logarithm) * (1.0 + 4.0 * 2.0**-52)
    value = math.nextafter(value, math.inf)
    return min(value, 1.0) if logarithm <= 0.0 else value


def exp_down(logarithm: float) -> float:
    """e^logarithm, rounded down."""
    if logarithm == -math.inf:
        return 0.0
    return max(math.nextafter(math.exp(logarithm) * (1.0 - 4.0 * 2.0**-52), -math.inf), 0.0)


#: A run, and the keywords of `epsilon`.
Asked = tuple[Any, Mapping[str, Any]]
#: Questions asked at once at most.
_AT_ONCE = 256
#: Keywords that a question is made from; with others it goes the ordinary way.
_QUESTION = {"group_size", "adjacency", "removed", "added", "rounds", "delta", "tolerance"}


def epsilons(asked: Sequence[Asked], *, threads: int | None = None) -> Iterator[Bounds | GroupDPError]:
    """What `epsilon` returns, or raises, for each question, in order; `threads` is None for one on each processor.

    Batches grow as long as the kernel answers them; where it does not, the next question is asked alone.
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
