"""Large places left to closed forms, and known losses beside allocations (docs/internals/numerics.md, S-91 to S-94)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import acb, arb, arb_series, ctx

from groupdp.engines import lattice, spectral
from groupdp.engines.spectral import packed
from groupdp.losses import AtomsRound
from groupdp.pairs import Allocation, AllocationRound
from kernel_inspect import kernel
from oracle import allocation as oracle

LOG_DELTA = math.log(1e-6)


def packed_round(places: int, shift: float, p: float = 1.0):
    product = ((Allocation(places, shift, math.log(p)), 1),)
    return packed(((AllocationRound((product, product), (math.log(0.5),) * 2), 1),))


def phi_below(z: acb) -> acb:
    return (1 + (z / acb(2).sqrt()).erf()) / 2


@pytest.mark.parametrize("c", [1.0, 6.0, 25.0, 80.0])
@pytest.mark.parametrize(
    ("places", "shift", "p"),
    [
        (2, 0.5, 1.0),
        (5, 1.0, 1.0),
        (40, 1.0, 1.0),
        (3000, 1.0, 1.0),
        (3000, 2.0, 1.0),
        (20, 2.0, 1e-3),
        (300, 0.3, 0.4),
    ],
)
def test_s_91_inverse_moments(places, shift, p, c):
    """S-91: of X, and of X without one of its places over its mean; by the oracle's tables, right to seven digits."""
    bound = kernel.rare(packed_round(places, shift, p), 5.0, c)["log_inverse"]
    exact = oracle.log_moment((places, shift, p), complex(-c)).real
    assert bound >= exact * (1.0 - 1e-6) - 1e-9
    if places > 2:
        share = p * (places - 1) / places / (1.0 - p / places)
        fewer = oracle.log_moment((places - 1, shift, share), complex(-c)).real
        assert bound >= fewer * (1.0 - 1e-6) - 1e-9
    if places == 3000 and shift == 1.0:  # and it is of use
        assert bound <= 3.0 * exact


@pytest.mark.parametrize("w", [2, 3, 5, 8])
@pytest.mark.parametrize(
    ("places", "shift", "p", "cut"),
    [
        (100, 1.0, 1.0, 4.0),
        (20_000, 2.0, 1.0, 6.5),
        (20_000, 2.0, 1.0, 7.2),
        (1000, 4.0, 1e-4, 5.5),
        (3, 1.0, 1.0, 2.0),
    ],
)
def test_s_92_moments_by_layers(places, shift, p, cut, w):
    """S-92: w! times the coefficient of t^w of e^{(1 - p) t} (sum m_k t^k / k!)^M, as in S-45."""
    bound = kernel.rare(packed_round(places, shift, p), cut, w - 1.0)["log_layered"]
    with ctx.workprec(300):
        s, unit, before = arb(shift), arb(math.log(p)).exp() / places, ctx.cap
        ctx.cap = w + 1
        try:
            terms = [phi_below(acb(cut)).real]
            for k in range(1, w + 1):
                inside = phi_below(acb(cut - k * s)).real
                terms.append(unit**k * (s * s * k * (k - 1) / 2).exp() * inside / arb(k).gamma() / k)
            series = (arb_series(terms).log() * places + arb_series([0, 1 - unit * places])).exp()
            exact = float((series[w] * arb(w + 1).gamma()).log())
        finally:
            ctx.cap = before
    assert bound >= exact
    assert bound <= max(exact, 0.0) + 3.0 or bound == math.inf


@pytest.mark.parametrize(("places", "shift", "p"), [(2, 0.5, 1.0), (1000, 1.0, 1.0), (300, 2.0, 1e-4), (9, 5.0, 1e-9)])
@pytest.mark.parametrize("cut", [1.0, 4.5, 6.0, 9.0])
def test_s_93_what_is_beyond_a_cut(places, shift, p, cut):
    """S-93: -log of the probability that no place is beyond the cut, under Q and P."""
    found = kernel.rare(packed_round(places, shift, p), cut, 1.0)
    with ctx.workprec(200):
        inside, moved = phi_below(acb(cut)).real, phi_below(acb(arb(cut) - arb(shift))).real
        probability = arb(math.log(p)).exp()
        q, kept = inside**places, inside**places * (1 - probability + probability * moved / inside)
        exact_q, exact_p = float(-q.log()), float(-kept.log())
    assert abs(math.exp(found["log_q"]) / exact_q - 1.0) <= found["relative"] < 1e-9
    assert abs(math.exp(found["log_p"]) / exact_p - 1.0) <= found["relative"]


