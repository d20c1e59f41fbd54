"""Attacks on epochs of two and three steps, adaptive ones too: none exceeds the bound (P-13 to P-18).

Given the group's pattern p, step t moves the sum by v_t(p, y_<t), at most the number of members in it. The hockey stick
E(LR - alpha)_+ under Q is summed on a grid of y, LR = sum_p a_p prod_t e^{v_t y_t - v_t^2 / 2}. Evidence, not proof.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import groupdp

NOISE = 1.2
STEP = 0.2
#: Of the grid: the corners of (.)_+ are not smooth.
TOLERANCE = 2e-4


def patterns(members: int, batches: int, participations: int, *, apart: bool = False) -> list[tuple[float, tuple]]:
    """(probability, members in every step)."""
    choices = list(itertools.combinations(range(batches), members if apart else participations))
    law: Counter = Counter()
    for chosen in itertools.product(choices, repeat=1 if apart else members):
        held = Counter(itertools.chain(*chosen))
        law[tuple(held[t] for t in range(batches))] += Fraction(1, len(choices) ** (1 if apart else members))
    return [(float(p), counts) for counts, p in law.items()]


def likelihood_ratio(law, strategy, y: list[np.ndarray]) -> np.ndarray:
    total = np.zeros_like(y[0])
    for number, (p, counts) in enumerate(law):
        log_ratio = np.zeros_like(y[0])
        past = np.zeros(y[0].shape, dtype=int)
        for t, own in enumerate(y):
            v = strategy(number, t, past) * counts[t] / NOISE
            log_ratio = log_ratio + v * own - v * v / 2
            past = 2 * past + (own > 0.3)
        total += p * np.exp(log_ratio)
    return total


def strategies(patterns_: int):
    """All equal; then random tables by pattern, step and what was seen, from -1 to 1 or of signs alone."""
    yield lambda number, t, past: np.ones(past.shape)
    rng = np.random.default_rng(11)
    for size in (1.0, 0.0, 1.0, 0.0):
        table = rng.uniform(-1.0, 1.0, (patterns_, 3, 4)) if size else rng.choice([-1.0, 1.0], (patterns_, 3, 4))
        yield lambda number, t, past, table=table: table[number, t, past]


def grid(batches: int) -> list[np.ndarray]:
    line = np.arange(-7.0, 7.0 + 4.0 / NOISE, STEP)
    return list(np.meshgrid(*[line] * batches, indexing="ij"))


BALLS, SPREAD, ALLOCATED = groupdp.BallsInBinsSampling, groupdp.SpreadSampling, groupdp.AllocationSampling
CASES = {
    "balls, 1 in 3": (BALLS(batches=3), 1, patterns(1, 3, 1)),
    "balls, 2 in 2": (BALLS(batches=2), 2, patterns(2, 2, 1)),
    "balls, 2 in 3": (BALLS(batches=3), 2, patterns(2, 3, 1)),
    "balls, 3 in 3": (BALLS(batches=3), 3, patterns(3, 3, 1)),
    "spread, 1 in 2": (SPREAD(batches=2), 1, patterns(1, 2, 1, apart=True)),
    "spread, 2 in 3": (SPREAD(batches=3), 2, patterns(2, 3, 1, apart=True)),
    "allocation, 1 twice in 3": (ALLOCATED(batches=3, participations=2), 1, patterns(1, 3, 2)),
    "allocation, 2 twice in 3": (ALLOCATED(batches=3, participations=2), 2, patterns(2, 3, 2)),
}


@pytest.mark.thinned(6)
@pytest.mark.parametrize("name", CASES)
def test_no_adaptive_attack_exceeds_the_bound(name):
    sampling, members, law = CASES[name]
    run = groupdp.DPSGD(sampling, noise_multiplier=NOISE, steps=sampling.batches)
    y = grid(sampling.batches)
    weight = np.exp(-0.5 * sum(own * own for own in y)) * (STEP / math.sqrt(2 * math.pi)) ** sampling.batches
    ratios = [likelihood_ratio(law, one, y) for one in strategies(len(law))]
    for epsilon in (0.2, 1.0):
        alpha = math.exp(epsilon)
        for adjacency in ("remove", "add"):
            bound = groupdp.delta(run, epsilon=epsilon, group_size=members, adjacency=adjacency)
            sticks = [
                float(np.sum(weight * np.maximum(ratio - alpha if adjacency == "remove" else 1 - alpha * ratio, 0.0)))
                for ratio in ratios
            ]
            assert max(sticks) <= bound.upper + TOLERANCE
            assert sticks[0] >= max(sticks[1:]) - TOLERANCE  # all gradients equal is the worst
            if bound.tight:
                assert sticks[0] >= bound.lower - TOLERANCE


@pytest.mark.parametrize("sampling", [BALLS(batches=3), SPREAD(batches=3)], ids=["balls", "spread"])
def test_p_18_no_attack_on_replaced_examples_exceeds_the_bound(sampling):
    run = groupdp.DPSGD(sampling, noise_multiplier=NOISE, steps=3)
    law = patterns(1, 3, 1)
    line = np.arange(-7.0 - 4.0 / NOISE, 7.0 + 4.0 / NOISE, STEP)
    y = list(np.meshgrid(*[line] * 3, indexing="ij"))
    weight = np.exp(-0.5 * sum(own * own for own in y)) * (STEP / math.sqrt(2 * math.pi)) ** 3
    here = likelihood_ratio(law, lambda number, t, past: np.ones(past.shape), y)
    there = likelihood_ratio(law, lambda number, t, past: -np.ones(past.shape), y)
    for epsilon in (0.2, 1.0, 2.0):
        bound = groupdp.delta(run, epsilon=epsilon, group_size=1, adjacency="substitute")
        assert float(np.sum(weight * np.maximum(here - math.exp(epsilon) * there, 0.0))) <= bound.upper + TOLERANCE
