"""Upper bounds on Renyi divergences of group pairs, for filters and searches of hyperparameters.

(alpha - 1) D_alpha = log E_P[e^{(alpha - 1) L}]: a quadrature for mixtures (R-7), closed forms for others; rounds add
up. The way back, from divergences to known losses that dominate, is R-10.

The second half says, without a claim, where a search starts: the central limit of the loss, and rare large losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache

import numpy as np

from groupdp.errors import require_number
from groupdp.floats import UNIT, FloatArray
from groupdp.losses import AtomsRound, KnownLosses, LaplaceRound
from groupdp.pairs import AnyRound, Branch, Composition, Round, Side

#: Relative error of the trapezoid rule that its step is chosen for.
_GOAL = 1e-12
#: Room for the roundings of a logarithm, relative to the sizes of what it is made of.
_ROOM = 1e-12
#: Most nodes of a quadrature.
_MOST_NODES = 400_000
#: A law of divergences: losses on each side, -log of the P-mass beyond them, and the limits of the largest one.
_CELLS, _LOG_LOST, _SHORTEST, _LONGEST = 64, 80.0, 1e-6, 600.0
#: Components looked at per mixture for a start, which need not be better than that.
_MOST_COMPONENTS = 128
#: log of a mass that stands for none.
_LEAST = -690.0


def renyi_divergence(composition: Composition, order: float) -> tuple[float, float]:
    """(an upper bound on D_alpha(P, Q) without a share of P, that share); inf where a round has no divergence (R-7).

    The share is the P-mass of known losses that have no atom.
    """
    alpha = require_number("order", order, above=1.0, at_most=1e4)
    total = math.fsum(times * log_moment(round_, alpha) for round_, times in composition if times)
    lost = math.fsum(
        times * math.exp(min(round_.log_lost, 0.0)) for round_, times in composition if isinstance(round_, AtomsRound)
    )
    return (total / (alpha - 1.0) * (1.0 + 1e-14) if total > 0.0 else 0.0), lost * (1.0 + 1e-14)


def log_delta_of_divergence(divergence: float, order: float, epsilon: float) -> float:
    """log of at least delta(epsilon) for any real epsilon (Canonne, Kamath and Steinke 2020, Proposition 12)."""
    excess = order - 1.0
    value = excess * (divergence - epsilon + math.log1p(-1.0 / order)) - math.log(order)
    return min(value + _ROOM * (1.0 + excess * (divergence + abs(epsilon))), 0.0)


def log_delta_by(divergences: Mapping[float, float]) -> Callable[[float], float]:
    """log of at least delta(epsilon), from divergences by order."""
    return lambda epsilon: min(log_delta_of_divergence(value, order, epsilon) for order, value in divergences.items())


@lru_cache(maxsize=4096)
def log_moment(round_: AnyRound, alpha: float) -> float:
    """An upper bound on log E_P[e^{(alpha - 1) L}] of one round."""
    if not round_.has_noise:
        return math.inf
    c = alpha - 1.0
    if isinstance(round_, LaplaceRound):
        return _laplace(round_.shift, c)
    if isinstance(round_, AtomsRound):
        terms = round_.log_p + c * round_.losses
        size = float(np.max(np.abs(round_.log_p) + c * np.abs(round_.losses)))
        value = _log_sum(terms)
        return float(max(value, 0.0) + round_.mass_error + c * round_.loss_error + _ROOM * (1.0 + size))
    if isinstance(round_, Round):
        pairs = zip(round_.log_weights, round_.branches, strict=True)
        logs = [weight + _branch(branch, alpha) for weight, branch in pairs]
        return float(np.logaddexp.reduce(logs)) + _ROOM * (1.0 + max(map(abs, logs)))
    return math.inf  # a sampling that is known by a profile or by allocations


def law_of_divergences(curve: Mapping[float, float]) -> AtomsRound:
    """Known losses that dominate every pair with these divergences, by order, in both directions (R-10)."""
    log_delta = log_delta_by(curve)
    end = min(
        (value + _LOG_LOST / (order - 1.0) for order, value in curve.items() if value < math.inf), default=math.inf
    )
    end = min(max(end, _SHORTEST), _LONGEST)
    step = end / _CELLS
    index = range(-_CELLS, _CELLS + 1)
    points = [(Fraction(0), Fraction(1))]
    for epsilon in (step * i for i in index):
        x = Fraction(math.exp(epsilon))
        ahead, behind = (Fraction(min(math.exp(log_delta(e)) * (1.0 + 1e-12), 1.0)) for e in (epsilon, -epsilon))
        points.append((x, min(ahead, 1 - x + x * behind)))
    masses = dict.fromkeys(index, _LEAST)
    kept = _convex(points)
    for before, here, after in zip(kept, kept[1:], [*kept[2:], None], strict=False):
        (x, u), (x_before, u_before) = points[here], points[before]
        slope = Fraction(0) if after is None else (points[after][1] - u) / (points[after][0] - x)
        mass = x * (slope - (u - u_before) / (x - x_before))
        if mass > 0:
            masses[here - 1 - _CELLS] = max(math.log(mass.numerator) - math.log(mass.denominator), _LEAST)
    last = points[kept[-1]][1]
    size = max(map(abs, masses.values()))
    return AtomsRound(
        np.array([step * i for i in index]),
        np.array([masses[i] for i in index]),
        spacing=step,
        loss_error=4.0 * UNIT * (1.0 + end),
        mass_error=1e-11 + 4.0 * UNIT * size,
        log_lost=math.log(last.numerator) - math.log(last.denominator) + 1e-11 if last > 0 else -math.inf,
        log_lost_mirrored=0.0,
    )


def _convex(points: list[tuple[Fraction, Fraction]]) -> list[int]:
    """The corners of the largest convex function that is at no point above it."""
    kept: list[int] = []
    for i, (x, u) in enumerate(points):
        while len(kept) > 1:
            (x1, u1), (x0, u0) = points[kept[-1]], points[kept[-2]]
            if (u1 - u0) * (x - x1) < (u - u1) * (x1 - x0):
                break
            kept.pop()
        kept.append(i)
    while len(kept) > 1 and points[kept[-1]][1] > points[kept[-2]][1]:  # beyond the smallest value it is constant
        kept.pop()
    return kept


def _laplace(x: float, c: float) -> float:
    """log of e^{cx} / 2 + e^{-(c+1) x} / 2 + e^{-x/2} sinh((c + 1/2) x) / (2 (c + 1/2))."""
    shape = c + 0.5
    log_sinh = shape * x + math.log(-math.expm1(-2.0 * shape * x)) - math.log(2.0)
    terms = (
        c * x - math.log(2.0),
        -(c + 1.0) * x - math.log(2.0),
        -0.5 * x + log_sinh - math.log(2.0 * shape),
    )
    return max(float(np.logaddexp.reduce(terms)), 0.0) + _ROOM * (1.0 + 2.0 * shape * x)


@lru_cache(maxsize=4096)
def _branch(branch: Branch, alpha: float) -> float:
    """An upper bound on log E[A^alpha B^{1 - alpha}] (R-7)."""
    right, left, c = branch.right, branch.left, alpha - 1.0
    if len(right.shifts) == len(left.shifts) == 1:
        mu = right.largest + left.largest
        return 0.5 * alpha * c * mu * mu * (1.0 + 1e-14)
    span = max(_span(right), _span(left))
    # Half the width of the strip: no zero of A or B is in it, and cos(span y)^-c stays moderate.
    half = min(1.0 / span, 1.0 / (span * math.sqrt(c)) if c > 1.0 else math.inf, 4.0)
    log_growth = 0.5 * half * half - c * math.log(math.cos(_span(left) * half))
    step = 2.0 * math.pi * half / (math.log(2.0 / _GOAL) + log_growth + 1.0)
    relative = 2.0 * math.exp(log_growth) / math.expm1(2.0 * math.pi * half / step)
    # A <= e^{x_max u} right of 0 and <= 1 left of it; B >= b e^{-y u - y^2/2} for its smallest shift y, of mass b.
    y, log_b = left.smallest, float(left.log_probabilities[0])
    slope = alpha * right.largest + c * y
    top = alpha * (0.5 * right.largest**2 + abs(float(right.log_probabilities[-1])))
    reach = math.sqrt(2.0 * (40.0 + top + c * abs(log_b) + c * y * y))
    low, high = -reach, slope + reach
    count = math.ceil((high - low) / step)
    if count > _MOST_NODES:
        return math.inf
    u: FloatArray = np.asarray(low + step * np.arange(count + 1), dtype=np.float64)
    exponents = alpha * _log_side(right, u) - c * _log_side(left, -u) - 0.5 * u * u
    size = float(np.max(np.abs(exponents) + alpha * right.largest * np.abs(u) + c * left.largest * np.abs(u)))
    integral = _log_sum(exponents) + math.log(step) - 0.5 * math.log(2.0 * math.pi)
    constant = -c * log_b + 0.5 * c * y * y
    left_tail = constant + _log_tail(reach - step)
    right_tail = constant + 0.5 * slope * slope + _log_tail(reach - step)
    whole = float(np.logaddexp.reduce([integral - math.log1p(-relative), left_tail, right_tail]))
    return max(whole, 0.0) + _ROOM * (2.0 + size)


def _log_sum(terms: FloatArray) -> float:
    """log of a sum, whose roundings are those of its terms and one more."""
    top = float(np.max(terms))
    with np.errstate(under="ignore"):
        return top + math.log(math.fsum(np.exp(terms - top).tolist()))


def _span(side: Side) -> float:
    return side.largest - side.smallest


def _log_side(side: Side, v: FloatArray) -> FloatArray:
    """log of sum_i p_i e^{x_i v - x_i^2 / 2}."""
    result: FloatArray = np.full(len(v), -np.inf)
    for shift, log_p in zip(side.shifts.tolist(), side.log_probabilities.tolist(), strict=True):
        result = np.asarray(np.logaddexp(result, log_p + shift * (v - 0.5 * shift)), dtype=np.float64)
    return result


def _log_tail(distance: float) -> float:
    """log of at least Phi(-distance), for a positive distance: e^{-d^2 / 2} / 2."""
    return -0.5 * distance * distance - math.log(2.0) + 1e-12 * distance * distance


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The mu for which a mu-GDP mechanism has that epsilon at that delta, roughly."""
    low, high = math.log(1e-12), math.log(1e12)
    for _ in range(60):
        middle = 0.5 * (low + high)
        mu = math.exp(middle)
        first = _log_normal(0.5 * mu - epsilon / mu)
        second = _log_normal(-0.5 * mu - epsilon / mu) + epsilon
        gap = second - first
        log_delta = first + (math.log(-math.expm1(gap)) if gap < 0.0 else -math.inf)
        low, high = (middle, high) if log_delta < math.log(delta) else (low, middle)
    return math.exp(0.5 * (low + high))


