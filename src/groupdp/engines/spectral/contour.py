"""The sampled contour: one set of samples serves every epsilon near the one it was planned for.

    delta(eps) = 1 / (2 pi i) int e^{K(z) - eps z} k(z) dz  over Re z = c,       k(z) = 1 / (z (z + 1))

The trapezoid rule with step h = 2 pi / Y in s = Im z gives, exactly, sum_m e^{m c Y} delta(eps + m Y): the value
and its aliases, all non-negative. Section 2 of docs/numerics.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from groupdp.engines.interface import Direction
from groupdp.engines.spectral.decay import Decay, certify
from groupdp.engines.spectral.ratio import ELEMENTARY, PAIRWISE, U, short
from groupdp.engines.spectral.rounds import FloatArray, Round
from groupdp.engines.spectral.saddle import Saddle, Scan
from groupdp.engines.spectral.tilted import TiltedRound, tilt_round
from groupdp.errors import LimitExceeded

ComplexArray = npt.NDArray[np.complex128]

#: Most contour steps, and most (nodes x rows) of complex exponentials held at once.
LARGEST_CONTOUR = 50_000
LARGEST_EXPONENTIALS = 6_000_000

#: Where the truncation is looked for, in two passes, and the periods considered, in deviations of the loss.
_SHARES = (np.linspace(0.0, 1.0, 28), np.linspace(0.0, 1.0, 24))
_PERIODS = np.geomspace(4.0, 4e5, 160)

#: Relative error of the computed logarithm of 1 + d, and of its multiple.
LOGARITHM = 64.0 * U
#: A modulus below this is not resolved.
_UNRESOLVED = 1e-15

#: Beyond a period of so many deviations, tilts near the contour's own are scanned too.
_LONG_PERIOD = 15.0
_NEARBY_TILTS = np.array([0.8, 0.9, 0.95, 0.98, 1.01, 1.03, 1.06, 1.1, 1.15, 1.22, 1.3])

#: Aliases, truncation and quadrature are each planned to stay below this fraction of delta.
PLANNED_ERROR = 1e-14


@dataclass(frozen=True, slots=True)
class Contour:
    """Samples of the composed characteristic function along Re z = c, with every error bounded."""

    tilt: float
    log_scale: float  # K(c)
    log_scale_error: float
    period: float  # Y
    frequency: FloatArray  # s_j = j h, j = 0, ..., J
    sample: ComplexArray  # e^{K(c + i s) - K(c) - i s centre}
    sample_error: FloatArray  # bound on its error
    centre: float
    centre_size: float  # sum of |terms| of the centre, for its rounding
    log_truncation: float  # log of prod_j B_j(S)^{T_j}
    scan: Scan
    nodes: int

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) for log delta(epsilon) of the rounds as trimmed; lower may be -inf."""
        total, error = self._sum(epsilon, power=1)
        if not total + error > 0.0:  # a NaN, or an error bound that does not hold: never an answer
            return -math.inf, 0.0
        exponent = self.log_scale - self.tilt * epsilon
        slack = self.log_scale_error + 6.0 * U * (abs(self.log_scale) + abs(self.tilt * epsilon))
        alias = math.exp(min(self.log_alias(epsilon) - exponent + slack, 700.0))
        upper = math.log(total + error) + exponent + slack + 8.0 * U
        lower = _safe_log((total - error - alias) * (1.0 - 4.0 * U)) + exponent - slack - 8.0 * U
        upper += 4.0 * U * abs(upper)
        lower -= 4.0 * U * abs(lower) if math.isfinite(lower) else 0.0
        return lower, min(upper, 0.0)

    def log_delta_slope(self, epsilon: float) -> tuple[float, float]:
        """The uncorrected log delta and its derivative in epsilon, for Newton steps.

        d delta / d eps has the kernel -z k(z) = -1 / (1 + z).
        """
        total, _ = self._sum(epsilon, power=1)
        slope, _ = self._sum(epsilon, power=0)
        return _safe_log(total) + self.log_scale - self.tilt * epsilon, -slope / total

    def _sum(self, epsilon: float, *, power: int) -> tuple[float, float]:
        """(h / 2 pi) sum_j sample_j e^{-i s_j (eps - centre)} / (z^power (1 + z)), and a bound on its error."""
        s = self.frequency
        z = self.tilt + 1j * s
        kernel = 1.0 / (1.0 + z) if power == 0 else 1.0 / (z * (1.0 + z))
        angle = s * (epsilon - self.centre)
        terms = (self.sample * kernel * np.exp(-1j * angle)).real
        size = np.abs(kernel)
        angle_error = s * (4.0 * U * (abs(epsilon) + self.centre_size)) + 40.0 * U + ELEMENTARY
        error = size * (self.sample_error + np.abs(self.sample) * (angle_error + PAIRWISE))
        factor = np.full(len(s), 2.0)
        factor[0] = 1.0
        step = 1.0 / self.period  # h / 2 pi
        truncated = math.exp(self.log_truncation) / (math.pi * s[-1])
        return step * float((terms * factor).sum()), step * float(error @ factor) * 1.01 + truncated * 1.01

    def log_alias(self, epsilon: float) -> float:
        """log of a bound on sum_{m != 0} e^{m c Y} delta(eps + m Y).

        Chernoff with tilt c': delta(eps + m Y) <= kappa(c') e^{K(c') - c' (eps + m Y)}, for c' < c when m < 0 and for
        c' > c when m > 0, summed as a geometric series; c' = 0 is delta <= 1.
        """
        return float(_log_alias(self.scan, self.tilt, epsilon, np.array([self.period]))[0])


