"""Public coins for the tests: balls in bins, and Poisson batches cut to a largest size (in double precision)."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from scipy import stats

from groupdp.pairs import ZERO, Branch, Round, Side


def side_of(shifts, probabilities) -> Side:
    p = np.asarray(probabilities, dtype=float)
    keep = p > 0.0
    p = p[keep]
    return Side(np.asarray(shifts, dtype=float)[keep], (p, np.minimum(np.log(p), 0.0)))


def balls_in_bins(group_size: int, batches: int, noise: float) -> Round:
    """One epoch: every example of the group goes to one batch; what is revealed is sum_t c_t^2."""
    law: Counter[int] = Counter()
    for counts in _partitions(group_size, group_size):
        ways = math.factorial(group_size) * math.perm(batches, len(counts))
        for c in counts:
            ways //= math.factorial(c)
        for multiplicity in Counter(counts).values():
            ways //= math.factorial(multiplicity)
        law[sum(c * c for c in counts)] += ways
    total = batches**group_size
    return Round(
        [Branch(Side.point(math.sqrt(r) / noise), ZERO) for r in law],
        [math.log(ways) - math.log(total) for ways in law.values()],
    )


def truncated_poisson(group_size: int, rate: float, size: int, largest: int, noise: float, *, remove: bool) -> Round:
    """Section 4 of the theory: reveal how many of the others were sampled, where a batch might be cut."""
    common = stats.binom(size, rate)
    branches, weights = [], []

    def add(law: dict[int, float], weight: float) -> None:
        side = side_of([m / noise for m in sorted(law)], [law[m] for m in sorted(law)])
        branches.append(Branch(side, ZERO) if remove else Branch(ZERO, side))
        weights.append(weight)

    def law_given(s: int, weight: float, law: dict[int, float]) -> None:
        for h in range(group_size + 1):
            kept = min(largest, s + h)
            for m in range(h + 1):
                d = max(0, m - max(0, largest - s))
                p = stats.binom.pmf(h, group_size, rate) * stats.hypergeom.pmf(m, s + h, h, kept)
                if p > 0.0:
                    law[m + d] = law.get(m + d, 0.0) + weight * p

    binomial = {h: stats.binom.pmf(h, group_size, rate) for h in range(group_size + 1)}
    add(binomial, common.cdf(largest - group_size))
    for s in range(largest - group_size + 1, largest):
        law: dict[int, float] = {}
        law_given(s, 1.0, law)
        add(law, common.pmf(s))
    pooled: dict[int, float] = {}
    above = common.sf(largest - 1)
    for s in range(largest, largest + 40 * int(math.sqrt(size * rate)) + 40):
        if common.pmf(s) / above > 1e-18:
            law_given(s, common.pmf(s) / above, pooled)
    add(pooled, above)
    return Round(branches, np.log(weights))


def _partitions(total: int, largest: int):
    if total == 0:
        yield ()
    for part in range(min(total, largest), 0, -1):
        for rest in _partitions(total - part, part):
            yield (part, *rest)
