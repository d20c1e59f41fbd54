"""From a question to certified bounds: ordered changes, rounds without noise, the choice of an engine.

A question is one composition of rounds for each ordered change, and its answer is the worst of theirs. Rounds without
noise are answered in closed form (noiseless.py), the noisy rest by an engine, or by the better of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from groupdp import shifted_curves
from groupdp._validation import require_choice, require_integer, require_number
from groupdp.allocations import AllocationRound
from groupdp.bounds import Bounds, Provenance
from groupdp.engines import spectral
from groupdp.engines.interface import DEFAULT_MEMORY, SMALLEST_MEMORY, Progress, share_of
from groupdp.errors import InvalidArgument, LimitExceeded
from groupdp.large_shifts import enclosed_epsilon, enclosed_log_delta
from groupdp.noiseless import Noiseless, epsilon_with, log_delta_with, split
from groupdp.pairs import Composition, lower_composition
from groupdp.question import Question

#: Engines by name; `auto` takes the spectral one where it answers narrowly, and the lattice where not.
ENGINES = ("auto", "spectral", "lattice")
#: Relative slack that covers the few roundings of the closed forms below.
_SLACK = 1e-14
#: Above this a shift has all digits of a double, and so has what it is divided by or into.
_SMALLEST_SHIFT = 1e-290
#: Below this log delta only the bound in closed form is returned.
_CLOSED_FORM_BELOW = -1e6
#: Up to so many rounds of mixtures the contour is not even tried first: their characteristic function hardly falls, and
#: of random questions it answered none.
_FEW = 6
#: Where a curve's composition is chosen; no effect on validity.
_TYPICAL_LOG_DELTA = math.log(1e-6)
#: In `auto`, a result wider than this, and than the tolerance, is intersected with the other engine's.
WIDE = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to compute: the engine, the relative width, the bytes, a progress callback."""

    engine: str = "auto"
    tolerance: float | None = None
    memory_budget: int = DEFAULT_MEMORY
    progress: Progress | None = None


def options_of(
    *, engine: Any, tolerance: Any = None, memory_budget: Any = DEFAULT_MEMORY, progress: Any = None
) -> Options:
    """Validated options."""
    require_choice("engine", engine, ENGINES)
    if tolerance is not None:
        tolerance = require_number("tolerance", tolerance, above=0.0, at_most=1.0)
    budget = require_integer("memory_budget", memory_budget, at_least=SMALLEST_MEMORY)
    if progress is not None and not callable(progress):
        raise InvalidArgument("progress", progress, "be a callable that takes the fraction done, or None")
    return Options(engine=engine, tolerance=tolerance, memory_budget=budget, progress=progress)


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
        chernoff = partial(_chernoff, log_delta=log_delta)
        results[name] = _smallest(choices, partial(epsilon_of, log_delta=log_delta), part, floor, chernoff)
    return _worst(results, question.tight)


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
    return _worst(results, question.tight)


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

    In `auto` only the first one may be answered by the lattice engine, which takes longer. Where the first one is
    attained, others are used only where no engine answers for it, with `floor` for a lower side; else it is None.
    Where no engine answers for a composition, `last_resort` may have an upper side.
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
    answers, refused = [], None
    for index, one in enumerate(choices):
        try:
            answers.append(answer(one, options=quick if index else options))
        except LimitExceeded as error:
            refused = refused or error
            bound = last_resort(one)
            answers += [] if bound is None else [bound]
    if not answers and refused is not None:
        raise refused
    return min(answers, key=lambda one: one.upper)


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


def _worst(results: dict[str, Bounds], tight: bool) -> Bounds:
    """The largest, side by side, with the provenance of the one with the largest upper side."""
    decisive = max(results, key=lambda name: results[name].upper)
    provenance = results[decisive].provenance
    evaluations = dict(provenance.evaluations)
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


def log_delta_of(composition: Composition, epsilon: float, options: Options) -> Bounds:
    """Bounds on log delta(epsilon), for any real epsilon."""
    return _from_both(composition, lambda one: _log_delta_of(one, epsilon, options))


