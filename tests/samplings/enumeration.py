"""Small datasets, every batch: exact laws of what a round releases, and exact hockey sticks between two of them.

A dataset is a population: how many examples have gradient +1, 0 and -1. A round releases the sum over a batch plus
N(0, sigma^2). Examples with the same gradient are interchangeable: batches are counted by how many of each they hold.
Laws are {sum: probability} with exact probabilities; for two batches released together, {(sum, sum): probability}.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

Law = Mapping[Hashable, Fraction]
SIGNS = (1, 0, -1)


class Population(NamedTuple):
    """How many examples have gradient +1, 0, -1."""

    plus: int
    zero: int
    minus: int

    def __add__(self, other: tuple[int, ...]) -> Population:  # type: ignore[override]
        return Population(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def size(self) -> int:
        return sum(self)


def populations(size: int) -> Iterator[Population]:
    """All of them."""
    for plus in range(size + 1):
        for zero in range(size - plus + 1):
            yield Population(plus, zero, size - plus - zero)


def subsets(population: Population, size: int) -> Law:
    """The sum over a uniform subset."""
    law: Counter[int] = Counter()
    for plus in range(min(size, population.plus) + 1):
        for minus in range(min(size - plus, population.minus) + 1):
            zero = size - plus - minus
            held = zip(population, (plus, zero, minus), strict=True)
            law[plus - minus] += math.prod(math.comb(n, j) for n, j in held)
    return {total: Fraction(ways, math.comb(population.size, size)) for total, ways in law.items() if ways}


def poisson(parts: Iterable[tuple[Population, Fraction]]) -> Law:
    """The sum over examples each of which is there with its part's rate."""
    law: dict[Hashable, Fraction] = {0: Fraction(1)}
    for population, rate in parts:
        for sign, count in zip(SIGNS, population, strict=True):
            for _ in range(count):
                law = mixed([(1 - rate, law), (rate, shifted(law, sign))])
    return law


def truncated(population: Population, rate: Fraction, largest: int) -> Law:
    """Poisson samples, cut at random to `largest`: a uniform subset of its size, whatever that is."""
    n = population.size
    sizes = [math.comb(n, t) * rate**t * (1 - rate) ** (n - t) for t in range(n + 1)]
    return mixed((p, subsets(population, min(t, largest))) for t, p in enumerate(sizes))


def dealt(population: Population) -> Law:
    """Shuffled into two batches of the same size: both sums."""
    half, law = population.size // 2, Counter()
    total = population.plus - population.minus
    for first, p in subsets(population, half).items():
        law[first, total - first] += p
    return law


def thrown(population: Population) -> Law:
    """Every example into one of two batches: both sums."""
    law: dict[Hashable, Fraction] = {(0, 0): Fraction(1)}
    half = Fraction(1, 2)
    for sign, count in zip(SIGNS, population, strict=True):
        for _ in range(count):
            moved = [{(a + sign, b): p for (a, b), p in law.items()}, {(a, b + sign): p for (a, b), p in law.items()}]
            law = mixed((half, one) for one in moved)
    return law


def independent(first: Law, second: Law) -> Law:
    return {(a, b): p * q for (a, p), (b, q) in itertools.product(first.items(), second.items())}


def mixed(parts: Iterable[tuple[Fraction, Law]]) -> dict[Hashable, Fraction]:
    law: dict[Hashable, Fraction] = {}
    for weight, part in parts:
        for place, p in part.items():
            law[place] = law.get(place, Fraction(0)) + weight * p
    return law


def shifted(law: Law, by: int) -> Law:
    return {total + by: p for total, p in law.items()}


def hockey_sticks(pairs: list[tuple[Law, Law]], noise: float, epsilon: float) -> np.ndarray:
    """H_{e^epsilon} of mixtures of N(sum, noise^2), for many pairs at once."""
    sums = np.arange(min(map(min, itertools.chain(*pairs))), max(map(max, itertools.chain(*pairs))) + 1)
    place = {int(total): j for j, total in enumerate(sums)}
    difference = np.zeros((len(pairs), len(sums)))
    for row, (p, q) in enumerate(pairs):
        for total, chance in p.items():
            difference[row, place[total]] += float(chance)
        for total, chance in q.items():
            difference[row, place[total]] -= math.exp(epsilon) * float(chance)
    return positive_parts(difference, sums / noise)


def positive_parts(weights: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """int (sum_j w_j phi(u - m_j))_+ du for every row w: roots by bisection, the rest in closed form."""
    low, high = centres.min() - 9.0, centres.max() + 9.0
    u = np.linspace(low, high, 1 + math.ceil((high - low) / 0.05))
    values = weights @ np.exp(-0.5 * (u - centres[:, None]) ** 2)
    rows, cells = np.nonzero(np.signbit(values[:, 1:]) != np.signbit(values[:, :-1]))
    rising = np.where(values[rows, cells + 1] > values[rows, cells], 1.0, -1.0)
    low, high = u[cells], u[cells + 1]
    own = weights[rows]
    for _ in range(50):
        middle = 0.5 * (low + high)
        value = np.sum(own * np.exp(-0.5 * (middle[:, None] - centres) ** 2), axis=1)
        below = rising * value < 0.0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    # from a root where it becomes positive to the next: differences of the integral from minus infinity
    until = np.sum(own * ndtr(low[:, None] - centres), axis=1)
    total = np.where(values[:, -1] > 0.0, weights.sum(axis=1), 0.0)
    np.add.at(total, rows, -rising * until)
    return total


def joint_hockey_stick(p: Law, q: Law, noise: float, epsilon: float, step: float = 0.2) -> float:
    """H_{e^epsilon} of two sums released together.

    Along the line through both means the positive part is integrated exactly, across it by the trapezoid rule: where
    the loss grows along that line there is one border on each, and the rule sees a smooth function.
    """
    places = sorted({*p, *q})
    weights = np.array([float(p.get(at, 0)) - math.exp(epsilon) * float(q.get(at, 0)) for at in places])
    apart = np.array([float(p.get(at, 0) - q.get(at, 0)) for at in places]) @ np.array(places)
    length = math.hypot(*apart)
    x, y = apart / length if length > 1e-9 else (math.sqrt(0.5), math.sqrt(0.5))
    first, second = np.array([[y, -x], [x, y]]) @ np.array(places).T / noise
    u = np.arange(first.min() - 9.0, first.max() + 9.0, step)
    density = np.exp(-0.5 * (u[:, None] - first) ** 2) / math.sqrt(2.0 * math.pi)
    return float(positive_parts(density * weights, second).sum() * step)
