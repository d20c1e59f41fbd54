"""G(a) - 1 without cancellation, for losses so small that log G would drown in the rounding of 1.

With x = R - 1, E[x] = 0 and e2(y) = e^y - 1 - y,

    remove:  G(1 + c) - 1 = E[ R e2(c Psi) + c (R Psi - x) ]
    add:     G(-c) - 1    = E[ e2(-c Psi) + c (x - Psi) ]

and every term is non-negative and of second order in x. This keeps T log G accurate for a sampling rate
of 1e-6 and 1e8 rounds (section 8 of docs/numerics.md).
"""

from __future__ import annotations

import math

import numpy as np

from groupdp.engines.interface import Direction
from groupdp.engines.spectral.moments import Quadrature
from groupdp.engines.spectral.ratio import ELEMENTARY, PAIRWISE, RatioTable, U
from groupdp.engines.spectral.rounds import FloatArray

#: Where x is this small, Psi and x are treated as one quantity in the error analysis.
_NEAR = 0.5


def excess_moment(
    table: RatioTable, log_weight: FloatArray, direction: Direction, tilts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The trapezoid sum for G(a) - 1 at each tilt, and bounds on its rounding error.

    Not finite where a term overflows: then the loss is not small and this is the wrong formula.
    """
    c = tilts[:, None]
    x, psi = table.excess, table.psi
    density = np.exp(log_weight)
    near = np.abs(x) < _NEAR
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.where(near, 1.0 + x, np.exp(psi))
        if direction == "remove":
            power = np.exp(c * psi)  # R^c
            terms = ratio * _exp_beyond_first_order(c * psi) + c * _entropy_gap(x, psi, ratio)
            joint = (1.0 + c) * np.abs(np.expm1(c * psi))
            # Psi enters with the derivative c R R^c, and through R = e^Psi with R^c - 1; x with -c.
            separate_psi = ratio * (c * power + np.abs(np.expm1(c * psi)))
        else:
            power = np.exp(-c * psi)  # R^-c
            terms = _exp_beyond_first_order(-c * psi) + c * _log_gap(x, psi)
            joint = c * np.abs(np.expm1(-(1.0 + c) * psi))
            separate_psi = c * power
        # Derivative of a term in x (Psi following) times the error of x, and half the largest second derivative (at
        # most 4 (1 + c)^2 R^{+-c} for R > 1/2) times its square; where x is not small, Psi and x apart.
        second = np.square((1.0 + c) * table.excess_error) * (1.0 + 3.0 * power)
        carried = np.where(
            near,
            joint * table.excess_error + second,
            separate_psi * (table.psi_error + ELEMENTARY) + c * table.excess_error,
        )
        # Each term is evaluated to 400 U and the rounding of c Psi; its weight carries the rounding of its logarithm.
        evaluation = terms * (U * (400.0 + 32.0 * np.abs(log_weight) + 4.0 * np.abs(c * psi)) + PAIRWISE)
        excess = np.sum(density * terms, axis=1)
        error = 1.01 * np.sum(density * (evaluation + carried), axis=1)
    return excess, error


def identity_error(quadrature: Quadrature) -> float:
    """Bound on the trapezoid errors of E[1] = 1 and E[R] = 1 together: they enter with factors up to 1 + c."""
    return sum(math.exp(float(quadrature.log_error(np.array([exponent]), np.zeros(1))[0])) for exponent in (0.0, 1.0))


def _exp_beyond_first_order(y: FloatArray) -> FloatArray:
    """e^y - 1 - y, to a small multiple of U relative."""
    small = np.abs(y) < 0.5
    near = np.where(small, y, 0.0)
    series = np.ones_like(near)
    for k in range(18, 2, -1):
        series = 1.0 + series * near / k
    return np.where(small, 0.5 * near * near * series, np.expm1(y) - y)


def _entropy_gap(x: FloatArray, psi: FloatArray, ratio: FloatArray) -> FloatArray:
    """(1 + x) log(1 + x) - x = sum_{k >= 2} (-x)^k / (k (k - 1)), for x > -1."""
    small = np.abs(x) < 0.1
    near = np.where(small, x, 0.0)
    series = np.zeros_like(near)
    for k in range(20, 1, -1):
        series = 1.0 / (k * (k - 1)) - near * series
    return np.where(small, near * near * series, ratio * psi - x)


def _log_gap(x: FloatArray, psi: FloatArray) -> FloatArray:
    """x - log(1 + x) = sum_{k >= 2} (-x)^k / k, for x > -1."""
    small = np.abs(x) < 0.1
    near = np.where(small, x, 0.0)
    series = np.zeros_like(near)
    for k in range(20, 1, -1):
        series = 1.0 / k - near * series
    return np.where(small, near * near * series, x - psi)
