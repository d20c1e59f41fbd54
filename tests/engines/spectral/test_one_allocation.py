"""One round of one allocation, whole answers: beside integrals, the oracle and the lattice engine."""

from __future__ import annotations

import math
import random

import pytest
from mpmath import mp, mpf

from engines.one_allocation_balls import composition, is_new, two_places
from groupdp.engines import lattice, spectral
from groupdp.errors import LimitExceeded
from oracle import allocation as oracle


@pytest.mark.parametrize("shift", [0.3, 1.0, 2.2, 3.0])
@pytest.mark.parametrize("epsilon", [0.2, 1.5, 6.0])
@pytest.mark.parametrize("reverse", [False, True])
def test_two_places_exactly(shift, epsilon, reverse):
    """The whole answer, S-81 to S-86, beside an integral over one place of a closed form for the other."""
    mp.dps = 25
    a = math.exp(epsilon)
    true = two_places(shift, a if not reverse else 1 / a, reverse) * (a if reverse else 1)
    if true < mpf("1e-40"):
        pytest.skip("too small for this integral")
    found = spectral.log_delta(composition(2, shift, reverse), epsilon=epsilon)
    assert found.lower - 1e-12 <= float(mp.log(true)) <= found.upper + 1e-12


@pytest.mark.parametrize(("places", "shift", "reverse", "epsilon"), [(100, 1.0, False, 0.8), (100, 1.0, True, 0.4)])
def test_one_plan_serves_the_epsilons_around_it(places, shift, reverse, epsilon):
    """S-81 to S-83: its bounds elsewhere agree with those of plans made there; below 0 it claims nothing."""
    near = spectral.neighbourhood(composition(places, shift, reverse), epsilon)
    for share in (0.9, 0.97, 1.0, 1.2):
        lower, upper = near.log_delta(share * epsilon)
        found = spectral.log_delta(composition(places, shift, reverse), epsilon=share * epsilon)
        assert found.lower <= upper
        assert lower <= found.upper
        assert upper - lower <= 1e-6
        value, slope = near.log_delta_slope(share * epsilon)
        assert lower <= value <= upper
        apart = 1e-5 * epsilon
        ahead, behind = (near.log_delta_slope(share * epsilon + sign * apart)[0] for sign in (1, -1))
        assert slope == pytest.approx((ahead - behind) / (2 * apart), rel=1e-4)
    assert near.log_delta(-0.1) == (-math.inf, 0.0)


def random_questions(count: int, seed: int):
    generator = random.Random(seed)
    for _ in range(count):
        places = round(10.0 ** generator.uniform(0.3, 6.0))
        shift = round(10.0 ** generator.uniform(-1.0, 0.52), 3)
        yield places, shift, generator.random() < 0.5, 10.0 ** generator.uniform(-12.0, -3.5)


@pytest.mark.parametrize(("places", "shift", "reverse", "delta"), list(random_questions(40, 5)))
def test_any_question_is_narrow_and_agrees_with_the_lattice(places, shift, reverse, delta):
    comp = composition(places, shift, reverse)
    found = spectral.epsilon(comp, log_delta=math.log(delta))
    assert found.upper - found.lower <= 1e-8 * max(1.0, found.upper)
    if places <= 10**4:
        try:
            other = lattice.epsilon(comp, log_delta=math.log(delta))
        except LimitExceeded as refusal:
            pytest.skip(str(refusal))
        assert other.lower <= found.upper
        assert found.lower <= other.upper


@pytest.mark.parametrize(
    ("places", "shift", "reverse", "delta"),
    [
        (3, 1.0, False, 1e-5),
        (20, 0.5, True, 1e-6),
        (20, 2.0, False, 1e-4),
        (300, 1.0, False, 1e-7),
        (300, 2.0, True, 1e-9),
    ],
)
def test_it_agrees_with_the_oracle(places, shift, reverse, delta):
    value = oracle.epsilon([([(1.0, [((places, shift, 1.0), 1)])], 1, reverse)], delta=delta, digits=7)
    found = spectral.epsilon(composition(places, shift, reverse), log_delta=math.log(delta))
    assert is_new(found)
    assert found.lower - 1e-7 * max(1.0, value) <= value <= found.upper + 1e-7 * max(1.0, value)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shift", [0.2, 1.0, 3.0])
def test_epsilon_falls_with_the_places_to_that_of_one_gaussian(shift, reverse):
    """More places hide more; the revealed place bounds every answer."""
    before = spectral.epsilon(composition(1, shift, reverse), log_delta=math.log(1e-6))
    for places in (2, 3, 10, 100, 1000, 10**5, 10**6):
        found = spectral.epsilon(composition(places, shift, reverse), log_delta=math.log(1e-6))
        assert found.lower <= before.upper
        assert found.upper <= before.upper
        before = found
