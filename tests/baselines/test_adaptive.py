"""The Renyi filter and the cost of a search: never below what composition proves, and equal to what is known."""

from __future__ import annotations

import math

import pytest
from mpmath import mp, mpf

import groupdp
from groupdp import (
    DPSGD,
    ApproximateDP,
    DiscreteGaussianRelease,
    FixedBatchSampling,
    GaussianRelease,
    InvalidArgument,
    LaplaceRelease,
    PoissonSampling,
)
from groupdp.moments import log_moment, renyi_divergence
from groupdp.question import neighbours_of, question_of

TRAINING = DPSGD(PoissonSampling(rate=0.02), noise_multiplier=1.2, steps=300)
RUNS = [
    (GaussianRelease(2.0, releases=3), {"group_size": 2}),
    (TRAINING, {"group_size": 1}),
    (TRAINING, {"group_size": 4}),
    (TRAINING, {"group_size": 2, "adjacency": "substitute"}),
    ([TRAINING, LaplaceRelease(8.0)], {"group_size": 2}),
    ([TRAINING, ApproximateDP(0.2, per_person=True)], {"group_size": 2}),
]


def exact_moment(branch, alpha: float) -> mpf:
    """E[A^alpha B^{1 - alpha}] by mpmath's own quadrature."""

    def density(side, u):
        return sum(
            mp.exp(mpf(float(log_p)) + mpf(float(x)) * u - mpf(float(x)) ** 2 / 2)
            for x, log_p in zip(side.shifts, side.log_probabilities, strict=True)
        )

    def integrand(u):
        return density(branch.right, u) ** alpha * density(branch.left, -u) ** (1 - alpha) * mp.npdf(u)

    centre = alpha * branch.right.largest
    return mp.quad(integrand, [-30, -6, 0, centre / 2, centre, centre + 8, centre + 30])


@pytest.mark.parametrize("alpha", [1.25, 2.0, 7.5])
@pytest.mark.parametrize("adjacency", ["remove", "add", "substitute"])
def test_moments_of_group_pairs_are_above_the_exact_ones(alpha, adjacency):
    run = DPSGD(PoissonSampling(rate=0.1), noise_multiplier=1.5, steps=1)
    ((one, _),) = question_of(run, group_size=3, adjacency=adjacency).compositions[0][1]
    exact = mp.log(exact_moment(one.branches[0], alpha))
    assert exact <= log_moment(one, alpha) <= exact + mpf(10) ** -8


def test_moments_of_known_losses_are_closed_forms():
    ((laplace, _),) = question_of(LaplaceRelease(2.0), group_size=3).compositions[0][1]
    x, c = mpf(1.5), mpf(2)
    between = mp.quad(lambda loss: mp.exp((loss - x) / 2) / 4 * mp.exp(c * loss), [-x, x])
    exact = mp.log(mp.exp(c * x) / 2 + mp.exp(-x - c * x) / 2 + between)
    assert exact <= log_moment(laplace, 3.0) <= exact + mpf(10) ** -10
    ((box, _),) = question_of(ApproximateDP(0.5, per_person=True), group_size=3).compositions[0][1]
    exact = mp.log((mp.exp(mpf(0.5) * 3) + mp.exp(mpf(-0.5) * 2)) / (1 + mp.exp(mpf(0.5))))
    assert exact <= log_moment(box, 3.0) <= exact + mpf(10) ** -10


def test_the_divergence_of_a_gaussian_is_its_own():
    ((_, composition),) = question_of(GaussianRelease(2.0, releases=3), group_size=2, adjacency="add").compositions
    assert 7.5 <= renyi_divergence(composition, 5.0)[0] <= 7.5 * (1.0 + 1e-10)


@pytest.mark.parametrize(("run", "keywords"), RUNS)
@pytest.mark.parametrize("delta", [1e-3, 1e-8])
def test_a_filter_is_never_below_the_composition(run, keywords, delta):
    fixed = groupdp.epsilon(run, delta=delta, **keywords)
    adaptive = groupdp.filter_epsilon(run, delta=delta, **keywords)
    assert fixed.lower <= adaptive.upper <= 3.0 * fixed.upper + 1.0
    one_order = groupdp.filter_epsilon(run, delta=delta, orders=(8.0,), **keywords)
    assert fixed.lower <= one_order.upper


