"""Contours of composed allocations, kept and asked far from where they were planned: both sides hold there."""

from __future__ import annotations

import pytest

import groupdp
from groupdp.engines import lattice, spectral
from groupdp.pairs import Composition
from groupdp.question import question_of

pytestmark = pytest.mark.skipif(not spectral.AVAILABLE, reason="the compiled engine is not installed")


def composition(
    sampling: groupdp.samplings.Sampling, noise: float, epochs: int, group: int, adjacency: str
) -> Composition:
    run = groupdp.DPSGD(sampling, noise_multiplier=noise, steps=epochs * sampling.batches)
    return question_of(run, group_size=group, adjacency=adjacency).compositions[0][1]


@pytest.mark.parametrize("adjacency", ["add", "remove"])
@pytest.mark.parametrize(
    ("sampling", "noise", "epochs", "group"),
    [
        (groupdp.BallsInBinsSampling(batches=20), 1.0, 3, 1),
        (groupdp.SpreadSampling(batches=30), 1.5, 2, 3),
        (groupdp.BallsInBinsSampling(batches=50), 2.0, 5, 2),
    ],
)
def test_a_kept_contour_of_several_epochs_agrees_with_the_lattice_elsewhere(
    sampling: groupdp.samplings.Sampling, noise: float, epochs: int, group: int, adjacency: str
):
    """S-81 to S-83 and S-95 to S-97 hold at every epsilon, not only where a contour was planned."""
    asked = composition(sampling, noise, epochs, group, adjacency)
    contour = spectral.neighbourhood(asked, 1.0)
    assert contour is not None
    for epsilon in (0.3, 0.8, 1.3, 2.0):
        lower, upper = contour.log_delta(epsilon)
        beside = lattice.log_delta(asked, epsilon=epsilon, tolerance=1e-3)
        assert lower <= beside.upper
        assert beside.lower <= upper
        assert upper - lower < 1e-3
