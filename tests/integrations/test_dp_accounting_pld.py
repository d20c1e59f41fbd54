"""Privacy loss distributions to and from dp_accounting."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as theirs

import groupdp
from groupdp.integrations.dp_accounting_pld import (
    from_dp_accounting,
    release_from_dp_accounting,
    run_to_dp_accounting,
    to_dp_accounting,
)
from refusals import refused

MIXTURE = groupdp.MixtureOfGaussians([0.0, 1.0, 2.0], [0.81, 0.18, 0.01], 1.5)
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 3.0)


def ours(direction, grid_step=1e-3, mixture=MIXTURE):
    return groupdp.PrivacyLossDistribution.from_mixture(mixture, direction=direction, grid_step=grid_step)


def test_what_is_exported_is_our_upper_measure():
    remove, add = ours("remove"), ours("add")
    exported = to_dp_accounting(remove, add)
    for epsilon in EPSILONS:
        upper = max(remove.delta(epsilon).upper, add.delta(epsilon).upper)
        found = exported.get_delta_for_epsilon(epsilon)
        assert found == pytest.approx(upper, rel=1e-9, abs=1e-28)


def test_grids_match_bit_for_bit_so_that_theirs_compose_with_ours():
    remove, add = ours("remove"), ours("add")
    exported = to_dp_accounting(remove, add)
    laplace = theirs.from_laplace_mechanism(10.0, value_discretization_interval=remove.grid_step)
    composed = exported.compose(laplace)
    assert composed.get_epsilon_for_delta(1e-5) > exported.get_epsilon_for_delta(1e-5)
    with pytest.raises(ValueError, match="Discretization intervals are different"):
        exported.compose(theirs.from_laplace_mechanism(10.0, value_discretization_interval=1e-3))


def test_composed_over_there_and_over_here():
    remove, add = ours("remove"), ours("add")
    here = max(one.self_compose(20).epsilon(1e-6).upper for one in (remove, add))
    there = to_dp_accounting(remove, add).self_compose(20).get_epsilon_for_delta(1e-6)
    assert there == pytest.approx(here, rel=1e-6)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("interval", [1e-3, 2.0**-10])
def test_what_is_imported_bounds_theirs_from_above(direction, interval):
    gaussian = theirs.from_gaussian_mechanism(
        1.0, sampling_prob=0.1, value_discretization_interval=interval, use_connect_dots=True
    )
    imported = from_dp_accounting(gaussian, direction=direction)
    pmf = gaussian._pmf_remove if direction == "remove" else gaussian._pmf_add
    for epsilon in EPSILONS:
        found = imported.delta(epsilon)
        assert found.lower == 0.0
        assert found.upper >= pmf.get_delta_for_epsilon(epsilon) * (1 - 1e-9)
        assert found.upper <= pmf.get_delta_for_epsilon(epsilon - imported.grid_step) * (1 + 1e-9)
    exact = imported.grid_step == interval
    assert exact == (interval == 2.0**-10)
    if exact:
        assert np.array_equal(imported.upper.masses, pmf.to_dense_pmf()._probs)


def test_an_imported_mechanism_composes_with_a_run():
    run, step = ours("remove", 1e-3), ours("remove", 1e-3).grid_step
    laplace = theirs.from_laplace_mechanism(4.0, value_discretization_interval=step)
    both = run.self_compose(50).compose(from_dp_accounting(laplace, direction="remove", grid_step=step))
    alone = run.self_compose(50).epsilon(1e-6)
    # Laplace noise of scale 4 is 0.25-DP: basic composition bounds what it may add.
    assert alone.upper < both.epsilon(1e-6).upper <= alone.upper + 0.25 + 1e-3
    assert both.epsilon(1e-6).lower == pytest.approx(alone.lower, rel=1e-6)  # the import may do nothing at all
    assert from_dp_accounting(laplace, direction="remove", grid_step=step).epsilon(1e-6).lower == 0.0


@pytest.mark.parametrize("adjacency", ["add-or-remove", "substitute", "zero-out"])
def test_a_whole_run_is_exported(adjacency):
    phases = [
        groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.02), noise_multiplier=2.0, steps=60),
        groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.01), noise_multiplier=3.0, steps=40),
    ]
    exported = run_to_dp_accounting(phases, group_size=3, adjacency=adjacency)
    bounds = groupdp.epsilon(phases, delta=1e-6, group_size=3, adjacency=adjacency)
    found = exported.get_epsilon_for_delta(1e-6)
    assert found == pytest.approx(bounds.upper, rel=1e-4)
    assert exported._symmetric == (adjacency == "substitute")


def test_what_cannot_be_exported_is_refused():
    fixed = groupdp.DPSGD(
        sampling=groupdp.FixedBatchSampling(batch_size=10, dataset_size=1000), noise_multiplier=2.0, steps=5
    )
    noiseless = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.02), noise_multiplier=0.0, steps=5)
    for run, adjacency, sentence in (
        (fixed, "substitute", "a law by pairs"),
        (noiseless, "add-or-remove", "run must have noise"),
        (groupdp.DPSGD(sampling=fixed.sampling, noise_multiplier=1.0, steps=0), "add-or-remove", "run must have steps"),
        (fixed, "remove", "adjacency must be one of"),
    ):
        with pytest.raises(groupdp.InvalidArgument, match=sentence):
            run_to_dp_accounting(run, group_size=2, adjacency=adjacency)


def test_imported_distributions_can_be_stored(tmp_path):
    laplace = theirs.from_laplace_mechanism(4.0, value_discretization_interval=2.0**-10)
    imported = from_dp_accounting(laplace, direction="remove")
    imported.save(tmp_path / "imported.npz")
    again = groupdp.PrivacyLossDistribution.load(tmp_path / "imported.npz")
    assert again.epsilon(1e-6) == imported.epsilon(1e-6)


@pytest.mark.parametrize("index", [-1000, -7, 0, 7, 1000, 999_999])
def test_losses_are_never_rounded_down(index):
    pmf = theirs.pld_pmf.DensePLDPmf(1e-4, index, np.array([1.0]), 0.0, True)
    imported = from_dp_accounting(theirs.PrivacyLossDistribution(pmf), direction="remove")
    loss = imported.upper.first * imported.grid_step
    assert index * 1e-4 <= loss <= index * 1e-4 + 2 * imported.grid_step


def test_what_is_no_distribution_is_refused():
    probabilities = {0: 0.5, 1: 0.5}
    optimistic = theirs.PrivacyLossDistribution.create_from_rounded_probability(
        probabilities, 0.0, 1e-3, pessimistic_estimate=False
    )

    def made(masses, infinite=0.0):
        return theirs.PrivacyLossDistribution(theirs.pld_pmf.DensePLDPmf(1e-3, 0, np.array(masses), infinite, True))

    for bad, sentence in (
        (optimistic, "pessimistic estimate"),
        (made([0.5, 0.6]), "total probability of 1"),
        (made([1.0, -1e-18]), "probabilities of at least 0"),
        (made([math.nan, 1.0]), "finite probabilities"),
        (made([0.5], -0.5), "finite probabilities"),
        ("pld", "must be a PrivacyLossDistribution of dp_accounting"),
    ):
        with pytest.raises(groupdp.InvalidArgument, match=sentence):
            from_dp_accounting(bad, direction="remove")
    fine = made([0.5, 0.5])
    with refused("direction"):
        from_dp_accounting(fine, direction="both")
    with refused("grid_step"):
        from_dp_accounting(fine, direction="remove", grid_step=1e-3)
    with refused("add"):
        to_dp_accounting(ours("remove"))
    with refused("add"):
        to_dp_accounting(ours("remove"), ours("add", 2e-3))
    with refused("remove"):
        to_dp_accounting(ours("add"), ours("add"))
    with refused("remove"):
        to_dp_accounting("pld", ours("add"))


GRID = {"value_discretization_interval": 1e-3}
RUN = groupdp.DPSGD(groupdp.PoissonSampling(rate=0.02), noise_multiplier=2.0, steps=50)
KNOWN = [
    (groupdp.LaplaceRelease(4.0), lambda **how: theirs.from_laplace_mechanism(4.0, **how)),
    (groupdp.GaussianRelease(5.0), lambda **how: theirs.from_gaussian_mechanism(5.0, **how)),
    (
        groupdp.DiscreteGaussianRelease(6.0),
        lambda **how: theirs.from_discrete_gaussian_mechanism(6.0, sensitivity=1, **how),
    ),
    (
        groupdp.ApproximateDP(0.3, 1e-8, per_person=True),
        lambda **how: theirs.from_privacy_parameters(common.DifferentialPrivacyParameters(0.3, 1e-8), **how),
    ),
]


@pytest.mark.thinned(6)
@pytest.mark.parametrize(("mechanism", "make"), KNOWN, ids=[mechanism.name for mechanism, _ in KNOWN])
def test_a_pessimistic_distribution_composes_as_a_release_and_is_never_below_the_mechanism(mechanism, make):
    """Beside a run with a group of 3: at or above our own law of the mechanism, and as near as their grid allows."""
    release = release_from_dp_accounting(make(**GRID), group_size=1)
    for delta in (1e-4, 1e-6):
        exact = groupdp.epsilon([(RUN, 3), (mechanism, 1)], delta=delta)
        imported = groupdp.epsilon([(RUN, 3), (release, 1)], delta=delta)
        assert exact.lower <= imported.upper <= exact.upper + 0.01
        assert not imported.tight


@pytest.mark.parametrize(("mechanism", "make"), KNOWN, ids=[mechanism.name for mechanism, _ in KNOWN])
def test_our_epsilon_is_just_below_their_pessimistic_estimate(mechanism, make):
    """Of a few releases, where their rounding matters less than their grid."""
    pessimistic = make(**GRID).self_compose(3).get_epsilon_for_delta(1e-5)
    found = groupdp.epsilon([mechanism] * 3, delta=1e-5, group_size=1)
    assert found.lower <= pessimistic + 1e-7
    assert pessimistic <= found.upper + 0.02


def test_imported_losses_are_about_the_group_and_adjacency_that_were_stated():
    release = release_from_dp_accounting(theirs.from_laplace_mechanism(4.0, **GRID), group_size=2)
    assert groupdp.epsilon(release, delta=1e-5, group_size=0).upper == 0.0
    for keywords, argument in (
        ({"group_size": 3}, "group_size"),
        ({"group_size": 1, "adjacency": "substitute"}, "adjacency"),
        ({"group_size": 1, "adjacency": "zero-out"}, "adjacency"),
    ):
        with pytest.raises(groupdp.InvalidArgument) as error:
            groupdp.epsilon(release, delta=1e-5, **keywords)
        assert error.value.argument == argument
    optimistic = theirs.from_laplace_mechanism(4.0, pessimistic_estimate=False, **GRID)
    with pytest.raises(groupdp.InvalidArgument) as error:
        release_from_dp_accounting(optimistic, group_size=1)
    assert error.value.argument == "distribution"
