"""The instances that attain the paper's two theorems (Ganesh 2024, section 3.3), as datasets and a loss.

Every example is a slope s with loss l(theta; s) = s theta: its gradient is s everywhere.

    Poisson sampling   ordinary examples have slope  0, the group's have slope -1
    fixed batches      ordinary examples have slope +1, the group's have slope -1

With H examples of the group in the batch, (theta_i - theta_{i-1}) / (eta L) is H plus noise in the first
case and 2 H - B plus noise in the second: the mixture of Gaussians of the theorem, up to a known shift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from groupdp._validation import require_integer, require_number
from groupdp.dpsgd import DPSGD, phases_of
from groupdp.errors import InvalidArgument, LimitExceeded
from groupdp.samplings import FixedBatchSampling

FloatArray = npt.NDArray[np.float64]

#: Most examples a simulated dataset may have.
LARGEST_SIMULATED_DATASET = 1_000_000


def slope_gradient(models: FloatArray, slopes: FloatArray) -> FloatArray:
    """The gradient of l(theta; s) = s theta: s, whatever theta. Shape (1, n, d)."""
    return slopes[np.newaxis, :, :]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorstCase:
    """A pair of neighbouring datasets and a loss that leak exactly as much as the theorem allows."""

    run: tuple[DPSGD, ...]
    group_size: int
    without_group: FloatArray
    """Slopes of the smaller dataset, of shape (n, 1)."""
    with_group: FloatArray
    """Slopes of the larger one, of shape (n + k, 1); the group comes last."""
    clipping_norm: float = 1.0
    step_size: float = 1.0

    @property
    def steps(self) -> int:
        """Rounds over all phases."""
        return sum(phase.steps for phase in self.run)

    @property
    def fixed_batches(self) -> bool:
        """Whether the run samples fixed batches (otherwise Poisson)."""
        return isinstance(self.run[0].sampling, FixedBatchSampling)


def worst_case(
    run: Any,
    *,
    group_size: int,
    ordinary_examples: int = 1,
    clipping_norm: float = 1.0,
    step_size: float = 1.0,
    steepness: float = 1.0,
) -> WorstCase:
    """The worst case of `run` for a group of `group_size` examples.

    `ordinary_examples` is the size of the smaller dataset under Poisson sampling, where it does not matter to
    the law of the iterates; with fixed batches the description already says it. Slopes are
    `steepness` * `clipping_norm`: at 1 or more, clipping leaves the same law.
    """
    phases = phases_of(run)
    size = require_integer("group_size", group_size, at_least=1)
    norm = require_number("clipping_norm", clipping_norm, above=0.0)
    step = require_number("step_size", step_size, above=0.0)
    slope = norm * require_number("steepness", steepness, at_least=1.0)
    for phase in phases:
        if phase.microbatch_size != 1:
            raise InvalidArgument(
                f"microbatch_size must be 1: no worst case is known for others, got {phase.microbatch_size}."
            )
    fixed = {phase.sampling.dataset_size for phase in phases if isinstance(phase.sampling, FixedBatchSampling)}
    if fixed and not all(isinstance(phase.sampling, FixedBatchSampling) for phase in phases):
        raise InvalidArgument("run must use one kind of sampling throughout, got Poisson and fixed batches.")
    if len(fixed) > 1:
        raise InvalidArgument(f"dataset_size must be the same in all phases, got {sorted(fixed)}.")
    ordinary = fixed.pop() if fixed else require_integer("ordinary_examples", ordinary_examples, at_least=0)
    if ordinary + size > LARGEST_SIMULATED_DATASET:
        raise LimitExceeded(
            f"A simulated dataset may have at most {LARGEST_SIMULATED_DATASET} examples, "
            f"this one would have {ordinary + size}."
        )
    is_fixed = isinstance(phases[0].sampling, FixedBatchSampling)
    without = np.full((ordinary, 1), slope if is_fixed else 0.0)
    group = np.full((size, 1), -slope)
    return WorstCase(
        run=phases,
        group_size=size,
        without_group=without,
        with_group=np.concatenate([without, group]),
        clipping_norm=norm,
        step_size=step,
    )
