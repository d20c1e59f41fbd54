"""Finer and finer lattices until the tolerance or a limit is reached.

The bracket's width is about (c + 1) T h^2 / 8 in epsilon: a coarse solve places epsilon and with it the tilt c, which
give the step for the tolerance. Where whole transforms leave nothing but roundings, lattices are composed block by
block (L-22).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from groupdp.bounds import Bounds, Provenance
from groupdp.engines import Progress, Work
from groupdp.engines.lattice.compose import compose_in_blocks
from groupdp.engines.lattice.parts import TransformGrid
from groupdp.engines.lattice.planning import LatticePlan, Saddle, Solution, grid_for, rounded_step, solve
from groupdp.engines.lattice.support import Survival, log_importance
from groupdp.errors import LimitExceeded
from groupdp.floats import bisected

#: Bytes per point of the transform that one solve holds at its peak.
BYTES_PER_POINT = 56
#: Cells x (components that matter at a time + 10) of one solve: some twenty seconds of work.
LARGEST_WORK = 2.0e8
#: Lattice points, and cells of one round, of the first solve.
_COARSE = 8192
#: Cost of a point of a transform on both sides, for each part; and of one evaluation of a side (engines/__init__.py).
_WORK_OF_A_POINT, _WORK_OF_AN_EVALUATION = 2.0, 0.06
_MOST_SOLVES = 6
#: A tilt steeper than this per lattice step resolves nothing.
_STEEPEST = 4.0
#: Fraction of the tolerance that is aimed at.
_AIM = 0.85
#: Asymptotic width relative to (c + 1) T h^2 / 8, with wider cells in the tails.
_WIDER = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The question and its limits."""

    tolerance: float
    memory_budget: float
    work: Work
    progress: Progress | None
    answer: Callable[[Solution, Saddle, Callable[[], None]], tuple[float, float]]
    """(lower, upper) of the quantity asked for; the last argument is called before each evaluation, and may raise."""
    locate: Callable[[float | None], Saddle]
    """The tilt to use, given a value of the answer if one is known."""
    of_epsilon: bool
    """Whether the quantity is epsilon (else it is log delta)."""
    log_delta: float = math.nan
    """The one asked about, if so."""
    replan: Callable[[float], tuple[LatticePlan, Saddle]] | None = None
    """A plan for another log delta, where the question is log delta."""

    def width_at(self, plan: LatticePlan, saddle: Saddle, step: float) -> float:
        """The width expected at a step."""
        width = expected_width(plan, saddle, step)
        return width if self.of_epsilon else saddle.rate * width

    def located(self, value: float) -> Saddle:
        """The tilt to use now that a value of the answer is known."""
        saddle = self.locate(value)
        if self.of_epsilon:
            return replace(saddle, epsilon=value, log_delta=self.log_delta)
        return replace(saddle, log_delta=value)

    def allowed(self, value: float) -> float:
        """The width asked for, around a value of the answer."""
        return self.tolerance * max(1.0, abs(value))


def expected_width(plan: LatticePlan, saddle: Saddle, step: float) -> float:
    """About the width of the bracket of epsilon at a step, which is never more than two steps a round."""
    return plan.rounds * step * min((saddle.rate + 1.0) * step / 8.0, 2.0)


