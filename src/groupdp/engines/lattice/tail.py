"""delta(epsilon) from a composed, tilted measure on the lattice, rounded to one side.

    delta(eps) = e^{log_scale - c eps} sum_n W_n g(n h - eps)           (losses and eps minus the offset)
    g(v) = e^{-c v} (1 - e^{-v})_+ <= c^c / (1 + c)^{1 + c}

Only a window of n is at hand, on which the circular convolution adds what lies outside (L-20).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from groupdp.engines.lattice.importance import Survival
from groupdp.engines.lattice.likelihood import FloatArray
from groupdp.engines.lattice.rounding import ELEMENTARY, TINY, UNIT

#: Terms beyond e^-50 of the largest possible one are bounded, not summed.
_LOG_NEGLIGIBLE = 50.0
_SUM_BLOCK = 1024
_SKETCH = 64
_SURVIVAL_POINTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The window of a composed measure: lattice indices first, first + 1, ..., and what is known about the rest."""

    step: float
    offset: Fraction
    """The lattice point of index 0."""
    rate: float
    log_scale: float
    log_scale_error: float
    first: int
    values: FloatArray
    error: float
    """Every entry is within this of the exact circular convolution."""
    norm_error: float
    """And the Euclidean norm of all these errors is within this."""
    left_outside: float
    """At least the tilted mass to the left of the window."""
    right_outside: float
    log_infinite_mass: float = -math.inf

    def log_delta_above(self, epsilon: float) -> float:
        """An upper bound on the measure's log delta(epsilon)."""
        start, kernel = self._kernel(epsilon)
        entries = np.maximum(self.values[start : start + len(kernel)], 0.0)
        largest = _largest_kernel(self.rate)
        total = sum_up(entries * kernel) + min(self.error * sum_up(kernel), self.norm_error * _norm_up(kernel))
        beyond = start + len(kernel)
        if beyond < len(self.values):
            rest = sum_up(np.maximum(self.values[beyond:], 0.0)) + self.error * (len(self.values) - beyond)
            total += rest * math.exp(-_LOG_NEGLIGIBLE)
        total += self.right_outside * largest
        if start == 0:  # what lies left of the window may also lie right of epsilon
            total += self.left_outside * largest
        total *= 1.0 + self._relative_error()
        if not total < math.inf:  # also where it is not a number: nothing is known but delta <= 1
            return 0.0
        if total <= 0.0:
            return min(self.log_infinite_mass, 0.0)
        logarithm = math.log(total)
        value = logarithm + self._log_factor(epsilon, sign=1.0) + UNIT * (16.0 * abs(logarithm) + 8.0)
        return min(float(np.logaddexp(value, self.log_infinite_mass)) + 4.0 * UNIT * (2.0 + abs(value)), 0.0)

    def log_delta_below(self, epsilon: float) -> float:
        """A lower bound on the measure's log delta(epsilon); -inf if nothing is certain."""
        if not self.error < math.inf:
            return -math.inf
        start, kernel = self._kernel(epsilon)
        entries = np.maximum(self.values[start : start + len(kernel)], 0.0)
        room = self._relative_error()
        # No exact entry is negative, so any of them may be left out: those that are not positive here.
        total = sum_down(entries * kernel) * (1.0 - room)
        total -= self.norm_error * _norm_up(kernel[entries > 0.0]) * (1.0 + 2.0 * room)
        entries = np.maximum(entries - self.error * (1.0 + 4.0 * UNIT), 0.0)
        total = max(total, sum_down(entries * kernel) * (1.0 - room))
        total -= (self.left_outside + self.right_outside) * _largest_kernel(self.rate) * (1.0 + 8.0 * UNIT)
        if not total > 0.0:
            return -math.inf
        logarithm = math.log(total)
        return logarithm + self._log_factor(epsilon, sign=-1.0) - UNIT * (16.0 * abs(logarithm) + 8.0)

    @property
    def _start(self) -> float:
        """The loss where the window starts."""
        return float(self.offset + Fraction(self.step) * self.first)

    def rough_crossing(self, target: float) -> tuple[float, float] | None:
        """(epsilon, slope): about where log delta passes `target`, and how steeply; None if it does not here.

        Not certified: every 64 entries are taken as one, which makes it cheap.
        """
        size = len(self.values) // _SKETCH if len(self.values) >= 64 * _SKETCH else len(self.values)
        block = len(self.values) // size
        masses = np.maximum(self.values[: size * block], 0.0).reshape(size, block).sum(axis=1)
        start = self._start
        centres = self.step * (block * np.arange(size) + 0.5 * (block - 1))

        def log_delta(distance: float) -> float:
            v = centres[centres > distance] - distance
            with np.errstate(under="ignore"):
                total = float(masses[centres > distance] @ (np.exp(-self.rate * v) * -np.expm1(-v)))
            return self._log_factor(start + distance, sign=0.0) + math.log(total) if total > 0.0 else -math.inf

        low, high = -8.0 / self.rate, float(centres[-1])
        if not log_delta(low) > target >= log_delta(high):
            return None
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if log_delta(middle) > target else (low, middle)
        apart = max(4.0 * block * self.step, 1e-12 * abs(start + low))
        slope = (log_delta(low - apart) - log_delta(low + apart)) / (2.0 * apart)
        return start + low, slope if 0.0 < slope < math.inf else self.rate

    def survival(self) -> Survival:
        """log P(L > x) at some thousand points, from the entries that stand out of their error; not certified."""
        size = min(len(self.values), _SURVIVAL_POINTS)
        block = len(self.values) // size
        entries = np.maximum(self.values[: size * block] - self.error, 0.0)
        losses: FloatArray = np.asarray(self._start + self.step * (block * np.arange(size)))
        with np.errstate(divide="ignore"):
            log_masses = np.log(entries.reshape(size, block).sum(axis=1)) + self.log_scale - self.rate * losses
        log_values = np.logaddexp.accumulate(log_masses[::-1])[::-1]
        return Survival(losses, np.maximum(log_values, -1e12), self.rate)

    def _kernel(self, epsilon: float) -> tuple[int, FloatArray]:
        """(position, values of g from there on), for the lattice points of the window above epsilon."""
        exact = (Fraction(epsilon) - self.offset) / Fraction(self.step) - self.first
        start = min(max(math.floor(exact) + 1, 0), len(self.values))
        base = float((start - exact) * Fraction(self.step))
        count = len(self.values) - start
        if self.rate * self.step * count > _LOG_NEGLIGIBLE:
            count = min(count, math.ceil(_LOG_NEGLIGIBLE / (self.rate * self.step)) + 1)
        distance = base + self.step * np.arange(count)
        with np.errstate(under="ignore"):
            return start, np.exp(-self.rate * distance) * -np.expm1(-distance)

    def _relative_error(self) -> float:
        """Of every product entry x kernel: its distance is off by 3 roundings, then two functions, two products."""
        return 2.0 * ELEMENTARY + UNIT * (8.0 * (_LOG_NEGLIGIBLE + self.rate * self.step) + 32.0)

    def _log_factor(self, epsilon: float, *, sign: float) -> float:
        lift = self.rate * float(Fraction(epsilon) - self.offset)
        error = self.log_scale_error + UNIT * (8.0 * abs(self.log_scale) + 8.0 * abs(lift) + 32.0)
        return self.log_scale - lift + sign * error


