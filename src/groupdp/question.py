"""From a run and its neighbours to certified bounds: the worst ordered change, each by its best composition.

A question is one composition of rounds for each ordered change, or several that dominate it (compositions.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from groupdp.bounds import Bounds, Provenance
from groupdp.compositions import epsilon_ceiling_of, epsilon_of, log_delta_of
from groupdp.engines import Options, share_of
from groupdp.errors import InvalidArgument, InWords, LimitExceeded, require_integer
from groupdp.mechanisms.mechanism import Mechanism, mechanisms_of
from groupdp.mechanisms.mixture import MixtureOfGaussians
from groupdp.mechanisms.wrappers import with_own_groups
from groupdp.neighbours import ADJACENCIES, Change, Neighbours
from groupdp.pairs import AllocationRound, Composition, Round, compose

#: How one composition is answered.
_Answer = Callable[[Composition, Options], Bounds]
#: Where a curve's composition is chosen; no effect on validity.
_TYPICAL_LOG_DELTA = math.log(1e-6)
#: Above this epsilon compositions are not compared by single large places; no effect on validity.
_LARGEST_COMPARED = 100.0
#: By so much the guide for log delta, of so many places, must be above the target; no effect on validity.
_CLEARLY, _ENOUGH_PLACES = 0.25, 40
#: A coin that is this likely to fall on one side: the same blocks without it are about as good.
_SELDOM = -1e-3


@dataclass(frozen=True, slots=True)
class Question:
    """Compositions by the name of their ordered change, the one that is worse more often first."""

    compositions: tuple[tuple[str, Composition], ...]
    tight: bool
    """Whether every composition is attained."""
    alternatives: tuple[tuple[Composition, ...], ...] = ()
    """For every composition, others that dominate the same change: the smallest answer of them is valid. Or nothing."""

    def options(self, index: int) -> tuple[Composition, ...]:
        """All compositions that dominate one change."""
        return (self.compositions[index][1], *(self.alternatives[index] if self.alternatives else ()))

    def of_mixtures(self, index: int) -> Composition:
        """A composition that dominates one change: of mixtures of Gaussians alone, if there is one."""
        options = self.options(index)
        return next((option for option in options if all(isinstance(part, Round) for part, _ in option)), options[0])

    @property
    def is_empty(self) -> bool:
        """Whether P and Q are identical: no steps, or nobody in the group."""
        return all(not composition for _, composition in self.compositions)


def question_of(
    run: Any,
    *,
    group_size: Any = None,
    adjacency: Any = ADJACENCIES[0],
    removed: Any = None,
    added: Any = None,
    rounds: Any = None,
) -> Question:
    """The compositions that dominate a run, from the keywords of the library's functions.

    A run is a mechanism or a sequence of mechanisms, composed (Ganesh 2024, Lemma 2.4: adaptive composition), with a
    group size, or with the numbers `removed` and `added`. Where a person has another number of examples in some
    release, the sequence has the pair (mechanism, group size) in its place. A `MixtureOfGaussians` on its own comes
    with a number of `rounds` instead of a group size.
    """
    if isinstance(run, MixtureOfGaussians):
        if not (group_size is None and removed is None and added is None):
            given = next(value for value in (group_size, removed, added) if value is not None)
            raise InvalidArgument("group_size", given, "be left out for a MixtureOfGaussians")
        if rounds is None:
            raise InvalidArgument("rounds", None, "be given for a MixtureOfGaussians")
        times = require_integer("rounds", rounds, at_least=0)
        return _question((run,), (Neighbours.of(group_size=1, adjacency=adjacency),), times)
    if rounds is not None:
        raise InvalidArgument("rounds", rounds, "be left out for a run (it has steps)")
    if isinstance(run, Mechanism) and type(group_size) is int and type(adjacency) is str and removed is added is None:
        return _of_one(run, group_size, adjacency)
    run, group_size = with_own_groups(run, group_size)
    return question_about(
        run, neighbours_of(run, group_size=group_size, adjacency=adjacency, removed=removed, added=added)
    )


def question_about(run: Any, neighbours: Neighbours) -> Question:
    """The compositions that dominate a run whose releases all have these neighbours."""
    mechanisms = mechanisms_of(run)
    return _question(mechanisms, (neighbours,) * len(mechanisms))


def neighbours_of(run: Any, **keywords: Any) -> Neighbours:
    """Which datasets a question about the run compares, from the keywords of the library's functions."""
    if isinstance(run, MixtureOfGaussians):
        return Neighbours.of(group_size=1, adjacency=keywords.get("adjacency", ADJACENCIES[0]))
    mechanisms = mechanisms_of(run)
    return Neighbours.of(sources=sources_of(mechanisms), unit=unit_of(mechanisms), **keywords)


def sources_of(mechanisms: tuple[Mechanism, ...]) -> tuple[str, ...] | None:
    """The sources that all mechanisms draw from, None where a group is a number."""
    if len(mechanisms) == 1:
        return mechanisms[0].sources or None
    different = {mechanism.sources for mechanism in mechanisms} - {()}
    if len(different) > 1:
        raise InvalidArgument("run", InWords("phases with different ones"), "draw from the same sources in every phase")
    return next(iter(different), None)


