"""Rounds without noise, in closed form beside the curve of the noisy rounds.

With p the P-probability that no noiseless round is revealing, l the loss of what is left (log prod a_0 / b_0; its
largest value above, with all branches merged below) and delta' the curve of the noisy rounds,

    delta(eps) = (1 - p) + p delta'(eps - l).                                                    (P-10)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from groupdp.bounds import Bounds, Provenance
from groupdp.floats import log_complement
from groupdp.pairs import Composition

#: Relative slack that covers the few roundings of the closed forms below.
_SLACK = 1e-14
#: The smallest positive double.
_SMALLEST = math.ulp(0.0)


@dataclass(frozen=True, slots=True)
class Noiseless:
    """log p and the range of l for the rounds without noise."""

    log_p: float
    least_loss: float
    most_loss: float

    @property
    def reveals_all(self) -> bool:
        """Whether no outcome is possible under both P and Q."""
        return self.log_p == -math.inf or self.least_loss == math.inf


def split(composition: Composition) -> tuple[Composition, Noiseless | None]:
    """The noisy rounds, and what the noiseless ones reveal; None where they reveal nothing."""
    revealing = [(round_, times) for round_, times in composition if not round_.has_noise]
    if not revealing:
        return composition, None
    noisy = tuple(part for part in composition if part[0].has_noise)
    log_p, log_q, most = [], [], []
    for round_, times in revealing:
        p, q, largest = round_.at_zero
        log_p.append(times * p)
        log_q.append(times * q)
        most.append(times * largest)
    total_p, total_q = math.fsum(log_p), math.fsum(log_q) if -math.inf not in log_q else -math.inf
    least = total_p - total_q if total_p > -math.inf else 0.0
    largest = max(math.fsum(most), least)
    if total_p == least == largest == 0.0:
        return noisy, None
    return noisy, Noiseless(total_p, least, largest)


def log_revealed(composition: Composition) -> float:
    """log of the P-probability of outcomes that Q never has: rounds without noise reveal them."""
    noiseless = split(composition)[1]
    return -math.inf if noiseless is None or noiseless.log_p == 0.0 else log_complement(noiseless.log_p)


def log_delta_with(noiseless: Noiseless, epsilon: float, noisy_log_delta: Callable[[float], Bounds]) -> Bounds:
    """Bounds on log delta(epsilon) from those on the noisy rounds' log delta at any real epsilon (P-10)."""
    if noiseless.reveals_all:
        return Bounds(0.0, 0.0)
    log_p = noiseless.log_p
    room = _SLACK * (abs(noiseless.least_loss) + abs(log_p) + abs(epsilon))
    low = noisy_log_delta(epsilon - noiseless.least_loss + room)
    lower = _log_with_revealed(log_p * (1.0 - _SLACK), low.lower)  # (1 - p) + p delta' falls with p
    upper, provenance = 0.0, low.provenance
    if noiseless.most_loss < math.inf:
        high = noisy_log_delta(epsilon - noiseless.most_loss - room)
        upper, provenance = _log_with_revealed(log_p * (1.0 + _SLACK), high.upper), high.provenance
    return Bounds(_widened(lower, -1.0), min(_widened(upper, 1.0), 0.0), provenance)


def epsilon_with(
    noiseless: Noiseless,
    log_delta: float,
    noisy_log_delta: Callable[[float], Bounds],
    noisy_epsilon: Callable[[float], Bounds] | None,
) -> Bounds:
    """Bounds on the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta (P-10).

    `noisy_epsilon` answers the same for the noisy rounds at any log delta; None where there are none.
    """
    if noiseless.reveals_all:
        return Bounds(math.inf, math.inf)
    at_zero = log_delta_with(noiseless, 0.0, noisy_log_delta)
    if at_zero.upper <= log_delta - _SLACK * abs(log_delta):
        return Bounds(0.0, 0.0)
    lower_target, upper_target = _targets(noiseless.log_p, log_delta)
    if lower_target is None:
        return Bounds(math.inf, math.inf)
    room = _SLACK * (abs(noiseless.log_p) + abs(noiseless.least_loss))
    lower, upper, provenance = 0.0, math.inf, Provenance()
    if lower_target < 0.0:
        low = _real_epsilon(noisy_epsilon, lower_target)
        lower = max(math.nextafter(low.lower + noiseless.least_loss - room, -math.inf), 0.0)
        provenance = low.provenance
    if upper_target is not None and noiseless.most_loss < math.inf:
        high = _real_epsilon(noisy_epsilon, min(upper_target, -1e-300))
        upper = max(math.nextafter(high.upper + noiseless.most_loss + room, math.inf), 0.0)
        provenance = high.provenance
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


def _real_epsilon(noisy_epsilon: Callable[[float], Bounds] | None, log_delta: float) -> Bounds:
    """The smallest real epsilon, not only >= 0: at or below 0, where no round is noisy, delta(eps) = 1 - e^eps."""
    if noisy_epsilon is None:
        # log(1 - delta), from the logarithm: next to 1, e^log_delta has lost 1 - delta.
        value = math.log(-math.expm1(log_delta))
        room = _SLACK * abs(value) + 1e-15
        return Bounds(value - room, value + room)
    bounds = noisy_epsilon(log_delta)
    return replace(bounds, lower=-math.inf) if bounds.lower == 0.0 else bounds


def _log_with_revealed(log_p: float, log_delta: float) -> float:
    """log of (1 - p) + p delta."""
    high, low = log_complement(log_p), log_p + log_delta
    if high < low:
        high, low = low, high
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def _widened(logarithm: float, sign: float) -> float:
    """Moved outward by more than the roundings of the closed form; an infinite one stays."""
    return logarithm + sign * _SLACK * (1.0 + abs(logarithm)) if math.isfinite(logarithm) else logarithm
