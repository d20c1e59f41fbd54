"""Hidden allocations in the checker (C-30 to C-35): moments against integrals, laws against enumerations, and claims
that are not true."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import math
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from flint import acb, arb, ctx, fmpq

import groupdp
from groupdp.certificate import certify, verify
from groupdp.certificate.checker.allocations import hidden_collisions, hidden_rounds, histograms
from groupdp.certificate.checker.lines import Factor, Hidden, Moments, Place, hidden_line
from groupdp.certificate.checker.reading import Clock, Undecided
from groupdp.certificate.prover.float_hidden import FloatHidden

#: A single place that is seldom taken, and two places: both have moments that are integrals over one variable.
ALONE, TWO = Factor(1, fmpq(9, 4), fmpq(1, 3)), Factor(2, fmpq(1, 2))


def moment(factor: Factor, w: acb) -> acb:
    """E[X^w]; of two places X = e^{sU/sqrt 2 - s^2/2} cosh(sV/sqrt 2), U and V independent."""
    s, p = arb(factor.square).sqrt(), arb(factor.taking)
    outside = acb(1)
    if factor.places == 2:
        outside = (w * w * s**2 / 4 - w * s**2 / 2).exp()

    def density(z: acb, _: Any) -> acb:
        inner = (s * z / arb(2).sqrt()).cosh() if factor.places == 2 else 1 - p + p * (s * z - s**2 / 2).exp()
        return inner**w * (-z * z / 2).exp() / (2 * arb.pi()).sqrt()

    return outside * acb.integral(density, -30, 30)


@functools.cache
def good_hints(factor: Factor, reverse: bool) -> dict[str, Any]:
    return FloatHidden(Hidden([(fmpq(1), ((factor, 1),))], reverse)).sums(factor, 2.0, 3.0, 8.0, 20.0)


def samples(table: Moments, reverse: bool) -> list[acb]:
    return table.line(Place(arb(2), arb(3), arb(4), 3, Clock()), reverse)[0]


@functools.cache
def true_samples(factor: Factor, reverse: bool) -> list[acb]:
    return [moment(factor, -acb(2, 4 * j) if reverse else 1 + acb(2, 4 * j)) for j in range(3)]


SPOILT = {
    "step": lambda hints, by: hints.update(
        step=hints["step"] * (1 + by), ratio=3 * hints["ratio"], low=3 * hints["low"], high=3 * hints["high"]
    ),
    "ratio": lambda hints, by: hints.update(
        ratio=1, strip=hints["strip"] / (1 + by), low=hints["low"] // hints["ratio"], high=hints["high"]
    ),
    "low": lambda hints, by: hints.update(low=round(hints["low"] / (1 + by))),
    "high": lambda hints, by: hints.update(high=round(hints["high"] / (1 + by))),
}


def assert_encloses_and_felt(tables: Any, factor: Factor, reverse: bool, felt: float) -> None:
    """Every decided enclosure has the truth; some middle is off by `felt`, so that forgetting an error would show."""
    decided, missed, true = 0, 0.0, true_samples(factor, reverse)
    for table in tables:
        with suppress(Undecided):
            for ball, exact in zip(samples(table(), reverse), true, strict=True):
                assert ball.overlaps(exact), (ball, exact)
                missed = max(missed, float(abs(ball.mid() - exact)))
            decided += 1
    assert decided >= 1
    assert missed >= felt


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("factor", [ALONE, TWO])
@pytest.mark.parametrize("spoilt", SPOILT)
def test_moments_are_enclosed_whatever_the_hints(factor, reverse, spoilt):
    # C-31 (step of log lambda), C-32 (step of Z), C-33 (range of Z)
    if spoilt == "ratio":  # steps of Z are long where shifts are small
        factor = Factor(factor.places, fmpq(1, 100), factor.taking)
    tables = []
    for by in (0.3, 0.8, 2.0):
        hints = copy.deepcopy(good_hints(factor, reverse))
        SPOILT[spoilt](hints, by)
        tables.append(functools.partial(Moments, factor, hints, Clock()))
    with ctx.workprec(128):
        assert_encloses_and_felt(tables, factor, reverse, 1e-12)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("factor", [ALONE, TWO])
def test_moments_are_enclosed_whatever_the_range(factor, reverse):
    # C-34: nodes of log lambda are left out at either end, with the moment of another order in the bound; the largest X
    # is not far away where shifts are small
    factor = Factor(factor.places, fmpq(1, 400), factor.taking)
    hints = FloatHidden(Hidden([(fmpq(1), ((factor, 1),))], reverse)).sums(factor, 2.0, 3.0, 8.0, 45.0)

    def shorter(before: int, after: int, power: float) -> Moments:
        table = copy.copy(whole)
        table.values = whole.values[before : len(whole.values) - after]
        table.first, table.last, table.v = whole.first + before, whole.last - after, arb(power)
        return table

    with ctx.workprec(256):
        whole = Moments(factor, hints, Clock())
        count = len(whole.values)
        for cut in ((1, 0), (0, 1)):
            tables = [
                functools.partial(shorter, n * cut[0], n * cut[1], power)
                for n in range(0, count - 8, 6)
                for power in (hints["power"], hints["power"] / 3)
            ]
            assert_encloses_and_felt(tables, factor, reverse, 1e-18)


def test_moments_of_many_places_are_those_of_sums():
    # C-31: E[X^2] and E[X^3] of a mean of a hundred lognormals, with the group present half of the time
    factor = Factor(100, fmpq(1, 4), fmpq(1, 2))
    line = FloatHidden(Hidden([(fmpq(1), ((factor, 1),))]))
    with ctx.workprec(160):
        big, p = 100, arb(1) / 2
        powers = [(arb(j * (j - 1)) / 8).exp() for j in range(4)]
        second = (big * powers[2] + big * (big - 1)) / big**2
        third = (big * powers[3] + 3 * big * (big - 1) * powers[2] + big * (big - 1) * (big - 2)) / big**3
        exact = {
            1: (1 - p) ** 2 + 2 * p * (1 - p) + p**2 * second,
            2: (1 - p) ** 3 + 3 * p * (1 - p) ** 2 + 3 * p**2 * (1 - p) * second + p**3 * third,
        }
        for c, true in exact.items():
            hints = line.sums(factor, c, c + 1.0, 2.0, 30.0)
            found, far = Moments(factor, hints, Clock()).line(Place(arb(c), arb(c + 1), arb(1), 1, Clock()), False)
            assert found[0].real.contains(true)
            assert found[0].real.rad() < 1e-12
            assert far >= true


def test_decay_bounds_the_moments_further_out():
    # C-35: |E[X^(3 + is)]| <= E[X^3] e^{-s^2 shift^2 / (2 M)}, an equality for Gaussians
    one = Hidden([(fmpq(1, 4), ((TWO, 3),)), (fmpq(3, 4), ((Factor(1, fmpq(1, 8)), 2), (ALONE, 1)))])
    hints = FloatHidden(one).hints(2.0, 3.0, 8.0, 30.0)
    with ctx.workprec(192):
        place = Place(arb(2), arb(3), arb(4), 2, Clock())
        line = hidden_line(one, hints, place)
        for s in (8, 11, 16):
            w = acb(3, s)
            gaussian = (w * (w - 1) / 8).exp()
            true = moment(TWO, w) ** 3 / 4 + fmpq(3, 4) * gaussian * moment(ALONE, w)
            assert abs(true) <= line.decay * line.samples[0].real * (1 + arb(10) ** -20)
        assert line.decay < 1
        gaussian_line = hidden_line(Hidden([(fmpq(1), ((Factor(1, fmpq(1, 8)), 2),))]), {"factors": []}, place)
        assert gaussian_line.decay >= (-(arb(8) ** 2) / 8).exp() * (1 - arb(10) ** -20)


def test_histograms_are_those_of_all_allocations():
    # C-30: three members in four batches, and two members in two of four batches each
    for size, often in ((3, 1), (2, 2)):
        subsets = list(itertools.combinations(range(4), often))
        counted: Counter[Any] = Counter()
        for chosen in itertools.product(subsets, repeat=size):
            counts = Counter(Counter(itertools.chain(*chosen)).values())
            counted[tuple(sorted(counts.items(), reverse=True))] += 1
        whole = sum(counted.values())
        assert histograms(size, often, 4, lambda: None) == {one: fmpq(n, whole) for one, n in counted.items()}


def test_collisions_that_have_no_block_are_missing():
    # C-30: p_{2,1} p_{2,2} for two pairs, p_{3,1} and p_{4,1}, by P-17
    found = hidden_collisions(4, 100, fmpq(1), {"single": 20, "blocks": [[2, 1, 10]]})
    p = {(c, i): fmpq(100 * math.comb(4 - c * (i - 1), c), i * 96**c) for c, i in ((2, 1), (2, 2), (3, 1), (4, 1))}
    assert found.missing == p[2, 1] * p[2, 2] + p[3, 1] + p[4, 1]
    assert dict(found.coin[0][1]) == {Factor(20, fmpq(1)): 4, Factor(10, fmpq(4), p[2, 1]): 1}
    assert found.larger


@pytest.mark.parametrize(
    "law",
    [
        {"single": 23, "blocks": [[2, 1, 10]]},  # one block too large: 102 of 100 batches
        {"single": 20, "blocks": [[2, 1, 10], [2, 1, 10]]},
        {"single": 20, "blocks": [[2, 2, 10]]},
        {"single": 0, "blocks": []},
        {"single": 20, "blocks": [[2, 1, 0]]},
        {"single": 20, "blocks": [[2, 1, 1.5]]},
        {"single": 20.0, "blocks": []},
        {"single": 20},
        {"single": 20, "blocks": [[5, 1, 2]]},
        {"least": -1},
        {"parts": 0},
        {"parts": 5},
        {"parts": 2.0},
    ],
)
def test_blocks_that_do_not_fit_prove_nothing(law):
    phase = {"sampling": "balls-in-bins", "batches": 100}
    with pytest.raises(Undecided):
        hidden_rounds(phase, (4, 0), fmpq(1), 100, law, lambda: None)


def test_parts_share_the_noise_and_prove_nothing_from_below():
    # C-30: five members in two parts, two of whom have 2/5 of the variance; a person's own examples are not independent
    phase = {"sampling": "balls-in-bins", "batches": 100}
    found = hidden_rounds(phase, (0, 5), fmpq(1, 4), 300, {"parts": 2, "least": 0}, lambda: None)
    assert [times for _, times in found] == [3, 3]
    squares = [min(factor.square for factor in one.factors) for one, _ in found]
    assert squares == [fmpq(5, 12), fmpq(5, 8)]
    assert all(one.larger and one.reverse for one, _ in found)
    with pytest.raises(Undecided):
        hidden_rounds({**phase, "sampling": "spread"}, (4, 0), fmpq(1), 100, {"parts": 2}, lambda: None)


THROWN, SPREAD = groupdp.BallsInBinsSampling(batches=20), groupdp.SpreadSampling(batches=20)
ASKED = {
    "one": (THROWN, 1, "add-or-remove"),
    "cut": (groupdp.SpreadSampling(batches=30), 1, "remove"),
    "spread": (SPREAD, 3, "add-or-remove"),
    "thrown": (THROWN, 2, "add"),
    "twice": (groupdp.AllocationSampling(batches=20, participations=2), 1, "zero-out"),
    "replaced": (SPREAD, 2, "substitute"),
    "evenly": (groupdp.SpreadSampling(batches=3, evenly=True), 5, "remove"),
}


@functools.cache
def certified(name: str) -> tuple[Any, Any]:
    sampling, size, adjacency = ASKED[name]
    run = groupdp.DPSGD(sampling, noise_multiplier=2.0, steps=200)
    made = certify(run, delta=1e-6, group_size=size, adjacency=adjacency)
    return made, groupdp.epsilon(run, delta=1e-6, group_size=size, adjacency=adjacency)


@pytest.mark.parametrize("name", ASKED)
def test_hidden_allocations_are_certified(name):
    made, bounds = certified(name)
    assert made.verdict.outcome == "verified"
    assert verify(made.text).outcome == "verified"
    claim = made.document["claim"]
    assert bounds.upper * (1 - 1e-9) <= float(claim["epsilon"]["upper"]) <= bounds.upper * (1 + 1e-7)
    assert claim["tight"] is bounds.tight is (name in ("one", "cut"))
    assert (float(claim["epsilon"]["lower"]) > bounds.lower * (1 - 1e-9)) is claim["tight"]


def altered(name: str, change: Any) -> str:
    document = copy.deepcopy(certified(name)[0].document)
    change(document["claim"], document["hints"])
    return verify(json.dumps(document)).outcome


def sides(lower: float, upper: float) -> Any:
    def change(claim: dict[str, Any], _: Any) -> None:
        by = {"lower": lower, "upper": upper}
        claim["epsilon"] = {name: f"{float(value) * by[name]:.17f}" for name, value in claim["epsilon"].items()}

    return change


@pytest.mark.parametrize("name", ["one", "spread", "thrown", "replaced"])
def test_claims_that_say_too_little_are_not_verified(name):
    assert altered(name, lambda *_: None) == "verified"
    assert altered(name, sides(0, 1 - 1e-7)) != "verified"
    for noise in ("1.999999", "1.9"):
        assert altered(name, lambda claim, _, noise=noise: claim["run"][0].update(noise_multiplier=noise)) != "verified"
    assert altered(name, lambda claim, _: claim["run"][0].update(batches=claim["run"][0]["batches"] - 1)) != "verified"
    assert altered(name, lambda claim, _: claim["run"][0].update(steps=220)) != "verified"
    assert altered(name, lambda claim, _: claim.update(group_size=claim["group_size"] + 1)) != "verified"


def test_a_lower_side_and_tightness_need_the_exact_law():
    assert altered("one", sides(1 + 1e-7, 2)) != "verified"
    for name in ("spread", "thrown", "replaced"):  # C-30: nothing is known from below
        assert altered(name, lambda claim, _: claim.update(tight=True)) == "refuted"
        assert altered(name, lambda claim, _: claim["epsilon"].update(lower="0.01")) != "verified"

    def revealed(claim: dict[str, Any], hints: dict[str, Any]) -> None:
        """True of the allocation revealed, a different law; the run itself has a far smaller epsilon."""
        claim["epsilon"] = {"lower": "8.2", "upper": "8.4"}
        for one in hints.values():
            one["laws"] = ["revealed"]

    assert altered("one", revealed) == "refuted"  # it says tight
    assert altered("one", lambda claim, hints: (revealed(claim, hints), claim.update(tight=False))) == "undecided"
    assert altered("one", lambda claim, _: claim["epsilon"].update(lower="8.2", upper="8.4")) == "refuted"


def test_more_examples_than_batches_need_to_be_spread_evenly():
    assert altered("evenly", lambda claim, _: claim["run"][0].pop("evenly")) == "undecided"
    assert altered("evenly", lambda claim, _: claim["run"][0].update(evenly=False)) == "undecided"
