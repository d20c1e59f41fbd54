"""From a question to certified bounds: the worst of the ordered changes, each the best of what dominates it.

A question is one composition of rounds for each ordered change, or several that dominate it (compositions.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

from groupdp.allocations import AllocationRound
from groupdp.bounds import Bounds, Provenance
from groupdp.compositions import Options, epsilon_ceiling_of, epsilon_of, log_delta_of
from groupdp.engines.interface import share_of
from groupdp.errors import LimitExceeded
from groupdp.pairs import Composition
from groupdp.question import Question

#: Where a curve's composition is chosen; no effect on validity.
_TYPICAL_LOG_DELTA = math.log(1e-6)


def epsilon_of_question(
    question: Question, log_delta: float, options: Options, *, every_change: bool = False
) -> Bounds:
    """The worst of the ordered changes; one that provably does not decide is not evaluated closely (Chernoff
    screen)."""
    results: dict[str, Bounds] = {}
    floor = 0.0 if question.tight else None
    for index, (name, _) in enumerate(question.compositions):
        choices = question.options(index)
        if results and options.engine != "lattice" and not every_change:
            worst = max(done.lower for done in results.values())
            if any(epsilon_ceiling_of(one, log_delta, enough=worst) < worst for one in choices):
                continue
        part = _part_of(options, index, len(question.compositions))
        if len(choices) == 1:
            results[name] = epsilon_of(choices[0], log_delta, part)
            continue
        chernoff = partial(_chernoff, log_delta=log_delta)
        results[name] = _smallest(choices, partial(epsilon_of, log_delta=log_delta), part, floor, chernoff)
    return worst_of(results, question.tight)


def log_delta_of_question(
    question: Question, epsilon: float, options: Options, *, every_change: bool = False
) -> Bounds:
    """The worst of the ordered changes; one that provably does not decide is not evaluated closely (Chernoff
    screen): its epsilon at the largest lower side found so far is at most `epsilon`."""
    results: dict[str, Bounds] = {}
    floor = -math.inf if question.tight else None
    for index, (name, _) in enumerate(question.compositions):
        if results and options.engine != "lattice" and not every_change:
            worst = max(done.lower for done in results.values())
            if worst > -math.inf and any(
                epsilon_ceiling_of(one, worst, enough=epsilon) <= epsilon for one in question.options(index)
            ):
                continue
        part = _part_of(options, index, len(question.compositions))
        results[name] = _smallest(question.options(index), partial(log_delta_of, epsilon=epsilon), part, floor)
    return worst_of(results, question.tight)


def decisive_compositions(question: Question, options: Options) -> tuple[Composition, ...]:
    """For every ordered change one of the compositions that dominate it: the one with the smallest epsilon at
    delta = 1e-6, for curves, which are about one composition. Any choice is valid."""
    chosen = []
    for index, (_, first) in enumerate(question.compositions):
        choices = question.options(index)
        if len(choices) == 1 or question.tight:
            chosen.append(first)
            continue
        uppers: dict[Composition, float] = {}
        for one in choices:
            try:
                uppers[one] = epsilon_of(one, _TYPICAL_LOG_DELTA, replace(options, engine="spectral")).upper
            except LimitExceeded:
                continue
        chosen.append(min(uppers, key=uppers.__getitem__, default=first))
    return tuple(chosen)


class _Answer(Protocol):
    def __call__(self, composition: Composition, /, *, options: Options) -> Bounds: ...


def _smallest(
    choices: tuple[Composition, ...],
    answer: _Answer,
    options: Options,
    floor: float | None,
    last_resort: Callable[[Composition], Bounds | None] = lambda _: None,
) -> Bounds:
    """The answer with the smallest upper side, of compositions that all dominate: its lower side is its own.

    In `auto` the lattice engine, which takes longer, answers for the first one alone, and only where the contour
    declines it and no other answer is below its `last_resort`. Where the first one is attained, others are used only
    where no engine answers for it, with `floor` for a lower side; else it is None. Where no engine answers for a
    composition, `last_resort` may have an upper side.
    """
    if len(choices) == 1:
        return answer(choices[0], options=options)
    if floor is not None:
        try:
            return answer(choices[0], options=options)
        except LimitExceeded:
            others = _smallest(choices[1:], answer, options, None, last_resort)
            found = [one for one in (others, last_resort(choices[0])) if one is not None]
            return replace(min(found, key=lambda one: one.upper), lower=floor)
    quick = replace(options, engine="spectral") if options.engine == "auto" else options
    answers: list[Bounds] = []
    bounds: list[Bounds] = []
    refused: LimitExceeded | None = None
    slowly = False
    for index, one in enumerate(choices):
        try:
            answers.append(answer(one, options=quick))
        except LimitExceeded as error:
            refused = refused or error
            bound = last_resort(one)
            bounds += [] if bound is None else [bound]
            slowly |= index == 0 and options.engine == "auto"
    if slowly and min((one.upper for one in answers), default=math.inf) >= min(
        (one.upper for one in bounds), default=0.0
    ):
        try:
            answers.append(answer(choices[0], options=options))
        except LimitExceeded as error:
            refused = error
    if not answers + bounds and refused is not None:
        raise refused
    return min(answers + bounds, key=lambda one: one.upper)


def _chernoff(composition: Composition, *, log_delta: float) -> Bounds | None:
    """Chernoff's bound on epsilon, of random allocations: rare collisions may be all that is too much for a contour."""
    if not any(isinstance(one, AllocationRound) for one, _ in composition):
        return None
    upper = epsilon_ceiling_of(composition, log_delta, enough=0.0)
    return Bounds(0.0, upper, Provenance(engine="spectral", tolerance_met=False)) if upper < math.inf else None


def _part_of(options: Options, index: int, count: int) -> Options:
    """The options of one of `count` compositions: each reports its share of the progress."""
    if options.progress is None:
        return options
    return replace(options, progress=share_of(options.progress, index, count))


def worst_of(results: dict[str, Bounds], tight: bool) -> Bounds:
    """The largest, side by side, with the provenance of the one with the largest upper side."""
    decisive = max(results, key=lambda name: results[name].upper)
    provenance = results[decisive].provenance
    evaluations = provenance.evaluations
    if len(results) > 1:
        evaluations = dict(evaluations)
        for other, result in results.items():
            for name, count in result.provenance.evaluations.items() if other != decisive else ():
                evaluations[name] = evaluations.get(name, 0) + count
    return Bounds(
        max(result.lower for result in results.values()),
        results[decisive].upper,
        Provenance(
            engine=provenance.engine,
            implementation=provenance.implementation,
            adjacency=decisive,
            directions={name: (result.lower, result.upper) for name, result in results.items()},
            evaluations=evaluations,
            tolerance=provenance.tolerance,
            tolerance_met=all(result.provenance.tolerance_met for result in results.values()),
        ),
        tight,
    )
