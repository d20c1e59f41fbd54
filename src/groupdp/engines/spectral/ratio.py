"""The likelihood ratio R(u) = sum_i p_i exp(m_i u - m_i^2 / 2) on a set of nodes, with its rounding error.

Floating-point model (docs/numerics.md, section 6): IEEE doubles, unit roundoff U = 2^-53, and elementary
functions of NumPy within 4 units in the last place (8 U).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from groupdp.engines.spectral.rounds import FloatArray, Round

#: Unit roundoff.
U = 2.0**-53
#: Relative error of one elementary function.
ELEMENTARY = 8.0 * U
#: Relative error of NumPy's pairwise sum of up to 2^30 terms of one sign (blocks of 128 in 8 lanes).
PAIRWISE = 64.0 * U


def short(value: float) -> float:
    """`value` rounded down to 20 significant bits: its multiples by integers below 2^33 are exact doubles.

    The trapezoid rule is about equidistant nodes; with such a step they are, to the last bit.
    """
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.floor(math.ldexp(mantissa, 20)), exponent - 20)


#: exp() of this is still far from overflow.
_SAFE_EXPONENT = 600.0
#: Probabilities below this are handled through their logarithms.
_SAFE_LOG_PROBABILITY = -650.0
#: Entries (nodes x components) worked on at once.
_LARGEST_PIECE = 1_000_000
#: Below this largest shift, R - 1 is summed with expm1.
_SMALL_SHIFT = 0.5
#: While no exponent exceeds this, |R - 1| < 1/2 and log R comes from R - 1 alone; R itself is only needed roughly.
_SMALL_EXPONENT = 0.4


@dataclass(frozen=True, slots=True)
class RatioTable:
    """R on the nodes u: Psi = log R, its slope, R - 1, and bounds on the rounding errors of both."""

    u: FloatArray
    psi: FloatArray
    slope: FloatArray  # Psi'(u) = sum_i w_i m_i, w the posterior of the component; to about 1e-12 relative
    excess: FloatArray  # R - 1
    psi_error: FloatArray
    excess_error: FloatArray


def tabulate(one_round: Round, u: FloatArray) -> RatioTable:
    """The table for one round at the nodes `u`, in pieces that keep memory bounded."""
    piece = max(_LARGEST_PIECE // len(one_round.m), 1)
    if len(u) <= piece:
        return _tabulate_piece(one_round, u)
    tables = [_tabulate_piece(one_round, u[start : start + piece]) for start in range(0, len(u), piece)]
    return RatioTable(
        *(np.concatenate([getattr(table, field.name) for table in tables]) for field in fields(RatioTable))
    )


def _tabulate_piece(one_round: Round, u: FloatArray) -> RatioTable:
    reach = float(np.max(np.abs(u)))
    largest = one_round.largest_shift
    if largest * (reach + largest) > _SAFE_EXPONENT or np.min(one_round.log_p) < _SAFE_LOG_PROBABILITY:
        return _tabulate_logarithmically(one_round, u)
    return _tabulate_directly(one_round, u)


def _tabulate_directly(one_round: Round, u: FloatArray) -> RatioTable:
    positive = one_round.m > 0.0
    m, p = one_round.m[positive], one_round.p[positive]
    absent = float(one_round.p[~positive].sum())
    present = float(p.sum())
    count = len(m)
    exponent = np.multiply.outer(u, m)
    exponent -= 0.5 * m * m
    if one_round.largest_shift < _SMALL_SHIFT:
        increments = np.expm1(exponent)
        excess = increments @ p
        if one_round.largest_shift * (float(np.max(np.abs(u))) + one_round.largest_shift) < _SMALL_EXPONENT:
            increments += 1.0
            ratios = increments
        else:  # far below e^e = 1, 1 + expm1(e) keeps no digit of e^e
            ratios = np.exp(exponent, out=exponent)
    else:
        ratios = np.exp(exponent, out=exponent)
        excess = None
    # Moments of m under p_i e^{e_i}: zeroth, first, and the size of the exponents' terms.
    sums = ratios @ np.column_stack((p, p * m, 0.5 * p * m * m))
    total, first, half_second = sums[:, 0], sums[:, 1], sums[:, 2]
    magnitude = np.abs(u)
    # Sum of p_i e^{e_i} (m_i |u| + m_i^2 / 2): an exponent is wrong by at most 10 U (m |u| + m^2 / 2), since a
    # shift is by at most 4 U m.
    exponents = first * magnitude + half_second
    if excess is None:
        excess = total - present
        excess_error = U * ((count + 14.0) * (total + present) + 10.0 * exponents)
    else:
        # |expm1(e)| <= |e| max(1, e^e), so each term's relative error is charged to the exponents' sum.
        plain = float(p @ m) * magnitude + 0.5 * float(p @ (m * m))
        excess_error = U * ((count + 14.0) * (plain + exponents) + 10.0 * exponents)
    ratio = total + absent
    near_one = np.abs(excess) < 0.5
    psi = np.where(near_one, np.log1p(np.where(near_one, excess, 0.0)), np.log(ratio))
    # Away from 1, log(total + absent) is charged with the error of the sum itself.
    ratio_error = np.where(near_one, excess_error, U * ((count + 16.0) * ratio + 10.0 * exponents))
    psi_error = ratio_error / np.maximum(ratio - ratio_error, 0.5 * ratio) + ELEMENTARY * np.abs(psi)
    return RatioTable(u, psi, first / ratio, excess, psi_error, np.maximum(excess_error, ratio_error))


def _tabulate_logarithmically(one_round: Round, u: FloatArray) -> RatioTable:
    m, log_p = one_round.m, one_round.log_p
    exponent = np.multiply.outer(u, m)
    exponent += log_p - 0.5 * m * m
    top = exponent.max(axis=1)
    exponent -= top[:, None]
    ratios = np.exp(exponent, out=exponent)
    sums = ratios @ np.column_stack((np.ones_like(m), m, 0.5 * m * m, np.abs(log_p)))
    total = sums[:, 0]
    psi = top + np.log(total)
    magnitude = np.abs(u)
    exponents = (sums[:, 1] * magnitude + sums[:, 2] + sums[:, 3]) / total
    # The sum, its logarithm (at most log n, to 8 U) and the distances to the top (at most log n on average).
    counting = len(m) + 20.0 + 9.0 * math.log(len(m))
    psi_error = U * (counting + 12.0 * exponents + 3.0 * np.abs(top)) + ELEMENTARY * np.abs(psi)
    with np.errstate(over="ignore"):
        excess = np.expm1(psi)
        excess_error = np.exp(psi) * np.expm1(psi_error) + ELEMENTARY * np.abs(excess)
    return RatioTable(u, psi, sums[:, 1] / total, excess, psi_error, excess_error)
