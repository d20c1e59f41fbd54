"""Fixed batches, k examples replaced or zeroed: the proved envelope, composed to about ten digits.

With h_i = Hypergeom(B, n, k), mu_i = 2i/sigma, alpha = e^x and x > 0, the profile R(alpha) is attained at thresholds
t_i = -x sigma/(2i) - i/sigma and t_0, where

    (1 - alpha) h_0 + sum_{t_0 < t_i} h_i (e^{-mu_i t_0 - mu_i^2/2} - alpha) = 0

    P(L > x) = h_0 Phi(t_0) + sum_i h_i Phi(min(t_0, t_i) + mu_i)
    Q(L > x) = h_0 Phi(t_0) + sum_i h_i Phi(min(t_0, t_i)),

the latter since -R'(alpha) = Q(L > x) at the maximiser. L under P and -L under Q have the same law; the rest of the
mass is an atom at 0. It is not a pair of mixtures. Cells of a lattice have exact masses under P and Q, which fix what
goes to either end; the law is tilted so that epsilon is its mean, composed by one FFT, and three lattices are
extrapolated (the error is a series in h^2 when epsilon is a lattice point). Doubles, not balls.
"""

from __future__ import annotations

import functools
import itertools
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
        """t_0, in units of alpha the root of sum_{t < t_i} h_i expm1(mu_i (t_i - t)) = (1 - e^-x) h_0.

        The left side is convex and decreasing in t: from where it exceeds the right one Newton's method only ascends.
        With one term the root is explicit, and other terms can only move it to the right: it starts at the largest.
        """
        weights, mu, target = self.law[1:], self.shifts[1:], -np.expm1(-x)[:, None] * self.law[0]
        possible = weights > 0.0  # what never happens holds nothing back
        t = (thresholds[:, possible] - np.log1p(target / weights[possible]) / mu[possible]).max(axis=1)
        for _ in range(100):
            distance = np.maximum(thresholds - t[:, None], 0.0)
            terms = np.expm1(mu * distance)
            slope = np.where(distance > 0.0, terms + 1.0, 0.0) @ (weights * mu)
            with np.errstate(invalid="ignore", divide="ignore"):
                ascent = np.where(slope > 0.0, (terms @ weights - target[:, 0]) / slope, 0.0)
            t = np.where(ascent > 0.0, t + ascent, t)
            if np.all(ascent <= 1e-15 * (1.0 + abs(t))):
                return t
        raise AssertionError("Newton's method did not settle")

    def profile(self, x: float) -> float:
        """R(e^x), one round's delta."""
        p, q = (float(tail[0]) for tail in self.tails(np.array([abs(x)])))
        return p - math.exp(x) * q if x >= 0 else 1 - math.exp(x) + math.exp(x) * (p - math.exp(-x) * q)

    def span(self, tilt: float) -> float:
        """Beyond this the law tilted by up to `tilt` has less than 1e-30 of its mass."""
        return float(self.shifts[-1]) * (12.0 + float(self.shifts[-1]) * (1.0 + tilt))

    @functools.lru_cache(maxsize=8)  # noqa: B019 (envelopes are as short-lived as a test)
    def lattice(self, step: float, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Losses j h, |j| <= count + 1, and masses under P of the profile with its dots connected."""
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
    """The smallest epsilon with delta(epsilon) <= delta after `steps` rounds; about nine digits."""
    target = math.log(delta)
    low, high = 0.0, 1.0
    while _rough(envelope, steps, high) > target:
        low, high = high, 2.0 * high
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _rough(envelope, steps, middle) > target else (low, middle)
    points = [low, high]
    values = [log_delta(envelope, steps, epsilon=x) - target for x in points]
    for _ in range(6):
        slope = (values[-1] - values[-2]) / (points[-1] - points[-2])
        points.append(points[-1] - values[-1] / slope)
        if abs(points[-1] - points[-2]) < 1e-6 * points[-1]:  # the next secant step would be 1e-11
            break
        values.append(log_delta(envelope, steps, epsilon=points[-1]) - target)
    return points[-1]


def log_delta(envelope: Envelope, steps: int, *, epsilon: float) -> float:
    """log delta(epsilon) after `steps` rounds: three lattices, extrapolated twice; finer ones until that agrees."""
    if steps == 1:
        return math.log(envelope.profile(epsilon))
    tilt, step = _plan(envelope, steps, epsilon, 2**14)
    values = [_composed(envelope, steps, epsilon, step, tilt)]
    for k in range(1, 8):
        values.append(_composed(envelope, steps, epsilon, step / 2**k, tilt))
        once = [(4 * fine - coarse) / 3 for coarse, fine in itertools.pairwise(values)]
        if k >= 2 and abs(once[-1] - once[-2]) < 3e-9 * max(1.0, abs(once[-1])):
            return (16 * once[-1] - once[-2]) / 15
    raise AssertionError("the lattices are too coarse")


def _rough(envelope: Envelope, steps: int, epsilon: float) -> float:
    if steps == 1:
        return math.log(envelope.profile(epsilon))
    tilt, step = _plan(envelope, steps, epsilon, 2**12)
    return _composed(envelope, steps, epsilon, step, tilt)


def _plan(envelope: Envelope, steps: int, epsilon: float, points: int) -> tuple[float, float]:
    """A tilt, and a step of which epsilon is a multiple."""
    tilt, deviation = _tilt(envelope, steps, epsilon)
    step = max(24.0 * deviation, 2.0 * envelope.span(tilt)) / points
    return tilt, epsilon / max(1, math.ceil(epsilon / step)) if epsilon > 0 else step


def _tilted(envelope: Envelope, step: float, tilt: float) -> tuple[float, np.ndarray, np.ndarray]:
    """log E[e^{tilt L}], the lattice's losses, and their probabilities under the tilted law."""
    losses, mass = envelope.lattice(step, math.ceil(envelope.span(_rounded_up(tilt)) / step))
    with np.errstate(divide="ignore"):
        logs = np.log(mass) + tilt * losses
    top = logs.max()
    weights = np.exp(logs - top)
    total = weights.sum()
    return math.log(total) + float(top), losses, weights / total


def _rounded_up(tilt: float) -> float:
    return 2.0 ** math.ceil(math.log2(max(tilt, 1.0)))


def _moments(envelope: Envelope, tilt: float) -> tuple[float, float]:
    _, losses, weights = _tilted(envelope, envelope.span(_rounded_up(tilt)) / 4000, tilt)
    mean = float(weights @ losses)
    return mean, float(weights @ (losses - mean) ** 2)


def _tilt(envelope: Envelope, steps: int, epsilon: float) -> tuple[float, float]:
    """The tilt under which the composed loss has mean epsilon, and its standard deviation then."""
    low, high = 0.0, 1.0
    while steps * _moments(envelope, high)[0] < epsilon and high < 1e4:
        low, high = high, 2 * high
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if steps * _moments(envelope, middle)[0] < epsilon else (low, middle)
    return high, math.sqrt(steps * _moments(envelope, high)[1])


def _composed(envelope: Envelope, steps: int, epsilon: float, step: float, tilt: float) -> float:
    cgf, losses, weights = _tilted(envelope, step, tilt)
    mean = float(weights @ losses)
    deviation = math.sqrt(steps * float(weights @ (losses - mean) ** 2))
    period = 2 ** math.ceil(math.log2(max(30.0 * deviation / step, len(losses) + 1)))
    around = np.zeros(period)
    around[(np.arange(len(losses)) - len(losses) // 2) % period] = weights
    composed = np.fft.irfft(np.fft.rfft(around) ** steps, period)
    places = round(steps * mean / step) - period // 2 + np.arange(period)
    beyond = places[step * places > epsilon + 0.5 * step]
    x = step * beyond
    with np.errstate(divide="ignore", under="ignore"):
        masses = np.log(np.maximum(composed[beyond % period], 0.0))
        terms = masses - tilt * (x - epsilon) + np.log(-np.expm1(epsilon - x))
    return float(np.logaddexp.reduce(terms)) + steps * cgf - tilt * epsilon
