"""The strategy matrices C of correlated noise: y = C x + noise, C lower triangular, one row for each release.

A strategy says what the theorems about it need (docs/correlated-noise.md): its bands, whether its entries are
non-negative, the norms of its columns, the inner products of its columns, and what its noise costs the prefix sums.
Everything that enters a sensitivity is rounded up: sums of non-negative terms have a relative error of at most the
number of their operations times the unit roundoff (M-1), and `rounded_up` covers it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from groupdp._validation import require_integer, require_number
from groupdp.errors import InvalidArgument, InWords

FloatArray = npt.NDArray[np.float64]

#: The largest matrix that is taken entry by entry.
LARGEST_DENSE = 4096
#: Entries other than 0 are at least this large, so that no square underflows.
SMALLEST_ENTRY = 1e-100
#: The most bands and buffers accepted.
LARGEST_BANDS = 4096


def rounded_up(value: float, operations: int) -> float:
    """A number not below the exact one, from a sum of non-negative products with so many roundings (M-1)."""
    return math.nextafter(value * (1.0 + (operations + 4) * 2.0**-52), math.inf) if value > 0.0 else value


class Strategy(ABC):
    """A strategy matrix for any number of rounds."""

    __slots__ = ()

    #: In run files and on the command line.
    name: ClassVar[str]

    @abstractmethod
    def bands(self, rounds: int) -> int:
        """The number of diagonals that are not zero, the main one included."""

    @property
    @abstractmethod
    def is_nonnegative(self) -> bool:
        """Whether no entry is negative; if not, sensitivities are those of |C|, valid but not attained."""

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
        """In a few words."""

    def first_column(self, rounds: int) -> FloatArray | None:
        """The first column where the matrix is Toeplitz, else None."""
        return None

    @property
    def is_decreasing(self) -> bool:
        """Whether it is Toeplitz with 0 <= c_{t+1} <= c_t for all t."""
        return False


class ToeplitzStrategy(Strategy):
    """A strategy whose entries depend on the distance from the diagonal alone."""

    __slots__ = ()

    @abstractmethod
    def first_column(self, rounds: int) -> FloatArray:
        """c_0, c_1, ..: at most `rounds` of them, trailing zeros left out."""

    def bands(self, rounds: int) -> int:
        return len(self.first_column(rounds))

    def column_norms(self, rounds: int) -> FloatArray:
        column = self.first_column(rounds)
        norms = np.sqrt(np.cumsum(column * column))
        norms = np.nextafter(norms * (1.0 + (len(column) + 4) * 2.0**-52), np.inf)
        norms[0] = abs(column[0])  # no rounding: one band is DP-SGD, bit for bit
        longest = np.full(max(rounds - len(column), 0), norms[-1])
        return np.concatenate((norms, longest))[:rounds][::-1]  # the column of round t has rounds - t entries

    def matrix(self, rounds: int) -> FloatArray:
        _require_dense(rounds)
        column = self.first_column(rounds)
        result = np.zeros((rounds, rounds))
        for distance, value in enumerate(column[:rounds]):
            np.fill_diagonal(result[distance:], value)
        return result

    def prefix_error(self, rounds: int) -> float:
        inverse = _inverse_series(self.first_column(rounds), rounds)
        sums = np.cumsum(inverse)
        return float(np.sum(sums * sums * np.arange(rounds, 0, -1.0)))


@dataclass(frozen=True, slots=True)
class BandedToeplitz(ToeplitzStrategy):
    """The banded Toeplitz matrix with first column `column`: BandMF."""

    column: tuple[float, ...]

    name: ClassVar[str] = "banded-toeplitz"

    def __post_init__(self) -> None:
        column = _numbers("column", self.column, largest=LARGEST_BANDS)
        if not column[0] > 0.0:
            raise InvalidArgument("column", column[0], "begin with a positive number")
        while len(column) > 1 and column[-1] == 0.0:
            column = column[:-1]
        object.__setattr__(self, "column", column)

    @classmethod
    def square_root(cls, bands: int) -> BandedToeplitz:
        """The first `bands` coefficients of (1 - x)^(-1/2), whose square is the matrix of prefix sums."""
        bands = require_integer("bands", bands, at_least=1, at_most=LARGEST_BANDS)
        column = [1.0]
        for t in range(1, bands):
            column.append(column[-1] * (2.0 * t - 1.0) / (2.0 * t))
        return cls(tuple(column))

    def first_column(self, rounds: int) -> FloatArray:
        return np.array(self.column[:rounds])

    @property
    def is_nonnegative(self) -> bool:
        return all(value >= 0.0 for value in self.column)

    @property
    def is_decreasing(self) -> bool:
        return self.is_nonnegative and all(a >= b for a, b in zip(self.column, self.column[1:], strict=False))

    def describe(self) -> str:
        return f"a banded Toeplitz matrix with {len(self.column)} band{'s' if len(self.column) > 1 else ''}"


@dataclass(frozen=True, slots=True)
class BufferedLinearToeplitz(ToeplitzStrategy):
    """BLT: c_0 = 1, c_t = sum_i scales_i decays_i^(t-1) (Dvijotham, McMahan, Pillutla, Steinke and Thakurta 2024)."""

    decays: tuple[float, ...]
    scales: tuple[float, ...]

    name: ClassVar[str] = "blt"

    def __post_init__(self) -> None:
        decays = _numbers("decays", self.decays, largest=LARGEST_BANDS)
        scales = _numbers("scales", self.scales, largest=LARGEST_BANDS)
        if len(decays) != len(scales):
            raise InvalidArgument("scales", len(scales), f"be as many as decays ({len(decays)})")
        outside = [value for value in decays if not 0.0 <= value <= 1.0]
        if outside:
            raise InvalidArgument("decays", outside[0], "be in [0, 1]")
        object.__setattr__(self, "decays", decays)
        object.__setattr__(self, "scales", scales)

    def first_column(self, rounds: int) -> FloatArray:
        """c_t to a relative error of (buffers + 4 + t) roundings where no scale is negative."""
        times = np.arange(max(rounds - 1, 0), dtype=np.float64)
        column = np.ones(rounds)
        if rounds > 1:
            with np.errstate(under="ignore"):
                terms = [w * np.power(d, times) for d, w in zip(self.decays, self.scales, strict=True)]
            column[1:] = np.sum(terms, axis=0)
        if self.is_nonnegative:
            # pow is right to two units in the last place or better on every platform that is supported: 8 are added.
            column[1:] = np.nextafter(column[1:] * (1.0 + (len(self.decays) + 8) * 2.0**-52), np.inf)
        return column

    @property
    def is_nonnegative(self) -> bool:
        return all(value >= 0.0 for value in self.scales)

    @property
    def is_decreasing(self) -> bool:
        return self.is_nonnegative and math.fsum(self.scales) <= 1.0

    def describe(self) -> str:
        return f"a buffered linear Toeplitz matrix with {len(self.decays)} buffer{'s' if len(self.decays) > 1 else ''}"


@dataclass(frozen=True, slots=True)
class LowerTriangular(Strategy):
    """A lower-triangular matrix, row by row; each row may leave out leading zeros by being shorter (a band)."""

    rows: tuple[tuple[float, ...], ...]
    """Row t ends on the diagonal: its last entry is C[t, t], the one before it C[t, t - 1]."""

    name: ClassVar[str] = "lower-triangular"

    def __post_init__(self) -> None:
        if not isinstance(self.rows, list | tuple | np.ndarray) or len(self.rows) == 0:
            raise InvalidArgument("rows", self.rows, "be a non-empty sequence of rows")
        rows = []
        for t, row in enumerate(self.rows):
            values = _numbers(f"rows[{t}]", row, largest=LARGEST_BANDS)
            if len(values) > t + 1:
                raise InvalidArgument(
                    f"rows[{t}]", len(values), f"end on the diagonal and have at most {t + 1} entries"
                )
            if not values[-1] > 0.0:
                raise InvalidArgument(f"rows[{t}]", values[-1], "have a positive diagonal entry at its end")
            rows.append(values)
        object.__setattr__(self, "rows", tuple(rows))
        if len(rows) > LARGEST_DENSE and self.bands(len(rows)) > 256:
            raise InvalidArgument(
                "rows", len(rows), f"be at most {LARGEST_DENSE} for a matrix with more than 256 bands"
            )

    @classmethod
    def from_matrix(cls, matrix: Any) -> LowerTriangular:
        """From a square array; zeros left of the first entry of a row are left out."""
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
        return all(value >= 0.0 for row in self.rows for value in row)

    def column_norms(self, rounds: int) -> FloatArray:
        self._require_rounds(rounds)
        squares = np.zeros(rounds)
        for t, row in enumerate(self.rows):
            values = np.array(row)
            squares[t + 1 - len(row) : t + 1] += values * values
        return np.nextafter(np.sqrt(squares) * (1.0 + (self.bands(rounds) + 4) * 2.0**-52), np.inf)

    def matrix(self, rounds: int) -> FloatArray:
        self._require_rounds(rounds)
        _require_dense(rounds)
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

    @property
    def is_nonnegative(self) -> bool:
        return True

    def column_norms(self, rounds: int) -> FloatArray:
        times = np.arange(rounds)
        counts = np.zeros(rounds)
        for level in range(self.levels(rounds)):
            counts += times < (rounds >> level) << level  # complete nodes of 2^level rounds
        return np.nextafter(np.sqrt(counts), np.inf)

    def matrix(self, rounds: int) -> FloatArray:
        _require_dense(rounds)
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


def _inverse_series(column: FloatArray, rounds: int) -> FloatArray:
    """The first `rounds` coefficients of 1 / sum_t c_t x^t."""
    from scipy import signal

    if len(column) <= 256:
        impulse = np.zeros(rounds)
        impulse[0] = 1.0
        return np.asarray(signal.lfilter([1.0], column, impulse))
    inverse = np.array([1.0 / column[0]])
    while len(inverse) < rounds:  # Newton: the number of right coefficients doubles
        length = min(2 * len(inverse), rounds)
        residual = -signal.fftconvolve(column[:length], inverse)[:length]
        residual[0] += 2.0
        inverse = signal.fftconvolve(inverse, residual)[:length]
    return inverse


def _require_dense(rounds: int) -> None:
    require_integer("steps", rounds, at_least=1, at_most=LARGEST_DENSE)


def _numbers(name: str, values: Any, *, largest: int) -> tuple[float, ...]:
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise InvalidArgument(name, values, "be a sequence of numbers")
    numbers = tuple(require_number(f"{name}[{i}]", value) for i, value in enumerate(values))
    for i, number in enumerate(numbers):
        if number != 0.0 and not SMALLEST_ENTRY <= abs(number) <= 1.0 / SMALLEST_ENTRY:
            raise InvalidArgument(f"{name}[{i}]", number, "be 0 or between 1e-100 and 1e100 in size")
    if not 1 <= len(numbers) <= largest:
        raise InvalidArgument(name, len(numbers), f"have from 1 to {largest} entries")
    return numbers