def growth(epsilon: float, delta: float) -> float:
    """d log epsilon / d log mu of a Gaussian mechanism, roughly."""
    apart = gaussian_mu(1.1 * epsilon, delta) / gaussian_mu(epsilon, delta)
    return math.log(1.1) / max(math.log(apart), 0.01)


def composed_mu(composition: Composition, noise_factor: float = 1.0) -> float:
    """sqrt(sum_j T_j D_j), D = log(1 + int (P - Q)^2 / phi) of one round: T mu^2 of T Gaussian rounds."""
    total = 0.0
    for round_, times in composition:
        if not round_.has_noise:
            return math.inf
        if isinstance(round_, Round):
            parts = zip(round_.log_weights, round_.branches, strict=True)
            logs = [weight + _log_squared_distance(part, noise_factor) for weight, part in parts]
            total += times * float(np.logaddexp.reduce([0.0, *logs]))
        elif isinstance(round_, KnownLosses):  # as of Laplace noise
            x = round_.largest_loss / noise_factor
            total += times * float(np.logaddexp(x + math.log(2.0 / 3.0), -2.0 * x - math.log(3.0)))
        else:
            square = (round_.largest_shift / noise_factor) ** 2
            total += times * float(np.logaddexp(0.0, _log_expm1(square) + 2.0 * round_.log_mass_above_zero))
    return math.sqrt(max(total, 0.0))


