"""Few rounds with rare and large losses: no tilt brings the trough at epsilon above the roundings, and bounds hold."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from flint import arb, ctx

import oracle
from engines.lattice_balls import binomial_mixture, composed, exact_loss, exact_mixture
from groupdp.engines import lattice


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
def test_two_rounds_by_quadrature_in_balls(group_size, rate, noise, epsilon):
    exact = _two_rounds(group_size, rate, noise, epsilon)
    composition = composed((binomial_mixture(group_size, rate, noise), 2), direction="remove")
    found = lattice.log_delta(composition, epsilon=epsilon)
    assert found.lower <= exact + 1e-7
    assert exact - 1e-7 <= found.upper


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("group_size", "rate", "noise", "log_delta", "valid"),
    [
        # Valid bounds by a single large loss (L-16) below, and from a composition in blocks above.
        (10, 1e-3, 2.0, math.log(1e-30), (2.18, 2.38)),
        (100, 1e-2, 1.0, math.log(1e-300), (6065.0, 7322.0)),
    ],
)
def test_ten_rounds_with_a_trough_at_epsilon(group_size, rate, noise, log_delta, valid):
    composition = composed((binomial_mixture(group_size, rate, noise), 10), direction="remove")
    found = lattice.epsilon(composition, log_delta=log_delta)
    assert valid[0] < found.lower < valid[1]
    assert found.lower <= found.upper
