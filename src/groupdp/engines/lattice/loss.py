"""One branch's privacy loss Psi = log A - log B as an increasing function of the noise's coordinate u, with certified
errors; its integrals over panels by Gauss-Legendre rules (L-3).

P has the density A(u) phi(u), Q has B(u) phi(u). In a chunk of nodes v everything is relative to the component r that
dominates in its middle, so far components drop out exactly where they provably do not matter (L-2):

    log ratio = log p_r + m_r (v - m_r / 2) + log sum_i exp(alpha_i + beta_i (v - middle)),    beta_i = m_i - m_r
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from groupdp.floats import ELEMENTARY, LOG_SQRT_2PI, UNIT, FloatArray
from groupdp.pairs import Branch, Side

#: A component below e^-50 of another one, all over a chunk, is dropped there; each adds an error of 4e-22 > 2 e^-50.
_LOG_NEGLIGIBLE = -50.0
DROPPED = 4e-22
#: Exponents relative to the chunk's reference stay below this, so nothing overflows.
_LARGEST_EXPONENT = 300.0


@dataclass(frozen=True, slots=True)
class LikelihoodValues:
    """Values at every node v; `*_error` are certified absolute errors, the rest is not certified."""

    log_ratio: FloatArray
    ratio_error: FloatArray
    mean: FloatArray
    """d log ratio / dv: the mean of m under the posterior."""
    variance: FloatArray
    """Its derivative."""
    log_density: FloatArray
    """log sum_i p_i phi(v - m_i)."""
    density_error: FloatArray
    reach: FloatArray
    """Certified: the largest |v - m_i| of any component that matters within the margin of v."""


def likelihood(side: Side, nodes: FloatArray, margin: float) -> LikelihoodValues:
    """A side, as a mixture of unit normals with the centres +m_i, at `nodes` in any order, not far apart.

    The cost is that of all components that matter at any of them. With a `margin`, what is said about far components
    holds within that distance of each node too.
    """
    if len(side.shifts) == 1:
        return _single(side, nodes, margin)
    rows = np.empty((7, len(nodes)))
    _fill(side, nodes, margin, rows)
    return LikelihoodValues(*rows)


def _single(side: Side, v: FloatArray, margin: float) -> LikelihoodValues:
    shift, log_p = float(side.shifts[0]), float(side.log_probabilities[0])
    away = np.abs(v - shift)
    zeros = np.zeros(len(v))
    log_ratio = log_p + shift * (v - 0.5 * shift)
    ratio_error = UNIT * (8.0 * abs(log_p) + shift * (4.0 * np.abs(v - 0.5 * shift) + away) + 3.0 * np.abs(log_ratio))
    density_error = UNIT * (9.0 * abs(log_p) + 3.0 * away * away + shift * away + 8.0)
    log_density = log_p - 0.5 * away * away - LOG_SQRT_2PI
    reach = away * (1.0 + 4.0 * UNIT) + margin + 4.0 * UNIT * shift
    return LikelihoodValues(log_ratio, ratio_error, zeros + shift, zeros, log_density, density_error, reach)


def _fill(side: Side, v: FloatArray, margin: float, rows: FloatArray) -> None:
    lowest, highest = float(v.min()), float(v.max())
    middle = 0.5 * (lowest + highest)
    half = 0.5 * (highest - lowest) + margin + 4.0 * UNIT * (abs(lowest) + abs(highest))
    m, log_p = side.shifts, side.log_probabilities
    r = int(np.argmax(log_p - 0.5 * (middle - m) ** 2))
    reference, log_reference = float(m[r]), float(log_p[r])
    from_reference = abs(middle - reference)
    beta = m - reference
    alpha = (log_p - log_reference) + beta * ((middle - reference) - 0.5 * beta)
    distance = np.abs(middle - m) + half
    # Units of roundoff in each exponent; none for the reference itself, whose exponent is exactly 0.
    units = (
        9.0 * (np.abs(log_p) + abs(log_reference))
        + 5.0 * np.abs(beta) * (from_reference + np.abs(beta) + 2.0 * half)
        + m * distance
        + reference * (from_reference + half)
    )
    units[r] = 0.0
    keep = alpha + np.abs(beta) * half + UNIT * units > _LOG_NEGLIGIBLE
    keep[r] = True
    if np.any(np.abs(beta[keep]) * half > _LARGEST_EXPONENT) and len(v) > 1:
        cut = len(v) // 2
        _fill(side, v[:cut], margin, rows[:, :cut])
        _fill(side, v[cut:], margin, rows[:, cut:])
        return
    m, alpha, beta, distance, units = m[keep], alpha[keep], beta[keep], distance[keep], units[keep]
    weights = np.vstack((np.ones_like(m), beta, beta * beta, units))
    if len(m) == 1:
        sums = np.repeat(weights, len(v), axis=1)
    else:
        terms = np.multiply.outer(beta, v - middle)
        terms += alpha[:, None]
        with np.errstate(under="ignore"):
            sums = weights @ np.exp(terms, out=terms)
    mean = sums[1] / sums[0]
    log_sum = np.log(sums[0])
    most = float(units.max())
    average = sums[3] / sums[0] if most * UNIT < 0.01 else np.full(len(v), most)
    log_sum_error = UNIT * (1.02 * average + 3.0 * len(m) + 20.0 + 8.0 * np.abs(log_sum))
    log_sum_error += DROPPED * len(side.shifts)
    log_ratio = log_reference + reference * (v - 0.5 * reference) + log_sum
    away = np.abs(v - reference)
    rows[0] = log_ratio
    rows[1] = log_sum_error + UNIT * (
        8.0 * abs(log_reference) + reference * (4.0 * np.abs(v - 0.5 * reference) + away) + 3.0 * np.abs(log_ratio)
    )
    rows[2] = reference + mean
    rows[3] = np.maximum(sums[2] / sums[0] - mean * mean, 0.0)
    rows[4] = (log_reference - 0.5 * away * away) + log_sum - LOG_SQRT_2PI
    rows[5] = log_sum_error + UNIT * (
        9.0 * abs(log_reference) + 3.0 * away * away + reference * away + 4.0 * np.abs(log_sum) + 8.0
    )
    rows[6] = float(distance.max()) * (1.0 + 8.0 * UNIT)


#: Elements (components x nodes) of one chunk, which fit the cache.
_CHUNK_ELEMENTS = 1 << 17
#: Widest chunk, in standard deviations of the noise.
_CHUNK_WIDTH = 2.0


@dataclass(frozen=True, slots=True)
class LossValues:
    """Values at every node u; `*_error` and reaches are certified, the rest is not."""

    loss: FloatArray
    loss_error: FloatArray
    slope: FloatArray
    """d loss / du."""
    right_slope: FloatArray
    """d log A / du, a part of it."""
    curvature: FloatArray
    """d^2 loss / du^2."""
    log_density: FloatArray
    """log of the branch's weight times P's density at u."""
    density_error: FloatArray
    right_reach: FloatArray
    """Largest distance of u from the centre of a component of P that matters near u."""
    left_reach: FloatArray
    """The same for Q."""


class BranchLoss:
    """The privacy loss of one branch minus an `offset`; P and Q are weighted by e^log_weight."""

    def __init__(self, branch: Branch, *, log_weight: float = 0.0, offset: float = 0.0) -> None:
        self.branch = branch
        self.log_weight = log_weight
        self.offset = offset
        self.right, self.left = branch.right, branch.left

    def shifted(self, offset: float) -> BranchLoss:
        """The same loss with another offset."""
        return BranchLoss(self.branch, log_weight=self.log_weight, offset=offset)

    @property
    def log_ratio_unshifted(self) -> float | None:
        """log(a_0 / b_0), the loss around which mass gathers while neither side shifts; None if a side always does."""
        right, left = self.branch.right.log_mass_at_zero, self.branch.left.log_mass_at_zero
        return right - left if math.isfinite(right) and math.isfinite(left) else None

    def evaluate(self, nodes: FloatArray, *, margin: float = 0.0) -> LossValues:
        """Loss and density at increasing `nodes` (L-2).

        With a `margin`, what is said about far components holds within that distance of each node too.
        """
        rows = np.empty((9, len(nodes)))
        for start, end in self._chunks(nodes):
            u = nodes[start:end]
            a, b = likelihood(self.right, u, margin), likelihood(self.left, -u, margin)
            out = rows[:, start:end]
            loss = a.log_ratio - b.log_ratio - self.offset
            out[0] = loss
            # Two subtractions, and as much again for the grid positions that the loss is compared with.
            out[1] = a.ratio_error + b.ratio_error
            out[1] += UNIT * (
                2.0 * (np.abs(a.log_ratio) + np.abs(b.log_ratio)) + 4.0 * (np.abs(loss) + abs(self.offset))
            )
            out[2] = a.mean + b.mean
            out[3] = a.mean
            out[4] = a.variance - b.variance
            out[5] = a.log_density + self.log_weight
            out[6] = a.density_error + UNIT * (9.0 * abs(self.log_weight) + 2.0 * np.abs(out[5]))
            out[7] = a.reach
            out[8] = b.reach
        return LossValues(*rows)

    def _chunks(self, nodes: FloatArray) -> Iterator[tuple[int, int]]:
        components = max(len(self.right.shifts), len(self.left.shifts))
        if components == 1:
            yield 0, len(nodes)
            return
        largest = max(64, _CHUNK_ELEMENTS // min(components, 256))
        start = 0
        while start < len(nodes):
            end = int(np.searchsorted(nodes, nodes[start] + _CHUNK_WIDTH, side="right"))
            end = max(min(end, start + largest), start + 1)
            yield start, end
            start = end


#: Nodes and weights on [-1, 1], from their closed forms: off by at most 4 roundings.
_FAR, _NEAR = (math.sqrt((3.0 + sign * 2.0 * math.sqrt(1.2)) / 7.0) for sign in (1.0, -1.0))
_LIGHT, _HEAVY = ((18.0 + sign * math.sqrt(30.0)) / 36.0 for sign in (-1.0, 1.0))
#: E[Z^2k] for k = 0, ..., 4.
_NORMAL_MOMENTS = (1.0, 1.0, 3.0, 15.0, 105.0)
FOUR_POINTS = (np.array([-_FAR, -_NEAR, _NEAR, _FAR]), np.array([_LIGHT, _HEAVY, _HEAVY, _LIGHT]))


@dataclass(frozen=True, slots=True)
class Panels:
    """Masses under P at the nodes of every panel (rows), times e^exponent of the panel, and certified errors."""

    masses: FloatArray
    loss: FloatArray
    loss_error: FloatArray
    """Per panel: largest absolute error of its losses."""
    mass_error: FloatArray
    """Per panel: relative error of the nodes' masses, common to P and Q, together with P's quadrature error."""
    ratio_error: FloatArray
    """Per panel: relative error of Q's quadrature."""


