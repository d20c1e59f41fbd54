"""The mixture of Gaussians mechanism: a Gaussian mechanism whose sensitivity is random.

Definition (Choquette-Choo et al. 2023; Ganesh 2024, section 2.3): without the group the mechanism
outputs N(0, sigma^2); with it, N(c_i, sigma^2) with probability p_i. `remove` compares the mixture
(P) with the plain Gaussian (Q), `add` the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from groupdp.errors import InvalidArgument, InWords, require_number
from groupdp.floats import FloatArray
from groupdp.groups import is_empty, total
from groupdp.mechanisms.mechanism import Mechanism
from groupdp.neighbours import ONE_SIDED, SAME_SIZE, Change
from groupdp.pairs import ZERO, Immutable, Round, Rounds, Side

#: Probabilities may miss a sum of 1 by this much (rounding in the caller's arithmetic); they are then rescaled.
SUM_SLACK = 1e-9
#: Most components a mixture may have.
LARGEST_MIXTURE = 200_000


class MixtureOfGaussians(Immutable, Mechanism):
    """N(0, sigma^2) against sum_i p_i N(c_i, sigma^2), with sensitivities c_i >= 0.

    Equal sensitivities are merged and components of probability zero dropped; the rest is kept in
    increasing order of sensitivity. Probabilities must sum to 1 up to rounding and are divided by their sum.
    The sensitivities are those of the whole group that a question is about: they do not change with its group size.
    Immutable and hashable.
    """

    __slots__ = ("law", "standard_deviation")

    law: Side
    """The law of the sensitivity."""
    standard_deviation: float

    name: ClassVar[str] = "mixture-of-gaussians"
    title: ClassVar[str] = "a MixtureOfGaussians"

    def __init__(
        self,
        sensitivities: Sequence[float] | FloatArray,
        probabilities: Sequence[float] | FloatArray,
        standard_deviation: float,
    ) -> None:
        c = _vector("sensitivities", sensitivities)
        p = _vector("probabilities", probabilities)
        if len(c) != len(p):
            raise InvalidArgument(
                "probabilities", InWords(f"{len(p)} of them"), f"be as many as sensitivities ({len(c)})"
            )
        if len(c) > LARGEST_MIXTURE:
            raise InvalidArgument("sensitivities", len(c), f"be at most {LARGEST_MIXTURE} in number")
        if np.any(p > 1.0 + SUM_SLACK):  # also keeps the sum finite
            raise InvalidArgument("probabilities", InWords(f"{float(p.max())!r} among them"), "be at most 1")
        total = math.fsum(p)
        if not abs(total - 1.0) <= SUM_SLACK:
            raise InvalidArgument("probabilities", InWords(f"a sum of {total!r}"), "sum to 1")
        order = np.argsort(c, kind="stable")
        values, first = np.unique(c[order], return_index=True)
        groups = np.split(p[order], first[1:])
        weights = np.array([math.fsum(group) for group in groups])
        keep = weights > 0.0
        weights = weights[keep]
        # The logarithm is taken before the division, which would round a probability below the normal doubles.
        self._set(Side(values[keep], (weights / total, _log_of_law(weights, total))), standard_deviation)

    @classmethod
    def from_law(
        cls, sensitivities: FloatArray, law: tuple[FloatArray, FloatArray], standard_deviation: float
    ) -> MixtureOfGaussians:
        """A mixture of increasing sensitivities with a law (probabilities, log_probabilities) right to the last bit."""
        keep = np.isfinite(law[1])
        mixture = object.__new__(cls)
        mixture._set(Side(sensitivities[keep], (law[0][keep], law[1][keep])), standard_deviation)
        return mixture

    @classmethod
    def from_vectors(cls, vectors: Any, probabilities: Any, standard_deviation: float) -> MixtureOfGaussians:
        """The scalar mixture that dominates the one with vector sensitivities `vectors` (one per row).

        Vector-to-scalar reduction (Choquette-Choo et al. 2023, Lemma 4.6; Ganesh 2024, Lemma 2.6): replacing
        every vector by its Euclidean norm gives a dominating pair, for add and for remove. Norms are
        rounded up, which can only make the pair more dominating.
        """
        rows = np.atleast_2d(_numbers("vectors", vectors))
        if rows.ndim != 2 or rows.shape[1] == 0:
            raise InvalidArgument("vectors", InWords(f"shape {rows.shape}"), "be a two-dimensional array")
        if not np.all(np.isfinite(rows)):
            raise InvalidArgument("vectors", InWords("a NaN or an infinity"), "be finite")
        if len(rows) > LARGEST_MIXTURE:
            raise InvalidArgument("vectors", len(rows), f"be at most {LARGEST_MIXTURE} in number")
        norms = np.array([_norm_rounded_up(row) for row in rows.tolist()])
        if not np.all(np.isfinite(norms)):
            raise InvalidArgument("vectors", InWords("one beyond the largest double"), "have a finite norm")
        return cls(norms, probabilities, standard_deviation)

    def _set(self, law: Side, deviation: Any) -> None:
        number = require_number("standard_deviation", deviation, at_least=0.0)
        self._assign((law, number), law=law, standard_deviation=number)

    def __reduce__(self) -> tuple[Any, ...]:
        law = (self.probabilities, self.log_probabilities)
        return MixtureOfGaussians.from_law, (self.sensitivities, law, self.standard_deviation)

    @property
    def sensitivities(self) -> FloatArray:
        """The sensitivities, in increasing order."""
        return self.law.shifts

    @property
    def probabilities(self) -> FloatArray:
        """One for each sensitivity."""
        return self.law.probabilities

    @property
    def log_probabilities(self) -> FloatArray:
        """Finite also where a probability is below the smallest double."""
        return self.law.log_probabilities

    def rounds(self, change: Change) -> Rounds:
        """One round of the definition above: a group that is absent has the side 0.

        The sensitivities are those of a whole group, so in a sequence it takes the group size 1: (mixture, 1).
        """
        if max(total(change.removed), total(change.added)) > 1:
            raise InvalidArgument(
                "group_size",
                max(total(change.removed), total(change.added)),
                "be 1 for a MixtureOfGaussians in a sequence, like (mixture, 1)",
                "its sensitivities are already those of the whole group",
            )
        first, second = (ZERO if is_empty(group) else self.side for group in (change.removed, change.added))
        return ((Round.of(first, second), 1),)

    def is_tight(self, change: Change) -> bool:
        return True

    def assumptions(self) -> tuple[str, ...]:
        return ("The group moves the mean of the released Gaussian by the stated sensitivities, with their law.",)

    def require_adjacency(self, adjacency: str) -> None:
        answered = (*ONE_SIDED, *SAME_SIZE)
        if adjacency not in answered:
            raise InvalidArgument("adjacency", adjacency, f"be {' or '.join(answered)} for {self.title}")

    @property
    def side(self) -> Side:
        """The law of sensitivity / standard deviation, as one side of a pair."""
        return self.law.divided(self.standard_deviation)

    @property
    def is_trivial(self) -> bool:
        """Whether the two distributions are the same: the group never matters."""
        return self.law.is_zero

    @property
    def log_probability_of_absence(self) -> float:
        """log P(sensitivity = 0); -inf if the group is always present."""
        return self.law.log_mass_at_zero

    def __repr__(self) -> str:
        if len(self.sensitivities) <= 6:
            return (
                f"MixtureOfGaussians({self.sensitivities.tolist()}, {self.probabilities.tolist()}, "
                f"{self.standard_deviation!r})"
            )
        return (
            f"MixtureOfGaussians(<{len(self.sensitivities)} sensitivities from {self.sensitivities[0]:g} "
            f"to {self.sensitivities[-1]:g}>, {self.standard_deviation!r})"
        )


def _numbers(name: str, values: Any) -> FloatArray:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "iuf":
            raise TypeError
        with np.errstate(over="ignore"):  # a long double beyond doubles becomes infinite, and is refused as such
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(name, values, "be a sequence of numbers") from None


def _vector(name: str, values: Any) -> FloatArray:
    array = _numbers(name, values)
    if array.ndim != 1 or len(array) == 0:
        raise InvalidArgument(name, InWords(f"shape {array.shape}"), "be a non-empty one-dimensional sequence")
    if not np.all(np.isfinite(array)) or np.any(array < 0.0):
        bad = array[~(np.isfinite(array) & (array >= 0.0))][0]
        raise InvalidArgument(name, InWords(f"{float(bad)!r} among them"), "be finite and not negative")
    return array + 0.0  # -0.0 and 0.0 are one sensitivity


def _norm_rounded_up(vector: list[float]) -> float:
    """The Euclidean norm, not less than the true one and at most d + 4 units in the last place above it.

    hypot of d coordinates is within (d + 1) units in the last place; a single coordinate needs no rounding.
    """
    if sum(x != 0.0 for x in vector) <= 1:
        return max(abs(x) for x in vector)
    norm = math.hypot(*vector)
    return math.nextafter(norm * (1.0 + (len(vector) + 2) * 2.0**-52), math.inf)


def _log_of_law(weights: FloatArray, total: float) -> FloatArray:
    """log(weight / total), taken of the sum of the others where it is above one half (accurate near 1)."""
    logarithms = np.asarray(np.log(weights) - math.log(total))
    for i in np.flatnonzero(weights > 0.5 * total):
        others = math.fsum(np.delete(weights, i))
        logarithms[i] = math.log1p(-others / total)
    return logarithms
