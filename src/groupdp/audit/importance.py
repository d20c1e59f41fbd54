"""delta far below 1 / trials, by importance sampling: a check of the accountant's arithmetic, not a black-box audit.

Draws the worst case's privacy loss L = sum_j L_j under the tilt e^(c min(L_j, a)) of every round j, with normaliser K:

    delta(epsilon) = kappa(c) e^(K - c epsilon) E_c[Y],   kappa(c) = c^c / (1 + c)^(1 + c),
    Y = e^(c epsilon - c sum_j min(L_j, a)) (1 - e^(epsilon - L))_+ / kappa(c),   0 <= Y <= 1   (docs/trust.md)
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
from groupdp.errors import InvalidArgument, InWords, LimitExceeded
from groupdp.floats import FloatArray
from groupdp.mechanisms.dpsgd import DPSGD, phases_of
from groupdp.neighbours import BACKWARD, FORWARD, Change, require_direction
from groupdp.printing import given
from groupdp.samplings.audited import IndependentSums

#: Terms (samples x rounds x components) that may be evaluated: hours, not days.
LARGEST_SAMPLING = 10**12
#: Components of the mixture (group size + 1, or batch size + 1).
MOST_COMPONENTS = 2000
_CHUNK = 1 << 15
#: The tilt is looked for in this range.
_TILTS = (1e-3, 1e3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportanceEstimate:
    """delta at `epsilon` for one direction, with an interval of the stated confidence. A check of the numerics."""

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
    """Estimate the worst case's delta at `epsilon`; the interval is the empirical Bernstein bound."""
    side = require_direction(direction)
    at = require_number("epsilon", epsilon, at_least=0.0)
    count = require_integer("samples", samples, at_least=2)
    sure = require_confidence(confidence)
    laws = _laws(run, require_integer("group_size", group_size, at_least=1))
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
    absent = sum(law.log_absence * repeats for law, repeats in laws)
    if not laws or (side == BACKWARD and at >= -absent):  # the loss cannot exceed epsilon
        nothing = {"log_delta": -math.inf, "log_lower": -math.inf, "log_upper": -math.inf}
        return ImportanceEstimate(direction=side, epsilon=at, confidence=sure, samples=0, tilt=1.0, **nothing)

    def tilt_at(rate: float) -> CappedTilt:
        cap = at - absent - _log_kappa(rate) / rate if side == FORWARD else math.inf
        return CappedTilt(direction=side, rate=rate, cap=cap)

    def log_scale(rate: float) -> float:
        try:
            cumulant = sum(repeats * log_normaliser(law, tilt_at(rate)) for law, repeats in laws)
        except LimitExceeded:
            return math.inf
        return cumulant - rate * at + _log_kappa(rate)

    rate = _best_tilt(log_scale)
    scale, tilt = log_scale(rate), tilt_at(rate)
    tilted = [(TiltedRound(law, tilt), repeats) for law, repeats in laws]
    root = np.random.SeedSequence([require_integer("seed", seed, at_least=0), 0x711])
    mean, spread, done = 0.0, 0.0, 0
    for index, start in enumerate(range(0, count, _CHUNK)):
        size = min(_CHUNK, count - start)
        generator = np.random.default_rng(np.random.SeedSequence(entropy=root.entropy, spawn_key=(index,)))
        loss, capped = np.zeros(size), np.zeros(size)
        for law, repeats in tilted:
            for _ in range(repeats):
                losses = law.draw(generator, size)
                loss += losses
                capped += np.minimum(losses, tilt.cap)
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
    rounding = 1e-10 + 1e-12 * sum(repeats for _, repeats in laws)  # of the normaliser, in log delta
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


def presence_of(phase: DPSGD, *, group_size: int) -> tuple[float, FloatArray]:
    """How far one member moves the sum, and log P(i members are in a batch): rounds of one mixture against a Gaussian.

    Where the other dataset's sum is itself random, or depends on other rounds, there is no such law.
    """
    phase.sampling.require_adjacency(FORWARD)
    change = Change(FORWARD, group_size, 0)
    first, second = (dataset.releases for dataset in phase.sampling.audited_datasets(change, ordinary_examples=1))
    if not (isinstance(first, IndependentSums) and isinstance(second, IndependentSums) and len(second.values) == 1):
        raise InvalidArgument(
            "run", InWords(phase.sampling.title), "be one mixture against one Gaussian in every round"
        )
    unit = float(first.values[1] - first.values[0]) if len(first.values) > 1 else 1.0
    places = np.rint((first.values - second.values[0]) / unit).astype(int)
    logs = np.full(int(places[-1]) + 1, -np.inf)
    logs[places] = first.log_weights
    return unit, logs


def _best_tilt(log_scale: Any) -> float:
    """About where a unimodal function of the tilt is smallest: any tilt is valid, a good one shortens the interval."""
    low, high = _TILTS
    while high > 1.01 * low:
        rates = np.geomspace(low, high, 9)
        best = int(np.argmin([log_scale(float(rate)) for rate in rates]))
        low, high = float(rates[max(best - 1, 0)]), float(rates[min(best + 1, 8)])
    return math.sqrt(low * high)


def _bernstein(variance: float, samples: int, alpha: float) -> float:
    """Maurer and Pontil 2009, theorem 4: a one-sided margin at level 1 - alpha for means of values in [0, 1]."""
    logarithm = math.log(2.0 / alpha)
    return math.sqrt(2.0 * variance * logarithm / samples) + 7.0 * logarithm / (3.0 * (samples - 1))


def _log_kappa(tilt: float) -> float:
    return tilt * math.log(tilt) - (1.0 + tilt) * math.log1p(tilt)


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf
