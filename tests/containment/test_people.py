"""The per-person view against the Gaussian closed form, counts skipped or not."""

from __future__ import annotations

import flint
import pytest
from flint import arb

import groupdp
from containment.balls import assert_contains, ball, gaussian_epsilon
from groupdp import people as view_module
from groupdp.people import people_view


@pytest.mark.parametrize("delta", [1e-3, 1e-40, 1e-290])
def test_everybody_s_epsilon_contains_the_truth(delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """q = 1: a person with k examples faces a Gaussian mechanism with shift k sqrt(T) / sigma."""
    monkeypatch.setattr(view_module, "MOST_WORK", 1000)  # so that some are bounded by their neighbours
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=1.0), noise_multiplier=40.0, steps=64)
    view = people_view(run, [1, 2, 2, 3, 7, 8, 20, 21, 50, 333], delta=delta)
    with flint.ctx.workprec(300):
        for count, bounds in zip(view.counts, view.epsilon, strict=True):
            truth = gaussian_epsilon(ball(delta), arb(count) * 8 / 40)
            assert_contains(bounds, truth, count)
