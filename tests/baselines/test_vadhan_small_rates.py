"""Vadhan's lemma at small sampling rates: the search kept the Renyi value there, up to 580 times too large."""

from __future__ import annotations

import pytest

import groupdp
from groupdp.baselines import vadhan_epsilon, vadhan_epsilons
from groupdp.baselines.fdp import fdp_epsilon
from groupdp.baselines.smallest_feasible import Growth
from groupdp.baselines.vadhan import _always_sampled
from groupdp.bounds import Bounds, Provenance
from groupdp.engines import Options, lattice, spectral
from groupdp.question import question_of
from groupdp.tradeoff import TradeOff, delta_curve


def poisson(rate: float, noise: float, steps: int) -> groupdp.DPSGD:
    return groupdp.DPSGD(groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=steps)


RARE = poisson(512 / 1_008_000, 1.4167, 5907)
RARER = poisson(1e-4, 0.8, 20_000)


@pytest.mark.parametrize(
    ("run", "delta", "k", "expected"),
    [(RARE, 1e-6, 4, 0.5204806), (RARE, 1e-6, 26, 4.14739), (RARER, 1e-8, 12, 8.46488)],
)
def test_direct_bisection_on_log_delta_gives_the_same(run, delta, k, expected):
    """Expected values: bisection on `groupdp.log_delta` by hand."""
    found = vadhan_epsilon(run, delta=delta, group_size=k, form="geometric")
    assert found.lower == pytest.approx(expected, rel=2e-6)
    assert found.upper == pytest.approx(expected, rel=2e-6)
    assert found.width <= 1e-6 * found.upper
    assert found.provenance.tolerance_met


@pytest.mark.parametrize("form", ["lemma", "geometric"])
@pytest.mark.parametrize("k", [4, 26])
def test_the_curve_itself_shows_one_side_feasible_and_the_other_not(form, k):
    found = vadhan_epsilon(RARE, delta=1e-6, group_size=k, form=form)
    growth = Growth(form, k)
    for sign, side in ((-1.0, found.lower), (1.0, found.upper)):
        at = side / k * (1.0 + sign * 1e-9)
        log_delta = groupdp.log_delta(RARE, epsilon=at, group_size=1)
        excess = growth.value(at) + (log_delta.upper if sign > 0 else log_delta.lower) + 13.815510557964274
        assert sign * excess <= 0.0


def test_a_search_takes_few_values_of_delta():
    found = vadhan_epsilons(RARE, delta=1e-6, group_sizes=range(2, 33), form="geometric")
    assert all(bounds.provenance.tolerance_met for bounds in found)
    assert found[-1].provenance.evaluations["values of delta"] < 31 * 20


@pytest.mark.parametrize("epsilon", [0.5, 5.0, 60.0])
@pytest.mark.parametrize(("rate", "noise", "steps"), [(0.3, 1.0, 5), (0.9, 2.0, 40), (0.01, 0.5, 3)])
def test_an_example_that_is_always_sampled_bounds_delta_from_below(epsilon, rate, noise, steps):
    """B-4, against the engines."""
    run = poisson(rate, noise, steps)
    composition = question_of(run, group_size=1, adjacency="remove").compositions[0][1]
    bound = _always_sampled(composition, epsilon)
    assert bound <= groupdp.log_delta(run, epsilon=epsilon, group_size=1, adjacency="remove").upper


def test_the_statement_and_the_table_show_an_interval_where_only_that_is_known():
    from groupdp.statement.text import _lemma

    wide = Bounds(1470.25, 1766.0, Provenance(tolerance_met=False))
    assert _lemma(wide) == "an epsilon that is only known to lie between 1470.25 and 1766"
    assert _lemma(Bounds(1.0, 1.0)) == "epsilon = 1"


def test_a_curve_of_quick_contours_is_not_left_to_lattices(monkeypatch):
    """After 1e8 nodes times steps, a tenth of a second, the f-DP bound left every value to a lattice: 94 s in all."""
    quick = Bounds(-2.0, -1.0, Provenance(evaluations={"nodes": 10_000, "contour steps": 1_000}))
    monkeypatch.setattr(delta_curve, "log_delta_of", lambda *_: quick)
    composition = question_of(RARE, group_size=1, adjacency="remove").compositions[0][1]
    curve = delta_curve.DeltaCurve(composition, Options())
    for epsilon in range(40):  # 4e8 in all
        curve.log_delta(float(epsilon))
    assert not curve.is_costly


@pytest.fixture
def contours(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The epsilons for which contours are planned; a lattice is an error."""
    planned: list[float] = []
    plan = spectral.neighbourhood

    def counted(composition, epsilon):
        planned.append(epsilon)
        return plan(composition, epsilon)

    def refused(*_, **__):
        raise AssertionError("no lattice is needed")

    monkeypatch.setattr(spectral, "neighbourhood", counted)
    monkeypatch.setattr(lattice, "neighbourhood", refused)
    return planned


@pytest.mark.parametrize(("rate", "steps", "most"), [(0.01, 2000, 400), (1e-4, 10_000, 40), (1e-6, 10_000, 40)])
def test_a_curve_of_32_sizes_plans_few_contours(contours, rate, steps, most):
    found = vadhan_epsilons(poisson(rate, 1.0, steps), delta=1e-9, group_sizes=range(1, 33), form="geometric")
    assert len(contours) <= most
    assert all(one.provenance.tolerance_met for one in found[1:])


@pytest.mark.parametrize(("rate", "steps", "k"), [(0.01, 2000, 9), (1e-4, 10_000, 9), (1e-6, 10_000, 4)])
def test_the_f_dp_bound_plans_few_contours_and_is_known_closely(contours, rate, steps, k):
    run = poisson(rate, 1.0, steps)
    found = fdp_epsilon(run, delta=1e-9, group_size=k)
    assert len(contours) <= 120
    assert found.width <= 1e-6 * found.upper
    # Between the group's own epsilon and Vadhan's lemma, whose chain has equal epsilons.
    assert groupdp.epsilon(run, delta=1e-9, group_size=k).lower <= found.upper
    assert found.lower <= vadhan_epsilon(run, delta=1e-9, group_size=k, form="geometric").upper


def test_the_f_dp_bound_ends_where_the_intercept_is_delta(monkeypatch):
    """18 chains of tangents bisected alpha: its tangents did not move any more, and A stayed 1e-8 above delta."""
    asked = []
    tangent = TradeOff.tangent
    monkeypatch.setattr(TradeOff, "tangent", lambda self, at, near: asked.append(at) or tangent(self, at, near))
    found = fdp_epsilon(poisson(0.01, 1.0, 20), delta=2e-7, group_size=16)
    assert found.relative_width <= 1e-8
    assert len(asked) <= 2 * 16
