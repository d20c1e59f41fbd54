"""One round under its tilted law: the only numbers the contour needs, each with its error.

Under the tilt c > 0 the law of u has density phi R^a / G(a), with a = 1 + c and loss L = Psi (remove) or
a = -c and loss L = -Psi (add). Sections 2, 6 and 8 of docs/numerics.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from groupdp.engines.interface import Direction
from groupdp.engines.spectral.moments import plan
from groupdp.engines.spectral.ratio import ELEMENTARY, PAIRWISE, RatioTable, U
from groupdp.engines.spectral.rounds import FloatArray, Round
from groupdp.engines.spectral.small_loss import excess_moment, identity_error
from groupdp.errors import LimitExceeded

#: Below this log G, G - 1 is summed from terms of second order in the loss.
_SMALL_LOG_MOMENT = 0.5
#: Largest relative error of a weight, or of the trapezoid rule, that is worked with.
LARGEST_ERROR = 5e-3
#: exp() underflows to nothing that matters below this.
_NEGLIGIBLE = -745.0


@dataclass(frozen=True, slots=True)
class TiltedRound:
    """One round's tilted law on a grid, with bounds on what separates it from the true one."""

    one_round: Round
    exponent: float  # a
    step: float
    table: RatioTable
    weight: FloatArray  # normalised to sum 1
    loss: FloatArray
    log_moment: float  # log G(a)
    log_moment_error: float
    centre: float  # a number near the tilted mean; no claim is made about it
    variance: float
    log_quadrature_error: float  # on the characteristic function, for frequencies up to the planned one
    first_order_error: float  # E[|error of L| + |relative error of the weight| |L - centre|]
    weight_error: float  # largest relative error of a weight as a share of the true G(a)

    @property
    def rounds(self) -> float:
        return self.one_round.count


def exponents_of(direction: Direction, tilts: FloatArray) -> FloatArray:
    """a, such that E_P[e^{c L}] = G(a)."""
    return 1.0 + tilts if direction == "remove" else -tilts


def tilt_round(
    one_round: Round, *, direction: Direction, tilt: float, frequency: float, log_tolerance: float
) -> TiltedRound:
    """The tilted law, with quadrature errors of relative size e^log_tolerance for frequencies up to `frequency`."""
    exponents = exponents_of(direction, np.array([tilt]))
    a = float(exponents[0])
    # The identity E[R] = 1 enters with factors a and a - 1.
    log_tolerance -= math.log1p(abs(a))
    quadrature = plan(one_round, exponents, frequency=frequency, log_tolerance=log_tolerance, with_identity=True)
    table = quadrature.table
    log_terms = quadrature.log_weight + a * table.psi
    top = float(log_terms.max())
    weight = np.exp(np.maximum(log_terms - top, _NEGLIGIBLE))
    total = float(weight.sum())
    weight /= total
    log_moment = top + math.log(total)

    # Relative error of each weight: the exponent's rounding, the ratio's own error, the exponential.
    size = 0.5 * table.u * table.u + np.abs(a * table.psi) + abs(top)
    if one_round.thinning is not None:
        size += 8.0 * np.abs(one_round.thinning.log_keep(table.u)) + 8.0
    weight_error = abs(a) * table.psi_error + U * (6.0 * size + 4.0 * abs(math.log(quadrature.step)) + 20.0)
    mean_weight_error = float(weight @ weight_error)
    log_quadrature_error = float(quadrature.log_error(exponents, np.array([log_moment]), frequency)[0])
    # Errors are treated to first order from here on; the factors 1.01 cover the rest while they are this small.
    if not (float(weight_error.max()) <= LARGEST_ERROR and log_quadrature_error <= math.log(LARGEST_ERROR)):
        raise LimitExceeded(
            f"one round's moments cannot be computed to a relative error of {LARGEST_ERROR:g} in double precision."
        )
    log_moment_error = mean_weight_error + PAIRWISE + 4.0 * U * abs(log_moment) + math.exp(log_quadrature_error)
    if log_moment < _SMALL_LOG_MOMENT:
        quadrature_error = math.exp(log_quadrature_error + log_moment)
        quadrature_error += (1.0 + tilt) * identity_error(quadrature)
        if one_round.thinning is not None:
            # E[chi] and E[chi R] differ from 1 by at most eta each (eta is the larger under P).
            quadrature_error += 2.0 * (1.0 + tilt) * math.exp(one_round.thinning.log_discarded)
        excess, excess_error = excess_moment(table, quadrature.log_weight, direction, np.array([tilt]))
        if math.isfinite(excess[0]) and math.isfinite(excess_error[0]):
            log_moment = math.log1p(float(excess[0]))
            log_moment_error = (float(excess_error[0]) + quadrature_error) * 1.01 + 2.0 * ELEMENTARY * log_moment

    loss = table.psi if direction == "remove" else -table.psi
    centre = float(weight @ loss)
    offset = loss - centre
    distance = np.abs(offset)
    first_order = float(weight @ (table.psi_error + 4.0 * U * (np.abs(loss) + abs(centre))))
    first_order += float(weight @ ((weight_error + mean_weight_error + PAIRWISE) * distance))
    return TiltedRound(
        one_round=one_round,
        exponent=a,
        step=quadrature.step,
        table=table,
        weight=weight,
        loss=loss,
        log_moment=log_moment,
        log_moment_error=log_moment_error,
        centre=centre,
        variance=float(weight @ (offset * offset)),
        log_quadrature_error=log_quadrature_error + 1.0,  # of a ratio of two such moments
        first_order_error=first_order * 1.01,
        weight_error=1.01 * (float(weight_error.max()) + mean_weight_error + PAIRWISE + math.exp(log_quadrature_error)),
    )
