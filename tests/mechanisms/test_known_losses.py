"""Releases whose losses have known laws, against closed forms and an oracle that shares nothing with them."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from mpmath import mp, mpf

import groupdp
from groupdp import (
    DPSGD,
    ApproximateDP,
    DiscreteGaussianRelease,
    GaussianRelease,
    InvalidArgument,
    LaplaceRelease,
    PoissonSampling,
)
from groupdp.losses import AtomsRound, LaplaceRound, laplace_atoms
from groupdp.mechanisms.black_box import ImportedLosses
from groupdp.question import question_of
from oracle import known_losses as oracle
from refusals import refused

TRAINING = DPSGD(PoissonSampling(rate=0.02), noise_multiplier=1.5, steps=200)


def encloses(found: groupdp.Bounds, exact: mpf, *, width: float) -> None:
    """The exact value is enclosed, to the last bits of a double, and the bounds are this narrow, relatively."""
    assert mpf(found.lower) * (1 - mpf(2) ** -50) <= exact <= mpf(found.upper) * (1 + mpf(2) ** -50)
    assert found.upper - found.lower <= width * abs(found.upper)


@pytest.mark.parametrize(
    ("keywords", "moved"),
    [
        ({"group_size": 1}, 1),
        ({"group_size": 4}, 4),
        ({"group_size": 4, "adjacency": "add"}, 4),
        ({"group_size": 4, "adjacency": "zero-out"}, 4),
        ({"group_size": 4, "adjacency": "substitute"}, 8),
        ({"removed": 3, "added": 2}, 5),
    ],
)
def test_a_laplace_release_has_its_closed_form(keywords, moved):
    shift = moved / 3.0
    for epsilon in (0.0, 0.1, 0.3):
        found = groupdp.delta(LaplaceRelease(3.0), epsilon=epsilon, **keywords)
        assert found.tight
        encloses(found, -mp.expm1((mpf(epsilon) - mpf(shift)) / 2), width=1e-12)
    assert groupdp.delta(LaplaceRelease(3.0), epsilon=shift * (1.0 + 1e-12), **keywords).upper == 0.0


@pytest.mark.parametrize("mechanism", [GaussianRelease, LaplaceRelease])
def test_a_persons_own_sensitivity_does_not_grow_with_the_group(mechanism):
    own, one = mechanism(2.0, per_person=True), mechanism(2.0)
    for adjacency in ("add-or-remove", "substitute", "zero-out"):
        asked = {"delta": 1e-5, "adjacency": adjacency}
        assert groupdp.epsilon(own, group_size=7, **asked) == groupdp.epsilon(one, group_size=1, **asked)
    assert groupdp.epsilon(own, delta=1e-5, group_size=0).upper == 0.0
    assert "all examples of a person" in own.assumptions()[0]


@pytest.mark.parametrize(("sigma", "moved"), [(0.5, 1), (3.0, 1), (3.0, 5), (20.0, 4)])
def test_a_discrete_gaussian_release_is_the_sum_over_whole_numbers(sigma, moved):
    law = oracle.discrete_gaussian(sigma, moved)
    for epsilon in (0.0, 0.2, 1.5):
        found = groupdp.delta(DiscreteGaussianRelease(sigma), epsilon=epsilon, group_size=moved)
        exact = sum(max(p - mp.exp(epsilon) * q, 0) for p, q in law)
        encloses(found, exact, width=1e-10)
        assert found.tight


def test_a_larger_move_of_whole_numbers_is_never_safer():
    found = [
        groupdp.delta(DiscreteGaussianRelease(1.7), epsilon=0.4, group_size=1, adjacency="remove").lower,
        *(groupdp.delta(DiscreteGaussianRelease(1.7), epsilon=0.4, group_size=k).upper for k in (2, 3, 4, 9)),
    ]
    assert found == sorted(found)


def test_two_coordinates_are_safer_than_one_that_moves_as_far():
    """R-1 and R-2: what moves two coordinates by 1 each is dominated by what moves one by 2."""
    for one, two in (
        (LaplaceRelease(2.0), LaplaceRelease(2.0, releases=2)),
        (DiscreteGaussianRelease(2.0), DiscreteGaussianRelease(2.0, releases=2)),
    ):
        for epsilon in (0.0, 0.1, 0.5, 0.9):
            together = groupdp.delta(one, epsilon=epsilon, group_size=2)
            assert groupdp.delta(two, epsilon=epsilon, group_size=1).lower <= together.upper


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 0.0), (0.3, 1e-4), (2.0, 0.01), (0.0, 0.1)])
@pytest.mark.parametrize("size", [1, 3])
def test_a_black_box_is_randomized_response(epsilon, delta, size):
    law = oracle.black_box(*oracle.group_of_black_boxes(epsilon, delta, size))
    box, person = (ApproximateDP(epsilon, delta, per_person=per_person) for per_person in (False, True))
    for asked in (0.0, 0.2, size * epsilon, 4.0):
        exact = sum(max(p - mp.exp(asked) * q, 0) for p, q in law)
        found = groupdp.delta(box, epsilon=asked, group_size=size)
        assert (
            mpf(found.lower) * (1 - mpf(10) ** -11) <= exact <= mpf(found.upper) * (1 + mpf(10) ** -11) + mpf(10) ** -15
        )
        assert found.upper <= exact * (1 + mpf(10) ** -9) + mpf(10) ** -14
        own = groupdp.delta(person, epsilon=asked, group_size=size)
        assert (own.lower, own.upper) == tuple(
            getattr(groupdp.delta(box, epsilon=asked, group_size=1), side) for side in ("lower", "upper")
        )


def test_a_black_box_that_reveals_all_has_no_epsilon():
    assert groupdp.epsilon(ApproximateDP(1.0, 1.0, per_person=True), delta=1e-6, group_size=1).lower == math.inf
    assert groupdp.epsilon(ApproximateDP(5.0, 0.1, per_person=False), delta=1e-6, group_size=9).lower == math.inf


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("cells", [1, 2, 7, 50])
def test_a_laplace_law_on_a_lattice_bounds_its_curve(up, cells):
    """R-4: above everywhere, or below everywhere, and close to the second order."""
    shift = 1.3
    law, curve = laplace_atoms(shift, cells, up=up), oracle.laplace(shift)
    for epsilon in np.linspace(-1.5, 1.29, 40):
        exact = curve(mpf(float(epsilon)))
        found = mp.exp(mpf(law.log_delta(float(epsilon), up=up)))
        assert found >= exact * (1 - mpf(10) ** -15) if up else found <= exact * (1 + mpf(10) ** -15)
        assert abs(found - exact) <= (shift / cells) ** 2


@pytest.mark.thinned(6)
@pytest.mark.parametrize("times", [1, 2, 4])
def test_atoms_composed_are_all_outcomes(times):
    law = oracle.composed([oracle.discrete_gaussian(1.5, 2)] * times)
    for epsilon in (0.0, 1.0, 4.0):
        found = groupdp.delta(DiscreteGaussianRelease(1.5, releases=times), epsilon=epsilon, group_size=2)
        encloses(found, sum(max(p - mp.exp(epsilon) * q, 0) for p, q in law), width=1e-10)


@pytest.mark.parametrize("up", [True, False])
def test_fewer_atoms_bound_from_their_side(up):
    law = question_of(DiscreteGaussianRelease(30.0), group_size=9).compositions[0][1][0][0]
    coarse = law.coarsened(60, up=up)
    assert len(coarse.losses) <= 60
    for epsilon in np.linspace(-1.0, 2.0, 31):
        exact, found = law.log_delta(float(epsilon), up=not up), coarse.log_delta(float(epsilon), up=up)
        assert found >= exact if up else found <= exact


def test_lost_mass_counts_as_revealed():
    law = AtomsRound(np.array([-0.1, 0.1]), np.log([0.475, 0.524]), log_lost=math.log(0.001), spacing=0.2)
    exact = 0.524 * -math.expm1(-0.1)
    assert math.exp(law.log_delta(0.0, up=False)) <= exact <= exact + 0.001 <= math.exp(law.log_delta(0.0, up=True))
    twice = law.composed(2)
    assert math.exp(twice.log_lost) >= 2 * 0.001 * 0.999


MIXTURES = [
    ({"mu": 0.5, "shifts": (0.4,)}, [(GaussianRelease(2.0), 1), (LaplaceRelease(5.0), 2)]),
    (
        {"mu": 0.25, "laws": [oracle.discrete_gaussian(4.0, 3)]},
        [(GaussianRelease(4.0), 1), (DiscreteGaussianRelease(4.0), 3)],
    ),
    (
        {"shifts": (0.5, 0.25), "laws": [oracle.black_box(0.3, 1e-3)]},
        [
            (LaplaceRelease(4.0), 2),
            (LaplaceRelease(4.0), 1),
            (ApproximateDP(0.3, 1e-3, per_person=True), 1),
        ],
    ),
    (
        {"mu": 1.0, "shifts": (0.2,), "laws": [oracle.black_box(0.3, 1e-3), oracle.discrete_gaussian(2.0, 1)]},
        [
            (GaussianRelease(1.0), 1),
            (LaplaceRelease(5.0), 1),
            (ApproximateDP(0.3, 1e-3, per_person=True), 1),
            (DiscreteGaussianRelease(2.0), 1),
        ],
    ),
]


@pytest.mark.thinned(6)
@pytest.mark.parametrize(("exact", "run"), MIXTURES)
def test_mixtures_of_mechanisms_meet_the_oracle(exact, run):
    for epsilon in (0.2, 1.0):
        value = oracle.delta(epsilon, **exact)
        encloses(groupdp.delta(run, epsilon=epsilon), value, width=2e-4)
        encloses(groupdp.delta(run, epsilon=epsilon, engine="lattice", tolerance=1e-3), value, width=1e-1)


@pytest.mark.parametrize("rate", [0.00361, 0.0005])
def test_rare_training_beside_a_laplace_release_is_answered(rate):
    """Closed forms for rare, large losses leave no contour behind: the question was a KeyError."""
    training = DPSGD(PoissonSampling(rate=rate), noise_multiplier=2.34, steps=50)
    asked = {"delta": 1e-6, "group_size": 1, "adjacency": "remove"}
    found = groupdp.epsilon([LaplaceRelease(3.27), training], **asked)
    alone = groupdp.epsilon(LaplaceRelease(3.27), **asked)
    assert alone.lower <= found.lower <= found.upper <= alone.upper + groupdp.epsilon(training, **asked).upper


def test_a_release_without_noise_reveals_all():
    assert groupdp.epsilon(LaplaceRelease(0.0), delta=1e-6, group_size=1).lower == math.inf
    assert groupdp.epsilon([TRAINING, LaplaceRelease(0.0)], delta=1e-6, group_size=1).lower == math.inf


def test_a_second_release_never_helps():
    alone = groupdp.epsilon(TRAINING, delta=1e-6, group_size=2)
    for other in (LaplaceRelease(20.0), DiscreteGaussianRelease(20.0), ApproximateDP(0.05, 1e-9, per_person=False)):
        both = groupdp.epsilon([TRAINING, other], delta=1e-6, group_size=2)
        assert alone.upper < both.lower
        assert both.relative_width < 1e-6


def test_releases_as_mechanisms_are_phases_bit_for_bit():
    """A Gaussian release is a DP-SGD step that samples everybody."""
    step = DPSGD(PoissonSampling(rate=1.0), noise_multiplier=3.0, steps=4)
    asked = {"delta": 1e-6, "group_size": 3}
    as_phases = groupdp.epsilon([TRAINING, step], **asked)
    as_releases = groupdp.epsilon([TRAINING, GaussianRelease(3.0, releases=4)], **asked)
    assert (as_phases.lower, as_phases.upper) == (as_releases.lower, as_releases.upper)


def test_rounds_survive_pickling_and_know_their_equals():
    law = question_of(DiscreteGaussianRelease(2.0), group_size=1).compositions[0][1][0][0]
    assert pickle.loads(pickle.dumps(law)) == law
    assert hash(pickle.loads(pickle.dumps(law))) == hash(law)
    assert law.mirrored.mirrored.losses.tolist() == law.losses.tolist()
    assert LaplaceRound(0.5).mirrored == LaplaceRound(0.5)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: LaplaceRelease(-1.0), "noise_multiplier"),
        (lambda: LaplaceRelease(1.0, per_person="yes"), "per_person"),
        (lambda: GaussianRelease(1.0, per_person=1), "per_person"),
        (lambda: DiscreteGaussianRelease(0.0), "sigma"),
        (lambda: DiscreteGaussianRelease(2.0, sensitivity=1.5), "sensitivity"),
        (lambda: ApproximateDP(-0.1, per_person=True), "epsilon"),
        (lambda: ApproximateDP(0.1, 1.5, per_person=True), "delta"),
        (lambda: ApproximateDP(0.1, 0.0, per_person=None), "per_person"),
    ],
)
def test_bad_releases_are_refused_by_name(make, argument):
    with pytest.raises(InvalidArgument) as error:
        make()
    assert error.value.argument == argument


def test_imported_losses_of_replaced_records_are_the_same_in_both_orders():
    """A replacement has no order: the worse of two different laws would be left out."""
    worse, better = (AtomsRound(np.array([-x, x]), np.log(np.array([0.5, 0.5]))) for x in (2.0, 0.1))
    with refused("add", value="another law"):
        ImportedLosses(better, worse, 1, "substitute")
    assert ImportedLosses(worse, worse, 1, "substitute").releases == 1


def test_a_black_box_beside_one_round_of_training_has_an_epsilon():
    """One round has a closed form and no contour: that was an error of its own."""
    black_box = groupdp.ApproximateDP(0.1, 1e-9, per_person=True)
    one_round = groupdp.DPSGD(groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=1)
    found = groupdp.epsilon([black_box, one_round], delta=1e-6, group_size=1)
    assert found.lower >= groupdp.epsilon(one_round, delta=1e-6, group_size=1).lower
    assert found.upper <= 0.1 + groupdp.epsilon(one_round, delta=1e-6 - 1e-9, group_size=1).upper + 1e-5


def test_beyond_all_losses_what_a_black_box_reveals_is_left():
    """Where delta of all other losses is 0, its bound was not a number."""
    run = [
        groupdp.ApproximateDP(0.3, 1e-5, per_person=True),
        groupdp.DPSGD(groupdp.PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=100),
    ]
    far = groupdp.trade_off(run, group_size=1, adjacency="add").log_delta(4.0)
    assert far.lower <= math.log(1e-5) <= far.upper <= math.log(1.01e-5)


@pytest.mark.parametrize("law", ["geometric", "poisson"])
@pytest.mark.parametrize("kind", [groupdp.LaplaceRelease, groupdp.GaussianRelease])
def test_the_best_of_several_releases_reveals_nothing_about_nobody(kind, law):
    assert groupdp.epsilon(groupdp.Search(kind(5.0), 4, law), delta=1e-6, group_size=0).upper == 0.0


@pytest.mark.parametrize("up", [True, False])
def test_losses_beyond_doubles_are_declined(up):
    # A Laplace release with very little noise beside a training overflowed.
    with pytest.raises(groupdp.LimitExceeded):
        laplace_atoms(1e7, 100, up=up)
    laplace_atoms(1e5, 100, up=up)
