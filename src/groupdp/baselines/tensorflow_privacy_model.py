"""What the customary tool reports for a group: a model of its arithmetic, to show and explain its infinity.

TensorFlow Privacy's `compute_dp_sgd_privacy_lib` (the paper's "Vadhan analysis") solves for an example-level delta'
whose group-level delta, by the geometric form of Vadhan's lemma, is the target. It walks down on log delta' and
takes the example's epsilon from Renyi divergences at the double delta' = exp(log delta'). The walk stops with
infinity at the first delta' that has no finite epsilon: below about e^-745.1 the double is 0, and no Renyi guarantee
is finite there. The mathematics has no such limit: `renyi_vadhan_epsilon` never forms delta'.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from groupdp._validation import require_integer, require_number
from groupdp.adjacency import LARGEST_GROUP
from groupdp.baselines.growth import Growth
from groupdp.baselines.one_example import example_composition
from groupdp.baselines.renyi_divergence import ORDERS, FloatArray, renyi_divergences

#: How far below its best estimate the walk looks: one decade.
DECADE = math.log(10.0)
_ORDERS: FloatArray = np.array(ORDERS)
_OFFSETS: FloatArray = np.log1p(-1.0 / _ORDERS)


def old_tool_epsilon(run: Any, *, delta: float, group_size: int) -> float:
    """The number that the old tool's arithmetic ends with, possibly infinite. Not a certified bound.

    For fixed batches the tool has no analysis of its own (it assumes Poisson sampling); here its arithmetic is
    given the divergences of the fixed-batch pair.
    """
    size = require_integer("group_size", group_size, at_least=0, at_most=LARGEST_GROUP)
    target = require_number("delta", delta, above=0.0, at_most=1.0)
    composition = example_composition(run) if size > 0 else ()
    if not composition:
        return 0.0
    divergences = np.array([bounds.upper for bounds in renyi_divergences(composition)])

    def example_epsilon(log_delta: float) -> float:
        return _epsilon_in_doubles(divergences, math.exp(log_delta))

    if size == 1:
        return example_epsilon(math.log(target))
    return size * _solve(Growth("geometric", size), example_epsilon, math.log(target))


def _epsilon_in_doubles(divergences: FloatArray, delta: float) -> float:
    """The example's epsilon at a double delta, the best over all orders."""
    if delta == 0.0:
        return math.inf  # the infinity's origin
    if (delta**2 + np.expm1(-divergences) > 0.0).any():
        return 0.0
    return max(float(np.min(divergences + _OFFSETS - np.log(delta * _ORDERS) / (_ORDERS - 1.0))), 0.0)


def _solve(growth: Growth, example_epsilon: Callable[[float], float], log_target: float) -> float:
    """The example's epsilon at the delta' whose group-level delta is the target; infinite if the walk dies."""

    def excess(log_delta: float) -> float:
        epsilon = example_epsilon(log_delta)
        return log_delta + growth.value(epsilon) - log_target if epsilon < math.inf else math.inf

    # Lowering log delta' raises epsilon, so it must fall at least by the excess: a safe step, then a decade more.
    above, below = log_target, log_target - DECADE
    gap = excess(below)
    while gap > 0.0:
        above = below - gap
        below = above - DECADE
        gap = excess(below)
        if gap == math.inf:
            return math.inf
    for _ in range(200):
        middle = (above + below) / 2.0
        if not below < middle < above:
            break
        above, below = (middle, below) if excess(middle) > 0.0 else (above, middle)
    return example_epsilon(below)
