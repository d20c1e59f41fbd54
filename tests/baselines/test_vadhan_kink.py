"""The bend of Vadhan's curve at sigma = 2 between k = 26 and k = 27 is the lemma's, not the search's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import groupdp
import oracle
from groupdp.baselines import vadhan_epsilons

RUN = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=2000)
COMPOSITION = [{"sampling_rate": "0.01", "noise_multiplier": "2", "steps": 2000}]
LOG_TARGET = math.log(1e-6)
SIZES = range(20, 31)


def excess(k, epsilons, log_deltas):
    """log g + log delta_1 - log delta: the lemma serves where it is at most 0."""
    return np.log(np.expm1(k * epsilons) / np.expm1(epsilons)) + log_deltas - LOG_TARGET


@pytest.fixture(scope="module")
def grid():
    """Example-level epsilons, densely, with log delta_1 (its bounds agree to 1e-8 here)."""
    epsilons = np.arange(0.005, 8.0, 0.005)
    values = [groupdp.log_delta(RUN, epsilon=float(x), group_size=1) for x in epsilons]
    return epsilons, np.array([value.lower for value in values]), np.array([value.upper for value in values])


@pytest.fixture(scope="module")
def found():
    return dict(zip(SIZES, vadhan_epsilons(RUN, delta=1e-6, group_sizes=SIZES, form="geometric"), strict=True))


@pytest.mark.thinned(6)
@pytest.mark.parametrize("k", SIZES)
def test_the_search_finds_what_a_dense_grid_finds(k, grid, found):
    epsilons, lower, upper = grid
    feasible = np.flatnonzero(excess(k, epsilons, upper) <= 0.0)
    first = feasible[0]
    assert (excess(k, epsilons[:first], lower[:first]) > 0.0).all()
    assert k * epsilons[first - 1] < found[k].lower <= found[k].upper <= k * epsilons[first]
    # One crossing: from there on every example-level epsilon of the grid would do, at a higher price.
    assert len(feasible) == len(epsilons) - first


@pytest.mark.parametrize("k", [25, 26, 27, 28])
def test_ball_arithmetic_puts_the_crossing_where_the_search_does(k, found):
    composition = oracle.compose(COMPOSITION, group_size=1)
    for factor, sign in ((1.0 - 1e-6, 1), (1.0 + 1e-6, -1)):
        epsilon = found[k].upper / k * factor
        log_delta = float(oracle.log_delta(composition, epsilon=epsilon, direction="remove", digits=10))
        assert sign * excess(k, epsilon, log_delta) > 0.0


def test_the_example_s_own_curve_changes_its_slope_where_the_bend_is():
    composition = oracle.compose(COMPOSITION, group_size=1)

    def slope(epsilon):
        values = [
            oracle.log_delta(composition, epsilon=x, direction="remove", digits=10) for x in (epsilon, epsilon + 0.01)
        ]
        return float(values[1] - values[0]) / 0.01

    assert slope(3.4) == pytest.approx(-46.3, abs=0.1)
    assert slope(4.0) == pytest.approx(-29.8, abs=0.1)


def test_the_bend_itself(found):
    steps = {k: found[k + 1].upper / (k + 1) - found[k].upper / k for k in (23, 24, 27, 28)}
    assert steps[23] < 0.15
    assert steps[24] < 0.15
    assert steps[27] > 0.9
    assert steps[28] > 0.9
