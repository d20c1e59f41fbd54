from collections.abc import Sequence

from groupdp.engines.spectral.rounds import FloatArray

Phase = tuple[FloatArray, FloatArray, FloatArray, float, float]

def epsilon(
    composition: Sequence[Phase], adding: bool, log_delta: float, /
) -> tuple[float, float, int, int, int] | None: ...
def log_delta(
    composition: Sequence[Phase], adding: bool, epsilon: float, /
) -> tuple[float, float, int, int, int] | None: ...
def epsilon_ceiling(composition: Sequence[Phase], adding: bool, log_delta: float, /) -> float | None: ...