def _log_squared_distance(branch: Branch, noise_factor: float) -> float:
    (x, a), (y, b) = (_likeliest(side, noise_factor) for side in (branch.right, branch.left))
    shifts, weights = np.concatenate((x, -y)), np.concatenate((a, -b))
    exponents = np.multiply.outer(shifts, shifts)
    if exponents.max() > 300.0:  # the largest term
        logs = np.log(np.maximum(np.abs(weights), 1e-300))
        return float((exponents + np.add.outer(logs, logs)).max())
    total = float(weights @ np.expm1(exponents) @ weights)
    return math.log(total) if total > 0.0 else -math.inf


def _likeliest(side: Side, noise_factor: float) -> tuple[FloatArray, FloatArray]:
    mode = int(np.argmax(side.probabilities))
    kept = slice(max(mode - _MOST_COMPONENTS // 2, 0), mode + _MOST_COMPONENTS // 2)
    return side.shifts[kept] / noise_factor, side.probabilities[kept]


def noise_factor_for(composition: Composition, mu: float) -> float:
    """The factor on all noise at which the central limit has this mu."""
    low, high = math.log(1e-9), math.log(1e21)
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if composed_mu(composition, math.exp(middle)) > mu else (low, middle)
    return math.exp(0.5 * (low + high))


def rare_share(composition: Composition, epsilon: float, delta: float) -> float | None:
    """The factor on the probability of the smallest shift at which single large losses alone have this delta, roughly;
    None where they are not rare then, or the rounds are of another kind."""
    (round_, times), *others = composition
    if others or not isinstance(round_, Round) or len(round_.branches) != 1:
        return None
    right, left = round_.branches[0].right, round_.branches[0].left
    if len(right.shifts) < 2 or right.shifts[0] != 0.0 or left.shifts[-1] != 0.0:
        return None
    shift, probability = float(right.shifts[1]), float(right.probabilities[1])

    def log_probability(u: float) -> float:
        """log p with 1 - p + p e^{shift u - shift^2 / 2} = e^epsilon."""
        ratio = shift * u - 0.5 * shift * shift
        return _log_expm1(epsilon) - _log_expm1(ratio)

    low, high = 0.5 * shift + 1e-9 / shift, 0.5 * shift + 700.0 / shift
    for _ in range(60):
        u = 0.5 * (low + high)
        first, second = _log_normal(shift - u), shift * u - 0.5 * shift * shift + _log_normal(-u)
        gap = second - first
        log_delta = log_probability(u) + first + (math.log(-math.expm1(gap)) if gap < 0.0 else -math.inf)
        low, high = (u, high) if log_delta + math.log(times) > math.log(delta) else (low, u)
    log_p = log_probability(0.5 * (low + high))
    rare = log_p + math.log(times) < 0.0
    return math.exp(log_p) / probability if rare and probability > 0.0 else None


def noise_slope(composition: Composition, factor: float) -> float:
    """- d log mu / d log noise at this factor, roughly."""
    near, far = composed_mu(composition, factor / 1.1), composed_mu(composition, factor)
    return min(math.log(near / far) / math.log(1.1), 10.0) if 0.0 < far < near < math.inf else 1.0


def _log_expm1(x: float) -> float:
    if x > 40.0:
        return x
    return math.log(math.expm1(x)) if x > 0.0 else -math.inf


def _log_normal(z: float) -> float:
    """log Phi(z), roughly; by Mills' ratio where erfc would underflow."""
    if z > -30.0:
        return math.log(0.5 * math.erfc(-z / math.sqrt(2.0)))
    return -0.5 * z * z - math.log(-z) - 0.5 * math.log(2.0 * math.pi) - 1.0 / (z * z)
