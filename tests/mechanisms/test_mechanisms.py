"""Mechanisms compose: Gaussian releases have a closed form, which every composition below must meet."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import pytest
from scipy.special import log_ndtr

import groupdp
from groupdp import DPSGD, GaussianRelease, InvalidArgument, Mechanism, MixtureOfGaussians, PoissonSampling
from groupdp.baselines import compare
from groupdp.groups import total
from groupdp.mechanisms.wrappers import OfGroup
from groupdp.neighbours import ADJACENCIES, Change
from groupdp.pairs import ZERO, Round, Rounds, Side
from refusals import refused


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Phi(mu / 2 - eps / mu) - e^eps Phi(-mu / 2 - eps / mu) (Balle and Wang 2018)."""
    return math.exp(log_ndtr(mu / 2.0 - epsilon / mu)) - math.exp(epsilon + log_ndtr(-mu / 2.0 - epsilon / mu))


def assert_gaussian(run, mu: float, **keywords) -> None:
    """The run is N(mu, 1) against N(0, 1) at several epsilons, and says it is tight."""
    for epsilon in (0.1, 1.0, 3.0):
        found = groupdp.delta(run, epsilon=epsilon, **keywords)
        assert found.tight
        assert found.lower * (1.0 - 1e-9) <= gaussian_delta(mu, epsilon) <= found.upper * (1.0 + 1e-9)
        assert found.upper <= found.lower * (1.0 + 1e-6)


FULL = DPSGD(PoissonSampling(rate=1.0), noise_multiplier=20.0, steps=4)


@pytest.mark.parametrize(
    ("keywords", "moved"),
    [
        ({"group_size": 1}, 1),
        ({"group_size": 3}, 3),
        ({"group_size": 3, "adjacency": "add"}, 3),
        ({"group_size": 3, "adjacency": "zero-out"}, 3),
        ({"group_size": 3, "adjacency": "substitute"}, 6),
        ({"group_size": 3, "adjacency": "add-and-remove"}, 3),
        ({"removed": 3, "added": 1}, 4),
    ],
)
@pytest.mark.parametrize("releases", [1, 7])
def test_a_gaussian_release_has_its_closed_form(keywords, moved, releases):
    run = GaussianRelease(5.0, releases=releases)
    assert_gaussian(run, moved * math.sqrt(releases) / 5.0, **keywords)


def test_a_run_and_a_release_compose():
    mu = math.hypot(2 * math.sqrt(4) / 20.0, 2 / 8.0)
    assert_gaussian([FULL, GaussianRelease(8.0)], mu, group_size=2)
    assert_gaussian((GaussianRelease(8.0), FULL), mu, group_size=2)


@pytest.mark.parametrize("adjacency", ["add-or-remove", "substitute", "zero-out"])
def test_a_gaussian_release_beside_training_is_a_phase_of_full_batches_bit_for_bit(adjacency):
    training = DPSGD(PoissonSampling(rate=0.01), noise_multiplier=1.5, steps=300)
    phase = DPSGD(PoissonSampling(rate=1.0), noise_multiplier=8.0, steps=2)
    found, same = (
        groupdp.epsilon([one, training], delta=1e-6, group_size=3, adjacency=adjacency)
        for one in (GaussianRelease(8.0, releases=2), phase)
    )
    assert (found.lower, found.upper, found.tight) == (same.lower, same.upper, same.tight)


def test_a_release_may_have_a_group_size_of_its_own():
    release = GaussianRelease(4.0)
    mu = math.hypot(3 * math.sqrt(4) / 20.0, 1 / 4.0)
    assert_gaussian([(FULL, 3), (release, 1)], mu)
    assert_gaussian([FULL, (release, 1)], mu, group_size=3)
    assert_gaussian([(FULL, 3), (release, 1)], math.hypot(6 * math.sqrt(4) / 20.0, 2 / 4.0), adjacency="substitute")


def test_a_mixture_composes_with_its_own_sensitivities():
    mixture = MixtureOfGaussians([1.5], [1.0], 10.0)
    assert_gaussian([FULL, (mixture, 1)], math.hypot(2 * math.sqrt(4) / 20.0, 1.5 / 10.0), group_size=2)
    assert_gaussian([(mixture, 1)] * 4, 2 * 1.5 / 10.0)
    with pytest.raises(InvalidArgument) as refused:  # sensitivities of one example must not pass for those of nine
        groupdp.epsilon([FULL, mixture], delta=1e-6, group_size=9)
    assert refused.value.argument == "group_size"
    assert_gaussian(mixture, 2 * 1.5 / 10.0, rounds=4)


