"""Composition block by block (L-22): bounds on every entry, and troughs that no tilt brings above the roundings."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpz_poly
from hypothesis import given
from hypothesis import strategies as st

import oracle
from engines.lattice_balls import binomial_mixture, composed, exact_loss, exact_mixture
from groupdp.bounds import Bounds, Provenance
from groupdp.engines import lattice, spectral
from groupdp.engines import lattice as lattice_engine
from groupdp.engines.lattice import compose
from strategies import examples

_BITS = 1100


def _exact(left: np.ndarray, right: np.ndarray) -> list[Fraction]:
    """The convolution, in integers: all entries are multiples of 2^-1100."""
    a, b = (fmpz_poly([int(Fraction(float(x)) * 2**_BITS) for x in values]) for values in (left, right))
    found = [int(x) for x in (a * b).coeffs()]
    return [Fraction(x, 4**_BITS) for x in found + [0] * (len(left) + len(right) - 1 - len(found))]


def _array(generator: np.random.Generator, length: int, slope: float) -> np.ndarray:
    """Entries that rise or fall by e^slope a step, over and over, around a trough of 200 digits."""
    places = np.arange(length)
    logs = slope * np.abs(places - length * generator.random()) + generator.normal(size=length)
    logs -= 460.0 * generator.random() * np.exp(-(((places - length / 2) / (length / 8)) ** 2))
    values = np.exp(np.maximum(logs - logs.max(), -690.0))
    values[(generator.random(length) < 0.1) & (values < 1.0)] = 0.0
    return values / values.sum()


def _measure(values: np.ndarray, first: int) -> compose._Measure:
    return compose._Measure(first, values, 0.0, -math.inf, 0.0)


@examples(25)
@given(
    seed=st.integers(0, 2**32),
    lengths=st.tuples(st.integers(1, 150), st.integers(1, 150)),
    slope=st.floats(-1.0, 1.0),
    block=st.sampled_from([32, 64]),
)
def test_every_entry_is_bounded_from_both_sides(seed, lengths, slope, block):
    generator = np.random.default_rng(seed)
    left, right = (_array(generator, length, slope) for length in lengths)
    exact = _exact(left, right)
    sums = np.array([float(sum(exact[max(0, n - 2 * block) : n + 2 * block])) for n in range(len(exact))])
    for up in (False, True):
        found = compose._convolved(_measure(left, -3), _measure(right, 5), 0.0, block, 10**6, up=up)
        assert found.first == 2
        values = found.values[: len(exact)]
        assert not np.any(found.values[len(exact) :] > 1e-11)
        if up:
            assert all(Fraction(float(value)) >= true for value, true in zip(values, exact, strict=True))
        else:
            assert all(Fraction(float(value)) <= true for value, true in zip(values, exact, strict=True))
        # What is off is in proportion to the surroundings.
        error = np.abs(values - np.array([float(true) for true in exact]))
        assert np.all(error <= 1e-12 * sums + 1e-140)


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_what_lies_beyond_the_end_goes_to_infinity(rate):
    generator = np.random.default_rng(3)
    values = generator.random(100)
    found = compose._convolved(_measure(values, 4), _measure(values, 4), rate * 0.25, 32, 60, up=True)
    exact = np.convolve(values, values) * np.exp(-rate * 0.25 * (8 + np.arange(199)))
    kept = np.sum(found.values * np.exp(-rate * 0.25 * (8 + np.arange(len(found.values)))))
    assert 60 < 8 + len(found.values) < 60 + 4 * 32
    assert kept + math.exp(found.log_infinite) >= exact.sum() * (1.0 - 1e-12)
    found = compose._convolved(_measure(values, 4), _measure(values, 4), rate * 0.25, 32, 60, up=False)
    assert np.all(found.values[:199] <= np.convolve(values, values)[: len(found.values)])


@pytest.fixture
def only_blocks(monkeypatch):
    """No transform of the whole."""
    provenance = Provenance(engine="lattice", tolerance=1e-6, tolerance_met=False)

    def wide(task, plan):
        saddle = task.locate(None)
        if task.of_epsilon:
            return Bounds(0.0, 1.5 * saddle.epsilon + 0.1, provenance)
        return Bounds(-math.inf, 0.0, provenance)

    monkeypatch.setattr(lattice_engine, "refine", wide)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize(
    "parts",
    [
        [(4, 0.1, 1.5, 60)],
        [(1, 0.02, 0.8, 33), (6, 0.01, 2.0, 40)],
    ],
)
def test_agrees_with_the_contour(only_blocks, parts, direction):
    composition = composed(*((binomial_mixture(*part[:3]), part[3]) for part in parts), direction=direction)
    log_delta = math.log(1e-9)
    reference = spectral.epsilon(composition, log_delta=log_delta)
    found = lattice.epsilon(composition, log_delta=log_delta)
    assert "solves in blocks" in found.provenance.evaluations
    assert found.lower <= reference.upper
    assert reference.lower <= found.upper
    if direction == "remove":  # adding has a largest loss, next to which the law is too steep for blocks
        assert found.relative_width <= 1e-5
    found = lattice.log_delta(composition, epsilon=reference.upper)
    assert found.lower <= log_delta + 1e-9
    assert log_delta - 1e-6 <= found.upper


def _two_rounds(group_size: int, rate: float, noise: float, epsilon: float) -> float:
    """log delta of two rounds: the integral, over one round's outcome, of the other's closed form at what is left.

    That bends sharply where what is left is the loss at rest: panels shrink towards there. Two rules must agree.
    """
    mixture = exact_mixture(group_size, rate, noise)
    rest = epsilon - group_size * math.log1p(-rate)
    low, high = -12.0, 60.0
    left, right = low, high
    for _ in range(60):
        middle = 0.5 * (left + right)
        left, right = (middle, right) if exact_loss(mixture, middle, "remove")[0] < rest else (left, middle)
    high = left + 10.0
    near = [left + sign * 2.0**-n for n in range(11) for sign in (-1, 1)]
    edges = sorted({*np.arange(low, high, 1.0).tolist(), high, left, *(u for u in near if low < u < high)})

    def rule(points: int) -> float:
        nodes, weights = np.polynomial.legendre.leggauss(points)
        total = arb(0)
        for a, b in itertools.pairwise(edges):
            for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
                u = 0.5 * (a + b) + 0.5 * (b - a) * node
                loss, log_density = exact_loss(mixture, u, "remove")
                log_rest = oracle.log_delta([(mixture, 1)], epsilon=epsilon - float(loss), direction="remove")
                total += (log_density + log_rest).exp() * weight * (b - a) / 2
        return float(total.log())

    with ctx.workprec(200):
        fine, coarse = rule(9), rule(7)
    assert abs(fine - coarse) < 1e-7
    return fine


@pytest.mark.parametrize(("group_size", "rate", "noise", "epsilon"), [(2, 1e-3, 2.0, 1.5)])
def test_two_rounds_by_quadrature_in_balls(only_blocks, group_size, rate, noise, epsilon):
    exact = _two_rounds(group_size, rate, noise, epsilon)
    composition = composed((binomial_mixture(group_size, rate, noise), 2), direction="remove")
    found = lattice.log_delta(composition, epsilon=epsilon)
    assert "solves in blocks" in found.provenance.evaluations
    assert found.lower <= exact + 1e-7
    assert exact - 1e-7 <= found.upper
    assert found.relative_width <= 1e-5


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("group_size", "rate", "noise", "log_delta", "valid"),
    [
        # Bounds by a single large loss (L-16) below, and by a transform of the whole above.
        (10, 1e-3, 2.0, math.log(1e-30), (2.18, 2.38)),
        (100, 1e-2, 1.0, math.log(1e-300), (6065.0, 7322.0)),
    ],
)
def test_ten_rounds_with_a_trough_at_epsilon(group_size, rate, noise, log_delta, valid):
    composition = composed((binomial_mixture(group_size, rate, noise), 10), direction="remove")
    found = lattice.epsilon(composition, log_delta=log_delta)
    assert valid[0] < found.lower <= found.upper < valid[1]
    assert found.relative_width <= 1e-6
    assert found.provenance.tolerance_met
