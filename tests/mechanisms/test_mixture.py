"""MixtureOfGaussians: merging, dropping, rescaling, the reduction of vectors, and that it stays what it is."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

import strategies
from groupdp import MixtureOfGaussians
from groupdp.mechanisms.mixture import LARGEST_MIXTURE, SUM_SLACK
from refusals import refused


def exact_law(sensitivities: list[float], probabilities: list[float]) -> dict[float, Fraction]:
    """Merged, without zeros, divided by the sum: in exact arithmetic."""
    total = sum(map(Fraction, probabilities))
    law: dict[float, Fraction] = {}
    for c, p in zip(sensitivities, probabilities, strict=True):
        law[c] = law.get(c, Fraction(0)) + Fraction(p) / total
    return {c: law[c] for c in sorted(law) if law[c] > 0}


@given(law=strategies.laws())
def test_equal_sensitivities_merge_and_zero_probabilities_go(law):
    mixture = MixtureOfGaussians(*law, 1.5)
    expected = exact_law(*law)
    assert mixture.sensitivities.tolist() == list(expected)
    assert mixture.probabilities.tolist() == [float(p) for p in expected.values()]  # 1024ths: exact
    assert mixture.standard_deviation == 1.5


@given(law=strategies.laws(), data=st.data())
def test_the_order_of_components_does_not_matter(law, data):
    pairs = data.draw(st.permutations(list(zip(*law, strict=True))))
    shuffled = MixtureOfGaussians([c for c, _ in pairs], [p for _, p in pairs], 1.5)
    assert shuffled == MixtureOfGaussians(*law, 1.5)
    assert hash(shuffled) == hash(MixtureOfGaussians(*law, 1.5))


@given(
    weights=st.lists(st.floats(1e-12, 1.0), min_size=2, max_size=20),
    slack=st.floats(-0.9 * SUM_SLACK, 0.9 * SUM_SLACK),
)
def test_probabilities_are_divided_by_their_sum(weights, slack):
    scale = (1.0 + slack) / math.fsum(weights)
    probabilities = [weight * scale for weight in weights]
    sensitivities = [float(i) for i in range(len(weights))]
    mixture = MixtureOfGaussians(sensitivities, probabilities, 1.0)
    for p, truth in zip(mixture.probabilities, exact_law(sensitivities, probabilities).values(), strict=True):
        assert abs(Fraction(float(p)) / truth - 1) < 4 * Fraction(2) ** -53
    assert math.fsum(mixture.probabilities) == pytest.approx(1.0, abs=4 * 2.0**-53)


@given(weights=st.lists(st.integers(-40, 0), min_size=1, max_size=6))
def test_logarithms_keep_their_own_accuracy(weights):
    """Also where p is so close to 1 that log p, taken from the double, would have no correct digit."""
    small = [10.0**weight / 10 for weight in weights]
    probabilities = [1.0 - math.fsum(small), *small]
    if probabilities[0] < 0:
        return
    sensitivities = [float(i) for i in range(len(probabilities))]
    mixture = MixtureOfGaussians(sensitivities, probabilities, 1.0)
    with ctx.workprec(300):
        for log_p, truth in zip(
            mixture.log_probabilities, exact_law(sensitivities, probabilities).values(), strict=True
        ):
            log_truth = (arb(truth.numerator) / truth.denominator).log()
            assert abs(arb(float(log_p)) - log_truth) <= 8 * 2.0**-53 * abs(log_truth)


def test_the_chance_that_the_group_is_absent():
    assert MixtureOfGaussians([0.0, 1.0], [0.25, 0.75], 1.0).log_probability_of_absence == math.log(0.25)
    assert MixtureOfGaussians([1.0, 2.0], [0.25, 0.75], 1.0).log_probability_of_absence == -math.inf
    assert MixtureOfGaussians([0.0, 1.0], [0.25, 0.75], 1.0).law.log_mass_above_zero == math.log(0.75)
    assert MixtureOfGaussians([0.0], [1.0], 1.0).law.log_mass_above_zero == -math.inf


def test_trivial_means_that_nothing_can_be_told_apart():
    assert MixtureOfGaussians([0.0], [1.0], 1.0).is_trivial
    assert MixtureOfGaussians([0.0, 5.0], [1.0, 0.0], 1.0).is_trivial
    assert not MixtureOfGaussians([0.0, 5.0], [1.0 - 1e-10, 1e-10], 1.0).is_trivial


def test_negative_zero_is_zero():
    assert MixtureOfGaussians([-0.0, 1.0], [0.5, 0.5], -0.0) == MixtureOfGaussians([0.0, 1.0], [0.5, 0.5], 0.0)
    assert len(MixtureOfGaussians([-0.0, 0.0, 1.0], [0.25, 0.25, 0.5], 1.0).sensitivities) == 2


def test_mixtures_are_equal_when_every_number_is():
    base = MixtureOfGaussians([0.0, 1.0], [0.5, 0.5], 1.0)
    others = [
        MixtureOfGaussians([0.0, 2.0], [0.5, 0.5], 1.0),
        MixtureOfGaussians([0.0, 1.0], [0.25, 0.75], 1.0),
        MixtureOfGaussians([0.0, 1.0], [0.5, 0.5], 2.0),
        MixtureOfGaussians([1.0], [1.0], 1.0),
    ]
    assert base == MixtureOfGaussians(np.array([1, 0]), np.array([0.5, 0.5]), 1)
    assert base != "mixture"
    assert all(one != other for one, other in itertools.combinations([base, *others], 2))
    assert len({base, *others, copy.copy(base)}) == 5


@given(mixture=strategies.mixtures())
def test_mixtures_survive_copying_and_pickling(mixture):
    for duplicate in (copy.copy(mixture), copy.deepcopy(mixture), pickle.loads(pickle.dumps(mixture))):
        assert duplicate == mixture
        assert hash(duplicate) == hash(mixture)
        assert not duplicate.probabilities.flags.writeable


def test_mixtures_cannot_be_changed():
    """A changed mixture would keep its old hash: caches would answer for another one."""
    sensitivities, probabilities = np.array([0.0, 1.0]), np.array([0.5, 0.5])
    mixture = MixtureOfGaussians(sensitivities, probabilities, 1.0)
    for name in ("standard_deviation", "probabilities", "sensitivities", "log_probabilities", "_key", "new"):
        with pytest.raises(AttributeError):
            setattr(mixture, name, 2.0)
    with pytest.raises(AttributeError):
        del mixture.standard_deviation
    for name in ("probabilities", "sensitivities", "log_probabilities"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(mixture, name)[0] = 0.25
        with pytest.raises(ValueError, match="WRITEABLE"):
            getattr(mixture, name).setflags(write=True)
    sensitivities[1], probabilities[0] = 9.0, 0.1  # the caller's own arrays are the caller's
    assert mixture == MixtureOfGaussians([0.0, 1.0], [0.5, 0.5], 1.0)


@pytest.mark.parametrize("name", ["sensitivities", "probabilities"])
@pytest.mark.parametrize(
    "bad",
    [None, "ab", 3, [], [[0.0, 1.0]], [0.0, None], ["0", "1"], [True, False], [0.0, math.nan], [0.0, math.inf],
     [0.0, -1.0], [0.0, 10**400], [0j, 1j], {0.0: 1.0}, [0.0, [1.0]], np.array([0, 1], dtype=object)],
)  # fmt: skip
def test_bad_vectors_of_numbers(name, bad):
    arguments = {"sensitivities": [0.0, 1.0], "probabilities": [0.5, 0.5], "standard_deviation": 1.0, name: bad}
    with refused(name) as caught:
        MixtureOfGaussians(**arguments)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("probabilities", "requirement"),
    [
        ([0.5, 0.4], "sum to 1"),
        ([0.5, 0.5 + 2e-9], "sum to 1"),
        ([0.0, 0.0], "sum to 1"),
        ([1e308, 1e308], "at most 1"),  # the sum would overflow
        ([1.0], "as many as sensitivities (2)"),
        ([0.2, 0.3, 0.5], "as many as sensitivities (2)"),
    ],
)
def test_probabilities_that_are_no_law(probabilities, requirement):
    with refused("probabilities") as caught:
        MixtureOfGaussians([0.0, 1.0], probabilities, 1.0)
    assert caught.value.requirement.removeprefix("be ") == requirement


@pytest.mark.parametrize("deviation", [-1.0, math.nan, math.inf, None, "1", True, 10**400])
def test_bad_standard_deviations(deviation):
    with refused("standard_deviation"):
        MixtureOfGaussians([0.0, 1.0], [0.5, 0.5], deviation)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.longdouble])
def test_other_kinds_of_floats_are_taken(kind):
    arrays = np.array([0.0, 1.0], dtype=kind), np.array([0.5, 0.5], dtype=kind)
    assert MixtureOfGaussians(*arrays, kind(2.0)) == MixtureOfGaussians([0.0, 1.0], [0.5, 0.5], 2.0)


def test_the_largest_mixture_is_merged():
    """One duplicate among many once meant comparing every pair of them, which took hours."""
    size = LARGEST_MIXTURE
    sensitivities = np.arange(size, dtype=np.float64)
    sensitivities[-1] = 0.0
    mixture = MixtureOfGaussians(sensitivities, np.full(size, 1.0 / size), 1.0)
    assert len(mixture.sensitivities) == size - 1
    assert mixture.probabilities[0] == pytest.approx(2.0 / size, rel=1e-14)
    with refused("sensitivities", value=size + 1):
        MixtureOfGaussians(np.arange(size + 1.0), np.full(size + 1, 1.0 / (size + 1)), 1.0)


# Vectors

coordinates = st.one_of(st.floats(-1e150, 1e150), st.floats(-1e-300, 1e-300), st.sampled_from([0.0, -0.0, 3.0, 5e-324]))


@given(
    st.integers(1, 6).flatmap(lambda d: st.lists(st.lists(coordinates, min_size=d, max_size=d), min_size=1, max_size=4))
)
def test_norms_are_rounded_up(vectors):
    """A sensitivity that is too small by one unit in the last place would be no guarantee."""
    probabilities = [1.0] + [0.0] * (len(vectors) - 1)
    for i in range(len(vectors)):
        rolled = probabilities[-i:] + probabilities[:-i] if i else probabilities
        (norm,) = MixtureOfGaussians.from_vectors(vectors, rolled, 1.0).sensitivities
        square = sum(Fraction(x) ** 2 for x in vectors[i])
        assert Fraction(float(norm)) ** 2 >= square
        # and not by more than d + 5 units
        shrunk = Fraction(float(norm)) * (1 - (len(vectors[i]) + 5) * Fraction(2) ** -52) - 2 * Fraction(5e-324)
        assert shrunk < 0 or shrunk**2 <= square


def test_a_single_coordinate_is_its_own_norm():
    vectors = [[0.0, 0.0], [0.1, 0.0], [0.0, -0.7]]
    mixture = MixtureOfGaussians.from_vectors(vectors, [0.5, 0.25, 0.25], 2.0)
    assert mixture == MixtureOfGaussians([0.0, 0.1, 0.7], [0.5, 0.25, 0.25], 2.0)
    assert MixtureOfGaussians.from_vectors([[-1.0], [0.0]], [0.5, 0.5], 1.0).sensitivities.tolist() == [0.0, 1.0]


def test_vectors_of_equal_norm_merge():
    mixture = MixtureOfGaussians.from_vectors([[3.0, 4.0], [4.0, -3.0], [0.0, 0.0]], [0.25, 0.25, 0.5], 1.0)
    assert mixture.probabilities.tolist() == [0.5, 0.5]
    assert mixture.sensitivities[1] == pytest.approx(5.0, rel=1e-14)
    assert mixture.sensitivities[1] >= 5.0


@pytest.mark.parametrize(
    "bad",
    [None, "ab", [["1", "2"]], [[True, False]], [], [[]], [[[1.0]]], [[1.0], [1.0, 2.0]], [[10**400]], [[1j]],
     [[math.nan]], [[math.inf]], [[1.5e308, 1.5e308]], object()],
)  # fmt: skip
def test_bad_vectors(bad):
    with refused("vectors"):
        MixtureOfGaussians.from_vectors(bad, [1.0], 1.0)


def test_repr_is_short_and_says_what_it_is():
    assert repr(MixtureOfGaussians([0, 1], [0.5, 0.5], 2)) == "MixtureOfGaussians([0.0, 1.0], [0.5, 0.5], 2.0)"
    large = MixtureOfGaussians(np.arange(100.0), np.full(100, 0.01), 2.0)
    assert repr(large) == "MixtureOfGaussians(<100 sensitivities from 0 to 99>, 2.0)"