def unit_of(mechanisms: tuple[Mechanism, ...]) -> str:
    """What a group size counts in all of them: examples or people."""
    different = sorted({mechanism.unit for mechanism in mechanisms} - {""})
    if len(different) > 1:
        raise InvalidArgument(
            "run",
            InWords("releases that count examples and releases that count people"),
            "have a group size for each release, like (run, 8), or count the same unit in all of them",
        )
    return different[0] if different else "example"


@lru_cache(maxsize=64)
def _of_one(run: Mechanism, group_size: int, adjacency: str) -> Question:
    """The question about one mechanism, which is asked most often, cached by its arguments."""
    return question_about(run, neighbours_of(run, group_size=group_size, adjacency=adjacency))


@lru_cache(maxsize=64)
def _question(mechanisms: tuple[Mechanism, ...], neighbours: tuple[Neighbours, ...], times: int = 1) -> Question:
    """All releases composed, for each ordered change; every release has neighbours of the same adjacency."""
    for mechanism, own in zip(mechanisms, neighbours, strict=True):
        mechanism.require_adjacency(own.adjacency)
    changes = list(zip(*(own.changes for own in neighbours), strict=True))
    named: dict[tuple[Composition, ...], str] = {}
    for of_releases in changes:
        # A symmetric pair is its own mirror image.
        named.setdefault(_options(mechanisms, of_releases, times), of_releases[0].name)
    return Question(
        tuple((name, options[0]) for options, name in named.items()),
        tight=all(
            mechanism.is_tight(change)
            for of_releases in changes
            for mechanism, change in zip(mechanisms, of_releases, strict=True)
        ),
        alternatives=tuple(options[1:] for options in named) if any(len(options) > 1 for options in named) else (),
    )


def _options(mechanisms: tuple[Mechanism, ...], changes: tuple[Change, ...], times: int) -> tuple[Composition, ...]:
    """Compositions that dominate all releases: of a mechanism with fewer alternatives, the last one again."""
    each = [
        (mechanism.rounds(change), *mechanism.alternatives(change))
        for mechanism, change in zip(mechanisms, changes, strict=True)
    ]
    composed = []
    for index in range(max(len(options) for options in each)):
        rounds = [part for options in each for part in options[min(index, len(options) - 1)]]
        composed.append(compose((one, count * times) for one, count in rounds))
    return tuple(dict.fromkeys(composed))


def epsilon_of_question(
    question: Question, log_delta: float, options: Options, *, every_change: bool = False
) -> Bounds:
    """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta: the worst of the ordered changes."""
    return _worst(
        question,
        options,
        every_change,
        answer=lambda composition, own: epsilon_of(composition, log_delta, own),
        is_below=lambda worst, other: epsilon_ceiling_of(other, log_delta, enough=worst) < worst,
        least=0.0,
        log_delta=log_delta,
    )


def log_delta_of_question(
    question: Question, epsilon: float, options: Options, *, every_change: bool = False
) -> Bounds:
    """Bounds on log delta(epsilon): the worst of the ordered changes."""
    return _worst(
        question,
        options,
        every_change,
        answer=lambda composition, own: log_delta_of(composition, epsilon, own),
        is_below=lambda worst, other: worst > -math.inf and epsilon_ceiling_of(other, worst, enough=epsilon) <= epsilon,
        least=-math.inf,
        log_delta=None,
    )


def _worst(
    question: Question,
    options: Options,
    every_change: bool,
    *,
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
        own = options
        if options.progress is not None:
            own = replace(options, progress=share_of(options.progress, index, len(question.compositions)))
        results[name] = _smallest(choices, answer, own, least if question.tight else None, log_delta)
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
    hidden = math.inf
    for choice in (*choices[1:-1], choices[0], choices[-1]):  # what takes longest, and what is seldom best, last
        if answers and _is_hopeless(choice, min(one.upper for one in answers), log_delta):
            continue
        try:
            answers.append(answer(choice, quick))
            if _most_places((choice,)):
                hidden = min(hidden, answers[-1].upper)
        except LimitExceeded as error:
            refused = refused or error
            bound = None if answers else _chernoff(choice, log_delta)
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


def _is_hopeless(choice: Composition, epsilon: float, log_delta: float | None) -> bool:
    """Whether the epsilon of a composition at `log_delta` is larger, by what a single large place alone contributes; or
    whether a coin hides next to nothing, and takes long. No effect on validity."""
    if any(isinstance(part, AllocationRound) and 0.0 > max(part.log_weights) > _SELDOM for part, _ in choice):
        return True
    if log_delta is None or epsilon > _LARGEST_COMPARED:
        return False
    rounds = [(part, times) for part, times in choice if isinstance(part, AllocationRound) and not part.reverse]
    guides = [part.log_delta_of_one_place(epsilon) for part, _ in rounds]
    if _most_places((choice,)) >= _ENOUGH_PLACES:
        coins = [(part, times) for part, times in rounds if len(part.products) > 1]
        guides += [part.log_delta_beside_one_place(epsilon, times) - _CLEARLY for part, times in coins]
    return max(guides, default=-math.inf) > log_delta


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
