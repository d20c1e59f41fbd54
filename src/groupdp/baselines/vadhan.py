"""Vadhan's lemma on the exact example-level curve, and the linear reference.

These are what one had before: certified, so that the comparison is honest, and in log space, so that they are
finite wherever the mathematics is (the intermediate delta' may be e^-100000).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from groupdp._validation import require_choice, require_integer, require_number
from groupdp.baselines.growth import FORMS, Form, Growth
from groupdp.baselines.one_example import Composition, example_composition, require_one_sided
from groupdp.baselines.renyi import best_example_epsilon
from groupdp.baselines.smallest_feasible import Curve, Problem, smallest_feasible
from groupdp.bounds import Bounds, Provenance
from groupdp.engines.interface import Progress
from groupdp.errors import LimitExceeded
from groupdp.groups import LARGEST_GROUP
from groupdp.guarantees import epsilon
from groupdp.neighbours import BACKWARD
from groupdp.pairs import Composition as Pairs
from groupdp.question import question_of
from groupdp.solve import Options, log_delta_of, options_of

#: Beyond this epsilon of one example the upper bound is Chernoff's: there within a percent, and instant.
LARGEST_EXACT = 1e4
#: Close enough for six figures, wherever the search for the root began.
SIX_FIGURES = 1e-7


def vadhan_epsilon(
    run: Any,
    *,
    delta: float,
    group_size: int,
    form: Form = "lemma",
    adjacency: str = "add-or-remove",
    engine: str = "auto",
) -> Bounds:
    """The best epsilon for groups of k that Vadhan's lemma draws from the exact curve of one example.

        k eps,  for the smallest eps with  growth(eps) delta_1(eps) <= delta

    `form` "lemma" takes growth = k e^{k eps} as stated, "geometric" the sharper 1 + e^eps + ... + e^{(k-1) eps} of its
    proof. `upper` is a valid guarantee; `lower` bounds what the lemma can give, not the true privacy. A group of
    one needs no lemma and gets epsilon itself. The adjacency is add-or-remove, add or remove.

    `upper` is infinite where no finite epsilon exists (no noise) or none could be certified. Where the lemma's
    epsilon explodes (thousands), `lower` may be far below `upper`: see `smallest_feasible`.
    """
    return vadhan_epsilons(run, delta=delta, group_sizes=(group_size,), form=form, adjacency=adjacency, engine=engine)[
        0
    ]


def vadhan_epsilons(
    run: Any,
    *,
    delta: float,
    group_sizes: Sequence[int],
    form: Form = "lemma",
    adjacency: str = "add-or-remove",
    engine: str = "auto",
    intervals: int = 60,
    tolerance: float = 1e-13,
    progress: Progress | None = None,
) -> list[Bounds]:
    """`vadhan_epsilon` for several group sizes, sharing the values of the example's curve and the proofs.

    What is infeasible for a group is infeasible for a larger one, so a proof continues where the last one ended.
    `intervals` limits the effort that goes into lower bounds, `tolerance` (relative) that into upper bounds.
    """
    sizes = [require_integer("group_size", size, at_least=0, at_most=LARGEST_GROUP) for size in group_sizes]
    log_target = math.log(require_number("delta", delta, above=0.0, below=1.0))
    require_choice("form", form, FORMS)
    require_one_sided(adjacency)
    composition = example_composition(run)
    # Dozens of values are needed: the contour's take milliseconds, and where it has none Chernoff's bound stands.
    chosen = "spectral" if engine == "auto" and sum(rounds for _, rounds in composition) > 1 else engine
    curves = _curves(run, adjacency, chosen)
    results: dict[int, Bounds] = {}
    proved, near = 0.0, None
    for done, size in enumerate(sorted(set(sizes))):
        if progress is not None:
            progress(done / len(set(sizes)))
        if size <= 1 or not composition:
            results[size] = epsilon(run, delta=delta, group_size=size, adjacency=adjacency, engine=engine)
            continue
        if adjacency != BACKWARD and _log_revealed(composition) + math.log(size) - log_target > 1e-12:
            results[size] = Bounds(math.inf, math.inf, Provenance(engine="exact"))
            continue
        growth = Growth(form, size)
        ceiling, order = best_example_epsilon(composition, growth, log_target, near=near, enough=LARGEST_EXACT)
        near = order - 1.0 - growth.steepest if ceiling < math.inf else None
        cost = 0
        for curve in curves.values():
            problem = Problem(curve, growth, log_target)
            example = smallest_feasible(
                problem,
                feasible=ceiling,
                decline=order - 1.0 - growth.steepest,
                proved=proved,
                intervals=intervals,
                tolerance=tolerance,
            )
            proved = example.lower
            cost += len(problem.known)
            # Removing is the worse direction almost always, and what is infeasible for it is infeasible for both:
            # then one value of both directions, at the end, confirms that the upper bound is feasible for both.
            if example.upper == ceiling or _is_feasible(curves[adjacency], growth, log_target, example.upper):
                break
        found = multiple(example, size)
        results[size] = Bounds(
            found.lower, found.upper, Provenance(engine="vadhan", evaluations={"values of delta": cost})
        )
    return [results[size] for size in sizes]


def vadhan_uppers(
    run: Any, *, delta: float, group_sizes: Sequence[int], adjacency: str, progress: Progress | None = None
) -> list[float]:
    """The upper sides alone, of the sharper form, right to six figures up to epsilons of 10 000 per example."""
    found = vadhan_epsilons(
        run,
        delta=delta,
        group_sizes=group_sizes,
        form="geometric",
        adjacency=adjacency,
        intervals=0,
        tolerance=SIX_FIGURES,
        progress=progress,
    )
    return [bounds.upper for bounds in found]


def _curves(run: Any, adjacency: str, engine: str) -> dict[str, Curve]:
    """log delta of one example: of the ordered change that is worse almost always, and the worst of all."""
    named = question_of(run, group_size=1, adjacency=adjacency).compositions
    options = options_of(engine=engine)
    single = [_single_curve(composition, options) for _, composition in named]

    def worst(at: float) -> Bounds:
        found = [curve(at) for curve in single]
        return Bounds(max(one.lower for one in found), max(one.upper for one in found))

    return {named[0][0]: single[0], adjacency: worst}


def _single_curve(composition: Pairs, options: Options) -> Curve:
    """log delta of one composition, each value computed once and only where it is quick."""
    known: dict[float, Bounds] = {}

    def curve(at: float) -> Bounds:
        if at > LARGEST_EXACT:
            raise LimitExceeded(f"epsilon must be at most {LARGEST_EXACT:g} here, got {at!r}.")
        if at not in known:
            known[at] = log_delta_of(composition, at, options)
        return known[at]

    return curve


def _is_feasible(curve: Curve, growth: Growth, log_target: float, at: float) -> bool:
    try:
        return Problem(curve, growth, log_target).excess(at).upper <= 0.0
    except LimitExceeded:
        return False


def _log_revealed(composition: Composition) -> float:
    """log of the probability that a round without noise samples the example: delta is never smaller."""
    absent = math.fsum(
        rounds * mixture.log_probability_of_absence
        for mixture, rounds in composition
        if mixture.standard_deviation == 0.0
    )
    return math.log(-math.expm1(absent)) if absent < 0.0 else -math.inf


def linear_reference(
    run: Any, *, delta: float, group_size: int, adjacency: str = "add-or-remove", engine: str = "auto"
) -> Bounds:
    """k times the epsilon of one example at the same delta: how fast privacy would degrade if it were linear.

    A reference line, neither an upper nor a lower bound on the privacy of the group: the paper observes that the
    group's epsilon lies above it.
    """
    size = require_integer("group_size", group_size, at_least=0, at_most=LARGEST_GROUP)
    return multiple(epsilon(run, delta=delta, group_size=min(size, 1), adjacency=adjacency, engine=engine), size)


def multiple(bounds: Bounds, factor: int) -> Bounds:
    """`factor` times what lies within the bounds."""
    if factor == 0 or bounds.upper == 0.0:
        return Bounds(0.0, 0.0)
    return Bounds(math.nextafter(factor * bounds.lower, 0.0), math.nextafter(factor * bounds.upper, math.inf))
