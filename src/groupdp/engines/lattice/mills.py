"""The Mills ratio M(x) = (1 - Phi(x)) / phi(x) and its differences, with certified relative errors.

M(x) = int_0^inf exp(-x s - s^2 / 2) ds is completely monotone: M(a) - M(b) >= 0 for a < b, and every
derivative is largest in absolute value at the left end of an interval.
"""

from __future__ import annotations

import math

import numpy as np

from groupdp.engines.lattice.likelihood import FloatArray
from groupdp.engines.lattice.rounding import MILLS, UNIT

_POINTS = 8
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(_POINTS)
#: Error constant of the 8-point rule.
_CONSTANT = math.factorial(_POINTS) ** 4 / ((2 * _POINTS + 1) * math.factorial(2 * _POINTS) ** 3)
#: Differences over at most this are integrated instead of subtracted.
_CLOSE = 0.5
#: From here on the asymptotic series with 7 terms is exact to rounding: 15!! / 50^14 < 4e-18.
_SERIES = 50.0


def mills(x: FloatArray) -> FloatArray:
    """M(x) for x >= -5; relative error below MILLS."""
    from scipy.special import erfcx  # not before it is needed: a third of a second

    return np.asarray(math.sqrt(0.5 * math.pi) * erfcx(x * math.sqrt(0.5)))


def log_normal_cdf(x: FloatArray) -> FloatArray:
    """log Phi(x)."""
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr(x))


def mills_difference(a: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(M(a) - M(a + width), relative error), for a >= -5 and width > 0; a and width may be off by a rounding each.

    Over a short way the difference is the integral of -M'(y) = 1 - y M(y) > 0, by a rule whose error is at most C
    width^17 times the 16th derivative at a (or at 0, and 40 times that, for a in [-0.5, 0)). Far out, where 1 and y
    M(y) cancel, -M'(y) = 1 / y^2 - 3 / y^4 + 15 / y^6 - ..., off by less than the first term left out (L-15).
    """
    b = a + width
    at_a, at_b = mills(a), mills(b)
    difference = at_a - at_b
    # Both ends may be off by a rounding of each other and of the width; |M'| <= (1 + |y|) M.
    places = UNIT * 2.0 * (np.abs(a) + np.abs(b) + width)
    rounding = MILLS * (at_a + at_b) + places * ((1.0 + np.abs(a)) * at_a + (1.0 + np.abs(b)) * at_b)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.where(difference > 0.0, 1.01 * rounding / difference + 4.0 * UNIT, np.inf)
    short = np.flatnonzero(((width <= _CLOSE) & (a >= -_CLOSE)) | ((a >= _SERIES) & (width <= 0.25 * a)))
    if len(short):
        integral, own_error = _integrated(a[short], width[short])
        better = own_error < error[short]
        difference[short[better]] = integral[better]
        error[short[better]] = own_error[better]
    return difference, error


def _integrated(a: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray]:
    y = a[:, None] + 0.5 * width[:, None] * (1.0 + _NODES[None, :])
    ratio = mills(y)
    slope = 1.0 - y * ratio
    # 1 - y M(y): the product is off by MILLS + u, and y by 4 u (|y| + 1), where the slope is at most min(3, 2 / y^3).
    steepest = np.where(y > 1.0, 2.0 / np.maximum(y, 1.0) ** 3, 3.0)
    rounding = (MILLS + 2.0 * UNIT) * np.abs(y * ratio) + 4.0 * UNIT * ((np.abs(y) + 1.0) * steepest + 1.0)
    far = y >= _SERIES
    if np.any(far):
        slope = np.where(far, _series(np.maximum(y, _SERIES)), slope)
        rounding = np.where(far, 64.0 * UNIT * slope, rounding)
    integral = 0.5 * width * (slope @ _WEIGHTS)
    smallest = np.min(slope, axis=1)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        moment = np.where(a > 0.0, np.minimum(2.0**_POINTS * math.factorial(_POINTS), _far_moment(a)), 0.0)
        moment = np.where(a > 0.0, moment, 40.0 * 2.0**_POINTS * math.factorial(_POINTS))
        rule = _CONSTANT * width ** (2 * _POINTS) * moment / smallest
        error = 1.01 * (np.max(rounding, axis=1) / smallest + rule) + 32.0 * UNIT
    return integral, np.where(smallest > 0.0, error, np.inf)


def _series(y: FloatArray) -> FloatArray:
    """-M'(y) for y >= 50: sum over k = 1..7 of (-1)^(k+1) (2k - 1)!! / y^(2k)."""
    z = 1.0 / (y * y)
    total = np.zeros_like(y)
    for k in range(7, 0, -1):  # (2k - 1) z (1 - (2k + 1) z (1 - ...)), with 1 z at k = 1
        total = (2 * k - 1) * z * (1.0 - total)
    return np.asarray(total)


def _far_moment(a: FloatArray) -> FloatArray:
    """int s^17 e^(-a s) ds = 17! / a^18, which bounds the 16th derivative of -M' at a > 0."""
    return np.asarray(math.factorial(2 * _POINTS + 1) / np.maximum(a, 1e-10) ** (2 * _POINTS + 2))