def rule_error(width: FloatArray, distance: FloatArray) -> FloatArray:
    """The relative error of the 4-point rule (L-3); inf where it is beyond any use."""
    constant = math.factorial(4) ** 4 / (9 * math.factorial(8) ** 3)
    x2 = distance * distance
    with np.errstate(over="ignore", under="ignore"):
        expectation = sum(math.comb(4, k) * moment * x2 ** (4 - k) for k, moment in enumerate(_NORMAL_MOMENTS))
        return np.asarray(1.001 * constant * width**8 * expectation * np.exp(np.minimum(width * distance, 700.0)))


def integrate_panels(loss: BranchLoss, edges: FloatArray, exponents: FloatArray, exponent_error: FloatArray) -> Panels:
    """Quadrature over the panels between consecutive `edges`; `exponents` (one per panel) are added to log P."""
    left, right = edges[:-1], edges[1:]
    width = right - left
    extent = np.maximum(np.abs(left), np.abs(right))
    widest = float(width.max())
    abscissas, weights = FOUR_POINTS
    half = 0.5 * width
    nodes = (0.5 * (left + right))[:, None] + half[:, None] * abscissas[None, :]
    values = loss.evaluate(nodes.ravel(), margin=1.01 * widest)
    shape = nodes.shape
    log_density = values.log_density.reshape(shape)
    with np.errstate(under="ignore", over="ignore"):  # callers discard what overflowed
        masses = np.exp(log_density + exponents[:, None]) * (half[:, None] * weights[None, :])
    displaced = 3.0 * UNIT * (extent + width)  # a node is off its exact place by at most this
    slope = values.slope.reshape(shape)
    drift = values.right_slope.reshape(shape) - nodes  # d log P / du
    rounding = (
        values.density_error.reshape(shape)
        + np.abs(drift) * displaced[:, None]
        + 2.0 * UNIT * (np.abs(log_density) + np.abs(exponents)[:, None])
    )
    of_p, of_q = (
        rule_error(width, np.max(reach.reshape(shape), axis=1)) + DROPPED * len(side.shifts)
        for reach, side in ((values.right_reach, loss.right), (values.left_reach, loss.left))
    )
    return Panels(
        masses=masses,
        loss=values.loss.reshape(shape),
        loss_error=np.max(values.loss_error.reshape(shape) + slope * displaced[:, None], axis=1),
        mass_error=1.001 * (np.max(rounding, axis=1) + exponent_error + of_p + ELEMENTARY + 16.0 * UNIT),
        ratio_error=1.001 * of_q + 4.0 * UNIT,
    )
