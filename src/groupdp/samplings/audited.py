"""How a sampling is audited: two datasets that leak most, and the exact densities of what training on them releases.

An example's *move* is minus its clipped gradient on the line, in units of the clipping norm: a batch moves the model by
the sum of its members' moves, plus noise. Densities are computed here from exact rationals or logarithms of
factorials; nothing is shared with the laws of the accountant (laws/).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from groupdp.errors import LimitExceeded
from groupdp.floats import FloatArray

#: (move, how many examples in a row have it).
Census = tuple[tuple[float, int], ...]

#: Largest population whose weights are computed in exact rationals.
LARGEST_EXACT = 1000
#: Choices of all members that an exact density lists.
MOST_PATTERNS = 20_000


class Releases(Protocol):
    """The joint law of the sums that the steps of a phase release."""

    def log_density(self, sums: FloatArray, noise: float) -> FloatArray:
        """log of the density of noisy sums, of shape (steps, trials), over that of pure noise, for every trial."""


@dataclass(frozen=True, eq=False)
class AuditedDataset:
    """A dataset, in order, and what training on it releases."""

    census: Census
    releases: Releases

    @property
    def size(self) -> int:
        """How many examples."""
        return sum(count for _, count in self.census)

    @property
    def moves(self) -> FloatArray:
        """One number per example."""
        parts = [np.full(count, move, dtype=np.float64) for move, count in self.census]
        return np.concatenate(parts) if parts else np.zeros(0)


@dataclass(frozen=True, eq=False)
class IndependentSums:
    """Every step's sum is drawn anew: `values` with `log_weights`."""

    values: FloatArray
    log_weights: FloatArray

    def log_density(self, sums: FloatArray, noise: float) -> FloatArray:
        total = np.zeros(sums.shape[1])
        for step in sums:
            total += log_mixture_ratio(step / noise, self.values / noise, self.log_weights)
        return total


@dataclass(frozen=True, eq=False)
class KnownSums:
    """Every epoch goes through the same sums, `cycle`."""

    cycle: FloatArray

    def log_density(self, sums: FloatArray, noise: float) -> FloatArray:
        means = np.resize(self.cycle, len(sums))[:, None]
        return np.asarray(np.sum((2.0 * sums - means) * means, axis=0) / (2.0 * noise**2))


@dataclass(frozen=True, eq=False)
class AllocatedSums:
    """`members` examples that move by `move` are put into the batches of an epoch; all others do not move.

    `ways[t][c] / c!` is proportional to the probability that batch t takes c given members. The density is the average
    over all allocations: the coefficient of z^members in the product over t of

        sum_c ways[t][c] / c! e^{c v x_t - (c v)^2 n_t / 2} z^c

    with x_t the total of the n_t sums of batch t in units of the noise, v = move / noise.
    """

    members: int
    move: float
    ways: tuple[tuple[float, ...], ...]
    once: bool = False
    """Whether all epochs share one allocation."""

    def log_density(self, sums: FloatArray, noise: float) -> FloatArray:
        seen, visits = _by_epochs(sums / noise, len(self.ways))
        if self.once:
            seen, visits = seen.sum(axis=0, keepdims=True), visits.sum(axis=0, keepdims=True)
        total = np.zeros(sums.shape[1])
        for x, n in zip(seen, visits, strict=True):
            total += self._epoch(x, n, self.move / noise)
        return total

    def _epoch(self, x: FloatArray, visits: FloatArray, unit: float) -> FloatArray:
        return self._log_coefficient(x, visits, unit) - self._log_coefficient(x[:, :1], np.zeros_like(visits), 0.0)

    def _log_coefficient(self, x: FloatArray, visits: FloatArray, unit: float) -> FloatArray:
        trials, count = x.shape[1], self.members
        poly = np.zeros((count + 1, trials))
        poly[0] = 1.0
        scale = np.zeros(trials)
        for t, ways in enumerate(self.ways):
            logs = [
                c * unit * x[t] - (c * unit) ** 2 * visits[t] / 2.0 + math.log(way) - math.lgamma(c + 1)
                if way > 0.0
                else np.full(trials, -math.inf)
                for c, way in enumerate(ways)
            ]
            top = np.max(logs, axis=0)
            factors = [np.exp(log - top) for log in logs]
            product = np.zeros_like(poly)
            for c, factor in enumerate(factors):
                product[c:] += factor * poly[: count + 1 - c]
            largest = product.max(axis=0)
            poly, scale = product / largest, scale + top + np.log(largest)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(poly[count]) + scale)


