"""Sides: a law of sensitivities divided by the noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupdp.laws import binomial_law
from groupdp.pairs import Side


@given(
    size=st.integers(0, 40),
    rate=st.floats(1e-6, 1.0),
    noise=st.one_of(st.floats(1e-3, 1e3), st.sampled_from((0.0, 5e-324, 1e-160, 1e160, 1.7e308))),
)
def test_a_law_divided_by_the_noise_is_the_law_of_the_quotients(size: int, rate: float, noise: float) -> None:
    sensitivities, law = np.arange(size + 1.0), binomial_law(size, rate)
    expected = Side.from_sensitivities(sensitivities, law, noise)
    found = Side.from_sensitivities(sensitivities, law, 1.0).divided(noise)
    assert found == expected
    assert hash(found) == hash(expected)
    assert found.shifts.tolist() == expected.shifts.tolist()
    with pytest.raises(ValueError, match="read-only"):
        found.shifts[0] = 1.0


def test_sensitivities_that_meet_in_one_quotient_are_merged() -> None:
    side = Side(np.array([1.0, math.nextafter(1.0, 2.0)]), (np.array([0.25, 0.75]), np.log([0.25, 0.75])))
    merged = side.divided(1e-300)
    assert len(merged.shifts) == len(set(merged.shifts))
    assert math.fsum(merged.probabilities) == 1.0
