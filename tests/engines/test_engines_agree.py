"""Two engines that share no numerical code answer the same question: their intervals always intersect.

Few questions: `make study` asks thousands (studies/engines_agree.py).
"""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

import groupdp
from strategies import examples

SETTINGS = examples(12)

rates = st.floats(1e-3, 0.9)
noises = st.floats(0.7, 30.0)
steps = st.integers(2, 3000)
sizes = st.integers(1, 12)
deltas = st.sampled_from([0.1, 1e-3, 1e-6, 1e-12, 1e-40])
directions = st.sampled_from(["add", "remove"])


def run(rate, noise, count):
    return groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=count)


@SETTINGS
@given(rates, noises, steps, sizes, deltas, directions)
def test_epsilons_intersect(rate, noise, count, size, delta, direction):
    question = {"delta": delta, "group_size": size, "adjacency": direction, "tolerance": 1e-4}
    try:
        contour = groupdp.epsilon(run(rate, noise, count), engine="spectral", **question)
        lattice = groupdp.epsilon(run(rate, noise, count), engine="lattice", **question)
    except groupdp.LimitExceeded:
        assume(False)
    assert contour.intersects(lattice)


@SETTINGS
@given(rates, noises, steps, sizes, st.floats(0.0, 1.0), directions)
def test_log_deltas_intersect(rate, noise, count, size, share, direction):
    described = run(rate, noise, count)
    largest = groupdp.epsilon(described, delta=1e-9, group_size=size, adjacency=direction, tolerance=1e-4).upper
    question = {"epsilon": share * largest, "group_size": size, "adjacency": direction, "tolerance": 1e-4}
    try:
        contour = groupdp.log_delta(described, engine="spectral", **question)
        lattice = groupdp.log_delta(described, engine="lattice", **question)
    except groupdp.LimitExceeded:
        assume(False)
    assert contour.intersects(lattice)


@examples(4)
@given(rates, rates, noises, noises, st.integers(2, 500), st.integers(2, 500), sizes, directions)
def test_the_order_of_phases_does_not_matter(one, other, noise, another, count, more, size, direction):
    phases = [run(one, noise, count), run(other, another, more)]
    question = {"delta": 1e-6, "group_size": size, "adjacency": direction, "engine": "lattice", "tolerance": 1e-4}
    try:
        forward = groupdp.epsilon(phases, **question)
        backward = groupdp.epsilon(phases[::-1], **question)
    except groupdp.LimitExceeded:
        assume(False)
    assert forward.intersects(backward)


def test_heavy_tails_whose_contour_is_short_or_long_are_answered_by_it():
    short = groupdp.epsilon(run(0.1, 1.0, 50), delta=1e-300, group_size=1, adjacency="remove", engine="spectral")
    lattice = groupdp.epsilon(run(0.1, 1.0, 50), delta=1e-300, group_size=1, adjacency="remove", engine="lattice")
    assert short.intersects(lattice)
    assert short.relative_width < 1e-9
    batches = [(10, 2.021, 9913), (100, 0.665, 30)]
    phases = [
        groupdp.DPSGD(
            groupdp.FixedBatchSampling(batch_size=size, dataset_size=50_000), noise_multiplier=noise, steps=count
        )
        for size, noise, count in batches
    ]
    long = groupdp.epsilon(phases, delta=1e-11, group_size=1, adjacency="remove", engine="spectral")
    # the lattice engine, after 14 s: [20.8803471753, 20.8804036705]
    assert 20.8803471753 < long.lower <= long.upper < 20.8804036705
