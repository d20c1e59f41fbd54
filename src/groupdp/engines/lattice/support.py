"""Where one round's mass lives (L-4), the coordinate of a given loss, and the rough laws that plans are made from.

Rough laws, windows (Chernoff's bound) and the importance of losses are not certified: they decide where cells are
narrow. What lies outside of a window is bounded from the measures themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from groupdp.engines.lattice.loss import BranchLoss, LossValues
from groupdp.errors import LimitExceeded
from groupdp.floats import UNIT, FloatArray, bisected

#: Most separate intervals: components that many standard deviations apart, each with its own mass.
LARGEST_INTERVALS = 5_000
#: Nodes of the tables of losses, over all branches and intervals, and the least for one interval.
_TABLE_NODES = 6_000
_LEAST_NODES = 17


@dataclass(frozen=True, slots=True)
class Support:
    """Disjoint increasing intervals [start, end] of u, and bounds on the mass outside of them."""

    intervals: tuple[tuple[float, float], ...]
    log_dead_mass: float
    """log of an upper bound on P's mass outside."""


def support_of(loss: BranchLoss, *, log_cut: float, components: int = 0) -> Support | None:
    """The intervals that leave out about e^log_cut (L-4).

    It is shared among `components`, those of the branch or of all branches of its round. None if the whole branch
    weighs less than its share.
    """
    centres = loss.right.shifts
    log_weights = loss.right.log_probabilities + loss.log_weight
    components = max(components, len(centres))
    log_cut -= math.log(components)
    live = log_weights > log_cut
    if not np.any(live):
        return None
    radii = np.sqrt(2.0 * (log_weights[live] - log_cut)) * (1.0 + 1e-9)
    starts, ends = centres[live] - radii, centres[live] + radii
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate(([True], starts[1:] > ends[:-1]))
    last = np.concatenate((first[1:], [True]))
    if np.count_nonzero(first) > LARGEST_INTERVALS:
        raise LimitExceeded(
            f"The mixture has {np.count_nonzero(first)} separate components; the lattice engine takes at most "
            f"{LARGEST_INTERVALS}."
        )
    return Support(
        intervals=tuple(zip(starts[first].tolist(), ends[last].tolist(), strict=True)),
        log_dead_mass=log_cut + math.log(len(centres)) + 1e-6,
    )


@dataclass(frozen=True, slots=True)
class LossTable:
    """Losses at nodes spread over the support: brackets for the inverse, and a rough quadrature."""

    nodes: FloatArray
    values: LossValues
    weights: FloatArray
    """Trapezoid weights within each interval; not certified, good for planning only."""
    breaks: tuple[tuple[int, int], ...]
    """For each interval, its range of nodes."""

    def shifted(self, offset: float) -> LossTable:
        """The table of losses minus `offset`, made from one without an offset."""
        values = self.values
        error = values.loss_error + 8.0 * UNIT * (np.abs(values.loss) + abs(offset))
        return replace(self, values=replace(values, loss=values.loss - offset, loss_error=error))


def loss_table(loss: BranchLoss, support: Support, share: float = 1.0) -> LossTable:
    """A table of about 6 000 nodes times the branch's `share` of them, at least 17 for each interval."""
    lengths = [end - start for start, end in support.intervals]
    total = math.fsum(lengths)
    nodes: list[FloatArray] = []
    weights: list[FloatArray] = []
    breaks: list[tuple[int, int]] = []
    used = 0
    for (start, end), length in zip(support.intervals, lengths, strict=True):
        count = _LEAST_NODES + int(share * _TABLE_NODES * length / total)
        own = np.linspace(start, end, count)
        own_weights = np.full(count, length / (count - 1))
        own_weights[[0, -1]] *= 0.5
        nodes.append(own)
        weights.append(own_weights)
        breaks.append((used, used + count))
        used += count
    all_nodes = np.concatenate(nodes)
    return LossTable(all_nodes, loss.evaluate(all_nodes), np.concatenate(weights), tuple(breaks))


_MOST_STEPS = 100


@dataclass(frozen=True, slots=True)
class LossNodes:
    """Coordinates u and the losses there, certified to within `loss_error`."""

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


