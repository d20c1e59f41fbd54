"""Ball arithmetic for the tests of the lattice engine: one round's loss, and exact curves of measures."""

from __future__ import annotations

import math

import numpy as np
from flint import arb

import oracle
from groupdp import pairs
from groupdp.engines.lattice.loss import BranchLoss
from groupdp.engines.lattice.measures import TiltedMass
from groupdp.laws import binomial_law
from groupdp.mechanisms.mixture import MixtureOfGaussians
from mixtures import pairs_of

BITS = 256


def binomial_mixture(group_size: int, rate: float, noise: float) -> MixtureOfGaussians:
    return MixtureOfGaussians.from_law(np.arange(group_size + 1.0), binomial_law(group_size, rate), noise)


def exact_mixture(group_size: int, rate: float, noise: float) -> oracle.Mixture:
    """The same in exact rationals: parameters are doubles at their binary value."""
    return oracle.compose([{"sampling_rate": rate, "noise_multiplier": noise, "steps": 1}], group_size=group_size)[0][0]


def exact_loss(mixture: oracle.Mixture, t: float, direction: str) -> tuple[arb, arb]:
    """(loss, log density of P) at the coordinate in which the loss increases."""
    sign = 1 if direction == "remove" else -1
    u = sign * arb(t)
    terms = (
        arb(p) * (arb(m) * u - arb(m) ** 2 / 2).exp()
        for m, p in zip(mixture.shifts, mixture.probabilities, strict=True)
    )
    log_ratio = sum(terms, arb(0)).log()
    log_normal = -(u**2) / 2 - (2 * arb.pi()).log() / 2
    return sign * log_ratio, log_normal + (log_ratio if direction == "remove" else 0)


class ExactCurve:
    """The hockey-stick curve of a tilted measure's floating-point entries, without any further rounding."""

    def __init__(self, mass: TiltedMass) -> None:
        step, tilt = arb(mass.step), mass.tilt
        indices = np.arange(mass.lowest, mass.highest + 1)
        assert len(indices) <= len(mass.array), "the measure is folded"
        values = mass.array[indices % len(mass.array)]
        indices, values = indices[values > 0.0], values[values > 0.0]
        self.losses = [arb(tilt.offset) + int(j) * step for j in indices]
        self.infinite = arb(mass.log_infinite_mass).exp() if mass.log_infinite_mass > -math.inf else arb(0)
        self.p_beyond, self.q_beyond = [arb(0)], [arb(0)]
        for value, j, loss in reversed(
            list(zip(values[values > 0.0], indices[values > 0.0], self.losses, strict=True))
        ):
            weight = arb(float(value)) * (arb(tilt.log_scale) - arb(tilt.rate) * (int(j) * step)).exp()
            self.p_beyond.append(self.p_beyond[-1] + weight)
            self.q_beyond.append(self.q_beyond[-1] + weight * (-loss).exp())
        self.p_beyond.reverse()
        self.q_beyond.reverse()

    def delta(self, epsilon: float) -> arb:
        eps = arb(epsilon)
        low, high = 0, len(self.losses)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.losses[middle] > eps else (middle + 1, high)
        return self.p_beyond[low] - eps.exp() * self.q_beyond[low] + self.infinite


def composed(*parts: tuple[MixtureOfGaussians, int], direction: str) -> pairs.Composition:
    """Mixtures with their rounds, as pairs."""
    return pairs_of(parts, direction)


def branch_loss(mixture: MixtureOfGaussians, direction: str) -> BranchLoss:
    return BranchLoss(composed((mixture, 1), direction=direction)[0][0].branches[0])
