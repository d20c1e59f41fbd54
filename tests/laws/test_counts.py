"""Both laws of the number of group members in a batch, against exact rational and ball arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from flint import arb, ctx, fmpq, fmpz
from hypothesis import given
from hypothesis import strategies as st

from groupdp.laws import binomial_law, hypergeometric_law

#: Half a unit in the last place of a double, as a relative error: nothing that is rounded once does better.
CORRECTLY_ROUNDED = 2.0**-53 * (1 + 1e-9)
#: A logarithm's absolute error is its argument's relative error, plus the rounding of the result.
LOG_ULPS = 4 * 2.0**-53


def binomial(k: int, rate: float) -> Callable[[int], arb]:
    """Binom(k, rate) as balls; the rate is the double's exact value."""
    q = fmpq(*rate.as_integer_ratio())
    return lambda i: arb(fmpz.bin_uiui(k, i)) * arb(q) ** i * arb(1 - q) ** (k - i)


def hypergeometric(b: int, n: int, k: int) -> Callable[[int], arb]:
    """P(i of the k are in a batch of b out of n + k), by counting batches, as exact rationals."""
    total = fmpz.bin_uiui(n + k, k)
    return lambda i: arb(fmpz.bin_uiui(b, i) * fmpz.bin_uiui(n + k - b, k - i)) / arb(total)


def assert_law(law: tuple[np.ndarray, np.ndarray], exact: Callable[[int], arb], indices: list[int]) -> None:
    probabilities, logarithms = law
    with ctx.workprec(1200):  # enough to tell 1 - 2.5e-300 from 1
        half_of_the_smallest = arb(2) ** -1075
        for i in indices:
            truth = exact(i)
            error = abs(arb(float(probabilities[i])) - truth)
            assert error <= CORRECTLY_ROUNDED * truth or error <= half_of_the_smallest, (i, probabilities[i])
            log_truth = truth.log()
            error = abs(arb(float(logarithms[i])) - log_truth)
            # near 1 the logarithm must keep its own relative accuracy, not the probability's
            scale = abs(log_truth) if truth > 0.5 else 1 + abs(log_truth)
            assert error <= LOG_ULPS * scale, (i, logarithms[i], log_truth.str(20))


def spread(last: int, count: int = 60) -> list[int]:
    """Indices from 0 to last: both ends and some in between."""
    return sorted({*range(min(8, last + 1)), *np.linspace(0, last, count).astype(int).tolist()})


@pytest.mark.parametrize("rate", [0.5, 0.01, 1 / 3, 1e-6, 0.999, 1 - 2.0**-53, 1e-18, 1e-30, 2.5e-300])
@pytest.mark.parametrize("k", [1, 2, 9, 64])
def test_binomial_is_correctly_rounded(k: int, rate: float):
    assert_law(binomial_law(k, rate), binomial(k, rate), list(range(k + 1)))


@pytest.mark.parametrize(
    ("k", "rate"), [(4096, 0.5), (4096, 16 / 4096), (9973, 1 - 17 / 9973), (50_000, 1 / 3), (100_000, 1.7e-4)]
)
def test_large_groups_are_correctly_rounded_too(k: int, rate: float):
    peak = round(k * rate)
    near = range(max(peak - 20, 0), min(peak + 20, k) + 1)
    assert_law(binomial_law(k, rate), binomial(k, rate), sorted({*spread(k, 40), *near, k - 1, k}))


@pytest.mark.parametrize("rate", [0.01, 0.37, 1e-5])
def test_binomial_of_ten_thousand(rate: float):
    law = binomial_law(10_000, rate)
    assert law[0].shape == law[1].shape == (10_001,)
    # all around the mode, and a sample of the tails, most of which lie far below the smallest double
    mode = int(10_000 * rate)
    assert_law(law, binomial(10_000, rate), spread(10_000) + list(range(max(0, mode - 30), mode + 30)))
    assert law[0][-1] == 0.0
    assert math.isfinite(law[1][-1])