def refine(task: Task, plan: LatticePlan) -> Bounds:
    """Bounds of the tolerance asked for, or the best that the limits allow."""
    lower, upper = -math.inf, math.inf
    saddle = task.locate(None)
    step = math.inf
    survival: Survival | None = None
    history: list[tuple[float, float]] = []
    points = cells = solves = 0
    for attempt in range(_MOST_SOLVES):
        grid, limited, cells_ahead, work_ahead = _affordable(task, plan, saddle, survival, step)
        advance = _reporter(task, attempt, 2.2 * cells_ahead)
        try:
            task.work.spend(2.0 * work_ahead + _WORK_OF_A_POINT * (len(plan.parts) + 1) * grid.length)
            solution = solve(plan, grid, epsilon=saddle.epsilon, survival=survival, advance=advance)
            low, high = task.answer(solution, saddle, partial(task.work.spend, _WORK_OF_AN_EVALUATION * grid.length))
        except LimitExceeded:
            if solves == 0:
                raise
            break  # the bounds so far are valid
        lower, upper = max(lower, low), min(upper, high)
        points, cells, solves = max(points, grid.length), max(cells, solution.cells), solves + 1
        survival = solution.below.survival()
        del solution
        width, allowed = upper - lower, task.allowed(upper if math.isfinite(upper) else 0.0)
        history.append((grid.step, width))
        if width <= allowed or limited or _stalled(history):
            break
        if task.replan is not None and plan.log_dead_mass > upper + math.log(0.3 * allowed):
            # Delta is smaller than planned for: the supports leave out too much of it.
            plan, saddle = task.replan(upper)
        if math.isfinite(width) and width <= 0.1 * max(1.0, abs(upper)):
            saddle = task.located(0.5 * (lower + upper))
        step = _next_step(task, plan, saddle, allowed, history)
    provenance = Provenance(
        engine="lattice",
        evaluations={"grid points": points, "cells": cells, "solves": solves},
        tolerance=task.tolerance,
        tolerance_met=upper - lower <= task.allowed(upper) if math.isfinite(upper) else lower == upper,
    )
    return Bounds(lower, upper, provenance)


def _affordable(
    task: Task, plan: LatticePlan, saddle: Saddle, survival: Survival | None, step: float
) -> tuple[TransformGrid, bool, float, float]:
    """The lattice for a step, or for the smallest step that the limits allow; infinity asks for a coarse one.

    Also whether a limit decided, and about how many cells there will be on each side, with their work.
    """
    coarse = step == math.inf
    # Otherwise the longest transform that fits into the memory, of at least 4096 points.
    most_points = _COARSE if coarse else 1 << max(math.floor(math.log2(task.memory_budget / BYTES_PER_POINT)), 12)
    log_outside = _log_outside(task, plan, saddle)
    window = plan.window(saddle.rate, log_outside, resolution=1e-3 * task.allowed(saddle.epsilon))
    least = max(1.05 * (window.right - window.left) / most_points, plan.finest_step)
    if coarse:  # no finer than the tolerance asks for
        step = max(least, _step_for(task, plan, saddle, 1.0, task.allowed(saddle.epsilon)))
    wanted = step
    for _ in range(60):
        cells, work = work_of(plan, saddle, survival, max(wanted, least))
        if work <= (LARGEST_WORK / 100.0 if coarse else LARGEST_WORK):
            break
        least = 1.5 * max(wanted, least)
    rate = min(saddle.rate, _STEEPEST / max(wanted, least))
    grid = grid_for(plan, rate, step=max(wanted, least), log_outside=log_outside, longest=most_points)
    return grid, not coarse and least > wanted, cells, work


def work_of(plan: LatticePlan, saddle: Saddle, survival: Survival | None, step: float) -> tuple[float, float]:
    """(cells, cells x components that matter at a time) of one measure of every part."""
    cells = work = 0.0
    for part in plan.parts:
        log_mass = log_importance(part.law, rate=saddle.rate, epsilon=saddle.epsilon, survival=survival)
        own = part.work(log_mass, rate=saddle.rate, step=step, share=plan.share(part))
        cells, work = cells + own[0], work + own[1]
    return cells, work


def _log_outside(task: Task, plan: LatticePlan, saddle: Saddle) -> float:
    """How much of the tilted law may lie outside of the window: a hundredth of the tolerance."""
    c = saddle.rate
    log_kernel = -c * math.log1p(1.0 / c) - math.log1p(c)
    share = saddle.log_delta + c * saddle.epsilon - plan.cumulant(c)[0] - log_kernel
    value = saddle.epsilon if task.of_epsilon else saddle.log_delta
    tolerance = task.allowed(value) * (c if task.of_epsilon else 1.0)
    return min(max(share + math.log(min(tolerance, 1.0)) - 8.0, -80.0), -18.0)


