"""Finer and finer lattices composed block by block, where one transform leaves nothing but roundings (L-22).

The whole range of losses is kept, so there are more points, and pairs of blocks are many: this is the second resort.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from groupdp.bounds import Bounds, Provenance
from groupdp.engines.lattice.blocks import compose_in_blocks
from groupdp.engines.lattice.importance import Survival, log_importance
from groupdp.engines.lattice.parts import Grid
from groupdp.engines.lattice.plan import Plan, Saddle
from groupdp.engines.lattice.refine import BYTES_PER_POINT, LARGEST_WORK, Task, work_of
from groupdp.engines.lattice.solve import Solution, rounded_step
from groupdp.errors import LimitExceeded

_MOST_SOLVES = 4
#: Lattice points of the first solve; and complex products of one solve: some ten seconds of work.
_COARSE = 16_384
_MOST_PRODUCTS = 3e9
#: What a complex product costs, and a point where a side is evaluated (work.py).
_WORK_OF_A_PRODUCT, _WORK_OF_AN_EVALUATION = 0.03, 0.06
#: Tilted entries are kept up to e^-40 of those at epsilon.
_BEYOND = 40.0
#: Over a block a law of losses changes by about this, in logarithm: what is off is a larger share of small entries.
_CHANGE = 4.0
#: A law that changes by more than this over the shortest block is not resolved.
_STEEPEST = 16.0
_SHORTEST_BLOCK, _LONGEST_BLOCK = 32, 4096


def refine_in_blocks(task: Task, plan: Plan, found: Bounds) -> Bounds:
    """The bounds, narrowed as far as the limits allow; `found` has a finite upper side."""
    lower, upper = found.lower, found.upper
    evaluations = dict(found.provenance.evaluations or {})
    saddle = task.locate(upper) if task.of_epsilon else task.locate(None)
    first, last = _range(plan, saddle, upper if task.of_epsilon else saddle.epsilon)
    coarsest = _STEEPEST / (saddle.rate * _SHORTEST_BLOCK)
    step = min((last - first) / _COARSE, coarsest)
    survival: Survival | None = None
    for _ in range(_MOST_SOLVES):
        step, cost = _affordable(task, plan, saddle, survival, step, last - first)
        if step > 1.1 * coarsest or task.width_at(plan, saddle, step) > upper - lower:
            break  # no lattice that can be afforded is fine enough
        try:
            task.work.spend(cost)
            solution = _solve(task, plan, saddle, survival, step, (first, last))
            low, high = task.answer(
                solution, saddle, partial(task.work.spend, _WORK_OF_AN_EVALUATION * (last - first) / step)
            )
        except LimitExceeded:
            break  # what has been found so far is valid
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


def _range(plan: Plan, saddle: Saddle, epsilon: float) -> tuple[float, float]:
    """Losses of part of the rounds, and of all of them, that may matter at `epsilon`.

    Those above may yet be lowered by the other rounds.
    """
    lowest = math.fsum(part.rounds * min(0.0, float(np.min(part.law.loss))) for part in plan.parts)
    highest = max(float(np.max(part.law.loss)) for part in plan.parts)
    return lowest, max(epsilon + _BEYOND / saddle.rate - lowest, highest)


def _affordable(
    task: Task, plan: Plan, saddle: Saddle, survival: Survival | None, step: float, span: float
) -> tuple[float, float]:
    """`step`, or the smallest larger one that the limits allow; and what a solve costs with it (work.py)."""
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


def _solve(
    task: Task, plan: Plan, saddle: Saddle, survival: Survival | None, step: float, span: tuple[float, float]
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
            extent = float(np.max(part.law.loss) - np.min(part.law.loss))
            grid = Grid(
                saddle.rate,
                step,
                math.ceil(1.01 * extent / step) + 4096,
                0.0,
                -1e-6 * saddle.rate,
                1e-6 * saddle.rate,
            )
            mass = part.measure(grid, log_mass, share=plan.share(part), up=up, advance=count)
            if mass.highest - mass.lowest >= grid.length:
                raise LimitExceeded("the lattice is too short for the losses of a round.")
            masses.append(mass)
        rounds = [part.rounds for part in plan.parts]
        tails.append(compose_in_blocks(masses, rounds, block=block, last=span[1], up=up))
    return Solution(below=tails[0], above=tails[1], cells=cells // 2)