@pytest.mark.parametrize(
    ("batch_size", "dataset_size", "k"),
    [
        (1, 1, 1),
        (8, 20, 5),
        (20, 20, 7),
        (3, 40, 12),
        (500, 50_000, 32),
        (50_000, 50_000, 9),
        (256, 60_000, 64),
        (1_000_000, 1_000_000_000, 100),
        (999_999_999, 1_000_000_000, 10),
        (7, 1_000_000_000, 1000),
    ],
)
def test_hypergeometric_is_correctly_rounded(batch_size: int, dataset_size: int, k: int):
    law = hypergeometric_law(batch_size, dataset_size, k)
    assert len(law[0]) == len(law[1]) == min(k, batch_size) + 1
    assert_law(law, hypergeometric(batch_size, dataset_size, k), spread(min(k, batch_size)))


@pytest.mark.parametrize(("batch_size", "dataset_size"), [(10_000, 1_000_000), (5_000_000, 1_000_000_000)])
def test_hypergeometric_of_ten_thousand(batch_size: int, dataset_size: int):
    law = hypergeometric_law(batch_size, dataset_size, 10_000)
    assert_law(law, hypergeometric(batch_size, dataset_size, 10_000), [*spread(10_000, 20), 50, 100, 101, 250])


def test_a_rate_of_one_means_everyone_always():
    probabilities, logarithms = binomial_law(5, 1.0)
    assert probabilities.tolist() == [0.0] * 5 + [1.0]
    assert logarithms.tolist() == [-math.inf] * 5 + [0.0]


def test_a_group_of_nobody():
    for law in (binomial_law(0, 0.3), hypergeometric_law(5, 10, 0)):
        assert [part.tolist() for part in law] == [[1.0], [0.0]]


def test_laws_cannot_be_changed_in_place():
    """They are shared: a change would silently alter later answers."""
    for part in (*binomial_law(3, 0.25), *hypergeometric_law(2, 10, 3)):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 0.5


@given(k=st.integers(1, 300), numerator=st.integers(1, 2**20 - 1))
def test_present_and_absent_members_change_places(k: int, numerator: int):
    """Binom(k, q) counts those present, Binom(k, 1 - q) those absent; 1 - q is exact for these rates."""
    rate = numerator / 2**20
    present, absent = binomial_law(k, rate), binomial_law(k, 1.0 - rate)
    assert np.array_equal(present[0], absent[0][::-1])
    np.testing.assert_allclose(present[1], absent[1][::-1], rtol=4e-16, atol=2e-16)


@given(st.data())
def test_group_and_batch_change_places(data: st.DataObject):
    """Members of the group in the batch are members of the batch in the group."""
    dataset_size = data.draw(st.integers(1, 10**6))
    batch_size = data.draw(st.integers(1, min(dataset_size, 400)))
    k = data.draw(st.integers(1, min(400, dataset_size)))
    one = hypergeometric_law(batch_size, dataset_size, k)
    other = hypergeometric_law(k, dataset_size + k - batch_size, batch_size)
    assert np.array_equal(one[0], other[0])
    np.testing.assert_allclose(one[1], other[1], rtol=4e-16, atol=2e-16)


@given(k=st.integers(1, 500), rate=st.floats(1e-12, 1.0))
def test_binomial_has_its_mass_and_mean(k: int, rate: float):
    probabilities, _ = binomial_law(k, rate)
    assert math.fsum(probabilities) == pytest.approx(1.0, abs=2e-16 * 4)
    assert math.fsum(probabilities * np.arange(k + 1)) == pytest.approx(k * rate, rel=1e-15 * 4)


@given(st.data())
def test_hypergeometric_has_its_mass_and_mean(data: st.DataObject):
    dataset_size = data.draw(st.integers(1, 10**15 - 500))
    batch_size = data.draw(st.integers(1, dataset_size))
    k = data.draw(st.integers(1, min(300, dataset_size)))
    probabilities, _ = hypergeometric_law(batch_size, dataset_size, k)
    mean = k * batch_size / (dataset_size + k)
    assert math.fsum(probabilities) == pytest.approx(1.0, abs=2e-16 * 4)
    assert math.fsum(probabilities * np.arange(len(probabilities))) == pytest.approx(mean, rel=1e-15 * 4)
