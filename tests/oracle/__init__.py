"""An independent oracle: delta(epsilon) and epsilon(delta) of composed pairs of mixtures, in ball arithmetic.

It shares nothing with the package, neither code nor data: parameters come in as exact numbers (decimal
strings, integers, or doubles taken at their exact binary value), probabilities are exact rationals, and all
else is python-flint's 256-bit ball arithmetic. Slow is fine: about a second per value.

Rounding errors are enclosed by the balls. Discretisation errors are not: every value is computed twice, on
contours with another abscissa, other steps and another length, and `Disagreement` is raised unless both
agree to the digits asked for. The radius of the ball that is returned covers both. One round, where the
contour would be endless, has a closed form (closed.py); a few rounds have few_rounds.py. Rounds are coins over
opposed mixtures (pairs.py); laws.py builds them for every sampling; mixtures alone need a direction. The envelope of
fixed batches with replaced examples is a profile, not a pair: envelope.py.

    composition = compose([{"sampling_rate": "0.01", "noise_multiplier": "1", "steps": 2000}], group_size=4)
    epsilon(composition, delta="1e-6", direction="remove")      # 14.534976382296592...
    composition = [(Mixture([0, 1, 2.5], ["0.9", "0.06", "0.04"], sigma=1.25), 300)]
    log_delta(composition, epsilon=0.5, direction="add")
    epsilon(laws.poisson("0.01", "1", 2000, removed=2, added=2), delta="1e-6")      # 10.448954742285181...
"""

from __future__ import annotations

from typing import Any

from flint import arb

from oracle import closed as oracle_closed
from oracle import contour as oracle_contour
from oracle.contour import Disagreement
from oracle.mixture import Composition, Mixture, compose, exact, mixture_of
from oracle.pairs import Branch, Gaussian, Round, Rounds, rounds_of

__all__ = [
    "Branch",
    "Composition",
    "Disagreement",
    "Gaussian",
    "Mixture",
    "Round",
    "Rounds",
    "compose",
    "epsilon",
    "exact",
    "log_delta",
    "mixture_of",
    "rounds_of",
]


def log_delta(
    composition: Composition | Rounds, *, epsilon: Any, direction: str | None = None, digits: int = 20
) -> arb:
    """log delta(epsilon) of the composed pair; minus infinity where delta is zero. Mixtures need a direction."""
    rounds = rounds_of(composition, direction)
    if sum(times for _, times in rounds) == 1:
        return oracle_closed.one_round_log_delta(rounds[0][0], epsilon=epsilon)
    return oracle_contour.log_delta(rounds, epsilon=epsilon, digits=digits)


def epsilon(composition: Composition | Rounds, *, delta: Any, direction: str | None = None, digits: int = 20) -> arb:
    """The smallest epsilon >= 0 with delta(epsilon) <= delta. Mixtures need a direction."""
    rounds = rounds_of(composition, direction)
    if sum(times for _, times in rounds) == 1:
        return oracle_closed.one_round_epsilon(rounds[0][0], delta=delta)
    return oracle_contour.epsilon(rounds, delta=delta, digits=digits)