def test_every_further_order_costs_a_share_of_delta():
    run = GaussianRelease(2.0)
    alone = groupdp.filter_epsilon(run, delta=1e-6, group_size=1, orders=(9.0,)).upper
    beside = groupdp.filter_epsilon(run, delta=1e-6, group_size=1, orders=(9.0, 5000.0)).upper
    assert beside - alone == pytest.approx(math.log(2.0) / 8.0, rel=1e-6)


@pytest.mark.parametrize(("run", "keywords"), RUNS)
@pytest.mark.parametrize("trials", ["geometric", "poisson"])
def test_a_search_costs_more_than_its_best_run(run, keywords, trials):
    once = groupdp.epsilon(run, delta=1e-5, **keywords)
    few, many = (
        groupdp.tuned_epsilon(run, delta=1e-5, mean_trials=mean, trials=trials, **keywords).upper for mean in (2, 30)
    )
    assert once.lower <= few <= many


@pytest.mark.parametrize("trials", ["geometric", "poisson"])
def test_a_search_needs_both_orders_whichever_is_asked_for(trials):
    """The rank of a run may leak in the order that was not asked about: joining alone would leak a quarter of it."""
    run = DPSGD(PoissonSampling(rate=0.05), noise_multiplier=1.0, steps=20)
    asked = {"delta": 1e-6, "mean_trials": 10, "trials": trials, "group_size": 3}
    both = groupdp.tuned_epsilon(run, **asked).upper
    assert {groupdp.tuned_epsilon(run, adjacency=one, **asked).upper for one in ("add", "remove")} == {both}
    assert both > 2.0 * groupdp.filter_epsilon(run, delta=1e-6, group_size=3, adjacency="add").upper


def test_what_has_no_divergence_has_no_filter():
    assert groupdp.filter_epsilon(GaussianRelease(0.0), delta=1e-6, group_size=1).upper == math.inf
    fixed = DPSGD(FixedBatchSampling(batch_size=10, dataset_size=100), noise_multiplier=1.0, steps=1)
    assert groupdp.filter_epsilon(fixed, delta=1e-6, group_size=2, adjacency="substitute").upper == math.inf


def test_what_is_revealed_outright_has_a_tenth_of_delta():
    """(epsilon, delta) boxes pass while their deltas, grown by the group, add up to a tenth of the filter's."""
    pure = groupdp.filter_epsilon(ApproximateDP(0.3, per_person=True), delta=1e-6, group_size=1).upper
    box = ApproximateDP(0.3, 4e-8, per_person=False)
    assert groupdp.filter_epsilon([(box, 1)] * 2, delta=1e-6).upper < math.inf
    assert groupdp.filter_epsilon([(box, 1)], delta=1e-6).upper == pure
    assert groupdp.filter_epsilon([(box, 1)] * 3, delta=1e-6).upper == math.inf
    assert groupdp.filter_epsilon([(box, 3)], delta=1e-6).upper == math.inf


@pytest.mark.parametrize("sigma", [0.7, 5.0])
def test_a_discrete_gaussian_has_the_divergence_of_its_continuous_one(sigma):
    """Canonne, Kamath and Steinke 2020, Proposition 5: alpha m^2 / (2 sigma^2)."""
    change = neighbours_of(DiscreteGaussianRelease(sigma), group_size=3, adjacency="remove").changes[0]
    found, lost = DiscreteGaussianRelease(sigma).divergence(change, 4.0)
    assert 4.0 * 9.0 / (2.0 * sigma**2) == pytest.approx(found, rel=1e-9)
    assert 0.0 <= lost < 1e-300


@pytest.mark.parametrize(
    ("keywords", "argument"),
    [({"mean_trials": 0.5}, "mean_trials"), ({"mean_trials": 5, "trials": "fixed"}, "trials")],
)
def test_bad_searches_are_refused(keywords, argument):
    with pytest.raises(InvalidArgument) as error:
        groupdp.tuned_epsilon(TRAINING, delta=1e-6, group_size=1, **keywords)
    assert error.value.argument == argument


@pytest.mark.parametrize("orders", [(), (1.0,), "all", 3.0])
def test_bad_orders_are_refused(orders):
    with pytest.raises(InvalidArgument) as error:
        groupdp.filter_epsilon(TRAINING, delta=1e-6, group_size=1, orders=orders)
    assert error.value.argument == "orders"
