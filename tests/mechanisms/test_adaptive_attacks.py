"""Brute force on two to four rounds: gradients whose signs react to what was released never exceed the claim.

Every group member's gradient is a sign that depends on the release before; all such strategies are tried. The hockey
stick is summed on a grid, whose error is far below the gap that a false formula leaves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import groupdp
from groupdp.correlated import BandedToeplitz, CorrelatedNoise, CyclicPoisson, SeparatedPoisson

ALPHAS = (1.0, 1.7, 3.0)
RATE, SIGMA = 0.5, 1.5
#: Always +, always -, as the release before, against it.
REACTIONS = ((1.0, 1.0), (-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0))
Patterns = list[tuple[tuple[int, ...], float]]
POINTS = {2: 160, 3: 48, 4: 20}
ERROR = {2: 5e-4, 3: 2e-3, 4: 8e-3}


def participations(rounds: int, members: tuple[int, ...]) -> Patterns:
    """Counts of every round with their probabilities; member i is in part members[i] of two."""
    found: dict[tuple[int, ...], float] = {}
    chances = [[t for t in range(rounds) if t % 2 == part] for part in members]
    for taken in itertools.product(*(itertools.product((0, 1), repeat=len(places)) for places in chances)):
        counts = [0] * rounds
        for places, mine in zip(chances, taken, strict=True):
            for place, one in zip(places, mine, strict=True):
                counts[place] += one
        total = sum(len(places) for places in chances)
        key = tuple(counts)
        found[key] = found.get(key, 0.0) + RATE**total
    return list(found.items())


def hockey_sticks(matrix: np.ndarray, patterns: Patterns, reactions: Any, points: int) -> dict[str, list[float]]:
    """E(LR - alpha)_+ and E(1 - alpha LR)_+ for every alpha, by the midpoint rule on [-6, 6]^T."""
    rounds = len(matrix)
    step = 12.0 / points
    axis = -6.0 + step * (np.arange(points) + 0.5)  # no point at 0, where signs change
    y = [axis.reshape([-1 if d == t else 1 for d in range(rounds)]) for t in range(rounds)]
    mass = np.ones(1)
    for one in y:
        mass = mass * (np.exp(-one * one / 2.0) * step / math.sqrt(2.0 * math.pi))
    signs = [np.array(reactions[0][0])]
    signs += [np.where(y[t - 1] < 0.0, *reactions[t]) for t in range(1, rounds)]
    ratio = np.zeros([points] * rounds)
    for counts, weight in patterns:
        log = np.zeros([1] * rounds)
        for t in range(rounds):
            shift = sum(matrix[t, s] * counts[s] * signs[s] for s in range(t + 1)) / SIGMA
            log = log + shift * y[t] - shift * shift / 2.0
        ratio = ratio + weight * np.exp(log)
    return {
        "remove": [float(np.sum(np.maximum(ratio - alpha, 0.0) * mass)) for alpha in ALPHAS],
        "add": [float(np.sum(np.maximum(1.0 - alpha * ratio, 0.0) * mass)) for alpha in ALPHAS],
    }


def strategies(rounds: int) -> Iterator[tuple[tuple[float, float], ...]]:
    """Every reaction in every round; the first sign is + without loss."""
    for rest in itertools.product(REACTIONS, repeat=rounds - 1):
        yield (REACTIONS[0], *rest)


def worst(matrix: np.ndarray, patterns: Patterns, rounds: int) -> dict[str, np.ndarray]:
    found = [hockey_sticks(matrix, patterns, one, POINTS[rounds]) for one in strategies(rounds)]
    return {name: np.max([one[name] for one in found], axis=0) for name in ("remove", "add")}


def separated(rounds: int, *, apart: int) -> Patterns:
    """Counts of every round for two members, each included with RATE unless one of its last `apart` - 1 rounds was."""
    alone: dict[tuple[int, ...], float] = {}
    for coins in itertools.product((0, 1), repeat=rounds):
        taken: list[int] = []
        for coin in coins:
            taken.append(coin if not any(taken[max(0, len(taken) - apart + 1) :]) else 0)
        alone[tuple(taken)] = alone.get(tuple(taken), 0.0) + RATE**rounds
    both: dict[tuple[int, ...], float] = {}
    for (first, p), (second, q) in itertools.product(alone.items(), repeat=2):
        counts = tuple(a + b for a, b in zip(first, second, strict=True))
        both[counts] = both.get(counts, 0.0) + p * q
    return list(both.items())


def claimed(column: tuple[float, ...], participation: Any, rounds: int) -> dict[str, np.ndarray]:
    run = CorrelatedNoise(
        BandedToeplitz(column),
        participation,
        noise_multiplier=SIGMA,
        steps=rounds,
        normalisation="as-given",
    )
    return {
        name: np.array([groupdp.delta(run, epsilon=math.log(a), group_size=2, adjacency=name).upper for a in ALPHAS])
        for name in ("remove", "add")
    }


@pytest.mark.thinned(6)
@pytest.mark.parametrize("rounds", [2, 3, 4])
@pytest.mark.parametrize("column", [(1.0, 0.6), (1.0, -0.6)])
def test_adaptive_members_of_one_part_attain_the_pair_and_no_more(rounds: int, column: tuple[float, float]):
    """M-2, whatever the signs of C."""
    matrix = BandedToeplitz(column).matrix(rounds)
    attained = worst(matrix, participations(rounds, (0, 0)), rounds)
    claim = claimed(column, CyclicPoisson(parts=2, rate=RATE, assigned="person"), rounds)
    for name in ("remove", "add"):
        assert np.all(attained[name] <= claim[name] + ERROR[rounds])
        assert np.all(attained[name] >= claim[name] - ERROR[rounds])


@pytest.mark.thinned(6)
@pytest.mark.parametrize("rounds", [2, 3, 4])
@pytest.mark.parametrize("column", [(1.0, 0.6), (1.0, -0.6)])
def test_adaptive_members_of_two_parts_stay_below_any_split(rounds: int, column: tuple[float, float]):
    """M-3 and M-10, whatever the signs of C."""
    matrix = BandedToeplitz(column).matrix(rounds)
    attained = worst(matrix, participations(rounds, (0, 1)), rounds)
    claim = claimed(column, CyclicPoisson(parts=2, rate=RATE, assigned="example"), rounds)
    for name in ("remove", "add"):
        assert np.all(attained[name] <= claim[name] + ERROR[rounds])


@pytest.mark.thinned(4)
@pytest.mark.parametrize("rounds", [2, 3, 4])
@pytest.mark.parametrize("column", [(1.0,), (1.0, 0.6), (1.0, -0.6)])
def test_adaptive_members_that_keep_apart_stay_below_windows(rounds: int, column: tuple[float, ...]):
    """M-11, whatever the signs of C; half the windows are exceeded, so that this test can fail."""
    matrix = BandedToeplitz(column).matrix(rounds)
    attained = worst(matrix, separated(rounds, apart=2), rounds)
    claim = claimed(column, SeparatedPoisson(separation=2, rate=RATE), rounds)
    for name in ("remove", "add"):
        assert np.all(attained[name] <= claim[name] + ERROR[rounds])
    short = claimed(column, SeparatedPoisson(separation=2, rate=RATE), rounds // 2)
    assert attained["remove"][0] > short["remove"][0] + ERROR[rounds]


def test_the_formula_without_absolute_values_is_exceeded():
    """|C c| with the signs of C: one sign change attains far more than it claims, so that this test can fail."""
    matrix = np.array([[1.0, 0.0], [-0.9, 1.0]])
    patterns: Patterns = [(counts, 0.25) for counts in itertools.product((0, 1), repeat=2)]
    naive = hockey_sticks(matrix * SIGMA, patterns, (REACTIONS[0], REACTIONS[0]), POINTS[2])["remove"][1]
    absolute = hockey_sticks(np.abs(matrix) * SIGMA, patterns, (REACTIONS[0], REACTIONS[0]), POINTS[2])["remove"][1]
    attained = worst(matrix * SIGMA, patterns, 2)["remove"][1]
    assert naive == pytest.approx(0.099, abs=2e-3)
    assert attained == pytest.approx(0.267, abs=2e-3)
    assert attained <= absolute + ERROR[2]