@dataclass(frozen=True, eq=False)
class SubsetSums:
    """`members` examples that move by `move`, each in `participations` distinct batches of an epoch; all others do not
    move. The density is the average over all choices of all members."""

    members: int
    move: float
    batches: int
    participations: int

    def log_density(self, sums: FloatArray, noise: float) -> FloatArray:
        patterns, weights = self._patterns()
        means = patterns * (self.move / noise)
        total = np.zeros(sums.shape[1])
        for x, visits in zip(*_by_epochs(sums / noise, self.batches), strict=True):
            logs = means @ x - 0.5 * (means**2 @ visits)[:, None] + np.log(weights)[:, None]
            total += np.logaddexp.reduce(logs, axis=0)
        return total

    def _patterns(self) -> tuple[FloatArray, FloatArray]:
        """Every vector of counts, with its probability."""
        number = math.comb(self.batches, self.participations)
        if number**self.members > MOST_PATTERNS:
            raise LimitExceeded(
                f"the exact density of random allocation lists every choice of every member, at most {MOST_PATTERNS}, "
                f"got {number}^{self.members}: fewer batches or a smaller group are needed."
            )
        law = {(0,) * self.batches: Fraction(1)}
        for _ in range(self.members):
            wider: dict[tuple[int, ...], Fraction] = {}
            for counts, probability in law.items():
                for chosen in itertools.combinations(range(self.batches), self.participations):
                    key = tuple(count + (t in chosen) for t, count in enumerate(counts))
                    wider[key] = wider.get(key, Fraction(0)) + probability / number
            law = wider
        return np.array(list(law), dtype=np.float64), np.array([float(probability) for probability in law.values()])


