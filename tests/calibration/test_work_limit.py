"""Calibration and the views of people do a bounded amount of work, whatever the noise and the sampling rate."""

from __future__ import annotations

import numpy as np
import pytest

import groupdp
from groupdp import DPSGD, PoissonSampling
from groupdp import people as view
from groupdp.calibration import target
from groupdp.people import cap

SLOW = DPSGD(sampling=PoissonSampling(rate=1e-6), noise_multiplier=0.4, steps=2000)  # the lattice engine answers


def test_a_rarely_sampled_example_is_calibrated_within_the_limit():
    run = DPSGD(sampling=PoissonSampling(rate=1e-6), noise_multiplier=1.0, steps=3)
    found = groupdp.calibrate_noise(run, epsilon=8.0, delta=1e-9, group_size=1, tolerance=1e-3)
    assert found.proved_optimal
    assert found.epsilon.upper <= 8.0 < found.failing_epsilon.lower
    # The default engine choice at the value found, without any tolerance of ours.
    assert groupdp.epsilon(found.run, delta=1e-9, group_size=1).upper <= 8.0


def test_a_calibration_that_takes_too_long_says_so(monkeypatch):
    monkeypatch.setattr(target, "LARGEST_SEARCH", -1)
    with pytest.raises(groupdp.LimitExceeded, match=r"calibration did not finish within its limit of -1 operations"):
        groupdp.calibrate_noise(SLOW, epsilon=8.0, delta=1e-6, group_size=1)


def test_a_value_that_passes_is_kept_when_the_work_ends_before_the_next_is_proved_to_fail(monkeypatch):
    run = DPSGD(sampling=PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=1000)
    whole = groupdp.calibrate_noise(run, epsilon=2.0, delta=1e-6, group_size=4)
    assert whole.proved_optimal
    trials = []
    try_run = target.Target.try_run

    def counting(self, *arguments, **options):
        trials.append(1)
        if len(trials) == 1 + whole.evaluations:  # none for no noise; the last one proves that the next value fails
            self.most_work = -1
        return try_run(self, *arguments, **options)

    monkeypatch.setattr(target.Target, "try_run", counting)
    found = groupdp.calibrate_noise(run, epsilon=2.0, delta=1e-6, group_size=4)
    assert found.value == whole.value
    assert found.epsilon.upper <= 2.0
    assert not found.proved_optimal
    assert found.failing_value is None


def test_a_study_of_caps_that_takes_too_long_says_so(monkeypatch):
    monkeypatch.setattr(cap, "LARGEST_STUDY", -1)
    with pytest.raises(groupdp.LimitExceeded, match="study of caps did not finish within its limit"):
        groupdp.choose_cap([1, 2, 3, 9], epsilon=8.0, delta=1e-6, batch_size=2, steps=10)


def test_a_view_of_people_that_takes_too_long_says_so(monkeypatch):
    monkeypatch.setattr(view, "LARGEST_VIEW", -1)
    with pytest.raises(groupdp.LimitExceeded, match=r"0 of 3 numbers of examples were done"):
        groupdp.people_view(SLOW, [1, 2, 3], delta=1e-6)


def test_counts_that_the_lattice_engine_answers_are_thinned_and_bounded_by_their_neighbours(monkeypatch):
    asked = []

    def slow_epsilon(run, *, group_size, **options):
        asked.append(group_size)
        provenance = groupdp.Provenance(engine="lattice")
        return groupdp.Bounds(float(group_size), group_size + 0.5, provenance)

    monkeypatch.setattr(view, "epsilon_of_run", slow_epsilon)
    found = groupdp.people_view(SLOW, np.arange(1, 201), delta=1e-6)
    assert len(asked) < 40
    assert asked[0] == 1
    assert asked[-1] == 200
    for count, bounds in zip(found.counts, found.epsilon, strict=True):
        assert bounds.lower <= count  # epsilon is between the count and half more
        assert count + 0.5 <= bounds.upper <= 1.25 * count + 2.0


def test_no_count_is_computed_beyond_an_epsilon_that_protects_nobody(monkeypatch):
    run = DPSGD(sampling=PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=2000)
    asked = []
    epsilon_of_run, quick_epsilons = view.epsilon_of_run, view.quick_epsilons

    def noting(run, *, group_size, **options):
        asked.append(group_size)
        return epsilon_of_run(run, group_size=group_size, **options)

    def noting_many(questions):
        asked.extend(keywords["group_size"] for _, keywords in questions)
        return quick_epsilons(questions)

    monkeypatch.setattr(view, "epsilon_of_run", noting)
    monkeypatch.setattr(view, "quick_epsilons", noting_many)
    found = groupdp.people_view(run, [1, 5_000, 60_000, 90_000], delta=1e-6)
    assert max(asked) == 5_000
    assert found.unprotected == 2
    assert found.epsilon[1].lower > 1e5
    assert found.epsilon[3].lower == found.epsilon[1].lower
