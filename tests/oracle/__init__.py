"""An independent oracle: delta(epsilon) and epsilon(delta) of composed mixtures, in ball arithmetic.

It shares nothing with the package, neither code nor data: parameters come in as exact numbers (decimal
strings, integers, or doubles taken at their exact binary value), probabilities are exact rationals, and all
else is python-flint's 256-bit ball arithmetic. Slow is fine: about a second per value.

Rounding errors are enclosed by the balls. Discretisation errors are not: every value is computed twice, on
contours with another abscissa, other steps and another length, and `Disagreement` is raised unless both
agree to the digits asked for. The radius of the ball that is returned covers both. One round, where the
contour would be endless, has a closed form.

    composition = compose([{"sampling_rate": "0.01", "noise_multiplier": "1", "steps": 2000}], group_size=4)
    epsilon(composition, delta="1e-6", direction="remove")      # 14.534976382296592...
    composition = [(Mixture([0, 1, 2.5], ["0.9", "0.06", "0.04"], sigma=1.25), 300)]
    log_delta(composition, epsilon=0.5, direction="add")
"""

from __future__ import annotations

from typing import Any

from flint import arb

from oracle import closed as oracle_closed
from oracle import contour as oracle_contour
from oracle.contour import Disagreement
from oracle.mixture import Composition, Mixture, compose, exact, mixture_of

__all__ = ["Composition", "Disagreement", "Mixture", "compose", "epsilon", "exact", "log_delta", "mixture_of"]


def log_delta(composition: Composition, *, epsilon: Any, direction: str, digits: int = 20) -> arb:
    """log delta(epsilon) of the composed pair, in one direction; minus infinity where delta is zero."""
    if sum(rounds for _, rounds in composition) == 1:
        (mixture,) = (mixture for mixture, rounds in composition if rounds)
        return oracle_closed.one_round_log_delta(mixture, epsilon=epsilon, direction=direction)
    return oracle_contour.log_delta(composition, epsilon=epsilon, direction=direction, digits=digits)


def epsilon(composition: Composition, *, delta: Any, direction: str, digits: int = 20) -> arb:
    """The smallest epsilon >= 0 with delta(epsilon) <= delta, in one direction."""
    if sum(rounds for _, rounds in composition) == 1:
        (mixture,) = (mixture for mixture, rounds in composition if rounds)
        return oracle_closed.one_round_epsilon(mixture, delta=delta, direction=direction)
    return oracle_contour.epsilon(composition, delta=delta, direction=direction, digits=digits)
