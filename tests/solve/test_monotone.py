"""Facts about privacy that hold whatever the engine: more exposure is never safer, more noise never worse."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import groupdp
from strategies import examples

SETTINGS = examples(30)

# Enough expected samples for the contour to be short: the lattice engine has its own tests.
rates = st.sampled_from([0.004, 0.02, 0.1, 0.5])
noises = st.floats(0.8, 20.0)
steps = st.integers(1000, 10**6)
sizes = st.integers(1, 12)
deltas = st.sampled_from([1e-2, 1e-5, 1e-9, 1e-40])
directions = st.sampled_from(["add", "remove"])


def run(rate, noise, count):
    return groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=rate), noise_multiplier=noise, steps=count)


@SETTINGS
@given(rates, noises, steps, sizes, deltas, directions)
def test_a_larger_group_is_never_safer(rate, noise, count, size, delta, direction):
    described = run(rate, noise, count)
    smaller = groupdp.epsilon(described, delta=delta, group_size=size, adjacency=direction)
    larger = groupdp.epsilon(described, delta=delta, group_size=size + 1, adjacency=direction)
    assert larger.upper >= smaller.lower


@SETTINGS
@given(rates, noises, steps, sizes, deltas, directions, st.integers(1, 10**5))
def test_more_steps_are_never_safer(rate, noise, count, size, delta, direction, more):
    fewer = groupdp.epsilon(run(rate, noise, count), delta=delta, group_size=size, adjacency=direction)
    longer = groupdp.epsilon(run(rate, noise, count + more), delta=delta, group_size=size, adjacency=direction)
    assert longer.upper >= fewer.lower


@SETTINGS
@given(rates, noises, steps, sizes, deltas, directions, st.floats(1.0, 2.0))
def test_a_higher_rate_is_never_safer(rate, noise, count, size, delta, direction, factor):
    lower = groupdp.epsilon(run(rate, noise, count), delta=delta, group_size=size, adjacency=direction)
    higher = groupdp.epsilon(run(rate * factor, noise, count), delta=delta, group_size=size, adjacency=direction)
    assert higher.upper >= lower.lower


@SETTINGS
@given(rates, noises, steps, sizes, deltas, directions, st.floats(1.0, 3.0))
def test_more_noise_is_never_worse(rate, noise, count, size, delta, direction, factor):
    little = groupdp.epsilon(run(rate, noise, count), delta=delta, group_size=size, adjacency=direction)
    much = groupdp.epsilon(run(rate, noise * factor, count), delta=delta, group_size=size, adjacency=direction)
    assert much.lower <= little.upper


@SETTINGS
@given(rates, noises, steps, sizes, deltas, directions, st.floats(1e-6, 1.0))
def test_a_smaller_delta_is_never_cheaper(rate, noise, count, size, delta, direction, factor):
    described = run(rate, noise, count)
    larger = groupdp.epsilon(described, delta=delta, group_size=size, adjacency=direction)
    smaller = groupdp.epsilon(described, delta=delta * factor, group_size=size, adjacency=direction)
    assert smaller.upper >= larger.lower


@SETTINGS
@given(rates, noises, steps, sizes, deltas)
def test_both_directions_together_are_the_worse_one(rate, noise, count, size, delta):
    described = run(rate, noise, count)
    together = groupdp.epsilon(described, delta=delta, group_size=size)
    apart = [groupdp.epsilon(described, delta=delta, group_size=size, adjacency=one) for one in ("add", "remove")]
    assert together.lower == max(bounds.lower for bounds in apart)
    assert together.upper == max(bounds.upper for bounds in apart)


@SETTINGS
@given(rates, noises, steps, sizes, deltas, directions)
def test_delta_at_the_certified_epsilon_is_certified(rate, noise, count, size, delta, direction):
    described = run(rate, noise, count)
    bounds = groupdp.epsilon(described, delta=delta, group_size=size, adjacency=direction)
    assert groupdp.delta(described, epsilon=bounds.upper, group_size=size, adjacency=direction).lower <= delta
    if bounds.lower > 0.0:
        assert groupdp.delta(described, epsilon=bounds.lower, group_size=size, adjacency=direction).upper >= delta


@SETTINGS
@given(st.integers(20, 400), st.integers(1, 20), st.floats(1.0, 20.0), steps, st.integers(1, 6))
def test_fixed_batches_with_doubled_noise_resemble_poisson_sampling(multiple, batch, noise, count, size):
    # n >> B >> k makes them close (section 4 of the paper); here only the order of magnitude is claimed.
    fixed = groupdp.DPSGD(
        sampling=groupdp.FixedBatchSampling(batch_size=batch, dataset_size=batch * multiple),
        noise_multiplier=2.0 * noise,
        steps=count,
    )
    one = groupdp.epsilon(fixed, delta=1e-6, group_size=size)
    other = groupdp.epsilon(run(1.0 / multiple, noise, count), delta=1e-6, group_size=size)
    assert one.lower <= 1.5 * other.upper + 0.1
