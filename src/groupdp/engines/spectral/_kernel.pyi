from collections.abc import Sequence
from typing import Any

from groupdp.pairs import FloatArray

#: log weight; shifts, probabilities and log probabilities of the right side; of the left side.
PackedBranch = tuple[float, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]
#: Whether P and Q are exchanged; places, shifts and log probabilities of the factors; log weights of the products; how
#: often each factor stands in each product, row by row.
PackedAllocation = tuple[bool, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]
#: Repetitions; branches; mu and log weights of the branches N(mu, 1) against N(0, 1); or allocations.
PackedRound = (
    tuple[float, Sequence[PackedBranch], FloatArray, FloatArray]
    | tuple[float, Sequence[PackedBranch], FloatArray, FloatArray, PackedAllocation]
)
#: lower, upper, nodes, contour steps, evaluations of delta.
Found = tuple[float, float, int, int, int]

# A string is the reason why a question was declined.
def epsilon(composition: Sequence[PackedRound], log_delta: float, /) -> Found | str: ...
def log_delta(composition: Sequence[PackedRound], epsilon: float, /) -> Found | str: ...
def epsilon_ceiling(composition: Sequence[PackedRound], log_delta: float, enough: float, /) -> float | str: ...
def epsilons(questions: Sequence[tuple[Sequence[PackedRound], float]], /) -> list[Found | str]: ...
def epsilon_ceilings(questions: Sequence[tuple[Sequence[PackedRound], float, float]], /) -> list[float | str]: ...
def stages(composition: Sequence[PackedRound], log_delta: float, /) -> dict[str, float] | str: ...
def neighbourhood(
    composition: Sequence[PackedRound], epsilon: float, log_delta: float, /
) -> tuple[object, float, int, int] | str | None: ...
def evaluate(
    handle: object,
    epsilons: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    value: FloatArray,
    slope: FloatArray,
    /,
) -> None: ...

# For the tests: what the answers rest on, each with the bound that is claimed for it; None where declined.
def table(
    composition: Sequence[PackedRound], step: float, first: float, nodes: int, /
) -> dict[str, list[float]] | None: ...
def slope_errors(composition: Sequence[PackedRound], u: float, /) -> tuple[float, float] | None: ...
def variances(composition: Sequence[PackedRound], /) -> tuple[float, float] | None: ...
def quadrature(
    composition: Sequence[PackedRound],
    edge: float,
    width: float,
    tilt: float,
    frequency: float,
    log_tolerance: float,
    /,
) -> dict[str, Any] | None: ...
def tails(
    composition: Sequence[PackedRound],
    step: float,
    first: float,
    nodes: int,
    tilt: float,
    edge: float = 0.0,
    width: float = 0.0,
    /,
) -> float | None: ...
def tilted(
    composition: Sequence[PackedRound],
    tilt: float,
    frequency: float,
    log_tolerance: float,
    frequencies: list[float],
    lost: float = 0.0,
    edge: float = 0.0,
    width: float = 0.0,
    log_discarded: float = 0.0,
    /,
) -> dict[str, Any] | None: ...
def characteristic(
    composition: Sequence[PackedRound], tilt: float, step: float, log_tolerance: float, samples: int, /
) -> dict[str, Any] | None: ...
def scan(composition: Sequence[PackedRound], tilts: list[float], /) -> dict[str, list[float]] | None: ...
def prepared(composition: Sequence[PackedRound], log_delta: float, /) -> dict[str, Any] | None: ...
def discarded(
    composition: Sequence[PackedRound], log_delta: float, epsilon: float, at: float = 0.0, /
) -> dict[str, Any] | None: ...
def contour(
    composition: Sequence[PackedRound],
    epsilon: float,
    log_delta: float,
    log_planned: float,
    shift: float = 0.0,
    log_dropped: float = 0.0,
    /,
) -> dict[str, Any] | None: ...
def cells(
    composition: Sequence[PackedRound],
    edge: float,
    width: float,
    tilt: float,
    frequency: float,
    log_tolerance: float,
    /,
) -> dict[str, Any] | None: ...
def root(composition: Sequence[PackedRound], log_delta: float, /) -> dict[str, float] | None: ...
def from_exchanged(epsilon: float, log_exchanged: float, direction: float, /) -> float: ...
def thinning(
    composition: Sequence[PackedRound], width: float, log_budget: float, u: float, /
) -> tuple[float, float, float] | None: ...
def log_normal_cdf(t: float, /) -> float: ...
