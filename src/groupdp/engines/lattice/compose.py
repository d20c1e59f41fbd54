"""The law of the sum of T independent losses, from non-negative arrays, with a bound on the error of every entry.

By powers of one Fourier transform (L-9), whose bounds are relative to the largest entries. Where rare and large losses
leave a gap at epsilon, no tilt lifts it above that: arrays are then cut into blocks of m entries, and the convolution
is the sum over pairs of blocks, each by transforms of length 2m (L-22). Blocks of next to nothing are not transformed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
import numpy.typing as npt
from numpy import fft

from groupdp.engines.lattice.measures import Tail, TiltedMass
from groupdp.floats import COMPLEX_PRODUCT, TINY, UNIT, FloatArray, composed, fft_error, fft_error_in_norm

ComplexArray = npt.NDArray[np.complex128]


def convolution_power(factors: Sequence[tuple[FloatArray, int]]) -> tuple[FloatArray, float, float]:
    """The circular convolution of all arrays, each taken as often as stated; lengths are equal and even.

    Also a bound on the error of every entry, and one on the Euclidean norm of all errors together, which says more
    about sums of many entries.
    """
    length = len(factors[0][0])
    sums = [float(np.sum(array)) for array, _ in factors]
    if not all(total < math.inf for total in sums):  # also where one is not a number
        return np.zeros(length), math.inf, math.inf
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
        with np.errstate(divide="ignore", invalid="ignore"):  # an empty measure: 0 / 0, and no bound follows
            relative += power * error / magnitude
            np.log(magnitude, out=magnitude)
        magnitude *= float(power)
        log_magnitude += magnitude
        del magnitude
        total_power += power
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            raised = composed(spectrum, power, np.multiply)
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
        return np.zeros(length), math.inf, math.inf
    return fft.irfft(product, n=length), error, norm_error


def _mean_modulus(half: FloatArray) -> float:
    """At least the mean over all coefficients of the full spectrum, from its first half."""
    return 2.0 * float(np.sum(half)) / (2.0 * (len(half) - 1)) * (1.0 + 1e-9)


def _root_mean_square(half: FloatArray) -> float:
    """At least the root mean square over the full spectrum, from its first half."""
    return math.sqrt(2.0 * float(np.dot(half, half)) / (2.0 * (len(half) - 1)) * (1.0 + 1e-9)) + TINY


#: Logarithms of masses are right to this, absolutely and relatively: bounds made of them include it.
_ROOM = 1e-9
_LOG_ROOM = 1e-12
#: Blocks whose sum is below this are not transformed: products of such numbers would underflow, and slowly.
_NEXT_TO_NOTHING = 1e-145


@dataclass(frozen=True, slots=True)
class _Measure:
    """The atoms at n h, n = first, first + 1, ...: entries times e^{log_scale - rate n h}."""

    first: int
    values: FloatArray
    log_scale: float
    log_infinite: float
    log_total: float
    """log of at least the total mass, that at +infinity included (upper measures only)."""


def compose_in_blocks(masses: list[TiltedMass], rounds: list[int], *, block: int, last: float, up: bool) -> Tail:
    """The composed measure of losses up to about `last`; beyond, they go to +infinity (up) or are left out (L-22).

    No array may be folded. `last` may be any number that losses of part of the rounds do not have to exceed.
    """
    step, rate = masses[0].step, masses[0].tilt.rate
    offset = sum((count * Fraction(mass.tilt.offset) for mass, count in zip(masses, rounds, strict=True)), Fraction(0))
    end = math.ceil((Fraction(last) - offset) / Fraction(step))

    def product(left: _Measure, right: _Measure) -> _Measure:
        return _convolved(left, right, rate * step, block, end, up=up)

    whole = reduce(product, (composed(_unfolded(mass, up), n, product) for mass, n in zip(masses, rounds, strict=True)))
    scales = [count * mass.tilt.log_scale for mass, count in zip(masses, rounds, strict=True)]
    return Tail(
        step=step,
        offset=offset,
        rate=rate,
        log_scale=whole.log_scale,
        log_scale_error=64.0 * UNIT * math.fsum(map(abs, scales)),
        first=whole.first,
        values=whole.values,
        log_infinite_mass=whole.log_infinite,
    )


def _unfolded(mass: TiltedMass, up: bool) -> _Measure:
    count = mass.highest - mass.lowest + 1
    if count > len(mass.array):
        raise AssertionError("the array must hold every atom apart")
    values = mass.array[(mass.lowest + np.arange(count)) % len(mass.array)]
    log_total = math.log1p(mass.inflation + math.exp(min(mass.log_infinite_mass, 0.0))) + _ROOM if up else 0.0
    return _Measure(mass.lowest, values, mass.tilt.log_scale, mass.log_infinite_mass, log_total)


def _convolved(left: _Measure, right: _Measure, tilt: float, m: int, end: int, *, up: bool) -> _Measure:
    """The convolution on indices up to about `end`, by blocks of m = 2^a entries; `tilt` is rate times step (L-22)."""
    first, log_scale = left.first + right.first, left.log_scale + right.log_scale
    spectra, sums = _spectra(left.values, m)
    others, other_sums = (spectra, sums) if right is left else _spectra(right.values, m)
    products = _convolved_sums(sums, other_sums)
    own, other = (np.where(given < _NEXT_TO_NOTHING, given, 0.0) for given in (sums, other_sums))
    untransformed = _convolved_sums(own, other_sums) + _convolved_sums(sums, other)
    kept = min(len(products), max(1, -((first - end) // m) + 1))
    values = np.zeros((kept + 1) * m)
    unit_error = fft_error(2 * m)
    for k in range(kept):
        low, high = max(0, k - len(others) + 1), min(k, len(spectra) - 1)
        with np.errstate(under="ignore"):
            total = (spectra[low : high + 1] * others[k - high : k - low + 1][::-1]).sum(axis=0)
        entries = fft.irfft(total, n=2 * m)
        error = products[k] * (3.1 * unit_error + 1.01 * (high - low + 9.0) * UNIT) + untransformed[k] + TINY
        entries = np.maximum(entries, 0.0) + error if up else np.maximum(entries - error, 0.0)
        values[k * m : (k + 2) * m] += entries
    values *= 1.0 + 8.0 * UNIT if up else 1.0 - 8.0 * UNIT
    log_infinite = -math.inf
    if up:
        beyond = float(products[kept:].sum())  # tilted, all of it right of `kept` blocks
        edge = tilt * (first + kept * m)
        terms = [left.log_infinite + right.log_total, right.log_infinite + left.log_total]
        if beyond > 0.0:
            room = _LOG_ROOM * (abs(log_scale) + abs(edge))
            terms.append(math.log(beyond) + log_scale - edge + room)
        log_infinite = float(np.logaddexp.reduce(terms)) + _ROOM
    return _Measure(first, values, log_scale, log_infinite, left.log_total + right.log_total)


def _spectra(values: FloatArray, m: int) -> tuple[np.ndarray, FloatArray]:
    """The transforms of all blocks, and at least the sums of the blocks."""
    padded = np.zeros(-(-len(values) // m) * m)
    padded[: len(values)] = values
    blocks = padded.reshape(-1, m)
    sums = np.asarray(blocks.sum(axis=1) * (1.0 + 2.0 * m * UNIT))
    blocks[sums < _NEXT_TO_NOTHING] = 0.0
    return fft.rfft(blocks, n=2 * m, axis=1), sums


def _convolved_sums(left: FloatArray, right: FloatArray) -> FloatArray:
    """At least the convolution of non-negative numbers, whose relative error is that of as many roundings."""
    with np.errstate(under="ignore"):
        return np.asarray(np.convolve(left, right) * (1.0 + 1e-9) + TINY)
