"""The claim under audit: a certified curve of delta over epsilon, tabulated once.

This is the only place where the audit meets the accountant. What is claimed may be right (a run and its
group size) or wrong on purpose (another group size, another population, another mixture): the audit is told
neither.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from groupdp._validation import require_integer, require_number
from groupdp.audit.simulation import Progress
from groupdp.bounds import Bounds
from groupdp.errors import NOT_SHOWN, InvalidArgument
from groupdp.neighbours import BACKWARD, Direction, directions_of

FloatArray = npt.NDArray[np.float64]

#: No audit sees an epsilon beyond this: it would need e^25 = 7e10 runs.
LARGEST_AUDITED_EPSILON = 25.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClaimedCurve:
    """For every tabulated epsilon and every direction: the mechanism leaks at most this delta."""

    epsilons: FloatArray
    deltas: Mapping[Direction, FloatArray]
    """Upper ends of the certified bounds."""
    lower_deltas: Mapping[Direction, FloatArray]
    """Lower ends: no valid claim about the claimed mechanism is below these; 0 where the claim is not tight."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "deltas", MappingProxyType(dict(self.deltas)))
        object.__setattr__(self, "lower_deltas", MappingProxyType(dict(self.lower_deltas)))


def claimed_curve(
    run: Any,
    *,
    group_size: Any = None,
    rounds: int | None = None,
    adjacency: str = "add-or-remove",
    smallest_delta: float = 1e-9,
    points: int = 24,
    progress: Progress | None = None,
) -> ClaimedCurve:
    """The certified curve of a run (and group size), or of a mixture of Gaussians (and rounds).

    Tabulated at `points` values of epsilon from 0 to where delta falls to `smallest_delta`; at 0 alone if it
    is below that everywhere.
    """
    from groupdp import guarantees

    count = require_integer("points", points, at_least=2, at_most=100_000)
    floor = require_number("smallest_delta", smallest_delta, above=0.0, below=1.0)
    # Trials never resolve a claim better than this; both of its bounds are kept.
    asked: dict[str, Any] = {"group_size": group_size, "rounds": rounds, "tolerance": 1e-5}
    last = min(
        LARGEST_AUDITED_EPSILON,
        guarantees.epsilon(run, delta=floor, adjacency=adjacency, **asked).upper,
    )
    # Short enough to be printed in full: a claim is about the very epsilon beside it.
    spread = np.linspace(0.0, last, count if last > 0.0 else 1)
    epsilons = np.array([float(f"{epsilon:.8g}") for epsilon in spread])
    upper: dict[Direction, FloatArray] = {}
    lower: dict[Direction, FloatArray] = {}
    directions = directions_of(adjacency)
    tables: list[dict[Direction, tuple[float, float]]] = []
    for i, epsilon in enumerate(epsilons.tolist()):
        found = guarantees.log_delta(run, epsilon=epsilon, adjacency=adjacency, every_change=True, **asked)
        tables.append({direction: _claim(found, direction) for direction in directions})
        if progress is not None:
            progress((i + 1) / len(epsilons))
    for direction in directions:
        lower[direction] = np.array([guarantees.exp_down(table[direction][0]) for table in tables])
        upper[direction] = np.array([guarantees.exp_up(table[direction][1]) for table in tables])
    return ClaimedCurve(epsilons=epsilons, deltas=upper, lower_deltas=lower)


def _claim(found: Bounds, direction: Direction) -> tuple[float, float]:
    """Bounds on log delta for one direction, from those of all ordered changes.

    One change is its own mirror image, two are each other's; of more, the worst is claimed. Only where the analysis is
    tight, and the worst case is that of the change, does the lower side say anything about a mechanism.
    """
    changes = list(found.provenance.directions.values())
    if len(changes) > 2:
        return -math.inf, found.upper
    low, high = changes[-1 if direction == BACKWARD else 0]
    return (low if found.tight else -math.inf), high


def claimed_point(*, epsilon: float, delta: float, adjacency: str = "add-or-remove") -> ClaimedCurve:
    """A claim of a single (epsilon, delta), for every direction of the adjacency."""
    at = require_number("epsilon", epsilon, at_least=0.0, at_most=700.0)
    level = require_number("delta", delta, at_least=0.0, at_most=1.0)
    table = {direction: np.array([level]) for direction in directions_of(adjacency)}
    return ClaimedCurve(epsilons=np.array([at]), deltas=table, lower_deltas=table)


def require_claim(claim: object) -> ClaimedCurve:
    """`claim` if it is a ClaimedCurve."""
    if not isinstance(claim, ClaimedCurve):
        raise InvalidArgument("claim", NOT_SHOWN, "be a ClaimedCurve, made by claimed_curve or claimed_point")
    return claim
