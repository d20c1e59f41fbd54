"""Fixed batches, k examples replaced or zeroed: the proved envelope, composed to about ten digits.

With h_i = Hypergeom(B, n, k), mu_i = 2i/sigma, alpha = e^x and x > 0, the profile R(alpha) is attained at thresholds
t_i = -x sigma/(2i) - i/sigma and t_0, where (1 - alpha) h_0 + sum_{t_0 < t_i} h_i (e^{-mu_i t_0 - mu_i^2/2} - alpha) = 0:

    P(L > x) = h_0 Phi(t_0) + sum_i h_i Phi(min(t_0, t_i) + mu_i),    Q(L > x) = h_0 Phi(t_0) + sum_i h_i Phi(min(t_0, t_i)),

the latter since -R'(alpha) = Q(L > x) at the maximiser. L under P and -L under Q have the same law; the rest of the
mass is an atom at 0. It is not a pair of mixtures. Cells of a lattice have exact masses under P and Q, which fix what
goes to either end; the law is tilted so that epsilon is its mean, composed by one FFT, and three lattices are
extrapolated (the error is a series in h^2 when epsilon is a lattice point). Doubles, not balls.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import arb
from scipy.special import ndtr

from oracle.laws import hypergeometric


class Envelope:
    """One round: B of n examples drawn, k of them replaced; noise sigma."""

    def __init__(self, batch_size: int, dataset_size: int, group_size: int, noise: Any) -> None:
        law = hypergeometric(batch_size, dataset_size, group_size)
        self.law = np.array([float(arb(p)) for p in law])
        self.noise = float(noise)
        self.shifts = 2.0 * np.arange(len(law)) / self.noise

    def tails(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """P(L > x) and Q(L > x) for x >= 0 (at 0: the limit from the right)."""
        i = np.arange(1, len(self.law))
        thresholds = -x[:, None] * self.noise / (2 * i) - i / self.noise
        first = self._first_threshold(x, thresholds)
        ends = np.minimum(first[:, None], thresholds)
        weights = self.law[1:]
        common = self.law[0] * ndtr(first)
        return common + ndtr(ends + self.shifts[1:]) @ weights, common + ndtr(ends) @ weights

    def _first_threshold(self, x: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
        """t_0, by bisection: what it is a root of decreases in t_0, from infinity to (1 - alpha) h_0.

        In units of alpha: e^{-mu t - mu^2/2 - x} - 1 = expm1(mu (t_i - t)).
        """
        high = thresholds.max(axis=1)
        low = high - 1.0
        weights, mu = self.law[1:], self.shifts[1:]

        def excess(t: np.ndarray) -> np.ndarray:
            with np.errstate(over="ignore"):
                terms = np.expm1(np.minimum(mu * np.maximum(thresholds - t[:, None], 0.0), 700.0))
            return terms @ weights + np.expm1(-x) * self.law[0]

        while np.any(short := excess(low) < 0.0):
            low = np.where(short, 2.0 * low - high, low)
        for _ in range(80):
            middle = 0.5 * (low + high)
            above = excess(middle) > 0.0
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return 0.5 * (low + high)

    def profile(self, x: float) -> float:
        """R(e^x), one round's delta."""
        p, q = (float(tail[0]) for tail in self.tails(np.array([abs(x)])))
        return p - math.exp(x) * q if x >= 0 else 1 - math.exp(x) + math.exp(x) * (p - math.exp(-x) * q)

    def lattice(self, step: float, tilt: float) -> tuple[np.ndarray, np.ndarray]:
        """Losses j h and log masses under P of the profile with its dots connected; far enough for the tilted law."""
        span = float(self.shifts[-1]) * (12.0 + float(self.shifts[-1]) * (1.0 + tilt))
        count = math.ceil(span / step)
        x = step * np.arange(count + 2)
        p_tail, q_tail = self.tails(x)
        p, q = -np.diff(p_tail), -np.diff(q_tail)
        moved = (p - np.exp(x[:-1]) * q) / -math.expm1(-step)
        mass = np.zeros(count + 2)
        mass[:-1] += p - moved
        mass[1:] += moved
        mass = np.maximum(mass, 0.0)
        losses = np.concatenate((-x[:0:-1], x))
        both = np.concatenate(((mass * np.exp(-x))[:0:-1], mass))
        # what is at 0: the atom, and from either side what the first cells put there
        both[count + 1] = 1.0 - p_tail[0] - q_tail[0] + 2.0 * mass[0]
        return losses, both


