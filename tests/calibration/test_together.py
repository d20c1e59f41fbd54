"""Several calibrations at once find what each finds alone; the kernel is asked in batches."""

from __future__ import annotations

import pytest

import groupdp
from groupdp import DPSGD, FixedBatchSampling, PoissonSampling
from groupdp.calibration import calibrate_noises
from groupdp.engines import spectral
from groupdp.people.cap import _waves

RUNS = [DPSGD(PoissonSampling(rate=rate), noise_multiplier=1.0, steps=500) for rate in (0.002, 0.01, 0.05)]


def test_calibrations_at_once_find_what_each_finds_alone():
    asked = [(run, size, None) for run in RUNS for size in (1, 3, 8)]
    found = calibrate_noises(asked, epsilon=3.0, delta=1e-6, tolerance=1e-6)
    for (run, size, _), one in zip(asked, found, strict=True):
        alone = groupdp.calibrate_noise(run, epsilon=3.0, delta=1e-6, group_size=size, tolerance=1e-6)
        assert isinstance(one, groupdp.Calibration)
        assert (one.value, one.epsilon, one.failing_value) == (alone.value, alone.epsilon, alone.failing_value)
        assert one.proved_optimal
        assert groupdp.epsilon(one.run, delta=1e-6, group_size=size).upper <= 3.0


def test_one_that_is_refused_leaves_the_others_as_they_are():
    small = DPSGD(FixedBatchSampling(batch_size=2, dataset_size=4), noise_multiplier=1.0, steps=5)
    first, refused = calibrate_noises([(RUNS[0], 2, None), (small, 9, None)], epsilon=3.0, delta=1e-6)
    assert isinstance(first, groupdp.Calibration)
    assert isinstance(refused, groupdp.InvalidArgument)
    assert refused.argument == "group_size"


@pytest.mark.skipif(not spectral.AVAILABLE, reason="there is no kernel to ask")
def test_a_study_of_caps_asks_in_batches(monkeypatch):
    alone, batches = [], []
    one, many = spectral.epsilon, spectral.epsilons

    def single(*arguments, **options):
        alone.append(1)
        return one(*arguments, **options)

    def together(questions, **options):
        batches.append(len(questions))
        return many(questions, **options)

    monkeypatch.setattr(spectral, "epsilon", single)
    monkeypatch.setattr(spectral, "epsilons", together)
    study = groupdp.choose_cap([1, 2, 3, 5, 8, 13, 21] * 50, epsilon=4.0, delta=1e-6, batch_size=20, steps=200)
    assert len(study.rows) > 8
    assert max(batches) >= 8
    assert sum(batches) > 4 * len(alone)


@pytest.mark.parametrize("number", [0, 1, 2, 3, 5, 17])
def test_waves_hold_every_cap_once(number):
    caps = list(range(10, 10 + number))
    waves = list(_waves(caps))
    assert sorted(cap for wave in waves for cap in wave) == caps
    assert all(len(wave) == 1 for wave in waves[:1])


def test_a_batch_of_people_is_not_calibrated_and_the_refusal_names_what_is():
    run = DPSGD(groupdp.PoissonPeople(rate=0.01, examples_per_person=2), noise_multiplier=1.0, steps=5)
    with pytest.raises(groupdp.InvalidArgument) as refused:
        groupdp.calibrate_batch_size(run, epsilon=3.0, delta=1e-6, group_size=1)
    assert refused.value.argument == "sampling"
    assert "calibrate_rate" in refused.value.reason