def invert(branch_loss: BranchLoss, table: LossTable, interval: int, targets: FloatArray) -> LossNodes:
    """Coordinates whose loss is `targets` up to twice the certified error of evaluating it.

    A target that does not converge gets the end of its narrowest bracket: callers use the certified loss.
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
        values = branch_loss.evaluate(step)
        nodes[active], loss[active], slope[active] = step, values.loss, values.slope
        error[active] = values.loss_error
        active = active[np.abs(loss[active] - targets[active]) > 2.0 * error[active]]
    return LossNodes(nodes, loss, error)


def one_step(branch_loss: BranchLoss, table: LossTable, interval: int, targets: FloatArray) -> FloatArray:
    """Coordinates whose loss is near `targets`: one Newton step from the first guess. Not certified in any way."""
    guess, low, high = first_guess(table, interval, targets)
    values = branch_loss.evaluate(guess)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        step = guess - (values.loss - targets) / values.slope
    return np.where((step > low) & (step < high), step, guess)


@dataclass(frozen=True, slots=True)
class RoughLaw:
    """Losses with their weights under P; in each range of `breaks` they increase."""

    loss: FloatArray
    log_weights: FloatArray
    spacing: FloatArray
    """About the distance between neighbouring losses."""
    breaks: tuple[tuple[int, int], ...]

    def cumulant(self, rate: float) -> tuple[float, float, float]:
        """(K, K', K'') of the loss at `rate`."""
        exponents = self.log_weights + rate * self.loss
        top = float(exponents.max())
        with np.errstate(under="ignore"):
            weights = np.exp(exponents - top)
            total = float(weights.sum())
            mean = float(weights @ self.loss) / total
            variance = float(weights @ (self.loss - mean) ** 2) / total
        return top + math.log(total), mean, variance


@dataclass(frozen=True, slots=True)
class Window:
    """An interval of losses, and the Chernoff exponents that bound the mass outside of it."""

    left: float
    right: float
    theta_left: float
    theta_right: float


def window_of(
    cumulant: Callable[[float], tuple[float, float, float]],
    rate: float,
    log_outside: float,
    *,
    resolution: float,
    extremes: tuple[float, float],
) -> Window:
    """The window outside of which the law tilted by `rate` has about e^log_outside on either side.

    `cumulant` gives (K, K', K''). Nothing lies beyond the `extremes`; a law narrower than `resolution` is taken to be
    that wide.
    """
    k, mean, variance = cumulant(rate)
    unit = 1.0 / max(math.sqrt(variance), resolution)
    sides = []
    for sign, extreme in zip((-1.0, 1.0), extremes, strict=True):

        def leaves_more(log10: float, sign: float = sign) -> bool:
            theta = sign * unit * 10.0**log10
            shifted, position, _ = cumulant(rate + theta)
            return bool(shifted - k - theta * position > log_outside)

        theta = sign * unit * 10.0 ** bisected(leaves_more, -8.0, 6.0, 20)[1]
        position = (cumulant(rate + theta)[0] - k - log_outside) / theta
        sides.append((max(position, extreme) if sign < 0.0 else min(position, extreme), theta))
    left, right = min(sides[0][0], mean - resolution), max(sides[1][0], mean + resolution)
    return Window(left, right, sides[0][1], sides[1][1])


#: Logarithms of probabilities stay above minus this.
_NEVER = 1e9


@dataclass(frozen=True, slots=True)
class Survival:
    """log P(L > x) of the composition, roughly, at increasing x; beyond them it falls like the tilt."""

    losses: FloatArray
    log_values: FloatArray
    rate: float

    def __call__(self, x: FloatArray) -> FloatArray:
        inside = np.interp(x, self.losses, self.log_values)
        outside = np.maximum(x - self.losses[-1], 0.0) - np.maximum(self.losses[0] - x, 0.0)
        with np.errstate(over="ignore"):
            return np.asarray(np.clip(inside - self.rate * outside, -_NEVER, 0.0))


def log_importance(law: RoughLaw, *, rate: float, epsilon: float, survival: Survival | None) -> FloatArray:
    """log of weights at the nodes of a rough law, which sum to 1."""
    loss, log_weights = law.loss, law.log_weights
    tilted = _normalised(log_weights + rate * loss)
    if survival is None:
        return tilted
    surviving = log_weights + survival(epsilon - loss)
    if not float(surviving.max()) > -_NEVER:  # no information there
        return tilted
    return np.asarray(np.logaddexp(tilted, _normalised(surviving)) - math.log(2.0))


def _normalised(log_values: FloatArray) -> FloatArray:
    return np.asarray(log_values - np.logaddexp.reduce(log_values))