def _log_alias(scan: Scan, tilt: float, epsilon: float, period: FloatArray) -> FloatArray:
    level = scan.log_kappa() + scan.upper - scan.tilt * epsilon
    gap = np.abs(scan.tilt - tilt)
    shrink = np.multiply.outer(period, gap)
    with np.errstate(divide="ignore"):
        series = level - shrink - np.log(-np.expm1(-shrink))
    nothing = np.full(len(period), np.inf)
    below, above = scan.tilt < tilt, scan.tilt > tilt
    left = np.minimum(series[:, below].min(axis=1) if below.any() else nothing, _log_series(tilt * period))
    right = series[:, above].min(axis=1) if above.any() else nothing
    return np.asarray(np.logaddexp(left, right) + 1e-9)


def _log_series(x: FloatArray) -> FloatArray:
    """log of 1 / (e^x - 1)."""
    return np.asarray(-x - np.log(-np.expm1(-x)))


def build(rounds: tuple[Round, ...], direction: Direction, saddle: Saddle) -> Contour:
    """A contour through the saddle, planned for delta near what is expected there."""
    tilt, epsilon, log_delta, scan = saddle.tilt, saddle.epsilon, saddle.log_delta, saddle.scan
    total_rounds = math.fsum(one.count for one in rounds)
    deviation = math.sqrt(float(np.interp(tilt, scan.tilt, scan.variance)))
    log_goal = math.log(PLANNED_ERROR)
    # A Gaussian characteristic function would be negligible beyond this frequency; the certificate asks for more.
    reach = math.sqrt(-2.0 * log_goal) / deviation
    planned = 3.5 * reach
    for _ in range(4):
        tilted = tuple(
            tilt_round(
                one,
                direction=direction,
                tilt=tilt,
                frequency=planned,
                log_tolerance=log_goal - 3.0 - math.log(total_rounds),
            )
            for one in rounds
        )
        log_scale = math.fsum(one.rounds * one.log_moment for one in tilted)
        # The trapezoid sum is of this size, relative to e^{K(c) - c eps}.
        size = log_delta - (log_scale - tilt * epsilon)
        decays = tuple(certify(one) for one in tilted)
        reach = _truncation(decays, reach=reach, goal=size + log_goal)
        if reach <= planned:
            break
        planned = 1.1 * reach
    else:
        raise LimitExceeded("the length of the contour did not settle: too few rounds for the spectral engine.")
    period = _period(scan, tilt, epsilon, deviation, goal=log_delta + log_goal)
    if period > _LONG_PERIOD * deviation:
        # A heavy tail: aliases are then best bounded with tilts close to the contour's own.
        scan = saddle.scanner.extend(scan, tilt * _NEARBY_TILTS)
        period = _period(scan, tilt, epsilon, deviation, goal=log_delta + log_goal)
    step = short(2.0 * math.pi / period)
    # The quadratures are certified up to the planned frequency: the contour may end earlier than wanted, not later.
    steps = min(math.ceil(reach / step), math.floor(planned / step))
    if steps < 2:
        raise LimitExceeded("the contour would be shorter than two steps: too wide a tail for the spectral engine.")
    if steps > LARGEST_CONTOUR:
        raise LimitExceeded(
            f"the contour would need {steps} steps, more than the limit of {LARGEST_CONTOUR}: "
            "too few rounds or too heavy a tail for the spectral engine."
        )
    frequency = step * np.arange(steps + 1, dtype=np.float64)
    log_sample = np.zeros(steps + 1, dtype=np.complex128)
    log_error, log_largest = np.zeros(steps + 1), np.zeros(steps + 1)
    for one in tilted:
        values, error = _log_characteristic(one, frequency)
        log_sample += one.rounds * values
        # |log(1 + x)| <= -log(1 - |x|); where that is of no use, the modulus and its error bound what is sampled.
        relative = error * np.exp(-values.real)
        rounding = (LOGARITHM + len(rounds) * U) * np.abs(values)
        log_error += one.rounds * (rounding - np.log1p(-np.minimum(relative, 1.0 - 1e-12)))
        log_largest += one.rounds * (values.real + rounding + np.log1p(relative) * (1.0 + ELEMENTARY))
    sample = np.exp(log_sample)
    size_of_sample = np.abs(sample)
    crude = np.exp(np.minimum(log_largest, 0.0)) + size_of_sample
    fine = size_of_sample * np.expm1(np.minimum(log_error, 1.0))
    sample_error = np.where(log_error < 1.0, fine, crude) * 1.01 + 1e-300
    return Contour(
        tilt=tilt,
        log_scale=log_scale,
        log_scale_error=math.fsum(one.rounds * one.log_moment_error for one in tilted) * 1.01,
        period=2.0 * math.pi / step * (1.0 - 1e-15),
        frequency=frequency,
        sample=sample,
        sample_error=sample_error,
        centre=math.fsum(one.rounds * one.centre for one in tilted),
        centre_size=math.fsum(one.rounds * abs(one.centre) for one in tilted),
        log_truncation=float(sum(decay.log_bound(frequency[-1:])[0] for decay in decays)),
        scan=scan,
        nodes=sum(len(one.weight) for one in tilted),
    )