def _next_step(
    task: Task, plan: LatticePlan, saddle: Saddle, allowed: float, history: list[tuple[float, float]]
) -> float:
    """The step to try after the steps and widths so far."""
    step, width = history[-1]
    if not math.isfinite(width):
        return step / 16.0
    excess = width / task.width_at(plan, saddle, step)
    wanted = _step_for(task, plan, saddle, excess, allowed, step)
    if len(history) > 2 and math.isfinite(history[-2][1]):
        # The model failed twice: go by the order of convergence seen, which is below 2 where mass piles up.
        order = math.log(history[-2][1] / width) / math.log(history[-2][0] / step)
        wanted = min(wanted, step * (_AIM * allowed / width) ** (1.0 / min(max(order, 1.0), 2.0)))
    return min(max(wanted, step / 256.0), 0.85 ** len(history) * step)


def _stalled(history: list[tuple[float, float]]) -> bool:
    """Whether smaller steps did not help: rounding errors and the tails left out remain."""
    if len(history) == 2:
        (before, width_before), (step, width) = history
        return step < 0.05 * before and not width < 0.5 * width_before
    if len(history) < 3:
        return False
    (before, width_before), _, (step, width) = history[-3:]
    return not math.isfinite(width) or (step < 0.4 * before and width > 0.8 * width_before)


def _step_for(task: Task, plan: LatticePlan, saddle: Saddle, excess: float, allowed: float, at: float = 1.0) -> float:
    """The step whose expected width is `allowed`.

    On coarse lattices the width exceeds its asymptotic value by a factor: `excess` at the step `at`. What
    it exceeds by is taken to shrink in proportion to the step.
    """

    def is_narrow(log_ratio: float) -> bool:
        step = at * math.exp(log_ratio)
        width = task.width_at(plan, saddle, step) * (_WIDER + max(excess - _WIDER, 0.0) * min(step / at, 1.0))
        return width <= _AIM * allowed

    return at * math.exp(bisected(is_narrow, -80.0, 80.0, 60)[0])


def _reporter(task: Task, attempt: int, expected: float) -> Callable[[int], None]:
    """Called with the cells done: reports the share of the whole.

    Of the whole, a coarse solve is next to nothing, the next one most of it.
    """
    starts = (0.0, 0.02, 0.6, 0.85, 0.95, 0.98, 1.0)
    start, end = starts[attempt], starts[attempt + 1]
    done = 0

    def advance(more: int) -> None:
        nonlocal done
        done += more
        if task.progress is not None:
            task.progress(start + (end - start) * min(done / expected, 1.0))

    return advance


_MOST_BLOCK_SOLVES = 4
#: Lattice points of the first solve; and complex products of one solve: some ten seconds of work.
_COARSE_BLOCKS = 16_384
_MOST_PRODUCTS = 3e9
#: Cost of a complex product (engines/__init__.py).
_WORK_OF_A_PRODUCT = 0.03
#: Tilted entries are kept up to e^-40 of those at epsilon.
_BEYOND = 40.0
#: Over a block a law of losses changes by about this, in logarithm: errors are a larger share of small entries.
_CHANGE = 4.0
#: A law that changes by more than this over the shortest block is not resolved.
_STEEPEST_BLOCK = 16.0
_SHORTEST_BLOCK, _LONGEST_BLOCK = 32, 4096


