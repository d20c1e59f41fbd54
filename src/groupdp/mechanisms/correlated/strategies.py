"""The strategy matrices C of correlated noise: y = C x + noise, C lower triangular, one row for each release.

A strategy says what the theorems about it need (docs/internals/correlated-noise.md): its bands, whether its entries are
non-negative, the norms of its columns, the inner products of its columns, and what its noise costs the prefix sums.
Everything that enters a sensitivity is rounded up: sums of non-negative terms have a relative error of at most the
number of their operations times the unit roundoff (M-1), and `rounded_up` covers it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from groupdp.errors import InvalidArgument, InWords, require_integer, require_number
from groupdp.floats import FloatArray

#: The largest matrix that is taken entry by entry.
LARGEST_DENSE = 4096
#: Entries other than 0 are at least this large, so that no square underflows.
SMALLEST_ENTRY = 1e-100
#: The most bands and buffers accepted.
LARGEST_BANDS = 4096


def rounded_up(value: float, operations: int) -> float:
    """A number not below the exact one, from a sum of non-negative products with so many roundings (M-1)."""
    return math.nextafter(value * (1.0 + (operations + 4) * 2.0**-52), math.inf) if value > 0.0 else value


def norms_up(squares: FloatArray, operations: int) -> FloatArray:
    """Square roots, rounded up like `rounded_up`."""
    return np.nextafter(np.sqrt(squares) * (1.0 + (operations + 4) * 2.0**-52), np.inf)


class Strategy(ABC):
    """A strategy matrix for any number of rounds."""

    __slots__ = ()

    #: In run files and on the command line.
    name: ClassVar[str]

    @abstractmethod
    def bands(self, rounds: int) -> int:
        """The number of diagonals that are not zero, the main one included."""

    @property
    def is_nonnegative(self) -> bool:
        """Whether no entry is negative; if not, sensitivities are those of |C|, valid but not attained."""
        return True

    @abstractmethod
    def column_norms(self, rounds: int) -> FloatArray:
        """The Euclidean norms of the columns, rounded up."""

    @abstractmethod
    def matrix(self, rounds: int) -> FloatArray:
        """The matrix itself, up to `LARGEST_DENSE` columns."""

    @abstractmethod
    def prefix_error(self, rounds: int) -> float:
        """|A C^-1|_F^2: the total squared error of all prefix sums for noise of deviation 1 (not certified)."""

    @abstractmethod
    def describe(self) -> str:
        """The strategy in a few words."""

    def first_column(self, rounds: int) -> FloatArray | None:
        """The first column where the matrix is Toeplitz, else None."""
        return None

    @property
    def is_decreasing(self) -> bool:
        """Whether it is Toeplitz with 0 <= c_{t+1} <= c_t for all t."""
        return False


@dataclass(frozen=True, slots=True)
class LowerTriangular(Strategy):
    """A lower-triangular matrix, row by row; each row may leave out leading zeros by being shorter (a band)."""

    rows: tuple[tuple[float, ...], ...]
    """Row t ends on the diagonal: its last entry is C[t, t], the one before it C[t, t - 1]."""
    _hash: int = field(init=False, repr=False, compare=False)

    name: ClassVar[str] = "lower-triangular"

    def __post_init__(self) -> None:
        if not isinstance(self.rows, list | tuple | np.ndarray) or len(self.rows) == 0:
            raise InvalidArgument("rows", self.rows, "be a non-empty sequence of rows")
        rows = []
        for t, row in enumerate(self.rows):
            values = numbers_of(f"rows[{t}]", row, largest=LARGEST_BANDS)
            if len(values) > t + 1:
                raise InvalidArgument(
                    f"rows[{t}]", len(values), f"end on the diagonal and have at most {t + 1} entries"
                )
            if not values[-1] > 0.0:
                raise InvalidArgument(f"rows[{t}]", values[-1], "have a positive diagonal entry at its end")
            rows.append(values)
        object.__setattr__(self, "rows", tuple(rows))
        object.__setattr__(self, "_hash", hash(self.rows))  # once: a matrix may have millions of entries
        if len(rows) > LARGEST_DENSE and self.bands(len(rows)) > 256:
            raise InvalidArgument(
                "rows", len(rows), f"be at most {LARGEST_DENSE} for a matrix with more than 256 bands"
            )

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def from_matrix(cls, matrix: Any) -> LowerTriangular:
        """A strategy from a square array, without the zeros left of the first entry of a row."""
        array = np.asarray(matrix)
        if array.ndim != 2 or array.shape[0] != array.shape[1] or array.dtype.kind not in "iuf":
            raise InvalidArgument("matrix", InWords(f"shape {array.shape}"), "be a square array of numbers")
        if np.any(np.triu(array, 1) != 0.0):
            raise InvalidArgument("matrix", InWords("an entry above the diagonal"), "be lower triangular")
        rows = []
        for t, row in enumerate(array.astype(np.float64)):
            start = int(np.flatnonzero(row[: t + 1])[0]) if np.any(row[: t + 1]) else t
            rows.append(tuple(row[start : t + 1].tolist()))
        return cls(tuple(rows))

    def _require_rounds(self, rounds: int) -> None:
        if rounds != len(self.rows):
            raise InvalidArgument("steps", InWords(rounds), f"be {len(self.rows)}, the number of the matrix's rows")

    def bands(self, rounds: int) -> int:
        return max(len(row) for row in self.rows)

    @property
    def is_nonnegative(self) -> bool:
        return all(min(row) >= 0.0 for row in self.rows)

    def column_norms(self, rounds: int) -> FloatArray:
        self._require_rounds(rounds)
        squares = np.zeros(rounds)
        for t, row in enumerate(self.rows):
            squares[t + 1 - len(row) : t + 1] += np.square(row)
        return norms_up(squares, self.bands(rounds))

    def matrix(self, rounds: int) -> FloatArray:
        self._require_rounds(rounds)
        require_dense(rounds)
        result = np.zeros((rounds, rounds))
        for t, row in enumerate(self.rows):
            result[t, t + 1 - len(row) : t + 1] = row
        return result

    def prefix_error(self, rounds: int) -> float:
        from scipy.linalg import solve_triangular

        prefix = np.tril(np.ones((rounds, rounds)))
        # A C^-1 = (C^-T A^T)^T
        answer = solve_triangular(self.matrix(rounds).T, prefix.T, lower=False)
        return float(np.sum(answer * answer))

    def describe(self) -> str:
        return f"a lower-triangular matrix of {len(self.rows)} rows with {self.bands(len(self.rows))} bands"


@dataclass(frozen=True, slots=True)
class Tree(Strategy):
    """Tree aggregation: one release for every node of the binary tree over the rounds, without combining nodes."""

    name: ClassVar[str] = "tree"

    def levels(self, rounds: int) -> int:
        """The number of levels of complete nodes: nodes of 1, 2, 4, .. rounds."""
        return rounds.bit_length()

    def bands(self, rounds: int) -> int:
        return rounds

    def column_norms(self, rounds: int) -> FloatArray:
        times = np.arange(rounds)
        counts = np.zeros(rounds)
        for level in range(self.levels(rounds)):
            counts += times < (rounds >> level) << level  # complete nodes of 2^level rounds
        return np.nextafter(np.sqrt(counts), np.inf)

    def matrix(self, rounds: int) -> FloatArray:
        require_dense(rounds)
        rows = []
        for level in range(self.levels(rounds)):
            for node in range(rounds >> level):
                row = np.zeros(rounds)
                row[node << level : (node + 1) << level] = 1.0
                rows.append(row)
        return np.array(rows)

    def prefix_error(self, rounds: int) -> float:
        """Each prefix is the sum of the nodes of its binary digits."""
        return float(sum(t.bit_count() for t in range(1, rounds + 1)))

    def describe(self) -> str:
        return "tree aggregation"


def require_dense(rounds: int) -> None:
    """Refuse a matrix that is too large to be taken entry by entry."""
    require_integer("steps", rounds, at_least=1, at_most=LARGEST_DENSE)


def numbers_of(name: str, values: Any, *, largest: int) -> tuple[float, ...]:
    """`values` as finite doubles that are 0 or of a size whose square is a normal double."""
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise InvalidArgument(name, values, "be a sequence of numbers")
    numbers = tuple(values)
    if not all(type(value) is float for value in numbers):
        numbers = tuple(require_number(f"{name}[{i}]", value) for i, value in enumerate(numbers))
    if not 1 <= len(numbers) <= largest:
        raise InvalidArgument(name, len(numbers), f"have from 1 to {largest} entries")
    sizes = np.abs(np.array(numbers))
    wrong = np.flatnonzero(~((sizes == 0.0) | ((sizes >= SMALLEST_ENTRY) & (sizes <= 1.0 / SMALLEST_ENTRY))))
    if len(wrong):
        i = int(wrong[0])
        require_number(f"{name}[{i}]", numbers[i])
        raise InvalidArgument(f"{name}[{i}]", numbers[i], "be 0 or between 1e-100 and 1e100 in size")
    return numbers