def test_groups_by_source_count_in_all_for_a_release():
    sources = groupdp.PoissonSources(rates={"web": 1.0, "books": 1.0})
    run = DPSGD(sources, noise_multiplier=20.0, steps=4)
    mu = math.hypot(3 * math.sqrt(4) / 20.0, 3 / 8.0)
    assert_gaussian([run, GaussianRelease(8.0)], mu, group_size={"web": 2, "books": 1})


def test_a_release_without_noise_has_no_privacy_and_none_released_has_all():
    assert groupdp.epsilon(GaussianRelease(0.0), delta=1e-6, group_size=1).upper == math.inf
    assert groupdp.epsilon(GaussianRelease(0.0, releases=0), delta=1e-6, group_size=1).upper == 0.0
    assert groupdp.epsilon(GaussianRelease(1.0), delta=1e-6, group_size=0).upper == 0.0


@dataclass(frozen=True)
class Toy(Mechanism):
    """A mechanism from outside the package: one Gaussian, known for removed examples only."""

    name: ClassVar[str] = "toy"
    title: ClassVar[str] = "a toy"
    adjacencies: ClassVar[tuple[str, ...]] = ("remove",)
    refusals: ClassVar[dict[str, str]] = dict.fromkeys((*ADJACENCIES, "exchange"), "it is a toy")

    def rounds(self, change: Change) -> Rounds:
        return ((Round.of(Side.point(0.25 * total(change.removed)), ZERO), 1),)

    def is_tight(self, change: Change) -> bool:
        return False

    def assumptions(self) -> tuple[str, ...]:
        return ("It is a toy.",)


def test_a_mechanism_from_outside_composes_like_ours():
    run = [Toy(), FULL]
    found = groupdp.delta(run, epsilon=1.0, group_size=2, adjacency="remove")
    mu = math.hypot(0.5, 2 * math.sqrt(4) / 20.0)
    assert found.lower * (1.0 - 1e-9) <= gaussian_delta(mu, 1.0) <= found.upper * (1.0 + 1e-9)
    assert not found.tight
    with refused("adjacency"):
        groupdp.delta(run, epsilon=1.0, group_size=2, adjacency="substitute")


@pytest.mark.parametrize(
    ("run", "keywords", "argument"),
    [
        ([(FULL, 3), (FULL, 1)], {"group_size": 2}, "group_size"),
        ([(FULL, 3), FULL], {}, "group_size"),
        ([(FULL, 3), FULL], {"removed": 1, "added": 1}, "adjacency"),
        ([(FULL, 3), (FULL, 1)], {"adjacency": "add-and-remove"}, "adjacency"),
        ([(FULL, 3, 1)], {}, "run"),
        ([(3, FULL)], {}, "run"),
        ([FULL, 3], {"group_size": 1}, "run"),
        ((FULL, 3), {}, "run"),
        ([FULL, MixtureOfGaussians([1.0], [1.0], 1.0)], {"group_size": 1, "adjacency": "add-and-remove"}, "adjacency"),
    ],
)
def test_what_is_no_sequence_of_mechanisms_is_refused(run, keywords, argument):
    with refused(argument):
        groupdp.epsilon(run, delta=1e-6, **keywords)


@pytest.mark.parametrize("noise", [-1.0, 1e-9, 1e19, math.nan, "1", None])
def test_the_noise_of_a_release_is_checked(noise):
    with refused("noise_multiplier"):
        GaussianRelease(noise)


@pytest.mark.parametrize("releases", [-1, 1.5, True, None])
def test_the_number_of_releases_is_checked(releases):
    with refused("releases"):
        GaussianRelease(1.0, releases=releases)


def test_answers_that_vary_the_group_size_refuse_a_release_with_its_own():
    """A person with 9 examples must not get the epsilon of a run that holds one of them in some release."""
    run = [OfGroup.of(FULL, 1), FULL]
    for ask in (
        lambda: groupdp.people_view(run, [1, 9], delta=1e-6),
        lambda: compare(run, delta=1e-6, group_sizes=[1, 9]),
    ):
        with pytest.raises(InvalidArgument) as refused:
            ask()
        assert refused.value.argument == "run"
