"""Outcomes that settle the matter by themselves: what they contribute to delta, held against direct integration.

Two or three rounds are few enough to integrate (dP - e^eps dQ)_+ over the discarded outcomes as it stands.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx
from scipy.special import log_ndtr

import groupdp
from engines.spectral_truth import true_psi
from groupdp.engines.spectral import _kernel as kernel
from groupdp.engines.spectral import compiled
from oracle import Mixture
from oracle.closed import one_round_log_delta

#: sensitivities, probabilities, noise, rounds, log delta, epsilon
CASES = {
    "one in a hundred": ([0.0, 1.0], [0.99, 0.01], 0.8, 2, -8.0, 1.0),
    "two sizes": ([0.0, 1.0, 2.0], [0.97, 0.025, 0.005], 0.7, 2, -10.0, 2.0),
    "one in ten": ([0.0, 1.0], [0.9, 0.1], 1.0, 3, -6.0, 0.8),
    "a small epsilon": ([0.0, 1.0], [0.995, 0.005], 0.9, 2, -9.0, 0.2),
}


def discarded(name: str, *, rounds: int | None = None) -> tuple[float, ...]:
    sensitivities, probabilities, noise, count, log_delta, epsilon = CASES[name]
    mixture = groupdp.MixtureOfGaussians(sensitivities, probabilities, noise)
    (phase,) = compiled.packed(((mixture, rounds or count),))
    found = kernel.discarded(phase, log_delta, epsilon)
    assert found is not None
    return found


@pytest.mark.parametrize("name", CASES)
def test_what_is_discarded_is_known_to_its_stated_error(name):
    sensitivities, probabilities, noise, _, _, _ = CASES[name]
    edge, width, eta, zeta, relative_error, *_ = discarded(name)
    with ctx.workprec(200):
        spread = (1 + arb(width) ** 2).sqrt() * arb(2).sqrt()
        shifts = [arb(c) / arb(noise) for c in sensitivities]
        law = [arb(p) / sum(arb(q) for q in probabilities) for p in probabilities]
        under_p = sum(p * ((arb(edge) - m) / spread).erfc() / 2 for m, p in zip(shifts, law, strict=True))
        under_q = (arb(edge) / spread).erfc() / 2
        assert abs(under_p - arb(eta)) <= arb(relative_error) * under_p
        assert abs(under_q - arb(zeta)) <= arb(relative_error) * under_q
    assert relative_error < 1e-12


@pytest.mark.parametrize("name", CASES)
def test_its_part_of_delta_is_enclosed(name):
    sensitivities, probabilities, noise, rounds, _, epsilon = CASES[name]
    edge, width, _, _, _, p, q, least, most, _ = discarded(name)
    step = 0.02 if rounds == 2 else 0.06
    u = np.arange(-9.0, 16.0, step)
    ratio = sum(
        weight * np.exp(c / noise * u - 0.5 * (c / noise) ** 2)
        for c, weight in zip(sensitivities, probabilities, strict=True)
    )
    density = np.exp(-0.5 * u * u) * step / math.sqrt(2.0 * math.pi)
    kept = np.exp(log_ndtr((edge - u) / width))
    last_two = [np.multiply.outer(x, x) for x in (density, kept, ratio)]
    firsts = [(1.0, 1.0, 1.0)] if rounds == 2 else list(zip(density, kept, ratio, strict=True))
    part = math.fsum(
        d * float(np.sum(last_two[0] * (1.0 - k * last_two[1]) * np.maximum(r * last_two[2] - math.exp(epsilon), 0.0)))
        for d, k, r in firsts
    )
    # The integrand has a kink, where what is discarded is next to nothing: the sums are good to about 1e-11.
    assert least <= part * (1.0 + 1e-10)
    assert part * (1.0 - 1e-10) <= most
    assert most - least <= 1e-6 * most
    assert most < 0.999 * p  # closer than the plain P(D)
    assert math.isclose(least, p - math.exp(epsilon) * q, rel_tol=1e-9)


@pytest.mark.parametrize("name", ["one in a hundred", "two sizes", "a small epsilon"])
def test_what_may_be_undone_is_within_the_remainder(name):
    # Two rounds: sum over them of E_Q[(1 - chi(U)) delta_add(Psi(U) - eps)], delta_add that of the one other round.
    sensitivities, probabilities, noise, rounds, _, epsilon = CASES[name]
    edge, width, *_, remainder = discarded(name)
    mixture = Mixture(sensitivities, probabilities, noise)
    total = arb(0)
    step = arb(0.05)
    with ctx.workprec(120):
        for n in range(-60, 200):
            u = step * n
            psi = true_psi(mixture, u)
            given_up = ((arb(edge) - u) / arb(width) / arb(2).sqrt()).erfc() / 2
            log_delta = one_round_log_delta(mixture, epsilon=float(psi - arb(epsilon)), direction="add")
            undone = log_delta.exp() if log_delta.is_finite() else arb(0)
            total += step * given_up * (-u * u / 2).exp() / (2 * arb.pi()).sqrt() * undone
    assert 0 < rounds * float(total) <= remainder
    assert rounds * 1e-300 < remainder < 1e-9


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("epochs", [1, 10])
@pytest.mark.parametrize("rate", [1e-3, 1e-5])
def test_about_an_epoch_of_training_gets_many_digits(rate, epochs, direction):
    # Once these took a second each, and the sides were 1e-3 apart.
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=0.8, steps=round(epochs / rate))
    bounds = groupdp.epsilon(run, delta=1e-9, group_size=4, adjacency=direction, engine="spectral")
    assert bounds.relative_width <= 1e-7
    assert groupdp.log_delta(
        run, epsilon=bounds.upper, group_size=4, adjacency=direction, engine="spectral"
    ).lower <= math.log(1e-9)
    assert groupdp.log_delta(
        run, epsilon=bounds.lower, group_size=4, adjacency=direction, engine="spectral"
    ).upper >= math.log(1e-9)
