"""The lattice engine: privacy losses on a lattice, with certified bounds on both sides.

The privacy loss of one round is put on a lattice from above and from below, composed by powers of a tilted Fourier
transform, and read off; one round is closed form. It answers for compositions of `groupdp.pairs` and of profiles.
Proofs: docs/internals/lattice.md, whose numbers (L-1, L-2, ...) the code cites. Shares no numerical code with the
spectral engine. Here are its two answers, and what is known without computing.

    refine           finer and finer lattices until the tolerance or a limit, by whole transforms or block by block
    planning         tilt and window; one lattice: every part's measures, composed and read off
    parts            rounds of pairs, and a branch's measure from above (connect the dots); merging: from below
    other_parts      envelopes, laws of atoms, the Laplace mechanism; allocation: allocations
      loss, support    a branch's loss and integrals with certified errors; where its mass is, the coordinate of a loss
      cells            lattice points, widths and edges of cells
    compose          powers of transforms
    measures         measures on the lattice, and delta(epsilon) from a composed one
    one_round        one round in closed form, and single large losses; its terms are in round_terms
      envelope         the curve and the panels of fixed batches with members replaced
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from groupdp.bounds import Bounds, Provenance
from groupdp.engines import DEFAULT_MEMORY, Progress, Work, first_at_most, last_above
from groupdp.engines.lattice.one_round import (
    curve_of,
    one_round_epsilon,
    single_loss_epsilon,
    single_loss_log_delta,
)
from groupdp.engines.lattice.planning import LatticePlan, Saddle, Solution, prepare
from groupdp.engines.lattice.refine import Task, expected_width, refine, refine_in_blocks
from groupdp.errors import LimitExceeded
from groupdp.floats import ELEMENTARY, log_complement
from groupdp.losses import AtomsRound, LaplaceRound, compose_atoms
from groupdp.pairs import AllocationRound, AnyRound, Composition, Round, largest_loss, mirrored

__all__ = ["Solution", "epsilon", "log_delta", "neighbourhood"]

#: Relative width asked for where the caller does not say.
DEFAULT_TOLERANCE = 1e-6
#: The same for allocations, whose laws have a few hundred atoms.
_ALLOCATION_TOLERANCE = 1e-3
#: The same for laws of atoms, which are off by a step on lattices that do not have them.
_ATOMS_TOLERANCE = 1e-5
#: Largest shift of one round in closed form.
_LARGEST_SHIFT = 1e150
#: About the smallest log delta that is looked for.
_FARTHEST = -3e5


def log_delta(composition: Composition, *, epsilon: float, **options: Any) -> Bounds:
    """Certified bounds on log delta(epsilon), for any real epsilon; `tolerance` is relative to max(1, |log delta|)."""
    return neighbourhood(composition, epsilon=epsilon, **options)[0]


def neighbourhood(
    composition: Composition,
    *,
    epsilon: float,
    tolerance: float | None = None,
    memory_budget: int = DEFAULT_MEMORY,
    work: Work | None = None,
    progress: Progress | None = None,
) -> tuple[Bounds, Solution | None]:
    """What `log_delta` returns, with its options, and the lattice it was read from, if there was one.

    The composed measures bound the whole curve (L-7): `solution.below.log_delta_below` and
    `solution.above.log_delta_above` hold at every epsilon, and are close to each other around this one.
    """
    tolerance = _default_tolerance(composition) if tolerance is None else tolerance
    work = Work() if work is None else work
    exact = _outside_the_range(composition, epsilon)
    if exact is not None:
        return _labelled(exact, tolerance), None
    composition = compose_atoms(composition)
    if _is_one_round(composition):
        _require_squares(composition[0][0])
        curve = curve_of(composition[0][0], work)
        return _labelled((curve.below(epsilon), curve.above(epsilon)), tolerance), None
    plan, saddle = _planned_for_epsilon(composition, epsilon, tolerance)
    finest: Solution | None = None

    def answer(solution: Solution, _: Saddle, spend: Callable[[], None]) -> tuple[float, float]:
        nonlocal finest
        spend()
        finest = solution
        return solution.below.log_delta_below(epsilon), min(solution.above.log_delta_above(epsilon), 0.0)

    def replan(value: float) -> tuple[LatticePlan, Saddle]:
        # Not smaller than necessary: a tilt enlarges rare losses that do not matter.
        nonlocal saddle
        planned = value + math.log(max(1.0, abs(value))) + 2.0
        plan = prepare(composition, log_delta=planned, tolerance=tolerance)
        saddle = plan.saddle_for_epsilon(epsilon)
        return plan, saddle

    task = Task(
        tolerance=tolerance,
        memory_budget=memory_budget,
        work=work,
        progress=progress,
        answer=answer,
        locate=lambda _: saddle,
        of_epsilon=False,
        replan=replan,
    )
    return _refined(task, plan, lambda _: single_loss_log_delta(composition, epsilon, work=work)), finest


def epsilon(
    composition: Composition,
    *,
    log_delta: float,
    tolerance: float | None = None,
    memory_budget: int = DEFAULT_MEMORY,
    work: Work | None = None,
    progress: Progress | None = None,
) -> Bounds:
    """Certified bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta.

    delta(upper) <= e^log_delta is certified; delta(lower) > e^log_delta is too, unless lower is 0.
    `tolerance` is relative to max(1, epsilon).
    """
    width = _default_tolerance(composition) if tolerance is None else tolerance
    work = Work() if work is None else work
    if log_delta >= 0.0:
        return _labelled((0.0, 0.0), width)
    largest = largest_loss(composition)
    if log_delta == -math.inf:
        atoms = any(isinstance(round_, AtomsRound) for round_, _ in composition)
        return _labelled((largest * (1.0 - (1e-9 if atoms else 8.0 * ELEMENTARY)), largest), width)
    composition = compose_atoms(composition, log_cut=min(-650.0, log_delta - 60.0))
    if _is_one_round(composition):
        _require_squares(composition[0][0])
        return _labelled(one_round_epsilon(composition[0][0], log_delta, work=work), width)
    plan = prepare(composition, log_delta=log_delta, tolerance=width)

    def locate(value: float | None) -> Saddle:
        saddle = plan.saddle_for_delta(log_delta) if value is None else plan.saddle_for_epsilon(value)
        return saddle if saddle.epsilon >= 0.0 else plan.saddle_for_epsilon(0.0)

    def answer(solution: Solution, saddle: Saddle, spend: Callable[[], None]) -> tuple[float, float]:
        sides = []
        start = saddle.epsilon
        resolution = 0.02 * max(width, expected_width(plan, saddle, solution.above.step) / max(1.0, start))
        for curve, search in (
            (solution.below.log_delta_below, last_above),
            (solution.above.log_delta_above, first_at_most),
        ):

            def counted(at: float, curve: Callable[[float], float] = curve) -> float:
                spend()
                return curve(at)

            sides.append(search(counted, log_delta, start=start, slope=saddle.rate, resolution=resolution))
        return min(sides[0], largest), min(sides[1], largest)

    task = Task(
        tolerance=width,
        memory_budget=memory_budget,
        work=work,
        progress=progress,
        answer=answer,
        locate=locate,
        of_epsilon=True,
        log_delta=log_delta,
    )

    def single_loss(upper: float) -> float:
        start = upper if math.isfinite(upper) else plan.saddle_for_delta(log_delta).epsilon
        return single_loss_epsilon(composition, log_delta, start=start, resolution=0.02 * width, work=work)

    return _refined(task, plan, single_loss)


def _refined(task: Task, plan: LatticePlan, single_loss: Callable[[float], float]) -> Bounds:
    """By whole transforms; then block by block where rounding errors are all that is left; then by `single_loss`, a
    lower side that is told the upper one."""
    bounds = refine(task, plan)
    if not bounds.provenance.tolerance_met and math.isfinite(bounds.upper):
        bounds = refine_in_blocks(task, plan, bounds)
    if task.progress is not None:
        task.progress(1.0)
    if bounds.provenance.tolerance_met:
        return bounds
    try:
        lower = single_loss(bounds.upper)
    except LimitExceeded:  # too much work: the bounds so far are valid
        return bounds
    if not lower > bounds.lower:
        return bounds
    raised = replace(bounds, lower=lower)
    return replace(raised, provenance=replace(bounds.provenance, tolerance_met=raised.relative_width <= task.tolerance))


def _planned_for_epsilon(composition: Composition, epsilon: float, tolerance: float) -> tuple[LatticePlan, Saddle]:
    """A plan for the largest delta that the plan itself confirms at epsilon: for a larger one it leaves out losses that
    matter, for a far smaller one it keeps rare losses that do not, which a tilt enlarges."""

    def attempt(log_delta: float) -> tuple[LatticePlan, Saddle, bool]:
        plan = prepare(composition, log_delta=log_delta, tolerance=tolerance)
        saddle = plan.saddle_for_epsilon(epsilon)
        return plan, saddle, saddle.log_delta >= log_delta - 2.0

    high, low = 0.0, -8.0
    plan, saddle, confirmed = attempt(low)
    while not confirmed and low > 3.0 * _FARTHEST:
        high, low = low, 3.0 * low
        plan, saddle, confirmed = attempt(low)
    while high - low > 0.1 * abs(low) + 4.0:
        middle = 0.5 * (low + high)
        other_plan, other_saddle, confirmed = attempt(middle)
        if confirmed:
            low, plan, saddle = middle, other_plan, other_saddle
        else:
            high = middle
    if not saddle.log_delta > _FARTHEST:
        raise LimitExceeded(
            f"log delta is about {saddle.log_delta:.3g}, below the lattice engine's limit of {_FARTHEST:g}: epsilon "
            f"lies too far outside of the losses."
        )
    return plan, saddle


def _outside_the_range(composition: Composition, epsilon: float) -> tuple[float, float] | None:
    """delta is 0 at and beyond the largest loss, and 1 - e^epsilon at and below the smallest one (L-1)."""
    if epsilon >= largest_loss(composition):
        return -math.inf, -math.inf
    if epsilon <= -largest_loss(mirrored(composition)):
        value = log_complement(epsilon)
        room = 4.0 * ELEMENTARY * (1.0 + abs(value))
        return value - room, min(value + room, 0.0)
    return None


def _is_one_round(composition: Composition) -> bool:
    """Whether there is one round, and it has a closed form."""
    return len(composition) == 1 and composition[0][1] == 1 and not isinstance(composition[0][0], AllocationRound)


def _default_tolerance(composition: Composition) -> float:
    if any(isinstance(round_, AllocationRound) for round_, _ in composition):
        return _ALLOCATION_TOLERANCE
    return _ATOMS_TOLERANCE if any(isinstance(round_, AtomsRound) for round_, _ in composition) else DEFAULT_TOLERANCE


def _require_squares(round_: AnyRound) -> None:
    """Refuse shifts whose squares are near the largest double."""
    if isinstance(round_, AtomsRound | LaplaceRound):
        return
    shift = round_.largest if isinstance(round_, Round) else round_.largest_shift
    if not shift <= _LARGEST_SHIFT:
        raise LimitExceeded(
            f"the largest sensitivity is {shift:.3g} times the noise; one round has a closed form up to "
            f"{_LARGEST_SHIFT:g} times."
        )


def _labelled(sides: tuple[float, float], tolerance: float) -> Bounds:
    """Closed-form bounds with their provenance."""
    bounds = Bounds(*sides)
    met = bounds.relative_width <= tolerance
    return replace(bounds, provenance=Provenance(engine="closed form", tolerance=tolerance, tolerance_met=met))
