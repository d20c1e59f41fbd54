"""Toeplitz strategies: entries that depend on the distance from the diagonal alone."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from groupdp.errors import InvalidArgument, require_integer
from groupdp.floats import FloatArray
from groupdp.mechanisms.correlated.strategies import LARGEST_BANDS, Strategy, norms_up, numbers_of, require_dense


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
        norms = norms_up(np.cumsum(column * column), len(column))
        norms[0] = abs(column[0])  # no rounding: one band is DP-SGD, bit for bit
        longest = np.full(max(rounds - len(column), 0), norms[-1])
        return np.concatenate((norms, longest))[:rounds][::-1]  # the column of round t has rounds - t entries

    def matrix(self, rounds: int) -> FloatArray:
        require_dense(rounds)
        column = self.first_column(rounds)
        result = np.zeros((rounds, rounds))
        for distance, value in enumerate(column[:rounds]):
            np.fill_diagonal(result[distance:], value)
        return result

    def prefix_error(self, rounds: int) -> float:
        inverse = _inverse_series(self.first_column(rounds), rounds)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.cumsum(inverse)
            error = float(np.sum(sums * sums * np.arange(rounds, 0, -1.0)))
        return error if math.isfinite(error) else math.inf


@dataclass(frozen=True, slots=True)
class BandedToeplitz(ToeplitzStrategy):
    """The banded Toeplitz matrix with first column `column`: BandMF."""

    column: tuple[float, ...]

    name: ClassVar[str] = "banded-toeplitz"

    def __post_init__(self) -> None:
        column = numbers_of("column", self.column, largest=LARGEST_BANDS)
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
        decays = numbers_of("decays", self.decays, largest=LARGEST_BANDS)
        scales = numbers_of("scales", self.scales, largest=LARGEST_BANDS)
        if len(decays) != len(scales):
            raise InvalidArgument("scales", len(scales), f"be as many as decays ({len(decays)})")
        outside = [value for value in decays if not 0.0 <= value <= 1.0]
        if outside:
            raise InvalidArgument("decays", outside[0], "be in [0, 1]")
        object.__setattr__(self, "decays", decays)
        object.__setattr__(self, "scales", scales)

    def first_column(self, rounds: int) -> FloatArray:
        """Numbers of the signs of c_t, or nearly 0, and at least as large in size (M-1)."""
        return _buffered_column(self, rounds)

    @property
    def is_nonnegative(self) -> bool:
        return all(value >= 0.0 for value in self.scales)

    @property
    def is_decreasing(self) -> bool:
        return self.is_nonnegative and sum(map(Fraction, self.scales)) <= 1

    def describe(self) -> str:
        return f"a buffered linear Toeplitz matrix with {len(self.decays)} buffer{'s' if len(self.decays) > 1 else ''}"


@dataclass(frozen=True, slots=True)
class PrefixSum(ToeplitzStrategy):
    """All ones: every prefix sum of the clipped sums is released with noise of its own (output perturbation)."""

    name: ClassVar[str] = "prefix-sum"

    def first_column(self, rounds: int) -> FloatArray:
        return np.ones(rounds)

    @property
    def is_decreasing(self) -> bool:
        return True

    def describe(self) -> str:
        return "the matrix of prefix sums"


@lru_cache(maxsize=2)
def _buffered_column(strategy: BufferedLinearToeplitz, rounds: int) -> FloatArray:
    column = np.ones(rounds)
    if rounds > 1:
        times = np.arange(rounds - 1, dtype=np.float64)
        sizes = np.zeros(rounds - 1)
        values = np.zeros(rounds - 1)
        with np.errstate(under="ignore"):
            for decay, scale in zip(strategy.decays, strategy.scales, strict=True):
                term = scale * np.power(decay, times)
                values += term
                sizes += np.abs(term)
        # pow is right to 4 units in the last place on every platform that is supported: 8 are added, and 1 a buffer.
        margin = sizes * ((len(strategy.decays) + 8) * 2.0**-52)
        column[1:] = np.where(
            values >= 0.0, np.nextafter(values + margin, np.inf), np.nextafter(values - margin, -np.inf)
        )
        column[1:][sizes == 0.0] = 0.0  # beyond the smallest double: covered by M-1
    column.flags.writeable = False
    return column


def _inverse_series(column: FloatArray, rounds: int) -> FloatArray:
    """The first `rounds` coefficients of 1 / sum_t c_t x^t, by Newton: the number of right ones doubles."""
    inverse = np.array([1.0 / column[0]])
    with np.errstate(over="ignore", invalid="ignore"):
        while len(inverse) < rounds:
            length = min(2 * len(inverse), rounds)
            residual = -_convolved(column[:length], inverse, length)
            residual[0] += 2.0
            inverse = _convolved(inverse, residual, length)
    return inverse


def _convolved(first: FloatArray, second: FloatArray, length: int) -> FloatArray:
    size = 1 << (len(first) + len(second) - 1).bit_length()
    product = np.fft.irfft(np.fft.rfft(first, size) * np.fft.rfft(second, size), size)[:length]
    return np.concatenate((product, np.zeros(length - len(product))))
