"""Certified answers for one composition: rounds without noise in closed form, the rest by an engine.

A round without noise has outcomes +inf (P alone), -inf (Q alone) and 0, where P has mass a_0 and Q has b_0. With p the
P-probability that no noiseless round is revealing, l the loss of what is left (log prod a_0 / b_0) and delta' the
curve of the noisy rounds,

    delta(eps) = (1 - p) + p delta'(eps - l).                                                    (P-10)

Where a public coin makes l random, its largest value serves the upper side, and the lower side the value with all
branches merged, which is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from groupdp.accounting.engine_choice import Options, noisy_epsilon, noisy_log_delta, spectral_ceiling
from groupdp.bounds import Bounds, Provenance
from groupdp.pairs import Branch, Composition, Profile, Round

#: Relative slack that covers the few roundings of the closed forms below.
_SLACK = 1e-14
#: The smallest positive double.
_SMALLEST = math.ulp(0.0)


@dataclass(frozen=True, slots=True)
class _Noiseless:
    """log p and the range of l for the rounds without noise."""

    log_p: float
    least_loss: float
    most_loss: float

    @property
    def is_nothing(self) -> bool:
        return self.log_p == 0.0 and self.least_loss == 0.0 == self.most_loss

    @property
    def tells_all(self) -> bool:
        return self.log_p == -math.inf or self.least_loss == math.inf


#: What no rounds reveal.
_NOTHING = _Noiseless(0.0, 0.0, 0.0)


def log_delta_of(composition: Composition, epsilon: float, options: Options) -> Bounds:
    """Bounds on log delta(epsilon), for any real epsilon."""
    noisy, noiseless = _peel(composition)
    if noiseless.is_nothing:
        return noisy_log_delta(noisy, epsilon, options)
    if noiseless.tells_all:
        return Bounds(0.0, 0.0)
    log_p = noiseless.log_p
    room = _SLACK * (abs(noiseless.least_loss) + abs(log_p) + abs(epsilon))
    low = noisy_log_delta(noisy, epsilon - noiseless.least_loss + room, options)
    lower = _log_with_revealed(log_p * (1.0 - _SLACK), low.lower)  # (1 - p) + p delta' falls with p
    upper, provenance = 0.0, low.provenance
    if noiseless.most_loss < math.inf:
        high = noisy_log_delta(noisy, epsilon - noiseless.most_loss - room, options)
        upper, provenance = _log_with_revealed(log_p * (1.0 + _SLACK), high.upper), high.provenance
    return Bounds(_widened(lower, -1.0), min(_widened(upper, 1.0), 0.0), provenance)


def epsilon_of(composition: Composition, log_delta: float, options: Options) -> Bounds:
    """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta."""
    noisy, noiseless = _peel(composition)
    if noiseless.is_nothing:
        return noisy_epsilon(noisy, log_delta, options)
    if noiseless.tells_all:
        return Bounds(math.inf, math.inf)
    at_zero = log_delta_of(composition, 0.0, options)
    if at_zero.upper <= log_delta - _SLACK * abs(log_delta):
        return Bounds(0.0, 0.0)
    lower_target, upper_target = _targets(noiseless.log_p, log_delta)
    if lower_target is None:
        return Bounds(math.inf, math.inf)
    room = _SLACK * (abs(noiseless.log_p) + abs(noiseless.least_loss))
    lower, upper, provenance = 0.0, math.inf, Provenance()
    if lower_target < 0.0:
        found = _real_epsilon(noisy, lower_target, options)
        lower = max(_down(found.lower + noiseless.least_loss - room), 0.0)
        provenance = found.provenance
    if upper_target is not None and noiseless.most_loss < math.inf:
        found = _real_epsilon(noisy, min(upper_target, -1e-300), options)
        upper = max(_up(found.upper + noiseless.most_loss + room), 0.0)
        provenance = found.provenance
    return Bounds(min(lower, upper), upper, provenance)


def _targets(log_p: float, log_delta: float) -> tuple[float | None, float | None]:
    """log of (delta - (1 - p)) / p, rounded up for the lower side and down for the upper; None where it is negative."""
    if log_p == 0.0:
        return log_delta, log_delta
    revealed = -math.expm1(log_p)
    delta = math.exp(log_delta)
    left = delta - revealed
    # Of 1 - p and of e^log(delta), which has lost as many bits as log(delta) has before its point; and of subnormals.
    uncertainty = _SLACK * (4.0 * revealed + delta * (1.0 + 0.1 * abs(log_delta))) + 4.0 * _SMALLEST
    room = _SLACK * abs(log_p)
    lower = math.log(left + uncertainty) - log_p + room if left + uncertainty > 0.0 else None
    upper = math.log(left - uncertainty) - log_p - room if left - uncertainty > 0.0 else None
    return lower, upper


def _real_epsilon(noisy: Composition, log_delta: float, options: Options) -> Bounds:
    """The smallest real epsilon, not only >= 0: at or below 0, where no round is noisy, delta(eps) = 1 - e^eps."""
    if not noisy:
        # log(1 - delta), from the logarithm: next to 1, e^log_delta has lost 1 - delta.
        value = math.log(-math.expm1(log_delta))
        room = _SLACK * abs(value) + 1e-15
        return Bounds(value - room, value + room)
    found = noisy_epsilon(noisy, log_delta, options)
    return replace(found, lower=-math.inf) if found.lower == 0.0 else found


def epsilon_ceiling_of(composition: Composition, log_delta: float, *, enough: float) -> float:
    """A cheap rigorous upper bound on epsilon, to be compared with `enough`; inf where none is at hand."""
    noisy, noiseless = _peel(composition)
    if not noiseless.is_nothing or not noisy:
        return math.inf
    return spectral_ceiling(noisy, log_delta, enough)


def log_revealed(composition: Composition) -> float:
    """log of the P-probability of outcomes that Q never has: what rounds without noise give away."""
    log_p = _peel(composition)[1].log_p
    return -math.inf if log_p == 0.0 else _log_where_identical(log_p)


def _peel(composition: Composition) -> tuple[Composition, _Noiseless]:
    """The noisy rounds, and what the noiseless ones reveal."""
    revealing = [(one, times) for one, times in composition if not one.has_noise]
    if not revealing:
        return composition, _NOTHING
    noisy = tuple(part for part in composition if part[0].has_noise)
    log_p, log_q, most = [], [], []
    for one, times in revealing:
        p, q, largest = _at_zero(one)
        log_p.append(times * p)
        log_q.append(times * q)
        most.append(times * largest)
    total_p, total_q = math.fsum(log_p), math.fsum(log_q) if -math.inf not in log_q else -math.inf
    least = total_p - total_q if total_p > -math.inf else 0.0
    return noisy, _Noiseless(total_p, least, max(math.fsum(most), least))


def _at_zero(one: Round | Profile) -> tuple[float, float, float]:
    """(log P(0), log Q(0), largest loss at outcome 0) of a round without noise."""
    if not isinstance(one, Round):
        return one.log_mass_at_zero, one.log_mass_at_zero, 0.0
    masses = [(_mass(branch, right=True), _mass(branch, right=False)) for branch in one.branches]
    if len(masses) == 1:
        p, q = masses[0]
        return p, q, p - q if p > -math.inf else 0.0
    p = _log_total(one.log_weights, [a for a, _ in masses])
    q = _log_total(one.log_weights, [b for _, b in masses])
    return p, q, max((a - b for a, b in masses if a > -math.inf), default=0.0)


def _mass(branch: Branch, *, right: bool) -> float:
    return (branch.right if right else branch.left).log_mass_at_zero


def _log_total(log_weights: Sequence[float], logarithms: list[float]) -> float:
    """log of sum w e^log, the weights w summing to 1, to a few units in its last place.

    Where the sum is above one half it is 1 - sum w (1 - e^log): of what is next to 1, the sum of the terms would have
    lost the distance from 1, which is what is revealed.
    """
    missing = math.fsum(
        math.exp(weight) * -math.expm1(value) for weight, value in zip(log_weights, logarithms, strict=True)
    )
    if missing < 0.5:
        return math.log1p(-missing)
    terms = [weight + value for weight, value in zip(log_weights, logarithms, strict=True)]
    largest = max(terms)
    if largest == -math.inf:
        return largest
    return min(largest + math.log(math.fsum(math.exp(value - largest) for value in terms)), 0.0)


def _log_where_identical(epsilon: float) -> float:
    """log of (1 - e^epsilon)_+, to a few units in the last place."""
    if epsilon >= 0.0:
        return -math.inf
    return math.log(-math.expm1(epsilon)) if epsilon > -1.0 else math.log1p(-math.exp(epsilon))


def _log_with_revealed(log_p: float, log_delta: float) -> float:
    """log of (1 - p) + p delta."""
    high, low = _log_where_identical(log_p), log_p + log_delta
    if high < low:
        high, low = low, high
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def _widened(logarithm: float, sign: float) -> float:
    """Moved outward by more than the roundings of the closed form; an infinite one stays."""
    return logarithm + sign * _SLACK * (1.0 + abs(logarithm)) if math.isfinite(logarithm) else logarithm


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)


def _down(value: float) -> float:
    return math.nextafter(value, -math.inf)
