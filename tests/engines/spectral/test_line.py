"""Nodes on a line off the real axis (S-51, S-52), and the answers that they allow: few rounds of every kind."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from flint import acb, arb, ctx
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

import oracle
from engines.spectral_truth import binomial, composition_of
from groupdp import DPSGD, PoissonSampling, pairs
from groupdp.engines import spectral
from groupdp.engines.spectral import packed
from groupdp.question import question_of
from kernel_inspect import kernel
from oracle.pairs import Branch, Round
from strategies import examples

PRECISION = 1600
SIDES = {
    "nothing": ([0.0], [1.0]),
    "one in a thousand": ([0.0, 2.0], [1.0 - 2.0**-10, 2.0**-10]),
    "groups of eight": binomial(8, 2.0**-7, 2.0),
    "next to all": binomial(4, 1.0 - 2.0**-5, 1.0),
    "rare": ([0.0, 1.0], [1.0 - 2.0**-20, 2.0**-20]),
}
#: right, left, tilt, frequency, (edge, width), lower, cut
LINES = {
    "added, few": ("nothing", "one in a thousand", 3e4, 2e7, (0.0, 0.0), 0.0, 0.0),
    "added, groups": ("nothing", "groups of eight", 300.0, 5e5, (0.0, 0.0), 0.0, 0.0),
    "added, next to all": ("nothing", "next to all", 10.0, 5e3, (0.0, 0.0), 0.0, 0.0),
    "removed": ("one in a thousand", "nothing", 2.0, 3e3, (7.0, 0.2), 0.0, 0.0),
    "removed, cut off": ("groups of eight", "nothing", 1.5, 2e3, (6.5, 0.1), 0.0, 8.1),
    "removed, middling": ("rare", "nothing", 50.0, 1e8, (6.0, 0.05), 4.0, 6.8),
    "replaced": ("one in a thousand", "one in a thousand", 1.0, 2e3, (6.0, 0.2), 0.0, 0.0),
}


def density(side: str, v: acb, sign: int) -> acb:
    """R(v) of one side, or of its mirror image."""
    shifts, weights = SIDES[side]
    total = acb(0)
    for m, p in zip(shifts, weights, strict=True):
        total += arb(p) * (sign * arb(m) * v - arb(m) ** 2 / 2).exp()
    return total


def kept(u: acb, edge: float, width: float, lower: float) -> acb:
    if not width:
        return acb(1)
    scale = arb(width) * arb(2).sqrt()
    chi = ((u - arb(edge)) / scale).erfc() / 2
    return chi - ((u - arb(lower)) / scale).erfc() / 2 if lower else chi


def line_of(name: str, log_tolerance: float = -30.0) -> dict[str, object]:
    right, left, tilt, frequency, (edge, width), lower, cut = LINES[name]
    branch = Branch(oracle.Mixture(*SIDES[right], 1), oracle.Mixture(*SIDES[left], 1))
    one = packed(composition_of([(Round([(1, branch)]), 1)]))
    found = kernel.off_axis(one, edge, width, tilt, frequency, log_tolerance, lower, cut)
    assert found is not None
    return found


def test_s_52_the_normal_tail_off_the_axis_is_within_its_stated_error():
    """S-52: next to a node and between two, on both sides of the axis, beyond the poles and before them."""
    with ctx.workprec(PRECISION):
        for y in (0.0, 0.1, 0.1125, 0.225, 0.3375, 0.44, 0.45, 0.9, 1.3, 1.73, 2.4):
            for x in (-9.0, -7.4, -3.0, -1.36, -0.2, -1e-9, 0.0, 1e-12, 0.05, 0.4, 1.0, 3.0, 6.4, 6.6, 9.0):
                real, imaginary, error = kernel.normal_tail(x, y)
                truth = acb(x, y).erfc() / 2
                assert abs(acb(real, imaginary) - truth) <= error
                assert error <= 1e-12 * (1.0 + math.exp(y * y - x * x))


@pytest.mark.parametrize("name", LINES)
def test_s_52_weights_and_losses_are_within_their_stated_errors(name):
    """S-52."""
    right, left, tilt, _, (edge, width), lower, _ = LINES[name]
    found = line_of(name)
    with ctx.workprec(PRECISION):
        scale = arb(found["step"]) / (2 * arb.pi()).sqrt() * (-arb(found["log_moment"])).exp()
        for j in range(0, len(found["u"]), 7):
            u = acb(found["u"][j], found["distance"])
            log_a, log_b = density(right, u, 1).log(), density(left, u, -1).log()
            psi = log_a - log_b
            weight = scale * (-u * u / 2 + log_a + tilt * psi).exp() * kept(u, edge, width, lower)
            assert abs(acb(found["loss"][j], found["loss_imaginary"][j]) - psi) <= found["loss_error"][j]
            assert abs(acb(found["weight"][j], found["weight_imaginary"][j]) - weight) <= found["weight_error"][j]
            assert found["loss_imaginary"][j] >= 0.0
            assert found["loss_error"][j] <= 1e-12 * (1.0 + abs(found["loss"][j]))
    assert sum(found["weight_error"]) <= 1e-10


@functools.cache
def moment(name: str, s: float, distance: float, end: float) -> acb:
    """G(c + is): along the line, where nothing oscillates, and down to the axis where the outcomes are cut off."""
    right, left, tilt, _, (edge, width), lower, _ = LINES[name]
    z = acb(tilt, s)

    def integrand(u: acb, _: object) -> acb:
        log_a, log_b = density(right, u, 1).log(), density(left, u, -1).log()
        return (-u * u / 2 + log_a + z * (log_a - log_b)).exp() * kept(u, edge, width, lower)

    with ctx.workprec(PRECISION):
        points = [-12.0, -6.0, -2.0, 0.0, 2.0, 4.0, 6.0, 8.0]
        corners = [acb(x, distance) for x in points if x < end] + [acb(end, distance)]
        corners += [acb(end)] if end < 12.0 else []
        total = acb(0)
        for a, b in itertools.pairwise(corners):
            total += acb.integral(integrand, a, b, rel_tol=2**-70, abs_tol=arb(2) ** -200)
        return total / (2 * arb.pi()).sqrt()


@pytest.mark.thinned(6)
@pytest.mark.parametrize("log_tolerance", [-30.0, -5.0])
@pytest.mark.parametrize("name", LINES)
def test_s_51_the_sum_over_a_line_is_within_its_stated_error_at_every_frequency(name, log_tolerance):
    """S-51: as few nodes at the highest frequency as at the lowest; with few of them the rule is all of the error."""
    _, _, tilt, frequency, _, _, cut = LINES[name]
    found = line_of(name, log_tolerance)
    distance, end = found["distance"], found["end"] if cut else 12.0
    weights = np.array(found["weight"]) + 1j * np.array(found["weight_imaginary"])
    losses = np.array(found["loss"]) + 1j * np.array(found["loss_imaginary"])
    assert len(losses) < 4000
    stated = math.exp(found["log_error"])
    assert stated < math.exp(log_tolerance + 7.0)
    assert found["log_error"] >= -2.0 * math.pi * distance / found["step"]  # of the integral over the axis alone
    size = moment(name, 0.0, distance, end)
    for s in (0.0, 0.3 * tilt, 0.01 * frequency, frequency):
        truth = moment(name, s, distance, end) / size
        rounding = np.sum(np.array(found["weight_error"]) + s * np.abs(weights) * np.array(found["loss_error"]))
        rounding += 1e-15 * np.sum(np.abs(weights) * (1.0 + s * np.abs(losses)))
        error = abs(acb(complex(np.sum(weights * np.exp(1j * s * losses)))) - truth)
        assert error <= 3.0 * stated + 2.0 * rounding


POINTS, WEIGHTS = np.polynomial.legendre.leggauss(12)


def adding_loss(rate: float, shift: float, u: np.ndarray) -> np.ndarray:
    return -np.log1p(rate * np.expm1(-shift * u - 0.5 * shift * shift))


def adding_once(rate: float, shift: float, epsilon: np.ndarray) -> np.ndarray:
    """delta of N(0, 1) against (1 - rate) N(0, 1) + rate N(-shift, 1), in closed form."""
    left = np.expm1(-epsilon) / rate + 1.0  # e^{-x u - x^2 / 2} where the loss is epsilon
    reached = left > 0.0
    u = -np.log(np.where(reached, left, 1.0)) / shift - 0.5 * shift
    below, above = ndtr(-u), rate * ndtr(-u - shift)
    return np.where(reached, -np.expm1(epsilon + math.log1p(-rate)) * below - np.exp(epsilon) * above, 0.0)


def added(rate: float, shift: float, rounds: int, epsilon: float) -> float:
    """delta of two or three rounds: the closed form of one, integrated over the others on panels that shrink towards
    the outcome from which on the last round can make up for what is missing."""
    room = epsilon + (rounds - 1) * math.log1p(-rate)  # what this round must have at least
    left = math.expm1(-room) / rate + 1.0
    first = max(-math.log(left) / shift - 0.5 * shift, -9.0)
    edges = np.unique(
        np.concatenate([[first], first + 3.0 ** np.arange(-24.0, 0.0), np.arange(first + 1.0, 12.0, 0.5)])
    )
    half = 0.5 * np.diff(edges)
    u = (np.add.outer(edges[:-1] + half, np.zeros(12)) + np.multiply.outer(half, POINTS)).ravel()
    weights = np.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi) * np.multiply.outer(half, WEIGHTS).ravel()
    rest = epsilon - adding_loss(rate, shift, u)
    if rounds == 2:
        return math.fsum(weights * adding_once(rate, shift, rest))
    matter = weights > 1e-20
    return math.fsum(
        weight * added(rate, shift, rounds - 1, one)
        for weight, one in zip(weights[matter].tolist(), rest[matter].tolist(), strict=True)
    )


@pytest.mark.parametrize(
    ("rate", "shift", "rounds", "delta"),
    [(1e-3, 2.0, 2, 1e-5), (0.01, 2.0, 2, 1e-5), (0.1, 2.0, 2, 1e-7), (0.5, 2.0, 2, 1e-6), (1e-3, 2.0, 3, 1e-5)],
)
def test_s_51_two_and_three_added_rounds_are_enclosed_to_nine_digits(rate, shift, rounds, delta):
    """They were declined, or took a tenth of a second."""
    law = np.array([1.0 - rate, rate]), np.array([math.log1p(-rate), math.log(rate)])
    one = pairs.Round.of(pairs.ZERO, pairs.Side(np.array([0.0, shift]), law))
    bounds = spectral.epsilon(pairs.compose([(one, rounds)]), log_delta=math.log(delta))
    assert bounds.width <= 1e-9 * bounds.upper
    assert added(rate, shift, rounds, bounds.lower * (1.0 - 1e-12)) >= delta * (1.0 - 1e-7)
    assert added(rate, shift, rounds, bounds.upper * (1.0 + 1e-12)) <= delta * (1.0 + 1e-7)


@examples(25)
@given(
    rate=st.floats(1e-4, 0.9),
    noise=st.floats(0.5, 3.0),
    steps=st.integers(2, 12),
    group_size=st.integers(1, 8),
    log_delta=st.floats(-23.0, -9.0),
    name=st.sampled_from(["add", "remove"]),
)
def test_few_rounds_are_narrow_and_more_of_them_never_safer(rate, noise, steps, group_size, log_delta, name):
    def epsilon(count):
        run = DPSGD(PoissonSampling(rate=rate), noise_multiplier=noise, steps=count)
        composition = dict(question_of(run, group_size=group_size).compositions)[name]
        return spectral.epsilon(composition, log_delta=log_delta)

    fewer, more = epsilon(steps), epsilon(steps + 1)
    assert fewer.lower <= more.upper
    assert fewer.width <= 1e-8 * max(fewer.upper, 1e-9)
    if name == "add":
        assert fewer.upper <= -steps * group_size * math.log1p(-rate) * (1.0 + 1e-12)