def refine_in_blocks(task: Task, plan: LatticePlan, bounds: Bounds) -> Bounds:
    """The bounds, whose upper side is finite, narrowed as far as the limits allow."""
    lower, upper = bounds.lower, bounds.upper
    evaluations = dict(bounds.provenance.evaluations or {})
    saddle = task.locate(upper) if task.of_epsilon else task.locate(None)
    first, last = _range_of_losses(plan, saddle, upper if task.of_epsilon else saddle.epsilon)
    coarsest = _STEEPEST_BLOCK / (saddle.rate * _SHORTEST_BLOCK)
    step = min((last - first) / _COARSE_BLOCKS, coarsest)
    survival: Survival | None = None
    for _ in range(_MOST_BLOCK_SOLVES):
        step, cost = _affordable_in_blocks(task, plan, saddle, survival, step, last - first)
        if step > 1.1 * coarsest or task.width_at(plan, saddle, step) > upper - lower:
            break  # no lattice that can be afforded is fine enough
        try:
            task.work.spend(cost)
            solution = _solve_in_blocks(task, plan, saddle, survival, step, (first, last))
            low, high = task.answer(
                solution, saddle, partial(task.work.spend, _WORK_OF_AN_EVALUATION * (last - first) / step)
            )
        except LimitExceeded:
            break  # the bounds so far are valid
        narrowed = max(lower, low), min(upper, high)
        width = narrowed[1] - narrowed[0]
        helped = width < 0.9 * (upper - lower)
        lower, upper = narrowed
        evaluations["cells"] = max(evaluations.get("cells", 0), solution.cells)
        evaluations["solves in blocks"] = evaluations.get("solves in blocks", 0) + 1
        survival = solution.below.survival()
        if task.of_epsilon:
            saddle = replace(saddle, epsilon=upper)
        allowed = task.allowed(upper)
        if width <= allowed or (not helped and evaluations["solves in blocks"] > 1):
            break
        step *= min(0.5, max(0.7 * math.sqrt(allowed / width), 1.0 / 16.0))
    met = upper - lower <= task.allowed(upper)
    provenance = Provenance(engine="lattice", evaluations=evaluations, tolerance=task.tolerance, tolerance_met=met)
    return Bounds(lower, upper, provenance)


def _range_of_losses(plan: LatticePlan, saddle: Saddle, epsilon: float) -> tuple[float, float]:
    """Losses of part of the rounds, and of all of them, that may matter at `epsilon`.

    Those above may yet be lowered by the other rounds.
    """
    lowest = math.fsum(part.rounds * min(0.0, float(np.min(part.law.loss))) for part in plan.parts)
    highest = max(float(np.max(part.law.loss)) for part in plan.parts)
    return lowest, max(epsilon + _BEYOND / saddle.rate - lowest, highest)


def _affordable_in_blocks(
    task: Task, plan: LatticePlan, saddle: Saddle, survival: Survival | None, step: float, span: float
) -> tuple[float, float]:
    """`step`, or the smallest larger one that the limits allow; and the cost of a solve with it."""
    step = max(step, plan.finest_step)
    squarings = sum(2.0 * math.log2(part.rounds) + 1.0 for part in plan.parts)
    for _ in range(60):
        points = span / step
        products = squarings * points * points / _block(saddle, step, points)
        _, work = work_of(plan, saddle, survival, step)
        if products <= _MOST_PRODUCTS and work <= LARGEST_WORK and 4.0 * BYTES_PER_POINT * points <= task.memory_budget:
            break
        step *= 1.3
    return rounded_step(step), 2.0 * work + 2.0 * _WORK_OF_A_PRODUCT * products


def _block(saddle: Saddle, step: float, points: float) -> int:
    """Entries of a block: as many as change little, but no fewer than keep the pairs few."""
    wanted = min(max(_CHANGE / (step * saddle.rate), _SHORTEST_BLOCK), _LONGEST_BLOCK)
    return 1 << max(math.floor(math.log2(wanted)), math.ceil(math.log2(points / 1024.0)), 5)


def _solve_in_blocks(
    task: Task, plan: LatticePlan, saddle: Saddle, survival: Survival | None, step: float, span: tuple[float, float]
) -> Solution:
    cells = 0

    def count(more: int) -> None:
        nonlocal cells
        cells += more

    block = _block(saddle, step, (span[1] - span[0]) / step)
    tails = []
    for up in (False, True):
        masses = []
        for part in plan.parts:
            log_mass = log_importance(part.law, rate=saddle.rate, epsilon=saddle.epsilon, survival=survival)
            length = math.ceil(1.01 * float(np.max(part.law.loss) - np.min(part.law.loss)) / step) + 4096
            grid = TransformGrid(saddle.rate, step, length, 0.0, -1e-6 * saddle.rate, 1e-6 * saddle.rate)
            mass = part.measure(grid, log_mass, share=plan.share(part), up=up, advance=count)
            if mass.highest - mass.lowest >= grid.length:
                raise LimitExceeded("the lattice is too short for the losses of a round.")
            masses.append(mass)
        rounds = [part.rounds for part in plan.parts]
        tails.append(compose_in_blocks(masses, rounds, block=block, last=span[1], up=up))
    return Solution(below=tails[0], above=tails[1], cells=cells // 2)