def _largest_kernel(rate: float) -> float:
    """c^c / (1 + c)^(1 + c), rounded up."""
    return math.exp(-rate * math.log1p(1.0 / rate) - math.log1p(rate)) * (1.0 + 1e-12)


def sum_up(values: FloatArray) -> float:
    """A sum of non-negative terms, rounded up."""
    return _blocked_sum(values) * (1.0 + 2.0 * _SUM_BLOCK * UNIT)


def sum_down(values: FloatArray) -> float:
    """A sum of non-negative terms, rounded down."""
    return _blocked_sum(values) * (1.0 - 2.0 * _SUM_BLOCK * UNIT)


def _norm_up(values: FloatArray) -> float:
    """The Euclidean norm of values between 0 and 1, rounded up."""
    return math.sqrt(sum_up(values * values)) * (1.0 + 4.0 * UNIT) + math.sqrt(TINY * (1.0 + len(values)))


def _blocked_sum(values: FloatArray) -> float:
    """A sum of non-negative terms, relative error below 1024 roundings in whatever order NumPy adds."""
    whole = len(values) // _SUM_BLOCK * _SUM_BLOCK
    blocks = values[:whole].reshape(-1, _SUM_BLOCK).sum(axis=1)
    return math.fsum(blocks) + math.fsum(values[whole:])
