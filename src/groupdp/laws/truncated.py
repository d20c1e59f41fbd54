"""Poisson batches cut to a largest size B: how many of the group are kept, and how many others they displace.

s ~ Binom(n, q) of the common part and h ~ Binom(k, q) of the group are sampled; of s + h examples, min(B, s + h) are
kept at random, m of them of the group. Anchor: the first min(s, B) of a random order of the common sample. The group
displaces d = max(0, m - max(0, B - s)) anchored examples, so the sensitivity is m + d (docs: P-6). The
class of s is revealed:

    s <= B - k          nothing can be cut: m = h ~ Binom(k, q), d = 0
    s = B - r, 0 < r < k    room for r: m = h if h <= r; else m of h are among B of s + h, and d = m - r
    s >= B              m of h are among B of s + h, d = m; averaged over s, since the anchor is a uniform B-subset for
    all s

Only the last class may be pooled: hockey sticks are convex in the law, so that averaging over the others would
understate. Every probability is right to the last bits of a double.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np

from groupdp.errors import LimitExceeded
from groupdp.floats import FloatArray
from groupdp.laws import CONTEXT, Number, as_law, binomial_decimals, total, vector_divide, vector_multiply, vector_total
from groupdp.pairs import Law

#: Batch sizes less likely than this, relative to the likeliest, are not distinguished (one class, largest sensitivity).
_RAREST = Decimal("1e-320")
#: Most batch sizes that are distinguished.
_MOST_BATCH_SIZES = 1_000_000
#: Largest group: the classes of s < B take k^3 / 6 probabilities.
LARGEST_GROUP_TRUNCATED = 128
#: Batch sizes x pairs (h, m) of the pooled class, at most: about two seconds.
_MOST_TERMS = 60_000_000
#: The share that the pooled sum may leave out: beyond the last bit of a double.
_LEFT_OUT = 2.0**-70


@dataclass(frozen=True, slots=True)
class RevealedClass:
    """One class of s: its log-probability, the law of m + d, and that of d."""

    log_weight: float
    sensitivities: FloatArray
    law: Law
    displaced: FloatArray
    displaced_law: Law
    is_catch_all: bool = False
    """Whether it stands for sizes s of another class, all less likely than `_RAREST`: larger than their laws."""


@lru_cache(maxsize=16)
def truncated_classes(rate: float, largest_batch: int, others: int, group_size: int) -> tuple[RevealedClass, ...]:
    """The revealed classes of s for `others` = n common examples; their probabilities sum to 1."""
    n, k, b = others, group_size, largest_batch
    if k > LARGEST_GROUP_TRUNCATED:
        raise LimitExceeded(
            f"truncated Poisson batches are accounted for groups of up to {LARGEST_GROUP_TRUNCATED}, got {k}."
        )
    in_batch = binomial_decimals(k, rate)
    if n + k <= b:  # no batch is ever cut
        return (RevealedClass(0.0, *_side(dict(enumerate(in_batch))), *_side({0: Decimal(1)})),)
    if rate == 1.0:
        sizes, weights, below, above = [n], [Decimal(1)], Decimal(0), Decimal(0)
    else:
        sizes, weights, below, above = _batch_sizes(rate, n)
    classes: list[tuple[Decimal, dict[int, Decimal], dict[int, Decimal]]] = []
    low = [w for s, w in zip(sizes, weights, strict=True) if s <= b - k]
    if low:
        below = _left_of(below, total(low))
        classes.append((total(low), dict(enumerate(in_batch)), {0: Decimal(1)}))
    for s, weight in zip(sizes, weights, strict=True):
        if b - k < s < b:
            classes.append((weight, *_with_room(s, b, in_batch)))
    pooled = [(s, w) for s, w in zip(sizes, weights, strict=True) if s >= b]
    if pooled:
        above = _left_of(above, total([w for _, w in pooled]))
        kept = _pooled(pooled, (b, n) if above == 0 else (b, sizes[-1]), rate, n, in_batch)
        by_sensitivity = {2 * m: p for m, p in enumerate(kept)}
        classes.append((total([w for _, w in pooled]), by_sensitivity, dict(enumerate(kept))))
    rest = CONTEXT.add(below, above)
    if rest > 0:  # never more than (m, d) = (k, k)
        classes.append((rest, {2 * k: Decimal(1)}, {k: Decimal(1)}))
    whole = total([weight for weight, _, _ in classes])
    shares = [CONTEXT.divide(weight, whole) for weight, _, _ in classes]
    log_weights = as_law(shares)[1]
    return tuple(
        RevealedClass(float(log_weight), *_side(kept), *_side(displaced), rest > 0 and index == len(classes) - 1)
        for index, (log_weight, (_, kept, displaced)) in enumerate(zip(log_weights, classes, strict=True))
    )


def _left_of(rest: Decimal, same_class: Decimal) -> Decimal:
    """0 if sizes of this probability may be left out of their own class without a change of its last bits."""
    return Decimal(0) if rest <= CONTEXT.multiply(same_class, Decimal(_LEFT_OUT)) else rest


def _side(probabilities: dict[int, Decimal]) -> tuple[FloatArray, Law]:
    present = sorted(value for value, p in probabilities.items() if p > 0)
    return np.array(present, dtype=np.float64), as_law([probabilities[value] for value in present])


def _batch_sizes(rate: float, n: int) -> tuple[list[int], list[Decimal], Decimal, Decimal]:
    """(s, weight of s) of Binom(n, q) where it is not below `_RAREST` of the likeliest, and bounds on what is left out
    below and above.

    Weights are relative to the likeliest. Ratios of neighbours fall (rise) beyond it, so what is left out on a side is
    at most the last weight times x / (1 - x), x the ratio there.
    """
    deviation = math.sqrt(n * rate * (1.0 - rate))
    if 80.0 * deviation > _MOST_BATCH_SIZES:
        raise LimitExceeded(
            f"the batch size has a standard deviation of {deviation:.3g}, and truncated Poisson batches are accounted "
            f"for up to {_MOST_BATCH_SIZES // 80}: a smaller dataset_size or rate is needed."
        )
    q = Decimal(rate)
    odds = CONTEXT.divide(q, CONTEXT.subtract(Decimal(1), q))
    mode = min(int((n + 1) * rate), n)
    rests: list[Decimal] = []
    sides: list[list[Decimal]] = []
    for up in (False, True):
        values, s, weight, rest = [], mode, Decimal(1), Decimal(0)
        while s < n if up else s > 0:
            if up:
                ratio = CONTEXT.divide(CONTEXT.multiply(Decimal(n - s), odds), Decimal(s + 1))
            else:
                ratio = CONTEXT.divide(Decimal(s), CONTEXT.multiply(Decimal(n - s + 1), odds))
            after = CONTEXT.multiply(weight, ratio)
            if after < _RAREST and ratio < 1:
                left = CONTEXT.divide(after, CONTEXT.subtract(Decimal(1), ratio))
                rest = CONTEXT.multiply(left, Decimal("1.000001"))
                break
            s, weight = s + (1 if up else -1), after
            values.append(weight)
        sides.append(values)
        rests.append(rest)
    below, above = sides
    sizes = list(range(mode - len(below), mode + len(above) + 1))
    return sizes, [*reversed(below), Decimal(1), *above], rests[0], rests[1]


def _with_room(s: int, b: int, in_batch: list[Decimal]) -> tuple[dict[int, Decimal], dict[int, Decimal]]:
    """Laws of m + d and of d for s = B - r, 0 < r < k.

    For h > r:  P(m = r) = prod_{j < h - r} (h - j) / (s + h - j),   P(m + 1) / P(m) = (h - m)(B - m) / ((m + 1)(m + 1
    - r)).
    """
    room = b - s
    sensitivity: dict[int, Decimal] = {}
    displaced: dict[int, Decimal] = {}

    def put(m: int, d: int, p: Decimal) -> None:
        sensitivity[m + d] = CONTEXT.add(sensitivity.get(m + d, Decimal(0)), p)
        displaced[d] = CONTEXT.add(displaced.get(d, Decimal(0)), p)

    for h, p_h in enumerate(in_batch):
        if h <= room:
            put(h, 0, p_h)
            continue
        p = p_h
        for j in range(h - room):
            p = CONTEXT.multiply(p, CONTEXT.divide(Decimal(h - j), Decimal(s + h - j)))
        for m in range(room, min(h, b) + 1):
            put(m, m - room, p)
            ratio = CONTEXT.divide(Decimal((h - m) * (b - m)), Decimal((m + 1) * (m + 1 - room)))
            p = CONTEXT.multiply(p, ratio)
    return sensitivity, displaced


def _pooled(
    pooled: list[tuple[int, Decimal]], ends: tuple[int, int], rate: float, n: int, in_batch: list[Decimal]
) -> list[Decimal]:
    """The law of m given B = ends[0] <= s <= ends[1]:

    sum_h p_h C(h, m) E[ prod_{i < m} (B - i) / (s + i + 1) prod_{m < j <= h} (s - B + j) / (s + j) ].
    """
    k = len(in_batch) - 1
    largest = max(weight for _, weight in pooled)
    for smallest in (Decimal("1e-26"), Decimal("1e-60"), Decimal("1e-150"), Decimal("1e-300")):
        chosen = [(s, CONTEXT.divide(w, largest)) for s, w in pooled if w >= CONTEXT.multiply(largest, smallest)]
        if len(chosen) * (k + 1) * (k + 2) / 2 > _MOST_TERMS:
            raise LimitExceeded(
                f"truncated batches would take {len(chosen)} batch sizes for a group of {k}, more than "
                f"{_MOST_TERMS} terms: a smaller group_size or dataset_size is needed."
            )
        law = _pooled_over(chosen, (max(ends[0], pooled[0][0]), ends[1]), rate, n, ends[0], in_batch)
        if law is not None:
            return law
    raise LimitExceeded("the law of truncated batches could not be summed to the last bit within the stated range.")


def _pooled_over(
    chosen: list[tuple[int, Decimal]], ends: tuple[int, int], rate: float, n: int, b: int, in_batch: list[Decimal]
) -> list[Decimal] | None:
    """The same, over a range of s that must be long enough; None if it is not.

    Beyond either end of the range the terms fall at least geometrically: upward their ratio is at most
    (n - s) q / ((s + 1)(1 - q)) (1 + k / (s - B + 1)), downward at most (s + k)(1 - q) / ((n - s + 1) q), and both
    fall.
    """
    k = len(in_batch) - 1
    s = np.array([float(size) for size, _ in chosen])
    high = np.array([float(weight) for _, weight in chosen])
    low = np.array([float(CONTEXT.subtract(w, Decimal(h))) for (_, w), h in zip(chosen, high.tolist(), strict=True)])
    first, last = chosen[0][0], chosen[-1][0]
    up = (n - last) * rate / ((last + 1) * (1.0 - rate)) * (1.0 + k / (last - b + 1)) if last < ends[1] else 0.0
    down = (first + k) * (1.0 - rate) / ((n - first + 1) * rate) if first > ends[0] else 0.0
    if max(up, down) > 0.999:
        return None
    beyond = (down / (1.0 - down), up / (1.0 - up))
    whole = vector_total((high, low))
    law = []
    anchored, scale_m = (high, low), 0
    for m in range(min(k, b) + 1):
        if m > 0:
            anchored = vector_multiply(anchored, vector_divide(np.full_like(s, b - m + 1.0), s + m))
            anchored, scale_m = _scaled(anchored, scale_m)
        term, scale = anchored, scale_m
        share = Decimal(0)
        for h in range(m, k + 1):
            if h > m:
                term = vector_multiply(term, vector_divide(s - b + h, s + h))
                term, scale = _scaled(term, scale)
            value = vector_total(term)
            if beyond[0] * term[0][0] + beyond[1] * term[0][-1] > _LEFT_OUT * value[0]:
                return None
            mean = CONTEXT.divide(_decimal(value, scale), _decimal(whole, 0))
            ways = CONTEXT.multiply(in_batch[h], Decimal(math.comb(h, m)))
            share = CONTEXT.fma(ways, mean, share)
        law.append(share)
    return law


def _scaled(x: Number, scale: int) -> tuple[Number, int]:
    """x times a power of two that brings its largest entry to [1/2, 1), and the power so far."""
    exponent = math.frexp(float(x[0].max()))[1]
    with np.errstate(under="ignore"):
        return (np.ldexp(x[0], -exponent), np.ldexp(x[1], -exponent)), scale + exponent


def _decimal(value: tuple[float, float], scale: int) -> Decimal:
    number = CONTEXT.add(Decimal(value[0]), Decimal(value[1]))
    return CONTEXT.multiply(number, CONTEXT.power(Decimal(2), Decimal(scale)))
