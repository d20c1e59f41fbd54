"""Laws of likelihood ratios in convex order (L-23) with their roundings (L-24): moments, curves, the other engine."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

import groupdp
from groupdp.engines import lattice, spectral
from groupdp.engines.lattice.allocation import Side, combined, law_of_allocation, law_of_product, lognormal
from groupdp.errors import LimitExceeded
from groupdp.pairs import Allocation, AllocationRound

SIDES = [Side(up=up, forward=forward) for up in (True, False) for forward in (True, False)]
FACTORS = [(1, 1.0, 1.0), (2, 0.5, 1.0), (3, 2.0, 1.0), (7, 0.7, 0.25), (16, 0.3, 1.0)]


def curve(law, side: Side, alpha: float) -> float:
    """int (x - alpha)_+ or int (1 - alpha x)_+."""
    if side.forward:
        return float(law.mass @ np.maximum(law.x - alpha, 0.0)) + law.infinite
    return float(law.mass @ np.maximum(1.0 - alpha * law.x, 0.0))


@pytest.mark.parametrize("side", SIDES, ids=str)
@pytest.mark.parametrize("shift", [0.02, 0.5, 1.0, 4.0])
def test_l_23_one_lognormal_is_enclosed_at_every_alpha(side, shift):
    law = lognormal(shift, side)
    for log_alpha in np.linspace(-3.0 * shift, 3.0 * shift, 41):
        alpha, z = math.exp(log_alpha), log_alpha / shift + shift / 2
        exact = ndtr(shift - z) - alpha * ndtr(-z) if side.forward else None
        if exact is None:
            z = -log_alpha / shift + shift / 2
            exact = ndtr(z) - alpha * ndtr(z - shift)
        found = curve(law, side, alpha)
        assert found >= exact * (1 - 1e-12) - 1e-15 if side.up else found <= exact * (1 + 1e-12) + 1e-15
        assert found == pytest.approx(exact, rel=0.02, abs=1e-5)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("side", SIDES, ids=str)
@pytest.mark.parametrize(("places", "shift", "p"), FACTORS)
def test_l_23_second_and_third_moments_are_enclosed(places, shift, p, side):
    """E X^2 and, for increasing test functions, E X^3: with Y = X - 1, E Y^2 = p^2 (e^{s^2} - 1) / M."""
    law = law_of_allocation(Allocation(places, shift, math.log(p)), side)
    grown = math.exp(shift * shift)
    variance = p * p * (grown - 1) / places
    third = p**3 * (grown**3 - 3 * grown + 2) / places**2
    if side.forward:
        found, exact = float(law.mass @ law.x**2), 1 + variance
        cubes, exact_cubes = float(law.mass @ law.x**3), 1 + 3 * variance + third
        if side.up:  # atoms at infinity have no second moment
            assert law.infinite < 1e-20
            assert found >= exact * (1 - 1e-9)
            assert cubes >= exact_cubes * (1 - 1e-6)
        else:
            assert found <= exact * (1 + 1e-12)
            assert cubes <= exact_cubes * (1 + 1e-12)
    spread = float(law.mass @ (law.x - 1.0) ** 2)
    assert spread == pytest.approx(variance, rel=0.02)


def test_l_24_masses_and_means_are_rounded_to_the_safe_side():
    for side in SIDES:
        law = law_of_allocation(Allocation(3, 0.8), side)
        total, mean = math.fsum(law.mass), math.fsum(law.mass * law.x) + law.infinite
        if side.up:
            assert 1.0 <= total < 1.0 + 1e-8
            assert (mean >= 1.0) if side.forward else (mean <= total)
        else:
            assert 1.0 - 1e-8 < total <= 1.0
            assert (mean <= 1.0) if side.forward else (mean >= total * (1 - 1e-12))


def test_l_23_a_product_is_the_law_of_two_steps():
    for side in SIDES:
        first = lognormal(0.6, side)
        twice = combined(first, first, side, product=True)
        exact = lognormal(0.6 * math.sqrt(2.0), side)  # of two independent Gaussian steps
        other = Side(up=not side.up, forward=side.forward)
        opposite = lognormal(0.6 * math.sqrt(2.0), other)
        for alpha in (0.3, 1.0, 2.5):
            if side.up:
                assert curve(twice, side, alpha) >= curve(opposite, side, alpha)
            else:
                assert curve(twice, side, alpha) <= curve(opposite, side, alpha)
            assert curve(twice, side, alpha) == pytest.approx(curve(exact, side, alpha), rel=0.01)
        assert law_of_product((((Allocation(1, 0.6)), 2),), side).total == pytest.approx(1.0, abs=1e-9)


ROUNDS = {
    "R(8, 0.5)": AllocationRound.of(8, 0.5),
    "R(8, 0.5) with p": AllocationRound((((Allocation(8, 0.5, math.log(0.6)), 1),),)),
    "a coin": AllocationRound((((Allocation(2, 0.4), 2),), ((Allocation(4, 0.8), 1),)), (math.log(0.9), math.log(0.1))),
}


@pytest.mark.thinned(6)
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("name", ROUNDS)
def test_the_engines_intersect(name, reverse):
    one = ROUNDS[name].mirrored if reverse else ROUNDS[name]
    composition = ((one, 8), (AllocationRound.of(4, 0.5, reverse=reverse), 9))
    wide, narrow = (engine.epsilon(composition, log_delta=math.log(1e-5)) for engine in (lattice, spectral))
    assert wide.lower <= narrow.upper
    assert narrow.lower <= wide.upper
    assert wide.width <= 0.01 * max(1.0, wide.upper)


@pytest.mark.parametrize("reverse", [False, True])
def test_l_24_a_product_beyond_doubles_is_refused(reverse):
    """Its atoms were NaN and went missing, which made epsilon 0 at a delta of 0.6, where it is 139 (reversed)."""
    products = tuple(((Allocation(10, shift), 3),) for shift in (12.0, 10.8))
    coin = AllocationRound(products, (math.log(0.5), math.log(0.5)))
    coin = coin.mirrored if reverse else coin
    with pytest.raises(LimitExceeded, match="likelihood ratios"):
        lattice.epsilon(((coin, 1),), log_delta=math.log(0.6))


def test_l_24_members_in_many_batches_each_have_no_false_answer():
    """Where few histograms went missing the sides were not ordered; where all did, there was nothing to compose."""
    for noise in (0.24, 0.2):
        run = groupdp.DPSGD(groupdp.AllocationSampling(batches=20, participations=5), noise_multiplier=noise, steps=20)
        asked = {"epsilon": 50.0, "group_size": 2, "adjacency": "add"}
        wide = groupdp.log_delta(run, **asked, engine="lattice")
        close = groupdp.log_delta(run, **asked, engine="spectral")
        assert wide.upper >= close.lower
