"""The sampled contour: aliases, truncation, the sum, roots, neighbourhoods (docs/internals/numerics.md)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx

import oracle
from engines.spectral_truth import PRECISION, branch_of, composition_of, enclosed
from groupdp import pairs
from groupdp.engines import spectral
from groupdp.engines.spectral import packed
from kernel_inspect import kernel
from oracle import closed as oracle_closed
from oracle import laws
from oracle.pairs import Gaussian, Round

#: Gaussian mechanisms of mu = 1 in all: every delta has a closed form.
GAUSSIAN = [(oracle.Mixture([1], [1], 4), 16)]
#: The same as the engine sees it, and as a quadrature sees it: two shifts that are next to equal.
POINT = ((pairs.Round.of(pairs.Side.point(0.25), pairs.ZERO), 16),)
COINS = {
    "substitute": laws.poisson("0.02", "1.5", 400, removed=2, added=2),
    "removed and added": laws.poisson("0.02", "1.5", 400, removed=3, added=1),
    "coin": [(Round([("0.7", branch_of("small shifts", "nothing")), ("0.3", branch_of("powers", "powers"))]), 60)],
    "both": [(Round([("0.8", Gaussian("0.25")), ("0.2", branch_of("small shifts", "small shifts"))]), 12)],
    "gaussians": [(Round([("0.9", Gaussian("0.25")), ("0.1", Gaussian("0.5"))]), 3)],
}


def gaussian_log_delta(epsilon: float) -> arb:
    return oracle_closed.gaussian_log_delta(GAUSSIAN, epsilon=epsilon)


@pytest.fixture(autouse=True)
def precision():
    with ctx.workprec(PRECISION):
        yield


@pytest.mark.parametrize("log_planned", [-3.0, -7.0])
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 9.0])
def test_s_4_s_5_the_aliases_are_within_their_bound(epsilon, log_planned):
    """S-4, S-5: sum over m != 0 of e^{m c Y} delta(eps + m Y), coarse on purpose."""
    found = kernel.contour(packed(POINT), epsilon, -40.0, log_planned)
    total = arb(0)
    for m in (-3, -2, -1, 1, 2, 3):
        shifted = gaussian_log_delta(epsilon + m * found["period"])
        total += (m * arb(found["tilt"]) * found["period"] + shifted).exp()
    assert total.log() <= arb(found["log_alias"])
    assert found["log_alias"] <= float(gaussian_log_delta(epsilon)) + log_planned + 1.0


@pytest.mark.parametrize("log_planned", [-4.0, -8.0])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_s_6_the_truncated_terms_are_within_their_bound(epsilon, log_planned):
    """S-6: for a Gaussian all terms are known, e^{-16 s^2 mu^2 / 2} |k|."""
    found = kernel.contour(packed(POINT), epsilon, -40.0, log_planned)
    step, c = arb(found["step"]), arb(found["tilt"])
    left_out = arb(0)
    for j in range(found["samples"], found["samples"] + 400):
        s = step * j
        left_out += (-s * s / 2).exp() / ((c * c + s * s) * ((1 + c) ** 2 + s * s)).sqrt()
    left_out *= step / arb.pi()
    last = arb(found["step"]) * (found["samples"] - 1)
    charge = arb(found["log_truncation"]).exp() / (arb.pi() * last)
    assert left_out <= charge
    # Both sides carry it, and the lower one the aliases: the enclosure is no narrower than that.
    scale = arb(found["log_scale"]) - c * arb(epsilon)
    width = (arb(found["upper"]) - scale).exp() - (arb(found["lower"]) - scale).exp()
    assert width >= 2 * charge + (arb(found["log_alias"]) - scale).exp()


@pytest.mark.parametrize("log_planned", [-3.0, -7.0, -32.0])
@pytest.mark.parametrize("epsilon", [-1.0, 0.0, 0.5, 3.0, 9.0])
def test_s_21_the_sum_encloses_delta(epsilon, log_planned):
    """S-21."""
    found = kernel.contour(packed(POINT), epsilon, -60.0, log_planned)
    assert enclosed((found["lower"], found["upper"]), gaussian_log_delta(epsilon))
    assert enclosed((found["corrected_lower"], found["corrected_upper"]), gaussian_log_delta(epsilon))


@pytest.mark.parametrize("log_planned", [-1.0, -2.0, -4.0])
def test_s_21_coarse_contours_enclose_delta_at_many_epsilons(log_planned):
    """S-21 with aliases and truncation of the size of delta itself."""
    answered = 0
    for epsilon in np.linspace(-1.0, 12.0, 105).tolist():
        found = kernel.contour(packed(POINT), epsilon, -60.0, log_planned)
        if found is not None:
            answered += 1
            assert enclosed((found["lower"], found["upper"]), gaussian_log_delta(epsilon))
    assert answered > 20


@pytest.mark.thinned(6)
@pytest.mark.parametrize(
    ("name", "epsilon"),
    [(name, epsilon) for name in COINS for epsilon in (-2.0, 0.0, 4.0) if name != "coin" or epsilon < 0.0],
)
def test_s_21_s_26_log_delta_of_coins_is_enclosed(name, epsilon):
    """S-21 and, below 0, S-26: delta(eps) = 1 - e^eps + e^eps delta_exchanged(-eps)."""
    found = spectral.log_delta(composition_of(COINS[name]), epsilon=epsilon)
    if epsilon >= 0.0:
        truth = oracle.log_delta(COINS[name], epsilon=epsilon)
    else:
        exchanged = oracle.log_delta(laws.mirrored(COINS[name]), epsilon=-epsilon)
        factor = arb(epsilon).exp()
        truth = (1 - factor + factor * exchanged.exp()).log()
    assert enclosed((found.lower, found.upper), truth)
    assert found.width <= 1e-9 * max(1.0, abs(found.upper))


@pytest.mark.parametrize("delta", ["0.3", "1e-6", "1e-40"])
@pytest.mark.parametrize("name", COINS)
def test_s_25_epsilon_of_coins_is_enclosed(name, delta):
    """S-25: both sides are evaluations of the enclosure."""
    composition, target = composition_of(COINS[name]), math.log(float(delta))
    found = spectral.epsilon(composition, log_delta=target)
    assert spectral.log_delta(composition, epsilon=found.upper).lower <= target
    assert spectral.log_delta(composition, epsilon=found.lower).upper >= target
    assert found.width <= 1e-9 * max(1.0, found.upper)
    for enough in (math.inf, 0.0):
        assert found.lower <= spectral.epsilon_ceiling(composition, log_delta=target, enough=enough)


@pytest.mark.parametrize("shift", [1e-3, -1e-3, 0.0])
def test_s_25_epsilon_at_and_next_to_0(shift):
    """S-25: delta(0) of mu = 1 is 2 Phi(1/2) - 1; above it epsilon is 0, below it is next to 0."""
    at_zero = gaussian_log_delta(0.0)
    target = float(at_zero) + shift
    found = spectral.epsilon(POINT, log_delta=target)
    if shift > 0.0:
        assert (found.lower, found.upper) == (0.0, 0.0)
    else:
        assert gaussian_log_delta(found.upper) <= target + 1e-15
        assert found.lower == 0.0 or gaussian_log_delta(found.lower) >= target - 1e-15
        assert found.width <= 1e-9


@pytest.mark.parametrize("name", ["substitute", "coin", "gaussians"])
@pytest.mark.parametrize("epsilon", [-2.0, 0.5, 4.0])
def test_a_neighbourhood_encloses_what_log_delta_encloses(name, epsilon):
    composition = composition_of(COINS[name])
    near = spectral.neighbourhood(composition, epsilon)
    points = epsilon + np.array([-0.2, -0.01, 0.0, 0.01, 0.2]) * min(near.deviation, 1.0)
    lower, upper, value, slope = near.evaluate(points)
    for place, point in enumerate(points.tolist()):
        found = spectral.log_delta(composition, epsilon=point)
        assert lower[place] <= found.upper
        assert found.lower <= upper[place]
        assert upper[place] - lower[place] <= 1e-7
        assert lower[place] - 1e-9 <= value[place] <= upper[place] + 1e-9
        assert near.log_delta(point) == (lower[place], upper[place])
        assert near.log_delta_slope(point) == (value[place], slope[place])
    difference = (value[3] - value[1]) / (points[3] - points[1])
    assert math.isclose(difference, slope[2], rel_tol=1e-3)


def test_there_is_no_neighbourhood_beyond_the_largest_loss():
    left = pairs.Side(np.array([0.0, 1.0]), (np.array([0.75, 0.25]), np.log([0.75, 0.25])))
    assert spectral.neighbourhood(((pairs.Round.of(pairs.ZERO, left), 40),), 40.0) is None


def _poisson_round(rate: float, noise: float, steps: int) -> pairs.Composition:
    law = (np.array([1.0 - rate, rate]), np.log([1.0 - rate, rate]))
    return ((pairs.Round.of(pairs.Side(np.array([0.0, 1.0 / noise]), law), pairs.ZERO), steps),)


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "epsilon"),
    [
        (1e-6, 1.0, 10_000, 1e-4),  # large losses in closed form (S-14)
        (1e-6, 1.0, 10_000, 0.01),  # middling losses told from small ones (S-39)
        (1e-3, 1.0, 1000, 100.0),  # beside small losses (S-50)
        (0.01, 1.0, 2000, 1e4),  # far out, with nothing left out
        (0.1, 1.0, 5, 2.0),  # few rounds
    ],
)
def test_the_contour_of_every_way_encloses_what_log_delta_encloses_around_it(rate, noise, steps, epsilon):
    """S-14, S-39, S-50: what has no contour is bounded anew for each epsilon."""
    composition = _poisson_round(rate, noise, steps)
    near = spectral.neighbourhood(composition, epsilon)
    points = epsilon * np.array([0.5, 0.97, 0.99, 0.9999, 1.0, 1.0001, 1.01, 1.03, 2.0])
    lower, upper = near.log_deltas(points)
    for place, point in enumerate(points.tolist()):
        found = spectral.log_delta(composition, epsilon=point)
        assert lower[place] <= found.upper
        assert found.lower <= upper[place]
    assert upper[4] - lower[4] <= 1e-8 * max(1.0, abs(upper[4]))
    assert np.all(upper[3:6] - lower[3:6] <= 1e-6 * max(1.0, abs(upper[4])))


def test_rare_sampling_has_the_same_delta_at_0_in_either_direction():
    """P(E) - Q(E) is largest where Q(E^c) - P(E^c) is: at epsilon 0 the two orders agree (S-26)."""
    composition = _poisson_round(1e-6, 1.0, 10_000)
    forward = spectral.log_delta(composition, epsilon=0.0)
    backward = spectral.log_delta(pairs.mirrored(composition), epsilon=0.0)
    assert max(forward.lower, backward.lower) <= min(forward.upper, backward.upper)
    assert forward.width <= 1e-9