def _truncation(decays: tuple[Decay, ...], *, reach: float, goal: float) -> float:
    """The smallest frequency S (to 3 per cent) with prod B(S)^T / (pi S) below e^goal."""
    low, high = 0.25 * reach, 1e8 * reach
    for share in _SHARES:
        candidates = low * (high / low) ** share
        level = np.sum([decay.log_bound(candidates) for decay in decays], axis=0) - np.log(math.pi * candidates)
        good = np.flatnonzero(level <= goal)
        if len(good) == 0:
            raise LimitExceeded(
                "the decay of the characteristic function cannot be certified: too few rounds for the spectral engine."
            )
        low, high = float(candidates[max(good[0] - 1, 0)]), float(candidates[good[0]])
    return high


def _period(scan: Scan, tilt: float, epsilon: float, deviation: float, *, goal: float) -> float:
    """The shortest period Y (on a fine geometric grid) whose aliases stay below e^goal."""
    candidates = deviation * _PERIODS
    level = _log_alias(scan, tilt, epsilon, candidates)
    good = np.flatnonzero(level <= goal)
    if len(good) == 0:
        raise LimitExceeded("the aliases of the contour cannot be bounded: too heavy a tail for the spectral engine.")
    return float(candidates[good[0]])


def _log_characteristic(tilted: TiltedRound, frequency: FloatArray) -> tuple[ComplexArray, FloatArray]:
    """log of phi(s) e^{-i s centre} on a uniform grid of frequencies, and bounds on the error of phi itself.

    With D_j = e^{i j h l} - 1, l = L - centre:  D_{j + k} = D_j + D_k + D_j D_k. So about 2 sqrt(J) rows of
    exponentials and one matrix product give all J values, and since every D is known to a relative error the
    error of phi - 1 is proportional to s, not to 1 (section 6).
    """
    steps = len(frequency)
    rows = math.isqrt(steps - 1) + 1
    blocks = math.ceil(steps / rows)
    offset = tilted.loss - tilted.centre
    weight = tilted.weight
    nodes = len(offset)
    if nodes * (rows + blocks) > LARGEST_EXPONENTIALS:
        raise LimitExceeded(
            f"the contour would need {nodes * (rows + blocks)} exponentials at once, "
            f"more than the limit of {LARGEST_EXPONENTIALS}."
        )
    h = float(frequency[1])
    fine = _exponentials_minus_one(h * np.arange(rows, dtype=np.float64), offset)
    coarse = _exponentials_minus_one(h * rows * np.arange(blocks, dtype=np.float64), offset)
    weighted = coarse * weight
    sums = weighted.sum(axis=1)[:, None] + (fine * weight).sum(axis=1) + weighted @ fine.T
    d = sums.reshape(-1)[:steps]

    distance = float(weight @ np.abs(offset))
    error = frequency * (tilted.first_order_error + (60.0 * U + 2.0 * PAIRWISE) * distance)
    error += np.square(frequency) * (3.0 * (nodes + 60.0) * U * 0.25 * tilted.variance)
    error += math.exp(tilted.log_quadrature_error)
    squared = 2.0 * d.real + (d.real * d.real + d.imag * d.imag)
    # Near 1 the modulus comes from |1 + d|^2 - 1; away from 1, where that would cancel, from 1 + d itself, rounded to
    # U: a small part of the error above, which is at least 188 U |d|. Below 1e-15, 1e-15 stands in, with its error.
    modulus = np.hypot(1.0 + d.real, d.imag)
    near = squared > -0.75
    unresolved = modulus < _UNRESOLVED
    far = np.log(np.where(near, 1.0, np.maximum(modulus, _UNRESOLVED)))
    log_modulus = np.where(near, 0.5 * np.log1p(np.where(near, squared, 0.0)), far)
    return log_modulus + 1j * np.arctan2(d.imag, 1.0 + d.real), np.where(unresolved, error + 2.0 * _UNRESOLVED, error)


def _exponentials_minus_one(frequency: FloatArray, offset: FloatArray) -> ComplexArray:
    """e^{i s l} - 1 = 2 sin(s l / 2) (i cos(s l / 2) - sin(s l / 2)), one row per frequency."""
    half = np.multiply.outer(0.5 * frequency, offset)
    sine, cosine = np.sin(half), np.cos(half)
    sine_twice = 2.0 * sine
    result = np.empty(half.shape, dtype=np.complex128)
    np.multiply(sine_twice, cosine, out=result.imag)
    np.multiply(sine_twice, -sine, out=result.real)
    return result


def _safe_log(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf
