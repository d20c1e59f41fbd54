"""Privacy loss distributions as objects."""

from __future__ import annotations

import numpy as np
import pytest

import groupdp
from groupdp import MixtureOfGaussians, PrivacyLossDistribution
from groupdp.engines import lattice
from groupdp.pairs import ZERO, Branch, Round, Side
from refusals import refused

MIXTURE = MixtureOfGaussians([0.0, 1.0, 2.0], [0.9801, 0.0198, 0.0001], 1.0)
OTHER = MixtureOfGaussians([0.0, 0.5], [0.7, 0.3], 1.0)


def distribution(mixture=MIXTURE, direction="remove", step=1e-3):
    return PrivacyLossDistribution.from_mixture(mixture, direction=direction, grid_step=step)


@pytest.mark.parametrize("direction", ["add", "remove"])
def test_a_composition_encloses_what_the_contour_says(direction):
    # tries to break L-18
    composed = distribution(direction=direction).self_compose(200)
    for epsilon in (0.0, 0.5, 1.5):
        truth = groupdp.delta(MIXTURE, epsilon=epsilon, rounds=200, adjacency=direction, engine="spectral")
        assert composed.delta(epsilon).intersects(truth)
        assert composed.delta(epsilon).lower <= truth.upper
    truth = groupdp.epsilon(MIXTURE, delta=1e-6, rounds=200, adjacency=direction, engine="spectral")
    found = composed.epsilon(1e-6)
    assert found.lower <= truth.lower <= truth.upper <= found.upper
    assert found.relative_width < 1e-3


def test_the_bracket_closes_with_the_square_of_the_step():
    widths = [distribution(step=step).self_compose(100).epsilon(1e-6).width for step in (4e-3, 2e-3, 1e-3)]
    assert widths[0] > 2.5 * widths[1] > 2.5 * 2.5 * widths[2] * 0.9


def test_composing_one_by_one_or_at_once_is_the_same():
    one = distribution(step=4e-3)
    at_once, one_by_one = one.self_compose(3), one.compose(one).compose(one)
    for epsilon in (0.1, 0.5, 1.0):
        assert at_once.delta(epsilon).intersects(one_by_one.delta(epsilon))
    other = distribution(OTHER, step=4e-3)
    for epsilon in (0.1, 0.5, 1.0):
        assert one.compose(other).delta(epsilon).intersects(other.compose(one).delta(epsilon))


def test_mean_and_variance_of_a_gaussian_loss():
    # tries to break L-17, and L-19 with the median
    mu = 0.3
    gaussian = PrivacyLossDistribution.from_mixture(
        MixtureOfGaussians([mu], [1.0], 1.0), direction="remove", grid_step=1e-3
    )
    assert gaussian.mean.lower <= mu**2 / 2 <= gaussian.mean.upper
    assert gaussian.variance.lower <= mu**2 <= gaussian.variance.upper
    half = gaussian.cdf(mu**2 / 2)
    assert half.lower <= 0.5 <= half.upper
    median = gaussian.quantile(0.5)
    assert median.lower <= mu**2 / 2 <= median.upper


def test_a_saved_distribution_comes_back(tmp_path):
    composed = distribution().self_compose(20)
    file = tmp_path / "loss.npz"
    composed.save(file)
    again = PrivacyLossDistribution.load(file)
    assert again.epsilon(1e-6) == composed.epsilon(1e-6)
    assert again.delta(0.3) == composed.delta(0.3)


@pytest.mark.parametrize("content", [b"", b"not a distribution", b"PK\x03\x04broken"])
def test_other_files_are_refused(tmp_path, content):
    file = tmp_path / "loss.npz"
    file.write_bytes(content)
    with pytest.raises(groupdp.InvalidArgument):
        PrivacyLossDistribution.load(file)


def test_a_file_with_other_arrays_is_refused(tmp_path):
    file = tmp_path / "loss.npz"
    np.savez(file, losses=np.arange(3.0))
    with pytest.raises(groupdp.InvalidArgument):
        PrivacyLossDistribution.load(file)


def test_a_picture(tmp_path):
    distribution().self_compose(20).plot(tmp_path / "loss.png")
    assert (tmp_path / "loss.png").stat().st_size > 5000


def test_a_round_of_pairs_with_a_coin():
    side = MIXTURE.side
    one = Round(
        [Branch(side, side), Branch(Side.point(0.25), ZERO), Branch(ZERO, ZERO)],
        [np.log(0.5), np.log(0.3), np.log(0.2)],
    )
    composed = PrivacyLossDistribution.from_round(one, direction="substitute", grid_step=2e-3).self_compose(50)
    truth = lattice.epsilon(((one, 50),), log_delta=np.log(1e-5))
    found = composed.epsilon(1e-5)
    assert found.lower <= truth.upper
    assert truth.lower <= found.upper
    assert found.relative_width < 1e-2
    single = PrivacyLossDistribution.from_round(one, direction="substitute", grid_step=2e-3)
    # the mean is the weighted sum of the branches' means; that of N(0.25) against N(0) is 0.25^2 / 2
    alone = PrivacyLossDistribution.from_round(Round.of(side, side), direction="substitute", grid_step=2e-3)
    assert single.mean.lower <= 0.5 * alone.mean.upper + 0.3 * 0.25**2 / 2
    assert single.mean.upper >= 0.5 * alone.mean.lower + 0.3 * 0.25**2 / 2
    assert single.mean.width < 1e-4


@pytest.mark.parametrize("direction", ["", "Substitute!", 3, "x" * 50])
def test_directions_are_names(direction):
    with refused("direction"):
        PrivacyLossDistribution.from_round(Round.of(MIXTURE.side, ZERO), direction=direction)
