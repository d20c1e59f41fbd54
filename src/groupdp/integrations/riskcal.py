"""groupdp's trade-off curves as evaluators for riskcal 1.5.

    target = CalibrationTarget(kind="err_rates", alpha=0.01, beta=0.9)
    calibrate(run, target, group_size=8).parameter_value

riskcal searches; every number it is given is the side of groupdp's bounds that is a guarantee: the largest advantage,
the smallest false negative rate, the upper epsilon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import groupdp
from groupdp.errors import InvalidArgument, require_number
from groupdp.integrations import require_package
from groupdp.mechanisms.dpsgd import DPSGD, phases_of

_calibration: Any = require_package("riskcal.calibration", extra="riskcal", tool="riskcal")


def evaluator(
    run: DPSGD | tuple[DPSGD, ...] | list[DPSGD],
    *,
    group_size: int,
    adjacency: str = "add-or-remove",
    alpha: float | None = None,
    delta: float | None = None,
) -> Callable[[float], Any]:
    """A PrivacyEvaluator: from a noise multiplier, which replaces the run's own, to PrivacyMetrics for groups.

    `advantage` is always there; `beta` at the false positive rate `alpha`, `epsilon` at `delta` where these are given.
    For a run of several phases the parameter multiplies the noise of every phase.
    """
    phases = phases_of(run)
    rate = None if alpha is None else require_number("alpha", alpha, above=0.0, below=1.0)
    target = None if delta is None else require_number("delta", delta, above=0.0, below=1.0)
    question: dict[str, Any] = {"group_size": group_size, "adjacency": adjacency}
    known: dict[float, Any] = {}

    def evaluate(parameter_value: float) -> Any:
        noise = require_number("parameter_value", parameter_value, at_least=0.0)
        if noise not in known:  # riskcal asks for the ends of its interval again and again
            scaled = with_noise(phases, noise)
            metrics = _calibration.PrivacyMetrics(
                advantage=groupdp.delta(scaled, epsilon=0.0, **question).upper, metadata=dict(question)
            )
            if rate is not None:
                metrics.alpha = rate
                metrics.beta = groupdp.trade_off(scaled, **question).false_negative_rate(rate).lower
            if target is not None:
                metrics.delta = target
                metrics.epsilon = groupdp.epsilon(scaled, delta=target, **question).upper
            known[noise] = metrics
        return known[noise]

    return evaluate


def calibrate(
    run: DPSGD | tuple[DPSGD, ...] | list[DPSGD],
    target: Any,
    *,
    group_size: int,
    adjacency: str = "add-or-remove",
    config: Any = None,
) -> Any:
    """riskcal's `calibrate_parameter` for the noise multiplier of a run; the target is met, never just approached.

    riskcal stops within its tolerance on either side of a false negative rate, so there the tolerance is added to the
    target. `config` is a CalibrationConfig; which way the metric goes is set here.
    """
    if not isinstance(target, _calibration.CalibrationTarget):
        raise InvalidArgument("target", target, "be a CalibrationTarget of riskcal")
    settings = _calibration.CalibrationConfig() if config is None else config
    aimed = target
    if target.kind == "err_rates":
        aimed = replace(target, beta=target.beta + settings.target_tol)
    return _calibration.calibrate_parameter(
        evaluator(run, group_size=group_size, adjacency=adjacency, alpha=target.alpha, delta=target.delta),
        aimed,
        replace(settings, increasing=target.kind == "err_rates"),
    )


def with_noise(phases: tuple[DPSGD, ...], noise: float) -> tuple[DPSGD, ...]:
    """The run with this noise multiplier; of several phases, with the noise of each multiplied by it."""
    if len(phases) == 1:
        return (replace(phases[0], noise_multiplier=noise),)
    return tuple(replace(phase, noise_multiplier=phase.noise_multiplier * noise) for phase in phases)
