"""Where to start a search: the central limit of the privacy loss, and rare large losses. Nothing here is proved."""

from __future__ import annotations

import math

import numpy as np

from groupdp.floats import FloatArray
from groupdp.losses import KnownLosses
from groupdp.pairs import Branch, Composition, Round, Side

#: Components looked at per mixture: a start need not be better than that.
_MOST_COMPONENTS = 128


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
