"""Blocks of rare collisions as laws of losses (docs/internals/laws.md, P-60)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import groupdp
from groupdp.engines import spectral
from groupdp.laws.blocks import as_losses, hidden_collisions
from groupdp.laws.rare_blocks import rare_law
from groupdp.losses import AtomsRound
from groupdp.pairs import Allocation, AllocationRound, compose

LOG_DELTA = math.log(1e-6)


def hockey_stick(places: int, shift: float, p: float, alpha: float) -> float:
    """E(X - alpha)_+ of one or two places, over the first in closed form and the second by quadrature."""

    def given(rest: float) -> float:
        x = (alpha - rest) / (p / places)
        if x <= 0.0:
            return p / places + rest - alpha
        z = math.log(x) / shift + 0.5 * shift
        return p / places * norm.sf(z - shift) - (alpha - rest) * norm.sf(z)

    if places == 1:
        return given(1.0 - p)
    kink = math.log(max((alpha - 1.0 + p) * places / p, 1e-300)) / shift + 0.5 * shift
    ends = sorted(
        {-12.0, *(min(max(kink + d, -12.0), 12.0 + shift) for d in (-0.5, -0.05, 0.0, 0.05, 0.5)), 12.0 + shift}
    )
    unit = p / places

    def integrand(z: float) -> float:
        return norm.pdf(z) * given(1.0 - p + unit * math.exp(shift * z - 0.5 * shift * shift))

    parts = [quad(integrand, a, b, epsabs=1e-18, epsrel=1e-11, limit=400)[0] for a, b in itertools.pairwise(ends)]
    return math.fsum(parts)


@pytest.mark.parametrize(("shift", "p"), [(2.0, 2e-4), (4.0, 6e-5), (6.0, 4e-10)])
@pytest.mark.parametrize("places", [1, 2])
def test_p_60_no_hockey_stick_is_smaller(places, shift, p):
    """P-60: at odds next to 1, at those of a single large place and of two; and it is hardly larger."""
    law = rare_law(Allocation(places, shift, math.log(p)))
    assert law is not None
    for alpha in (0.5, 1.0 - p, 1.0 - 0.5 * p, 1.0, 1.0 + p, 1.01, 1.3, 2.6, 7.0, 40.0, 3000.0):
        true = hockey_stick(places, shift, p, alpha)
        masses = np.exp(law.log_p)
        found = math.fsum(np.maximum(masses - alpha * np.exp(law.log_p - law.losses), 0.0)) + math.exp(law.log_lost)
        assert found >= true * (1.0 - 1e-9)
        assert found <= true * 1.02 + 0.3 * p


@pytest.mark.parametrize("k", [2, 4])
def test_p_60_answers_are_those_of_the_blocks(k):
    """P-60: with all blocks hidden exactly the contour takes longer, and has at most as much."""
    blocks = hidden_collisions(k, 10_000, 1.0, 3.1)
    assert blocks is not None
    exactly = spectral.epsilon(compose([(blocks, 2)]), log_delta=LOG_DELTA)
    replaced = compose((one, 2 * times) for one, times in as_losses(((blocks, 1),)))
    assert any(isinstance(one, AtomsRound) for one, _ in replaced)
    found = spectral.epsilon(replaced, log_delta=LOG_DELTA)
    assert exactly.lower <= found.upper <= exactly.upper * (1.0 + 2e-4)


def test_p_60_where_the_group_joins_blocks_stay_blocks():
    blocks = hidden_collisions(3, 10_000, 1.0, 3.1)
    assert blocks is not None
    ((kept, _),) = as_losses(((blocks.mirrored, 1),))
    assert isinstance(kept, AllocationRound)
    assert kept.reverse
    before, after = ([(one.shift, one.log_probability) for one, _ in part.products[0]] for part in (blocks, kept))
    assert before == after
    assert all(
        new.places <= old.places for (new, _), (old, _) in zip(kept.products[0], blocks.products[0], strict=True)
    )


def test_p_60_a_seldom_coin_is_mass_without_a_loss():
    blocks = hidden_collisions(16, 10_000, 0.125, 2.6)
    assert blocks is not None
    assert len(blocks.products) > 1
    for round_ in (blocks, blocks.mirrored):
        kept = as_losses(((round_, 1),))
        lost = [math.exp(one.log_lost) for one, _ in kept if isinstance(one, AtomsRound)]
        assert sum(lost) >= math.fsum(map(math.exp, round_.log_weights[1:]))
        assert all(len(one.products) == 1 for one, _ in kept if isinstance(one, AllocationRound))


@pytest.mark.parametrize("k", [4, 16])
def test_groups_have_less_in_more_batches(k):
    """4 members had 5.28 in 10^5 batches at noise 1/2, by Chernoff's bound, and 8.50 in 10^6; in 3 x 10^4, 3.15."""
    found = []
    for batches in (10_000, 30_000, 100_000, 300_000, 1_000_000):
        run = groupdp.DPSGD(groupdp.BallsInBinsSampling(batches=batches), noise_multiplier=0.5, steps=batches)
        found.append(groupdp.epsilon(run, delta=1e-6, group_size=k, adjacency="remove"))
        assert found[-1].relative_width < 1e-3
    assert all(later.upper < 0.85 * before.upper for before, later in itertools.pairwise(found))
