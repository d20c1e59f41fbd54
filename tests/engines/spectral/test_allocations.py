"""Rounds of random allocations in the spectral engine: golden values, closed forms, an oracle, properties."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter

import numpy as np
import pytest

from groupdp import pairs
from groupdp.engines import spectral
from groupdp.engines.spectral import _kernel, packed
from groupdp.errors import LimitExceeded
from groupdp.pairs import Allocation, AllocationRound
from kernel_inspect import kernel
from oracle import allocation as oracle
from oracle import few_places as truth
from paths import TESTS

CASES = json.loads((TESTS / "golden" / "allocations.json").read_text(encoding="utf-8"))["cases"]


def name_of(case) -> str:
    keys = ("kind", "batches", "epochs", "noise_multiplier", "group_size", "adjacency", "bound")
    return " ".join(str(case.get(key, "")) for key in keys)


def epoch_of(case) -> AllocationRound:
    batches, k, noise = case["batches"], case["group_size"], float(case["noise_multiplier"])
    reverse = case["adjacency"] == "add"
    if k == 1 or case["kind"] == "spread":
        size, larger = divmod(batches, k)
        product = ((Allocation(size, 1 / noise), k - larger), (Allocation(size + 1, 1 / noise), larger))
        return AllocationRound((tuple(part for part in product if part[1] > 0),), reverse=reverse)
    return coin(batches, k, noise, reverse, floor=case["bound"].endswith("floor"))


def coin(batches: int, k: int, noise: float, reverse: bool, *, floor: bool) -> AllocationRound:
    """The coin over ordered counts of the occupied bins: binom(N, m) k! / N^k prod 1 / c_j! each."""
    weights: dict[tuple, float] = {}
    for m in range(1, k + 1):
        size, larger = divmod(batches, m)
        sizes = [size + (j < larger and not floor) for j in range(m)]
        for counts in compositions(k, m):
            weight = math.comb(batches, m) * math.factorial(k) / batches**k
            weight /= math.prod(map(math.factorial, counts))
            key = tuple(sorted(Counter(zip(sizes, counts, strict=True)).items()))
            weights[key] = weights.get(key, 0.0) + weight
    products = [tuple((Allocation(size, c / noise), times) for (size, c), times in key) for key in weights]
    return AllocationRound(tuple(products), tuple(min(math.log(w), 0.0) for w in weights.values()), reverse)


def compositions(k: int, m: int):
    for cuts in itertools.combinations(range(1, k), m - 1):
        yield tuple(b - a for a, b in itertools.pairwise((0, *cuts, k)))


SMALL = [case for case in CASES if case["group_size"] <= 8 or case["kind"] == "spread"]


@pytest.mark.parametrize("case", SMALL, ids=name_of)
def test_golden_values(case):
    found = spectral.epsilon(((epoch_of(case), case["epochs"]),), log_delta=math.log(float(case["delta"])))
    golden = float(case["epsilon"])
    last_digit = 10.0 ** (math.floor(math.log10(golden)) - case["digits"] + 1)
    assert found.lower - last_digit <= golden <= found.upper + last_digit
    # The coin of (100, 1, 1, 4), one round whose losses are rare and large, is the widest.
    assert found.upper - found.lower <= (1e-8 if "bound" not in case else 3e-8) * max(1.0, golden)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("places", "shift", "p"), [(2, 0.7, 1.0), (2, 1.3, 0.4), (1, 0.5, 1.0)])
def test_the_characteristic_function_of_two_places(places, shift, p, reverse):
    """S-34: log phi at frequencies 0, 0.5, 1, ..., within its stated error."""
    tilt, step, samples = 2.0, 0.5, 12
    product = ((Allocation(places, shift, math.log(p)), 1),)
    one = AllocationRound((product, product), (math.log(0.25), math.log(0.75)), reverse)
    found = kernel.characteristic(packed(((one, 1),)), tilt, step, -30.0, samples)
    assert found is not None
    at = (lambda z: -z) if reverse else (lambda z: 1 + z)
    whole = truth.moment(places, shift, p, at(tilt))
    for i in range(samples):
        exact = truth.moment(places, shift, p, at(complex(tilt, i * step))) / whole
        turned = complex(found["log_modulus"][i], found["angle"][i] + i * step * found["centre"])
        assert abs(np.exp(turned) - exact) <= abs(exact) * math.expm1(found["log_error"][i]) + 1e-12
        assert math.log(abs(exact)) <= found["log_largest"][i] + 1e-9


@pytest.mark.thinned
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_mixed_compositions_match_the_oracle(epsilon, reverse):
    """Allocations to 2 and 3 places, one of them of a group that may be absent, and a Gaussian mechanism."""
    factors = [(2, 0.6, 1.0, 2), (3, 0.5, 1.0, 1), (2, 0.8, 0.3, 1)]
    product = tuple((Allocation(m, s, math.log(p)), times) for m, s, p, times in factors)
    gaussian = pairs.Round.of(pairs.Side.point(0.4), pairs.ZERO)
    composition = ((AllocationRound((product,), reverse=reverse), 1), (gaussian, 1))
    exact = truth.log_delta(factors, mu=0.4, epsilon=epsilon, reverse=reverse)
    found = spectral.log_delta(composition, epsilon=epsilon)
    assert found.lower - 1e-9 <= exact <= found.upper + 1e-9
    assert found.upper - found.lower < 1e-7


def test_one_place_is_a_gaussian_mechanism():
    product = ((Allocation(1, 0.2), 1),)
    gaussian = spectral.epsilon(((pairs.Round.of(pairs.Side.point(0.2), pairs.ZERO), 10),), log_delta=-14.0)
    for reverse in (False, True):
        alone = spectral.epsilon(((AllocationRound((product,), reverse=reverse), 10),), log_delta=-14.0)
        twice = AllocationRound((product, product), (math.log(0.5),) * 2, reverse)
        as_table = spectral.epsilon(((twice, 10),), log_delta=-14.0)
        assert alone.lower <= gaussian.upper
        assert gaussian.lower <= alone.upper
        assert as_table.lower <= gaussian.lower
        assert gaussian.upper <= as_table.upper
        assert as_table.upper - as_table.lower < 1e-9


def test_one_place_of_a_group_that_may_be_absent_is_a_mixture():
    law = pairs.Side(np.array([0.0, 1.5]), (np.array([0.9, 0.1]), np.log([0.9, 0.1])))
    one = AllocationRound((((Allocation(1, 1.5, math.log(0.1)), 2),),))
    mixture = spectral.epsilon(((pairs.Round.of(law, pairs.ZERO), 60),), log_delta=-12.0)
    found = spectral.epsilon(((one, 30),), log_delta=-12.0)
    assert max(found.lower, mixture.lower) <= min(found.upper, mixture.upper)
    mirrored = spectral.epsilon(((pairs.Round.of(pairs.ZERO, law), 60),), log_delta=-12.0)
    found = spectral.epsilon(((one.mirrored, 30),), log_delta=-12.0)
    assert max(found.lower, mirrored.lower) <= min(found.upper, mirrored.upper)


QUESTIONS = [
    *itertools.product([2, 9, 100, 1000], [0.25, 0.7, 1.0, 2.5], [3, 40], [False, True], [-5.0, -14.0, -40.0]),
]


@pytest.mark.parametrize(("places", "shift", "times", "reverse", "log_delta"), QUESTIONS[::5])
def test_delta_at_epsilon_is_the_delta_asked_for(places, shift, times, reverse, log_delta):
    """The contour of log_delta has another tilt, n and table: the two must not contradict each other."""
    composition = ((AllocationRound.of(places, shift, reverse=reverse), times),)
    try:
        found = spectral.epsilon(composition, log_delta=log_delta)
        at_upper = spectral.log_delta(composition, epsilon=found.upper)
        at_lower = spectral.log_delta(composition, epsilon=found.lower)
    except LimitExceeded:
        return
    assert at_upper.lower <= log_delta + 1e-12
    assert found.lower == 0.0 or at_lower.upper >= log_delta - 1e-12
    ceiling = spectral.epsilon_ceiling(composition, log_delta=log_delta, enough=0.0)
    assert ceiling >= found.lower


def test_a_small_n_does_not_use_stirlings_series():
    """log n! of n = 0, where Stirling's series is wrong by 5e-4: delta and epsilon contradicted each other."""
    composition = ((AllocationRound.of(100, 1.0, reverse=True), 5),)
    found = spectral.epsilon(composition, log_delta=math.log(1e-12))
    assert found.lower == pytest.approx(1.83605947289, abs=1e-9)
    assert spectral.log_delta(composition, epsilon=found.upper).upper == pytest.approx(math.log(1e-12), abs=1e-8)


