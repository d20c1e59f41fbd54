"""The law of W = sum_t c_t (c_t - 1)/2, the pairs of a large group that share a batch, by Fourier transforms (P-21).

For x, y > 0 let a_c be proportional to g_c x^c y^{c (c - 1)/2}, c <= L (g_c = C(B, c), or 1/c! for members who are
thrown), a smaller last batch likewise, and Z the product of their sums over all batches. Independent counts c_t have

    q(w) = P(sum_t c_t = k, W = w) = P(W = w, no c_t > L) A x^k y^w / Z,

A = C(n, k), or N^k / k!. With G(u, v) = sum_c a_c e^{2 pi i (c u / J + c (c - 1)/2 v / M)},

    sum over i, j of q_{k + i J}(w + j M) = 1/(J M) sum_{u < J, v < M} G^N e^{-2 pi i (k u / J + w v / M)},

of which all terms but the wanted one are below a Chernoff bound. A tilt y moves the mean of W; rounding is small beside
the largest q, so that each y >= 1 serves the w near its mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from groupdp.floats import FloatArray
from groupdp.laws import CONTEXT, recurrence, total
from groupdp.laws.allocation_tails import Dealing, log_crowded, log_ways

#: Most values of G: some seconds.
_MOST_VALUES = 40_000_000
#: Members of a batch beyond which it is crowded: with a probability below e to this power.
_LOG_CROWDED = -70.0
#: Aliases are below e to this power, relative to the largest q, about.
_LOG_ALIAS = -34.5
#: Tilts are as many deviations of W apart, and end where W is as rare as this. Few pairs matter only by what they lack.
_APART, _RARE = 3.0, 1e-32
#: Probabilities of counts that are left out, and room for underflow.
_LEFT_OUT, _TINY = 1e-100, 1e-290
#: Values of G at a time: they stay in the processor's cache.
_CHUNK = 1 << 15
_U = 2.0**-53


@dataclass(frozen=True, slots=True)
class Enclosed:
    """first, first + 1, ... pairs: `least` <= P(W = w, no crowded batch) <= `most`; P(a crowded batch)."""

    first: int
    least: FloatArray
    most: FloatArray
    crowded: float


@dataclass(frozen=True, slots=True)
class _Tilted:
    """The counts of a batch and of a smaller last one under x and y, and the grid of the transforms."""

    x: float
    y: float
    kinds: list[tuple[int, FloatArray]]
    mean: float
    deviation: float
    first: int
    pairs: int  # M
    members: int  # J
    alias: float


def transformed(allocation: Dealing) -> Enclosed | None:
    """The law of W around its mean, or None where that takes too long."""
    limit, crowded = _limit(allocation)
    done, parts = 0, list[tuple[int, FloatArray, FloatArray]]()
    tilt, step, before = 0.0, 0.0, -math.inf
    while (tilted := _tilted(allocation, limit, tilt)) is not None:
        if (
            parts and tilted.mean > before + 2.0 * _APART * tilted.deviation
        ):  # one batch takes a large part of the group
            if step * tilted.deviation < 0.1:
                break
            step *= 0.5
            tilt -= step
            continue
        done += tilted.pairs * tilted.members // 2
        if done > _MOST_VALUES:
            break
        parts.append((tilted.first, *_around(allocation, limit, tilted)))
        here = min(max(round(tilted.mean) - tilted.first, 0), tilted.pairs - 1)
        if parts[-1][2][here] < _RARE or tilted.deviation < 1.0:
            break
        before, step = tilted.mean, _APART / tilted.deviation
        tilt += step
    return _joined(parts, crowded) if parts else None


def _joined(parts: list[tuple[int, FloatArray, FloatArray]], crowded: float) -> Enclosed | None:
    """The best of several enclosures of neighbouring probabilities, as far as one of them says something."""
    start, end = min(first for first, _, _ in parts), max(first + len(least) for first, least, _ in parts)
    least, most = np.zeros(end - start), np.full(end - start, np.inf)
    for first, low, high in parts:
        here = slice(first - start, first - start + len(low))
        least[here] = np.maximum(least[here], low)
        most[here] = np.minimum(most[here], high)
    known = np.flatnonzero(least > 0.5 * most)
    if len(known) == 0 or not np.all(np.isfinite(most[known[0] : known[-1]])):
        return None
    here = slice(int(known[0]), int(known[-1]) + 1)
    return Enclosed(start + int(known[0]), least[here], most[here], crowded)


def _limit(a: Dealing) -> tuple[int, float]:
    """L, and a bound on P(some c_t > L)."""
    share = a.places / (a.batches * a.places + a.rest) if a.places else 1.0 / a.batches
    batches, most = a.batches + (a.rest > 0), min(a.members, a.places or a.members)
    for limit in range(max(1, a.members // batches), most):
        if (bound := log_crowded(a.members, share, batches, limit)) <= _LOG_CROWDED:
            return limit, math.exp(bound)
    return most, 0.0


def _tilted(a: Dealing, limit: int, tilt: float) -> _Tilted | None:
    """The law of counts with y = e^tilt and sum_t c_t near k in the mean; None if its deviations are not finite."""
    c = np.arange(limit + 1.0)
    pairs = c * (c - 1.0) / 2.0
    kinds = [(a.batches, log_ways(a.places, limit))]
    if a.rest:
        kinds.append((1, log_ways(a.rest, limit)))
    low, high = -80.0 - abs(tilt) * limit, 80.0 + abs(tilt) * limit
    for _ in range(60):
        middle = 0.5 * (low + high)
        mean = math.fsum(times * math.fsum(_law(ways + middle * c + tilt * pairs) * c) for times, ways in kinds)
        low, high = (middle, high) if mean < a.members else (low, middle)
    x, y = math.exp(low), math.exp(tilt)
    laws = [(times, _law(ways + low * c + tilt * pairs)) for times, ways in kinds]
    law = laws[0][1]
    centre = math.fsum(law * c)
    variance = math.fsum(law * (c - centre) ** 2)
    if not variance > 1e-12:
        return None
    slope = math.fsum(law * (c - centre) * pairs) / variance
    rest = pairs - slope * c  # W = sum_t rest + slope k
    spread = math.fsum(law * (rest - math.fsum(law * rest)) ** 2)
    scales = math.sqrt(a.batches * variance), max(math.sqrt(a.batches * spread), 0.3)
    log_alias = _LOG_ALIAS - math.log(6.3 * max(scales[0], 0.3) * scales[1])
    fewest, most = (_farthest(laws, rest, sign, scales[1], log_alias) + slope * a.members for sign in (-1.0, 1.0))
    below, above = (_farthest(laws, c, sign, scales[0], log_alias) for sign in (-1.0, 1.0))
    first = math.floor(fewest - 1e-6 * abs(fewest))
    length = _length(math.ceil(most + 1e-6 * abs(most)) - first + 2)
    around = max(above - a.members, a.members - below)
    members = _length(max(math.ceil(around + 1e-6 * a.members) + 2, limit + 1))
    mean = math.fsum(times * math.fsum(one * pairs) for times, one in laws)
    return _Tilted(x, y, laws, mean, scales[1], first, length, members, 4.4 * math.exp(log_alias))


def _law(logarithms: FloatArray) -> FloatArray:
    with np.errstate(under="ignore"):
        weights = np.exp(logarithms - logarithms.max())
    result: FloatArray = weights / weights.sum()
    return result


def _farthest(
    laws: list[tuple[int, FloatArray]], values: FloatArray, sign: float, scale: float, log_probability: float
) -> float:
    """A number that the sum of `values` over all batches is beyond (sign 1: above) with that probability at most."""
    bounds = list[float]()
    for s in np.geomspace(0.5, 40.0, 40).tolist():
        exponents = sign * s / scale * values
        top = float(exponents.max())
        with np.errstate(under="ignore"):
            log_moment = math.fsum(
                times * (top + math.log(math.fsum(law * np.exp(exponents - top)) + 1e-300)) for times, law in laws
            )
        bounds.append((log_moment - log_probability) * scale / s)
    return sign * min(bounds)


def _length(least: int) -> int:
    """The next 2^a, 3 x 2^a or 5 x 2^a: L-21 holds for transforms of such lengths."""
    return min(odd << max((-(-least // odd) - 1).bit_length(), 1) for odd in (1, 3, 5))


def _transform_error(length: int) -> float:
    """Of every output of a Fourier transform, relative to the sum of its inputs' moduli (L-21)."""
    return 8.0 * math.log2(length) * _U


