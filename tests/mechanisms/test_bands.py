"""Choosing bands, parts by person, BandMF by numbers alone, and calibrated correlated noise."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import groupdp
from command_line import groupdp as command
from groupdp.correlated import (
    BandedToeplitz,
    BandMF,
    BufferedLinearToeplitz,
    CorrelatedNoise,
    CyclicPoisson,
    LowerTriangular,
    MinimumSeparation,
    PrefixSum,
    bands_table,
    part_of,
)
from groupdp.errors import InvalidArgument
from groupdp.run_file import parse_run_file
from groupdp.run_file.run import run_file_text
from refusals import refused

QUESTION: dict[str, Any] = {
    "sampling_rate": 0.01,
    "steps": 500,
    "noise_multiplier": 2.0,
    "normalisation": "unit-columns",
    "assigned": "person",
    "delta": 1e-6,
    "group_size": 3,
}


def test_more_bands_cost_privacy_and_lower_the_error():
    rows = bands_table((1, 2, 4), **QUESTION, epsilon=6.0)
    assert [row.epsilon.upper for row in rows] == sorted(row.epsilon.upper for row in rows)
    assert [row.squared_error for row in rows] == sorted((row.squared_error for row in rows), reverse=True)
    for row in rows:
        assert row.calibrated is not None
        assert 5.9999 < groupdp.epsilon(row.calibrated, delta=1e-6, group_size=3).upper <= 6.0
        assert row.calibrated_error == pytest.approx(
            row.squared_error * (row.calibrated.noise_multiplier / 2.0) ** 2, rel=1e-12
        )
    plain = groupdp.DPSGD(groupdp.PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=500)
    assert rows[0].epsilon.upper == groupdp.epsilon(plain, delta=1e-6, group_size=3).upper


@pytest.mark.parametrize(
    ("bands", "change", "argument"),
    [
        ((), {}, "bands"),
        ((0,), {}, "bands"),
        ((200,), {}, "bands"),
        ((2,), {"sampling_rate": 0.0}, "sampling_rate"),
        ((2,), {"normalisation": "unit"}, "normalisation"),
        ((2,), {"assigned": "anybody"}, "assigned"),
        ((2,), {"assigned": "position"}, "adjacency"),
    ],
)
def test_tables_of_nonsense_are_refused(bands: tuple[int, ...], change: dict[str, Any], argument: str):
    with pytest.raises(InvalidArgument) as refused:
        bands_table(bands, **{**QUESTION, **change})
    assert refused.value.argument == argument


def test_a_part_depends_on_the_person_and_the_key_alone():
    parts = [part_of(person, 4, "key") for person in range(4000)]
    assert set(parts) == {0, 1, 2, 3}
    assert all(900 < count < 1100 for count in Counter(parts).values())
    assert part_of(7, 4, "key") == part_of("7", 4, "key")
    assert [part_of(person, 4, "other") for person in range(50)] != parts[:50]
    message = hashlib.md5(b"3:key4:anna4:part", usedforsecurity=False).digest()  # the definition never changes
    assert part_of("anna", 1000, "key") == int.from_bytes(message, "little") % 1000
    for wrong in ({"parts": 0}, {"key": ""}, {"person": 1.5}):
        with pytest.raises(InvalidArgument):
            part_of(**{"person": "anna", "parts": 4, "key": "key", **wrong})  # type: ignore[arg-type]


def test_bandmf_is_its_correlated_noise():
    short = BandMF(bands=4, rate=0.04, noise_multiplier=2.0, steps=300, one_part=True)
    assert short.run.participation == CyclicPoisson(parts=4, rate=0.04, assigned="person")
    assert short.run.normalisation == "unit-columns"
    first, second = (groupdp.epsilon(one, delta=1e-6, group_size=3) for one in (short, short.run))
    assert (first.lower, first.upper) == (second.lower, second.upper)
    any_parts = groupdp.epsilon(replace(short, one_part=False), delta=1e-6, group_size=3)
    assert any_parts.upper > first.upper
    assert "2.4399" in " ".join(short.assumptions())  # the standard deviation, with the column norm


def test_bandmf_in_a_run_file_comes_back():
    text = (
        'delta = 1e-6\ngroup_size = 3\n[[phase]]\nmechanism = "bandmf"\nbands = 4\npart_rate = 0.04\n'
        "noise_multiplier = 2.0\nsteps = 300\none_part = true\n"
    )
    file = parse_run_file(text)
    assert file.phases == (BandMF(bands=4, rate=0.04, noise_multiplier=2.0, steps=300, one_part=True),)
    assert parse_run_file(run_file_text(file)) == file


def test_the_command_line_answers_for_bandmf():
    line = "--mechanism bandmf --bands 4 --part-rate 0.04 --noise-multiplier 2 --steps 300 --one-part --delta 1e-6"
    run = BandMF(bands=4, rate=0.04, noise_multiplier=2.0, steps=300, one_part=True)
    found = command(f"epsilon {line} --group-size 3 --json").json
    assert found["epsilon"]["upper"] == groupdp.epsilon(run, delta=1e-6, group_size=3).upper
    calibrated = command(f"calibrate noise {line} --group-size 3 --epsilon 2 --json").json
    assert calibrated["run"]["mechanism"] == "bandmf"
    assert calibrated["epsilon"]["upper"] <= 2.0


def test_noise_is_calibrated_for_every_participation():
    for participation in (
        CyclicPoisson(parts=4, rate=0.1, assigned="example"),
        MinimumSeparation(separation=4, participations=9),
    ):
        run = CorrelatedNoise(
            BandedToeplitz.square_root(4), participation, noise_multiplier=1.0, steps=400, normalisation="as-given"
        )
        found = groupdp.calibrate_noise(run, epsilon=3.0, delta=1e-6, group_size=2)
        assert isinstance(found.run, CorrelatedNoise)
        assert found.proved_optimal
        assert found.epsilon.upper <= 3.0
    with refused("run"):
        groupdp.calibrate_noise(
            [
                run,
                groupdp.MixtureOfGaussians(sensitivities=(0.0, 1.0), probabilities=(0.5, 0.5), standard_deviation=1.0),
            ],
            epsilon=1.0,
            delta=1e-6,
            group_size=1,
        )


@pytest.mark.parametrize(
    ("decays", "scales"), [((0.9, 0.5), (0.6, -0.4)), ((0.99, 0.98), (5.0, -4.999)), ((0.7,), (0.3,))]
)
def test_entries_of_a_blt_are_rounded_away_from_zero(decays: tuple[float, ...], scales: tuple[float, ...]):
    """M-1, with cancellation: no entry's size is below the exact one."""
    column = BufferedLinearToeplitz(decays, scales).first_column(60)
    for t in range(1, 60):
        exact = sum(Fraction(w) * Fraction(d) ** (t - 1) for d, w in zip(decays, scales, strict=True))
        size = sum(abs(Fraction(w)) * Fraction(d) ** (t - 1) for d, w in zip(decays, scales, strict=True))
        assert abs(Fraction(float(column[t]))) >= abs(exact)
        assert abs(Fraction(float(column[t]))) <= abs(exact) + size * Fraction(1, 10**13)


def test_prefix_sums_are_a_matrix_of_ones():
    assert np.array_equal(PrefixSum().matrix(5), np.tril(np.ones((5, 5))))
    assert PrefixSum().prefix_error(100) == pytest.approx(100.0)  # every prefix has noise of its own
    assert PrefixSum().column_norms(9)[0] == pytest.approx(3.0)


def test_a_large_matrix_of_any_entries_is_answered():
    generator = np.random.default_rng(0)
    matrix = np.tril(generator.random((600, 600))) + np.eye(600)
    run = CorrelatedNoise(
        LowerTriangular.from_matrix(matrix),
        MinimumSeparation(separation=60, participations=4),
        noise_multiplier=1e3,
        steps=600,
        normalisation="as-given",
    )
    places = [0, 60, 120, 180]
    attained = float(np.linalg.norm(matrix[:, places].sum(axis=1)))
    sensitivity = 1e3 * run.rounds(groupdp.neighbours.Change("remove", 1, 0))[0][0].branches[0].right.shifts[-1]
    assert attained <= sensitivity <= 4.0 * math.sqrt(2.0) * run.column_norm
