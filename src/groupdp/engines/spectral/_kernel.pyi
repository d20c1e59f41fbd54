from collections.abc import Sequence

from groupdp.floats import FloatArray

#: log weight; shifts, probabilities and log probabilities of the right side; of the left side.
PackedBranch = tuple[float, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]
#: Whether P and Q are exchanged; places, shifts and log probabilities of the factors; log weights of the products; how
#: often each factor stands in each product, row by row.
PackedAllocation = tuple[bool, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]
#: Losses, the logarithms of their masses under P, and that of the mass that has none.
PackedAtoms = tuple[FloatArray, FloatArray, float]
#: Shifts, probabilities and log probabilities of an envelope.
PackedEnvelope = tuple[tuple[FloatArray, FloatArray, FloatArray]]
#: Repetitions; branches; mu and log weights of the branches N(mu, 1) against N(0, 1); or allocations, known losses
#: or an envelope.
PackedRound = (
    tuple[float, Sequence[PackedBranch], FloatArray, FloatArray]
    | tuple[float, Sequence[PackedBranch], FloatArray, FloatArray, PackedAllocation | PackedAtoms | PackedEnvelope]
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
    composition: Sequence[PackedRound], epsilon: float, /
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
