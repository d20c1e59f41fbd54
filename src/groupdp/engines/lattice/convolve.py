"""The law of the sum of T independent losses, by powers of a Fourier transform, with a bound on every entry.

Input arrays are non-negative; output is the circular convolution power. The bounds cover the rounding of
the forward transform (raised to the power T: T times the error of a coefficient), of the powers and of the
inverse transform (L-9).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy import fft

from groupdp.engines.lattice.likelihood import FloatArray
from groupdp.engines.lattice.rounding import COMPLEX_PRODUCT, TINY, UNIT, fft_error, fft_error_in_norm

ComplexArray = npt.NDArray[np.complex128]


@dataclass(frozen=True, slots=True)
class Convolution:
    """Entries of a circular convolution, all within `error` of the exact ones.

    `norm_error` bounds the Euclidean norm of all errors together, which says more about sums of many entries.
    """

    values: FloatArray
    error: float
    norm_error: float


def convolution_power(factors: Sequence[tuple[FloatArray, int]]) -> Convolution:
    """The circular convolution of all arrays, each taken as often as stated; lengths are equal and even."""
    length = len(factors[0][0])
    if any(len(array) != length for array, _ in factors):
        raise AssertionError("arrays must share their length")
    sums = [float(np.sum(array)) for array, _ in factors]
    if not all(total < math.inf for total in sums):  # also where one is not a number
        return Convolution(np.zeros(length), math.inf, math.inf)
    unit_error = fft_error(length)
    product: ComplexArray | None = None
    log_magnitude = np.zeros(length // 2 + 1)
    relative = np.zeros(length // 2 + 1)
    total_power = 0
    for (array, power), total in zip(factors, sums, strict=True):
        spectrum: ComplexArray = fft.rfft(array)
        error = unit_error * total * (1.0 + length * UNIT)
        magnitude = np.abs(spectrum)
        magnitude *= 1.0 + 8.0 * UNIT
        magnitude += error
        relative += power * error / magnitude
        np.log(magnitude, out=magnitude)
        magnitude *= float(power)
        log_magnitude += magnitude
        del magnitude
        total_power += power
        raised = _power(spectrum, power)
        product = raised if product is None else np.multiply(product, raised, out=product)
    if product is None:
        raise AssertionError("there must be a factor")
    # |exact - computed| <= e^log_magnitude x (relative + roundings of the powers), coefficient by coefficient.
    relative += math.expm1(min(COMPLEX_PRODUCT * (total_power + len(factors)), 700.0))
    with np.errstate(under="ignore", over="ignore"):
        np.exp(log_magnitude, out=log_magnitude)
    with np.errstate(invalid="ignore"):
        relative *= log_magnitude
    # Computing this bound is itself off by a few roundings of every logarithm, times the power.
    sloppiness = (1.0 + 1e-6) * math.exp(min(1e-14 * float(total_power), 700.0))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        modulus = np.abs(product)
        error = unit_error * _mean_modulus(modulus) + _mean_modulus(relative)
        # Parseval: the norm of the entries' errors is the root mean square of the coefficients'.
        norm_error = fft_error_in_norm(length) * _root_mean_square(modulus) + _root_mean_square(relative)
    del relative, log_magnitude, modulus
    error = sloppiness * error + TINY
    norm_error = sloppiness * norm_error + length * TINY
    if not (error < math.inf and norm_error < math.inf):
        return Convolution(np.zeros(length), math.inf, math.inf)
    return Convolution(fft.irfft(product, n=length), error, norm_error)


def _mean_modulus(half: FloatArray) -> float:
    """At least the mean over all coefficients of the full spectrum, from its first half."""
    return 2.0 * float(np.sum(half)) / (2.0 * (len(half) - 1)) * (1.0 + 1e-9)


def _root_mean_square(half: FloatArray) -> float:
    """At least the root mean square over the full spectrum, from its first half."""
    return math.sqrt(2.0 * float(np.dot(half, half)) / (2.0 * (len(half) - 1)) * (1.0 + 1e-9)) + TINY


def _power(base: ComplexArray, power: int) -> ComplexArray:
    """base^power by repeated squaring, in place; (power - 1) roundings of a product, relatively."""
    if power < 1:
        raise AssertionError("a power must be at least 1")
    result: ComplexArray | None = None
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        while True:
            if power & 1:
                result = base.copy() if result is None else np.multiply(result, base, out=result)
            power >>= 1
            if power == 0 and result is not None:
                return result
            np.multiply(base, base, out=base)