def test_more_places_are_never_worse_and_all_are_below_the_gaussian():
    before = math.inf
    for places in (1, 2, 3, 5, 8, 20, 100):
        found = spectral.epsilon(((AllocationRound.of(places, 1.0), 6),), log_delta=-12.0)
        assert found.lower < before
        before = found.upper


def test_a_negative_epsilon_follows_from_the_exchanged_pair():
    composition = ((AllocationRound.of(50, 1.0), 5),)
    there = spectral.log_delta(pairs.mirrored(composition), epsilon=0.4)
    found = spectral.log_delta(composition, epsilon=-0.4)
    exact = math.log(-math.expm1(-0.4) + math.exp(-0.4 + there.upper))
    assert found.lower - 1e-8 <= exact <= found.upper + 1e-8


def test_rare_products_are_left_out_at_their_price():
    """S-12: a product of probability e^-60 changes the answer by less than its width."""
    common, rare = ((Allocation(50, 1.0), 1),), ((Allocation(5, 2.0), 1),)
    alone = spectral.epsilon(((AllocationRound((common,)), 5),), log_delta=-14.0)
    both = spectral.epsilon(((AllocationRound((common, rare), (0.0, -60.0)), 5),), log_delta=-14.0)
    assert max(alone.lower, both.lower) <= min(alone.upper, both.upper)
    assert both.provenance.evaluations["nodes"] == alone.provenance.evaluations["nodes"]


