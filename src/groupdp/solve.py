"""From a question to certified bounds: the worst of the ordered changes, each the best of what dominates it.

A question is one composition of rounds for each ordered change, or several that dominate it (compositions.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from groupdp.allocations import AllocationRound
from groupdp.bounds import Bounds, Provenance
from groupdp.compositions import Options, epsilon_ceiling_of, epsilon_of, log_delta_of
from groupdp.engines.interface import share_of
from groupdp.errors import LimitExceeded
from groupdp.pairs import Composition
from groupdp.question import Question

#: How one composition is answered.
_Answer = Callable[[Composition, Options], Bounds]
#: Where a curve's composition is chosen; no effect on validity.
_TYPICAL_LOG_DELTA = math.log(1e-6)
#: From so many batches in a block on, contours of heavy tails that decline take seconds. After an answer that its
#: Chernoff bound is so many times as large as, those with a bound that is far above it are not evaluated; no effect on
#: validity.
_MANY_PLACES, _NEARLY, _FAR_ABOVE = 1500, 1.1, 1.3


def epsilon_of_question(
    question: Question, log_delta: float, options: Options, *, every_change: bool = False
) -> Bounds:
    """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta: the worst of the ordered changes."""

    def is_below(worst: float, composition: Composition) -> bool:
        return epsilon_ceiling_of(composition, log_delta, enough=worst) < worst

    def answer(composition: Composition, own: Options) -> Bounds:
        return epsilon_of(composition, log_delta, own)

    return _worst(question, options, every_change, answer, is_below, 0.0, log_delta)


def log_delta_of_question(
    question: Question, epsilon: float, options: Options, *, every_change: bool = False
) -> Bounds:
    """Bounds on log delta(epsilon): the worst of the ordered changes."""

    def is_below(worst: float, composition: Composition) -> bool:
        return worst > -math.inf and epsilon_ceiling_of(composition, worst, enough=epsilon) <= epsilon

    def answer(composition: Composition, own: Options) -> Bounds:
        return log_delta_of(composition, epsilon, own)

    return _worst(question, options, every_change, answer, is_below, -math.inf, None)


def _worst(
    question: Question,
    options: Options,
    every_change: bool,
    answer: _Answer,
    is_below: Callable[[float, Composition], bool],
    least: float,
    log_delta: float | None,
) -> Bounds:
    """The worst of the ordered changes; one whose ceiling `is_below` the worst so far is not evaluated closely."""
    results: dict[str, Bounds] = {}
    for index, (name, _) in enumerate(question.compositions):
        choices = question.options(index)
        if results and options.engine != "lattice" and not every_change:
            worst = max(done.lower for done in results.values())
            if any(is_below(worst, choice) for choice in choices):
                continue
        part = _part_of(options, index, len(question.compositions))
        if len(choices) == 1:
            results[name] = answer(choices[0], part)
        else:
            results[name] = _smallest(choices, answer, part, least if question.tight else None, log_delta)
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
        for choice in choices:
            try:
                uppers[choice] = epsilon_of(choice, _TYPICAL_LOG_DELTA, replace(options, engine="spectral")).upper
            except LimitExceeded:
                continue
        chosen.append(min(uppers, key=uppers.__getitem__, default=first))
    return tuple(chosen)


def _smallest(
    choices: tuple[Composition, ...],
    answer: _Answer,
    options: Options,
    floor: float | None,
    log_delta: float | None,
) -> Bounds:
    """The answer with the smallest upper side, of compositions that all dominate: its lower side is its own.

    In `auto` the lattice engine, which takes longer, answers for the first one alone, and only where the contour
    declines it and no other answer is below Chernoff's bounds. With a `floor` the first one is attained, and the others
    are asked only where no engine answers for it; `floor` is then the lower side. Where no engine answers for the
    epsilon of a composition at `log_delta`, Chernoff's bound may be its upper side.
    """
    if len(choices) == 1:
        return answer(choices[0], options)
    if floor is not None:
        try:
            return answer(choices[0], options)
        except LimitExceeded:
            others = _smallest(choices[1:], answer, options, None, log_delta)
            known = [bound for bound in (others, _chernoff(choices[0], log_delta)) if bound is not None]
            return replace(min(known, key=lambda bound: bound.upper), lower=floor)
    quick = replace(options, engine="spectral") if options.engine == "auto" else options
    answers: list[Bounds] = []
    bounds: list[Bounds] = []
    refused: LimitExceeded | None = None
    slowly = False
    enough = hidden = math.inf
    for choice, bound in _in_order(choices, log_delta):
        if bound is not None and bound.upper > enough:
            continue
        try:
            answers.append(answer(choice, quick))
            if _most_places((choice,)):
                hidden = min(hidden, answers[-1].upper)
            if bound is not None and bound.upper < _NEARLY * answers[-1].upper:
                enough = min(enough, _FAR_ABOVE * answers[-1].upper)
        except LimitExceeded as error:
            refused = refused or error
            bound = bound or _chernoff(choice, log_delta)
            bounds += [] if bound is None else [bound]
            slowly |= choice is choices[0] and options.engine == "auto"
    if slowly and hidden >= min((bound.upper for bound in bounds), default=math.inf):
        try:
            answers.append(answer(choices[0], options))
        except LimitExceeded as error:
            refused = error
    if not answers + bounds and refused is not None:
        raise refused
    return min(answers + bounds, key=lambda bound: bound.upper)


def _in_order(
    choices: tuple[Composition, ...], log_delta: float | None
) -> tuple[tuple[Composition, Bounds | None], ...]:
    """The choices; where a contour that declines takes long, with Chernoff's bounds, the smallest first."""
    if log_delta is None or _most_places(choices) < _MANY_PLACES:
        return tuple((choice, None) for choice in choices)
    bounds = ((choice, _chernoff(choice, log_delta)) for choice in choices)
    return tuple(sorted(bounds, key=lambda pair: math.inf if pair[1] is None else pair[1].upper))


def _most_places(choices: tuple[Composition, ...]) -> int:
    """The most batches in one block."""
    rounds = (part for choice in choices for part, _ in choice if isinstance(part, AllocationRound))
    return max((factor.places for part in rounds for product in part.products for factor, _ in product), default=0)


def _chernoff(composition: Composition, log_delta: float | None) -> Bounds | None:
    """Chernoff's bound on epsilon, of random allocations: rare collisions may be all that is too much for a contour."""
    if log_delta is None or not any(isinstance(round_, AllocationRound) for round_, _ in composition):
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
