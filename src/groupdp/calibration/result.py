"""What a calibration returns: the parameter, what it achieves, and the evidence that no better one does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from groupdp.bounds import Bounds
from groupdp.calibration.target import Run, Target
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.neighbours import ADJACENCIES


@dataclass(frozen=True, slots=True)
class Found:
    """A value that passes, and the evidence about riskier ones."""

    value: float
    bounds: Bounds
    failing_value: float | None
    failing_bounds: Bounds | None
    proved_optimal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The best value of one parameter for a target, with both certificates.

    `epsilon.upper <= target_epsilon` is certified at `value`. At `failing_value` the certified lower bound is
    above the target, so that value, and by monotonicity every riskier one, fails. `proved_optimal` says that the
    two are neighbours: consecutive integers, or values within `tolerance` of each other. Where `epsilon.tight` is
    false a value fails, and another is optimal, by this analysis alone: a better one may accept more.
    """

    parameter: str
    """"noise_multiplier", "noise_factor", "steps", "sampling_rate", "batch_size" or "group_size"."""

    value: float
    """An int for counts."""

    epsilon: Bounds
    """Bounds on epsilon at `value`."""

    target_epsilon: float
    delta: float
    group_size: int
    adjacency: str

    run: Mechanism | tuple[Mechanism, ...]
    """The run with `value` put in."""

    failing_value: float | None
    """A value proved to fail; None if `value` is the extreme one accepted, or no failure could be certified."""

    failing_epsilon: Bounds | None
    """Bounds on epsilon at `failing_value`: the lower one is above the target."""

    proved_optimal: bool
    """Whether every better value (by the tolerance, or by 1) is proved to fail or is not accepted at all."""

    tolerance: float | None
    """The relative tolerance of a real parameter; None for a count."""

    evaluations: int
    """How many times an engine was asked for epsilon."""

    @property
    def proved_gap(self) -> float | None:
        """How far, relatively, `value` may be from the best one: its distance to the value proved to fail."""
        return None if self.failing_value is None else abs(self.value - self.failing_value) / abs(self.value)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""

        def sides(bounds: Bounds | None) -> dict[str, float] | None:
            return None if bounds is None else {"lower": bounds.lower, "upper": bounds.upper}

        return {
            self.parameter: self.value,
            "epsilon": sides(self.epsilon),
            "tight": self.epsilon.tight,
            "target_epsilon": self.target_epsilon,
            "delta": self.delta,
            "group_size": self.group_size,
            "adjacency": self.adjacency,
            "failing_value": self.failing_value,
            "failing_epsilon": sides(self.failing_epsilon),
            "proved_optimal": self.proved_optimal,
            "tolerance": self.tolerance,
            "proved_gap": self.proved_gap,
            "evaluations": self.evaluations,
        }


def result_of(target: Target, parameter: str, found: Found, run: Run) -> Calibration:
    """The calibration of a parameter for a target."""
    return Calibration(
        parameter=parameter,
        value=found.value,
        epsilon=found.bounds,
        target_epsilon=target.epsilon,
        delta=target.delta,
        group_size=target.neighbours.group_size,
        adjacency=target.neighbours.adjacency if target.neighbours.joining is None else ADJACENCIES[0],
        run=run,
        failing_value=found.failing_value,
        failing_epsilon=found.failing_bounds,
        proved_optimal=found.proved_optimal,
        tolerance=target.tolerance or None,
        evaluations=target.trials,
    )
