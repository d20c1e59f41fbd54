"""The envelope of fixed batches with members replaced: its curve, its measures and its composition."""

from __future__ import annotations

import json
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from engines.lattice.test_lattice_measures import TransformGrid, log_importance, prepare, rounded_step
from engines.lattice_balls import ExactCurve
from engines.pair_balls import BITS, Pair, envelope_delta
from groupdp import pairs
from groupdp.engines import lattice
from groupdp.pairs import ZERO, Round, Side, SubstitutionEnvelope
from paths import DATA
from strategies import examples

CASES = [
    case for case in json.loads((DATA / "pairs.json").read_text())["cases"] if case["kind"] == "fixed-batch-substitute"
]


def hypergeometric(batch_size, dataset_size, group_size) -> list[Fraction]:
    ways = math.comb(dataset_size, group_size)
    counts = range(min(group_size, batch_size) + 1)
    return [
        Fraction(math.comb(batch_size, i) * math.comb(dataset_size - batch_size, group_size - i), ways) for i in counts
    ]


def envelope(h: list[Fraction], unit: float) -> SubstitutionEnvelope:
    logs = [math.log(p.numerator) - math.log(p.denominator) if p else -math.inf for p in h]
    logs[0] = math.log1p(-float(1 - h[0])) if h[0] > Fraction(1, 2) else logs[0]
    law = np.array([float(p) for p in h]), np.array(logs)
    return SubstitutionEnvelope(
        Side.from_sensitivities(np.array([i * unit if i else 0.0 for i in range(len(h))]), law, 1.0)
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"k{case['group_size']}")
def test_golden_epsilons_of_the_envelope(case):
    h = hypergeometric(case["batch_size"], case["dataset_size"], case["group_size"])
    profile = envelope(h, 2.0 / float(case["noise_multiplier"]))
    found = lattice.epsilon(
        pairs.compose([(profile, case["steps"])]), log_delta=math.log(float(case["delta"])), tolerance=1e-5
    )
    truth = Decimal(case["epsilon"])
    unit = truth.copy_abs().scaleb(-int(case["digits"]))  # the table's last digit, roughly
    assert found.relative_width <= 1e-5
    assert Decimal(found.lower) <= truth + unit
    assert Decimal(found.upper) >= truth - unit


@examples(40)
@given(
    batch=st.integers(1, 40),
    rest=st.integers(0, 200),
    group_size=st.integers(1, 5),
    unit=st.floats(-3.0, 2.0).map(lambda e: 10.0**e),
    epsilon=st.one_of(st.just(0.0), st.floats(0.0, 8.0), st.floats(-6.0, 3.0).map(lambda e: 10.0**e)),
)
def test_the_curve_of_one_round_is_enclosed(batch, rest, group_size, unit, epsilon):
    # tries to break L-10
    h = hypergeometric(batch, batch + rest + group_size, group_size)
    found = lattice.log_delta(((envelope(h, unit), 1),), epsilon=epsilon)
    with ctx.workprec(1000):
        truth = envelope_delta(h, unit, epsilon).log()
        assert not arb(found.lower) > truth
        assert not arb(found.upper) < truth
        assert found.relative_width < 1e-7


@examples(12)
@given(
    batch=st.integers(1, 40),
    rest=st.integers(0, 2000),
    group_size=st.integers(1, 4),
    unit=st.sampled_from([0.05, 1.0, 4.0]),
    step=st.sampled_from([1e-3, 0.02]),
    up=st.booleans(),
)
def test_measures_bracket_the_profile_at_every_order(batch, rest, group_size, unit, step, up):
    # tries to break L-11, L-12 and L-13
    h = hypergeometric(batch, batch + rest + group_size, group_size)
    step = rounded_step(step * max(unit, unit**2))
    part = prepare(((envelope(h, unit), 1000),), log_delta=-20.0, tolerance=1e-6).parts[0]
    grid = TransformGrid(rate=1.0 / unit, step=step, length=1 << 18, left=0.0, theta_left=-0.1, theta_right=0.1)
    log_mass = log_importance(part.law, rate=grid.rate, epsilon=0.0, survival=None)
    mass = part.measure(grid, log_mass, share=1.0, up=up, advance=lambda _: None)
    rng = np.random.default_rng(batch)
    with ctx.workprec(BITS):
        curve = ExactCurve(mass)
        places = step * rng.integers(0, max(mass.highest, 2), 5)
        closest = math.inf
        for epsilon in np.concatenate((places, places + step * rng.random(5), [0.0, 0.5 * step])).tolist():
            truth, bound = envelope_delta(h, unit, epsilon), curve.delta(epsilon)
            assert not (bound < truth if up else bound > truth)
            closest = min(closest, float(abs(bound / truth - 1).mid()))
            if epsilon > 0.0:  # the other side, by symmetry
                a = (-arb(epsilon)).exp()
                mirrored, bound = 1 - a + a * truth, curve.delta(-epsilon)
                assert not (bound < mirrored if up else bound > mirrored)
    assert closest < 1e-2


def test_one_replaced_example_of_a_whole_batch_is_a_gaussian():
    # a batch of everything: the replaced example is always there
    h = [Fraction(0), Fraction(1)]
    profile, gaussian = envelope(h, 0.5), Round.of(Side.point(0.5), ZERO)
    for rounds in (1, 5):
        one = lattice.epsilon(((profile, rounds),), log_delta=-12.0)
        other = lattice.epsilon(((gaussian, rounds),), log_delta=-12.0)
        assert one.intersects(other)
        assert one.relative_width <= 1e-6


def test_profiles_compose_with_pairs():
    h = hypergeometric(5, 50, 2)
    other = Pair({0.0: Fraction(9, 10), 1.0: Fraction(1, 10)}, {0.0: Fraction(1)}).branch
    composition = pairs.compose([(envelope(h, 1.0), 3), (Round((other,)), 4), (envelope(h, 1.0), 2)])
    assert [times for _, times in composition] == [5, 4]
    found = lattice.epsilon(composition, log_delta=-10.0, tolerance=1e-5)
    alone = lattice.epsilon(composition[:1], log_delta=-10.0, tolerance=1e-5)
    assert found.relative_width <= 1e-5
    assert found.upper > alone.lower


def test_an_envelope_is_a_value():
    profile = envelope(hypergeometric(5, 50, 2), 1.0)
    assert pickle.loads(pickle.dumps(profile)) == profile
    assert hash(profile) == hash(envelope(hypergeometric(5, 50, 2), 1.0))
    assert profile.mirrored is profile
    assert profile.has_noise
    assert not profile.is_trivial
    assert not envelope(hypergeometric(5, 50, 2), math.inf).has_noise
    assert envelope(hypergeometric(5, 50, 2), 0.0).is_trivial
    with pytest.raises(AttributeError):
        profile.side = None