#: (places, shift, times, epochs): single large places have most of delta.
HEAVY = [(2500, 2.0, 4, 1), (10_000, 2.0, 2, 5), (25_000, 2.0, 4, 1), (1000, 1.0, 3, 1)]


@pytest.mark.parametrize(("places", "shift", "times", "epochs"), HEAVY)
def test_s_93_the_lattice_encloses_single_large_places(places, shift, times, epochs):
    """S-93: the lattice engine, which shares nothing with the contour, is a few per cent wide here."""
    part = ((Allocation(places, shift), times),)
    composition = ((AllocationRound((part,)), epochs),)
    found = spectral.epsilon(composition, log_delta=LOG_DELTA)
    around = lattice.epsilon(composition, log_delta=LOG_DELTA, tolerance=1e-2)
    assert around.lower <= found.upper
    assert found.lower <= around.upper
    assert found.relative_width < 1e-5
    assert spectral.log_delta(composition, epsilon=found.upper).lower <= LOG_DELTA


def test_s_93_more_places_and_less_noise_are_monotone():
    """One epoch of a million batches and noise 1/2 had a curve 10 per cent wide, after seconds."""
    uppers = [
        spectral.epsilon(((AllocationRound((((Allocation(m, s), 4),),)), 1),), log_delta=LOG_DELTA).upper
        for m, s in ((25_000, 2.2), (25_000, 2.0), (75_000, 2.0), (250_000, 2.0), (250_000, 1.9))
    ]
    assert uppers == sorted(uppers, reverse=True)


@pytest.mark.parametrize("log_lost", [-math.inf, math.log(1e-8)])
def test_s_94_losses_beside_allocations_shift_their_curve(log_lost):
    """S-94 beside R-6: delta(eps) = sum p_i delta'(eps - l_i), and e^log_lost more on the upper side."""
    rest = ((AllocationRound((((Allocation(400, 0.5), 4),),)), 5),)
    losses, log_p = np.array([-0.02, 0.1, 0.4]), np.log([0.9, 0.07, 0.03])
    both = (*rest, (AtomsRound(losses, log_p, log_lost=log_lost), 1))
    for epsilon in (0.5, 0.7):
        found = spectral.log_delta(both, epsilon=epsilon)
        shifted = [spectral.log_delta(rest, epsilon=epsilon - loss) for loss in losses]
        least = math.log(math.fsum(math.exp(p + one.lower) for p, one in zip(log_p, shifted, strict=True)))
        whole = math.fsum(math.exp(p + one.upper) for p, one in zip(log_p, shifted, strict=True))
        most = math.log(whole + math.exp(log_lost))
        assert found.lower <= most + 1e-12
        assert found.upper >= most - 1e-6
        assert found.upper - found.lower < 1e-6 + math.exp(log_lost - least)


def test_s_94_losses_beyond_epsilon_have_a_closed_form():
    """S-94, S-14: an atom far beyond epsilon, of more than half of delta, beside single large places."""
    rest = ((AllocationRound((((Allocation(25_000, 2.0), 4),),)), 1),)
    alone = spectral.epsilon(rest, log_delta=LOG_DELTA).upper
    rare = AtomsRound(np.array([0.0, 8.0]), np.array([math.log1p(-6e-7), math.log(6e-7)]))
    found = spectral.epsilon((*rest, (rare, 1)), log_delta=LOG_DELTA)
    assert found.relative_width < 1e-5
    assert found.lower > alone
    left = 1e-6 - 6e-7 * (1.0 - math.exp(found.upper - 8.0))
    assert spectral.log_delta(rest, epsilon=found.upper).upper <= math.log(left) + 1e-4