@pytest.mark.parametrize(("places", "shift"), [(5, 1e-5), (7, 50.0)])
def test_what_is_beyond_the_limits_is_declined(places, shift):
    with pytest.raises(LimitExceeded):
        spectral.epsilon(((AllocationRound.of(places, shift), 1),), log_delta=-14.0)


def test_bad_allocations_are_refused():
    (count, branches, mu, log_weights, allocated), *_ = packed(((AllocationRound.of(5, 1.0), 1),))
    for position, value in [(1, 0.5), (2, -1.0), (2, math.inf), (3, 0.1), (4, -0.1), (4, math.nan)]:
        spoiled = (*allocated[:position], np.array([value]), *allocated[position + 1 :])
        with pytest.raises(ValueError, match="an allocation must have"):
            _kernel.epsilon([(count, branches, mu, log_weights, spoiled)], -14.0)
    with pytest.raises(TypeError):
        _kernel.epsilon([(count, branches, mu, log_weights, [1])], -14.0)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("times", [1, 5])
def test_a_coin_over_gaussians_is_the_coin_of_mixtures(reverse, times):
    """S-36: one place, everybody takes part: N(s) against N(0), which rounds of mixtures have closed forms for."""
    shifts, weights = (0.3, 0.9, 2.0), (0.875, 0.11, 0.015)
    products = tuple(((Allocation(1, shift), 1),) for shift in shifts)
    allocated = AllocationRound(products, tuple(map(math.log, weights)), reverse)
    branches = [pairs.Branch(pairs.Side.point(shift), pairs.ZERO) for shift in shifts]
    coin = pairs.Round(branches, tuple(map(math.log, weights)))
    for target in (1e-3, 1e-6):
        one = spectral.epsilon(((allocated, times),), log_delta=math.log(target))
        other = spectral.epsilon(((coin, times),), log_delta=math.log(target))
        assert max(one.lower, other.lower) <= min(one.upper, other.upper)
        assert one.width <= 1e-6


def test_gaussian_factors_have_no_tables():
    """S-36: a shift beyond those of a table, in a coin with factors that need one: the rare branch reveals all."""
    products = (((Allocation(20, 0.5), 2),), ((Allocation(1, 40.0), 1),))
    one = AllocationRound(products, (math.log1p(-1e-40), math.log(1e-40)))
    alone = AllocationRound(products[:1])
    with_rare = spectral.epsilon(((one, 20),), log_delta=math.log(1e-6))
    assert with_rare.upper >= spectral.epsilon(((alone, 20),), log_delta=math.log(1e-6)).lower
    assert with_rare.lower <= spectral.epsilon(((alone, 20),), log_delta=math.log(1e-6 - 1e-12)).upper


@pytest.mark.parametrize("weight", [1e-17, 1e-13, 1e-10])
def test_s_12_rare_products_of_a_coin_cost_what_they_weigh(weight):
    """A product whose loss is always above epsilon adds its probability to delta, and no more."""
    alone = ((AllocationRound.of(10, 1.0), 5),)
    products = (((Allocation(10, 1.0), 1),), ((Allocation(3, 1.0), 1), (Allocation(1, 40.0), 1)))
    coin = ((AllocationRound(products, (math.log1p(-weight), math.log(weight))), 5),)
    beyond = -math.expm1(5.0 * math.log1p(-weight))
    true = spectral.epsilon(alone, log_delta=math.log((1e-6 - beyond) / (1.0 - beyond)))
    found = spectral.epsilon(coin, log_delta=math.log(1e-6))
    assert found.lower <= true.upper
    assert true.lower <= found.upper <= true.upper * (1.0 + 1e-4)


@pytest.mark.parametrize(
    ("size", "batches", "noise", "epochs", "reverse"),
    [(4, 3000, 4.0, 20, False), (4, 3000, 4.0, 20, True), (4, 100_000, 1.0, 20, True)],
)
def test_s_90_samples_that_are_not_resolved_do_not_grow(size, batches, noise, epochs, reverse):
    """S-90: powers of unresolved samples were of any size, and the contour was declined, beside the oracle's value."""
    true = oracle.epsilon([(oracle.spread(size, batches, noise), epochs, reverse)], delta=1e-6)
    part = ((Allocation(batches // size, 1.0 / noise), size),)
    found = spectral.epsilon(((AllocationRound((part,), reverse=reverse), epochs),), log_delta=math.log(1e-6))
    assert found.lower - 1e-8 <= true <= found.upper + 1e-8
    assert found.width < 1e-7
