"""The terms of one round's hockey stick in closed form, each with a certified error (L-14, L-15).

    D_i = Phi(x_i - u) - r_i Phi(-u)    =  phi(u - x_i) (M(u - x_i) - M(u)),      r_i = exp(x_i u - x_i^2 / 2)
    E_j = s_j Phi(-u) - Phi(-u - y_j)   =  phi(u + y_j) (M(u) - M(u + y_j)),      s_j = exp(-y_j u - y_j^2 / 2)

with M(x) = (1 - Phi(x)) / phi(x) = int_0^inf exp(-x s - s^2 / 2) ds the Mills ratio, which is completely monotone:
every derivative is largest in absolute value at the left end of an interval. E is what D + r - 1 is at v = -u. No term
is negative, and for each of them one of these forms does not cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from groupdp.floats import ELEMENTARY, LOG_SQRT_2PI, MILLS, UNIT, FloatArray
from groupdp.pairs import Side

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

    Over a short way it is the integral of -M'(y) = 1 - y M(y), by a rule, or by a series far out (L-15).
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
        # The 16th derivative of -M' at a > 0 is at most int s^17 e^(-a s) ds = 17! / a^18.
        far_moment = math.factorial(2 * _POINTS + 1) / np.maximum(a, 1e-10) ** (2 * _POINTS + 2)
        moment = np.where(a > 0.0, np.minimum(2.0**_POINTS * math.factorial(_POINTS), far_moment), 0.0)
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


_FAR = 5.0


def log_sum_with_errors(log_terms: FloatArray, errors: FloatArray, log_p: FloatArray) -> tuple[float, float]:
    """(log of sum_i p_i x term_i, certified error)."""
    log_terms = log_terms + log_p
    errors = errors + UNIT * (9.0 * np.abs(log_p) + 2.0 * np.abs(log_terms))
    if not np.all(np.isfinite(errors)):
        return float(np.logaddexp.reduce(log_terms)), math.inf
    top = float(log_terms.max())
    if top == -math.inf:
        return -math.inf, 0.0
    with np.errstate(under="ignore", over="ignore"):
        weights = np.exp(log_terms - top)
    total = math.fsum(weights)
    worst = float(np.max(np.where(weights > 1e-40, errors, 0.0)))
    # Terms below 1e-40 of the largest may be off by any factor up to 1e10.
    error = 1.01 * math.fsum(weights * np.minimum(errors, 1e10)) / total if worst < 0.01 else 1.01 * worst
    value = top + math.log(total)
    return value, error + ELEMENTARY * 2.0 + UNIT * (len(log_p) ** 0.5 + 4.0 * abs(value) + 8.0)


def right_terms(u: float, m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(log D_i, certified errors) for m_i > 0."""
    x = u - m
    rho = m * (u - 0.5 * m)
    rho_error = UNIT * (4.0 * np.abs(rho) + m * np.abs(x))
    if u <= 0.0:  # D = E + (1 - r), and r <= 1
        log_v, v_error = _log_kernel(x, np.full_like(m, -u), m)
        log_rest, rest_error = _log_minus_expm1(rho, rho_error)
        return np.logaddexp(log_v, log_rest), np.maximum(v_error, rest_error) + 2.0 * ELEMENTARY
    return right_terms_at_positive(u, x, m)