def _around(a: Dealing, limit: int, tilted: _Tilted) -> tuple[FloatArray, FloatArray]:
    """Least and largest P(W = w, no c_t > L) for w = first, first + 1, ... (P-21)."""
    x, y = Decimal(tilted.x), Decimal(tilted.y)
    scale, laws = Decimal(1), list[FloatArray]()
    for times, places in ((a.batches, a.places), (1, a.rest))[: 1 + (a.rest > 0)]:
        ways = _weights(places, limit, x, y)
        whole = total(ways)
        scale = CONTEXT.multiply(scale, CONTEXT.power(whole, times))
        law = np.array([float(CONTEXT.divide(way, whole)) for way in ways])
        laws.append(np.where(law < _LEFT_OUT, 0.0, law))
    q, error = _transform(a, laws, tilted)
    allocations = _allocations(a)
    scale = CONTEXT.divide(scale, CONTEXT.multiply(allocations, CONTEXT.power(x, a.members)))
    start = CONTEXT.multiply(scale, CONTEXT.power(y, -tilted.first))
    inverse = CONTEXT.divide(Decimal(1), y)
    factors = np.array([float(one) for one in recurrence(start, lambda _: inverse, tilted.pairs - 1)])
    rounded = 1.01 * (a.batches + 8.0) * _U
    inside = tilted.first + np.arange(tilted.pairs) >= 0
    with np.errstate(under="ignore"):
        least = np.maximum((q - error - tilted.alias) * factors * (1.0 - rounded) - _TINY, 0.0)
        most = np.maximum(q + error, 0.0) * factors * (1.0 + rounded) + _TINY
    return np.where(inside, least, 0.0), np.where(inside, most, 0.0)


