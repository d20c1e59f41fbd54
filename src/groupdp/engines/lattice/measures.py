"""A tilted measure on the lattice of losses, folded to the length of the transform; delta(epsilon) from a composed one.

The atom at loss n h is stored as mass x exp(tilt n h - log_scale) at position n mod N. What folding adds is bounded by
Chernoff sums taken before (L-20); delta is read off rounded to one side, from the window of n that is at hand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from groupdp.engines.lattice.support import Survival
from groupdp.floats import ELEMENTARY, TINY, UNIT, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Tilt:
    """How the atoms of one round are weighted: exp(tilt x loss - log_scale)."""

    rate: float
    log_scale: float
    offset: float = 0.0
    """Losses are meant minus this."""
    moments: tuple[tuple[float, float], ...] = ()
    """(theta, normaliser): also sum atoms x exp(theta x loss - normaliser)."""


@dataclass(slots=True)
class TiltedMass:
    """The folded array of one round's measure, its Chernoff sums, and its mass at +infinity."""

    step: float
    tilt: Tilt
    array: FloatArray
    moments: list[float] = field(default_factory=list)
    log_infinite_mass: float = -math.inf
    inflation: float = 0.0
    """The untilted finite mass is at most 1 + inflation (upper measures only)."""
    additions: int = 0
    lowest: int = 0
    """All atoms have indices from `lowest` to `highest`."""
    highest: int = 0

    @classmethod
    def empty(cls, *, step: float, tilt: Tilt, length: int) -> TiltedMass:
        return cls(step, tilt, np.zeros(length), [0.0] * len(tilt.moments))

    def exponents(self, index: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(exponents, absolute errors) by which masses at lattice indices are tilted and scaled."""
        lift = self.tilt.rate * (index * self.step)
        return lift - self.tilt.log_scale, UNIT * (4.0 * np.abs(lift) + 2.0 * abs(self.tilt.log_scale))

    def book(self, index: FloatArray | IntArray, values: FloatArray, *, up: bool) -> None:
        """Add atoms, tilted and scaled already, in any order; the roundings of adding go to the safe side."""
        if len(index) == 0:
            return
        indices = index.astype(np.int64)
        lowest, highest = int(indices.min()), int(indices.max())
        if self.additions > 0:
            lowest, highest = min(lowest, self.lowest), max(highest, self.highest)
        self.lowest, self.highest = lowest, highest
        loss = self.step * indices
        for k, (theta, normaliser) in enumerate(self.tilt.moments):
            # Raising far exponents to -700 only enlarges the bound, and spares slow subnormal arithmetic.
            exponent = np.maximum(theta * loss - normaliser, -700.0)
            with np.errstate(over="ignore", invalid="ignore"):
                # No atom, no contribution: not even where the exponential overflows.
                total = float(np.sum(np.where(values > 0.0, values * np.exp(exponent), 0.0)))
            units = 8.0 * float(np.max(np.abs(theta * loss))) + 8.0 * abs(normaliser) + len(values) + 32.0
            self.moments[k] += total * (1.0 + units * UNIT)
        places = indices % len(self.array)
        order = np.argsort(places, kind="stable")
        places = places[order]
        starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
        most = int(np.diff(np.append(starts, len(places))).max())
        room = (most + 4) * UNIT
        sums = np.add.reduceat(values[order], starts)
        self.array[places[starts]] += sums * (1.0 + room if up else 1.0 - room)
        self.additions += 1

    def add_atoms_above(self, loss: FloatArray, masses: FloatArray) -> None:
        """Split every atom between the lattice points beside it, keeping its P- and Q-mass (L-5)."""
        step = self.step
        near = np.floor(loss / step)
        near = np.where(near * step > loss, near - 1.0, near)
        offset = np.maximum(loss - near * step, 0.0)
        share = np.expm1(-offset) / math.expm1(-step) * (1.0 + 8.0 * ELEMENTARY) + 8.0 * UNIT * np.abs(loss) / step
        share = np.minimum(share, 1.0)
        for index, part in ((near, (1.0 - share) + UNIT), (near + 1.0, share)):
            exponent, error = self.exponents(index)
            with np.errstate(under="ignore", over="ignore"):
                values = masses * part * np.exp(exponent) * (1.0 + ELEMENTARY + 1.01 * error + 8.0 * UNIT) + TINY
            self.book(index, values, up=True)

    def add_atoms_below(self, loss: FloatArray, masses: FloatArray) -> None:
        """Book every atom at the lattice point below it (L-6)."""
        index = np.floor(loss / self.step)
        index = np.where(index * self.step > loss, index - 1.0, index)
        exponent, error = self.exponents(index)
        with np.errstate(under="ignore", over="ignore"):
            values = masses * np.exp(exponent) * (1.0 - ELEMENTARY - 1.01 * error - 8.0 * UNIT)
        good = values > TINY
        self.book(index[good], values[good], up=False)

    def book_symmetric(self, indices: IntArray, values: FloatArray, *, up: bool) -> None:
        """Add atoms at l > 0, their mirror images at -l, and the rest of the total mass 1 at 0 (L-13)."""
        x = self.step * indices
        rate, log_scale = self.tilt.rate, self.tilt.log_scale
        sign = 1.0 if up else -1.0
        add = sum_up if not up else sum_down  # of the mass subtracted from 1
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            lift = rate * x - log_scale
            room = ELEMENTARY + UNIT * (8.0 * (np.abs(rate * x) + abs(log_scale)) + 8.0)
            plain = values * np.exp(-lift)
            plain_room = plain * room
            total = add(plain) + add(plain * np.exp(-x))
            doubt = 4.0 * (sum_up(plain_room) + sum_up(plain_room * np.exp(-x))) + 16.0 * UNIT
            missing = 1.0 - total + sign * doubt
            if up:
                self.inflation += 1.01 * max(total - 1.0, 0.0) + 3.0 * doubt + 1e-12
            if not up and missing < 0.0:  # scaled down to a total of at most 1
                values = values * (1.0 + 1.01 * missing) * (1.0 - 4.0 * UNIT)
                missing = 0.0
            fall = (1.0 + 2.0 * rate) * x
            mirrored = values * np.exp(-fall) * (1.0 + sign * (ELEMENTARY + UNIT * (8.0 * fall + 8.0)))
            if up:
                mirrored = mirrored + TINY
            centre = max(missing, 0.0) * math.exp(min(-log_scale, 700.0))
            centre *= 1.0 + sign * (ELEMENTARY + UNIT * (4.0 * abs(log_scale) + 8.0))
        self.book(np.concatenate((-indices, [0], indices)), np.concatenate((mirrored, [centre], values)), up=up)

    def add_infinite(self, log_mass: float) -> None:
        """Add e^log_mass at +infinity."""
        self.log_infinite_mass = float(np.logaddexp(self.log_infinite_mass, log_mass)) + 1e-9

    def _normalise(self, *, up: bool) -> None:
        """Scale the array to a sum of 1, so that no power of it overflows; roundings go to the safe side."""
        total = float(np.sum(self.array))
        if not 0.0 < total < math.inf:
            return
        scale = math.log(total)
        room = ELEMENTARY + UNIT * (4.0 * abs(scale) + 4.0)
        self.array *= math.exp(-scale) * (1.0 + room if up else 1.0 - room)
        self.moments = [moment * math.exp(-scale) * (1.0 + 4.0 * room) for moment in self.moments]
        self.tilt = replace(self.tilt, log_scale=self.tilt.log_scale + scale)

    def finish(self, *, up: bool) -> None:
        """Cover the roundings of the additions: the array then bounds the exact sums from the side asked for."""
        room = (self.additions + 4) * UNIT
        if up:
            self.array *= 1.0 + room
            self.inflation += 2.0 * room
        else:
            self.array *= 1.0 - room
        self.moments = [moment * (1.0 + 2.0 * room) for moment in self.moments]
        self._normalise(up=up)


#: Terms beyond e^-50 of the largest possible one are bounded, not summed.
_LOG_NEGLIGIBLE = 50.0
_SUM_BLOCK = 1024
_SURVIVAL_POINTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The window first, first + 1, ... of a composed measure, and bounds on the mass outside of it."""

    step: float
    offset: Fraction
    """The lattice point of index 0."""
    rate: float
    log_scale: float
    log_scale_error: float
    first: int
    values: FloatArray
    error: float = 0.0
    """Every entry is within this of the exact circular convolution."""
    norm_error: float = 0.0
    """And the Euclidean norm of all these errors is within this."""
    left_outside: float = 0.0
    """At least the tilted mass to the left of the window."""
    right_outside: float = 0.0
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
        if start == 0:  # mass left of the window may lie right of epsilon
            total += self.left_outside * largest
        total *= 1.0 + self._relative_error()
        if not total < math.inf:  # or not a number: only delta <= 1 is certain
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
        # Exact entries are not negative, so those that are not positive here may be left out.
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
        """(position, g(v) = e^{-cv} (1 - e^-v) from there on), at the lattice points above epsilon (L-20)."""
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
