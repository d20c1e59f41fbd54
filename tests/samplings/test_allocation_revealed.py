"""P-61: members in several batches each, all of them known."""

from __future__ import annotations

import itertools
import math

import pytest

import groupdp


@pytest.mark.parametrize(("members", "participations", "batches"), [(2, 2, 4), (3, 1, 3), (3, 2, 3), (2, 3, 5)])
def test_p_61_no_allocation_has_larger_squares(members, participations, batches):
    """P-61: the sum of squared counts of every allocation of all members; all in the same batches attain the bound."""
    places = list(itertools.combinations(range(batches), participations))
    largest = 0
    for pattern in itertools.product(places, repeat=members):
        counts = [sum(t in where for where in pattern) for t in range(batches)]
        largest = max(largest, sum(count * count for count in counts))
    assert largest == members**2 * participations


@pytest.mark.parametrize("adjacency", ["remove", "add", "add-or-remove"])
@pytest.mark.parametrize("members", [32, 100, 1000])
def test_large_groups_with_little_noise_are_answered(members, adjacency):
    """P-61: declined before; mu^2/2 + mu sqrt(2 log(1/delta)) of the Gaussian is above."""
    epochs, noise, delta = 5, 0.3, 1e-6
    sampling = groupdp.AllocationSampling(batches=100, participations=2)
    run = groupdp.DPSGD(sampling, noise_multiplier=noise, steps=100 * epochs)
    found = groupdp.epsilon(run, delta=delta, group_size=members, adjacency=adjacency)
    mu = members * math.sqrt(2 * epochs) / noise
    assert 0.0 < found.upper <= mu * (mu / 2 + math.sqrt(-2 * math.log(delta)))