def _by_epochs(sums: FloatArray, batches: int) -> tuple[FloatArray, FloatArray]:
    """Sums by (epoch, batch, trial), 0 beyond the last step; and by (epoch, batch) whether there is a step."""
    steps, trials = sums.shape
    epochs = -(-steps // batches)
    seen = np.zeros((epochs * batches, trials))
    seen[:steps] = sums
    visits = (np.arange(epochs * batches) < steps).astype(np.float64)
    return seen.reshape(epochs, batches, trials), visits.reshape(epochs, batches)


def log_mixture_ratio(u: FloatArray, shifts: FloatArray, log_weights: FloatArray) -> FloatArray:
    """log sum_i p_i exp(m_i u - m_i^2 / 2): one round in units of the noise, over pure noise."""
    terms = [pair for pair in zip(shifts.tolist(), log_weights.tolist(), strict=True) if pair[1] > -math.inf]
    largest = np.full_like(u, -math.inf)
    for shift, log_weight in terms:
        np.maximum(largest, shift * u + (log_weight - shift * shift / 2.0), out=largest)
    total = np.zeros_like(u)
    for shift, log_weight in terms:
        total += np.exp(shift * u + (log_weight - shift * shift / 2.0) - largest)
    return np.asarray(largest + np.log(total))


def sums_of(law: Mapping[float, float]) -> IndependentSums:
    """From {value: log probability}."""
    kept = sorted((value, log) for value, log in law.items() if log > -math.inf)
    return IndependentSums(np.array([value for value, _ in kept]), np.array([log for _, log in kept]))


def independent_members(parts: Iterable[tuple[int, float, float]]) -> IndependentSums:
    """(how many, rate, move): every member is included independently."""
    law = {0.0: 0.0}
    for count, rate, move in parts:
        presence = binomial_logarithms(count, rate)
        law = _mixed(
            (value + i * move, log + weight) for value, log in law.items() for i, weight in enumerate(presence.tolist())
        )
    return sums_of(law)


def fixed_batches(batch: int, ordinary: int, group: int, *, ordinary_move: float, group_move: float) -> IndependentSums:
    """A uniform batch of `batch` from `ordinary` examples and `group` others."""
    weights = hypergeometric_logarithms(batch, ordinary, group).tolist()
    return sums_of(_mixed((ordinary_move * (batch - i) + group_move * i, log) for i, log in enumerate(weights)))


def cut_batches(
    rate: float, largest: int, ordinary: int, group: int, *, ordinary_move: float, group_move: float
) -> IndependentSums:
    """Poisson samples cut to `largest`: a uniform subset of min(largest, Binom(ordinary + group, rate))."""
    population = ordinary + group
    sizes = binomial_logarithms(population, rate)
    at_cap = float(np.logaddexp.reduce(sizes[largest:])) if population >= largest else -math.inf
    logs = [*sizes[: min(largest, population + 1)].tolist(), at_cap][: largest + 1]
    return sums_of(
        _mixed(
            (ordinary_move * (size - i) + group_move * i, log + weight)
            for size, log in enumerate(logs)
            if log > -60.0
            for i, weight in enumerate(hypergeometric_logarithms(size, ordinary, group).tolist())
        )
    )


def dealt_members(members: int, move: float, sizes: Sequence[int], *, once: bool = False) -> AllocatedSums:
    """A random permutation dealt to batches of these sizes: size!/(size - c)! orders of c members in a batch."""
    total = float(sum(sizes))
    ways = {
        size: tuple(math.prod((size - j) / total for j in range(c)) for c in range(min(members, size) + 1))
        for size in set(sizes)
    }
    return AllocatedSums(members, move, tuple(ways[size] for size in sizes), once)


def binomial_logarithms(count: int, rate: float) -> FloatArray:
    """log P(Binom(count, rate) = i): in exact rationals up to a thousand; beyond, from sums of logarithms."""
    if count <= LARGEST_EXACT // 10 or (count <= LARGEST_EXACT and rate < 1e-100):
        q = Fraction(rate)
        return np.array([_log(math.comb(count, i) * q**i * (1 - q) ** (count - i)) for i in range(count + 1)])
    if rate == 1.0:
        return np.concatenate([np.full(count, -math.inf), [0.0]])
    i = np.arange(count, dtype=np.float64)
    choices = np.concatenate([[0.0], np.cumsum(np.log((count - i) / (i + 1.0)))])
    present = np.arange(count + 1, dtype=np.float64)
    return np.asarray(choices + present * math.log(rate) + (count - present) * math.log1p(-rate))


def hypergeometric_logarithms(batch: int, ordinary: int, group: int) -> FloatArray:
    """log P(i of the group are in a batch drawn from ordinary + group): C(k, i) C(n, B - i) / C(n + k, B)."""
    if ordinary < batch or ordinary + group <= LARGEST_EXACT:
        whole = math.comb(ordinary + group, batch)
        places = range(min(group, batch) + 1)
        return np.array([_log(Fraction(math.comb(group, i) * math.comb(ordinary, batch - i), whole)) for i in places])
    short, long = min(group, batch), max(group, batch)
    # C(n + k - B, k) / C(n + k, k), symmetric in k and B.
    nobody = math.fsum(math.log1p(-long / (ordinary + group - j)) for j in range(short))
    i = np.arange(short, dtype=np.float64)
    ratios = (group - i) * (batch - i) / ((i + 1.0) * (ordinary - batch + i + 1.0))
    return np.asarray(nobody + np.concatenate([[0.0], np.cumsum(np.log(ratios))]))


def _mixed(terms: Iterable[tuple[float, float]]) -> dict[float, float]:
    law: dict[float, list[float]] = {}
    for value, log in terms:
        if log > -math.inf:
            law.setdefault(value, []).append(log)
    return {value: float(np.logaddexp.reduce(logs)) for value, logs in law.items()}


def _log(weight: Fraction) -> float:
    """log of a rational of any size; near 1, of the complement, which keeps the relative accuracy."""
    if weight == 0:
        return -math.inf
    if 2 * weight > 1:
        return math.log1p(-float(1 - weight))
    nearest = float(weight)
    return math.log(nearest) if nearest > 1e-300 else math.log(weight.numerator) - math.log(weight.denominator)