def epsilon_of(composition: Composition, log_delta: float, options: Options) -> Bounds:
    """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta."""
    return _from_both(composition, lambda one: _epsilon_of(one, log_delta, options))


def _from_both(composition: Composition, answer: Callable[[Composition], Bounds]) -> Bounds:
    """The answer; its lower side from the composition for lower sides, if that is another one."""
    found, lower = answer(composition), lower_composition(composition)
    return found if lower is None else replace(found, lower=min(answer(lower).lower, found.upper))


def _log_delta_of(composition: Composition, epsilon: float, options: Options) -> Bounds:
    noisy, noiseless = _split(composition)
    if noiseless is None:
        return _noisy_log_delta(noisy, epsilon, options)
    return log_delta_with(noiseless, epsilon, lambda value: _noisy_log_delta(noisy, value, options))


def _epsilon_of(composition: Composition, log_delta: float, options: Options) -> Bounds:
    noisy, noiseless = _split(composition)
    if noiseless is None:
        return _noisy_epsilon(noisy, log_delta, options)
    return epsilon_with(
        noiseless,
        log_delta,
        lambda value: _noisy_log_delta(noisy, value, options),
        (lambda target: _noisy_epsilon(noisy, target, options)) if noisy else None,
    )


def epsilon_ceiling_of(composition: Composition, log_delta: float, *, enough: float) -> float:
    """A cheap rigorous upper bound on epsilon, to be compared with `enough`; inf where none is at hand."""
    noisy, noiseless = _split(composition)
    if noiseless is not None or not noisy:
        return math.inf
    try:
        return float(spectral.epsilon_ceiling(noisy, log_delta=log_delta, enough=enough))
    except LimitExceeded:
        return math.inf


def _split(composition: Composition) -> tuple[Composition, Noiseless | None]:
    """The noisy rounds, and what those without noise reveal: most questions have none."""
    return (composition, None) if all(one.has_noise for one, _ in composition) else split(composition)


def _noisy_log_delta(noisy: Composition, epsilon: float, options: Options) -> Bounds:
    if not noisy:
        if epsilon >= 0.0:
            return Bounds(-math.inf, -math.inf)
        value = math.log(-math.expm1(epsilon)) if epsilon > -1.0 else math.log1p(-math.exp(epsilon))
        slack = _SLACK * abs(value)
        return Bounds(value - slack, min(value + slack, 0.0))
    if options.engine != "auto":
        return _by_engine(noisy, options, epsilon=epsilon)
    enclosed = enclosed_log_delta(noisy, epsilon)
    if enclosed is not None:
        return enclosed
    ceiling = log_delta_ceiling(noisy, epsilon)
    far = Bounds(-math.inf, ceiling, Provenance(engine="closed form", tolerance_met=False))
    if ceiling < _CLOSED_FORM_BELOW:
        return far
    try:
        bounds = _by_engine(noisy, options, epsilon=epsilon)
        return bounds if bounds.upper <= ceiling else replace(bounds, upper=max(ceiling, bounds.lower))
    except LimitExceeded:
        if ceiling < 0.0:  # a guarantee all the same, of which no more is claimed than it says
            return far
        raise


def _noisy_epsilon(noisy: Composition, log_delta: float, options: Options) -> Bounds:
    if not noisy or log_delta >= _log_distance(noisy):
        return Bounds(0.0, 0.0)
    enclosed = enclosed_epsilon(noisy, log_delta) if options.engine == "auto" else None
    return _by_engine(noisy, options, log_delta=log_delta) if enclosed is None else enclosed