def left_terms(u: float, m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(log E_i, certified errors) for m_i > 0."""
    x = u - m
    if u <= _FAR:
        near = _log_kernel(x, np.full_like(m, -u), m)
        if u <= 0.0:
            return near
    rho = m * (u - 0.5 * m)
    rho_error = UNIT * (4.0 * np.abs(rho) + m * np.abs(x))
    # r >= 1: E = D + (r - 1), taken relative to r.
    log_d, d_error = right_terms_at_positive(u, x, m)
    log_rest, rest_error = _log_minus_expm1(-np.abs(rho), rho_error)
    log_e = np.logaddexp(log_d, rho + log_rest)
    e_error = np.maximum(d_error, rest_error + rho_error) + 2.0 * ELEMENTARY
    if u <= _FAR:
        better = near[1] < e_error
    else:  # r < 1: E = r - phi(x) (M(u) + M(-x)) with -x > u > 5, where the second part is below 1e-5 of r
        small = np.exp(-0.5 * u * u - LOG_SQRT_2PI) * (mills(np.full_like(m, u)) + mills(np.maximum(-x, _FAR)))
        near = (
            rho + np.log1p(-np.minimum(small, 0.5)),
            rho_error + 4.0 * ELEMENTARY + UNIT * (np.abs(rho) + u * u * 1e-5),
        )
        better = rho < 0.0
    use = better | (rho < 0.0)
    return np.where(use, near[0], log_e), np.where(use, near[1], e_error)


def right_terms_at_positive(u: float | FloatArray, x: FloatArray, m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(log D_i, errors) for u > 0, one or as many as there are m; x = u - m."""
    log_w, w_error = _log_kernel(x, np.maximum(x, -_FAR), np.where(x >= -_FAR, m, u + _FAR))
    # Far left of the component: D = 1 - phi(x) (M(-x) + M(u)), where the second part is below 1e-5.
    rest = np.exp(-0.5 * x * x - LOG_SQRT_2PI) * (mills(np.maximum(-x, 0.0)) + mills(np.full_like(m, u)))
    far = np.log1p(-np.minimum(rest, 0.5))
    is_far = x < -_FAR
    far_error = 4.0 * ELEMENTARY + rest * UNIT * (x * x + m * np.abs(x) + 64.0)
    return np.where(is_far, far, log_w), np.where(is_far, far_error, w_error)


def _log_kernel(x: FloatArray, a: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(log of phi(x) (M(a) - M(a + width)), error)."""
    difference, relative = mills_difference(a, width)
    with np.errstate(divide="ignore"):
        value = -0.5 * x * x - LOG_SQRT_2PI + np.log(difference)
    relative = np.where(relative < 0.1, 1.1 * relative, np.inf)
    return value, relative + UNIT * (3.0 * x * x + 2.0 * width * np.abs(x) + 2.0 * np.abs(value) + 16.0) + ELEMENTARY


def _log_minus_expm1(rho: FloatArray, rho_error: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(log(1 - e^rho), error) for rho <= 0."""
    part = -np.expm1(rho)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        value = np.log(part)
        error = np.where(part > 0.0, rho_error * np.exp(rho) / part, np.inf)
    return value, np.where(np.isfinite(error), error, np.inf) + 2.0 * ELEMENTARY + UNIT * 8.0 * np.abs(value)


def log_ratio_near_one(side: Side, v: float) -> tuple[float, float] | None:
    """(log of the likelihood ratio, certified error) from sum p_i (r_i - 1); None where that overflows or cancels."""
    if side.is_zero:
        return 0.0, 0.0
    m, p, log_p = side.shifts, side.probabilities, side.log_probabilities
    rho = m * (v - 0.5 * m)
    if float(np.max(rho + log_p)) > 700.0:
        return None
    with np.errstate(under="ignore", over="ignore"):
        # Where r_i is large p_i r_i is taken as one exponential: p_i may be as small as a double can be, or smaller.
        grown = np.exp(log_p + rho)
        change = np.expm1(np.minimum(rho, 1.0))
        terms = np.where(rho > 1.0, grown - p, p * change)
        units = np.where(rho > 1.0, (9.0 * np.abs(log_p) + 12.0) * grown + 4.0 * p, 12.0 * p * np.abs(change))
        units += grown * (4.0 * np.abs(rho) + m * np.abs(v - m))
    total = math.fsum(terms)
    if total < -0.5:
        return None
    value = math.log1p(total)
    return value, 1.01 * UNIT * math.fsum(units) / (1.0 + total) + ELEMENTARY * abs(value) + 1e-300


def log_sum_of(
    terms_of: Callable[[float, FloatArray], tuple[FloatArray, FloatArray]], v: float, side: Side
) -> tuple[float, float]:
    """(log of sum_i p_i x term_i, certified error) over the shifts above 0."""
    present = side.shifts > 0.0
    m, log_p = side.shifts[present], side.log_probabilities[present]
    return log_sum_with_errors(*terms_of(v, m), log_p)
