"""What the customary tool reports for a group: a model of its arithmetic, to show and explain its infinity.

TensorFlow Privacy's `compute_dp_sgd_privacy_lib` (the paper's "Vadhan analysis") solves for an example-level delta'
whose group-level delta, by the geometric form of Vadhan's lemma, is the target. It walks down on log delta' and
takes the example's epsilon from Renyi divergences at the double delta' = exp(log delta'). The walk stops with
infinity at the first delta' that has no finite epsilon: below about e^-745.1 the double is 0, and no Renyi guarantee
is finite there. The mathematics has no such limit: `renyi_vadhan_epsilon` never forms delta'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from groupdp._validation import require_integer, require_number
from groupdp.baselines.growth import Growth
from groupdp.baselines.moment_quadrature import FloatArray
from groupdp.baselines.one_example import example_composition
from groupdp.baselines.renyi_divergence import ORDERS, renyi_divergences
from groupdp.groups import LARGEST_GROUP

#: How far below its best estimate the walk looks: one decade.
DECADE = math.log(10.0)
_ORDERS: FloatArray = np.array(ORDERS)
_OFFSETS: FloatArray = np.log1p(-1.0 / _ORDERS)


def old_tool_epsilon(run: Any, *, delta: float, group_size: int) -> float:
    """The number that the old tool's arithmetic ends with, possibly infinite. Not a certified bound.

    For fixed batches the tool has no analysis of its own (it assumes Poisson sampling); here its arithmetic is
    given the divergences of the fixed-batch pair.
    """
    return old_tool_epsilons(run, delta=delta, group_sizes=(group_size,))[0]


def old_tool_epsilons(run: Any, *, delta: float, group_sizes: Sequence[int]) -> list[float]:
    """`old_tool_epsilon` for several group sizes, all walks side by side."""
    sizes = [require_integer("group_size", size, at_least=0, at_most=LARGEST_GROUP) for size in group_sizes]
    log_target = math.log(require_number("delta", delta, above=0.0, at_most=1.0))
    composition = example_composition(run) if any(sizes) else ()
    if not composition:
        return [0.0] * len(sizes)
    divergences = np.array([bounds.upper for bounds in renyi_divergences(composition)])

    def example_epsilons(log_deltas: Sequence[float]) -> list[float]:
        return _epsilons_in_doubles(divergences, [math.exp(value) for value in log_deltas])

    solved = dict.fromkeys(sizes, 0.0)
    if 1 in solved:
        solved[1] = example_epsilons([log_target])[0]
    larger = [size for size in solved if size > 1]
    growths = [Growth("geometric", size) for size in larger]
    solved.update(zip(larger, _solve(growths, example_epsilons, log_target), strict=True))
    return [size * solved[size] for size in sizes]


def _epsilons_in_doubles(divergences: FloatArray, deltas: Sequence[float]) -> list[float]:
    """The example's epsilon at each double delta, the best over all orders; a delta of 0 is the infinity's origin."""
    column = np.array(deltas)[:, np.newaxis]
    with np.errstate(divide="ignore"):
        smallest = np.min(divergences + _OFFSETS - np.log(column * _ORDERS) / (_ORDERS - 1.0), axis=1)
    free = (column**2 + np.expm1(-divergences) > 0.0).any(axis=1)
    found = np.where(free, 0.0, np.maximum(smallest, 0.0))
    return [math.inf if delta == 0.0 else value for delta, value in zip(deltas, found.tolist(), strict=True)]


def _solve(
    growths: Sequence[Growth], example_epsilons: Callable[[Sequence[float]], list[float]], log_target: float
) -> list[float]:
    """The example's epsilon at the delta' whose group-level delta is the target; infinite where the walk dies."""
    above, below = [log_target] * len(growths), [log_target - DECADE] * len(growths)

    def excesses(places: Sequence[int], log_deltas: Sequence[float]) -> list[float]:
        found = zip(places, log_deltas, example_epsilons(log_deltas), strict=True)
        return [at + growths[i].value(value) - log_target if value < math.inf else math.inf for i, at, value in found]

    # Lowering log delta' raises epsilon, so it must fall at least by the excess: a safe step, then a decade more.
    walking, alive = list(range(len(growths))), []
    while walking:
        gaps = dict(zip(walking, excesses(walking, [below[i] for i in walking]), strict=True))
        alive += [i for i in walking if not gaps[i] > 0.0]
        walking = [i for i in walking if 0.0 < gaps[i] < math.inf]
        for i in walking:
            above[i] = below[i] - gaps[i]
            below[i] = above[i] - DECADE
    middles = {i: (above[i] + below[i]) / 2.0 for i in alive}
    for _ in range(200):
        open_ones = [i for i in alive if below[i] < middles[i] < above[i]]
        if not open_ones:
            break
        for i, gap in zip(open_ones, excesses(open_ones, [middles[i] for i in open_ones]), strict=True):
            above[i], below[i] = (middles[i], below[i]) if gap > 0.0 else (above[i], middles[i])
            middles[i] = (above[i] + below[i]) / 2.0
    found = dict(zip(alive, example_epsilons([below[i] for i in alive]), strict=True)) if alive else {}
    return [found.get(i, math.inf) for i in range(len(growths))]
