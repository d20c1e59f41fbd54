"""Sides and branches: pairs of opposed mixtures, in units of the noise.

A *side* is a finite law of shifts >= 0. A *branch* opposes two sides, right and left:

    P = sum_i a_i N(+x_i, 1),      Q = sum_j b_j N(-y_j, 1).

With densities A(u) phi(u) and B(u) phi(u) the privacy loss Psi = log A - log B increases with u, so every
optimal event is a half-line; mixtures in more dimensions are dominated by their norms on the line (P-0).
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from groupdp.floats import ELEMENTARY, FloatArray

#: Quotients of numbers between this and its inverse neither over- nor underflow.
_MODERATE = 1e150

#: Probabilities above this have all digits of a double.
_SMALLEST = 1e-300

#: Up to so many numbers a loop takes less time than the calls of NumPy.
_SHORT = 32

#: (probabilities, log_probabilities), each right to the last bits; logarithms are finite where a double underflows.
Law = tuple[FloatArray, FloatArray]


def _immutable(values: FloatArray) -> FloatArray:
    """The same numbers on bytes, which cannot be made writable again; + 0.0 makes one zero of both."""
    return np.frombuffer((np.asarray(values, dtype=np.float64) + 0.0).tobytes())


class Immutable:
    """A value that cannot be changed; equal values of one class have the same `_key`, hashed once."""

    __slots__ = ("_hash", "_key")
    _key: Any
    _hash: int

    def _assign(self, key: Any, **values: Any) -> None:
        """Set the attributes, once."""
        for name, value in values.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_key", key)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self._key == other._key)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash(self._key))
            return self._hash

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed: make another one to change {name}.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed: {name} cannot be deleted.")


class Side(Immutable):
    """A finite law of shifts >= 0, increasing, each with a positive probability. Immutable and hashable.

    Probabilities and shifts are right to a few units in the last place; `log_probabilities` are finite also where a
    probability is below the smallest double.
    """

    __slots__ = ("largest", "log_probabilities", "probabilities", "shifts")

    shifts: FloatArray
    probabilities: FloatArray
    log_probabilities: FloatArray
    largest: float
    """The largest shift."""

    def __init__(self, shifts: FloatArray, law: Law) -> None:
        shifts, probabilities, logarithms = _immutable(shifts), _immutable(law[0]), _immutable(law[1])
        if not len(shifts) == len(probabilities) == len(logarithms) > 0:
            raise AssertionError("a side must have as many probabilities as shifts, at least one")
        if not (shifts[0] >= 0.0 and _increase(shifts) and _none_positive(logarithms)):
            raise AssertionError("a side must have increasing shifts >= 0 and probabilities up to 1")
        self._set(shifts, probabilities, logarithms)

    def _set(self, shifts: FloatArray, probabilities: FloatArray, logarithms: FloatArray) -> None:
        self._assign(
            (shifts.tobytes(), probabilities.tobytes(), logarithms.tobytes()),
            shifts=shifts,
            probabilities=probabilities,
            log_probabilities=logarithms,
            largest=float(shifts[-1]),
        )

    @classmethod
    def from_sensitivities(cls, sensitivities: FloatArray, law: Law, noise: float) -> Side:
        """The law of sensitivity / noise, outcomes of probability zero left out; infinite shifts where noise is 0."""
        probabilities, logarithms = law
        possible = np.isfinite(logarithms)
        if not possible.all():
            sensitivities, probabilities, logarithms = (
                array[possible] for array in (sensitivities, probabilities, logarithms)
            )
        if noise > 0.0:
            with np.errstate(over="ignore", under="ignore"):
                shifts = sensitivities / noise
            return cls.merged(shifts, (probabilities, logarithms))
        return cls.merged(np.where(sensitivities > 0.0, np.inf, 0.0), (probabilities, logarithms))

    def divided(self, noise: float) -> Side:
        """The law of shift / noise, this one being that of a sensitivity; infinite shifts where noise is 0.

        The probabilities are shared: a law is made once for all noise multipliers.
        """
        if _MODERATE > noise > 1.0 / _MODERATE and self.largest < _MODERATE:
            shifts = self.shifts / noise
            if _increase(shifts):
                result = object.__new__(Side)
                result._set(_immutable(shifts), self.probabilities, self.log_probabilities)
                return result
        return Side.from_sensitivities(self.shifts, (self.probabilities, self.log_probabilities), noise)

    @classmethod
    def merged(cls, shifts: FloatArray, law: Law) -> Side:
        """From shifts in non-decreasing order, equal ones merged (distinct sensitivities may meet in one double)."""
        if _increase(shifts):
            return cls(shifts, law)
        probabilities, logarithms = law
        starts = np.flatnonzero(np.concatenate(([True], shifts[1:] != shifts[:-1])))
        parts = np.split(probabilities, starts[1:])
        sums = np.array([math.fsum(part) for part in parts])
        logs = np.minimum(np.logaddexp.reduceat(logarithms, starts), 0.0)
        for i, (start, part) in enumerate(zip(starts, parts, strict=True)):
            if len(part) == 1:
                logs[i] = logarithms[start]
            elif sums[i] > 0.5:  # what is left for the others
                others = np.concatenate((probabilities[:start], probabilities[start + len(part) :]))
                logs[i] = math.log1p(-math.fsum(others))
            elif sums[i] > _SMALLEST:
                logs[i] = math.log(sums[i])
        return cls(shifts[starts], (sums, logs))

    @classmethod
    def point(cls, shift: float) -> Side:
        """All probability on one shift."""
        return cls(np.array([shift]), (np.ones(1), np.zeros(1)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Side, (self.shifts, (self.probabilities, self.log_probabilities))

    def __repr__(self) -> str:
        if len(self.shifts) <= 6:
            return f"Side({self.shifts.tolist()}, {self.probabilities.tolist()})"
        return f"Side(<{len(self.shifts)} shifts from {self.shifts[0]:g} to {self.shifts[-1]:g}>)"

    @property
    def is_zero(self) -> bool:
        """Whether the shift is always 0."""
        return self.largest == 0.0

    @property
    def smallest(self) -> float:
        """The smallest shift."""
        return float(self.shifts[0])

    @property
    def log_mass_at_zero(self) -> float:
        """log P(shift = 0); -inf if the shift is always positive."""
        return float(self.log_probabilities[0]) if self.shifts[0] == 0.0 else -math.inf

    @property
    def log_mass_above_zero(self) -> float:
        """log P(shift > 0); -inf if the shift is always 0."""
        if self.is_zero:
            return -math.inf
        absent = self.log_mass_at_zero
        if -1.0 < absent < 0.0:
            return math.log(-math.expm1(absent))
        return float(np.logaddexp.reduce(self.log_probabilities[self.shifts > 0.0], initial=-math.inf))


def _increase(values: FloatArray) -> bool:
    """Whether every number is above the one before it."""
    if len(values) > _SHORT:
        return bool((values[1:] > values[:-1]).all())
    listed = values.tolist()
    return all(map(operator.lt, listed, listed[1:]))


def _none_positive(values: FloatArray) -> bool:
    """Whether every number is at most 0, and none is NaN."""
    if len(values) > _SHORT:
        return bool((values <= 0.0).all())
    return all(value <= 0.0 for value in values.tolist())


#: The side of a dataset without the group.
ZERO = Side.point(0.0)


class Branch(Immutable):
    """P = sum a_i N(+x_i, 1) with (x, a) = `right` against Q = sum b_j N(-y_j, 1) with (y, b) = `left`."""

    __slots__ = ("left", "right")

    right: Side
    left: Side

    def __init__(self, right: Side, left: Side) -> None:
        self._assign((right, left), right=right, left=left)

    def __reduce__(self) -> tuple[Any, ...]:
        return Branch, self._key

    def __repr__(self) -> str:
        return f"Branch({self.right!r}, {self.left!r})"

    @property
    def mirrored(self) -> Branch:
        """The branch with P and Q exchanged (and u -> -u, so that the loss still increases)."""
        return Branch(self.left, self.right)

    @property
    def is_trivial(self) -> bool:
        """Whether P and Q are identical."""
        return self.right.is_zero and self.left.is_zero

    @property
    def largest_loss(self) -> float:
        """An upper bound on the loss, never attained unless it is 0; inf where there is none (L-1)."""
        log_mass = self.left.log_mass_at_zero if self.right.is_zero else -math.inf
        return math.inf if log_mass == -math.inf else -log_mass * (1.0 + ELEMENTARY)