@lru_cache(maxsize=4)
def _allocations(a: Dealing) -> Decimal:
    """C(n, k), or N^k / k! for members who are thrown, in 40 digits."""
    whole = a.batches * a.places + a.rest if a.places else a.batches
    taken = 1 if a.places else 0

    def ratio(i: int) -> Decimal:
        return CONTEXT.divide(Decimal(whole - taken * i), Decimal(i + 1))

    return recurrence(Decimal(1), ratio, a.members)[-1]


def _weights(places: int, limit: int, x: Decimal, y: Decimal) -> list[Decimal]:
    """g_c x^c y^{c (c - 1)/2} for c = 0, ..., L, in 40 digits."""
    powers = recurrence(x, lambda _: y, limit)  # x y^c

    def ratio(c: int) -> Decimal:
        if not places:
            return CONTEXT.divide(powers[c], Decimal(c + 1))
        return CONTEXT.divide(CONTEXT.multiply(Decimal(max(places - c, 0)), powers[c]), Decimal(c + 1))

    return recurrence(Decimal(1), ratio, limit)


def _transform(a: Dealing, laws: list[FloatArray], tilted: _Tilted) -> tuple[FloatArray, float]:
    """q(w) with its aliases for w = first, first + 1, ..., and a bound on all rounding (P-21)."""
    n, m, j = a.batches, tilted.pairs, tilted.members
    roots = _roots(m)
    phases = _roots(j)[np.arange(j) * a.members % j]  # the transform below has the other sign
    counts = [np.flatnonzero(law) for law in laws]
    coefficients, size = np.zeros(m // 2 + 1, dtype=np.complex128), 0.0
    for rows in _chunks(m // 2 + 1, max(_CHUNK // j, 1)):
        powers = None
        for law, c in zip(laws, counts, strict=True):
            padded = np.zeros((len(rows), j), dtype=np.complex128)
            padded[:, c] = law[c] * roots[rows[:, None] * (c * (c - 1) // 2 % m) % m]
            one = np.fft.fft(padded, axis=1)
            if powers is None:
                powers = _power(one, n)
                sizes = np.abs(powers).sum(axis=1)
                size += 2.0 * float(sizes.sum())
            else:
                powers *= one
        if powers is None:
            raise AssertionError("there is a batch")
        powers *= phases
        coefficients[rows] = np.add.reduce(powers, axis=1) / j
    q = np.roll(np.fft.irfft(coefficients.conj(), n=m), -(tilted.first % m))
    mean = size / (j * float(m)) * (1.0 + 1e-6)
    node = _transform_error(j) + 48.0 * _U
    relative = 2.01 * (n + 1.0) * node + (2.6 * n + 1.5 * j + 100.0) * _U + _transform_error(m)
    left_out = (n + 1.0) * len(laws[0]) * _LEFT_OUT
    return q, mean * relative + 1.01 * (n + 1.0) * node * 2.0 ** (1.0 - n) + left_out + _TINY


def _roots(length: int) -> npt.NDArray[np.complex128]:
    """e^{2 pi i m / length}, right to 40 U."""
    angles = 2.0 * math.pi * np.arange(length) / length
    return np.cos(angles) + 1j * np.sin(angles)


def _power(values: npt.NDArray[np.complex128], exponent: int) -> npt.NDArray[np.complex128]:
    """By repeated squaring, in place: the relative error is below 2.5 U times the exponent."""
    result = values.copy() if exponent % 2 else np.ones_like(values)
    with np.errstate(under="ignore"):
        while exponent := exponent // 2:
            np.multiply(values, values, out=values)
            if exponent % 2:
                np.multiply(result, values, out=result)
    return result


def _chunks(count: int, size: int) -> Iterator[npt.NDArray[np.int64]]:
    for start in range(0, count, size):
        yield np.arange(start, min(start + size, count))
