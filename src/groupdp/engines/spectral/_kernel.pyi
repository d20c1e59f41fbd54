from collections.abc import Sequence

from groupdp.engines.spectral.rounds import FloatArray

Phase = tuple[FloatArray, FloatArray, FloatArray, float, float]

def epsilon(
    composition: Sequence[Phase], adding: bool, log_delta: float, /
) -> tuple[float, float, int, int, int] | None: ...
def log_delta(
    composition: Sequence[Phase], adding: bool, epsilon: float, /
) -> tuple[float, float, int, int, int] | None: ...
def epsilon_ceiling(composition: Sequence[Phase], adding: bool, log_delta: float, enough: float, /) -> float | None: ...
def stages(composition: Sequence[Phase], adding: bool, log_delta: float, /) -> dict[str, float] | None: ...

# For the tests: what the answers rest on, each with the bound that is claimed for it.
def table(phase: Phase, step: float, first: float, nodes: int, /) -> tuple[list[float], ...] | None: ...
def quadrature(
    phase: Phase, edge: float, width: float, exponent: float, frequency: float, log_tolerance: float, /
) -> tuple[list[float], list[float], float] | None: ...
def tails(phase: Phase, step: float, first: float, nodes: int, exponent: float, /) -> float | None: ...
def tilted(
    phase: Phase,
    adding: bool,
    tilt: float,
    frequency: float,
    log_tolerance: float,
    frequencies: list[float],
    /,
) -> tuple[list[float], list[float], float, float, float, float, list[float]] | None: ...
def discarded(phase: Phase, log_delta: float, epsilon: float, /) -> tuple[float, ...] | None: ...
