"""The coordinate u at which the loss has a given value: Newton's method inside proved brackets.

The loss increases in u, so two nodes of a table whose losses enclose the target enclose the solution;
nothing is assumed about the single components. The first guess interpolates the inverse function between
them (cubic, from losses and slopes); a Newton step that would leave the bracket is replaced by bisection. The
loss is neither convex nor concave in general, so Newton's steps might cycle: every fourth one is a bisection.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from groupdp.engines.lattice.likelihood import FloatArray
from groupdp.engines.lattice.loss import BranchLoss
from groupdp.engines.lattice.support import LossTable

_MOST_STEPS = 100


@dataclass(frozen=True, slots=True)
class Inverse:
    """Coordinates, and the loss actually taken there (certified to `loss_error`)."""

    nodes: FloatArray
    loss: FloatArray
    loss_error: FloatArray


def first_guess(table: LossTable, interval: int, targets: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(guess, low, high) for increasing `targets` that lie within the interval's losses."""
    begin, end = table.breaks[interval]
    t, loss = table.nodes[begin:end], table.values.loss[begin:end]
    slope = table.values.slope[begin:end]
    k = np.clip(np.searchsorted(loss, targets) - 1, 0, len(t) - 2)
    low, high = t[k], t[k + 1]
    rise = np.maximum(loss[k + 1] - loss[k], 1e-300)
    x = np.clip((targets - loss[k]) / rise, 0.0, 1.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        left = rise / slope[k]
        right = rise / slope[k + 1]
        guess = low + x * x * (3.0 - 2.0 * x) * (high - low) + x * (1.0 - x) * ((1.0 - x) * left - x * right)
    good = np.isfinite(guess) & (guess >= low) & (guess <= high)
    return np.where(good, guess, 0.5 * (low + high)), low, high


def invert(branch_loss: BranchLoss, table: LossTable, interval: int, targets: FloatArray) -> Inverse:
    """Coordinates whose loss is `targets` up to twice the certified error of evaluating it.

    What does not converge (it cannot matter: callers use the certified loss, not the target) is left at the
    narrowest bracket found.
    """
    nodes, low, high = first_guess(table, interval, targets)
    values = branch_loss.evaluate(nodes)
    loss, error, slope = values.loss, values.loss_error, values.slope
    active = np.flatnonzero(np.abs(loss - targets) > 2.0 * error)
    for attempt in range(_MOST_STEPS):
        if len(active) == 0:
            break
        excess = loss[active] - targets[active]
        at = nodes[active]
        low[active] = np.where(excess < 0.0, at, low[active])
        high[active] = np.where(excess > 0.0, at, high[active])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            step = at - excess / slope[active]
        inside = (step > low[active]) & (step < high[active]) & (attempt % 4 != 3)
        step = np.where(inside, step, 0.5 * (low[active] + high[active]))
        moved = step != at
        active, step = active[moved], step[moved]
        if len(active) == 0:
            break
        order = np.argsort(step, kind="stable")
        active, step = active[order], step[order]
        found = branch_loss.evaluate(step)
        nodes[active], loss[active], slope[active] = step, found.loss, found.slope
        error[active] = found.loss_error
        active = active[np.abs(loss[active] - targets[active]) > 2.0 * error[active]]
    return Inverse(nodes, loss, error)


def one_step(branch_loss: BranchLoss, table: LossTable, interval: int, targets: FloatArray) -> FloatArray:
    """Coordinates whose loss is near `targets`: one Newton step from the first guess. Not certified in any way."""
    guess, low, high = first_guess(table, interval, targets)
    values = branch_loss.evaluate(guess)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        step = guess - (values.loss - targets) / values.slope
    return np.where((step > low) & (step < high), step, guess)
