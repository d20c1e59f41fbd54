"""delta far below 1 / trials, by importance sampling: a check of the accountant's arithmetic, not a black-box audit.

It draws from the exponentially tilted law of the worst case's privacy loss; no training loop is observed.

    delta(epsilon) = E_P[(1 - e^(epsilon - L))_+] = M E_c[Y],   L = sum_j L_j over the rounds j,
    Y = e^(c epsilon - c sum_j min(L_j, a)) (1 - e^(epsilon - L))_+ / kappa(c),
    M = kappa(c) e^(K(c) - c epsilon),   kappa(c) = c^c / (1 + c)^(1 + c)

with E_c the law tilted by e^(c min(L_j, a)) in every round j and K(c) its log-normaliser. The cap a = epsilon + b -
sum_j inf L_j, with e^(-c b) = kappa(c), matters only where one round alone brings L above epsilon: rare batches, few
rounds. Y lies in [0, 1]: without a capped round kappa(c) is the largest value of e^(-c v)(1 - e^-v), with one the sum
is at least epsilon + b. The error bar is the empirical Bernstein bound (Maurer and Pontil 2009, theorem 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from groupdp._validation import require_integer, require_number
from groupdp.audit.lower_bounds import require_confidence
from groupdp.audit.simulation import Progress
from groupdp.audit.tilted import CappedTilt, RoundLaw, TiltedRound, log_normaliser
from groupdp.audit.worst_cases import presence_of
from groupdp.errors import InvalidArgument, InWords, LimitExceeded
from groupdp.mechanisms.dpsgd import phases_of
from groupdp.neighbours import FORWARD, require_direction
from groupdp.printing import given

#: Terms (samples x rounds x components) that may be evaluated: hours, not days.
LARGEST_SAMPLING = 10**12
#: Components of the mixture (group size + 1, or batch size + 1).
MOST_COMPONENTS = 2000
_CHUNK = 1 << 15
#: The tilt is looked for in this range.
_TILTS = (1e-3, 1e3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportanceEstimate:
    """delta at `epsilon` for one direction, with an interval of the stated confidence. A check of the
    numerics."""

    direction: str
    epsilon: float
    log_delta: float
    """Logarithm of the estimate; -inf if no draw exceeded epsilon."""
    log_lower: float
    log_upper: float
    confidence: float
    samples: int
    tilt: float

    @property
    def delta(self) -> float:
        """The estimate; 0 where it is below the smallest double."""
        return math.exp(self.log_delta)

    @property
    def lower(self) -> float:
        """Lower end of the interval."""
        return math.exp(self.log_lower)

    @property
    def upper(self) -> float:
        """Upper end of the interval."""
        return math.exp(self.log_upper)


def importance_delta(
    run: Any,
    *,
    group_size: int,
    epsilon: float,
    direction: str,
    samples: int = 1_000_000,
    confidence: float = 0.999,
    seed: int = 0,
    progress: Progress | None = None,
) -> ImportanceEstimate:
    """Estimate the worst case's delta at `epsilon` under the tilted law; see the module's first lines."""
    side = require_direction(direction)
    at = require_number("epsilon", epsilon, at_least=0.0)
    count = require_integer("samples", samples, at_least=2)
    sure = require_confidence(confidence)
    laws = _laws(run, require_integer("group_size", group_size, at_least=1))
    rounds = sum(repeats for _, repeats in laws)
    components = max((len(law.log_weights) for law, _ in laws), default=1)
    if components > MOST_COMPONENTS:
        raise LimitExceeded(
            f"Importance sampling handles at most {MOST_COMPONENTS} components, this mixture has {components}."
        )
    terms = count * sum(repeats * len(law.log_weights) for law, repeats in laws)
    if terms > LARGEST_SAMPLING:
        raise LimitExceeded(
            f"Importance sampling may evaluate at most {LARGEST_SAMPLING:.0e} terms (samples x steps x components), "
            f"this one would evaluate {terms:.1e}."
        )
    ceiling = math.inf if side == FORWARD else -sum(law.log_absence * repeats for law, repeats in laws)
    if at >= ceiling or not laws:  # the loss cannot exceed epsilon
        nothing = {"log_delta": -math.inf, "log_lower": -math.inf, "log_upper": -math.inf}
        return ImportanceEstimate(direction=side, epsilon=at, confidence=sure, samples=0, tilt=1.0, **nothing)
    lowest = sum(law.log_absence * repeats for law, repeats in laws) if side == FORWARD else -math.inf

    def tilt_at(rate: float) -> CappedTilt:
        return CappedTilt(direction=side, rate=rate, cap=at - lowest - _log_kappa(rate) / rate)

    def log_scale(rate: float) -> float:
        cumulant = sum(repeats * log_normaliser(law, tilt_at(rate)) for law, repeats in laws)
        return cumulant - rate * at + _log_kappa(rate)

    rate = _smallest(log_scale)
    scale, cap = log_scale(rate), tilt_at(rate).cap
    tilted = [(TiltedRound(law, tilt_at(rate)), repeats) for law, repeats in laws]
    root = np.random.SeedSequence([require_integer("seed", seed, at_least=0), 0x711])
    mean, spread, done = 0.0, 0.0, 0
    chunk = min(_CHUNK, count)
    for index, start in enumerate(range(0, count, chunk)):
        size = min(chunk, count - start)
        stream = np.random.SeedSequence(entropy=root.entropy, spawn_key=(index,))
        generator = np.random.default_rng(stream)
        loss, capped = np.zeros(size), np.zeros(size)
        for law, repeats in tilted:
            for _ in range(repeats):
                losses = law.draw(generator, size)
                loss += losses
                capped += np.minimum(losses, cap)
        gain = -np.expm1(-np.maximum(loss - at, 0.0))
        y = np.where(gain > 0.0, np.exp(np.where(gain > 0.0, rate * (at - capped) - _log_kappa(rate), 0.0)), 0.0) * gain
        if y.max() > 1.0 + 1e-9:
            raise AssertionError("importance weights must lie in [0, 1]")
        # Pooled mean and sum of squared deviations (Chan, Golub and LeVeque).
        part, step = float(y.mean()), size / (done + size)
        spread += float(np.sum((y - part) ** 2)) + (part - mean) ** 2 * done * step
        mean += (part - mean) * step
        done += size
        if progress is not None:
            progress(done / count)
    rounding = 1e-10 + 1e-12 * rounds  # of the normaliser, in log delta
    margin = _bernstein(spread / (count - 1), count, (1.0 - sure) / 2.0)
    return ImportanceEstimate(
        direction=side,
        epsilon=at,
        log_delta=scale + _log(mean),
        log_lower=scale + _log(mean - margin) - rounding,
        log_upper=min(0.0, scale + _log(mean + margin) + rounding),
        confidence=sure,
        samples=count,
        tilt=rate,
    )


def _laws(run: Any, group_size: int) -> list[tuple[RoundLaw, int]]:
    laws = []
    for phase in phases_of(run):
        if phase.microbatch_size != 1 or phase.noise_multiplier == 0.0:
            raise InvalidArgument(
                "run",
                InWords(
                    f"noise_multiplier {given(phase.noise_multiplier)} and microbatch_size {phase.microbatch_size}"
                ),
                "have noise and microbatch_size 1 to be sampled",
            )
        unit, weights = presence_of(phase, group_size=group_size)
        if phase.steps > 0:
            laws.append((RoundLaw(unit / phase.noise_multiplier, weights), phase.steps))
    return laws


def _smallest(function: Any) -> float:
    """Where a unimodal function of the tilt is about smallest: golden section in log tilt.

    Any tilt is valid; a good one only makes the error bar short. Tilts whose tables would be too large count
    as infinitely bad.
    """

    def guarded(x: float) -> float:
        try:
            return float(function(math.exp(x)))
        except LimitExceeded:
            return math.inf

    golden = (math.sqrt(5.0) - 1.0) / 2.0
    low, high = math.log(_TILTS[0]), math.log(_TILTS[1])
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = guarded(left), guarded(right)
    while high - low > 0.01:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = guarded(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = guarded(right)
    return math.exp((low + high) / 2.0)


def _bernstein(variance: float, samples: int, alpha: float) -> float:
    """Maurer and Pontil 2009, theorem 4: a one-sided margin at level 1 - alpha for means of values in [0,
    1]."""
    logarithm = math.log(2.0 / alpha)
    return math.sqrt(2.0 * variance * logarithm / samples) + 7.0 * logarithm / (3.0 * (samples - 1))


def _log_kappa(tilt: float) -> float:
    return tilt * math.log(tilt) - (1.0 + tilt) * math.log1p(tilt)


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf
