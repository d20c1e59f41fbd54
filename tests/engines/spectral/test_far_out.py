"""log delta far below the ordinary range: contours with everything kept, and beside small losses (S-50).

The truth is that of oracle.one_example, doubles on another contour, to about twelve digits.
"""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from groupdp import DPSGD, PoissonSampling, pairs
from groupdp.bounds import Bounds
from groupdp.engines import lattice, spectral
from groupdp.errors import LimitExceeded
from groupdp.question import question_of
from oracle.one_example import Declined, OneExample


def removing(rate: float, noise: float) -> pairs.Round:
    law = np.array([1.0 - rate, rate]), np.array([math.log1p(-rate), math.log(rate)])
    return pairs.Round.of(pairs.Side(np.array([0.0, 1.0 / noise]), law), pairs.ZERO)


def contains(bounds: Bounds, truth: float) -> bool:
    return bounds.lower - 1e-10 * abs(truth) <= truth <= bounds.upper + 1e-10 * abs(truth)


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "epsilon"),
    [
        (0.0113895, 0.7476, 7, 140.7),
        (0.0113895, 0.7476, 7, 177.0),
        (0.0025, 1.56, 996, 10_000.0),
        (0.0025, 1.56, 996, 33_000.0),
        (0.0003038, 0.8381, 138_555, 19_271.5),
        (0.00183, 1.074, 17_177, 1e6),
    ],
)
def test_the_tilted_law_is_narrow_where_every_round_is_of_consequence(rate, noise, steps, epsilon):
    """The kernel declined these: closed forms for large losses, and edges, were of no use there."""
    bounds = spectral.log_delta(pairs.compose([(removing(rate, noise), steps)]), epsilon=epsilon)
    assert contains(bounds, OneExample(rate, noise, steps, "remove").log_delta(epsilon))
    assert bounds.width <= 1e-11 * abs(bounds.upper)


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("rate", "noise", "steps", "epsilon"),
    [
        (0.0113895, 0.7476, 7, 30.0),
        (0.001065, 1.429, 234, 10.0),
        (0.001065, 1.429, 234, 18.7),
        (0.000584, 0.7345, 167, 31.338),
        (0.000157, 0.7374, 144, 115.8),
        (0.000161, 0.8576, 2255, 60.0),
        (1.35e-5, 0.8025, 14_257, 55.0),
    ],
)
def test_rounds_that_are_seldom_of_consequence_have_one_contour_beside_their_small_losses(rate, noise, steps, epsilon):
    """S-50: small losses hardly decay, and the other ways took tens of thousands of steps, or declined."""
    bounds = spectral.log_delta(pairs.compose([(removing(rate, noise), steps)]), epsilon=epsilon)
    assert contains(bounds, OneExample(rate, noise, steps, "remove").log_delta(epsilon))
    assert bounds.width <= 2e-7 * abs(bounds.upper)
    assert bounds.provenance.evaluations["contour steps"] < 5_000


def test_two_kinds_of_rounds_are_beside_their_small_losses_together():
    """S-50 with a product over kinds: as many rounds in two parts are the same composition."""
    one = removing(0.000584, 0.7345)
    nearly = removing(0.000584, 0.7345 * (1.0 + 1e-13))
    whole = spectral.log_delta(pairs.compose([(one, 167)]), epsilon=31.338)
    parts = spectral.log_delta(pairs.compose([(one, 100), (nearly, 67)]), epsilon=31.338)
    assert parts.lower - 1e-9 <= whole.upper
    assert whole.lower <= parts.upper + 1e-9
    assert parts.width <= 1e-8 * abs(parts.upper)


@pytest.mark.thinned
@pytest.mark.parametrize("asked", [20, 60])
def test_random_questions_far_out_hold(asked):
    rng = random.Random(43)
    answered = 0
    for _ in range(asked):
        rate, noise = 10 ** rng.uniform(-5.0, -1.0), 10 ** rng.uniform(-0.2, 0.6)
        steps, epsilon = round(10 ** rng.uniform(1.0, 4.5)), 10 ** rng.uniform(1.0, 4.0)
        try:
            bounds = spectral.log_delta(pairs.compose([(removing(rate, noise), steps)]), epsilon=epsilon)
            truth = OneExample(rate, noise, steps, "remove").log_delta(epsilon)
        except (LimitExceeded, Declined):
            continue
        answered += 1
        assert contains(bounds, truth), (rate, noise, steps, epsilon)
    assert answered > asked / 2


def test_the_oracle_goes_on_where_losses_are_nearly_multiples_of_one_number():
    """It stopped where the integrand was small, and it rises again beyond. The truth: trapezoid sums for both integrals
    in 200 bits, the same with two thirds of the step in u."""
    found = OneExample(0.014967146339430294, 2.513094560404374, 17_919, "remove").log_delta(143.3791486503966)
    assert found == pytest.approx(-6257.13456626613946, rel=1e-13)


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("rate", "noise", "steps", "group", "log_delta"),
    [
        (0.00542, 1.94, 92, 330, -230.2585),
        (0.0504, 1.70, 4, 108, -204.2),
        (0.0108, 3.64, 7, 233, -293.0),
        (0.000295, 2.45, 2726, 116, -230.2585),
        (0.00278, 0.877, 159, 383, -94.8),
        (0.0132, 0.522, 2104, 73, -230.2585),
    ],
)
def test_large_groups_have_narrow_answers_where_delta_is_far_below_a_cut_at_16_widths(
    rate, noise, steps, group, log_delta
):
    """S-38: outcomes cut off 16 widths beyond the edge cost e^-112 a round, which is more than these deltas."""
    run = DPSGD(PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)
    composition = question_of(run, group_size=group, adjacency="remove").compositions[0][1]
    found = spectral.epsilon(composition, log_delta=log_delta)
    assert found.relative_width <= (1e-8 if found.upper < 1e4 else 2e-7)
    assert found.intersects(lattice.epsilon(composition, log_delta=log_delta, tolerance=1e-3))