def log_delta_ceiling(noisy: Composition, epsilon: float) -> float:
    """An upper bound on log delta(epsilon) in closed form, 0 if it has nothing to say (P-11).

    With the largest shifts in every round the pair is Gaussian and dominates (anchor lemma), with
    mu^2 = sum_j T_j max over branches (x_max + y_max)_j^2; and delta(eps) <= Phi(mu / 2 - eps / mu) <= e^{-(eps / mu -
    mu / 2)^2 / 2}.
    """
    # hypot: the squares of small shifts have lost their digits, or are 0.
    mu = math.hypot(*(math.sqrt(times) * one.largest_shift for one, times in noisy))
    if not _SMALLEST_SHIFT < mu < math.inf:
        return 0.0
    distance = min((epsilon / mu - mu / 2.0) * (1.0 - 1e-14) - 1e-14 * mu, 1e150)
    return -0.5 * distance * distance * (1.0 - 1e-14) if distance > 0.0 else 0.0


def _log_distance(noisy: Composition) -> float:
    """log of a bound on delta(0) (P-12): every round adds what it can tell apart at most."""
    terms = [math.log(times) + one.log_mass_above_zero for one, times in noisy]
    return (terms[0] if len(terms) == 1 else float(np.logaddexp.reduce(terms))) + 1e-9


def are_few(noisy: Composition) -> bool:
    """Whether `auto` asks the lattice engine first: few rounds, all of mixtures. Plain Gaussians and allocations suit
    the contour."""
    known, rest = shifted_curves.split_known(noisy)
    if any(one.is_gaussian or isinstance(one, AllocationRound) for one, _ in rest):
        return False
    return sum(times for _, times in rest or known) <= _FEW


def suits(engine: str, composition: Composition) -> bool:
    """Whether an engine composes all of these rounds."""
    return all(engine in one.engines for one, _ in composition)


def _by_engine(noisy: Composition, options: Options, *, epsilon: float = 0.0, log_delta: float | None = None) -> Bounds:
    """log delta(epsilon), or the epsilon of a log delta, by the engine asked for; in `auto` by the contour where it is
    short and the lattice where it is not."""

    def by_contour() -> Bounds:
        if known:
            if not rest:
                raise LimitExceeded("known losses alone, without other rounds, are answered by the lattice engine.")
            if log_delta is None:
                return shifted_curves.log_delta(known, rest, epsilon=epsilon)
            return shifted_curves.epsilon(known, rest, log_delta=log_delta)
        if log_delta is None:
            return spectral.log_delta(noisy, epsilon=epsilon)
        return spectral.epsilon(noisy, log_delta=log_delta)

    def by_lattice() -> Bounds:
        from groupdp.engines import lattice  # most calls never need it

        how: dict[str, Any] = {
            "tolerance": options.tolerance,
            "memory_budget": options.memory_budget,
            "progress": options.progress,
        }
        if log_delta is None:
            return lattice.log_delta(noisy, epsilon=epsilon, **how)
        return lattice.epsilon(noisy, log_delta=log_delta, **how)

    known, rest = shifted_curves.split_known(noisy)
    if options.engine == "spectral":
        bounds = by_contour()
    elif options.engine == "lattice" or not suits("spectral", rest or known) or _is_one_round(noisy):
        bounds = by_lattice()
    else:
        wide = max(WIDE, options.tolerance or 0.0)
        first, second = (by_lattice, by_contour) if are_few(noisy) else (by_contour, by_lattice)
        bounds = _better_of(first, second, wide=wide)
    if options.tolerance is None:
        return bounds
    met = bounds.relative_width <= options.tolerance
    return replace(bounds, provenance=replace(bounds.provenance, tolerance=options.tolerance, tolerance_met=met))


def _is_one_round(noisy: Composition) -> bool:
    """Whether the lattice engine's closed form is called for."""
    return len(noisy) == 1 and noisy[0][1] == 1 and are_few(noisy)


def _better_of(first: Callable[[], Bounds], second: Callable[[], Bounds], *, wide: float) -> Bounds:
    """The first engine's bounds; intersected with the second's where they are wide, the second's where it declines."""
    try:
        bounds = first()
    except LimitExceeded:
        return second()
    if bounds.relative_width <= wide:
        return bounds
    try:
        other = second()
    except LimitExceeded:
        return bounds
    narrower = bounds if bounds.width <= other.width else other
    return Bounds(max(bounds.lower, other.lower), min(bounds.upper, other.upper), narrower.provenance)