def epsilon(envelope: Envelope, steps: int, *, delta: float) -> float:
    """The smallest epsilon with delta(epsilon) <= delta after `steps` rounds; about ten digits."""
    low, high = 0.0, 1.0
    while _coarse(envelope, steps, high) > math.log(delta):
        low, high = high, 2.0 * high
    while high - low > 1e-12 * high:  # secant steps would do; a bisection cannot go wrong
        if high - low < 1e-3 * max(1.0, high):
            break
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _coarse(envelope, steps, middle) > math.log(delta) else (low, middle)
    points = [low, high]
    values = [log_delta(envelope, steps, epsilon=x) - math.log(delta) for x in points]
    for _ in range(8):
        slope = (values[-1] - values[-2]) / (points[-1] - points[-2])
        points.append(points[-1] - values[-1] / slope)
        if abs(points[-1] - points[-2]) < 1e-10 * points[-1]:
            break
        values.append(log_delta(envelope, steps, epsilon=points[-1]) - math.log(delta))
    return points[-1]


def log_delta(envelope: Envelope, steps: int, *, epsilon: float, points: int = 2**17) -> float:
    """log delta(epsilon) after `steps` rounds: three lattices, extrapolated twice."""
    if steps == 1:
        return math.log(envelope.profile(epsilon))
    tilt, deviation = _tilt(envelope, steps, epsilon)
    step = max(24.0 * deviation, 1.5 * _span(envelope, tilt)) / (points / 4)
    step = epsilon / max(1, math.ceil(epsilon / step)) if epsilon > 0 else step
    values = [_composed(envelope, steps, epsilon, step / 2**k, tilt) for k in range(3)]
    once = [(4 * fine - coarse) / 3 for coarse, fine in zip(values, values[1:], strict=False)]
    twice = (16 * once[1] - once[0]) / 15
    if abs(twice - once[1]) > 1e-8 * abs(twice):
        raise AssertionError("the lattices are too coarse")
    return twice


def _span(envelope: Envelope, tilt: float) -> float:
    return float(envelope.shifts[-1]) * (12.0 + float(envelope.shifts[-1]) * (1.0 + tilt))


def _moments(envelope: Envelope, tilt: float) -> tuple[float, float, float]:
    step = _span(envelope, tilt) / 20_000
    losses, mass = envelope.lattice(step, tilt)
    with np.errstate(divide="ignore"):
        logs = np.log(mass) + tilt * losses
    top = logs.max()
    weights = np.exp(logs - top)
    total = weights.sum()
    mean = float((weights * losses).sum() / total)
    return math.log(total) + top, mean, float((weights * (losses - mean) ** 2).sum() / total)


def _tilt(envelope: Envelope, steps: int, epsilon: float) -> tuple[float, float]:
    """The tilt under which the composed loss has mean epsilon, and its standard deviation then."""
    low, high = 0.0, 1.0
    while steps * _moments(envelope, high)[1] < epsilon and high < 1e4:
        low, high = high, 2 * high
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if steps * _moments(envelope, middle)[1] < epsilon else (low, middle)
    return high, math.sqrt(steps * _moments(envelope, high)[2])


def _coarse(envelope: Envelope, steps: int, epsilon: float) -> float:
    if steps == 1:
        return math.log(envelope.profile(epsilon))
    tilt, deviation = _tilt(envelope, steps, epsilon)
    step = max(24.0 * deviation, 1.5 * _span(envelope, tilt)) / 2**14
    return _composed(envelope, steps, epsilon, step, tilt)


def _composed(envelope: Envelope, steps: int, epsilon: float, step: float, tilt: float) -> float:
    losses, mass = envelope.lattice(step, tilt)
    with np.errstate(divide="ignore"):
        logs = np.log(mass) + tilt * losses
    top = logs.max()
    weights = np.exp(logs - top)
    total = weights.sum()
    cgf, weights = math.log(total) + top, weights / total
    mean = steps * float((weights * losses).sum())
    deviation = math.sqrt(steps * float((weights * (losses - mean / steps) ** 2).sum()))
    period = 2 ** math.ceil(math.log2(max(2.2 * 14.0 * deviation / step, len(losses) + 1)))
    middle, lowest = len(losses) // 2, round(mean / step) - period // 2
    around = np.zeros(period)
    np.add.at(around, (np.arange(len(losses)) - middle) % period, weights)
    composed = np.fft.irfft(np.fft.rfft(around) ** steps, period)
    places = lowest + np.arange(period)
    masses = np.maximum(composed[places % period], 0.0)
    x = step * places
    beyond = x > epsilon
    with np.errstate(divide="ignore", under="ignore"):
        terms = np.log(masses[beyond]) - tilt * (x[beyond] - epsilon) + np.log(-np.expm1(epsilon - x[beyond]))
    return float(np.logaddexp.reduce(terms)) + steps * cgf - tilt * epsilon
