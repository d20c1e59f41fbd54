"""The law of the sum of T independent losses, from non-negative arrays, with a bound on the error of every entry.

By powers of one Fourier transform (L-9). What folding adds to the window is bounded by Chernoff sums (L-20).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

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


def compose_tail(masses: list[TiltedMass], rounds: list[int], *, left: float) -> Tail:
    """The composed measure on the window that starts at about the loss `left`."""
    step, length, parts = masses[0].step, len(masses[0].array), list(zip(masses, rounds, strict=True))
    offset = sum((count * Fraction(mass.tilt.offset) for mass, count in parts), Fraction(0))
    first = math.floor((Fraction(left) - offset) / Fraction(step))
    outside = [math.exp(min(_log_outside(masses, rounds, k, first=first, length=length), 700.0)) for k in (0, 1)]
    log_infinite = _log_infinite_mass(masses, rounds)
    values, error, norm_error = convolution_power([(mass.array, count) for mass, count in parts])
    turn = first % length
    scales = [count * mass.tilt.log_scale for mass, count in parts]
    return Tail(
        step=step,
        offset=offset,
        rate=masses[0].tilt.rate,
        log_scale=math.fsum(scales),
        log_scale_error=4.0 * UNIT * math.fsum(map(abs, scales)),
        first=first,
        values=np.concatenate((values[turn:], values[:turn])),
        error=error,
        norm_error=norm_error,
        left_outside=outside[0],
        right_outside=outside[1],
        log_infinite_mass=log_infinite,
    )


def _log_outside(masses: list[TiltedMass], rounds: list[int], k: int, *, first: int, length: int) -> float:
    """log of Chernoff's bound on the tilted mass left (k = 0) or right (k = 1) of the window."""
    extreme = sum(count * (mass.lowest, mass.highest)[k] for mass, count in zip(masses, rounds, strict=True))
    if (extreme >= first) if k == 0 else (extreme < first + length):
        return -math.inf
    theta = masses[0].tilt.moments[k][0]
    edge = (first - 1 if k == 0 else first + length) * masses[0].step
    terms = [-theta * edge]
    for mass, count in zip(masses, rounds, strict=True):
        if not (0.0 < mass.moments[k] < math.inf):
            return math.inf if mass.moments[k] > 0.0 else -math.inf
        terms.append(count * (math.log(mass.moments[k]) + mass.tilt.moments[k][1]))
    room = 1e-13 * math.fsum(map(abs, terms)) + 1e-15 * math.fsum(rounds) + 1e-9
    return math.fsum(terms) + room


def _log_infinite_mass(masses: list[TiltedMass], rounds: list[int]) -> float:
    """log of a bound on the mass at +infinity of the composition: sum T w (1 + inflation + w)^T."""
    terms, growth = [-math.inf], 0.0
    for mass, count in zip(masses, rounds, strict=True):
        if mass.log_infinite_mass > -math.inf:
            terms.append(math.log(count) + mass.log_infinite_mass)
        growth += count * (mass.inflation + math.exp(min(mass.log_infinite_mass, 0.0)))
    return float(np.logaddexp.reduce(terms)) + growth * 1.01 + 1e-9
