"""Rounds whose privacy loss has a known law: finitely many atoms, or the Laplace mechanism's.

They stand beside `pairs.Round` in a composition. A *law of atoms* has P-masses p_i at losses l_i, and Q-masses
p_i e^{-l_i}; what its mechanism has beyond them (tails that are cut off) is at most `log_lost` of P and counts as
revealed on upper sides, as nothing on lower ones (R-5). Proofs: docs/internals/releases.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from groupdp.errors import LimitExceeded, require_number
from groupdp.floats import UNIT, FloatArray, composed
from groupdp.pairs import AnyRound, Composition, Immutable

#: Most products that a convolution of two laws takes: about two seconds of work.
_MOST_PRODUCTS = 2e9
#: Masses below this are not kept apart; lower sides below e^_LOG_SMALLEST are not claimed, where that would matter.
_LEAST, _LOG_SMALLEST = 1e-300, -644.0
#: Most atoms of a law, and of one that is the sum of laws on different lattices.
MOST_ATOMS, _MOST_SUMS = 4_000_000, 400_000
_NUMBERS = ("spacing", "loss_error", "mass_error", "log_lost", "log_lost_mirrored")


class KnownLosses(AnyRound):
    """What both kinds of rounds have in common: noise, and no Gaussian pair that dominates."""

    __slots__ = ()

    has_noise: ClassVar[bool] = True
    largest_shift: ClassVar[float] = math.inf
    at_zero: ClassVar[tuple[float, float, float]] = (0.0, 0.0, 0.0)


class AtomsRound(KnownLosses, Immutable):
    """Losses, increasing, with their masses under P and certified errors. Immutable and hashable.

    `spacing` is the distance between neighbouring losses if all are the same and losses[i] = losses[0] + i spacing,
    up to `loss_error`; else 0.
    """

    __slots__ = ("log_lost", "log_lost_mirrored", "log_p", "loss_error", "losses", "mass_error", "spacing")

    losses: FloatArray
    log_p: FloatArray
    spacing: float
    loss_error: float
    """Every loss is within this of the exact one."""
    mass_error: float
    """Every log_p is within this of the exact one."""
    log_lost: float
    """log of at least the P-mass that has no atom here."""
    log_lost_mirrored: float
    """log of at least the Q-mass that has no atom here."""

    def __init__(
        self,
        losses: FloatArray,
        log_p: FloatArray,
        *,
        spacing: float = 0.0,
        loss_error: float = 0.0,
        mass_error: float = 0.0,
        log_lost: float = -math.inf,
        log_lost_mirrored: float = -math.inf,
    ) -> None:
        own = [np.frombuffer((np.asarray(values, dtype=np.float64) + 0.0).tobytes()) for values in (losses, log_p)]
        if not len(own[0]) == len(own[1]) > 0:
            raise AssertionError("a law of atoms must have as many masses as losses, at least one")
        if not (np.all(np.isfinite(own[0])) and np.all(np.isfinite(own[1])) and np.all(np.diff(own[0]) >= 0.0)):
            raise AssertionError("a law of atoms must have finite losses that do not decrease, and positive masses")
        numbers = (spacing, loss_error, mass_error, log_lost, log_lost_mirrored)
        self._assign(
            (own[0].tobytes(), own[1].tobytes(), *numbers),
            losses=own[0],
            log_p=own[1],
            **dict(zip(_NUMBERS, map(float, numbers), strict=True)),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.losses, self.log_p, *self._key[2:])

    def __repr__(self) -> str:
        return f"AtomsRound(<{len(self.losses)} losses from {self.losses[0]:g} to {self.losses[-1]:g}>)"

    @property
    def mirrored(self) -> AtomsRound:
        """The round with P and Q exchanged."""
        rounding = 2.0 * UNIT * float(np.max(np.abs(self.losses) + np.abs(self.log_p)))
        error, lost = self.mass_error + self.loss_error + rounding, (self.log_lost_mirrored, self.log_lost)
        numbers = (self.spacing, self.loss_error, error, *lost)
        return _restored(-self.losses[::-1], (self.log_p - self.losses)[::-1], *numbers)

    @property
    def is_trivial(self) -> bool:
        """Whether P and Q are identical."""
        return not np.any(self.losses) and self.loss_error == 0.0

    @property
    def log_mass_above_zero(self) -> float:
        """log of an upper bound on its hockey stick at alpha = 1."""
        return self.log_delta(0.0, up=True)

    @property
    def largest_loss(self) -> float:
        """At least the largest loss; inf where some losses have no atom here."""
        return math.inf if self.log_lost > -math.inf else float(self.losses[-1]) + self.loss_error

    def log_delta(self, epsilon: float, *, up: bool) -> float:
        """An upper (lower) bound on log of sum (p_i - e^epsilon q_i)_+ (R-5)."""
        sign = 1.0 if up else -1.0
        start = int(np.searchsorted(self.losses, epsilon - self.loss_error - 8.0 * UNIT * abs(epsilon)))
        losses, log_p = self.losses[start:], self.log_p[start:]
        error = self.loss_error + 2.0 * UNIT * (np.abs(losses) + abs(epsilon))
        distance = losses - epsilon + sign * error
        beyond = distance > 0.0
        lost = self.log_lost if up else -math.inf
        if not np.any(beyond):
            return lost
        with np.errstate(divide="ignore"):
            terms = log_p[beyond] + np.log(-np.expm1(-distance[beyond]))
        top = float(terms.max())
        with np.errstate(under="ignore"):
            total = top + math.log(math.fsum(np.exp(terms - top).tolist()))
        # The terms: two logarithms and their sum; the sum of positive numbers is exact but for one rounding.
        room = self.mass_error + UNIT * (4.0 * float(np.max(np.abs(log_p))) + 4.0 * abs(top) + 40.0)
        value = total + sign * (room + 4.0 * UNIT * abs(total))
        if up:
            return min(float(np.logaddexp(value, lost)) + 1e-15, 0.0)
        return value if value > _LOG_SMALLEST else -math.inf

    def composed(self, times: int, *, log_cut: float = -650.0) -> AtomsRound:
        """The law of the sum of `times` independent losses, its tails cut off where P has about e^log_cut (R-5)."""
        return composed(self._trimmed(log_cut), times, lambda left, right: _sum(left, right, log_cut))

    def coarsened(self, most: int, *, up: bool) -> AtomsRound:
        """A law of at most about `most` atoms above (below) this one: dots connected, or cells merged (L-5, L-6)."""
        if len(self.losses) <= most:
            return self
        first, width = float(self.losses[0]), float(self.losses[-1] - self.losses[0]) / (most - 2)
        cell = np.floor((self.losses - first) / width)
        starts = np.flatnonzero(np.concatenate(([True], np.diff(cell) != 0.0)))
        error = self.mass_error + (len(self.losses) + 64.0) * UNIT
        lost = {"log_lost": self.log_lost, "log_lost_mirrored": 0.0}
        if not up:
            log_p = np.logaddexp.reduceat(self.log_p, starts)
            # The loss of a merged cell is log P / Q, of which either is off by the errors of its atoms.
            losses = np.maximum.accumulate(log_p - np.logaddexp.reduceat(self.log_p - self.losses, starts))
            error += 1e-13 * (1.0 + float(np.max(np.abs(self.log_p) + np.abs(self.losses))))
            return AtomsRound(losses, log_p, loss_error=self.loss_error + 4.0 * error, mass_error=error, **lost)
        edges: FloatArray = np.asarray(first + width * np.arange(most), dtype=np.float64)
        raised = self.losses + self.loss_error
        index = np.clip(np.searchsorted(edges, raised, side="right") - 1, 0, most - 2)
        share = np.expm1(edges[index] - raised) / np.expm1(edges[index] - edges[index + 1])
        share = np.clip(share * (1.0 + 1e-13) + 1e-15 * (1.0 + np.abs(raised)) / width, 0.0, 1.0)
        with np.errstate(under="ignore"):
            p = np.exp(self.log_p)
        masses = np.bincount(index, p * (1.0 - share), most) + np.bincount(index + 1, p * share, most)
        kept = masses > 0.0
        dropped = math.log(_LEAST * len(self.losses))
        lost["log_lost"] = float(np.logaddexp(self.log_lost, dropped))
        error += 1e-14 * (1.0 + float(np.max(np.abs(np.log(masses[kept])))))
        return AtomsRound(edges[kept], np.log(masses[kept]), mass_error=error + 1e-13, **lost)

    def _trimmed(self, log_cut: float) -> AtomsRound:
        """Without the atoms at both ends that have at most e^log_cut of P each."""
        with np.errstate(under="ignore"):
            p = np.exp(np.minimum(self.log_p, 0.0))
            allowed = math.exp(log_cut)
        first = int(np.searchsorted(np.cumsum(p), allowed))
        last = len(p) - int(np.searchsorted(np.cumsum(p[::-1]), allowed))
        if last - first in (0, len(p)):
            return self
        lost = float(np.logaddexp(self.log_lost, log_cut + 1.0))
        numbers = (self.spacing, self.loss_error, self.mass_error, lost, 0.0)
        return _restored(self.losses[first:last], self.log_p[first:last], *numbers)


def _restored(losses: FloatArray, log_p: FloatArray, *numbers: float) -> AtomsRound:
    return AtomsRound(losses, log_p, **dict(zip(_NUMBERS, numbers, strict=True)))


def _sum(left: AtomsRound, right: AtomsRound, log_cut: float) -> AtomsRound:
    """The law of the sum of two independent losses; its mirror image is not kept."""
    on_one_lattice = left.spacing == right.spacing > 0.0 or len(left.losses) == 1 or len(right.losses) == 1
    shorter, longer = sorted((left, right), key=lambda law: len(law.losses))
    work = float(len(left.losses)) * len(right.losses)
    if work > (_MOST_PRODUCTS if on_one_lattice else _MOST_SUMS):
        raise LimitExceeded(
            f"composing laws of {len(left.losses)} and of {len(right.losses)} losses takes more than "
            f"the limit of {_MOST_PRODUCTS if on_one_lattice else _MOST_SUMS:g} products."
        )
    scale = float(np.max(np.abs(left.losses)) + np.max(np.abs(right.losses)))
    mass_error = left.mass_error + right.mass_error
    if on_one_lattice:
        losses, log_p, dropped = _convolved(longer, shorter)
        mass_error += (len(shorter.losses) + 32.0) * UNIT + 1e-13 + 1e-15 * float(np.max(np.abs(log_p)))
        spacing = longer.spacing
    else:
        sums = np.add.outer(left.losses, right.losses).ravel()
        order = np.argsort(sums, kind="stable")
        losses, log_p = sums[order], np.add.outer(left.log_p, right.log_p).ravel()[order]
        mass_error += 2.0 * UNIT * float(np.max(np.abs(log_p)))
        spacing, dropped = 0.0, 0.0
    # Masses add up to 1 + mass_error at most, so that a lost mass is multiplied by no more than that.
    lost = float(np.logaddexp(left.log_lost, right.log_lost)) + 1.01 * mass_error + 1e-12
    if dropped > 0.0:
        lost = float(np.logaddexp(lost, math.log(dropped) + 1e-9))
    return AtomsRound(
        losses,
        log_p,
        spacing=spacing,
        loss_error=left.loss_error + right.loss_error + 4.0 * UNIT * scale,
        mass_error=mass_error,
        log_lost=lost,
        log_lost_mirrored=0.0,
    )._trimmed(log_cut)


def _convolved(longer: AtomsRound, shorter: AtomsRound) -> tuple[FloatArray, FloatArray, float]:
    """(losses, log masses, dropped P-mass) of the sum of two losses on one lattice: sums of products, all positive."""
    with np.errstate(under="ignore"):
        p, q = np.exp(longer.log_p), np.exp(shorter.log_p)
        masses = np.convolve(p, q)
    # What underflows is below _LEAST for each loss: raised to it between the ends, dropped beyond them.
    kept = masses > _LEAST
    first, last = int(np.argmax(kept)), len(kept) - int(np.argmax(kept[::-1]))
    inside = np.maximum(masses[first:last], _LEAST)
    dropped = 2.0 * _LEAST * len(masses)
    start = float(longer.losses[0] + shorter.losses[0])
    losses: FloatArray = np.array([start])
    if longer.spacing:
        losses = np.asarray(start + longer.spacing * np.arange(first, last), dtype=np.float64)
    elif len(longer.losses) > 1:
        losses = longer.losses[first:last] + float(shorter.losses[0])
    return losses, np.log(inside), dropped


@dataclass(frozen=True, slots=True)
class LaplaceRound(KnownLosses):
    """Laplace(x, 1) against Laplace(0, 1), x = `shift` > 0: delta(eps) = 1 - e^{(eps - x) / 2} for |eps| <= x.

    Its loss has atoms at -x and x, with P-masses e^-x / 2 and 1 / 2, and the P-density e^{(l - x) / 2} / 4 between
    them. It is its own mirror image.
    """

    shift: float

    def __post_init__(self) -> None:
        require_number("shift", self.shift, at_least=0.0)

    @property
    def mirrored(self) -> LaplaceRound:
        return self

    @property
    def is_trivial(self) -> bool:
        """Whether P and Q are identical."""
        return self.shift == 0.0

    @property
    def log_mass_above_zero(self) -> float:
        return math.log(-math.expm1(-0.5 * self.shift))

    def log_delta(self, epsilon: float, *, up: bool) -> float:
        """An upper (lower) bound on log(1 - e^{(eps - x) / 2}), for -x < eps < x (R-4)."""
        sign = 1.0 if up else -1.0
        distance = 0.5 * (self.shift - epsilon) + sign * 2.0 * UNIT * (self.shift + abs(epsilon))
        if distance <= 0.0:
            return -math.inf
        value = math.log(-math.expm1(-distance))
        return min(value + sign * 8.0 * UNIT * (1.0 + abs(value)), 0.0)

    @property
    def largest_loss(self) -> float:
        return self.shift


def laplace_atoms(shift: float, cells: int, *, up: bool) -> AtomsRound:
    """A law of atoms at multiples of h = shift / cells that is above (below) the Laplace mechanism's (R-4).

    With r_j = e^{(j h - x) / 2} / 2, connected dots have the P-mass 2 r_j tanh(h / 4) at the losses j h between the
    atoms, and r_j tanh(h / 4) more at the atoms; cells around j h that are merged have 2 r_j sinh(h / 4), exactly at
    j h, and the half cells next to the atoms are put at the losses to their left.
    """
    step, index = shift / cells, np.arange(-cells, cells + 1, dtype=np.float64)
    if step > 1000.0:  # the factors would be beyond doubles
        raise LimitExceeded(f"a loss of {shift:.3g} is too large for {2 * cells + 1} atoms.")
    factors = laplace_factors(cells, step, up=up)
    return AtomsRound(
        step * index,
        0.5 * step * (index - cells) - math.log(2.0) + np.log(factors),
        spacing=step,
        loss_error=8.0 * UNIT * shift,
        mass_error=UNIT * (8.0 * shift + 8.0 * abs(math.log(step)) + 64.0),
    )


def laplace_factors(cells: int, step: float, *, up: bool) -> FloatArray:
    """P-masses at j h, j = -cells .. cells, over r_j; each to a few units in the last place (R-4)."""
    quarter = 0.25 * step
    factors = np.full(2 * cells + 1, 2.0 * (math.tanh(quarter) if up else math.sinh(quarter)))
    if cells == 0:
        factors[0] = 2.0
    elif up:
        factors[[0, -1]] = 1.0 + math.tanh(quarter)
    else:
        factors[0] = 1.0 + math.expm1(quarter)
        factors[-2] += -math.expm1(-quarter) * math.exp(2.0 * quarter)
        factors[-1] = 1.0
    return factors


def compose_atoms(composition: Composition, *, log_cut: float = -650.0) -> Composition:
    """The composition with all laws of atoms composed into one, as far as the limits allow (R-5)."""
    laws = [(law, times) for law, times in composition if isinstance(law, AtomsRound)]
    others = [part for part in composition if not isinstance(part[0], AtomsRound)]
    if not laws or (len(laws) == 1 and laws[0][1] == 1):
        return composition
    sums: list[AtomsRound] = []
    for law, times in laws:
        power = law.composed(times, log_cut=log_cut)
        for index, other in enumerate(sums):
            try:
                sums[index] = _sum(other, power, log_cut)
                break
            except LimitExceeded:
                continue
        else:
            sums.append(power)
    return (*others, *((law, 1) for law in sums))
